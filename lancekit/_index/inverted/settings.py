"""Tokenizer settings of full-text indices.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from lancekit._checked import is_flag, is_whole
from lancekit._index.inverted.stop_words import LANGUAGES
from lancekit._legible import shown
from lancekit.errors import CorruptFileError, InvalidArgumentError, UnsupportedFeatureError

_TOKENIZERS = ("simple", "whitespace", "raw", "ngram")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerSettings:
    """Tokenizer settings, with the reference's names and defaults.

    base_tokenizer: the word boundaries: ``"simple"`` splits at all characters except letters and
        digits, ``"whitespace"`` at white space, ``"raw"`` does not split. ``"ngram"`` takes all
        substrings of a text, with any characters.
    language: the language of stems and stop words.
    max_token_length: words of this many bytes or more are left out; ``None`` for no limit.
    custom_stop_words: replace the language's stop words.
    min_ngram_length, max_ngram_length, prefix_only: the number of letters of n-grams, and whether
        only prefixes of a text are used.
    """

    base_tokenizer: str = "simple"
    language: str = "English"
    max_token_length: int | None = 40
    lower_case: bool = True
    stem: bool = True
    remove_stop_words: bool = True
    custom_stop_words: tuple[str, ...] | None = None
    ascii_folding: bool = True
    min_ngram_length: int = 3
    max_ngram_length: int = 3
    prefix_only: bool = False


def parse_settings(text: str, where: str) -> AnalyzerSettings:
    """Return the tokenizer settings in an index, from JSON.

    Raises CorruptFileError: the settings are invalid.
    Raises UnsupportedFeatureError: the tokenizer is not supported.
    """
    try:
        given: dict[str, Any] = json.loads(text)
        known = {
            field.name: given[field.name]
            for field in fields(AnalyzerSettings)
            if field.name in given
        }
        if known.get("custom_stop_words") is not None:
            known["custom_stop_words"] = tuple(map(str, known["custom_stop_words"]))
        settings = AnalyzerSettings(**known)
        documents = given.get("lance_tokenizer") or "text"
        has_lengths = 0 < settings.min_ngram_length <= settings.max_ngram_length
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{where} has unknown token settings {shown(text)}.") from error
    if not has_lengths:
        raise CorruptFileError(f"{where} has invalid n-gram settings {shown(text)}.")
    if documents != "text" or settings.base_tokenizer not in _TOKENIZERS:
        raise UnsupportedFeatureError(
            f"{where} needs tokenizer {settings.base_tokenizer!r} for {documents!r}, which is not "
            "supported.",
            hint=f"Supported: {', '.join(_TOKENIZERS)}; search this index with pylance.",
        )
    return settings


def checked_settings(given: Mapping[str, Any]) -> AnalyzerSettings:
    """Return tokenizer settings from a user's parameters.

    Raises InvalidArgumentError: a parameter does not exist, or its value is invalid.
    """
    for name, value in given.items():
        test, what = _CHECKS.get(name, (None, ""))
        if test is None:
            raise InvalidArgumentError(
                f"An index of type INVERTED has no parameter {shown(name)}.",
                hint=f"Its parameters: {', '.join(_CHECKS)}, with_position.",
                argument=name,
            )
        if not test(value):
            raise InvalidArgumentError(f"{name} must be {what}, got {shown(value)}.", argument=name)
    words = given.get("custom_stop_words")
    own = {"custom_stop_words": None if words is None else tuple(words)}
    # n-grams have no stems
    usual = dict(_OF_PIECES) if given.get("base_tokenizer") == "ngram" else {}
    settings = AnalyzerSettings(**{**usual, **given, **own})
    if settings.min_ngram_length > settings.max_ngram_length:
        raise InvalidArgumentError(
            f"min_ngram_length {settings.min_ngram_length} is larger than max_ngram_length "
            f"{settings.max_ngram_length}.",
            argument="min_ngram_length",
        )
    return settings


def _is_words(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


def _is_length(value: Any) -> bool:
    return is_whole(value) and 0 < value < 1 << 32


_OF_PIECES = {"stem": False, "remove_stop_words": False}
_FLAG = (is_flag, "True or False")
_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "base_tokenizer": (lambda value: value in _TOKENIZERS, f"one of {', '.join(_TOKENIZERS)}"),
    "language": (lambda value: value in LANGUAGES, f"one of {', '.join(LANGUAGES)}"),
    "max_token_length": (
        lambda value: value is None or _is_length(value),
        "a positive number of bytes, or None",
    ),
    "lower_case": _FLAG,
    "stem": _FLAG,
    "remove_stop_words": _FLAG,
    "custom_stop_words": (lambda value: value is None or _is_words(value), "a list of words"),
    "ascii_folding": _FLAG,
    "min_ngram_length": (_is_length, "a positive integer"),
    "max_ngram_length": (_is_length, "a positive integer"),
    "prefix_only": _FLAG,
}
