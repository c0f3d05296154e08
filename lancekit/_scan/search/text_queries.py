"""What a full-text search may ask, by the names that pylance has for it."""

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
    """The kinds of queries."""

    MATCH = "match"
    MATCH_PHRASE = "match_phrase"
    BOOST = "boost"
    MULTI_MATCH = "multi_match"
    BOOLEAN = "boolean"
    COMBINED_FIELDS = "combined_fields"


class FullTextOperator(Enum):
    """Whether a row is to have all words of a query, or one of them."""

    AND = "AND"
    OR = "OR"


class DocumentGranularity(StrEnum):
    """What is scored: a row, or each text of a list of texts, which lancekit does not offer."""

    ROW = "row"
    LIST_ELEMENT = "list_element"


class Occur(Enum):
    """Whether a row may answer to a part of a query, has to, or must not."""

    SHOULD = "SHOULD"
    MUST = "MUST"
    MUST_NOT = "MUST_NOT"


class FullTextQuery:
    """A question of texts; ``one & other`` and ``one | other`` put two together."""

    def query_type(self) -> FullTextQueryType:
        """Return the kind of the query."""
        return _TYPES[type(self)]

    def parts(self) -> tuple[FullTextQuery, ...]:
        """Return the queries that it is made of, none if it asks a column itself."""
        return ()

    def __and__(self, other: FullTextQuery) -> FullTextQuery:
        return BooleanQuery([(Occur.MUST, self), (Occur.MUST, other)])

    def __or__(self, other: FullTextQuery) -> FullTextQuery:
        return BooleanQuery([(Occur.SHOULD, self), (Occur.SHOULD, other)])


@dataclass(frozen=True)
class MatchQuery(FullTextQuery):
    """The rows that have words of a text.

    Parameters
    ----------
    query
        The words.
    column
        The path of a column of text.
    boost
        What scores are multiplied with.
    operator
        Whether one of the words is enough.
    fuzziness
        How many letters of words may be more, less or others; ``None`` is 0, as for pylance.
    max_expansions
        So many words are looked for in the place of all in ``query``, the first by their letters.
    prefix_length
        How many bytes at the beginning of each word may not differ.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        An argument cannot be used.
    NotOfferedError
        ``document_granularity`` asks for texts of lists one by one.

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
    """The rows that have words one behind the other.

    Parameters
    ----------
    query
        The words.
    column
        The path of a column of text.
    slop
        How many more words there may be between a word and the next.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError, NotOfferedError
        As for `MatchQuery`.
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
    """The rows that answer to a query, those worse that answer to another one, too.

    Parameters
    ----------
    positive
        What the rows answer to.
    negative
        What takes from their scores.
    negative_boost
        How much of the score of ``negative`` is taken away.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        An argument cannot be used.
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
    """The rows that have words of a text in one of several columns; the best column counts.

    Parameters
    ----------
    query
        The words.
    columns
        The paths of columns of text.
    boosts
        What the scores of each column are multiplied with.
    operator
        Whether one of the words is enough.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        An argument cannot be used.
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
                f"There are {len(columns)} columns and {len(boosts)} boosts.",
                hint="Name a column at least, and a boost for each, or none.",
            )
        matches = (
            MatchQuery(self.query, column, boost=boost, operator=self.operator)
            for column, boost in zip(columns, boosts, strict=True)
        )
        object.__setattr__(self, "_matches", tuple(matches))

    def parts(self) -> tuple[FullTextQuery, ...]:
        """Return a query of each column."""
        return self._matches


@dataclass(frozen=True)
class CombinedFieldsQuery(MultiMatchQuery):
    """The rows that have words of a text in several columns, which count as one (BM25F).

    With `FullTextOperator.AND` each word has to be in one of the columns, no matter which.

    Parameters
    ----------
    query
        The words.
    columns
        The paths of columns of text, whose indices have the same settings.
    boosts
        How much the words of each column weigh, 1 or more.
    operator
        Whether one of the words is enough.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        An argument cannot be used.

    Examples
    --------
    >>> CombinedFieldsQuery("anna berg", ["first", "last"], boosts=[1, 2]).query_type()
    <FullTextQueryType.COMBINED_FIELDS: 'combined_fields'>
    """

    def __post_init__(self) -> None:
        MultiMatchQuery.__post_init__(self)
        if len(set(self.columns)) < len(self.columns):
            raise InvalidArgumentError(
                f"A column is named twice: {', '.join(self.columns)}.",
                hint="Name each once, with a boost.",
                argument="columns",
            )
        for boost in self.boosts or ():
            if not 1 <= boost <= _HEAVIEST:
                raise InvalidArgumentError(
                    f"A boost is {boost}.",
                    hint=f"Pass boosts from 1 to {_HEAVIEST:,}.",
                    argument="boosts",
                )


@dataclass(frozen=True)
class BooleanQuery(FullTextQuery):
    """The rows that answer to several queries.

    Parameters
    ----------
    queries
        Pairs of an `Occur` and a query.  Scores of what has to be and of what may be are added.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        They are no such pairs, or none says what rows are wanted.
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
                "The queries say at most which rows are not wanted.",
                hint="Add one with Occur.MUST or Occur.SHOULD.",
                argument="queries",
            )

    def parts(self) -> tuple[FullTextQuery, ...]:
        """Return all of the queries."""
        return tuple(query for _, query in self.queries)

    def of(self, occur: Occur) -> list[FullTextQuery]:
        """Return the queries that are to occur so."""
        return [query for wanted, query in self.queries if wanted is occur]


#: how much more than once a column may weigh
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
    return InvalidTypeError(f"{name} is {shown(value)}.", hint=f"Pass {what}.", argument=name)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise _wrong(name, value, "text")


def _check_count(name: str, value: Any) -> None:
    if not is_whole(value) or value < 0:
        raise _wrong(name, value, "a whole number from 0 on")


def _check_factor(name: str, value: object) -> None:
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        raise _wrong(name, value, "a number")
    if not (math.isfinite(value) and value >= 0):
        raise InvalidArgumentError(
            f"{name} is {value}.", hint="Pass a finite number that is not negative.", argument=name
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
            "document_granularity=LIST_ELEMENT is not offered: a row is found as a whole.",
            hint="Leave it out, or use pylance for this search.",
            argument="document_granularity",
        )


def _list(name: str, value: object) -> list[Any]:

    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _wrong(name, value, "a list")
    return list(value)
