"""Words of many texts at once, as they stand there: what lies between separators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import dropwhile
from operator import not_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.index.inverted.letters import SEPARATORS
from lancekit.index.inverted.settings import AnalyzerSettings

__all__ = ["Split", "Words", "splitter", "texts_of", "words_of"]

#: takes the words of a text
Split = Callable[[str], list[str]]
#: the words of some texts, one after the other, and how many each text has
Words = tuple[pa.Array, npt.NDArray[np.int64]]

_APART = str.maketrans({chr(c): " " for c in range(128) if not chr(c).isalnum()})
#: which bytes are of words; those of letters beyond ASCII are, as other signs beyond it are spaces
_OF_WORDS = np.array([byte >= 128 or chr(byte).isalnum() for byte in range(256)])
#: bytes of text that are looked at together
_AT_ONCE = 4 << 20


def splitter(settings: AnalyzerSettings) -> Split:
    """Return what takes the words of a text.

    Examples
    --------
    >>> splitter(AnalyzerSettings(base_tokenizer="whitespace"))("late, snow")
    ['late,', 'snow']
    >>> splitter(AnalyzerSettings(base_tokenizer="ngram", min_ngram_length=2))("snow")
    ['sn', 'sno', 'no', 'now', 'ow']
    """
    if settings.base_tokenizer == "ngram":
        lengths = settings.min_ngram_length, settings.max_ngram_length
        return partial(_pieces, *lengths, settings.prefix_only)
    return _SPLIT[settings.base_tokenizer]


def words_of(split: Split, texts: pa.Array) -> Iterator[Words]:
    """Yield the words of texts, some texts at a time.

    Null has none.  The raw tokenizer makes a word of an empty text, the others make none.
    """
    ends = _offsets(texts)[1:]
    first = 0
    while first < len(texts):
        most = int(ends[first - 1] if first else 0) + _AT_ONCE
        last = max(int(np.searchsorted(ends, most, side="right")), first + 1)
        part = texts.slice(first, last - first)
        yield _simple_words(part.fill_null("")) if split is _simple else _each(split, part)
        first = last


def texts_of(values: pa.Array) -> pa.Array:
    """Return texts as large strings; those of a list are one, empty for null (as in pylance)."""
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return pa.array(map(_joined, values.to_pylist()), pa.large_string())
    found: pa.Array = values.cast(pa.large_string())
    return found


def _joined(texts: list[str | None] | None) -> str:
    """Return a list of texts as one: a space stands before each, unless nothing is before it."""
    there = (text for text in texts or () if text is not None)
    return " ".join(dropwhile(not_, there))


def _simple(text: str) -> list[str]:
    if text.isascii():
        return text.translate(_APART).split()
    return [word for word in SEPARATORS.split(text) if word]


def _pieces(least: int, most: int, prefix_only: bool, text: str) -> list[str]:
    return [
        text[at:end]
        for at in range(1 if prefix_only else len(text))
        for end in range(at + least, min(at + most, len(text)) + 1)
    ]


_SPLIT: dict[str, Split] = {
    "simple": _simple,
    "whitespace": re.compile(r"[^ \t\n\f\r]+").findall,
    "raw": lambda text: [text],
}


def _each(split: Split, texts: pa.Array) -> Words:
    found = [[] if text is None else split(text) for text in texts.to_pylist()]
    words = pa.array([word for one in found for word in one], pa.large_string())
    return words, np.array(list(map(len, found)), np.int64)


def _simple_words(texts: pa.Array) -> Words:
    others = pc.invert(pc.string_is_ascii(texts))
    if pc.any(others).as_py():
        plain = [SEPARATORS.sub(" ", text) for text in ak.filter(texts, others).to_pylist()]
        texts = pc.replace_with_mask(texts, others, pa.array(plain, pa.large_string()))
    offsets = _offsets(texts)
    raw: Any = texts.buffers()[2]
    data = np.frombuffer(raw, np.uint8) if raw is not None else np.empty(0, np.uint8)
    data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
    inside = _OF_WORDS[data]
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    firsts = offsets[:-1][np.diff(offsets) > 0]
    begins[firsts] = inside[firsts]
    starts = np.flatnonzero(begins)
    counts = np.diff(np.searchsorted(starts, offsets))
    # with the separators left out, words follow each other
    kept = np.cumsum(inside, dtype=np.int64)
    ends = np.append(kept[starts] - 1, kept[-1:])
    letters = pa.py_buffer(data[inside])
    if not len(starts):
        return pa.array([], pa.large_string()), counts
    buffers = [None, pa.py_buffer(ends), letters]
    return pa.Array.from_buffers(pa.large_string(), len(starts), buffers), counts


def _offsets(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Return where each of some large strings begins, and where the last one ends."""
    if not len(texts):
        return np.zeros(1, np.int64)
    raw: Any = texts.buffers()[1]
    return np.frombuffer(raw, np.int64)[texts.offset : texts.offset + len(texts) + 1]
