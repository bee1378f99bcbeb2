"""Gathering: the only part of the doctor that asks clusters."""

from sparkmirror.tools.doctor.gathering.flow import GatherOptions, gather

__all__ = ["GatherOptions", "gather"]
