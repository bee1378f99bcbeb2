"""Rows of the fault table with Kafka's own MirrorMaker 2 in our place: the staging is asserted, the rest is reported."""
