"""The Spark data sources `kafka-records` and `kafka-ledger`. Nothing is imported here: Spark and Arrow are imported where
they are used."""
