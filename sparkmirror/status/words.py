"""Text and numbers as every view writes them: on a terminal, in a log, on the page. Pure."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with everything that could steer a terminal, break a line or turn its direction written as an escape."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def amount(number: float) -> str:
    """1234567.8 as `1,234,568`."""
    return f"{number:,.0f}"


def megabytes(size: float) -> str:
    """Bytes as `61.2 MB`; from 10 GB on as `12.3 GB`."""
    return f"{size / 1e9:,.1f} GB" if size >= 10e9 else f"{size / 1e6:,.1f} MB"


def duration(seconds: float) -> str:
    """72.4 as `1 min 12 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
