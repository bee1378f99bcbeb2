"""Our data sources in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkmirror.datasource.functions import register_functions
from sparkmirror.datasource.ledger_source import KafkaLedger
from sparkmirror.datasource.source import KafkaRecords

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

def register(session: SparkSession) -> None:
    """Makes `kafka-records`, `kafka-ledger` and our functions available in a session; doing it twice changes nothing."""
    session.dataSource.register(KafkaRecords)
    session.dataSource.register(KafkaLedger)
    register_functions(session)
