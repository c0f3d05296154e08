"""Full-text queries, by pylance's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, StrEnum
from typing import Any

import numpy as np

from lancekit._checked import is_whole
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError


class FullTextQueryType(Enum):
    """The kinds of full-text queries."""

    MATCH = "match"
    MATCH_PHRASE = "match_phrase"
    BOOST = "boost"
    MULTI_MATCH = "multi_match"
    BOOLEAN = "boolean"
    COMBINED_FIELDS = "combined_fields"


class FullTextOperator(Enum):
    """Whether a row must have all words of a query (``AND``) or any word (``OR``)."""

    AND = "AND"
    OR = "OR"


class DocumentGranularity(StrEnum):
    """The unit of scoring: a row, or each text of a list of texts, which is not supported."""

    ROW = "row"
    LIST_ELEMENT = "list_element"


class Occur(Enum):
    """The role of a query in a `BooleanQuery`: a row may, must, or must not match it."""

    SHOULD = "SHOULD"
    MUST = "MUST"
    MUST_NOT = "MUST_NOT"


class FullTextQuery:
    """A full-text query; ``one & other`` and ``one | other`` combine two."""

    def query_type(self) -> FullTextQueryType:
        """Return the kind of the query."""
        return _TYPES[type(self)]

    def parts(self) -> tuple[FullTextQuery, ...]:
        """Return the queries that this one combines; empty if it searches a column itself."""
        return ()

    def __and__(self, other: FullTextQuery) -> FullTextQuery:
        return BooleanQuery([(Occur.MUST, self), (Occur.MUST, other)])

    def __or__(self, other: FullTextQuery) -> FullTextQuery:
        return BooleanQuery([(Occur.SHOULD, self), (Occur.SHOULD, other)])


@dataclass(frozen=True)
class MatchQuery(FullTextQuery):
    """A query for rows that have words of a text.

    Parameters
    ----------
    query
        The words.
    column
        The path of a column of text.
    boost
        The factor of the scores.
    operator
        Whether a row must have all words or any word.
    fuzziness
        The most letters that may be added, missing or changed; ``None`` is 0, as in pylance.
    max_expansions
        The most words that replace those in ``query``; the first in alphabetical order are used.
    prefix_length
        The number of bytes at the start of each word that must be equal.
    document_granularity
        The unit of scoring: ``None`` and `DocumentGranularity.ROW` are a row.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        An argument is invalid.
    NotOfferedError
        ``document_granularity`` is ``LIST_ELEMENT``.

    Examples
    --------
    >>> MatchQuery("late snow", "text", boost=2.0).query_type()
    <FullTextQueryType.MATCH: 'match'>
    """

    query: str
    column: str
    _: KW_ONLY
    boost: float = 1.0
    fuzziness: int | None = 0
    max_expansions: int = 50
    operator: FullTextOperator = FullTextOperator.OR
    prefix_length: int = 0
    document_granularity: DocumentGranularity | None = None

    def __post_init__(self) -> None:
        _check_text("query", self.query)
        _check_text("column", self.column)
        _check_factor("boost", self.boost)
        _check_one_of("operator", self.operator, FullTextOperator)
        _check_count("max_expansions", self.max_expansions)
        _check_count("prefix_length", self.prefix_length)
        _check_rows(self.document_granularity)
        if self.fuzziness is not None:
            _check_count("fuzziness", self.fuzziness)


@dataclass(frozen=True)
class PhraseQuery(FullTextQuery):
    """A query for rows that have some words one after the other.

    Parameters
    ----------
    query
        The words.
    column
        The path of a column of text.
    slop
        The most other words that may be between one word and the next.
    document_granularity
        As for `MatchQuery`.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError, NotOfferedError
        As for `MatchQuery`.

    Examples
    --------
    >>> PhraseQuery("late snow", "text", slop=1).query_type()
    <FullTextQueryType.MATCH_PHRASE: 'match_phrase'>
    """

    query: str
    column: str
    _: KW_ONLY
    slop: int = 0
    document_granularity: DocumentGranularity | None = None

    def __post_init__(self) -> None:
        _check_text("query", self.query)
        _check_text("column", self.column)
        _check_count("slop", self.slop)
        _check_rows(self.document_granularity)


@dataclass(frozen=True)
class BoostQuery(FullTextQuery):
    """A query for rows that match one query, with lower scores if they also match another.

    Parameters
    ----------
    positive
        The query that rows must match.
    negative
        The query that lowers the scores of rows that match it.
    negative_boost
        The share of the score of ``negative`` that is subtracted.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        An argument is invalid.

    Examples
    --------
    >>> query = BoostQuery(MatchQuery("snow", "text"), MatchQuery("rain", "text"))
    >>> query.negative_boost
    0.5
    """

    positive: FullTextQuery
    negative: FullTextQuery
    _: KW_ONLY
    negative_boost: float = 0.5

    def __post_init__(self) -> None:
        _check_query("positive", self.positive)
        _check_query("negative", self.negative)
        _check_factor("negative_boost", self.negative_boost)

    def parts(self) -> tuple[FullTextQuery, ...]:
        """Return both queries."""
        return self.positive, self.negative


@dataclass(frozen=True)
class MultiMatchQuery(FullTextQuery):
    """A query for rows that have words of a text in one of several columns.

    The score of a row is the score of its best column.

    Parameters
    ----------
    query
        The words.
    columns
        The paths of columns of text.
    boosts
        The factor of the scores of each column, by default 1.
    operator
        Whether a row must have all words, in one column, or any word.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        An argument is invalid.

    Examples
    --------
    >>> query = MultiMatchQuery("late snow", ["title", "text"], boosts=[2.0, 1.0])
    >>> [part.column for part in query.parts()]
    ['title', 'text']
    """

    query: str
    columns: Sequence[str]
    _: KW_ONLY
    boosts: Sequence[float] | None = None
    operator: FullTextOperator = FullTextOperator.OR
    _matches: tuple[MatchQuery, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = _list("columns", self.columns)
        boosts = [1.0] * len(columns) if self.boosts is None else _list("boosts", self.boosts)
        if not columns or len(boosts) != len(columns):
            raise InvalidArgumentError(
                "A query needs at least one column, and no boosts or one for each: got "
                f"{len(columns)} columns and {len(boosts)} boosts."
            )
        matches = (
            MatchQuery(self.query, column, boost=boost, operator=self.operator)
            for column, boost in zip(columns, boosts, strict=True)
        )
        object.__setattr__(self, "_matches", tuple(matches))

    def parts(self) -> tuple[FullTextQuery, ...]:
        """Return a query for each column."""
        return self._matches


@dataclass(frozen=True)
class CombinedFieldsQuery(MultiMatchQuery):
    """A query for rows that have words of a text in several columns, scored as one (BM25F).

    With `FullTextOperator.AND`, each word must be in at least one of the columns.

    Parameters
    ----------
    query
        The words.
    columns
        The paths of columns of text; their indices must have the same settings.
    boosts
        The weight of each column's words, 1 or more, by default 1.
    operator
        Whether a row must have all words or any word.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        An argument is invalid.

    Examples
    --------
    >>> CombinedFieldsQuery("anna berg", ["first", "last"], boosts=[1, 2]).query_type()
    <FullTextQueryType.COMBINED_FIELDS: 'combined_fields'>
    """

    def __post_init__(self) -> None:
        MultiMatchQuery.__post_init__(self)
        if len(set(self.columns)) < len(self.columns):
            raise InvalidArgumentError(
                f"Columns must be unique, got {', '.join(self.columns)}.",
                hint="List each column once, with a boost.",
                argument="columns",
            )
        for boost in self.boosts or ():
            if not 1 <= boost <= _HEAVIEST:
                raise InvalidArgumentError(
                    f"A boost must be from 1 to {_HEAVIEST:,}, got {boost}.", argument="boosts"
                )


@dataclass(frozen=True)
class BooleanQuery(FullTextQuery):
    """A combination of several queries.

    Parameters
    ----------
    queries
        Pairs of an `Occur` and a query.  The scores of ``MUST`` and ``SHOULD`` queries are added.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        The queries are not such pairs, or all are ``MUST_NOT``.

    Examples
    --------
    >>> snow, rain = MatchQuery("snow", "text"), MatchQuery("rain", "text")
    >>> BooleanQuery([(Occur.MUST, snow), (Occur.MUST_NOT, rain)]).query_type()
    <FullTextQueryType.BOOLEAN: 'boolean'>
    """

    queries: Sequence[tuple[Occur, FullTextQuery]]

    def __post_init__(self) -> None:
        pairs = _list("queries", self.queries)
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise _wrong("queries", pair, "pairs of an Occur and a query")
            _check_one_of("queries", pair[0], Occur)
            _check_query("queries", pair[1])
        if all(occur is Occur.MUST_NOT for occur, _ in pairs):
            raise InvalidArgumentError(
                "A boolean query needs a part that selects rows.",
                hint="Add one with Occur.MUST or Occur.SHOULD.",
                argument="queries",
            )

    def parts(self) -> tuple[FullTextQuery, ...]:
        """Return the combined queries."""
        return tuple(query for _, query in self.queries)

    def of(self, occur: Occur) -> list[FullTextQuery]:
        """Return the queries with an `Occur`."""
        return [query for wanted, query in self.queries if wanted is occur]


#: the highest weight of a column
_HEAVIEST = 1 << 20

_TYPES = {
    MatchQuery: FullTextQueryType.MATCH,
    PhraseQuery: FullTextQueryType.MATCH_PHRASE,
    BoostQuery: FullTextQueryType.BOOST,
    MultiMatchQuery: FullTextQueryType.MULTI_MATCH,
    BooleanQuery: FullTextQueryType.BOOLEAN,
    CombinedFieldsQuery: FullTextQueryType.COMBINED_FIELDS,
}


def _wrong(name: str, value: object, what: str) -> InvalidTypeError:
    return InvalidTypeError(f"{name} must be {what}, got {shown(value)}.", argument=name)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise _wrong(name, value, "text")


def _check_count(name: str, value: Any) -> None:
    if not is_whole(value) or value < 0:
        raise _wrong(name, value, "an integer of 0 or more")


def _check_factor(name: str, value: object) -> None:
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        raise _wrong(name, value, "a number")
    if not (math.isfinite(value) and value >= 0):
        raise InvalidArgumentError(
            f"{name} must be a finite number of 0 or more, got {value}.", argument=name
        )


def _check_one_of(name: str, value: object, kind: type[Enum]) -> None:
    if not isinstance(value, kind):
        raise _wrong(name, value, f"one of {', '.join(map(str, kind))}")


def _check_query(name: str, value: object) -> None:
    if not isinstance(value, FullTextQuery):
        raise _wrong(name, value, "a query, such as MatchQuery('late snow', 'text')")


def _check_rows(granularity: object) -> None:
    if granularity is not None:
        _check_one_of("document_granularity", granularity, DocumentGranularity)
    if granularity is DocumentGranularity.LIST_ELEMENT:
        raise NotOfferedError(
            "document_granularity=LIST_ELEMENT is not supported: searches find whole rows.",
            hint="Leave it out, or use pylance for this search.",
            argument="document_granularity",
        )


def _list(name: str, value: object) -> list[Any]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _wrong(name, value, "a list")
    return list(value)
