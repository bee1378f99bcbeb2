"""`A->B.transform.<name>.…`: what happens to the records of some topics on their way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkmirror.config.java_regex import compile_list
from sparkmirror.config.java_regex_parser import RegexRefused
from sparkmirror.config.parsing import shown, split_list

PREFIX = "transform."
PARTS = ("topics", "sql", "function", "order")
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class TransformSettings:
    """One transform: SQL over the view `records`, or `module:callable` from DataFrame to DataFrame."""

    name: str
    topics: tuple[str, ...]
    sql: str
    function: str
    order: int


def transform_key_problem(name: str, text: str) -> str:
    """What is wrong with one key `transform.<name>.<part>` or its value; empty if nothing is."""
    _, _, rest = name.partition(".")
    called, _, part = rest.rpartition(".")
    if not called or part not in PARTS:
        return f"expected transform.NAME.{' or .'.join(PARTS)}"
    value = text.strip()
    if part == "order" and not value.lstrip("-").isdigit():
        return f"expected a whole number, found {shown(text)}"
    if part == "function" and not FUNCTION.match(value):
        return f"expected module:callable, found {shown(text)}"
    if part in ("topics", "sql") and not value:
        return "expected a value, found nothing"
    if part == "topics":
        try:
            compile_list(tuple(split_list(value)))
        except RegexRefused as error:
            return str(error)
    return ""


def read_transforms(texts: Mapping[str, str]) -> tuple[TransformSettings, ...]:
    """The transforms of a flow in the order in which they are applied; `texts` are its keys without its name."""
    found: dict[str, dict[str, str]] = {}
    for key, text in texts.items():
        if key.startswith(PREFIX):
            called, _, part = key.removeprefix(PREFIX).rpartition(".")
            found.setdefault(called, {})[part] = text.strip()
    made = [
        TransformSettings(
            called,
            tuple(split_list(parts.get("topics", ""))),
            parts.get("sql", ""),
            parts.get("function", ""),
            int(parts["order"]) if parts.get("order", "").lstrip("-").isdigit() else 0,
        )
        for called, parts in found.items()
    ]
    return tuple(sorted(made, key=lambda transform: (transform.order, transform.name)))


def transform_problems(flow: str, transforms: tuple[TransformSettings, ...]) -> Iterator[str]:
    """What is missing, or too much, in transforms whose keys are each right alone."""
    for transform in transforms:
        where = f"{flow}.{PREFIX}{transform.name}"
        if not transform.topics:
            yield f"{where}: expected {where}.topics, the topics whose records it changes"
        if bool(transform.sql) == bool(transform.function):
            both = "both" if transform.sql else "neither"
            yield f"{where}: expected either {where}.sql or {where}.function, found {both}"
