"""`DatasetColumn`: one column of a version, and what its values are like."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api.scanner import scan_of
from lancekit._arguments.checks import check_count
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.extensions import resolved, resolved_schema
from lancekit._format.field_marks import is_blob
from lancekit._format.paths import find_field, path_field
from lancekit._format.schema import LanceField
from lancekit._operations.checks.constraints import Constraint, stored_constraints
from lancekit._operations.index.describe import IndexDescription, describe_indices
from lancekit._operations.maintenance.inventory import ColumnStorage, column_storage
from lancekit._pipeline.diff.statistics import Bin, Counts, column_statistics, histogram, plain
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.take import rows_at, rows_of_runs, spread_runs
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = ["SECONDS", "Bin", "ColumnSummary", "DatasetColumn", "sampled_rows"]

#: a histogram has no more ranges
_BINS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ColumnSummary(Displayed):
    """What the values of a column are like; `DatasetColumn.statistics` makes it.

    Attributes
    ----------
    column
        Its path.
    rows, rows_read
        How many rows the version has, and how many of them were read.  If these are fewer, all the
        rest is about rows that were drawn evenly.
    nulls
        How many of these are null.
    min, max
        The lowest and the highest value; ``None`` where there is none, or no order.
    distinct
        How many values there are, nulls left out: exact for less than 16,384, else an estimate.
    top
        The most frequent values, with their rows; empty where values cannot be counted.
    histogram
        Ranges of numbers or times, equally wide; few whole ones have one each.  Empty for other
        types.
    """

    column: str
    rows: int
    rows_read: int
    nulls: int
    min: Any
    max: Any
    distinct: int
    top: tuple[tuple[Any, int], ...] = ()
    histogram: tuple[Bin, ...] = ()

    @property
    def exact(self) -> bool:
        """True if all rows were read: else this is an estimate."""
        return self.rows_read == self.rows

    @property
    def null_share(self) -> float:
        """The share of the rows read that are null."""
        return self.nulls / self.rows_read if self.rows_read else 0.0

    def _plain(self) -> str:
        return f"ColumnSummary({self.column!r}, {self.rows_read} of {self.rows} rows)"


@checked_methods
class DatasetColumn(Displayed):
    """A column of the version that a handle is at: ``ds["dep_delay"]``, ``ds["address.city"]``.

    Of data files only the ends of a few are read, when it is made.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"delay": [5, None, 5]}, "memory://column-example")
    >>> column = ds["delay"]
    >>> column.type, column.nullable, column.storage.files
    (DataType(int64), True, 1)
    >>> found = column.statistics()
    >>> found.null_share, found.min, found.top
    (0.3333333333333333, 5, ((5, 2),))
    """

    def __init__(self, snapshot: Snapshot, path: str) -> None:
        schema = snapshot.manifest.schema
        self._snapshot = snapshot
        self._fields = find_field(schema, path)
        self._arrow = resolved_schema(pa.schema([path_field(schema, path)])).field(0)
        self.path = path
        self.storage: ColumnStorage = column_storage(snapshot, set(_ids(self._fields[-1])))

    @property
    def type(self) -> pa.DataType:
        """The type of its values, as users have them."""
        return self._arrow.type

    @property
    def nullable(self) -> bool:
        """Whether it may have nulls; a field of a struct that may be null may, too."""
        return self._arrow.nullable

    @property
    def field_id(self) -> int:
        """The id of its field, which renaming leaves as it is."""
        return self._fields[-1].id

    @property
    def metadata(self) -> dict[str, str]:
        """The field's own key-value metadata."""
        return dict(self._fields[-1].metadata)

    @property
    def key_position(self) -> int | None:
        """Its place in the primary key, from 1; ``None`` if it is not of the key."""
        ids = [field.id for field in self._snapshot.manifest.schema.primary_key]
        return ids.index(self.field_id) + 1 if self.field_id in ids else None

    @property
    def indices(self) -> list[IndexDescription]:
        """The indices on it, by their names; no file is read."""
        ids = set(_ids(self._fields[-1]))
        return [one for one in describe_indices(self._snapshot) if not ids.isdisjoint(one.fields)]

    @property
    def constraints(self) -> list[Constraint]:
        """The constraints whose condition has its name."""
        stored = stored_constraints(self._snapshot.manifest.config).values()
        name = re.compile(rf"(?<!\w){re.escape(self._fields[0].name)}(?!\w)", re.IGNORECASE)
        return [one for one in stored if name.search(one.condition)]

    def statistics(
        self, *, rows: int | None = None, top: int = 10, bins: int = 12
    ) -> ColumnSummary:
        """Read the column, or blocks of a long one, and return what its values are like.

        Parameters
        ----------
        rows
            The most rows to read, in no more than 256 MiB; by default as many as can be read in a
            second.  Fewer than all are blocks of rows that are spread evenly over the table.
        top, bins
            How many of the most frequent values, and how many ranges of a histogram at most
            (10,000 are the most); none with 0.
        """
        most = None if rows is None else check_count("rows", rows, least=1)
        top = check_count("top", top)
        bins = check_count("bins", bins)
        if bins > _BINS:
            raise InvalidArgumentError(f"bins is {bins}.", hint=f"Pass {_BINS:,} or fewer.")
        values = [
            plain(batch.column(0)) for batch in sampled_rows(self._snapshot, [self.path], most)
        ]
        found, counts = column_statistics(values), Counts()
        ranges: tuple[Bin, ...] = ()
        if values and not is_blob(self._fields[-1].metadata):
            together = counts.seen(ak.concat_arrays(values))
            ranges, _ = histogram(together.type, found, counts, lambda: [together], bins)
        return ColumnSummary(
            column=self.path,
            rows=self._snapshot.manifest.num_rows,
            rows_read=found.rows,
            nulls=found.nulls,
            min=found.min,
            max=found.max,
            distinct=found.distinct,
            top=counts.top(top) or (),
            histogram=ranges,
        )

    def _plain(self) -> str:
        return f"DatasetColumn({self.path!r}, {self.type})"


def _ids(field: LanceField) -> Iterator[int]:
    yield field.id
    for child in field.children:
        yield from _ids(child)


# ---- rows for statistics: all rows of a version, or blocks of rows that are spread evenly over
# it

#: reading all rows may take so many seconds, unless a number of rows is wanted
SECONDS = 1.0
#: after this share of the time it is known whether all rows can be read
_TRIED = 0.25
#: so many bytes are read in any case, unless that takes so many times as long
_SMALL, _PATIENCE = 16 << 20, 5
#: rows of a sample, its blocks at most, and how many blocks are read together
_ROWS, _BLOCKS, _TOGETHER = 1 << 18, 1 << 10, 1 << 6
#: reading ends at so many bytes of values
_BYTES = 256 << 20
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def sampled_rows(
    snapshot: Snapshot, paths: Sequence[str], most: int | None, seconds: float = SECONDS
) -> list[pa.RecordBatch]:
    """Return all rows of a version, or of a large one blocks that are spread evenly over it.

    A table is often laid down in loads that differ, so the blocks are small and many, and any
    number of them covers the whole table.

    Parameters
    ----------
    paths
        The paths of the columns to read, which become the columns of the batches, in that order.
    most
        The most rows to read.  With ``None`` all rows are read if they are few, or if that takes
        no longer than `seconds`.  More than 256 MiB of values are never read.
    """
    columns = list(paths)
    if most is None or most >= snapshot.manifest.num_rows:
        found = _all_rows(snapshot, columns, seconds if most is None else None)
        if found is not None:
            return found
    return _sample(snapshot, columns, most, seconds)


def _all_rows(
    snapshot: Snapshot, columns: list[str], seconds: float | None
) -> list[pa.RecordBatch] | None:
    """Read a version; ``None`` if that takes too long, or too much memory."""
    total, begun = snapshot.manifest.num_rows, time.monotonic()
    read = taken = 0
    found = []
    for batch in scan_of(snapshot, ScanArguments(columns=columns)).to_batches():
        found.append(batch)
        read += batch.num_rows
        taken += batch.nbytes
        if taken > _BYTES:
            return None
        if seconds is not None and read < total:
            spent = time.monotonic() - begun
            allowed = seconds * (_PATIENCE if taken * total <= _SMALL * read else 1)
            if spent > allowed * _TRIED and spent * total > allowed * read:
                return None
    return found


def _sample(
    snapshot: Snapshot, columns: list[str], most: int | None, seconds: float
) -> list[pa.RecordBatch]:
    """Read blocks, until there are enough rows or bytes, or the time is over."""
    total, until = snapshot.manifest.num_rows, time.monotonic() + seconds
    wanted = min(most or _ROWS, total)
    starts, lengths = spread_runs(np.random.default_rng(0), total, wanted, min(_BLOCKS, wanted))
    order = _evenly(len(starts))
    schema = blob_view(snapshot.manifest.schema)
    sources, outputs = fragment_sources(snapshot, schema), plan_columns(schema, columns)
    taken = 0
    found: list[pa.RecordBatch] = []
    for at in range(0, len(order), _TOGETHER):
        blocks = np.sort(order[at : at + _TOGETHER])
        rows = rows_of_runs(starts[blocks], lengths[blocks])
        table = resolved(rows_at(sources, outputs, rows))
        found += table.to_batches()
        taken += table.nbytes
        if taken > _BYTES or (most is None and time.monotonic() > until):
            break
    return found


def _evenly(count: int) -> npt.NDArray[np.int64]:
    """Return the numbers below `count` in an order whose every beginning is spread evenly.

    Examples
    --------
    >>> _evenly(8).tolist()
    [0, 5, 2, 7, 4, 1, 6, 3]
    """
    places = np.arange(count) * _GOLDEN_RATIO % 1.0
    ranks: npt.NDArray[np.int64] = np.argsort(np.argsort(places))
    return ranks
