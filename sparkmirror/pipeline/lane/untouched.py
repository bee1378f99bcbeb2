"""Which columns of a record the transforms leave alone, read from Spark's plan: those need not pass through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Use", "use_of"]

# Operators that pass the columns of their input on as they are; whatever else there is may do anything.
PASSING = ("Project", "Filter", "SubqueryAlias", "View")


@dataclass(frozen=True, slots=True)
class Use:
    """Columns that come out as they went in, and columns that something looks at."""

    kept: frozenset[str]
    read: frozenset[str]


def use_of(rows: DataFrame, out: DataFrame) -> Use:
    """What becomes of the columns of `rows` on their way to `out`: a column keeps its number while it is only passed on."""
    inputs = dict(_attributes(rows._jdf.queryExecution().analyzed().output()))
    plan = out._jdf.queryExecution().analyzed()
    operators = list(_operators(plan))
    if not all(_kind(operator) in PASSING for operator in operators):
        return Use(frozenset(), frozenset(inputs.values()))
    kept = {name for number, name in _attributes(plan.output()) if inputs.get(number) == name}
    numbers = {number for operator in operators for number in _read_by(operator)}
    return Use(frozenset(kept), frozenset(name for number, name in inputs.items() if number in numbers))


def _operators(plan: Any) -> Iterator[Any]:
    """All but the leaves."""
    children = plan.children()
    if children.size():
        yield plan
    for at in range(children.size()):
        yield from _operators(children.apply(at))


def _read_by(operator: Any) -> Iterator[int]:
    if _kind(operator) == "Filter":
        yield from _references(operator.condition())
    elif _kind(operator) == "Project":
        listed = operator.projectList()
        for at in range(listed.size()):
            if _kind(listed.apply(at)) != "AttributeReference":
                yield from _references(listed.apply(at))


def _references(expression: Any) -> Iterator[int]:
    for number, _ in _attributes(expression.references().toSeq()):
        yield number


def _attributes(found: Any) -> Iterator[tuple[int, str]]:
    for at in range(found.size()):
        attribute = found.apply(at)
        yield attribute.exprId().id(), attribute.name()


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
