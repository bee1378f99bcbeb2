"""Matches a whole text against a parsed regular expression in time linear in the text.

The states of the expression are followed all at once, so there is no backtracking: `(a+)+b` costs no more than
`a+b`. That is possible because only the answer "matches as a whole" is asked for, to which greed does not matter.
Look-around and anchors are conditions on a position; each is worked out for all positions in one pass beforehand.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from sparkmirror.config.charset import LINE_ENDS, CharSet

# Enough for a list of several hundred patterns; each state costs about 200 bytes and one step per character.
STATES_MAX = 20_000
_STEPS_KEPT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Seq:
    """One after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """One of several."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`item` from `low` to `high` times; `high` None means without end."""

    item: Node
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """A condition on what stands after (`ahead`) or before a position."""

    item: Node
    ahead: bool
    negative: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """A condition on a position itself: start, end, last (end or before a last line end), word, inside."""

    kind: str


Node = Chars | Seq | Alt | Repeat | Look | Edge


class TooLarge(Exception):
    """The expression needs more states than are allowed."""


@dataclass(slots=True)
class _State:
    """Goes on by one character of `chars`, or freely to `free` if `condition` (a number, or none) holds."""

    chars: CharSet | None = None
    after: int = -1
    free: list[int] = field(default_factory=list)
    condition: int | None = None


_ACCEPT = 0
_Truth = list[bool]


class Machine:
    """A compiled expression."""

    def __init__(self) -> None:
        self._states: list[_State] = [_State()]
        self._conditions: list[tuple[Look | Edge, Machine | None]] = []
        self._start = 0
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""
        truths = self._truths(text)
        now = self._closed([self._start], truths, 0)
        for position, character in enumerate(text):
            if not now:
                return False
            now = self._step(now, character, truths, position + 1)
        return _ACCEPT in now

    def _step(self, now: frozenset[int], character: str, truths: list[_Truth], position: int) -> frozenset[int]:
        if truths:
            return self._closed(self._after(now, character), truths, position)
        found = self._steps.get((now, character))
        if found is None:
            if len(self._steps) >= _STEPS_KEPT_MAX:
                self._steps = {}
            found = self._steps[now, character] = self._closed(self._after(now, character), truths, position)
        return found

    def _after(self, now: frozenset[int], character: str) -> list[int]:
        point = ord(character)
        states = self._states
        return [states[s].after for s in now if (chars := states[s].chars) is not None and _holds(chars, point)]

    def _closed(self, starts: list[int], truths: list[_Truth], position: int) -> frozenset[int]:
        """`starts` and every state that is reached from them without a character."""
        seen, waiting = set(starts), list(starts)
        while waiting:
            state = self._states[waiting.pop()]
            if state.condition is not None and not truths[state.condition][position]:
                continue
            for other in state.free:
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return frozenset(seen)

    def _truths(self, text: str) -> list[_Truth]:
        """For every condition, whether it holds at each position of `text`."""
        found: list[_Truth] = []
        for condition, machine in self._conditions:
            if isinstance(condition, Edge):
                found.append([_edge_holds(condition.kind, text, at) for at in range(len(text) + 1)])
                continue
            assert machine is not None
            seen = machine._begins(text) if condition.ahead else machine._ends(text)
            found.append([not holds for holds in seen] if condition.negative else seen)
        return found

    def _ends(self, text: str) -> _Truth:
        """At which positions some match ends."""
        truths = self._truths(text)
        now = self._closed([self._start], truths, 0)
        ends = [_ACCEPT in now]
        for position, character in enumerate(text, 1):
            now = self._closed([*self._after(now, character), self._start], truths, position)
            ends.append(_ACCEPT in now)
        return ends

    def _begins(self, text: str) -> _Truth:
        """At which positions some match begins: the states are followed from the end of the text to its start."""
        truths = self._truths(text)
        before: list[list[int]] = [[] for _ in self._states]
        for number, state in enumerate(self._states):
            for other in state.free:
                before[other].append(number)
        begins: _Truth = []
        leading: set[int] = set()
        for position in range(len(text), -1, -1):
            reached = [_ACCEPT]
            if position < len(text):
                states, point = self._states, ord(text[position])
                reached += [n for n, s in enumerate(states) if s.after in leading and _holds(s.chars or (), point)]
            leading = self._closed_backwards(reached, before, truths, position)
            begins.append(self._start in leading)
        return begins[::-1]

    def _closed_backwards(
        self, reached: list[int], before: list[list[int]], truths: list[_Truth], position: int
    ) -> set[int]:
        seen, waiting = set(reached), list(reached)
        while waiting:
            for other in before[waiting.pop()]:
                condition = self._states[other].condition
                if other not in seen and (condition is None or truths[condition][position]):
                    seen.add(other)
                    waiting.append(other)
        return seen

    def _add(self, state: _State) -> int:
        if len(self._states) >= STATES_MAX:
            raise TooLarge
        self._states.append(state)
        return len(self._states) - 1

    def _compile(self, node: Node, then: int) -> int:
        """The first state of `node` when `then` is what comes after it."""
        match node:
            case Chars(chars):
                return self._add(_State(chars=chars, after=then))
            case Seq(items):
                for item in reversed(items):
                    then = self._compile(item, then)
                return then
            case Alt(items):
                return self._add(_State(free=[self._compile(item, then) for item in items]))
            case Repeat(item, low, high):
                return self._compile_repeat(item, low, high, then)
            case Look() | Edge():
                self._conditions.append((node, build(node.item) if isinstance(node, Look) else None))
                return self._add(_State(free=[then], condition=len(self._conditions) - 1))

    def _compile_repeat(self, item: Node, low: int, high: int | None, then: int) -> int:
        if high is None:
            loop = self._add(_State())
            self._states[loop].free = [self._compile(item, loop), then]
            start = loop
        else:
            start = then
            for _ in range(high - low):
                start = self._add(_State(free=[self._compile(item, start), then]))
        for _ in range(low):
            start = self._compile(item, start)
        return start


def build(node: Node) -> Machine:
    """The machine of a parsed expression; raises `TooLarge`."""
    machine = Machine()
    machine._start = machine._compile(node, _ACCEPT)
    return machine


def _holds(chars: CharSet, point: int) -> bool:
    if len(chars) == 1:
        return chars[0][0] <= point <= chars[0][1]
    index = bisect_right(chars, (point, 0x110000)) - 1
    return index >= 0 and chars[index][0] <= point <= chars[index][1]


def _edge_holds(kind: str, text: str, at: int) -> bool:
    if kind == "start":
        return at == 0
    if kind == "end":
        return at == len(text)
    if kind == "last":
        rest = text[at:] if len(text) - at < 3 else "more"
        return rest in ("", "\r\n") or (len(rest) == 1 and _holds(LINE_ENDS, ord(rest)) and not _splits(text, at))
    word = [0 <= index < len(text) and _is_word(text[index]) for index in (at - 1, at)]
    return (word[0] != word[1]) == (kind == "word")


def _splits(text: str, at: int) -> bool:
    """Whether `at` stands between the two characters of one line end."""
    return text[at - 1 : at + 1] == "\r\n"


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()
