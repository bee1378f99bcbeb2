"""A value that must not be seen: its text is `[hidden]`, its content is given only to who asks for it by name."""

from __future__ import annotations

import hmac
from typing import NoReturn, Self

HIDDEN = "[hidden]"


class Secret(str):
    """A string whose own characters are `[hidden]`; the real ones come out of `reveal()` alone.

    Because the hidden text is the string itself, and not a method that prints it, every way of showing a string
    (`str`, `repr`, `format`, `join`, JSON, logging) shows `[hidden]`.

    >>> f"{Secret('pa55')}"
    '[hidden]'
    >>> Secret('pa55').reveal()
    'pa55'
    """

    __slots__ = ("_content",)
    _content: str

    def __new__(cls, content: str) -> Self:
        made = super().__new__(cls, HIDDEN)
        made._content = content.reveal() if isinstance(content, Secret) else content
        return made

    def reveal(self) -> str:
        """The real text."""
        return self._content

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return False
        return hmac.compare_digest(self._content.encode("utf-8", "surrogatepass"), _bytes_of(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((HIDDEN, self._content))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # A pickle is a file or a network message sooner or later: Spark writes closures to local directories.
        raise TypeError("a secret is never pickled; send the path of the configuration file and load it there")


def _bytes_of(secret: Secret) -> bytes:
    return secret.reveal().encode("utf-8", "surrogatepass")
