"""`sparkmirror failover`, `failback` and `drill`."""

from sparkmirror.cli.failover.back import failback
from sparkmirror.cli.failover.command import failover
from sparkmirror.cli.failover.drill import drill

__all__ = ["drill", "failback", "failover"]
