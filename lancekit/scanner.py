"""`LanceScanner` and `ScannerBuilder`: a scan that is set up, and what it can give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit.arguments import check_count
from lancekit.checked import checked, checked_methods
from lancekit.commit.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.explained_scan import ExplainedScan
from lancekit.format.extensions import has_extensions, resolved, resolved_schema
from lancekit.frames import blob_columns, check_blob_mode, frame_with_blobs, pandas_frame
from lancekit.legible import shown
from lancekit.not_offered import PartOfPylance
from lancekit.scan.blobs import blob_view
from lancekit.scan.order import parse_orderings, sorted_table
from lancekit.scan.predicate import Predicate
from lancekit.scan.rebatch import exact_batches, small_batches
from lancekit.scan.scanner import Scan, ScanRequest, default_batch_rows, plan_columns
from lancekit.scan.sources import FragmentSource, fragment_sources, sources_for
from lancekit.scan.statistics import ScanStatistics, WatchedScan

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LanceScanner", "ScannerBuilder", "make_scan"]

Columns = list[str] | dict[str, str] | None


@checked
def make_scan(
    snapshot: Snapshot,
    *,
    columns: Columns = None,
    filter: Any = None,  # noqa: A002
    limit: int | None = None,
    offset: int | None = None,
    batch_size: int | None = None,
    with_row_id: bool | None = None,
    with_row_address: bool | None = None,
    blob_handling: str | None = None,
    sources: Iterable[FragmentSource] | None = None,
    with_deleted: bool = False,
    report: Callable[[ScanStatistics], object] | None = None,
) -> Scan:
    """Plan a scan of a version; names and types are checked, nothing is read."""
    schema = blob_view(snapshot.manifest.schema, blob_handling)
    if isinstance(columns, str):
        raise InvalidTypeError(
            f"columns is the string {shown(columns)}.", hint=f"Pass a list: [{shown(columns)}]."
        )
    hidden = [
        name for name, wanted in (("_rowid", with_row_id), ("_rowaddr", with_row_address)) if wanted
    ]
    predicate = None if filter is None else Predicate.parse(filter, schema.to_arrow())
    if sources is None:
        sources = sources_for(fragment_sources(snapshot, schema), predicate)
    else:
        sources = [replace(source, schema=schema) for source in sources]
    request = ScanRequest(
        outputs=plan_columns(schema, columns, hidden),
        predicate=predicate,
        batch_rows=default_batch_rows()
        if batch_size is None
        else check_count("batch_size", batch_size, least=1),
        metadata=tuple(schema.metadata.items()),
    )
    if with_deleted:
        if "_rowid" not in request.schema.names:
            raise InvalidArgumentError(
                "include_deleted_rows is set, but with_row_id is not.",
                hint="Pass with_row_id=True: deleted rows are those without a row id.",
            )
        sources = [replace(source, with_deleted=True) for source in sources]
    scan = Scan(
        sources=tuple(sources),
        request=request,
        limit=None if limit is None else check_count("limit", limit),
        offset=0 if offset is None else check_count("offset", offset),
    )
    return scan if report is None else WatchedScan(**vars(scan), report=report)


@checked_methods
class LanceScanner(ExplainedScan, PartOfPylance):
    """A scan of one version.  It can be run more than once; each run reads anew.

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
        order_by: Any = None,
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
        self._order = parse_orderings(order_by)
        known = set(scan.request.schema.names)
        self._sorted_by = [o.column_name for o in self._order if o.column_name not in known]

    @property
    def unsorted(self) -> Scan | None:
        """The scan itself; ``None`` if its rows are still to be sorted."""
        return None if self._order else self._scan

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
        """Read the result into memory."""
        return resolved(self._table())

    def _table(self) -> pa.Table:
        if not self._order:
            return self._scan.to_table()
        request = self._scan.request
        names = request.schema.names
        if self._sorted_by:
            request = replace(
                request,
                outputs=request.outputs + plan_columns(self._dataset_schema, self._sorted_by),
            )
        whole = replace(self._scan, request=request, limit=None, offset=0).to_table()
        ordered = sorted_table(whole, self._order)
        return ordered.slice(self._scan.offset, self._scan.limit).select(names)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result in batches, memory being bounded by blocks of a fragment."""
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

    def to_pandas(self, *, blob_mode: str = "lazy", **kwargs: Any) -> pd.DataFrame:
        """Read the result into a pandas DataFrame; ``kwargs`` go to `pyarrow.Table.to_pandas`.

        ``blob_mode`` says what blobs are: files (``"lazy"``), ``"bytes"`` or ``"descriptions"``.
        """
        check_blob_mode(blob_mode)
        blobs = blob_columns(self._scan.request.outputs, self._dataset_schema)
        if blob_mode == "descriptions" or not blobs:
            return pandas_frame(self.to_table(), kwargs)
        names = self.projected_schema.names
        return frame_with_blobs(
            self._with_addresses(), names, blobs, self._scan.sources, blob_mode, kwargs
        )

    def _with_addresses(self) -> pa.Table:
        request = self._scan.request
        outputs = request.outputs
        if "_rowaddr" not in request.schema.names:
            outputs += plan_columns(self._dataset_schema, ["_rowaddr"])
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


@checked_methods
class ScannerBuilder(PartOfPylance):
    """Sets up a scan step by step; every setter returns the builder.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"x": [1, 2, 3]}), "memory://builder-example")
    >>> lk.ScannerBuilder(ds).filter("x > 1").limit(1).to_scanner().to_table().num_rows
    1
    """

    def __init__(self, ds: Any) -> None:
        if not hasattr(ds, "_plain_scanner"):
            raise InvalidTypeError(f"{shown(ds)} is no dataset.", hint="Pass a LanceDataset.")
        self._ds = ds
        self._arguments: dict[str, Any] = {}

    def _set(self, argument: str, value: Any) -> ScannerBuilder:
        self._arguments[argument] = value
        return self

    def columns(self, cols: Columns = None) -> ScannerBuilder:
        """Set ``columns`` of `LanceDataset.scanner`."""
        return self._set("columns", cols)

    def filter(self, filter: Any) -> ScannerBuilder:  # noqa: A002
        """Set ``filter`` of `LanceDataset.scanner`."""
        return self._set("filter", filter)

    def limit(self, n: int | None = None) -> ScannerBuilder:
        """Set ``limit`` of `LanceDataset.scanner`."""
        return self._set("limit", n)

    def offset(self, n: int | None = None) -> ScannerBuilder:
        """Set ``offset`` of `LanceDataset.scanner`."""
        return self._set("offset", n)

    def batch_size(self, batch_size: int) -> ScannerBuilder:
        """Set ``batch_size`` of `LanceDataset.scanner`."""
        return self._set("batch_size", batch_size)

    def batch_size_bytes(self, batch_size_bytes: int) -> ScannerBuilder:
        """Set ``batch_size_bytes`` of `LanceDataset.scanner`."""
        return self._set("batch_size_bytes", batch_size_bytes)

    def batch_readahead(self, nbatches: int | None = None) -> ScannerBuilder:
        """Set ``batch_readahead`` of `LanceDataset.scanner`."""
        return self._set("batch_readahead", nbatches)

    def fragment_readahead(self, nfragments: int | None = None) -> ScannerBuilder:
        """Set ``fragment_readahead`` of `LanceDataset.scanner`."""
        return self._set("fragment_readahead", nfragments)

    def scan_in_order(self, scan_in_order: bool = True) -> ScannerBuilder:
        """Set ``scan_in_order`` of `LanceDataset.scanner`."""
        return self._set("scan_in_order", scan_in_order)

    def with_fragments(self, fragments: Iterable[Any] | None) -> ScannerBuilder:
        """Set ``fragments`` of `LanceDataset.scanner`."""
        return self._set("fragments", fragments)

    def with_row_id(self, with_row_id: bool = True) -> ScannerBuilder:
        """Set ``with_row_id`` of `LanceDataset.scanner`."""
        return self._set("with_row_id", with_row_id)

    def with_row_address(self, with_row_address: bool = True) -> ScannerBuilder:
        """Set ``with_row_address`` of `LanceDataset.scanner`."""
        return self._set("with_row_address", with_row_address)

    def order_by(self, orderings: list[Any] | None) -> ScannerBuilder:
        """Set ``order_by`` of `LanceDataset.scanner`."""
        return self._set("order_by", orderings)

    def prefilter(self, prefilter: bool) -> ScannerBuilder:
        """Set ``prefilter`` of `LanceDataset.scanner`."""
        return self._set("prefilter", prefilter)

    def use_stats(self, use_stats: bool = True) -> ScannerBuilder:
        """Set ``use_stats`` of `LanceDataset.scanner`."""
        return self._set("use_stats", use_stats)

    def use_scalar_index(self, use_scalar_index: bool = True) -> ScannerBuilder:
        """Set ``use_scalar_index`` of `LanceDataset.scanner`."""
        return self._set("use_scalar_index", use_scalar_index)

    def late_materialization(self, late_materialization: bool | list[str]) -> ScannerBuilder:
        """Set ``late_materialization`` of `LanceDataset.scanner`."""
        return self._set("late_materialization", late_materialization)

    def blob_handling(self, blob_handling: str) -> ScannerBuilder:
        """Set ``blob_handling`` of `LanceDataset.scanner`."""
        return self._set("blob_handling", blob_handling)

    def include_deleted_rows(self, flag: bool) -> ScannerBuilder:
        """Set ``include_deleted_rows`` of `LanceDataset.scanner`."""
        return self._set("include_deleted_rows", flag)

    def strict_batch_size(self, strict_batch_size: bool = False) -> ScannerBuilder:
        """Set ``strict_batch_size`` of `LanceDataset.scanner`."""
        return self._set("strict_batch_size", strict_batch_size)

    def scan_stats_callback(self, callback: Callable[[ScanStatistics], object]) -> ScannerBuilder:
        """Set ``scan_stats_callback`` of `LanceDataset.scanner`."""
        return self._set("scan_stats_callback", callback)

    def io_buffer_size(self, io_buffer_size: int) -> ScannerBuilder:
        """Set ``io_buffer_size`` of `LanceDataset.scanner`."""
        return self._set("io_buffer_size", io_buffer_size)

    def apply_defaults(self, default_opts: dict[str, Any]) -> ScannerBuilder:
        """Set arguments of `LanceDataset.scanner` that are not set yet."""
        self._arguments = {**default_opts, **self._arguments}
        return self

    def to_scanner(self) -> LanceScanner:
        """Return the scan."""
        scanner: LanceScanner = self._ds._plain_scanner(**self._arguments)
        return scanner
