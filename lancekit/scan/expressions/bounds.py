"""What a filter asks of the least and the greatest value of a column, to leave out rows unread.

Only filters are looked at in which nothing but comparisons of columns with literals is joined by
``AND``: these fail for no row, so that it makes no difference which are looked at.  Whether a value
can be among those of a block is asked of the filter's own comparison, on the block's bounds in the
place of its values: ``x > 5`` can only hold in a block of whose greatest value it holds.

Imported only when a block has bounds and there is a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.errors import LancekitError
from lancekit.file.kernels.bits import flags_of
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.expressions.simple import tree_of
from lancekit.scan.expressions.syntax import gathered_in, kind_of, slot_of

__all__ = ["Bound", "bounds_of"]

#: what holds of a block's least and greatest value if a comparison holds of any of its values
_ASKED: Mapping[str, tuple[str, str]] = {
    "lt": ("<", ""),
    "lte": ("<=", ""),
    "gt": ("", ">"),
    "gte": ("", ">="),
    "eq": ("<=", ">="),
}
#: the same with the column on the right
_TURNED = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte", "eq": "eq"}


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
        found = [_bound(part, schema) for part in _parts(tree_of(sql))]
    except LancekitError:
        return ()
    return () if None in found else tuple(bound for bound in found if bound is not None)


def _parts(tree: Any) -> Iterator[Any]:
    while kind_of(tree) == "paren":
        tree = tree.this
    if kind_of(tree) == "and":
        for part in tree.flatten():
            yield from _parts(part)
    else:
        yield tree


def _bound(tree: Any, schema: pa.Schema) -> Bound | None:
    kind = kind_of(tree)
    if kind not in _ASKED:
        return None
    column, literal = tree.this, tree.expression
    if kind_of(column) != "column":
        kind, column, literal = _TURNED[kind], literal, column
    if kind_of(column) != "column" or len(column.parts) != 1:
        return None
    name = column.parts[0].name
    if "`" in name or schema.get_field_index(name) < 0:
        return None
    text = _literal(literal, schema.field(name).type)
    if text is None:
        return None

    def asked(operator: str) -> Predicate | None:
        return Predicate.parse(f"`{name}` {operator} {text}", schema) if operator else None

    least, greatest = _ASKED[kind]
    return Bound(name, asked(least), asked(greatest))


def _literal(tree: Any, kind: pa.DataType) -> str | None:
    """Return a literal of the kind of a column as it is written, if it is one."""
    sign = ""
    if kind_of(tree) == "neg":
        sign, tree = "-", tree.this
    if kind_of(tree) != "literal" or gathered_in(tree) or slot_of(tree):
        return None
    fits: Callable[[pa.DataType], bool]
    if tree.is_string:
        fits, text = pa.types.is_string, "'" + str(tree.this).replace("'", "''") + "'"
    else:
        fits, text = _is_number, f"{sign}{tree.this}"
    return text if fits(kind) and not (sign and tree.is_string) else None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
