"""The checks, one file per family. Pure: facts of one flow in, findings out."""

from sparkmirror.diagnose.rules.registry import RULES, judge, rule_ids

__all__ = ["RULES", "judge", "rule_ids"]
