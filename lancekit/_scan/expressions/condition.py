"""Conditions that a table has to meet: of each row, or of what is counted and summed over all.

A condition of rows is a filter.  In one of a table, columns stand inside of ``count``, ``sum``,
``min``, ``max`` and ``avg``; around them is the language of filters, in which the value of an
aggregate is a column that is called by the aggregate's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lancekit._format.column_names import RESERVED_NAMES
from lancekit._legible import shown
from lancekit._scan.expressions.aggregate import Aggregate
from lancekit._scan.expressions.error_position import failure, not_too_deep
from lancekit._scan.expressions.nodes import negation
from lancekit._scan.expressions.parser import parse
from lancekit._scan.expressions.predicate import ComputedColumn, Predicate, time_of, with_hidden
from lancekit._scan.expressions.syntax import Syntax
from lancekit.errors import InvalidTypeError, PredicateError

__all__ = ["Condition", "parse_condition"]


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
    with not_too_deep(text):
        tree = parse(text, aggregates=True)
        calls = list(_aggregates(tree))
        return _of_table(text, tree, calls, schema) if calls else _of_rows(text, tree, schema)


def _aggregates(tree: Syntax) -> Iterator[Syntax]:
    """Yield the aggregates of a piece, in their order, without those inside of others."""
    waiting = [tree]
    while waiting:
        piece = waiting.pop()
        if piece.kind == "aggregate":
            yield piece
        else:
            waiting += reversed(piece.parts)


def _of_rows(text: str, tree: Syntax, schema: pa.Schema) -> Condition:
    broken = _broken(text, tree, schema)
    if not broken.columns:
        raise failure(text, "the condition names no column:", 0)
    return Condition(text=text, columns=_stored(text, broken.columns), aggregates=(), broken=broken)


def _of_table(text: str, tree: Syntax, calls: Sequence[Syntax], schema: pa.Schema) -> Condition:
    found: dict[str, Aggregate] = {}
    for call in calls:
        aggregate = _aggregate(text, call, schema)
        found.setdefault(aggregate.text, aggregate)
    aggregates = tuple(found.values())
    outer = pa.schema([pa.field(one.text, one.type) for one in aggregates])
    try:
        broken = _broken(text, tree, outer)
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


def _broken(text: str, tree: Syntax, schema: pa.Schema) -> Predicate:
    met = Predicate.of(text, _bound(text, tree, schema), schema)
    return replace(met, expr=negation(met.expr))


def _aggregate(text: str, call: Syntax, schema: pa.Schema) -> Aggregate:
    name, distinct, filtered = call.value
    parts = call.parts[: len(call.parts) - filtered]
    if name == "count" and not distinct and [part.kind for part in parts] == ["star"]:
        parts = ()
    elif not parts or (len(parts) > 1 and not distinct):
        raise failure(text, f"{name} takes one argument:", call.start)
    if distinct and name != "count":
        raise failure(text, f"DISTINCT goes with count, not with {name}:", call.start)
    if any(piece.kind == "aggregate" for part in call.parts for piece in part.walk()):
        raise failure(text, "an aggregate stands in another one:", call.start)
    arguments = [_bound(text, part, schema) for part in parts]
    where = None
    if filtered:
        rows = _bound(text, call.parts[-1], schema)
        where = Predicate.of(rows.sql, rows, schema)
    return Aggregate.of(
        text[call.start : call.end], name, arguments, distinct=distinct, where=where
    )


def _bound(text: str, tree: Syntax, schema: pa.Schema) -> ComputedColumn:
    from lancekit._scan.expressions.bind import bind  # loads all kernels

    found = bind(tree, text, with_hidden(schema), time_of(text))
    return ComputedColumn.of(text[tree.start : tree.end], found)


def _stored(text: str, columns: frozenset[str]) -> frozenset[str]:
    if hidden := sorted(columns & set(RESERVED_NAMES)):
        raise PredicateError(
            f"the condition {text!r} names {hidden[0]}, which is not a value of the row.",
            hint="Write it with columns of the table.",
            sql=text,
            column=hidden[0],
        )
    return columns
