"""Gathering: the only part of the doctor that asks clusters."""

from sparkmirror.state.gathering.flow import GatherOptions, file_words_of, gather

__all__ = ["GatherOptions", "file_words_of", "gather"]
