"""`LanceScanner`: a configured scan, its results, and its plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.planned_scan import ATTEMPTS, check_scan, planned, planned_with_shards
from lancekit._arguments.checks import check_count, check_hints
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.extensions import has_extensions, resolved, resolved_schema
from lancekit._scan.fragments.rebatch import exact_batches, small_batches
from lancekit._scan.outputs import Output, plan_columns
from lancekit._scan.scan import Scan
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, ShardError

if TYPE_CHECKING:
    import pandas as pd

    from lancekit._operations.explain.explanation import Explanation
    from lancekit._scan.order_by import ColumnOrdering
    from lancekit._scan.statistics import ScanStatistics

# ---- the part of a scan that explains and measures it


@checked_methods
class _ExplainedScan:
    """The plan of a scan without reading, and the measurements of a run."""

    _scan: Scan
    _snapshot: Snapshot
    _order: Sequence[ColumnOrdering]

    def explain(self) -> Explanation:
        """Describe the reads of the scan; indices are queried, no rows are read.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3], "y": ["a", "b", "c"]}, "memory://explain-scan")
        >>> plan = ds.scanner(columns=["y"], filter="x > 1").explain()
        >>> plan.engine, plan.reads.columns, plan.reads.fragments
        ('local', ('x', 'y'), 1)
        """
        from lancekit._operations.explain.scans import explain_scan

        order = [ordering.column_name for ordering in self._order]
        return explain_scan(self._snapshot, self._scan, order_by=order)

    def explain_plan(self, verbose: bool = False) -> str:
        """Return `explain` as text; ``verbose`` changes nothing."""
        check_hints(verbose=verbose)
        return str(self.explain())

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan, and return `explain` as text with measurements of the run.

        Parameters
        ----------
        count_rows
            Count the rows as `count_rows` does, instead of returning batches.
        """
        from lancekit._scan.statistics import WatchedScan

        found: list[ScanStatistics] = []
        watched = WatchedScan(**vars(self._scan), report=found.append)
        started = time.monotonic()
        rows = watched.count() if count_rows else sum(b.num_rows for b in watched.batches())
        took = f"ran: {rows:,} rows in {time.monotonic() - started:.3f} s"
        counts = [
            f"read: {s.bytes_read:,} bytes in {s.iops:,} ranges by {s.requests:,} requests"
            for s in found
        ]
        return "\n".join([str(self.explain()), *(f"  {line}" for line in (took, *counts))])


T = TypeVar("T")


@checked_methods
class LanceScanner(_ExplainedScan, Displayed):
    """A scan of one version.  It can be run several times; each run reads again.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"x": [1, 2, 3]}), "memory://scanner-example")
    >>> ds.scanner(filter="x > 1").to_table().column("x").to_pylist()
    [2, 3]
    """

    def __init__(
        self,
        scan: Scan,
        snapshot: Snapshot,
        order_by: object = None,
        *,
        strict_batch_size: bool = False,
        batch_size_bytes: int | None = None,
    ) -> None:
        self._scan = scan
        self._strict = strict_batch_size
        self._batch_bytes = (
            None
            if batch_size_bytes is None
            else check_count("batch_size_bytes", batch_size_bytes, least=1)
        )
        self._snapshot = snapshot
        self._dataset_schema = snapshot.manifest.schema
        self._order = () if order_by is None else _orderings(order_by)
        known = set(scan.request.schema.names)
        self._sorted_by = [o.column_name for o in self._order if o.column_name not in known]

    def _in_blocks(self, rows: int | None) -> LanceScanner:
        """Return the scan with blocks of at most some rows in memory."""
        if rows is None:
            return self
        request = replace(self._scan.request, batch_rows=rows, block_bytes=1)
        return LanceScanner(replace(self._scan, request=request), self._snapshot)

    @property
    def unsorted(self) -> Scan | None:
        """The scan plan, or ``None`` if the rows are sorted or come from a search."""
        return None if self._order or self._scan.search else self._scan

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return resolved_schema(self._dataset_schema.to_arrow())

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the result."""
        return resolved_schema(self._scan.request.schema)

    schema = projected_schema

    def to_table(self) -> pa.Table:
        """Run the scan, and return the rows as an Arrow table."""
        return resolved(self._table())

    def _table(self) -> pa.Table:
        if not self._order:
            return self._scan.to_table()
        request = self._scan.request
        names = request.schema.names
        if self._sorted_by:
            request = replace(
                request,
                outputs=request.outputs
                + plan_columns(self._dataset_schema, self._sorted_by, made=self._made),
            )
        whole = replace(self._scan, request=request, limit=None, offset=0).to_table()
        from lancekit._scan.order_by import sorted_table

        ordered = sorted_table(whole, self._order)
        return ordered.slice(self._scan.offset, self._scan.limit).select(names)

    @property
    def _made(self) -> tuple[pa.Field, ...]:
        return self._scan.search.made if self._scan.search else ()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result in batches; only ``order_by`` holds the whole result in memory."""
        rows = self._scan.request.batch_rows
        if self._order:
            batches = iter(self.to_table().to_batches(max_chunksize=rows))
        else:
            batches = self._scan.batches()
            if any(map(has_extensions, self._scan.request.schema)):
                batches = map(resolved, batches)
        if self._batch_bytes is not None:
            batches = small_batches(batches, self._batch_bytes)
        yield from exact_batches(batches, rows) if self._strict else batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as an Arrow reader."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_pandas(self, *, blob_mode: str = "lazy", **kwargs: object) -> pd.DataFrame:
        """Read the result into a pandas DataFrame.

        Parameters
        ----------
        blob_mode
            The form of blobs: files (``"lazy"``), ``"bytes"`` or ``"descriptions"``.
        kwargs
            Arguments of `pyarrow.Table.to_pandas`.

        Returns
        -------
        pandas.DataFrame
            The rows.

        Raises
        ------
        InvalidArgumentError
            ``blob_mode`` is unknown, or ``kwargs`` has an unknown name.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://scanner-pandas-example")
        >>> ds.scanner(filter="x > 1").to_pandas()["x"].tolist()
        [2]
        """
        from lancekit._api.frames import (
            blob_columns,
            check_blob_mode,
            frame_with_blobs,
            pandas_frame,
        )

        check_blob_mode(blob_mode)
        blobs = blob_columns(self._scan.request.outputs, self._dataset_schema)
        if blob_mode == "descriptions" or not blobs:
            return pandas_frame(self.to_table(), kwargs)
        names = self.projected_schema.names
        return frame_with_blobs(
            self._with_addresses(), names, blobs, self._scan.sources, blob_mode, kwargs
        )

    def _with_addresses(self) -> pa.Table:
        from lancekit._api.frames import BLOB_ADDRESS

        request = self._scan.request
        address = Output(pa.field(BLOB_ADDRESS, pa.uint64()), path="_rowaddr")
        outputs = (*request.outputs, address)
        scan = replace(self._scan, request=replace(request, outputs=outputs))
        return LanceScanner(scan, self._snapshot, self._order).to_table()

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows of the result."""
        rows = check_count("num_rows", num_rows)
        limit = rows if self._scan.limit is None else min(rows, self._scan.limit)
        if self._order:
            return self.to_table().slice(0, rows)
        return resolved(replace(self._scan, limit=limit).to_table())

    def count_rows(self) -> int:
        """Count the rows of the result."""
        return self._scan.count()

    def _plain(self) -> str:
        return f"LanceScanner({self._snapshot.called})"


def _orderings(order_by: object) -> tuple[ColumnOrdering, ...]:
    from lancekit._scan.order_by import parse_orderings

    return parse_orderings(order_by)


def scan_of(snapshot: Snapshot, arguments: ScanArguments) -> LanceScanner:
    """Set up a scan of a version.

    Raises ColumnNotFoundError, PredicateError: a column or a filter does not fit the schema.
    Raises NotOfferedError: an argument is not supported.
    """
    check_scan(arguments)
    if arguments.include_mem_wal:
        return _ShardedScanner(snapshot.location, arguments)
    return LanceScanner(
        planned(snapshot, arguments), snapshot, arguments.order_by, **_sizes(arguments)
    )


def _sizes(arguments: ScanArguments) -> dict[str, Any]:
    return {
        "strict_batch_size": bool(arguments.strict_batch_size),
        "batch_size_bytes": arguments.batch_size_bytes,
    }


class _ShardedScanner(LanceScanner):
    """A scan of the newest version of a table together with the rows of its shards.

    If its files are merged and cleaned up before they are read, the scan is planned again.  Once it
    has returned rows, it raises instead.
    """

    def __init__(self, location: BranchLocation, arguments: ScanArguments) -> None:
        self._location, self._arguments = location, arguments
        self._of, scan = planned_with_shards(location, arguments)
        super().__init__(scan, self._of.base, arguments.order_by, **_sizes(arguments))

    def to_table(self) -> pa.Table:
        return self._again(super().to_table)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        batches = super().to_batches
        rest, first = self._again(lambda: (found := batches(), next(found, None)))
        if first is None:
            return
        yield first
        try:
            yield from rest
        except CorruptFileError as error:
            if planned_with_shards(self._location, self._arguments)[0].is_like(self._of):
                raise
            raise ShardError(
                "Rows of shards were merged and their files removed during the read, after the "
                f"first rows were returned: {error.message}",
                hint="Read again. A longer grace keeps files for readers: "
                "ds.cleanup_mem_wal(grace=...).",
            ) from error

    def to_pandas(self, *, blob_mode: str = "lazy", **kwargs: object) -> pd.DataFrame:
        frame = super().to_pandas
        return self._again(lambda: frame(blob_mode=blob_mode, **kwargs))

    def head(self, num_rows: int) -> pa.Table:
        rows = super().head
        return self._again(lambda: rows(num_rows))

    def count_rows(self) -> int:
        return self._again(super().count_rows)

    def _again(self, work: Callable[[], T]) -> T:
        for _ in range(ATTEMPTS):
            try:
                return work()
            except CorruptFileError:
                of, scan = planned_with_shards(self._location, self._arguments)
                if of.is_like(self._of):
                    raise
                self._of, self._scan, self._snapshot = of, scan, of.base
        return work()


def shown_schema(handle: Handle) -> pa.Schema:
    """Return the schema that a handle shows: its version's, with its scan defaults applied."""
    if not handle._scan_defaults:
        return handle._snapshot.row_schema
    return scan_of(handle._snapshot, ScanArguments().over(handle._scan_defaults)).projected_schema
