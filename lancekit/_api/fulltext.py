"""Full-text search: validation of ``full_text_query``, and the tokens of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType

from lancekit._arguments.checks import check_known, refuse
from lancekit._checked import checked
from lancekit._format.paths import paths_by_id
from lancekit._index.inverted.analyzer import analyzer as analyzer_of
from lancekit._index.inverted.settings import checked_settings
from lancekit._index.kinds import INVERTED
from lancekit._legible import shown
from lancekit._scan.fragments.reader import column_field
from lancekit._scan.search.text_column import text_indices
from lancekit._scan.search.text_queries import (
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
)
from lancekit._scan.search.text_search import SCORE, FullTextSearch, leaves
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError

_HINT = 'Pass text, {"query": "late snow", "columns": ["text"]}, or a query of lancekit.query.'


def full_text_search(
    given: object, snapshot: Snapshot, *, prefilter: bool = False, indexed_only: bool = False
) -> FullTextSearch:
    """Convert a ``full_text_query`` to a search.

    Raises InvalidTypeError, InvalidArgumentError: the query is malformed, or does not fit the
    schema.
    Raises ColumnNotFoundError: a column does not exist.
    """
    schema = snapshot.manifest.schema
    query = _query(given, snapshot)
    for leaf in leaves(query):
        field = column_field(schema, leaf.column)
        if not INVERTED.fits(field.type):
            raise InvalidTypeError(
                f"Column {leaf.column!r} must be a text column, but has type {field.type}.",
                hint="Search a column of strings, or of lists of strings.",
                column=leaf.column,
            )
    if SCORE.name in schema:
        raise InvalidArgumentError(
            f"Column {SCORE.name!r} clashes with the score column of search results.",
            hint="Rename it with alter_columns() first.",
            column=SCORE.name,
        )
    return FullTextSearch(
        query=query, snapshot=snapshot, prefilter=prefilter, indexed_only=indexed_only
    )


def _query(given: object, snapshot: Snapshot) -> FullTextQuery:
    if isinstance(given, FullTextQuery):
        return given
    text, columns = given, None
    if isinstance(given, Mapping):
        check_known("full_text_query", given, ("query", "columns"), "ScannerBuilder")
        text, columns = given.get("query"), given.get("columns")
    if isinstance(text, FullTextQuery):
        return text  # a query object has its own columns
    if not isinstance(text, str):
        raise InvalidTypeError(
            f"full_text_query must be a query, got {shown(given)}.",
            hint=_HINT,
            argument="full_text_query",
        )
    names = _columns(columns, snapshot)
    if len(text) > 1 and text[0] == text[-1] == '"':
        if len(names) > 1:
            raise InvalidArgumentError(
                f"The phrase {shown(text)} must be searched in one column, got {len(names)}.",
                hint='Pass one column: {"query": ..., "columns": ["text"]}.',
                argument="full_text_query",
            )
        return PhraseQuery(text[1:-1], names[0])
    return MatchQuery(text, names[0]) if len(names) == 1 else MultiMatchQuery(text, names)


def _columns(requested: object, snapshot: Snapshot) -> list[str]:
    """Return the columns to search: the requested ones, or all with a full-text index."""
    if requested is not None:
        if isinstance(requested, str) or not isinstance(requested, Sequence):
            raise InvalidTypeError(
                f"columns must be a list of names, got {shown(requested)}.", argument="columns"
            )
        if requested:
            return list(requested)
    found = _indexed(snapshot)
    if not found:
        raise InvalidArgumentError(
            "full_text_query has no columns, and no column has a full-text index.",
            hint='Pass columns: {"query": "late snow", "columns": ["text"]}.',
            argument="full_text_query",
        )
    return found


def _indexed(snapshot: Snapshot) -> list[str]:
    paths = paths_by_id(snapshot.manifest.schema)
    fields = dict.fromkeys(id_ for index in snapshot.indices for id_ in index.fields)
    known = [paths[id_] for id_ in fields if id_ in paths]
    return [path for path in known if text_indices(snapshot, path)]


# ---- tokenization; names of ``lance``


@dataclass(frozen=True, slots=True)
class FtsToken:
    """A token of a text.

    Attributes
    ----------
    text
        The normalized form that is compared.
    position
        The position among the words of the text, relative to the first token.
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
    """Split a text into the tokens of a full-text search.

    Parameters
    ----------
    query
        The text.
    analyzer
        ``"text"``, which is also the default; the analyzer for code is not supported.
    base_tokenizer, language, lower_case, stem, remove_stop_words, custom_stop_words, \
ascii_folding, min_ngram_length, max_ngram_length, prefix_only
        As in ``create_scalar_index(column, "INVERTED")``; ``None`` selects the default.
    max_token_length
        Words of this many bytes or more are left out, by default of 40; ``None`` sets no limit.
    split_identifiers, split_on_numerics, preserve_original, index_operators
        Settings for code, which are not supported.

    Returns
    -------
    list of FtsToken
        The tokens in text order.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed.
    NotOfferedError
        A setting for code was passed.

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
            f"analyzer must be 'text', got {shown(analyzer)}.", argument="analyzer"
        )
    refuse(
        "tokenize",
        analyzer=None if analyzer == "text" else analyzer,
        split_identifiers=split_identifiers,
        split_on_numerics=split_on_numerics,
        preserve_original=preserve_original,
        index_operators=index_operators,
    )
    given: dict[str, object] = {
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
