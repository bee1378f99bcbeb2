"""The little of ASN.1 (DER) that key stores and certificates need. Lengths are checked before anything is cut."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["DerRefused", "Item", "certificate_days", "items", "only_item"]

SEQUENCE, SET, INTEGER, OCTETS, OID = 0x30, 0x31, 0x02, 0x04, 0x06
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
LENGTH_BYTES_MAX = 4  # a store of 4 GiB is no store


class DerRefused(ValueError):
    """Bytes that are not the ASN.1 that is wanted."""


@dataclass(frozen=True, slots=True)
class Item:
    """One tagged value; `whole` are its bytes with tag and length."""

    tag: int
    content: bytes
    whole: bytes

    def children(self) -> list[Item]:
        """The items inside."""
        return list(items(self.content))

    def expect(self, tag: int) -> Item:
        """Itself, if it has this tag."""
        if self.tag != tag:
            raise DerRefused(f"tag {self.tag:#x}, expected {tag:#x}")
        return self

    @property
    def number(self) -> int:
        """The value of an INTEGER."""
        return int.from_bytes(self.expect(INTEGER).content, "big", signed=True)

    @property
    def name(self) -> str:
        """The dotted text of an OBJECT IDENTIFIER."""
        content = self.expect(OID).content
        if not content:
            raise DerRefused("an empty object identifier")
        parts, value = [str(min(content[0] // 40, 2)), str(content[0] - 40 * min(content[0] // 40, 2))], 0
        for byte in content[1:]:
            value = value << 7 | byte & 0x7F
            if not byte & 0x80:
                parts.append(str(value))
                value = 0
        return ".".join(parts)


def items(data: bytes) -> Iterator[Item]:
    """Items one after the other."""
    at = 0
    while at < len(data):
        start = at
        if at + 2 > len(data):
            raise DerRefused("cut off")
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            if not 1 <= count <= LENGTH_BYTES_MAX or at + count > len(data):
                raise DerRefused("a length that cannot be")
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        if at + size > len(data):
            raise DerRefused("cut off")
        yield Item(tag, data[at : at + size], data[start : at + size])
        at += size


def only_item(data: bytes, tag: int) -> Item:
    """The first item; what follows it is not looked at."""
    for item in items(data):
        return item.expect(tag)
    raise DerRefused("nothing there")


def certificate_days(certificate: bytes) -> tuple[datetime.datetime, datetime.datetime]:
    """From when to when a certificate is valid."""
    fields = only_item(certificate, SEQUENCE).children()[0].expect(SEQUENCE).children()
    at = 4 if fields and fields[0].tag == 0xA0 else 3  # version?, serial, algorithm, issuer, validity
    if len(fields) <= at:
        raise DerRefused("no validity")
    validity = fields[at].expect(SEQUENCE).children()
    if len(validity) != 2:
        raise DerRefused("no validity")
    return _time(validity[0]), _time(validity[1])


def _time(item: Item) -> datetime.datetime:
    text = item.content.decode("ascii", "replace")
    if item.tag == UTC_TIME:  # two digits of the year: 50 to 99 are the last century (RFC 5280)
        text = ("19" if text[:2] >= "50" else "20") + text
    elif item.tag != GENERALIZED_TIME:
        raise DerRefused("no time")
    try:
        return datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=datetime.UTC)
    except ValueError as error:
        raise DerRefused("no time") from error
