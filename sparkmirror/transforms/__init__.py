"""The transform query: topics with transforms, copied exactly once by one Structured Streaming query of their flow.

Nothing is imported here: Spark and Arrow are imported where they are used.
"""
