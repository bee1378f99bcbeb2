"""sparkmirror verify."""

from sparkmirror.cli.verify.command import verify_command

__all__ = ["verify_command"]
