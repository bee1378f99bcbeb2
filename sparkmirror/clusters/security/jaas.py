"""The text of `sasl.jaas.config`: one login module, a control flag, options, a semicolon. Nothing is loaded by name.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="a\\"b";

Error texts say where and what was expected, never what was found: a wrongly quoted password looks like anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FLAGS = ("required", "requisite", "sufficient", "optional")
# A chain of certificates inside the text is the longest use; a longer one is a mistake.
JAAS_CHARACTERS_MAX = 1 << 18

_BLANK = re.compile(r"(?:\s+|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9_$.\-]+")
_QUOTED = re.compile(r'"((?:[^"\\\n\r]|\\[^\n\r])*)"|\'((?:[^\'\\\n\r]|\\[^\n\r])*)\'')
_ESCAPE = re.compile(r"\\(.)")
# What Java's tokenizer makes of them; it reads digits as octal numbers, which nobody means in a password.
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class JaasRefused(Exception):
    """The text is not one login module with options."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module and its options."""

    module: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasEntry:
    """The one entry of a JAAS text; raises `JaasRefused`."""
    if len(text) > JAAS_CHARACTERS_MAX:
        raise JaasRefused(f"expected at most {JAAS_CHARACTERS_MAX} characters, found {len(text)}")
    reader = _Reader(text)
    module = reader.word("the name of a login module")
    if reader.word("required").lower() not in FLAGS:
        raise reader.refused(f"expected one of {', '.join(FLAGS)} after the login module", before=True)
    options: dict[str, str] = {}
    while not reader.takes(";"):
        name = reader.word("an option or the closing `;`")
        if not reader.takes("="):
            raise reader.refused("expected `=` after the name of an option")
        if name in options:
            raise reader.refused(f"option {name} is written twice", before=True)
        options[name] = reader.value()
    if not reader.is_at_end:
        raise reader.refused("expected nothing after the `;`: one login module, that of the mechanism")
    return JaasEntry(module, options)


class _Reader:
    """Takes words, signs and quoted values from a text, blanks and comments left out."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._last = 0
        self._skip_blanks()

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._text)

    def word(self, wanted: str) -> str:
        found = _WORD.match(self._text, self._at)
        if found is None:
            raise self.refused(f"expected {wanted}")
        self._go(found.end())
        return found[0]

    def takes(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._go(self._at + len(sign))
        return True

    def value(self) -> str:
        found = _QUOTED.match(self._text, self._at)
        if found is None:
            return self.word('a value in quotes ("…"), closed on the same line')
        self._go(found.end())
        return _ESCAPE.sub(self._unescape, found[1] if found[1] is not None else found[2])

    def _unescape(self, match: re.Match[str]) -> str:
        if match[1].isdigit():
            reason = "a backslash and a digit is a number in Java; write the character itself, or two backslashes"
            raise self.refused(reason, before=True)
        return _ESCAPED.get(match[1], match[1])

    def refused(self, reason: str, *, before: bool = False) -> JaasRefused:
        at = self._last if before else self._at
        return JaasRefused(f"at character {at + 1}: {reason}")

    def _go(self, at: int) -> None:
        self._last, self._at = self._at, at
        self._skip_blanks()

    def _skip_blanks(self) -> None:
        found = _BLANK.match(self._text, self._at)
        assert found is not None  # it matches nothing at all, too
        self._at = found.end()
