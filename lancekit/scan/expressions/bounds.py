"""What a filter asks of the least and the greatest value of a column, to leave out rows unread.

Only filters are looked at in which nothing but comparisons of columns with literals is joined by
``AND``: these fail for no row, so that it makes no difference which are looked at.  Whether a value
can be among those of a block is asked of the filter's own comparison, on the block's bounds in the
place of its values: ``x > 5`` can only hold in a block of whose greatest value it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.errors import LancekitError
from lancekit.file.kernels.bits import flags_of
from lancekit.scan.expressions.parser import parse
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.expressions.syntax import Syntax

__all__ = ["Bound", "bounds_of"]

#: what holds of a block's least and greatest value if a comparison holds of any of its values
_ASKED: Mapping[str, tuple[str, str]] = {
    "<": ("<", ""),
    "<=": ("<=", ""),
    ">": ("", ">"),
    ">=": ("", ">="),
    "=": ("<=", ">="),
}
#: the same with the column on the right
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class Bound:
    """What must hold of the least and of the greatest value of a column, if anything."""

    column: str
    least: Predicate | None
    greatest: Predicate | None

    def may_hold(self, least: pa.Array, greatest: pa.Array) -> npt.NDArray[np.bool_]:
        """Return which of some blocks may have a row that is wanted; nulls are of nulls alone."""
        may = np.ones(len(least), bool)
        for asked, values in ((self.least, least), (self.greatest, greatest)):
            if asked is not None:
                try:
                    may &= flags_of(asked.mask(pa.table({self.column: values})))
                except LancekitError:  # the values say so themselves, where they are read
                    return np.ones(len(least), bool)
        return may


@lru_cache(maxsize=64)
def bounds_of(sql: str, schema: pa.Schema) -> tuple[Bound, ...]:
    """Return what a filter asks of columns, nothing if it is none of those that are looked at.

    Examples
    --------
    >>> found = bounds_of("x > 5 AND y = 'a'", pa.schema({"x": pa.int8(), "y": pa.string()}))
    >>> [(bound.column, bound.least, bound.greatest.source) for bound in found][:1]
    [('x', None, '`x` > 5')]
    >>> bounds_of("x > 5 OR y = 'a'", pa.schema({"x": pa.int8(), "y": pa.string()}))
    ()
    """
    try:
        found = [_bound(part, sql, schema) for part in _parts(parse(sql))]
    except LancekitError:
        return ()
    return () if None in found else tuple(bound for bound in found if bound is not None)


def _parts(tree: Syntax) -> Iterator[Syntax]:
    if tree.kind == "AND":
        for part in tree.parts:
            yield from _parts(part)
    else:
        yield tree


def _bound(tree: Syntax, sql: str, schema: pa.Schema) -> Bound | None:
    kind = tree.kind
    if kind not in _ASKED:
        return None
    column, literal = tree.parts
    if column.kind != "column":
        kind, column, literal = _TURNED[kind], literal, column
    if not column.is_column:
        return None
    (name,) = column.value
    if "`" in name or schema.get_field_index(name) < 0:
        return None
    if not _fits(literal, schema.field(name).type):
        return None
    text = sql[literal.start : literal.end]

    def asked(operator: str) -> Predicate | None:
        return Predicate.parse(f"`{name}` {operator} {text}", schema) if operator else None

    least, greatest = _ASKED[kind]
    return Bound(name, asked(least), asked(greatest))


def _fits(tree: Syntax, kind: pa.DataType) -> bool:
    """Tell whether a piece is a literal of the kind of a column."""
    if tree.is_number:
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
    is_text = tree.kind == "literal" and isinstance(tree.value, str)
    return is_text and bool(pa.types.is_string(kind))
