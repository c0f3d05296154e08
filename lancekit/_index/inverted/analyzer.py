"""Tokenizers: words of a text, normalized for comparison.

A text is split into words. In this order, a word is dropped if it is too long, lower-cased, reduced
to its stem, dropped if it is a stop word, and folded to ASCII. A dropped word keeps its position,
which matters for phrases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import dropwhile
from operator import not_
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import string_parts, strings_of
from lancekit._index.inverted.settings import AnalyzerSettings
from lancekit._index.inverted.stop_words import LANGUAGES, stop_words
from lancekit.errors import UnsupportedFeatureError

#: the code of a word that is dropped
_NONE = -1


class Token(NamedTuple):
    """A token, and the position of its word in the text."""

    text: str
    position: int


@dataclass(frozen=True, eq=False)
class TokenTable:
    """The tokens of some texts, one after the other.

    texts, codes, positions: for each token, the index of its text, its index in the `vocabulary`,
        and the position of its word in the text.
    """

    texts: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    vocabulary: Sequence[str]


class _Codes(dict[str, int]):
    """The codes of words; each word is normalized once."""

    def __init__(self, term: Callable[[str], str | None]) -> None:
        self._term = term
        self.vocabulary: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        term = self._term(word)
        code = _NONE if term is None else self.vocabulary.setdefault(term, len(self.vocabulary))
        self[word] = code
        return code


class Analyzer:
    """A tokenizer with fixed settings.

    Examples
    --------
    >>> Analyzer(AnalyzerSettings()).tokens("The Cats and Dogs")
    [Token(text='cat', position=1), Token(text='dog', position=3)]
    """

    def __init__(self, settings: AnalyzerSettings) -> None:
        self.settings = settings
        self._split = splitter(settings)
        self._step = 0 if self.in_pieces else 1
        self._stem = _stemmer(settings.language) if settings.stem else None
        self._stops: frozenset[str] = frozenset()
        if settings.remove_stop_words:
            own = settings.custom_stop_words
            self._stops = stop_words(settings.language) if own is None else frozenset(own)

    @property
    def in_pieces(self) -> bool:
        """True for n-grams: every token has position 0, and any token may match."""
        return self.settings.base_tokenizer == "ngram"

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of a text."""
        terms = map(self._term, self._split(text))
        return [
            Token(term, place * self._step) for place, term in enumerate(terms) if term is not None
        ]

    def table(self, values: pa.Array) -> TokenTable:
        """Return the tokens of many texts; null has none, a list of texts counts as one text."""
        codes = _Codes(self._term)
        kinds: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)]
        counts: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        for words, each in words_of(self._split, texts_of(values)):
            known = words.dictionary_encode()
            mine = np.array([codes[word] for word in known.dictionary.to_pylist()], np.int32)
            kinds.append(mine[known.indices.to_numpy()])
            counts.append(each)
        of, sizes = np.concatenate(kinds), np.concatenate(counts)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        places = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places *= self._step
        kept = of != _NONE
        return TokenTable(
            owners[kept], of[kept], places[kept].astype(np.int32), list(codes.vocabulary)
        )

    def _term(self, word: str) -> str | None:
        """Return the token of a word, ``None`` if it is dropped."""
        settings = self.settings
        most = settings.max_token_length
        if most is not None and len(word.encode()) >= most:
            return None
        if settings.lower_case:  # letter by letter: a sigma must not depend on its position
            word = word.lower() if word.isascii() else "".join(map(str.lower, word))
        if self._stem is not None:
            word = self._stem(word)
        if word in self._stops:
            return None
        return folded(word) if settings.ascii_folding else word


def _stemmer(language: str) -> Callable[[str], str]:
    import snowballstemmer

    if language not in LANGUAGES:
        raise UnsupportedFeatureError(
            f"No stemmer is known for language {language!r}.",
            hint=f"Supported languages are {', '.join(LANGUAGES)}.",
        )
    stem: Callable[[str], str] = snowballstemmer.stemmer(language.lower()).stemWord
    return stem


@lru_cache(16)
def analyzer(settings: AnalyzerSettings) -> Analyzer:
    """Return the tokenizer for some settings.

    Raises UnsupportedFeatureError: the language's stems or stop words are not supported.
    """
    return Analyzer(settings)


# ---- splitting of many texts at once: words are the text between separators

#: splits a text into words
_Split = Callable[[str], list[str]]
#: the words of some texts, one after the other, and the number of words of each text
_Words = tuple[pa.Array, npt.NDArray[np.int64]]

_APART = str.maketrans({chr(c): " " for c in range(128) if not chr(c).isalnum()})
#: the bytes of words; includes all non-ASCII bytes: non-ASCII separators are replaced by spaces
#: first
_OF_WORDS = np.array([byte >= 128 or chr(byte).isalnum() for byte in range(256)])
#: bytes of text that are split at a time
_AT_ONCE = 4 << 20


def splitter(settings: AnalyzerSettings) -> _Split:
    """Return the function that splits a text into words.

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


def words_of(split: _Split, texts: pa.Array) -> Iterator[_Words]:
    """Yield the words of texts, some texts at a time.

    Null has no words. The raw tokenizer makes a word of an empty text, the others make none.
    """
    ends = string_parts(texts)[0][1:]
    first = 0
    while first < len(texts):
        most = int(ends[first - 1] if first else 0) + _AT_ONCE
        last = max(int(np.searchsorted(ends, most, side="right")), first + 1)
        part = texts.slice(first, last - first)
        yield _simple_words(part.fill_null("")) if split is _simple else _each(split, part)
        first = last


def texts_of(values: pa.Array) -> pa.Array:
    """Return texts as large strings; a list of texts becomes one, empty if null, as in pylance."""
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return pa.array(map(_joined, values.to_pylist()), pa.large_string())
    found: pa.Array = values.cast(pa.large_string())
    return found


def _joined(texts: list[str | None] | None) -> str:
    """Join a list of texts with spaces, without leading empty texts."""
    there = (text for text in texts or () if text is not None)
    return " ".join(dropwhile(not_, there))


def _simple(text: str) -> list[str]:
    if text.isascii():
        return text.translate(_APART).split()
    return [word for word in _SEPARATORS.split(text) if word]


def _pieces(least: int, most: int, prefix_only: bool, text: str) -> list[str]:
    return [
        text[at:end]
        for at in range(1 if prefix_only else len(text))
        for end in range(at + least, min(at + most, len(text)) + 1)
    ]


_SPLIT: dict[str, _Split] = {
    "simple": _simple,
    "whitespace": re.compile(r"[^ \t\n\f\r]+").findall,
    "raw": lambda text: [text],
}


def _each(split: _Split, texts: pa.Array) -> _Words:
    found = [[] if text is None else split(text) for text in texts.to_pylist()]
    words = pa.array([word for one in found for word in one], pa.large_string())
    return words, np.array(list(map(len, found)), np.int64)


def _simple_words(texts: pa.Array) -> _Words:
    """Split texts into words of letters and digits, all texts at once."""
    others = pc.invert(pc.string_is_ascii(texts))
    if pc.any(others).as_py():
        plain = [_SEPARATORS.sub(" ", text) for text in ak.filter(texts, others).to_pylist()]
        texts = pc.replace_with_mask(texts, others, pa.array(plain, pa.large_string()))
    offsets, data = string_parts(texts)
    data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
    inside = _OF_WORDS[data]
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    firsts = offsets[:-1][np.diff(offsets) > 0]
    begins[firsts] = inside[firsts]
    starts = np.flatnonzero(begins)
    counts = np.diff(np.searchsorted(starts, offsets))
    # without the separators, words are adjacent
    kept = np.cumsum(inside, dtype=np.int64)
    ends = np.append(kept[starts] - 1, kept[-1:])
    if not len(starts):
        return pa.array([], pa.large_string()), counts
    return strings_of(ends, data[inside], pa.large_string()), counts


# ---- word characters: letters, digits, and marks that stand for letters
#
# Python's `str.isalnum` accepts all but the last (Unicode's Other_Alphabetic), which are listed
# here.

#: ranges of code points, in hexadecimal
_MARKS = """
345 363-36f 5b0-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-657 659-65f 670 6d6-6dc 6e1-6e4 6e7-6e8
6ed 711 730-73f 7a6-7b0 816-817 81b-823 825-827 829-82c 8d4-8df 8e3-8e9 8f0-903 93a-93b 93e-94c
94e-94f 955-957 962-963 981-983 9be-9c4 9c7-9c8 9cb-9cc 9d7 9e2-9e3 a01-a03 a3e-a42 a47-a48
a4b-a4c a51 a70-a71 a75 a81-a83 abe-ac5 ac7-ac9 acb-acc ae2-ae3 afa-afc b01-b03 b3e-b44 b47-b48
b4b-b4c b56-b57 b62-b63 b82 bbe-bc2 bc6-bc8 bca-bcc bd7 c00-c04 c3e-c44 c46-c48 c4a-c4c c55-c56
c62-c63 c81-c83 cbe-cc4 cc6-cc8 cca-ccc cd5-cd6 ce2-ce3 d00-d03 d3e-d44 d46-d48 d4a-d4c d57
d62-d63 d81-d83 dcf-dd4 dd6 dd8-ddf df2-df3 e31 e34-e3a e4d eb1 eb4-eb9 ebb-ebc ecd f71-f83
f8d-f97 f99-fbc 102b-1036 1038 103b-103e 1056-1059 105e-1060 1062-1064 1067-106d 1071-1074
1082-108d 108f 109a-109d 1712-1713 1732-1733 1752-1753 1772-1773 17b6-17c8 1885-1886 18a9
1920-192b 1930-1938 1a17-1a1b 1a55-1a5e 1a61-1a74 1abf-1ac0 1acc-1ace 1b00-1b04 1b35-1b43
1b80-1b82 1ba1-1ba9 1bac-1bad 1be7-1bf1 1c24-1c36 1dd3-1df4 24b6-24e9 2de0-2dff a674-a67b
a69e-a69f a802 a80b a823-a827 a880-a881 a8b4-a8c3 a8c5 a8ff a926-a92a a947-a952 a980-a983
a9b4-a9bf a9e5 aa29-aa36 aa43 aa4c-aa4d aa7b-aa7d aab0 aab2-aab4 aab7-aab8 aabe aaeb-aaef aaf5
abe3-abea fb1e 10376-1037a 10a01-10a03 10a05-10a06 10a0c-10a0f 10d24-10d27 10eab-10eac 11000-11002
11038-11045 11073-11074 11080-11082 110b0-110b8 110c2 11100-11102 11127-11132 11145-11146
11180-11182 111b3-111bf 111ce-111cf 1122c-11234 11237 1123e 112df-112e8 11300-11303 1133e-11344
11347-11348 1134b-1134c 11357 11362-11363 11435-11441 11443-11445 114b0-114c1 115af-115b5
115b8-115be 115dc-115dd 11630-1163e 11640 116ab-116b5 1171d-1172a 1182c-11838 11930-11935
11937-11938 1193b-1193c 11940 11942 119d1-119d7 119da-119df 119e4 11a01-11a0a 11a35-11a39
11a3b-11a3e 11a51-11a5b 11a8a-11a97 11c2f-11c36 11c38-11c3e 11c92-11ca7 11ca9-11cb6 11d31-11d36
11d3a 11d3c-11d3d 11d3f-11d41 11d43 11d47 11d8a-11d8e 11d90-11d91 11d93-11d96 11ef3-11ef6 16f4f
16f51-16f87 16f8f-16f92 16ff0-16ff1 1bc9e 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024
1e026-1e02a 1e947 1f130-1f149 1f150-1f169 1f170-1f189
"""

#: all word characters that were added after Unicode 14, which the oldest Python supports: words are
#: the same in each Python, and in the reference
_LATER = """
88f 897 c5c cdc cf3 1c89-1c8a a7cb-a7cf a7d2 a7d4 a7da-a7dc a7f1 105c0-105f3 10940-10959
10d40-10d65 10d69 10d6f-10d85 10ec2-10ec7 10efa-10efc 1123f-11241 11380-11389 1138b 1138e
11390-113b5 113b7-113c0 113c2 113c5 113c7-113ca 113cc-113cd 113d1 113d3 116d0-116e3 11b60-11b67
11bc0-11be0 11bf0-11bf9 11db0-11ddb 11de0-11de9 11f00-11f10 11f12-11f3a 11f3e-11f40 11f50-11f59
1342f 13441-13446 13460-143fa 16100-1612e 16130-16139 16d40-16d6c 16d70-16d79 16ea0-16eb8
16ebb-16ed3 16ff2-16ff6 187f8-187ff 18cff 18d09-18d1e 18d80-18df2 1b132 1b155 1ccf0-1ccf9
1d2c0-1d2d3 1df25-1df2a 1e030-1e06d 1e08f 1e4d0-1e4eb 1e4f0-1e4f9 1e5d0-1e5ed 1e5f0-1e5fa
1e6c0-1e6de 1e6e0-1e6f5 1e6fe-1e6ff 2b739-2b73f 2cea2-2cead 2ebf0-2ee5d
"""


def _marks() -> str:
    return "".join(
        "-".join(chr(int(end, 16)) for end in marks.split("-"))
        for marks in (_MARKS + _LATER).split()
    )


#: separators between words
_SEPARATORS = re.compile(rf"(?:[^\w{_marks()}]|_)+")

# ---- letters without their marks, where ASCII has them

#: letters that Unicode does not decompose
_LETTERS = {
    **{"Æ": "AE", "Ð": "D", "Ø": "O", "Þ": "TH", "ß": "ss", "æ": "ae", "ð": "d", "ø": "o"},
    **{
        "þ": "th",
        "Đ": "D",
        "đ": "d",
        "Ħ": "H",
        "ħ": "h",
        "\u0131": "i",
        "ĸ": "k",
        "Ł": "L",
        "ł": "l",
    },
    **{"Ŋ": "N", "ŋ": "n", "Œ": "OE", "œ": "oe", "Ŧ": "T", "ŧ": "t", "ẞ": "SS"},
}


def folded(text: str) -> str:
    """Return a text with letters folded to ASCII; other characters stay.

    Examples
    --------
    >>> folded("naïve Straße, Łódź, 日本")
    'naive Strasse, Lodz, 日本'
    """
    return text if text.isascii() else "".join(map(_folded, text))


@lru_cache(4096)
def _folded(letter: str) -> str:
    apart = (_LETTERS.get(part, part) for part in normalize("NFKD", letter))
    return "".join(part for part in apart if part.isascii()) or letter
