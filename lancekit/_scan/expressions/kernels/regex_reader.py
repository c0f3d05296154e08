"""Reader of a regular expression from left to right: escapes, and sets of characters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc
from lancekit._format.arrow_parts import strings_of
from lancekit._scan.expressions.kernels.function import Refused

# ---- sets of characters in regular expressions: written for Arrow's engine, or enumerated
#
# A *fragment* is the text between the brackets of a class in the engine, such as ``a-z\p{Greek}``.
# Where the engine has no syntax (the difference of two classes, a complement within a class), the
# set is enumerated over all characters, with the engine's own tables.

#: Unicode's digits, white space, and word characters; the last ranges are letters in circles and
#: squares, which are alphabetic without being letters
_DIGIT = r"\p{Nd}"
_SPACE = (
    r"\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}"
    r"\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
)
WORD = (
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}"
    r"\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}"
)

_CATEGORIES: dict[str, str] = {
    **{"l": "letter", "lu": "uppercaseletter", "ll": "lowercaseletter", "lt": "titlecaseletter"},
    **{"lm": "modifierletter", "lo": "otherletter", "m": "mark", "mn": "nonspacingmark"},
    **{"mc": "spacingmark", "me": "enclosingmark", "n": "number", "nd": "decimalnumber"},
    **{"nl": "letternumber", "no": "othernumber", "p": "punctuation", "pc": "connectorpunctuation"},
    **{"pd": "dashpunctuation", "ps": "openpunctuation", "pe": "closepunctuation"},
    **{"pi": "initialpunctuation", "pf": "finalpunctuation", "po": "otherpunctuation"},
    **{"s": "symbol", "sm": "mathsymbol", "sc": "currencysymbol", "sk": "modifiersymbol"},
    **{"so": "othersymbol", "z": "separator", "zs": "spaceseparator", "zl": "lineseparator"},
    **{"zp": "paragraphseparator", "cc": "control", "cf": "format", "co": "privateuse"},
}
_VISIBLE = r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}"
_ASSIGNED = _VISIBLE + r"\p{Cc}\p{Cf}\p{Co}"


@lru_cache(maxsize=1)
def _characters() -> tuple[NDArray[np.uint32], pa.Array]:
    """Return all characters, as code points and as texts."""
    numbers = np.concatenate([np.arange(0xD800), np.arange(0xE000, 0x110000)]).astype("<u4")
    data = numbers.tobytes().decode("utf-32-le").encode()
    lengths = 1 + sum((numbers >= first).astype(np.int32) for first in (0x80, 0x800, 0x10000))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return numbers, strings_of(offsets, data, pa.string())


@lru_cache(maxsize=64)
def _members(fragment: str, *, ignore_case: bool = False) -> NDArray[np.bool_]:
    """Return a mask of all characters that are in a class."""
    _, texts = _characters()
    if not fragment:
        return np.zeros(len(texts), bool)
    found = pc.match_substring_regex(texts, f"[{fragment}]", ignore_case=ignore_case)
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def written(found: NDArray[np.bool_]) -> str:
    """Return the fragment of an enumerated set of characters."""
    numbers, _ = _characters()
    borders = np.flatnonzero(np.diff(np.concatenate([[False], found, [False]]).astype(np.int8)))
    starts, ends = numbers[borders[::2]], numbers[borders[1::2] - 1]
    return "".join(rf"\x{{{a:X}}}-\x{{{b:X}}}" for a, b in zip(starts, ends, strict=True))


@lru_cache(maxsize=64)
def _complement(fragment: str, *, ignore_case: bool = False) -> str:
    """Return the fragment of all characters that are not in a class."""
    return written(~_members(fragment, ignore_case=ignore_case))


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower()).removeprefix("is")


def _of_property(name: str) -> str | None:
    """Return the fragment of a Unicode property such as ``Lu`` or ``script=Greek``.

    ``None`` if it is neither a general category nor a script of the engine.
    """
    kind, equals, value = name.replace(":", "=").partition("=")
    kind = _plain(kind) if equals else ""
    value = value if equals else name
    plain = _plain(value)
    if kind in ("", "gc", "generalcategory"):
        for short, long in _CATEGORIES.items():
            if plain in (short, long):
                return rf"\p{{{short.capitalize()}}}"
        match plain:
            case "lc" | "casedletter":
                return r"\p{Lu}\p{Ll}\p{Lt}"
            case "c" | "other":
                return _complement(_VISIBLE)
            case "cs" | "surrogate":
                return None  # no text has any, and the reference does not support it
            case "cn" | "unassigned":
                return _complement(_ASSIGNED)
    if kind == "" and plain in ("any", "assigned", "ascii"):
        return {"any": r"\x{0}-\x{10FFFF}", "assigned": _ASSIGNED, "ascii": r"\x{0}-\x{7F}"}[plain]
    if kind in ("", "sc", "script"):
        bare = value[2:] if value.lower().startswith("is") else value
        script = "_".join(part.capitalize() for part in re.split(r"[\s_-]+", bare))
        if re.fullmatch(r"[A-Za-z_]+", script) and _is_script(script):
            return rf"\p{{{script}}}"
    return None


@lru_cache(maxsize=256)
def _is_script(name: str) -> bool:
    try:
        pc.match_substring_regex(pa.array([""]), rf"\p{{{name}}}")
    except pa.ArrowInvalid:
        return False
    return True


#: most nested classes
_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of ``(?imsUux)``; only ``m`` and ``U`` are passed to the engine."""

    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False
    u: bool = True
    x: bool = False


@dataclass(slots=True)
class CharacterSet:
    """A class with nested classes: operands, each a union of parts, with operators between them."""

    negated: bool
    operands: list[list[str | CharacterSet]] = field(default_factory=lambda: [[]])
    operators: list[str] = field(default_factory=list)


def literal(character: str) -> str:
    """Return the expression that matches a character and nothing else."""
    plain = character.isalnum() or not character.isascii()
    return character if plain else rf"\x{{{ord(character):X}}}"


_SPECIAL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_PERL = {"d": (_DIGIT, "0-9"), "s": (_SPACE, r"\x{9}-\x{D}\x{20}"), "w": (WORD, "0-9A-Za-z_")}
_POSIX = re.compile(
    r"\[:\^?(alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]"
)
_OPERATORS = ("&&", "--", "~~")


class Reader:
    """A position in an expression, and the flags that are set there."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags = Flags()

    def fail(self, what: str, at: int | None = None) -> Refused:
        """Return an error for the text at a position."""
        place = self.at if at is None else at
        shown = self.pattern if len(self.pattern) <= 80 else self.pattern[:77] + "..."
        return Refused(f"the regular expression {shown!r} has, from character {place + 1}, {what}")

    def peek(self, length: int = 1) -> str:
        """Return the next characters without moving."""
        return self.pattern[self.at : self.at + length]

    def take(self) -> str:
        """Return the next character, and move past it."""
        if self.at >= len(self.pattern):
            raise self.fail("an escape or class that does not end")
        self.at += 1
        return self.pattern[self.at - 1]

    def skip_space(self) -> None:
        """Move past white space and comments in verbose mode."""
        while self.flags.x and self.at < len(self.pattern):
            if self.peek() == "#":
                end = self.pattern.find("\n", self.at)
                self.at = len(self.pattern) if end < 0 else end + 1
            elif self.peek().isspace():
                self.at += 1
            else:
                return

    # ---- escapes

    def read_escape(self) -> tuple[str, str]:
        """Read an escape; return the fragment of its class, or its character."""
        start = self.at
        self.at += 1
        letter = self.take()
        if letter.lower() in _PERL:
            fragment = _PERL[letter.lower()][0 if self.flags.u else 1]
            if letter.islower():
                return fragment, ""
            if not self.flags.u:
                raise self.fail("a class beyond ASCII where (?-u) switched Unicode off", start)
            return _complement(fragment), ""
        if letter in "pP":
            return self._property(letter, start), ""
        if letter in _HEX_DIGITS:
            return "", self._hex(_HEX_DIGITS[letter], start)
        if letter.isdigit():
            raise self.fail("a back reference, which is not supported", start)
        if letter in _SPECIAL:
            return "", _SPECIAL[letter]
        if not letter.isascii() or letter.isalnum():
            raise self.fail(f"the unknown escape \\\\{letter}", start)
        return "", letter

    def _property(self, letter: str, start: int) -> str:
        name = self.take()
        if name == "{":
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise self.fail("a Unicode property that does not end", start)
            name, self.at = self.pattern[self.at : end], end + 1
        fragment = _of_property(name) if self.flags.u else None
        if fragment is None:
            raise self.fail(
                f"the unknown property {name!r}; categories (Lu) and scripts (Greek) are supported",
                start,
            )
        return fragment if letter == "p" else _complement(fragment, ignore_case=self.flags.i)

    def _hex(self, count: int, start: int) -> str:
        if self.peek() == "{":
            end = self.pattern.find("}", self.at)
            digits, self.at = self.pattern[self.at + 1 : end], end + 1
        else:
            digits = self.peek(count)
            self.at += count
            end = -1 if len(digits) < count else 0
        if end < 0 or not re.fullmatch(r"[0-9a-fA-F]{1,8}", digits):
            raise self.fail("an invalid hexadecimal character", start)
        number = int(digits, 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000 or not (self.flags.u or number < 0x80):
            raise self.fail(f"U+{digits}, which is not a valid character", start)
        return chr(number)

    # ---- classes

    def read_set(self, depth: int = 0) -> CharacterSet:
        """Read a class in brackets, with nested classes."""
        start = self.at
        if depth > _DEEPEST:
            raise self.fail("too deeply nested classes")
        self.at += 1
        self.skip_space()
        found = CharacterSet(negated=self.peek() == "^")
        self.at += found.negated
        self.skip_space()
        while self.peek() == "-":
            found.operands[-1].append(r"\x{2D}")
            self.at += 1
            self.skip_space()
        if self.peek() == "]" and not found.operands[-1]:
            found.operands[-1].append(r"\x{5D}")
            self.at += 1
        while True:
            self.skip_space()
            if self.at >= len(self.pattern):
                raise self.fail("a class that is not closed", start)
            posix = _POSIX.match(self.pattern, self.at)
            if self.peek() == "]":
                self.at += 1
                return found
            if posix:
                self.at = posix.end()
                found.operands[-1].append(posix[0])
            elif self.peek() == "[":
                found.operands[-1].append(self.read_set(depth + 1))
            elif self.peek(2) in _OPERATORS:
                found.operators.append(self.peek(2))
                found.operands.append([])
                self.at += 2
            else:
                found.operands[-1].append(self._range())

    def _range(self) -> str:
        start = self.at
        fragment, first = self._item()
        self.skip_space()
        following = self.pattern[self.at + 1 :].lstrip() if self.flags.x else self.peek(2)[1:]
        if self.peek() != "-" or following[:1] in ("]", "-"):
            return literal(first) if first else fragment
        self.at += 1
        self.skip_space()
        _, last = self._item()
        if not first or not last or first > last:
            raise self.fail("an invalid range", start)
        return rf"\x{{{ord(first):X}}}-\x{{{ord(last):X}}}"

    def _item(self) -> tuple[str, str]:
        if self.peek() != "\\":
            return "", self.take()
        if self.peek(2)[1:] in tuple("bBAz<>"):
            raise self.fail("an assertion in a class, which can have only characters")
        return self.read_escape()

    def plain_union(self, found: CharacterSet) -> str | None:
        """Return the fragment of a set if it is a plain union, else ``None``."""
        if found.operators:
            return None
        parts = []
        for part in found.operands[0]:
            inner = part if isinstance(part, str) else None
            if isinstance(part, CharacterSet) and not part.negated:
                inner = self.plain_union(part)
            if inner is None:
                return None
            parts.append(inner)
        return "".join(parts)

    def members_of(self, found: CharacterSet) -> NDArray[np.bool_]:
        """Return a mask of the characters of a set; if case is ignored, first in each part."""
        unions = []
        for operand in found.operands:
            fragment = "".join(part for part in operand if isinstance(part, str))
            union = _members(fragment, ignore_case=self.flags.i).copy()
            for part in operand:
                if isinstance(part, CharacterSet):
                    union |= self.members_of(part)
            unions.append(union)
        result, *others = unions
        for operator, other in zip(found.operators, others, strict=True):
            match operator:
                case "&&":
                    result &= other
                case "--":
                    result &= ~other
                case "~~":
                    result ^= other
        return ~result if found.negated else result
