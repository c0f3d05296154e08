"""What the values of a column are like: all of them are looked at, none is guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.api.lance_dataset import LanceDataset
from lancekit.format.paths import show_path
from lancekit.pipeline.diff.counts import Counts, histogram
from lancekit.pipeline.diff.ranges import Bin, plain
from lancekit.pipeline.diff.statistics import ColumnStatistics, column_statistics

__all__ = ["BINS", "MOST_COUNTED", "Summary", "read_summary"]

#: bars of a histogram; the most frequent values; and of how many different ones these are known
BINS, TOP, MOST_COUNTED = 16, 8, 1 << 16
#: small batches are looked at so many rows at a time
_TOGETHER = 1 << 16


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
                yield ak.concat_arrays(waiting)
                waiting = []
        if waiting:
            yield ak.concat_arrays(waiting)

    counts = Counts(MOST_COUNTED)
    try:
        statistics = column_statistics(map(counts.seen, values()))
        kind = handle._snapshot.manifest.schema.field(column).to_arrow().type
        bins, others = histogram(kind, statistics, counts, values, BINS)
    except _OvertakenError:
        return None
    return Summary(
        column=column,
        kind=kind,
        statistics=statistics,
        top=counts.top(TOP),
        bins=bins,
        others=others,
    )
