"""`sparkmirror ship`."""

from sparkmirror.cli.ship.command import ship

__all__ = ["ship"]
