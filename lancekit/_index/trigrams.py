"""Trigrams, three letters or digits in a row, as numbers: the keys of an n-gram index.

See docs/format/indices.md, 12.
"""

from __future__ import annotations

import unicodedata

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import string_parts

#: the token of null rows
NULL_TOKEN = 0
_BASE = 37
_LENGTH = 3
_ASCII = 128
#: the code of a small letter is its code point minus this: 11 for ``a``
_BEFORE_A = 86
_FOLDED = {"ß": "ss", "œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th"}
_FOLDED |= {"\N{LATIN SMALL LETTER LONG S}": "s", "\N{LATIN SMALL LETTER DOTLESS I}": "i"}
_FOLDED |= {"ħ": "h", "ŋ": "n", "ĸ": "k", "ŧ": "t"}
#: the replacement of letters without an ASCII form: no n-gram spans it
_GAP = " "


def _marked(letter: str) -> str:
    """Return the stand-in for a capital that folding made from another character (T, M from ™)."""
    return chr(ord(letter) + _ASCII - 64)


def _codes() -> npt.NDArray[np.uint32]:
    """Return the code of each byte, equal for both cases; 0 for bytes that no n-gram contains.

    Bytes above ASCII are the stand-ins that `_marked` returns.
    """
    codes = np.zeros(256, np.uint32)
    for first, letters in ((1, "0123456789"), (11, "abcdefghijklmnopqrstuvwxyz")):
        for place, letter in enumerate(letters):
            codes[[ord(letter), ord(letter.upper())]] = first + place
            if letter.isalpha():
                # the reference computes these codes in 8 bits, so they wrap around
                codes[ord(_marked(letter.upper()))] = (ord(letter.upper()) - _BEFORE_A) % 256
    return codes


_CODES = _codes()


class _Folding(dict[int, str]):
    """The ASCII replacement of each character, computed at its first use."""

    def __missing__(self, code: int) -> str:
        found = self[code] = "".join(map(_fold, chr(code).lower()))
        return found


def _fold(letter: str) -> str:
    if ord(letter) < _ASCII:
        return letter
    parts = unicodedata.normalize("NFKD", letter)
    return "".join(map(_plain, parts)) or _GAP


def _plain(part: str) -> str:
    if ord(part) >= _ASCII:
        return _FOLDED.get(part, "")
    return _marked(part) if part.isupper() else part


_FOLDING = _Folding()


def folded(text: str) -> str:
    """Return text in lower case without accents; other letters become gaps.

    Examples
    --------
    >>> folded("Crème Brûlée 東京")
    'creme brulee   '
    """
    return text.translate(_FOLDING)


def trigrams(texts: pa.Array) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the n-grams of strings without nulls, and the index of each one's string.

    Examples
    --------
    >>> trigrams(pa.array(["Hello", "?"]))[0].tolist()
    [25219, 21371, 30957]
    """
    plain = _one_byte_each(texts.cast(pa.large_string()))
    bounds, data = string_parts(plain)
    codes = _CODES[data[bounds[0] : bounds[-1]]]
    if len(codes) < _LENGTH:
        return np.empty(0, np.uint32), np.empty(0, np.int64)
    first, second, third = codes[:-2], codes[1:-1], codes[2:]
    whole = (first != 0) & (second != 0) & (third != 0)
    # no n-gram spans two strings
    inner = bounds[1:-1] - bounds[0]
    for back in (1, 2):
        cut = inner - back
        whole[cut[(cut >= 0) & (cut < len(whole))]] = False
    places = np.flatnonzero(whole)
    tokens = (first * _BASE + second) * _BASE + third
    owner = np.searchsorted(bounds[1:] - bounds[0], places, "right")
    return tokens[places], owner


def _one_byte_each(texts: pa.Array) -> pa.Array:
    """Return strings as bytes, with non-ASCII strings folded to one byte per character."""
    bounds, raw = string_parts(texts)
    others = np.flatnonzero(raw[bounds[0] : bounds[-1]] >= _ASCII) + bounds[0]
    texts = texts.cast(pa.large_binary())
    if not len(others):
        return texts
    rows = np.unique(np.searchsorted(bounds[1:], others, "right"))
    flags = np.zeros(len(texts), bool)
    flags[rows] = True
    found = ak.take(texts, rows).to_pylist()
    new = [folded(text.decode()).encode("latin-1") for text in found]
    return pc.replace_with_mask(texts, pa.array(flags), pa.array(new, pa.large_binary()))
