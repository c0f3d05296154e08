"""Tokens of texts: words, brought into the form that they are compared in.

Words are found first; each is left out if it is too long, made small, brought to its stem, left
out if it is a stop word, and folded to ASCII, in this order.  A word that is left out keeps its
place, so that phrases know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.errors import UnsupportedFeatureError
from lancekit.index.inverted.folding import folded
from lancekit.index.inverted.settings import AnalyzerSettings
from lancekit.index.inverted.stop_words import LANGUAGES, stop_words
from lancekit.index.inverted.words import splitter, texts_of, words_of

__all__ = ["Analyzer", "Token", "TokenTable", "analyzer"]

#: a word that is no token
_NONE = -1


class Token(NamedTuple):
    """A token, and which word of its text it is."""

    text: str
    position: int


@dataclass(frozen=True, eq=False)
class TokenTable:
    """The tokens of some texts, one after the other.

    Attributes
    ----------
    texts, codes, positions
        For each token: in which text it is, which of the `vocabulary`, and which word of its text.
    """

    texts: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    vocabulary: Sequence[str]


class _Codes(dict[str, int]):
    """The numbers of words: of what they are brought to, each worked out once."""

    def __init__(self, term: Callable[[str], str | None]) -> None:
        self._term = term
        self.vocabulary: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        term = self._term(word)
        code = _NONE if term is None else self.vocabulary.setdefault(term, len(self.vocabulary))
        self[word] = code
        return code


class Analyzer:
    """Makes tokens of texts.

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
        """Whether all tokens of a text are at its beginning, where one is as good as another."""
        return self.settings.base_tokenizer == "ngram"

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of a text."""
        terms = map(self._term, self._split(text))
        return [
            Token(term, place * self._step) for place, term in enumerate(terms) if term is not None
        ]

    def table(self, values: pa.Array) -> TokenTable:
        """Return the tokens of many texts; null has none, and a list of texts is one."""
        codes = _Codes(self._term)
        kinds: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)]
        counts: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        for words, each in words_of(self._split, texts_of(values)):
            known: Any = words.dictionary_encode()
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
        """Return what a word is compared as, ``None`` if it is left out."""
        settings = self.settings
        most = settings.max_token_length
        if most is not None and len(word.encode()) >= most:
            return None
        if settings.lower_case:  # letter by letter: what follows makes no difference
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
            f"Stems of the language {language!r} are not known.",
            hint=f"Those of {', '.join(LANGUAGES)} are.",
        )
    stem: Callable[[str], str] = snowballstemmer.stemmer(language.lower()).stemWord
    return stem


@lru_cache(16)
def analyzer(settings: AnalyzerSettings) -> Analyzer:
    """Return what makes tokens by some settings.

    Raises
    ------
    UnsupportedFeatureError
        The language's stems or stop words are not known.
    """
    return Analyzer(settings)
