"""The part of a dataset handle that reads rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count
from lancekit._arguments.record import takes
from lancekit._arguments.scan import FrameArguments, ScanArguments, SparkArguments, scan_arguments
from lancekit._checked import checked_methods
from lancekit._interrupts import hints_are_seen, show_hint
from lancekit._versions.references import parse_reference, resolve
from lancekit.errors import InvalidTypeError

if TYPE_CHECKING:
    import pandas as pd

    from lancekit._api.scanner import LanceScanner
    from lancekit._api.sql import SqlQueryBuilder
    from lancekit._arguments.record import Columns


@checked_methods
class Scans(Handle):
    """Scans, the first rows, counts, SQL and Spark over the handle's version."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of this version, as far as `default_scan_options` select it."""
        from lancekit._api.scanner import shown_schema

        return shown_schema(self)

    @takes(
        ScanArguments,
        "columns filter limit offset nearest batch_size batch_size_bytes batch_readahead "
        "fragment_readahead scan_in_order fragments index_segments full_text_query",
    )
    def scanner(self, arguments: ScanArguments) -> LanceScanner:
        """Set up a scan; nothing is read yet.

        Returns
        -------
        LanceScanner
            The scan; `LanceScanner.to_table` and others run it.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            A column or a filter does not fit the schema.
        NotOfferedError
            An argument is not supported.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://scanner-example")
        >>> ds.scanner(filter="x > 1").count_rows()
        2
        """
        return self._scan(arguments)

    def _scan(self, arguments: ScanArguments) -> LanceScanner:
        from lancekit._api.scanner import scan_of

        arguments = arguments.over(self._scan_defaults)
        self._check_shards(requested=arguments.include_mem_wal)
        return scan_of(self._snapshot, arguments)

    @takes(
        ScanArguments,
        "columns filter limit offset nearest batch_size batch_size_bytes batch_readahead "
        "fragment_readahead scan_in_order",
    )
    def to_table(self, arguments: ScanArguments) -> pa.Table:
        """Read rows into an Arrow table.

        Returns
        -------
        pyarrow.Table
            The rows.

        Raises
        ------
        ColumnNotFoundError, PredicateError, NotOfferedError
            As in `scanner`.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset(pa.table({"x": [1, 2, 3]}), "memory://to-table-example")
        >>> ds.to_table(filter="x >= 2", limit=1).to_pydict()
        {'x': [2]}
        """
        return self._scan(arguments).to_table()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as an Arrow C stream, like `scanner` without arguments."""
        return self.scanner().to_reader().__arrow_c_stream__(requested_schema)

    @takes(
        ScanArguments,
        "columns filter limit offset nearest batch_size batch_size_bytes batch_readahead "
        "fragment_readahead scan_in_order",
    )
    def to_batches(self, arguments: ScanArguments) -> Iterator[pa.RecordBatch]:
        """Read rows batch by batch.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            The rows; they are read as the iterator advances.

        Raises
        ------
        ColumnNotFoundError, PredicateError, NotOfferedError
            As in `scanner`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://to-batches-example")
        >>> [batch.num_rows for batch in ds.to_batches(batch_size=2)]
        [2, 1]
        """
        return self._scan(arguments).to_batches()

    @takes(
        FrameArguments,
        "columns filter limit offset nearest batch_size batch_readahead fragment_readahead "
        "scan_in_order",
    )
    def to_pandas(self, arguments: FrameArguments) -> pd.DataFrame:
        """Read rows into a pandas DataFrame.

        A column with nulls and whole numbers beyond 2**53 becomes ``Int64`` or ``UInt64``, because
        a double would round the numbers.

        Returns
        -------
        pandas.DataFrame
            The rows.

        Raises
        ------
        ColumnNotFoundError, PredicateError, NotOfferedError
            As in `scanner`.
        InvalidArgumentError
            ``blob_mode`` is unknown.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://to-pandas-example")
        >>> ds.to_pandas(filter="x > 1")["x"].tolist()
        [2, 3]
        """
        scanner = self._scan(arguments.as_(ScanArguments))
        return scanner.to_pandas(blob_mode=arguments.blob_mode, **arguments.for_arrow())

    def head(self, num_rows: int = 5, **kwargs: object) -> pa.Table:
        """Read the first rows.

        Parameters
        ----------
        num_rows
            The most rows to return.
        kwargs
            As in `scanner`.

        Returns
        -------
        pyarrow.Table
            The rows.

        Raises
        ------
        ColumnNotFoundError, PredicateError, NotOfferedError
            As in `scanner`.

        Examples
        --------
        >>> import lancekit as lk
        >>> lk.write_dataset({"x": [1, 2, 3]}, "memory://head-example").head(2)["x"].to_pylist()
        [1, 2]
        """
        rows = check_count("num_rows", num_rows)
        if "limit" in kwargs:  # it would have no effect
            line = f"Use ds.head({kwargs['limit']!r})."
            raise InvalidTypeError("head() takes num_rows, not limit.", hint=line)
        return self._scan(scan_arguments({**kwargs, "limit": rows})).to_table()

    def slice(self, start: int, end: int, columns: Columns = None) -> pa.Table:
        """Read the rows between two positions.

        Parameters
        ----------
        start, end
            The position of the first row, and of the first row that is not read.
        columns
            As in `scanner`.

        Returns
        -------
        pyarrow.Table
            The rows, fewer if the version ends before ``end``.

        Raises
        ------
        InvalidArgumentError
            A position is negative.
        ColumnNotFoundError
            A column does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://slice-example")
        >>> ds.slice(1, 3)["x"].to_pylist()
        [2, 3]
        """
        first, stop = check_count("start", start), check_count("end", end)
        return self.to_table(columns=columns, offset=first, limit=max(stop - first, 0))

    def count_rows(self, filter: object = None, **kwargs: object) -> int:  # noqa: A002
        """Count the rows, or the rows that match a filter; without a filter nothing is read.

        A hint mentions unmerged rows of shards: in a notebook as output, elsewhere in the log
        ``lancekit`` (level INFO).  With ``include_mem_wal=True`` they are counted, too.

        Parameters
        ----------
        filter
            As in `scanner`.
        kwargs
            As in `scanner`; the handle's `default_scan_options` do not apply.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        PredicateError
            The filter does not fit the schema.

        Examples
        --------
        >>> import lancekit as lk
        >>> lk.write_dataset({"x": [1, 2, 3]}, "memory://count-example").count_rows("x > 1")
        2
        """
        if filter is None and not kwargs:
            self._hint_at_waiting_rows()
            return self._snapshot.manifest.num_rows
        from lancekit._api.scanner import scan_of

        arguments = scan_arguments({"columns": [], "filter": filter, **kwargs})
        if not arguments.include_mem_wal:
            self._hint_at_waiting_rows()
        self._check_shards(requested=arguments.include_mem_wal)
        return scan_of(self._snapshot, arguments).count_rows()

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
        """Set up an SQL query over this version, whose table name is ``dataset``.

        DataFusion runs the query in memory.  Only columns that the query names are read.

        Parameters
        ----------
        sql
            The text of the query.
        include_mem_wal
            Read the newest version together with the unmerged rows of the shards.

        Returns
        -------
        SqlQueryBuilder
            The query, which is not run yet.

        Raises
        ------
        InvalidArgumentError
            ``include_mem_wal`` is True and the handle is pinned to a version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://sql-example")
        >>> ds.sql("SELECT sum(x) AS total FROM dataset").build().to_batch_records()[0].to_pydict()
        {'total': [6]}
        """
        from lancekit._api.sql import SqlQueryBuilder

        self._check_shards(requested=include_mem_wal)
        return SqlQueryBuilder(self, sql, include_mem_wal=include_mem_wal)

    @takes(SparkArguments)
    def to_spark(self, arguments: SparkArguments) -> Any:
        """Return a Spark DataFrame over this version, read on the executors.

        The frame stays at this version, whatever is committed later.  It always reads all columns
        and rows of this call, because Spark does not push the projections and filters of a query
        down.  So ``ds.to_spark().select("id")`` and ``.count()`` read all columns.
        ``ds.to_spark(columns=["id"])`` reads one column, ``ds.to_spark(columns=[]).count()`` none,
        and ``ds.count_rows()`` runs no job.

        The filter is evaluated in the scan, which then reads the other columns only for the
        matching rows.  Conditions on ``_rowid`` and ``_rowaddr`` skip whole fragments.  The filter
        can also be a Spark ``Column`` over the selected columns, which Spark evaluates after the
        scan.  Row ids and addresses are ``bigint``.  Rows of shards are those at this call.

        Returns
        -------
        pyspark.sql.DataFrame
            The frame; rows are read when Spark needs them.

        Raises
        ------
        UnsupportedTypeError
            Spark has no type for a column.
        StorageError
            The dataset is in the memory of this process, where executors cannot read it.
        JavaNotFoundError, SessionError
            Spark cannot be started.

        Examples
        --------
        >>> delayed = ds.to_spark(["carrier", "dep_delay"], "dep_delay > 60")  # doctest: +SKIP
        >>> delayed.groupBy("carrier").count().show()  # doctest: +SKIP
        """
        from lancekit._api.frames import frame_over
        from lancekit._api.planned_scan import check_scan

        scan = arguments.as_(ScanArguments)
        check_scan(scan)
        self._check_shards(requested=arguments.include_mem_wal)
        return frame_over(self, scan)

    def create_temp_view(
        self,
        name: str,
        columns: Columns = None,
        filter: object = None,  # noqa: A002
        *,
        version: int | str | tuple[str | None, int | None] | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
    ) -> None:
        """Register a version as a temporary view in this Spark session.

        Parameters
        ----------
        name
            The name of the view; a view of this name is replaced.
        columns, filter, with_row_id, with_row_address
            As in `to_spark`.  Queries read all columns of a view, whichever they name.
        version
            Another version than the handle's: a number, a tag, or a pair of branch and version.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            A column or the filter does not fit the schema.
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            The version, tag or branch does not exist.
        InvalidArgumentError
            The name is not allowed.
        JavaNotFoundError, SessionError
            Spark cannot be started.

        Examples
        --------
        Two versions side by side:

        >>> ds.create_temp_view("now", ["id", "price"])  # doctest: +SKIP
        >>> ds.create_temp_view("before", ["id", "price"], version="jan")  # doctest: +SKIP
        >>> spark.sql('''
        ...     SELECT id, before.price, now.price FROM now JOIN before USING (id)
        ...     WHERE now.price > before.price''').show()  # doctest: +SKIP
        """
        from lancekit._api.frames import frame_of
        from lancekit._arguments.scan import ScanArguments
        from lancekit._pipeline.engine import spark_engine

        if not isinstance(name, str):
            raise InvalidTypeError(f"A view name must be a string, got {name!r}.")
        snapshot = self._snapshot
        if version is not None:
            snapshot = resolve(snapshot.location, parse_reference(version, snapshot.location))
        options = ScanArguments(
            columns=columns,
            filter=filter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
        )
        frame = frame_of(snapshot, options)
        spark_engine().name(frame, name)
