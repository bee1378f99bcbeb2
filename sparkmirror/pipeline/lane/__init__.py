"""The record lane in a run: topics whose records pass transforms, copied exactly once by one query of their flow."""

from sparkmirror.pipeline.lane.lane import RecordLane

__all__ = ["RecordLane"]
