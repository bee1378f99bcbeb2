"""The Spark session on the driver, and one long job per slot."""

from sparkmirror.session.spark_slots import SparkSlots

__all__ = ["SparkSlots"]
