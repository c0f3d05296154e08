"""Conditions that a table has to meet: of each row, or of what is counted and summed over all.

A condition of rows is a filter.  In one of a table, columns stand inside of ``count``, ``sum``,
``min``, ``max`` and ``avg``; around them is the language of filters.  Each aggregate is cut out of
the text, and what is left is a filter over columns of their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lancekit.errors import InvalidTypeError, PredicateError
from lancekit.format.column_names import RESERVED_NAMES
from lancekit.legible import shown
from lancekit.scan.expressions.aggregate import Aggregate
from lancekit.scan.expressions.error_position import failure
from lancekit.scan.expressions.lexer import Token, tokens
from lancekit.scan.expressions.predicate import Predicate, compile_expression

__all__ = ["Condition", "parse_condition"]

_NAMES = ("count", "sum", "min", "max", "avg")
#: what no text of an aggregate lacks: most conditions need not be taken to pieces
_CALL = re.compile(rf"\b({'|'.join(_NAMES)})\s*(/\*|--|\()", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition bound to a schema.  Can be pickled.

    Attributes
    ----------
    text
        What was written.
    columns
        The columns that it reads, nested ones by their paths.
    aggregates
        What is computed over all rows; nothing for a condition of rows.
    broken
        Which rows break it, those of the table or one of the aggregates in their order: where the
        condition is null, none does.
    """

    text: str
    columns: frozenset[str]
    aggregates: tuple[Aggregate, ...]
    broken: Predicate

    @property
    def of_rows(self) -> bool:
        """Whether each row meets it or not; else the whole table does."""
        return not self.aggregates

    def met_by(self, values: Sequence[pa.Scalar]) -> bool:
        """Tell whether a table with these aggregates meets the condition.

        Raises
        ------
        PredicateError
            It cannot be computed, such as a division by zero.
        """
        arrays = [
            pa.array([value], aggregate.type)
            for value, aggregate in zip(values, self.aggregates, strict=True)
        ]
        row = pa.record_batch(arrays, names=[aggregate.text for aggregate in self.aggregates])
        return not self.broken.mask(row)[0].as_py()


def parse_condition(text: str, schema: pa.Schema) -> Condition:
    """Bind a condition to a schema.

    Parameters
    ----------
    text
        A filter such as ``"dep_delay >= -120"``, or one over ``count(*)``, ``count(x)``,
        ``count(DISTINCT x)``, ``sum(x)``, ``min(x)``, ``max(x)`` and ``avg(x)``, each of which
        may have a ``FILTER (WHERE ...)``.
    schema
        The dataset's schema.

    Raises
    ------
    PredicateError
        The text does not parse, does not fit the schema, is not true or false, or names no
        column, or one beside aggregates.

    Examples
    --------
    >>> schema = pa.schema({"x": pa.int8(), "y": pa.int8()})
    >>> parse_condition("x > y", schema).of_rows
    True
    >>> condition = parse_condition("count(DISTINCT x) FILTER (WHERE y > 0) = count(*)", schema)
    >>> [aggregate.text for aggregate in condition.aggregates]
    ['count(DISTINCT x) FILTER (WHERE y > 0)', 'count(*)']
    """
    if not isinstance(text, str):
        raise InvalidTypeError(
            f"A condition is {shown(text)}.", hint='Pass SQL text, such as "dep_delay >= -120".'
        )
    calls = list(_calls(text)) if _CALL.search(text) else []
    if not calls:
        return _of_rows(text, schema)
    found: dict[str, Aggregate] = {}
    pieces, end = list[str](), 0
    for call in calls:
        aggregate = _bound(text, call, schema)
        found.setdefault(aggregate.text, aggregate)
        pieces += [text[end : call.start], "`", aggregate.text.replace("`", "``"), "`"]
        end = call.end
    aggregates = tuple(found.values())
    outer = pa.schema([pa.field(one.text, one.type) for one in aggregates])
    try:
        broken = _broken("".join([*pieces, text[end:]]), outer)
    except PredicateError as error:
        if error.context.get("column") not in {field.name for field in schema}:
            raise
        raise PredicateError(
            f"{error.context['column']!r} stands beside aggregates, in one of which it has to be.",
            hint="Write two conditions, one of rows and one of the table.",
            sql=text,
            column=error.context["column"],
        ) from error
    columns = frozenset[str]().union(*(one.columns for one in aggregates))
    return Condition(
        text=text, columns=_stored(text, columns), aggregates=aggregates, broken=broken
    )


def _of_rows(text: str, schema: pa.Schema) -> Condition:
    broken = _broken(text, schema)
    if not broken.columns:
        raise failure(text, "the condition names no column:", 0)
    return Condition(text=text, columns=_stored(text, broken.columns), aggregates=(), broken=broken)


def _broken(text: str, schema: pa.Schema) -> Predicate:
    Predicate.parse(text, schema)  # by itself: it has to be one condition, and its errors show it
    # a comment may be the end of it
    return Predicate.parse(f"NOT (\n{text}\n)", schema)


def _stored(text: str, columns: frozenset[str]) -> frozenset[str]:
    if hidden := sorted(columns & set(RESERVED_NAMES)):
        raise PredicateError(
            f"the condition {text!r} names {hidden[0]}, which is not a value of the row.",
            hint="Write it with columns of the table.",
            sql=text,
            column=hidden[0],
        )
    return columns


# ---- taking a text to pieces


_DEPTH = {"(": 1, ")": -1, "[": 1, "]": -1}


class _Call(NamedTuple):
    """Where an aggregate stands, and its parts; `where` is the span of its filter."""

    name: str
    start: int
    end: int
    arguments: tuple[tuple[int, int], ...]
    distinct: bool
    where: tuple[int, int] | None


def _calls(text: str) -> Iterator[_Call]:
    """Yield the aggregates of a text, in order; those inside of others are left to them."""
    pieces = tokens(text)
    place = 0
    while place < len(pieces) - 1:
        token = pieces[place]
        if token.key.lower() not in _NAMES or pieces[place + 1].key != "(":
            place += 1
            continue
        close = _closing(text, pieces, place + 1)
        distinct = pieces[place + 2].key == "DISTINCT"
        arguments = _arguments(pieces, place + 2 + distinct, close)
        where, last = None, close
        if [one.key for one in pieces[close + 1 : close + 4]] == ["FILTER", "(", "WHERE"]:
            last = _closing(text, pieces, close + 2)
            where = pieces[close + 4].start, pieces[last - 1].end
        yield _Call(token.text.lower(), token.start, pieces[last].end, arguments, distinct, where)
        place = last + 1


def _closing(text: str, pieces: Sequence[Token], place: int) -> int:
    """Return the place of the parenthesis that closes the one at a place."""
    depth = 0
    for at in range(place, len(pieces)):
        depth += _DEPTH.get(pieces[at].key, 0)
        if not depth:
            return at
    raise failure(text, "a parenthesis is not closed:", pieces[place].start)


def _arguments(pieces: Sequence[Token], first: int, close: int) -> tuple[tuple[int, int], ...]:
    """Return the spans of what stands between commas."""
    if first == close:
        return ()
    spans, start, depth = list[tuple[int, int]](), pieces[first].start, 0
    for at in range(first, close):
        depth += _DEPTH.get(pieces[at].key, 0)
        if pieces[at].key == "," and not depth:
            spans.append((start, pieces[at - 1].end))
            start = pieces[at + 1].start
    return (*spans, (start, pieces[close - 1].end))


def _bound(text: str, call: _Call, schema: pa.Schema) -> Aggregate:
    parts = [text[slice(*span)].strip() for span in call.arguments]
    if call.name == "count" and parts == ["*"] and not call.distinct:
        parts = []
    elif not parts or (len(parts) > 1 and not call.distinct):
        raise failure(text, f"{call.name} takes one argument:", call.start)
    if call.distinct and call.name != "count":
        raise failure(text, f"DISTINCT goes with count, not with {call.name}:", call.start)
    where = None if call.where is None else text[slice(*call.where)]
    try:
        return Aggregate.of(
            text[call.start : call.end],
            call.name,
            [compile_expression(part, schema) for part in parts],
            distinct=call.distinct,
            where=None if where is None else Predicate.parse(where, schema),
        )
    except PredicateError as error:
        if error.context.get("function") in _NAMES:
            raise failure(text, "an aggregate stands in another one:", call.start) from error
        raise
