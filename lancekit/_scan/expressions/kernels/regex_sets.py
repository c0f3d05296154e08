r"""Sets of characters in regular expressions: written for Arrow's engine, or counted out.

A *fragment* is what stands between the brackets of a class there, such as ``a-z\p{Greek}``.
What the engine has no syntax for (a class without some of another, the complement of a class in
a class) is counted out over all characters, with the engine's own tables.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc

__all__ = ["DIGIT", "SPACE", "WORD", "complement", "members", "of_property", "written"]

#: Unicode's digits, white space, and what words are made of; the last ranges are letters in
#: circles and squares, which are alphabetic without being letters
DIGIT = r"\p{Nd}"
SPACE = (
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
    """Return all characters, as numbers and as texts."""
    numbers = np.concatenate([np.arange(0xD800), np.arange(0xE000, 0x110000)]).astype("<u4")
    data = numbers.tobytes().decode("utf-32-le").encode()
    lengths = 1 + sum((numbers >= first).astype(np.int32) for first in (0x80, 0x800, 0x10000))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return numbers, pa.Array.from_buffers(pa.string(), len(numbers), buffers)


@lru_cache(maxsize=64)
def members(fragment: str, *, ignore_case: bool = False) -> NDArray[np.bool_]:
    """Tell of each character whether a class has it."""
    _, texts = _characters()
    if not fragment:
        return np.zeros(len(texts), bool)
    found = pc.match_substring_regex(texts, f"[{fragment}]", ignore_case=ignore_case)
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def written(found: NDArray[Any]) -> str:
    """Return the fragment of a set of characters that was counted out."""
    numbers, _ = _characters()
    borders = np.flatnonzero(np.diff(np.concatenate([[False], found, [False]]).astype(np.int8)))
    starts, ends = numbers[borders[::2]], numbers[borders[1::2] - 1]
    return "".join(rf"\x{{{a:X}}}-\x{{{b:X}}}" for a, b in zip(starts, ends, strict=True))


@lru_cache(maxsize=64)
def complement(fragment: str, *, ignore_case: bool = False) -> str:
    """Return the fragment of all characters that a class has not."""
    return written(~members(fragment, ignore_case=ignore_case))


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower()).removeprefix("is")


def of_property(name: str) -> str | None:
    """Return the fragment of a Unicode property such as ``Lu`` or ``script=Greek``.

    ``None`` if it is neither a general category nor a script that the engine knows.
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
                return complement(_VISIBLE)
            case "cs" | "surrogate":
                return None  # no text has any, and the reference knows none
            case "cn" | "unassigned":
                return complement(_ASSIGNED)
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
