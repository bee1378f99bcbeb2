"""The Spark session on the driver, one long job per slot, and short tasks."""

from sparkmirror.session.equipping import FOLDER, SHIP
from sparkmirror.session.packages import write_packages
from sparkmirror.session.spark_settings import require_classic
from sparkmirror.session.spark_slots import SparkSlots
from sparkmirror.session.spark_work import SparkWork

__all__ = ["FOLDER", "SHIP", "SparkSlots", "SparkWork", "require_classic", "write_packages"]
