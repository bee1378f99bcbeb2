"""Runs of `sparkmirror` for tests, forked by a process that has imported it and keeps one JVM for their Sparks.

A run costs 5 s of CPU, of which 4 are Java's start and Python's imports; here it costs 1. What runs is the command's own
`main`, in a process of its own, with a SparkContext of its own, reached as a program under `spark-submit` reaches its JVM.
"""

from host.client import Hosted, close_host, host_suits, hosted_command, start_hosted

__all__ = ["Hosted", "close_host", "host_suits", "hosted_command", "start_hosted"]
