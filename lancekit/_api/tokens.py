"""What a full-text search makes of a text; names of ``lance``."""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import Any

from lancekit._arguments.checks import refuse
from lancekit._checked import checked
from lancekit._index.inverted.analyzer import analyzer as analyzer_of
from lancekit._index.inverted.settings import checked_settings
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError

__all__ = ["FtsToken", "tokenize"]


@dataclass(frozen=True, slots=True)
class FtsToken:
    """A token of a text.

    Attributes
    ----------
    text
        What it is compared as.
    position
        Which word of the text it is, counted from the first that is a token.
    """

    text: str
    position: int


@checked
def tokenize(
    query: str,
    *,
    analyzer: str | None = None,
    base_tokenizer: str | None = None,
    language: str | None = None,
    max_token_length: int | EllipsisType | None = ...,
    lower_case: bool | None = None,
    stem: bool | None = None,
    remove_stop_words: bool | None = None,
    custom_stop_words: list[str] | None = None,
    ascii_folding: bool | None = None,
    min_ngram_length: int | None = None,
    max_ngram_length: int | None = None,
    prefix_only: bool | None = None,
    split_identifiers: bool | None = None,
    split_on_numerics: bool | None = None,
    preserve_original: bool | None = None,
    index_operators: bool | None = None,
) -> list[FtsToken]:
    """Return the tokens that a full-text search makes of a text.

    Parameters
    ----------
    query
        The text.
    analyzer
        ``"text"``, which is meant without it, too; that of code is not offered.
    base_tokenizer, language, lower_case, stem, remove_stop_words, custom_stop_words
    ascii_folding, min_ngram_length, max_ngram_length, prefix_only
        As in ``create_scalar_index(column, "INVERTED")``; ``None`` is the default there.
    max_token_length
        Words of so many bytes and more are left out, by default of 40; ``None`` takes all.
    split_identifiers, split_on_numerics, preserve_original, index_operators
        Of code, which is not offered.

    Raises
    ------
    InvalidArgumentError
        An argument cannot have its value.
    NotOfferedError
        Tokens of code are asked for.

    Examples
    --------
    >>> import lancekit as lk
    >>> [(token.text, token.position) for token in lk.tokenize("the Cats and Dogs")]
    [('cat', 0), ('dog', 2)]
    >>> [token.text for token in lk.tokenize("die Katzen", language="German")]
    ['katz']
    """
    if analyzer not in (None, "text", "code"):
        raise InvalidArgumentError(
            f"analyzer is {shown(analyzer)}.", hint="Pass 'text'.", argument="analyzer"
        )
    refuse(
        "tokenize",
        analyzer=None if analyzer == "text" else analyzer,
        split_identifiers=split_identifiers,
        split_on_numerics=split_on_numerics,
        preserve_original=preserve_original,
        index_operators=index_operators,
    )
    given: dict[str, Any] = {
        "base_tokenizer": base_tokenizer,
        "language": language,
        "lower_case": lower_case,
        "stem": stem,
        "remove_stop_words": remove_stop_words,
        "custom_stop_words": custom_stop_words,
        "ascii_folding": ascii_folding,
        "min_ngram_length": min_ngram_length,
        "max_ngram_length": max_ngram_length,
        "prefix_only": prefix_only,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if max_token_length is not ...:
        given["max_token_length"] = max_token_length
    found = analyzer_of(checked_settings(given)).tokens(query)
    return [FtsToken(token.text, token.position - found[0].position) for token in found]
