"""What ``full_text_query`` of a scan asks for, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lancekit._arguments.checks import check_known
from lancekit._format.paths import paths_by_id
from lancekit._index.kinds import INVERTED
from lancekit._legible import shown
from lancekit._scan.fragments.reader import column_field
from lancekit._scan.fulltext.column import text_indices
from lancekit._scan.fulltext.queries import FullTextQuery, MatchQuery, MultiMatchQuery, PhraseQuery
from lancekit._scan.fulltext.search import SCORE, FullTextSearch, leaves
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["full_text_search"]

_WHAT = 'Pass text, {"query": "late snow", "columns": ["text"]}, or a query of lancekit.query.'


def full_text_search(
    given: object, snapshot: Snapshot, *, prefilter: bool = False, indexed_only: bool = False
) -> FullTextSearch:
    """Return the search that ``full_text_query`` asks for.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError, ColumnNotFoundError
        It asks for what is not, or not so.
    """
    schema = snapshot.manifest.schema
    query = _query(given, snapshot)
    for leaf in leaves(query):
        field = column_field(schema, leaf.column)
        if not INVERTED.fits(field.type):
            raise InvalidTypeError(
                f"The column {leaf.column!r} holds {field.type}, no text.",
                hint="Name a column of text, or of lists of texts.",
                column=leaf.column,
            )
    if SCORE.name in schema:
        raise InvalidArgumentError(
            f"The dataset has a column {SCORE.name!r}, which is the name of what a search tells.",
            hint="Rename it by alter_columns() first.",
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
        return text  # it names its columns itself
    if not isinstance(text, str):
        raise InvalidTypeError(
            f"full_text_query is {shown(given)}.", hint=_WHAT, argument="full_text_query"
        )
    names = _columns(columns, snapshot)
    if len(text) > 1 and text[0] == text[-1] == '"':
        if len(names) > 1:
            raise InvalidArgumentError(
                f"The phrase {shown(text)} is asked of {len(names)} columns.",
                hint='Name one: {"query": ..., "columns": ["text"]}.',
                argument="full_text_query",
            )
        return PhraseQuery(text[1:-1], names[0])
    return MatchQuery(text, names[0]) if len(names) == 1 else MultiMatchQuery(text, names)


def _columns(asked: object, snapshot: Snapshot) -> list[str]:
    """Return the columns to search: those asked for, or all that have a full-text index."""
    if asked is not None:
        if isinstance(asked, str) or not isinstance(asked, Sequence):
            raise InvalidTypeError(
                f"columns is {shown(asked)}.", hint="Pass a list of names.", argument="columns"
            )
        if asked:
            return list(asked)
    found = _indexed(snapshot)
    if not found:
        raise InvalidArgumentError(
            "full_text_query names no column, and no column has a full-text index.",
            hint='Name one: {"query": "late snow", "columns": ["text"]}.',
            argument="full_text_query",
        )
    return found


def _indexed(snapshot: Snapshot) -> list[str]:
    paths = paths_by_id(snapshot.manifest.schema)
    fields = dict.fromkeys(id_ for index in snapshot.indices for id_ in index.fields)
    known = [paths[id_] for id_ in fields if id_ in paths]
    return [path for path in known if text_indices(snapshot, path)]
