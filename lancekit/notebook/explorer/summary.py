"""What the values of a column are like: all of them are looked at, none is guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit.api.lance_dataset import LanceDataset
from lancekit.format.paths import show_path
from lancekit.legible import python_value
from lancekit.pipeline.diff.ranges import Bin, as_numbers, even_edges, has_ranges, is_time, plain
from lancekit.pipeline.diff.statistics import ColumnStatistics, column_statistics

__all__ = ["BINS", "MOST_COUNTED", "Summary", "read_summary"]

#: bars of a histogram; the most frequent values; and of how many different ones these are known
BINS, TOP, MOST_COUNTED = 16, 8, 1 << 16
#: small batches are looked at so many rows at a time
_TOGETHER = 1 << 16
#: below it, whole numbers are floating-point numbers of their own
_EXACT = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the values of a column are like.

    `top` has the most frequent values and how many there are of each, the first the most frequent;
    it is ``None`` where there are too many different ones to count.  `others` are values that no
    bar has: NaN and infinite ones.
    """

    column: str
    kind: pa.DataType
    statistics: ColumnStatistics
    top: tuple[tuple[Any, int], ...] | None
    bins: tuple[Bin, ...] = ()
    others: int = 0


class _OvertakenError(Exception):
    """Somebody wants something else."""


def read_summary(
    handle: LanceDataset, column: str, overtaken: Callable[[], bool]
) -> Summary | None:
    """Return what a column's values are like; ``None`` if somebody wants something else meanwhile.

    The column is read once, and once more for the bars of numbers with very many different values.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    """
    path = show_path([column])

    def values() -> Iterator[pa.Array]:
        waiting: list[pa.Array] = []
        for batch in handle.to_batches(columns=[path], blob_handling="all_binary"):
            if overtaken():
                raise _OvertakenError
            waiting.append(plain(batch.column(0)))
            if sum(map(len, waiting)) >= _TOGETHER:
                yield pa.concat_arrays(waiting)
                waiting = []
        if waiting:
            yield pa.concat_arrays(waiting)

    counted = _Counts()
    try:
        statistics = column_statistics(map(counted.seen, values()))
        kind = handle._snapshot.manifest.schema.field(column).to_arrow().type
        bins, others = _bars(kind, counted, values)
    except _OvertakenError:
        return None
    return Summary(
        column=column,
        kind=kind,
        statistics=statistics,
        top=counted.top(),
        bins=bins,
        others=others,
    )


class _Counts:
    """How often each value comes, as long as there are not too many different ones."""

    def __init__(self) -> None:
        self.table: pa.Table | None = None
        self.is_whole = True

    def seen(self, values: pa.Array) -> pa.Array:
        """Count values, and give them on."""
        if self.is_whole:
            try:
                found = values.drop_null().value_counts()
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
                self.is_whole, self.table = False, None
                return values
            part = pa.table({"value": found.field(0), "count": found.field(1)})
            self._add(part)
        return values

    def _add(self, part: pa.Table) -> None:
        both = part if self.table is None else pa.concat_tables([self.table, part])
        if self.table is not None:
            summed = both.group_by("value").aggregate([("count", "sum")])
            both = summed.rename_columns({"count_sum": "count"}).select(["value", "count"])
        self.table = both
        if both.num_rows > MOST_COUNTED:
            self.is_whole, self.table = False, None

    def top(self) -> tuple[tuple[Any, int], ...] | None:
        """Return the most frequent values."""
        if self.table is None:
            return None if not self.is_whole else ()
        order = pc.sort_indices(self.table, sort_keys=[("count", "descending")])[:TOP]
        best = self.table.take(order)
        return tuple(
            zip(
                map(python_value, best.column("value")),
                best.column("count").to_pylist(),
                strict=True,
            )
        )


def _bars(
    kind: pa.DataType, counted: _Counts, values: Callable[[], Iterator[pa.Array]]
) -> tuple[tuple[Bin, ...], int]:
    """Return the bars of numbers and times, and how many values none of them has."""
    if not has_ranges(kind):
        return (), 0
    if counted.table is None and counted.is_whole:  # there are none
        return (), 0

    def parts() -> Iterator[tuple[Any, Any]]:
        if counted.table is not None:
            yield as_numbers(counted.table["value"]), np.asarray(counted.table["count"])
            return
        for part in values():
            numbers = as_numbers(part.drop_null())
            yield numbers, np.ones(len(numbers), np.int64)

    low, high, others = np.inf, -np.inf, 0
    for numbers, weights in parts():
        finite = np.isfinite(numbers)
        others += int(weights[~finite].sum())
        low = min(low, numbers[finite].min(initial=np.inf))
        high = max(high, numbers[finite].max(initial=-np.inf))
    if low > high:
        return (), others
    edges = _edges(low, high, whole=not (pt.is_floating(kind) or pt.is_decimal(kind)))
    rows = np.zeros(len(edges) - 1, np.int64)
    for numbers, weights in parts():
        finite = np.isfinite(numbers)
        rows += np.histogram(numbers[finite], edges, weights=weights[finite])[0]
    ends = [_end(kind, edge) for edge in edges]
    return tuple(map(Bin, ends[:-1], ends[1:], rows.tolist())), others


def _edges(low: float, high: float, *, whole: bool) -> Any:
    """Return where bars begin and end: of few whole numbers, one for each."""
    if whole and high - low < BINS and max(-low, high) < _EXACT:
        return np.arange(low, high + 2)
    return even_edges(low, high, BINS)


def _end(kind: pa.DataType, edge: float) -> Any:
    if not is_time(kind):
        return float(edge)
    number = pa.scalar(int(edge), pa.int32() if kind.bit_width == 32 else pa.int64())
    try:
        return number.cast(kind).as_py()
    except (ValueError, OverflowError, pa.ArrowInvalid):
        return float(edge)
