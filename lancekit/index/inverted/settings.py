"""What an index says of how text becomes tokens.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.legible import shown

__all__ = ["AnalyzerSettings", "parse_settings"]

_TOKENIZERS = ("simple", "whitespace", "raw")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerSettings:
    """How text becomes tokens, by the names and with the defaults that the reference has.

    Attributes
    ----------
    base_tokenizer
        Where words end: ``"simple"`` at all that is no letter and no digit, ``"whitespace"``
        there, ``"raw"`` nowhere.
    language
        Of stems and stop words.
    max_token_length
        Words of so many bytes and more are left out; ``None`` takes all.
    custom_stop_words
        In the place of those of the language.
    """

    base_tokenizer: str = "simple"
    language: str = "English"
    max_token_length: int | None = 40
    lower_case: bool = True
    stem: bool = True
    remove_stop_words: bool = True
    custom_stop_words: tuple[str, ...] | None = None
    ascii_folding: bool = True


def parse_settings(text: str, where: str) -> AnalyzerSettings:
    """Return what an index says of its tokens, in JSON.

    Raises
    ------
    CorruptFileError
        It says nothing that can be understood.
    UnsupportedFeatureError
        It asks for a tokenizer that this release does not have.
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
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{where} says of its tokens {shown(text)}.") from error
    if documents != "text" or settings.base_tokenizer not in _TOKENIZERS:
        raise UnsupportedFeatureError(
            f"{where} has tokens of {documents!r} made by {settings.base_tokenizer!r}.",
            hint=f"Known are {', '.join(_TOKENIZERS)}; search this index with pylance.",
        )
    return settings
