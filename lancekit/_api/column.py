"""Columns of a version, with statistics of their values."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._api.hinting import hinting_operators
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
from lancekit._scan.fragments.rebatch import joined
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.take import rows_at, rows_of_runs, spread_runs
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = ["SECONDS", "Bin", "ColumnSummary", "DatasetColumn", "sampled_rows"]

#: the most bins of a histogram
_BINS = 10_000


@hinting_operators("__getitem__")
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ColumnSummary(Displayed):
    """Statistics of the values of a column; `DatasetColumn.statistics` makes them.

    Attributes
    ----------
    column
        The path of the column.
    rows, rows_read
        The number of rows of the version, and the number of rows that were read.  If fewer were
        read, the other statistics describe an evenly spread sample.
    nulls
        The number of nulls.
    min, max
        The lowest and the highest value; ``None`` if there is no value or no order.
    distinct
        The number of distinct values without null: exact below 16,384, otherwise an estimate.
    top
        The most frequent values with their counts; empty if the type cannot be counted.
    histogram
        Bins of equal width for numbers or times; for few whole numbers, one bin for each value.
        Empty for other types.
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
        """True if all rows were read; otherwise the statistics are estimates."""
        return self.rows_read == self.rows

    @property
    def null_share(self) -> float:
        """The fraction of the read rows that are null."""
        return self.nulls / self.rows_read if self.rows_read else 0.0

    def _plain(self) -> str:
        return f"ColumnSummary({self.column!r}, {self.rows_read} of {self.rows} rows)"


@hinting_operators(
    "__contains__ __array__ __iadd__ __isub__ __imul__ __itruediv__ "
    "__len__ __getitem__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ "
    "__truediv__ __rtruediv__ __floordiv__ __mod__ __pow__ __neg__ __abs__ __invert__ __and__ "
    "__or__ __gt__ __lt__ __ge__ __le__ __eq__ __ne__"
)
@checked_methods
class DatasetColumn(Displayed):
    """A column of the handle's version: ``ds["dep_delay"]``, ``ds["address.city"]``.

    Creating it only reads the footers of a few data files.

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
        """The Arrow type of the values; extension types are used if they are registered."""
        return self._arrow.type

    @property
    def nullable(self) -> bool:
        """True if the column can have nulls; a field of a nullable struct can have them, too."""
        return self._arrow.nullable

    @property
    def field_id(self) -> int:
        """The id of the column's field, which does not change when the column is renamed."""
        return self._fields[-1].id

    @property
    def metadata(self) -> dict[str, str]:
        """The key-value metadata of the field."""
        return dict(self._fields[-1].metadata)

    @property
    def key_position(self) -> int | None:
        """The position of the column in the primary key, from 1 on, or ``None``."""
        ids = [field.id for field in self._snapshot.manifest.schema.primary_key]
        return ids.index(self.field_id) + 1 if self.field_id in ids else None

    @property
    def indices(self) -> list[IndexDescription]:
        """The indices on the column, sorted by name; no file is read."""
        ids = set(_ids(self._fields[-1]))
        return [one for one in describe_indices(self._snapshot) if not ids.isdisjoint(one.fields)]

    @property
    def constraints(self) -> list[Constraint]:
        """The constraints whose condition mentions the column."""
        stored = stored_constraints(self._snapshot.manifest.config).values()
        name = re.compile(rf"(?<!\w){re.escape(self._fields[0].name)}(?!\w)", re.IGNORECASE)
        return [one for one in stored if name.search(one.condition)]

    def statistics(
        self, *, rows: int | None = None, top: int = 10, bins: int = 12
    ) -> ColumnSummary:
        """Read the column, or a sample of a long one, and return statistics of its values.

        Parameters
        ----------
        rows
            The most rows to read, in at most 256 MiB.  By default all rows if that takes about a
            second, otherwise a sample: blocks of rows that are evenly spread over the table.
        top, bins
            The number of most frequent values, and the most bins of the histogram (up to 10,000); 0
            for none.

        Returns
        -------
        ColumnSummary
            `min`, `max`, `distinct`, `nulls`, `top`, `histogram`, and the number of rows read.

        Raises
        ------
        InvalidArgumentError
            ``rows`` is less than 1, or ``bins`` is more than 10,000.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [3, 1, 1]}, "memory://column-statistics-example")
        >>> ds["x"].statistics().top[0]
        (1, 2)
        """
        most = None if rows is None else check_count("rows", rows, least=1)
        top = check_count("top", top)
        bins = check_count("bins", bins)
        if bins > _BINS:
            raise InvalidArgumentError(f"bins must be at most {_BINS:,}, got {bins}.")
        values = [
            plain(batch.column(0)) for batch in sampled_rows(self._snapshot, [self.path], most)
        ]
        found, counts = column_statistics(values), Counts()
        ranges: tuple[Bin, ...] = ()
        if values and not is_blob(self._fields[-1].metadata):
            combined = counts.seen(joined(values, values[0].type))
            ranges, _ = histogram(combined.type, found, counts, lambda: [combined], bins)
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


# ---- rows for statistics: all rows of a version, or a sample of evenly spread blocks

#: the time limit for reading all rows, in seconds, if no number of rows is given
SECONDS = 1.0
#: the fraction of the time limit after which a projection decides if all rows can be read
_TRIED = 0.25
#: the size in bytes below which the time limit is higher, and its factor
_SMALL, _PATIENCE = 16 << 20, 5
#: the rows of a sample, the most blocks, and the number of blocks per read
_ROWS, _BLOCKS, _BLOCKS_PER_READ = 1 << 18, 1 << 10, 1 << 6
#: the size of values in bytes at which reading stops
_BYTES = 256 << 20
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def sampled_rows(
    snapshot: Snapshot, paths: Sequence[str], most: int | None, seconds: float = SECONDS
) -> list[pa.RecordBatch]:
    """Return all rows of a version, or evenly spread blocks of a large one.

    A table often consists of loads that differ.  So there are many small blocks, read in an order
    that covers the whole table at any point.  More than 256 MiB of values are never read.

    paths: the columns to read, in the order of the result.
    most: the most rows; ``None`` reads all rows if they are few, or take no longer than `seconds`.
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
    """Read all rows of a version; ``None`` if that takes too long, or too much memory."""
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
    """Read blocks until there are enough rows or bytes, or the time limit is reached."""
    total, until = snapshot.manifest.num_rows, time.monotonic() + seconds
    wanted = min(most or _ROWS, total)
    starts, lengths = spread_runs(np.random.default_rng(0), total, wanted, min(_BLOCKS, wanted))
    order = _evenly(len(starts))
    schema = blob_view(snapshot.manifest.schema)
    sources, outputs = fragment_sources(snapshot, schema), plan_columns(schema, columns)
    taken = 0
    found: list[pa.RecordBatch] = []
    for at in range(0, len(order), _BLOCKS_PER_READ):
        blocks = np.sort(order[at : at + _BLOCKS_PER_READ])
        rows = rows_of_runs(starts[blocks], lengths[blocks])
        table = resolved(rows_at(sources, outputs, rows))
        found += table.to_batches()
        taken += table.nbytes
        if taken > _BYTES or (most is None and time.monotonic() > until):
            break
    return found


def _evenly(count: int) -> npt.NDArray[np.int64]:
    """Return the numbers below `count` in an order whose prefixes are evenly spread.

    Examples
    --------
    >>> _evenly(8).tolist()
    [0, 5, 2, 7, 4, 1, 6, 3]
    """
    places = np.arange(count) * _GOLDEN_RATIO % 1.0
    ranks: npt.NDArray[np.int64] = np.argsort(np.argsort(places))
    return ranks
