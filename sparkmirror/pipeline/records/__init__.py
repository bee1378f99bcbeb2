"""The record lane: what is copied as rows, for whoever must look into it."""

from sparkmirror.pipeline.records.registering import register

__all__ = ["register"]
