"""The part of a handle that reads rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.pylance.arguments import check_count
from lancekit._checked import checked_methods
from lancekit._ipython import hints_are_seen, show_hint
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pandas as pd

    from lancekit._api.fragment import LanceFragment
    from lancekit._api.scan_options import Columns, ScanOptions
    from lancekit._api.scanner import LanceScanner
    from lancekit._api.sql import SqlQueryBuilder
    from lancekit._scan.statistics import ScanStatistics

__all__ = ["Scans"]


@checked_methods
class Scans(Handle):
    """Scans, positions, samples and SQL over the handle's version."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of this version, or of what `default_scan_options` show of it."""
        from lancekit._api.scanner import shown_schema

        return shown_schema(self)

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:  # noqa: A002
        """Return the fragments in row order."""
        from lancekit._api.fragment import LanceFragment
        from lancekit._scan.fragments.source import fragment_sources

        if filter is not None:
            raise InvalidArgumentError(
                "get_fragments(filter=...) is not offered.", hint="Use scanner(filter=...)."
            )
        return [LanceFragment._of(self, source) for source in fragment_sources(self._snapshot)]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """Return a fragment by its id, ``None`` if there is none."""
        found = (f for f in self.get_fragments() if f.fragment_id == fragment_id)
        return next(found, None)

    def scanner(
        self,
        columns: Columns = None,
        filter: Any = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        index_segments: Any = None,
        full_text_query: Any = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        scan_stats_callback: Callable[[ScanStatistics], object] | None = None,
        strict_batch_size: bool | None = None,
        order_by: list[Any] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        row_addr_allowlist: bytes | None = None,
        row_addr_blocklist: bytes | None = None,
        include_mem_wal: bool | None = None,
    ) -> LanceScanner:
        """Set up a scan; nothing is read yet.

        Read-ahead, buffer sizes, statistics and materialization are hints that change no result:
        they are accepted and not used.

        Parameters
        ----------
        columns
            Names of stored or hidden (``_rowid``, ``_rowaddr``, ...) columns, paths of nested
            fields (``s.x``), or SQL expressions by the names of their results; all stored columns
            by default.
        filter
            SQL text such as ``"x > 3 AND y IS NULL"``, or a pyarrow expression; rows for which it
            is null are left out.
        limit, offset
            How many rows to return, and how many to pass over before.
        nearest
            Which rows to find by their vectors, nearest first, such as ``{"column": "embedding",
            "q": vector, "k": 10}``; they come with a column ``_distance`` (float32).  Every vector
            is looked at.  ``docs/search.md`` has the other members.
        full_text_query
            Which rows to find by words of their text, the best first: text, ``{"query": "late
            snow", "columns": ["text"]}``, or a query of `lancekit.query`; they come with a column
            ``_score`` (float32).  ``docs/search.md`` has what may be asked.
        prefilter
            With a search: ask the filter before the search, and not of the rows found.
        use_scalar_index
            ``False`` looks at all rows, without asking indices which of them a filter wants.
        fast_search
            Leave out rows that no index covers, if the filter or the search asks one.
        disable_scoring_autoprojection
            With a search: leave ``_distance`` or ``_score`` out unless ``columns`` names it.
        batch_size
            The most rows of a batch; by default what the environment variable
            ``LANCE_DEFAULT_BATCH_SIZE`` says, or 8192.  Without a filter, no batch has rows of
            two fragments.
        batch_size_bytes
            About how many bytes a batch has at most; each has a row at least.
        fragments
            Read only these fragments.
        with_row_id, with_row_address
            Append ``_rowid`` or ``_rowaddr``.
        blob_handling
            How to show blobs: where they are (``"blobs_descriptions"``, the default), or their
            bytes (``"all_binary"``).
        include_deleted_rows
            Read deleted rows too, as long as their files are there.  They have no ``_rowid``
            (which has to be among the columns) and no ``_rowaddr``.
        include_mem_wal
            Read the newest version, and what the table's shards hold that it does not: of each key
            the newest row.  ``docs/mem-wal.md`` has more.
        scan_stats_callback
            A function that is given a `ScanStatistics` whenever a run of the scan is over.
        strict_batch_size
            Give all batches but the last exactly ``batch_size`` rows.
        order_by
            Column names, or objects with ``column_name`` and ``ascending``; the whole result is
            sorted in memory.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            A name or a filter does not fit the schema.
        NotOfferedError
            An argument that lancekit does not offer was passed.
        """
        return self._scan(_said(locals()))

    def _scan(self, options: ScanOptions) -> LanceScanner:
        from lancekit._api.scanner import scan_of

        options = options.over(self._scan_defaults)
        self._check_shards(asked=options.include_mem_wal)
        return scan_of(self._snapshot, options)

    def to_table(
        self,
        columns: Columns = None,
        filter: Any = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: list[Any] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        include_mem_wal: bool | None = None,
    ) -> pa.Table:
        """Read rows into an Arrow table; arguments as in `scanner`.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset(pa.table({"x": [1, 2, 3]}), "memory://to-table-example")
        >>> ds.to_table(filter="x >= 2", limit=1).to_pydict()
        {'x': [2]}
        """
        return self._scan(_said(locals())).to_table()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the rows as a stream of Arrow's C interface, as `scanner` without arguments."""
        return self.scanner().to_reader().__arrow_c_stream__(requested_schema)

    def to_batches(
        self,
        columns: Columns = None,
        filter: Any = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        strict_batch_size: bool | None = None,
        order_by: list[Any] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        include_mem_wal: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows batch by batch; arguments as in `scanner`."""
        options = _said(locals(), "kwargs")
        return self._scan(options.with_more(kwargs)).to_batches()

    def to_pandas(
        self,
        columns: Columns = None,
        filter: Any = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_mode: str = "lazy",
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: list[Any] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        include_mem_wal: bool | None = None,
        **kwargs: Any,
    ) -> pd.DataFrame:
        """Read rows into a pandas DataFrame; ``kwargs`` go to `pyarrow.Table.to_pandas`.

        ``blob_mode`` says what blobs are: files (``"lazy"``), ``"bytes"`` or ``"descriptions"``.
        Whole numbers beyond 2**53 beside nulls become ``Int64`` or ``UInt64``, as a double would
        round them.
        """
        options = _said(locals(), "blob_mode", "kwargs")
        return self._scan(options).to_pandas(blob_mode=blob_mode, **kwargs)

    def head(self, num_rows: int = 5, **kwargs: Any) -> pa.Table:
        """Read the first rows; ``kwargs`` as in `scanner`."""
        from lancekit._api.scan_options import ScanOptions

        rows = check_count("num_rows", num_rows)
        return self._scan(ScanOptions.of({**kwargs, "limit": rows})).to_table()

    def slice(
        self, start: int, end: int, columns: list[str] | dict[str, str] | None = None
    ) -> pa.Table:
        """Read the rows from position ``start`` to before ``end``."""
        first, stop = check_count("start", start), check_count("end", end)
        return self.to_table(columns=columns, offset=first, limit=max(stop - first, 0))

    def count_rows(self, filter: Any = None, **kwargs: Any) -> int:  # noqa: A002
        """Count the rows, or those that a filter selects; without one nothing is read.

        Rows that wait in shards count with ``include_mem_wal=True``.  Without it a hint names them
        in a notebook, and in the log ``lancekit`` (level INFO) elsewhere.
        """
        if filter is None and not kwargs:
            self._hint_at_waiting_rows()
            return self._snapshot.manifest.num_rows
        from lancekit._api.scan_options import ScanOptions
        from lancekit._api.scanner import scan_of

        options = ScanOptions.of({"columns": [], "filter": filter, **kwargs})
        if not options.include_mem_wal:
            self._hint_at_waiting_rows()
        self._check_shards(asked=options.include_mem_wal)
        return scan_of(self._snapshot, options).count_rows()

    def _hint_at_waiting_rows(self) -> None:
        if self._read_only or not hints_are_seen():
            return
        from lancekit._operations.unmerged.counts import waiting_rows

        if waiting := waiting_rows(self._snapshot):
            calls = ["ds.count_rows(include_mem_wal=True) counts"]
            calls += [f"{waiting.merge_call} merges"] if waiting.merge_call else []
            damage = f" Their {waiting.advice}." if waiting.damaged else ""
            show_hint(f"Not counted: {waiting.words}. {waiting.read_by(*calls)}.{damage}")

    def sql(self, sql: str, *, include_mem_wal: bool = False) -> SqlQueryBuilder:
        """Set up an SQL query over this version, which it knows as ``dataset``.

        DataFusion runs it on the columns that it names, read into memory.

        Parameters
        ----------
        sql
            The text of the query.
        include_mem_wal
            Read the newest version, together with the rows of shards that no version has.

        Raises
        ------
        InvalidArgumentError
            ``include_mem_wal`` was given to a handle that is pinned to a version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://sql-example")
        >>> ds.sql("SELECT sum(x) AS total FROM dataset").build().to_batch_records()[0].to_pydict()
        {'total': [6]}
        """
        from lancekit._api.sql import SqlQueryBuilder

        self._check_shards(asked=include_mem_wal)
        return SqlQueryBuilder(self, sql, include_mem_wal=include_mem_wal)


def _said(arguments: Mapping[str, Any], *others: str) -> ScanOptions:
    # in a function of its own: a method that imports has more among its locals than its arguments
    from lancekit._api.scan_options import ScanOptions

    return ScanOptions.said(arguments, *others)
