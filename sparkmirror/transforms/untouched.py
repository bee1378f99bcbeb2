"""What the transforms do to each column of a record, read from Spark's plan: what need not pass through Spark does not.

A column may come out as it went in. Or it comes out changed by functions of ours alone, with nothing else looking at the
result: then the writer calls them itself, and the column need not pass either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparkmirror.transforms.orders import Change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Operators that pass the columns of their input on as they are; whatever else there is may do anything.
PASSING = ("Project", "Filter", "SubqueryAlias", "View")


@dataclass(frozen=True, slots=True)
class Use:
    """Columns that come out as they went in, columns that Spark must have, and what is left to the writer."""

    kept: frozenset[str]
    read: frozenset[str]
    changes: tuple[Change, ...] = ()

    @property
    def left_to_writer(self) -> frozenset[str]:
        """Columns that need not come out of Spark."""
        return self.kept | {change.column for change in self.changes}


def use_of(rows: DataFrame, out: DataFrame, ours: Mapping[str, Any] | None = None) -> Use:
    """What becomes of the columns of `rows` on their way to `out`; `ours` are our functions as Spark knows them, by name."""
    inputs = dict(_attributes(rows._jdf.queryExecution().analyzed().output()))
    plan = out._jdf.queryExecution().analyzed()
    operators = list(_operators(plan))
    if not all(_kind(operator) in PASSING for operator in operators):
        return Use(frozenset(), frozenset(inputs.values()))
    reading = _PlanReading(inputs, dict(_made(operators)), ours or {})
    kept, changes, needed = set[str](), list[Change](), set[int]()
    for operator in operators:
        if _kind(operator) == "Filter":
            needed.update(_references(operator.condition()))
    for number, name in _attributes(plan.output()):
        if inputs.get(number) == name:  # a column keeps its number while it is only passed on
            kept.add(name)
        elif (change := reading.change(number, name)) is not None:
            changes.append(change)
        else:
            needed.add(number)
    return Use(frozenset(kept), reading.inputs_behind(needed), tuple(changes))


@dataclass(frozen=True, slots=True)
class _PlanReading:
    """A plan's columns by their numbers: names of those that it begins with, and how the others are made."""

    inputs: Mapping[int, str]
    made: Mapping[int, Any] = field(default_factory=dict)
    ours: Mapping[str, Any] = field(default_factory=dict)

    def inputs_behind(self, numbers: set[int]) -> frozenset[str]:
        """What these columns are made of in the end."""
        found, left, seen = set[str](), list(numbers), set[int]()
        while left:
            number = left.pop()
            if number in seen:
                continue
            seen.add(number)
            if number in self.inputs:
                found.add(self.inputs[number])
            elif number in self.made:
                left += _references(self.made[number])
        return frozenset(found)

    def change(self, number: int, column: str) -> Change | None:
        """How a column is made of one that the plan begins with, by our own functions and texts alone; None if it is not."""
        steps: list[tuple[str, ...]] = []
        expression = self.made.get(number)
        while expression is not None:
            kind = _kind(expression)
            if kind == "Alias":
                expression = expression.child()
            elif kind == "AttributeReference":
                number = expression.exprId().id()
                if number in self.inputs:
                    return Change(column, self.inputs[number], tuple(reversed(steps))) if steps else None
                expression = self.made.get(number)
            elif kind == "PythonUDF" and (texts := self._texts(expression)) is not None:
                steps.append((expression.name(), *texts))
                expression = expression.children().apply(0)
            else:
                return None
        return None

    def _texts(self, call: Any) -> list[str] | None:
        """What one of our functions is given beside the column; None if it is not ours, or given anything but texts."""
        ours = self.ours.get(call.name())
        if ours is None or not call.func().equals(ours.func()):
            return None
        others = [call.children().apply(at) for at in range(1, call.children().size())]
        if not all(_kind(other) == "Literal" and other.dataType().simpleString() == "string" for other in others):
            return None
        if any(other.value() is None for other in others):
            return None
        return [other.value().toString() for other in others]


def _operators(plan: Any) -> Iterator[Any]:
    """All but the leaves."""
    children = plan.children()
    if children.size():
        yield plan
    for at in range(children.size()):
        yield from _operators(children.apply(at))


def _made(operators: list[Any]) -> Iterator[tuple[int, Any]]:
    for operator in operators:
        if _kind(operator) == "Project":
            listed = operator.projectList()
            for at in range(listed.size()):
                if _kind(listed.apply(at)) != "AttributeReference":
                    yield listed.apply(at).exprId().id(), listed.apply(at)


def _references(expression: Any) -> Iterator[int]:
    for number, _ in _attributes(expression.references().toSeq()):
        yield number


def _attributes(found: Any) -> Iterator[tuple[int, str]]:
    for at in range(found.size()):
        attribute = found.apply(at)
        yield attribute.exprId().id(), attribute.name()


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
