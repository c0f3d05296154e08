"""The arguments of reads: of a dataset, of a fragment, into pandas, into Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from lancekit._arguments.checks import check_callback, check_count, check_flag, check_names_or_flag
from lancekit._arguments.record import Arguments, hint, refused

if TYPE_CHECKING:
    import pyarrow as pa

    from lancekit._arguments.record import Columns, FragmentLike
    from lancekit._scan.statistics import ScanStatistics


class _Selection(Arguments):
    """The rows and columns of a read, and the size of its batches.

    Parameters
    ----------
    columns
        Names of stored or hidden (``_rowid``, ``_rowaddr``, ...) columns, paths of nested fields
        (``s.x``), or SQL expressions by result name.  By default all stored columns.
    filter
        SQL text such as ``"x > 3 AND y IS NULL"``, or a pyarrow expression.  Null counts as false.
    limit, offset
        The number of rows to return, and the number of rows to skip before them.
    batch_size
        The most rows of a batch.  By default the environment variable ``LANCE_DEFAULT_BATCH_SIZE``,
        or 8192.  Without a filter, no batch has rows of two fragments.
    with_row_id, with_row_address
        Append ``_rowid`` or ``_rowaddr``.
    """

    columns: Columns = None
    filter: Any = None
    limit: int | None = None
    offset: int | None = None
    _: KW_ONLY
    batch_size: int | None = None
    with_row_id: bool | None = None
    with_row_address: bool | None = None


class _FragmentRows(_Selection):
    """Further arguments of reads of a fragment.

    Parameters
    ----------
    batch_size_bytes
        The approximate upper limit of a batch in bytes.  Each batch has at least one row.
    strict_batch_size
        Give all batches but the last exactly ``batch_size`` rows.
    include_deleted_rows
        Also read deleted rows whose files still exist.  They have no ``_rowid`` (which must be
        among the columns) and no ``_rowaddr``.
    order_by
        A name or a `ColumnOrdering`, or a list of them.  The whole result is sorted in memory.
    use_scalar_index
        ``False`` filters all rows, without a query of scalar indices.
    batch_readahead, io_buffer_size, late_materialization
        Hints: they are checked, and change no result.
    """

    _: KW_ONLY
    batch_size_bytes: int | None = None
    strict_batch_size: bool | None = None
    include_deleted_rows: bool | None = None
    order_by: object = None
    use_scalar_index: bool | None = None
    batch_readahead: int | None = hint(default=None, check=check_count)
    io_buffer_size: int | None = hint(default=None, check=check_count)
    late_materialization: bool | list[str] | None = hint(default=None, check=check_names_or_flag)


class _TableScope(Arguments):
    """The parts of a table that are read.

    Parameters
    ----------
    fragments
        Read only these fragments.
    include_mem_wal
        Read the newest version together with the rows of the table's shards that are not merged
        yet.  Only the newest row of each key is returned.  See ``docs/mem-wal.md``.
    """

    _: KW_ONLY
    fragments: Iterable[FragmentLike] | None = None
    include_mem_wal: bool | None = None


class _DatasetRows(_TableScope, _FragmentRows):
    """Further arguments of reads of a dataset, and of searches.

    Parameters
    ----------
    nearest
        Vector search, nearest rows first: ``{"column": "embedding", "q": vector, "k": 10}``.  The
        rows have a column ``_distance`` (float32).  ``docs/search.md`` lists the other keys.
    full_text_query
        Full-text search, best rows first: text, ``{"query": "late snow", "columns": ["text"]}``, or
        a query of `lancekit.query`.  The rows have a column ``_score`` (float32).
        ``docs/search.md`` lists the kinds of queries.
    prefilter
        With a search: apply the filter before the search, and not to its result.
    fast_search
        If the filter or the search uses an index: leave out rows that no index covers.
    disable_scoring_autoprojection
        With a search: leave ``_distance`` or ``_score`` out unless ``columns`` names it.
    scan_stats_callback
        A function that receives a `ScanStatistics` at the end of each run of the scan.
    fragment_readahead, scan_in_order, use_stats
        Hints: they are checked, and change no result.
    index_segments, row_addr_allowlist, row_addr_blocklist
        Not supported.
    """

    nearest: Any = None
    _: KW_ONLY
    full_text_query: object = None
    prefilter: bool | None = None
    fast_search: bool | None = None
    disable_scoring_autoprojection: bool | None = None
    scan_stats_callback: Callable[[ScanStatistics], object] | None = None
    fragment_readahead: int | None = hint(default=None, check=check_count)
    scan_in_order: bool | None = hint(default=None, check=check_flag)
    use_stats: bool | None = hint(default=None, check=check_flag)
    index_segments: object = refused(default=None, why="a search uses all segments of an index")
    row_addr_allowlist: bytes | None = refused(default=None, why="use a filter on _rowaddr instead")
    row_addr_blocklist: bytes | None = refused(default=None, why="use a filter on _rowaddr instead")


class _BlobForm(Arguments):
    """The representation of blobs in Arrow columns.

    Parameters
    ----------
    blob_handling
        ``"blobs_descriptions"`` (the default) gives the positions of blobs, ``"all_binary"`` their
        bytes.
    """

    _: KW_ONLY
    blob_handling: str | None = None


class _PandasConversion(Arguments):
    """The conversion of rows to a pandas frame.

    Parameters
    ----------
    blob_mode
        The form of blobs: files (``"lazy"``, the default), ``"bytes"`` or ``"descriptions"``.
    memory_pool, categories, strings_to_categorical, zero_copy_only, integer_object_nulls, \
date_as_object, timestamp_as_object, use_threads, deduplicate_objects, ignore_metadata, safe, \
split_blocks, self_destruct, maps_as_pydicts, types_mapper, coerce_temporal_nanoseconds
        As in `pyarrow.Table.to_pandas`.
    """

    _: KW_ONLY
    blob_mode: str = "lazy"
    memory_pool: pa.MemoryPool | None = None
    categories: list[Any] | None = None
    strings_to_categorical: bool | None = None
    zero_copy_only: bool | None = None
    integer_object_nulls: bool | None = None
    date_as_object: bool | None = None
    timestamp_as_object: bool | None = None
    use_threads: bool | None = None
    deduplicate_objects: bool | None = None
    ignore_metadata: bool | None = None
    safe: bool | None = None
    split_blocks: bool | None = None
    self_destruct: bool | None = None
    maps_as_pydicts: str | None = None
    types_mapper: Callable[[pa.DataType], object] | None = None
    coerce_temporal_nanoseconds: bool | None = None

    def for_arrow(self) -> dict[str, object]:
        """Return the arguments of `pyarrow.Table.to_pandas`."""
        check_callback("types_mapper", self.types_mapper)
        names = _PandasConversion.parameters().parameters.keys() - {"blob_mode"}
        return {name: value for name, value in self.given.items() if name in names}


class FragmentScanArguments(_BlobForm, _FragmentRows):
    """The arguments of reads of a fragment."""


class ScanArguments(_BlobForm, _DatasetRows):
    """The arguments of reads of a dataset."""

    def over(self, defaults: Mapping[str, object]) -> ScanArguments:
        """Return the arguments, with defaults for unset arguments."""
        return scan_arguments({**defaults, **self.given}) if defaults else self


class SparkArguments(_BlobForm, _TableScope, _Selection):
    """The arguments of reads of a dataset into Spark."""


class FragmentFrameArguments(_PandasConversion, _FragmentRows):
    """The arguments of reads of a fragment into pandas."""


class FrameArguments(_PandasConversion, _DatasetRows):
    """The arguments of reads of a dataset into pandas."""


def scan_arguments(given: Mapping[str, object]) -> ScanArguments:
    """Return the arguments of a scan from keywords; `InvalidTypeError` as in `Arguments.of`."""
    return ScanArguments.of(given, "A scan", "scanner()")
