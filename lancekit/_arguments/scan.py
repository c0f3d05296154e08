"""What reads of rows take: of a dataset, of a fragment, into pandas."""

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


class _Selected(Arguments):
    """Which rows are read, which of their columns, and in which batches.

    Parameters
    ----------
    columns
        Names of stored or hidden (``_rowid``, ``_rowaddr``, ...) columns, paths of nested fields
        (``s.x``), or SQL expressions by the names of their results; all stored columns by default.
    filter
        SQL text such as ``"x > 3 AND y IS NULL"``, or a pyarrow expression; rows for which it is
        null are left out.
    limit, offset
        How many rows to return, and how many to pass over before.
    batch_size
        The most rows of a batch; by default what the environment variable
        ``LANCE_DEFAULT_BATCH_SIZE`` says, or 8192.  Without a filter, no batch has rows of two
        fragments.
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


class _FragmentRows(_Selected):
    """How rows of a fragment are read.

    Parameters
    ----------
    batch_size_bytes
        About how many bytes a batch has at most; each has a row at least.
    strict_batch_size
        Give all batches but the last exactly ``batch_size`` rows.
    include_deleted_rows
        Read deleted rows too, as long as their files are there.  They have no ``_rowid`` (which has
        to be among the columns) and no ``_rowaddr``.
    order_by
        Column names, or objects with ``column_name`` and ``ascending``; the whole result is sorted
        in memory.
    use_scalar_index
        ``False`` looks at all rows, without asking indices which of them a filter wants.
    batch_readahead, io_buffer_size, late_materialization
        Hints: they are checked, and change no result.
    """

    _: KW_ONLY
    batch_size_bytes: int | None = None
    strict_batch_size: bool | None = None
    include_deleted_rows: bool | None = None
    order_by: list[Any] | None = None
    use_scalar_index: bool | None = None
    batch_readahead: int | None = hint(default=None, check=check_count)
    io_buffer_size: int | None = hint(default=None, check=check_count)
    late_materialization: bool | list[str] | None = hint(default=None, check=check_names_or_flag)


class _OfTable(Arguments):
    """Which parts of a table are read.

    Parameters
    ----------
    fragments
        Read only these fragments.
    include_mem_wal
        Read the newest version, and what the table's shards hold that it does not: of each key the
        newest row.  ``docs/mem-wal.md`` has more.
    """

    _: KW_ONLY
    fragments: Iterable[FragmentLike] | None = None
    include_mem_wal: bool | None = None


class _Rows(_OfTable, _FragmentRows):
    """Which rows of a dataset are read besides, and how they are searched.

    Parameters
    ----------
    nearest
        Which rows to find by their vectors, nearest first, such as ``{"column": "embedding", "q":
        vector, "k": 10}``; they come with a column ``_distance`` (float32).  ``docs/search.md`` has
        the other members.
    full_text_query
        Which rows to find by words of their text, the best first: text, ``{"query": "late snow",
        "columns": ["text"]}``, or a query of `lancekit.query`; they come with a column ``_score``
        (float32).  ``docs/search.md`` has what may be asked.
    prefilter
        With a search: ask the filter before the search, and not of the rows found.
    fast_search
        Leave out rows that no index covers, if the filter or the search asks one.
    disable_scoring_autoprojection
        With a search: leave ``_distance`` or ``_score`` out unless ``columns`` names it.
    scan_stats_callback
        A function that is given a `ScanStatistics` whenever a run of the scan is over.
    fragment_readahead, scan_in_order, use_stats
        Hints: they are checked, and change no result.
    index_segments, row_addr_allowlist, row_addr_blocklist
        Not offered.
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
    index_segments: object = refused(default=None, why="a search takes all segments of an index")
    row_addr_allowlist: bytes | None = refused(default=None, why="use a filter on _rowaddr instead")
    row_addr_blocklist: bytes | None = refused(default=None, why="use a filter on _rowaddr instead")


class _InArrow(Arguments):
    """How blobs come in Arrow's columns.

    Parameters
    ----------
    blob_handling
        How to show blobs: where they are (``"blobs_descriptions"``, the default), or their bytes
        (``"all_binary"``).
    """

    _: KW_ONLY
    blob_handling: str | None = None


class _InPandas(Arguments):
    """How rows become a frame of pandas.

    Parameters
    ----------
    blob_mode
        What blobs are: files (``"lazy"``, the default), ``"bytes"`` or ``"descriptions"``.
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
        names = _InPandas.parameters().parameters.keys() - {"blob_mode"}
        return {name: value for name, value in self.given.items() if name in names}


class FragmentScanArguments(_InArrow, _FragmentRows):
    """What reads of a fragment take."""


class ScanArguments(_InArrow, _Rows):
    """What reads of a dataset take."""

    def over(self, defaults: Mapping[str, object]) -> ScanArguments:
        """Return the arguments, with defaults for what nobody has asked for."""
        return scan_arguments({**defaults, **self.given}) if defaults else self


class SparkArguments(_InArrow, _OfTable, _Selected):
    """What reads of a dataset into Spark take."""


class FragmentFrameArguments(_InPandas, _FragmentRows):
    """What reads of a fragment into pandas take."""


class FrameArguments(_InPandas, _Rows):
    """What reads of a dataset into pandas take."""


def scan_arguments(given: Mapping[str, object]) -> ScanArguments:
    """Return the arguments of a scan that came by name; `InvalidTypeError` as in `Arguments.of`."""
    return ScanArguments.of(given, "A scan", "scanner()")
