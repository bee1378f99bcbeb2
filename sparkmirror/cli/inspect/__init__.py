"""sparkmirror inspect: how accurate each group's offset on the target is."""

from sparkmirror.cli.inspect.command import InspectCommand, InspectorCommand, inspect

__all__ = ["InspectCommand", "InspectorCommand", "inspect"]
