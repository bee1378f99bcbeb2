"""What a reader wants to see, as it stands in the URL: any filter and open row can be sent to others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args
from urllib.parse import urlencode

Sort = Literal["attention", "name", "lag", "age"]
TEXT_MAX = 300  # a topic's name has 249 signs at most
PAGE_MAX = 100_000


@dataclass(frozen=True, slots=True)
class PageQuery:
    """`text`: part of the name of a topic, its copy or a group. `topic`: whose row is open. Pages count from 1."""

    text: str = ""
    state: str = ""
    sort: Sort = "attention"
    page: int = 1
    topic: str = ""
    part: int = 1  # the page of the open topic's partitions
    is_all: bool = False  # also what is as it should be

    @property
    def is_filtered(self) -> bool:
        """Whether only some topics are looked for."""
        return bool(self.text or self.state)

    def query(self, **changes: object) -> str:
        """As a query string, with these changes; what is as usual is left out."""
        changed, usual = replace(self, **changes), PageQuery()  # type: ignore[arg-type]
        values = {field.name: getattr(changed, field.name) for field in fields(self)}
        words = {name: value for name, value in values.items() if value != getattr(usual, name)}
        return urlencode({_KEYS[name]: "1" if value is True else str(value) for name, value in words.items()})


_KEYS = {"text": "q", "state": "state", "sort": "sort", "page": "page", "topic": "topic", "part": "part", "is_all": "all"}


def wanted_of(query: Mapping[str, str]) -> PageQuery:
    """Whatever somebody typed into the address: what makes no sense is as usual."""
    sort = query.get("sort", "")
    return PageQuery(
        text=query.get("q", "").strip()[:TEXT_MAX],
        state=query.get("state", "")[:TEXT_MAX],
        sort=sort if sort in get_args(Sort) else "attention",  # type: ignore[arg-type]
        page=_number(query.get("page", "")),
        topic=query.get("topic", "")[:TEXT_MAX],
        part=_number(query.get("part", "")),
        is_all=query.get("all", "") == "1",
    )


def _number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= 6
    return min(max(int(text), 1), PAGE_MAX) if is_number else 1
