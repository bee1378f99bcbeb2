"""Kafka topics in anyone's PySpark program: `register(session)`, then `format("kafka-records")`."""

from sparkmirror.datasource.registering import register

__all__ = ["register"]
