r"""Regular expressions of the filter language, rewritten for the engine that Arrow has.

The language is Rust's ``regex``, which the reference uses: ``\w`` and ``\d`` are Unicode's, ``$``
is the very end, classes nest. The engine is RE2. Both take linear time, so neither has look-around
or back references. Expressions that RE2 cannot represent are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from lancekit._scan.expressions.kernels.function import Refused
from lancekit._scan.expressions.kernels.regex_reader import Flags, Reader, literal, written

#: most nested groups, as in the reference
_DEEPEST = 250

#: most repetitions in the engine
_MOST_REPEATED = 1000

#: most characters; an expression is translated one by one
_LONGEST = 1 << 15


@dataclass(frozen=True, slots=True)
class Atom:
    """A piece that matches exactly one character."""

    text: str


@dataclass(frozen=True, slots=True)
class Regex:
    r"""A translated expression, in pieces.

    ``words`` is True if it has word boundaries (``\b``, ``\B``), which are Unicode's here and
    ASCII's in the engine. ``names`` has the numbers of named groups.
    """

    source: str
    pieces: tuple[str | Atom, ...]
    groups: int
    names: Mapping[str, int]
    words: bool

    @property
    def text(self) -> str:
        """The expression for the engine."""
        return "".join(p.text if isinstance(p, Atom) else p for p in self.pieces)


@lru_cache(maxsize=64)
def translate(pattern: str, flags: str = "") -> Regex:
    """Rewrite an expression; ``flags`` are letters such as ``im``.

    Raises Refused: it does not parse, or the engine has no equivalent.
    """
    if len(pattern) > _LONGEST:
        raise Refused(
            f"the regular expression {pattern[:40]!r}... has {len(pattern)} characters; the limit "
            f"is {_LONGEST}"
        )
    return _Translation(pattern).run(flags)


_NAME = re.compile(r"\?P?<([^\W\d][\w.\[\]]*)>")
_COUNT = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d+)?\s*)?\}")


class _Translation(Reader):
    """One pass over an expression, without recursion except for nested classes."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self.pieces: list[str | Atom] = []
        self.last: int | None = None  # the first piece that a repetition applies to
        self.repeated = False  # whether that is a repetition
        self.open: list[tuple[Flags, int]] = []
        self.groups = 0
        self.names: dict[str, int] = {}
        self.borders: set[str] = set()

    def put(self, piece: str | Atom) -> None:
        """Add a piece that can be repeated."""
        self.last, self.repeated = len(self.pieces), False
        self.pieces.append(piece)

    def run(self, flags: str) -> Regex:
        if flags:
            self.flags = self._switched(flags)
            self._write_flags(":")
        while True:
            self.skip_space()
            if self.at >= len(self.pattern):
                break
            rule = self._RULES.get(self.peek())
            if rule is None:
                self.put(self._atom(self.take()))
            else:
                rule(self)
        if self.open:
            raise self.fail("a group that is not closed", len(self.pattern))
        if flags:
            self.pieces.append(")")
        if len(self.borders) > 1:
            raise self.fail(r"both Unicode's \b and ASCII's (?-u:\b)", 0)
        return Regex(
            source=self.pattern,
            pieces=tuple(self.pieces),
            groups=self.groups,
            names=self.names,
            words="u" in self.borders,
        )

    def _atom(self, character: str) -> Atom:
        cased = character.isalpha() or not character.isascii()
        text = literal(character)
        return Atom(f"(?i:{text})" if self.flags.i and cased else text)

    def _class(self, fragment: str, *, negated: bool = False, exact: bool = False) -> Atom:
        if not fragment:  # no character, or any character
            fragment, negated = r"\x{0}-\x{10FFFF}", not negated
        text = f"[{'^' if negated else ''}{fragment}]"
        if negated and not self.flags.u:
            raise self.fail("a class beyond ASCII where (?-u) switched Unicode off")
        return Atom(f"(?i:{text})" if self.flags.i and not exact else text)

    # ---- groups, flags, alternatives

    def _group(self) -> None:
        self.at += 1
        self.skip_space()
        if len(self.open) >= _DEEPEST:
            raise self.fail(f"more than {_DEEPEST} nested groups")
        start = len(self.pieces)
        if self.peek() != "?":
            self.groups += 1
            self._enter("(", start)
            return
        named = _NAME.match(self.pattern, self.at)
        if named:
            if named[1] in self.names:
                raise self.fail(f"a second group named {named[1]!r}")
            self.groups += 1
            self.names[named[1]] = self.groups
            self.at = named.end()
            self._enter("(", start)
            return
        if self.peek(2) in ("?=", "?!") or self.peek(3) in ("?<=", "?<!"):
            raise self.fail("look-around, which is not supported", self.at - 1)
        end = re.compile(r"[:)]").search(self.pattern, self.at)
        if end is None:
            raise self.fail("a group that is not closed", self.at - 1)
        letters = self.pattern[self.at + 1 : end.start()]
        if end[0] == ")" and not letters:
            raise self.fail("a group without flags", self.at - 1)
        before, self.flags = self.flags, self._switched(letters)
        self.at = end.end()
        if end[0] == ":":
            self.open.append((before, start))
            self._write_flags(":")
        else:
            self._write_flags(")")
        self.last = None

    def _enter(self, mark: str, start: int) -> None:
        self.open.append((self.flags, start))
        self.pieces.append(mark)
        self.last = None

    def _close(self) -> None:
        if not self.open:
            raise self.fail("a closing parenthesis without a group")
        self.at += 1
        self.flags, self.last = self.open.pop()
        self.pieces.append(")")
        self.repeated = False

    def _either(self) -> None:
        self.at += 1
        self.pieces.append("|")
        self.last = None

    def _switched(self, letters: str) -> Flags:
        on, minus, off = letters.partition("-")
        both = on + off
        if (minus and not off) or len(set(both)) != len(both) or not set(both) <= set("imsUux"):
            raise self.fail(f"the flags {letters!r}; supported are i, m, s, U, u and x, each once")
        return replace(self.flags, **dict.fromkeys(on, True), **dict.fromkeys(off, False))

    def _write_flags(self, end: str) -> None:
        on = "".join(f for f in "mU" if getattr(self.flags, f))
        off = "".join(f for f in "mU" if not getattr(self.flags, f))
        self.pieces.append(f"(?{on}{'-' if off else ''}{off}{end}")

    # ---- repetitions

    def _repeat(self) -> None:
        if self.last is None:
            raise self.fail("a repetition without an expression")
        if self.peek() == "{":
            found = _COUNT.match(self.pattern, self.at)
            if found is None:
                raise self.fail("a repetition that is not {2}, {2,} or {2,3}")
            least, most = int(found[1]), int(found[3]) if found[3] else 0
            if found[3] and least > most:
                raise self.fail("a repetition whose minimum exceeds its maximum")
            if max(least, most) > _MOST_REPEATED:
                raise self.fail(f"more than {_MOST_REPEATED} repetitions, which are not supported")
            comma = "," if found[2] else ""
            mark = f"{{{least}{comma}{most if found[3] else ''}}}"
            self.at = found.end()
        else:
            mark = self.take()
        if self.peek() == "?":
            mark += self.take()
        if self.repeated:
            self.pieces.insert(self.last, "(?:")
            self.pieces.append(")")
        self.pieces.append(mark)
        self.repeated = True

    # ---- characters and places

    def _place(self) -> None:
        self.put(self.take())

    def _dot(self) -> None:
        if not self.flags.u:
            raise self.fail("a dot where (?-u) switched Unicode off")
        self.at += 1
        self.put(Atom("(?s:.)" if self.flags.s else r"[^\n]"))

    def _escape(self) -> None:
        start = self.at
        self.at += 1
        letter = self.take()
        match letter:
            case "A" | "z":
                self.put(f"\\{letter}")
            case "b" | "B":
                if re.compile(r"\{\s*(start|end)(-half)?\s*\}").match(self.pattern, self.at):
                    raise self.fail("a half word boundary, which is not supported", start)
                if letter == "B" and not self.flags.u:
                    raise self.fail("a word boundary inside of characters", start)
                self.borders.add("u" if self.flags.u else "a")
                self.put(f"\\{letter}")
            case "<" | ">":
                raise self.fail("a half word boundary, which is not supported", start)
            case _:
                self.at = start
                fragment, one = self.read_escape()
                self.put(self._atom(one) if one else self._class(fragment))

    # ---- classes

    def _brackets(self) -> None:
        whole = self.read_set()
        simple = self.plain_union(whole)
        if simple is not None:
            self.put(self._class(simple, negated=whole.negated))
        else:
            self.put(self._class(written(self.members_of(whole)), exact=True))

    _RULES: ClassVar[Mapping[str, Callable[[_Translation], None]]] = {
        "(": _group,
        ")": _close,
        "|": _either,
        "[": _brackets,
        "\\": _escape,
        ".": _dot,
        "^": _place,
        "$": _place,
        **dict.fromkeys("*+?{", _repeat),
    }
