"""The command line: one file per verb."""

from sparkmirror.cli.app import main

__all__ = ["main"]
