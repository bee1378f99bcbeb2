"""Java regular expressions, with Java's meaning: what cannot be given that meaning is refused by name.

Understood: literals, classes with union, `&&` and negation, `.`, `\\Q…\\E`, all character escapes, `\\d \\w \\s \\h
\\v`, POSIX classes and Unicode categories in `\\p{…}`, groups, look-ahead and look-behind, anchors, `\\b`, all
quantifiers, `(?i)` and `(?s)`. Possessive quantifiers and atomic groups are understood around one character, where
`x*+` is `x*` not followed by `x`. Refused: back references, `\\R`, `\\X`, `\\G`, the flags d, m, u, x and U.

Matching is always of the whole name and takes linear time (see `automaton`), so no pattern can hang the program.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.config.automaton import Alt, Machine, Node, TooLarge, build
from sparkmirror.config.java_regex_parser import Parser, RegexRefused

# A pattern that people wrote is far below; a generated one of this size should be a list.
PATTERN_CHARACTERS_MAX = 1024
LIST_CHARACTERS_MAX = 64 * 1024
_ANSWERS_KEPT_MAX = 50_000


class JavaPattern:
    """A compiled pattern, or list of patterns, that answers for whole names."""

    def __init__(self, text: str, machine: Machine) -> None:
        self.text = text
        self._machine = machine
        self._answers: dict[str, bool] = {}

    def fullmatch(self, name: str) -> bool:
        """Whether the whole of `name` fits, as Java's `Matcher.matches()` says."""
        answer = self._answers.get(name)
        if answer is None:
            if len(self._answers) >= _ANSWERS_KEPT_MAX:
                self._answers = {}
            answer = self._answers[name] = self._machine.matches(name)
        return answer

    def __repr__(self) -> str:
        return f"JavaPattern({self.text!r})"


def compile_java(pattern: str) -> JavaPattern:
    """The pattern `pattern`; raises `RegexRefused`."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise RegexRefused(pattern, f"it has {len(pattern)} characters, at most {PATTERN_CHARACTERS_MAX} are accepted")
    return _compiled(pattern)


def compile_list(patterns: Iterable[str]) -> JavaPattern:
    """All patterns joined by `|` before they are read, as MirrorMaker 2 does; an empty list matches nothing."""
    items = tuple(patterns)
    for item in items:
        if len(item) > PATTERN_CHARACTERS_MAX:
            raise RegexRefused(item, f"it has {len(item)} characters, at most {PATTERN_CHARACTERS_MAX} are accepted")
    joined = "|".join(items)
    if len(joined) > LIST_CHARACTERS_MAX:
        raise RegexRefused(joined, f"the list has {len(joined)} characters, at most {LIST_CHARACTERS_MAX} are accepted")
    return _compiled(joined) if items else JavaPattern("", build(Alt(())))


def _compiled(text: str) -> JavaPattern:
    node: Node = Parser(text).parse()
    try:
        return JavaPattern(text, build(node))
    except TooLarge as error:
        raise RegexRefused(text, "its counted repetitions are too large") from error
