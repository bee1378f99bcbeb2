"""Gathering: the only part of the doctor that asks clusters."""

from sparkmirror.state.gathering.flow import GatherOptions, gather

__all__ = ["GatherOptions", "gather"]
