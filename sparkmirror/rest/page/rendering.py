"""Templates to HTML: every value is escaped, and signs that steer a terminal or turn a line around are written out."""

from __future__ import annotations

from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from sparkmirror.rest.page.tones import sign_of, tone_of
from sparkmirror.status.wishes import wish_words
from sparkmirror.status.words import amount, duration, printable


def clock(time_ms: int) -> Markup:
    """A moment as an element that the script may show in another zone; the server writes UTC."""
    at = datetime.fromtimestamp(max(time_ms, 0) / 1000, UTC)
    whole = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(whole, f"{at:%Y-%m-%d %H:%M:%S}", f"{at:%H:%M:%S}")


def age(time_ms: int | None) -> str:
    """Milliseconds as people say it; a question mark where nobody knows."""
    if time_ms is None:
        return "?"
    seconds = time_ms / 1000
    return "–" if not time_ms else f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


def known(number: float | None) -> str:
    """A number with its thousands; a question mark where nobody knows."""
    return "?" if number is None else amount(number)


def name(text: object) -> Markup:
    """A name that others chose: it cannot turn the text around it."""
    return Markup("<bdi>{}</bdi>").format(printable(str(text)))


def flow(text: object) -> Markup:
    """A flow's name, its arrow as one sign; read aloud it says where to."""
    source, arrow, target = printable(str(text)).partition("->")
    if not arrow:
        return name(text)
    return Markup('<bdi>{}</bdi> <span aria-label="to" role="img">→</span> <bdi>{}</bdi>').format(source, target)


def prose(text: object) -> Markup:
    """A sentence with names in it."""
    return escape(printable(str(text).replace("\n", " ")))


def environment() -> Environment:
    """All templates, with what they may call."""
    made = Environment(
        loader=PackageLoader("sparkmirror.rest.page", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "amount": amount, "known": known, "age": age, "clock": clock, "name": name, "flow": flow, "prose": prose,
        "tone": tone_of, "sign": sign_of, "wish": wish_words,
    }  # fmt: skip
    return made
