"""Fields of Kafka's schema types as MM2's internal records use them, and the error for records that break them.

All integers are big-endian. STRING is an int16 length and that many bytes of UTF-8, never null. Bytes after the last
field are ignored on read, as Java does.
"""

from __future__ import annotations

import struct

from sparkmirror.errors import ReplicationError

_STRING_BYTES_MAX = 32767


class MalformedInternalRecord(ReplicationError):
    """A record of one of MM2's internal topics that does not have the form it must have."""

    code = "MALFORMED_INTERNAL_RECORD"


def encode_string(text: str) -> bytes:
    """A STRING field."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise MalformedInternalRecord(f"text cannot be written as UTF-8: {error}") from error
    if len(data) > _STRING_BYTES_MAX:
        raise MalformedInternalRecord(f"text of {len(data)} bytes, at most {_STRING_BYTES_MAX} can be written")
    return struct.pack(">h", len(data)) + data


class FieldReader:
    """Reads the fields of one record part in order; `part` names it in errors."""

    __slots__ = ("_data", "_part", "_position")

    def __init__(self, data: bytes, part: str) -> None:
        self._data = data
        self._part = part
        self._position = 0

    def read_string(self) -> str:
        """A STRING field."""
        length = self._read_int(2)
        if length < 0:
            raise MalformedInternalRecord(f"{self._part}: text with a length of {length}")
        try:
            return self._read(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedInternalRecord(f"{self._part}: text is not UTF-8: {error.reason}") from error

    def read_int16(self) -> int:
        """An INT16 field."""
        return self._read_int(2)

    def read_int32(self) -> int:
        """An INT32 field."""
        return self._read_int(4)

    def read_int64(self) -> int:
        """An INT64 field."""
        return self._read_int(8)

    def _read_int(self, width: int) -> int:
        return int.from_bytes(self._read(width), "big", signed=True)

    def _read(self, width: int) -> bytes:
        start, self._position = self._position, self._position + width
        if self._position > len(self._data):
            found = len(self._data) - start
            raise MalformedInternalRecord(f"{self._part}: {width} bytes expected at byte {start}, {found} found")
        return self._data[start : self._position]
