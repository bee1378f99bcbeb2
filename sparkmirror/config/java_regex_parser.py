"""Parses the text of a Java regular expression into the nodes of `automaton`."""

from __future__ import annotations

import re
from typing import NoReturn

from sparkmirror.config import charset
from sparkmirror.config.automaton import Alt, Chars, Edge, Look, Node, Repeat, Seq
from sparkmirror.config.charset import CharSet

NESTING_MAX = 50
COUNT_MAX = 1000
_COUNT = re.compile(r"\{([0-9]{1,9})(,([0-9]{1,9})?)?\}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAMED_GROUP = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.|.", re.DOTALL)
_PROPERTY = re.compile(r"\{([^}]*)\}|(.)", re.DOTALL)
_HEX = (re.compile(r"x([0-9a-fA-F]{2})"), re.compile(r"x\{([0-9a-fA-F]{1,8})\}"), re.compile(r"u([0-9a-fA-F]{4})"))
_OCTAL = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\x07", "e": "\x1b"}
_EDGES = {"A": "start", "z": "end", "Z": "last", "b": "word", "B": "inside"}
_LOOKS = {"(?=": (True, False), "(?!": (True, True), "(?<=": (False, False), "(?<!": (False, True)}
_CASED = ("Lower", "Upper", "Lu", "Ll", "Lt")
_REFUSED_ESCAPES = {"G": "the anchor \\G", "R": "the line break \\R", "X": "the grapheme \\X", "k": "a back reference",
                    "N": "a character by name"}  # fmt: skip


class RegexRefused(Exception):
    """A pattern that is wrong in Java too, or that is not understood here; `reason` names the construct."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"{pattern}: {reason}")
        self.pattern = pattern
        self.reason = reason


class Parser:
    """One pass over one pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        # \Q…\E becomes one escape for each character, which nothing below can mistake for syntax.
        self._text = _QUOTED.sub(_unquoted, pattern)
        self._at = 0
        self._depth = 0
        self._any_case = False
        self._dot_is_all = False
        self._behind = 0

    def parse(self) -> Node:
        """The whole pattern; raises `RegexRefused`."""
        node = self._alternatives()
        if self._at < len(self._text):
            self._refuse("a `)` without its `(`")
        return node

    def _refuse(self, construct: str) -> NoReturn:
        raise RegexRefused(self._pattern, construct)

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        found = self._peek(text)
        if found:
            self._at += len(text)
        return found

    def _take_match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _next(self, what: str) -> str:
        if self._at >= len(self._text):
            self._refuse(f"it ends inside {what}")
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> Node:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Alt(tuple(branches))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._at < len(self._text) and not self._peek("|") and not self._peek(")"):
            node = self._atom()
            if node is not None:
                items.append(self._quantified(node))
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def _atom(self) -> Node | None:
        if self._peek("("):
            return self._group()
        character = self._next("the pattern")
        if character == "[":
            return Chars(self._class())
        if character == "\\":
            return self._escape()
        if character == ".":
            return Chars(charset.ANY if self._dot_is_all else charset.negated(charset.LINE_ENDS))
        if character in "^$":
            return Edge("start" if character == "^" else "last")
        if character in "*+?":
            self._refuse(f"nothing before the quantifier `{character}`")
        if character == "{":
            self._refuse("a `{` that is no count; write `\\{`")
        return Chars(self._cased(charset.of(character)))

    def _cased(self, chars: CharSet) -> CharSet:
        return charset.without_case(chars) if self._any_case else chars

    def _group(self) -> Node | None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            self._refuse(f"groups are nested more than {NESTING_MAX} deep")
        flags = (self._any_case, self._dot_is_all)
        inside = True
        node: Node | None = None
        for opening, (ahead, negative) in _LOOKS.items():
            if self._take(opening):
                self._behind += not ahead
                node = Look(self._alternatives(), ahead, negative)
                self._behind -= not ahead
                break
        else:
            if self._take("(?>"):
                node = self._atomic(self._alternatives())
            elif self._take_match(_NAMED_GROUP):
                node = self._alternatives()
            elif self._peek("(?"):
                inside = self._flags()
                node = self._alternatives() if inside else None
            else:
                self._at += 1
                node = self._alternatives()
        self._depth -= 1
        if inside:
            if not self._take(")"):
                self._refuse("a `(` without its `)`")
            self._any_case, self._dot_is_all = flags
        return node

    def _flags(self) -> bool:
        """Sets the flags of `(?i)` or `(?i:`; whether a group follows."""
        found = self._take_match(_FLAGS)
        if found is None:
            self._refuse(f"the group `{self._text[self._at : self._at + 4]}`")
        for letters, value in ((found[1], True), (found[2] or "", False)):
            for letter in letters:
                if letter == "i":
                    self._any_case = value
                elif letter == "s":
                    self._dot_is_all = value
                else:
                    self._refuse(f"the flag `{letter}`")
        return found[3] == ":"

    def _quantified(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        if isinstance(node, Look | Edge):
            self._refuse("a quantifier after a condition")
        low, high = bounds
        if high is None and self._behind:
            self._refuse("a look-behind without a greatest length")
        possessive = self._take("+")
        if not possessive:
            self._take("?")
        if self._peek("{") or self._peek("*") or self._peek("+") or self._peek("?"):
            self._refuse("a quantifier after a quantifier")
        repeat = Repeat(node, low, high)
        return self._possessive(repeat) if possessive else repeat

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._take(sign):
                return low, high
        if not self._peek("{"):
            return None
        found = self._take_match(_COUNT)
        if found is None:
            self._refuse("a `{` that is no count; write `\\{`")
        low = int(found[1])
        high = None if found[2] and not found[3] else int(found[3] or low)
        if max(low, high or 0) > COUNT_MAX:
            self._refuse(f"a repetition of more than {COUNT_MAX}")
        if high is not None and high < low:
            self._refuse(f"the count `{found[0]}`, whose end is before its start")
        return low, high

    def _possessive(self, repeat: Repeat) -> Node:
        """`x*+` for one character x: as many as there are, that is, until none follows or the count is full."""
        if not isinstance(repeat.item, Chars):
            self._refuse("a possessive quantifier or atomic group around more than one character")
        stop = Look(repeat.item, ahead=True, negative=True)
        if repeat.high is None:
            return Seq((repeat, stop))
        full = Repeat(repeat.item, repeat.high, repeat.high)
        if repeat.high == repeat.low:
            return full
        return Alt((full, Seq((Repeat(repeat.item, repeat.low, repeat.high - 1), stop))))

    def _atomic(self, node: Node) -> Node:
        if isinstance(node, Repeat):
            return self._possessive(node)
        if isinstance(node, Chars) or (isinstance(node, Seq) and all(isinstance(item, Chars) for item in node.items)):
            return node
        self._refuse("a possessive quantifier or atomic group around more than one character")

    def _escape(self) -> Node:
        letter = self._next("an escape")
        if letter in _EDGES:
            if letter == "b" and self._peek("{"):
                self._refuse("the grapheme boundary \\b{g}")
            return Edge(_EDGES[letter])
        self._at -= 1
        return Chars(self._escaped_set())

    def _escaped_set(self) -> CharSet:
        """What an escape stands for; the position is behind the backslash."""
        letter = self._next("an escape")
        if letter in charset.ESCAPED:
            return charset.ESCAPED[letter]
        if letter in "pP":
            found = self._property()
            return charset.negated(found) if letter == "P" else found
        self._at -= 1
        return self._cased(charset.of(self._escaped_character()))

    def _escaped_character(self) -> str:
        for pattern in _HEX:
            found = self._take_match(pattern)
            if found:
                return self._code_point(int(found[1], 16))
        found = self._take_match(_OCTAL)
        if found:
            return chr(int(found[1], 8))
        letter = self._next("an escape")
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter == "c":
            return chr(ord(self._next("an escape")) ^ 64)
        if letter in "123456789":
            self._refuse("a back reference")
        if letter in _REFUSED_ESCAPES:
            self._refuse(_REFUSED_ESCAPES[letter])
        if letter.isascii() and letter.isalnum():
            self._refuse(f"the escape \\{letter}")
        return letter

    def _code_point(self, point: int) -> str:
        if 0xD800 <= point < 0xDC00 and self._peek("\\u"):
            low = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(self._text, self._at)
            if low:
                self._at = low.end()
                return chr(0x10000 + ((point - 0xD800) << 10) + int(low[1], 16) - 0xDC00)
        if point > 0x10FFFF:
            self._refuse("a character beyond \\x{10FFFF}")
        return chr(point)

    def _property(self) -> CharSet:
        found = self._take_match(_PROPERTY)
        if found is None:
            self._refuse("it ends inside an escape")
        name = found[1] if found[1] is not None else found[2]
        if self._any_case and name.removeprefix("Is") in _CASED:
            self._refuse(f"\\p{{{name}}} together with (?i)")
        if name in charset.POSIX:
            return charset.POSIX[name]
        short = name.removeprefix("Is").removeprefix("gc=").removeprefix("general_category=")
        if short in charset.CATEGORIES:
            return charset.category(short)
        self._refuse(f"the property \\p{{{name[:40]}}}")

    def _class(self) -> CharSet:
        """A bracketed class; the position is behind its `[`."""
        self._depth += 1
        if self._depth > NESTING_MAX:
            self._refuse(f"classes are nested more than {NESTING_MAX} deep")
        negative = self._take("^")
        found = self._class_part(first=True)
        while self._take("&&"):
            if self._peek("&"):
                self._refuse("a class with `&&&`")
            found = charset.both(found, self._class_part(first=False))
        if not self._take("]"):
            self._refuse("a `[` without its `]`")
        self._depth -= 1
        return charset.negated(found) if negative else found

    def _class_part(self, *, first: bool) -> CharSet:
        """The union of what stands before `]` or `&&`. A `]` that comes first is a character, as in Java."""
        pairs: list[tuple[int, int]] = []
        empty = True
        while not self._peek("&&") and (not self._peek("]") or (first and empty)):
            pairs.extend(self._class_item())
            empty = False
        if empty:
            self._refuse("a class with nothing beside `&&`")
        return charset.united(pairs)

    def _class_item(self) -> CharSet:
        if self._take("["):
            return self._class()
        start = self._class_character()
        if not isinstance(start, str):
            return start
        ranged = self._peek("-") and not self._peek("-]") and not self._peek("-[")
        if not ranged:
            return self._cased(charset.of(start))
        self._at += 1
        end = self._class_character()
        if not isinstance(end, str):
            self._refuse("a range that ends in a set")
        if end < start:
            self._refuse(f"the range {start}-{end}, whose end is before its start")
        return self._cased(charset.of((start, end)))

    def _class_character(self) -> str | CharSet:
        character = self._next("a class")
        if character != "\\":
            return character
        letter = self._text[self._at : self._at + 1]
        if letter and (letter in charset.ESCAPED or letter in "pP"):
            return self._escaped_set()
        return self._escaped_character()


def _unquoted(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return "".join(f"\\x{{{ord(character):x}}}" for character in match[1])
