"""The values of rows, by their addresses, as they are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import numbers_of
from lancekit._file.kernels.widths import value_bytes
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.parts import projected
from lancekit._pipeline.diff.side import Addresses, Side
from lancekit._pipeline.diff.values import Digests, Seeds, differing, digests
from lancekit._scan.ahead import Workers
from lancekit._scan.fragments.category_keys import fitted, joined
from lancekit.errors import UnsupportedFeatureError

__all__ = [
    "all_done",
    "ascending_numbers",
    "changed_rows",
    "row_digests",
    "row_values",
    "rows_at_a_time",
    "unlike",
]

T = TypeVar("T")

#: rows from which on a thread has milliseconds to do
_THREADED_ROWS = 1 << 17
#: decoded bytes of the rows that are compared at a time
_HELD_BYTES = 64 << 20
#: numbers that are read before it is looked whether they ascend
_NUMBERS_ROWS = 1 << 18


def rows_at_a_time(columns: Sequence[ColumnPair]) -> int:
    """Return of how many rows the values of columns are held."""
    width = sum(value_bytes(pair.kind) for pair in columns)
    return max(_HELD_BYTES // max(width, 8), 1)


def row_digests(
    columns: Sequence[ColumnPair], side: Side, rows: Addresses, seeds: Seeds, *, new: bool
) -> Digests:
    """Return digests of columns of rows, by which both sides' can be compared."""
    step = rows_at_a_time(columns)
    parts = (rows[start : start + step] for start in range(0, len(rows), step))
    return Digests.joined(
        [digests(row_values(columns, side, part, new=new), seeds) for part in parts]
    )


def row_values(
    columns: Sequence[ColumnPair], side: Side, rows: Addresses, *, new: bool
) -> list[pa.Array]:
    """Return columns of rows, of the types that they have on the new side.

    Dictionaries have wider keys where those of their type do not suffice; `fitted` cuts them.
    """
    fields = (
        (pair.name, None if new and pair.is_lacked else pair.new if new else pair.old)
        for pair in columns
    )
    names = {name: field.name for name, field in fields if field is not None}
    table = side.read(list(names.values()), rows)
    return [
        _as_array(table[names[pair.name]], pair, new=new)
        if pair.name in names
        else pa.nulls(len(rows), pair.kind)
        for pair in columns
    ]


def ascending_numbers(
    pair: ColumnPair, side: Side, rows: Addresses, *, new: bool
) -> npt.NDArray[Any] | None:
    """Return whole numbers of rows if each is greater than the one before it, and none is null."""
    if pair.is_cast or not pa.types.is_integer(pair.kind):
        return None
    parts = list[npt.NDArray[Any]]()
    for start in range(0, len(rows), _NUMBERS_ROWS):
        (values,) = row_values([pair], side, rows[start : start + _NUMBERS_ROWS], new=new)
        if ak.null_count(values):
            return None
        numbers = numbers_of(values)
        follows = not parts or parts[-1][-1] < numbers[0]
        if not follows or not (numbers[1:] > numbers[:-1]).all():
            return None
        parts.append(numbers)
    return np.concatenate(parts) if parts else None


def _as_array(values: pa.ChunkedArray, pair: ColumnPair, *, new: bool) -> pa.Array:
    if values.type != pair.kind or pair.parts:
        kind, parts = pair.kind, pair.parts
        try:
            chunks = [projected(chunk, kind, parts, new=new) for chunk in values.chunks]
            values = pa.chunked_array(chunks, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnsupportedFeatureError(
                f"Column {pair.name!r} was {values.type} and is {pair.kind}: Arrow cannot make the "
                "one of the other, so that nobody can tell which values differ.",
                hint="Name the other columns in `columns`.",
                column=pair.name,
            ) from error
    return joined(values.chunks, pair.kind)


def unlike(
    columns: Sequence[ColumnPair], sides: tuple[Side, Side], old: Addresses, new: Addresses
) -> npt.NDArray[np.bool_]:
    """Return which values of pairs of rows differ: a row for each column, in their order."""
    work = (
        partial(row_values, columns, sides[0], old, new=False),
        partial(row_values, columns, sides[1], new, new=True),
    )
    values = zip(*all_done(work, len(old)), strict=True)
    found = all_done([partial(differing, *both) for both in values], len(old))
    return np.stack(found) if found else np.zeros((0, len(old)), bool)


def all_done(work: Sequence[Callable[[], T]], rows: int) -> list[T]:
    """Return results in order; of many rows they are worked out in threads."""
    if rows < _THREADED_ROWS:
        return [do() for do in work]
    with Workers() as workers:
        return list(workers.results(work))


def changed_rows(
    schema: pa.Schema,
    word: str,
    columns: Sequence[ColumnPair],
    side: Side,
    rows: Addresses,
    *,
    new: bool,
) -> pa.Table:
    """Return rows with the word for what became of them, then columns, then dropped ones."""
    found = row_values(columns, side, rows, new=new)
    dropped = list(schema)[1 + len(columns) :]
    if new or not dropped:
        found += [pa.nulls(len(rows), field.type) for field in dropped]
    else:
        gone = side.read([field.name for field in dropped], rows)
        found += [joined(gone[field.name].chunks, field.type) for field in dropped]
    change = pa.array([word] * len(rows), pa.string())
    kinds = schema.types[1:]
    columns_found = [fitted(*column) for column in zip(found, kinds, strict=True)]
    return pa.table([change, *columns_found], schema=schema)
