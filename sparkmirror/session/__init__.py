"""The Spark session on the driver, one long job per slot, and short tasks."""

from sparkmirror.session.spark_slots import SparkSlots
from sparkmirror.session.spark_work import SparkWork

__all__ = ["SparkSlots", "SparkWork"]
