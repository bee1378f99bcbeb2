"""What runs inside a Spark task: a slot, its event loop and the hot path. Nothing is imported here: every worker pays."""
