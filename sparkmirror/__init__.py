"""Kafka cross-cluster replication whose data path runs as Spark tasks."""

__version__ = "0.1.0"
