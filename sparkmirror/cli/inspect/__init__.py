"""sparkmirror inspect: what each group's position on the target is worth."""

from sparkmirror.cli.inspect.command import InspectCommand, InspectorCommand, inspect

__all__ = ["InspectCommand", "InspectorCommand", "inspect"]
