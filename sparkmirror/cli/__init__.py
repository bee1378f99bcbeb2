"""The command line: one file per verb."""

from sparkmirror.cli.app import connect_mirror_maker, main, offset_sync_inspector

__all__ = ["connect_mirror_maker", "main", "offset_sync_inspector"]
