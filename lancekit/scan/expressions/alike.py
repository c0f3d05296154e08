"""Members of long lists and chains that differ in nothing but their literals.

``d IN (DATE '2020-01-01', ...)`` with thousands of dates would be a tree of thousands of casts,
and so would ``i = 1 OR s = 'a' OR i = 2 ...``.  Members that read the same but for their literals
are gathered: of each sort a ``0`` is left in the text, which stays as long as it was, so that
places in it stay what they are, and the tree's ``0`` is known by its place.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lancekit.scan.expressions.literals import number

__all__ = ["Alike", "Slot", "gather", "shape_of"]

#: fewer members are parsed as they stand
_FEW = 16

#: texts that are shorter have no long chains
_SHORT = 64

# A quote in quotes of the other kind is no literal here, nor are numbers that no bigint is.
_TOKEN = re.compile(
    r"(?P<hex>\b[xX]'(?:[0-9a-fA-F]{2})*+')"
    r"|(?P<text>'(?:[^'\"]|'')*+'(?!'))"
    r"|'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"|`(?:[^`]|``)*+`|--[^\n]*+|/\*.*?(?:\*/|\Z)"
    r"|(?P<whole>(?<![\w.])[0-9]{1,18}+(?![\w.]))"
    r"|(?P<fraction>(?<![\w.])[0-9]{1,60}+\.[0-9]{1,60}+(?![\w.]))"
    r"|(?P<word>\b(?:or|and|between|in|xor)\b)"
    r"|[\w.]++"
    r"|(?P<mark>[(),\[\]])"
    r"|(?P<end>\Z)",
    re.IGNORECASE | re.DOTALL,
)

_READ: Mapping[str, Callable[[str], Any]] = {
    "hex": lambda text: bytes.fromhex(text[2:-1]),
    "text": lambda text: text[1:-1].replace("''", "'"),
    "whole": int,
    "fraction": number,
}

Span: TypeAlias = tuple[int, int]
Piece: TypeAlias = "re.Match[str]"


@dataclass(frozen=True, slots=True)
class Slot:
    """Where members differ: the literal that each of them has there, and its place."""

    values: tuple[Any, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Alike:
    """Members of one list (``joint`` is ``in``), or of one chain of ``or`` or of ``and``.

    ``spans`` tells where in the text each of them stands; ``slots`` has where they differ, by the
    place in the first of them.
    """

    joint: str
    spans: list[Span]
    slots: Mapping[int, Slot]


#: what joins members, those that bind closer first
_JOINTS = ("and", "or", "in")


@dataclass(slots=True)
class _Level:
    """What stands in one pair of parentheses, as far as it was read."""

    begins: list[int]
    is_list: bool = False
    members: tuple[list[Span], ...] = field(default_factory=lambda: ([], [], []))
    betweens: int = 0

    def joint(self, rank: int, token: Piece) -> Iterator[tuple[str, list[Span]]]:
        """Take a joint, which ends what binds closer; yield what it ends."""
        for closer in range(rank):
            members = [*self.members[closer], (self.begins[closer], token.start())]
            self.members[closer].clear()
            joined = self.is_list if _JOINTS[closer] == "in" else len(members) > 1
            if joined and len(members) >= _FEW:
                yield _JOINTS[closer], members
        if rank < len(_JOINTS):
            self.members[rank].append((self.begins[rank], token.start()))
        for closer in range(min(rank + 1, len(_JOINTS))):
            self.begins[closer] = token.end()
        if rank:
            self.betweens = 0


_BLANK: Mapping[str, Callable[[str], str]] = {
    "text": lambda text: f"'{'x' * (len(text) - 2)}'",
    "whole": lambda text: "0" * len(text),
    "fraction": lambda text: "0." + "0" * (len(text) - 2),
}


def shape_of(sql: str) -> tuple[str, Mapping[int, str]]:
    """Return what a text has in common with those that differ in nothing but literals.

    Returns
    -------
    tuple
        A text of the same length, and the literals that it has others for, by their places:
        numbers as they are written, texts as they are meant.

    Examples
    --------
    >>> shape_of("id = 1234 AND name <> 'Ann'")
    ("id = 0000 AND name <> 'xxx'", {5: '1234', 22: 'Ann'})
    """
    pieces, literals, done = list[str](), dict[int, str](), 0
    for token in _TOKEN.finditer(sql):
        kind = token.lastgroup or ""
        if kind in _BLANK:
            start, end = token.span()
            pieces += [sql[done:start], _BLANK[kind](token[0])]
            literals[start] = _READ[kind](token[0]) if kind == "text" else token[0]
            done = end
    return "".join([*pieces, sql[done:]]), literals


def gather(sql: str, taken: Collection[int] = ()) -> tuple[str, Mapping[int, Alike]]:
    """Take members that are alike out of a text.

    What has one of the places ``taken`` in it is left as it is.

    Returns
    -------
    tuple
        A text of the same length to parse, and the members by the place of the ``0`` that stands
        for each sort of them.

    Examples
    --------
    >>> text, sorts = gather("b OR " + " OR ".join(f"i = {n} OR s = '{n}'" for n in range(99)))
    >>> text.split()
    ['b', 'OR', '0', 'OR', '0']
    >>> {place: len(alike.spans) for place, alike in sorts.items()}
    {5: 99, 14: 99}
    """
    if len(sql) < _SHORT:
        return sql, {}
    literals: list[Piece] = []
    found: dict[int, Alike] = {}
    cuts: list[tuple[int, int, str]] = []
    holes = sorted(taken)
    for joint, members in _chains(sql, literals):
        spans = [_stripped(sql, *member) for member in members]
        sorts = _sorts(sql, spans, literals, holes)
        gone = {span for sort in sorts for span, _ in sort[1:]}
        before = 0
        for span, (_, end) in zip(spans, members, strict=True):
            if span in gone:
                cuts.append((before, end, ""))  # with the joint before it
            before = end
        for sort in sorts:
            first, tokens = sort[0]
            cuts.append((*first, "0"))
            insort(holes, first[0])
            slots = zip(tokens, zip(*(own for _, own in sort), strict=True), strict=True)
            found[first[0]] = Alike(
                joint,
                [span for span, _ in sort],
                {token.start(): _slot(each) for token, each in slots if _differ(each)},
            )
    pieces, done = [], 0
    for start, end, new in sorted(cuts):
        pieces += [sql[done:start], new.ljust(end - start)]
        done = end
    return "".join([*pieces, sql[done:]]), found


def _differ(tokens: Sequence[Piece]) -> bool:
    return any(token[0] != tokens[0][0] for token in tokens)


def _slot(tokens: Sequence[Piece]) -> Slot:
    values = tuple(_READ[t.lastgroup or ""](t[0]) for t in tokens)
    return Slot(values, tuple(t.start() for t in tokens))


def _stripped(sql: str, start: int, end: int) -> Span:
    text = sql[start:end]
    start = end - len(text.lstrip())
    return start, start + len(text.strip())


def _chains(sql: str, literals: list[Piece]) -> Iterator[tuple[str, list[Span]]]:
    """Yield lists and chains of many members, what is within others first; note literals."""
    level, outer, before = _Level([0, 0, 0]), list[_Level](), ""
    for token in _TOKEN.finditer(sql):
        kind, last = token.lastgroup, before
        before = ""
        if kind in _READ:
            literals.append(token)
        elif kind is not None:
            before = token[0].lower()
            match before:
                case "and" if level.betweens:
                    level.betweens -= 1
                case "and":
                    yield from level.joint(0, token)
                case "or":
                    yield from level.joint(1, token)
                case ",":
                    yield from level.joint(2, token)
                case "between":
                    level.betweens += 1
                case "(" | "[":
                    outer.append(level)
                    level = _Level([token.end()] * 3, before == "(" and last == "in")
                case ")" | "]" if outer:
                    yield from level.joint(3, token)
                    level = outer.pop()
                case "" if not outer:
                    yield from level.joint(3, token)
                case "xor" | ")" | "]" | "":
                    return  # not what is looked for here, or no expression


def _sorts(
    sql: str, spans: list[Span], literals: list[Piece], holes: list[int]
) -> list[list[tuple[Span, list[Piece]]]]:
    """Return the members that have many alike, by sort, each with its literals."""
    sorts = defaultdict[tuple[str, ...], list[tuple[Span, list[Piece]]]](list)
    at = bisect_left(literals, spans[0][0], key=lambda token: token.start())
    for start, end in spans:
        tokens, pieces, done = [], [], start
        while at < len(literals) and literals[at].start() < end:
            token = literals[at]
            tokens.append(token)
            pieces += [sql[done : token.start()], token.lastgroup or ""]
            done = token.end()
            at += 1
        hole = bisect_left(holes, start)
        if tokens and not (hole < len(holes) and holes[hole] < end):
            sorts[*pieces, sql[done:end]].append(((start, end), tokens))
    return [sort for sort in sorts.values() if len(sort) >= _FEW]
