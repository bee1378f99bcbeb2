"""`sparkmirror status`: how every flow is, from the process that runs it, or else from both clusters."""

from sparkmirror.cli.status.command import status

__all__ = ["status"]
