"""Sorting of a result: nulls first or last per column, NaN above all numbers, as in SQL engines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._legible import shown
from lancekit._scan.fragments.rebatch import taken
from lancekit.errors import InvalidTypeError


@dataclass(frozen=True, slots=True)
class ColumnOrdering:
    """One column to sort by.

    Parameters
    ----------
    column_name
        The column.
    ascending
        The direction. NaN is above all numbers.
    nulls_first
        Whether nulls come first, in both directions.

    Examples
    --------
    >>> ColumnOrdering("x", ascending=False)
    ColumnOrdering(column_name='x', ascending=False, nulls_first=False)
    """

    column_name: str
    ascending: bool = True
    nulls_first: bool = False


def parse_orderings(order_by: object) -> tuple[ColumnOrdering, ...]:
    """Return sort keys from column names or objects like `ColumnOrdering`.

    Raises InvalidTypeError: something else was passed.
    """
    if order_by is None:
        return ()
    if isinstance(order_by, str) or not isinstance(order_by, Collection | np.ndarray):
        return (_parse(order_by),)
    return tuple(map(_parse, order_by.items() if isinstance(order_by, dict) else order_by))


def _parse(ordering: object) -> ColumnOrdering:
    if isinstance(ordering, str):
        return ColumnOrdering(ordering)
    name = getattr(ordering, "column_name", None)
    if not isinstance(name, str):
        name = str(ordering[0] if isinstance(ordering, tuple) and ordering else ordering).strip("`")
        raise InvalidTypeError(
            f"order_by must contain column names or ColumnOrdering objects, got {shown(ordering)}.",
            hint=f"Use order_by=[lk.ColumnOrdering({name!r}, ascending=False)].",
        )
    return ColumnOrdering(
        name,
        bool(getattr(ordering, "ascending", True)),
        bool(getattr(ordering, "nulls_first", False)),
    )


def sorted_table(table: pa.Table, orderings: Sequence[ColumnOrdering]) -> pa.Table:
    """Return the rows of a table in sorted order; the sort is stable."""
    columns: list[pa.ChunkedArray] = []
    directions: list[tuple[str, str]] = []

    def key(values: pa.ChunkedArray, *, ascending: bool) -> None:
        columns.append(values)
        directions.append((str(len(directions)), "ascending" if ascending else "descending"))

    for ordering in orderings:
        values = ak.sortable(table.column(ordering.column_name))
        # Arrow has one null placement for all columns, and puts NaN next to the nulls
        key(values.is_null(), ascending=not ordering.nulls_first)
        if pa.types.is_floating(values.type):
            key(pc.is_nan(values).fill_null(False), ascending=ordering.ascending)
        key(values, ascending=ordering.ascending)
    keys = pa.table(columns, names=[name for name, _ in directions])
    order = ak.sort_indices(keys, sort_keys=directions)
    return taken(table, order.to_numpy().view(np.int64))
