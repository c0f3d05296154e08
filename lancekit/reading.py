"""The part of a handle that reads rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.arguments import check_count, check_flag, check_hints, refuse
from lancekit.checked import checked_methods
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.format.extensions import resolved
from lancekit.fragment import LanceFragment, sources_of
from lancekit.legible import shown
from lancekit.scan.blobs import blob_view
from lancekit.scan.rows import row_positions
from lancekit.scan.sources import FragmentSources, fragment_sources
from lancekit.scan.statistics import ScanStatistics
from lancekit.scan.take import parse_positions, take_rows
from lancekit.scanner import Columns, LanceScanner, make_scan
from lancekit.spark_reading import SparkReading
from lancekit.sql import SqlQueryBuilder

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Reading"]

_NOT_PASSED = frozenset({"self", "kwargs", "blob_mode"})
#: arguments of pylance's scanner that need an index; ``False`` asks for nothing
_REFUSED = (
    "nearest",
    "index_segments",
    "full_text_query",
    "fast_search",
    "row_addr_allowlist",
    "row_addr_blocklist",
)
#: those that change no result
_HINTS = frozenset(
    {
        "batch_readahead",
        "fragment_readahead",
        "scan_in_order",
        "prefilter",
        "use_stats",
        "io_buffer_size",
        "late_materialization",
        "use_scalar_index",
        "disable_scoring_autoprojection",
    }
)
#: those that a scan is made of
_ASKED = frozenset(inspect.signature(make_scan).parameters)


@checked_methods
class Reading(SparkReading):
    """Scans, positions, samples and SQL over the handle's version."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of this version, or of what `default_scan_options` show of it."""
        return self.scanner().projected_schema if self._scan_defaults else super().schema

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:  # noqa: A002
        """Return the fragments in row order."""
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
    ) -> LanceScanner:
        """Set up a scan; nothing is read yet.

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
        scan_stats_callback
            A function that is given a `ScanStatistics` whenever a run of the scan is over.
        strict_batch_size
            Give all batches but the last exactly ``batch_size`` rows.
        order_by
            Column names, or objects with ``column_name`` and ``ascending``; the whole result is
            sorted in memory.

        Read-ahead, buffer sizes, statistics and materialization are hints that change no result:
        they are accepted and not used.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            A name or a filter does not fit the schema.
        NotOfferedError
            An argument that lancekit does not offer was passed.
        """
        return self._scanner(locals())

    def _plain_scanner(
        self,
        *,
        order_by: list[Any] | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        include_deleted_rows: bool | None = None,
        scan_stats_callback: Callable[[ScanStatistics], object] | None = None,
        strict_batch_size: bool | None = None,
        batch_size_bytes: int | None = None,
        **others: Any,
    ) -> LanceScanner:
        """Set up a scan without the handle's own defaults."""
        refuse("scanner", **{name: _wanted(others.pop(name, None)) for name in _REFUSED})
        for name in ("with_row_id", "with_row_address"):
            check_flag(name, others.get(name) or False)
        check_hints(**{name: others.pop(name, None) for name in _HINTS})
        if unknown := [name for name in others if name not in _ASKED]:
            raise InvalidTypeError(
                f"A scan takes no argument {unknown[0]!r}.",
                hint="Pass those of scanner().",
                argument=unknown[0],
            )
        if strict_batch_size and batch_size_bytes is not None:
            raise InvalidArgumentError(
                "strict_batch_size and batch_size_bytes exclude each other.",
                hint="A batch of exactly so many rows may have any number of bytes.",
            )
        if scan_stats_callback is not None and not callable(scan_stats_callback):
            raise InvalidTypeError(
                f"scan_stats_callback is {shown(scan_stats_callback)}.",
                hint="Pass a function of a ScanStatistics.",
                argument="scan_stats_callback",
            )
        scan = make_scan(
            self._snapshot,
            sources=None if fragments is None else sources_of(fragments),
            with_deleted=check_flag("include_deleted_rows", include_deleted_rows or False),
            report=scan_stats_callback,
            **others,
        )
        return LanceScanner(
            scan,
            self._snapshot,
            order_by,
            strict_batch_size=check_flag("strict_batch_size", strict_batch_size or False),
            batch_size_bytes=batch_size_bytes,
        )

    def _scanner(self, arguments: dict[str, Any]) -> LanceScanner:
        """Set up a scan from a method's ``locals()``: the signatures are pylance's, and long.

        What is ``None`` there is left to the handle's `default_scan_options`.
        """
        given = {name: value for name, value in arguments.items() if name not in _NOT_PASSED}
        chosen = {**self._scan_defaults, **_given(given), **arguments.get("kwargs", {})}
        return self._plain_scanner(**chosen)

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
    ) -> pa.Table:
        """Read rows into an Arrow table; arguments as in `scanner`.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset(pa.table({"x": [1, 2, 3]}), "memory://to-table-example")
        >>> ds.to_table(filter="x >= 2", limit=1).to_pydict()
        {'x': [2]}
        """
        return self._scanner(locals()).to_table()

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
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows batch by batch; arguments as in `scanner`."""
        return self._scanner(locals()).to_batches()

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
        **kwargs: Any,
    ) -> pd.DataFrame:
        """Read rows into a pandas DataFrame; ``kwargs`` go to `pyarrow.Table.to_pandas`.

        ``blob_mode`` says what blobs are: files (``"lazy"``), ``"bytes"`` or ``"descriptions"``.
        """
        arguments = {**locals(), "kwargs": {}}
        return self._scanner(arguments).to_pandas(blob_mode=blob_mode, **kwargs)

    def head(self, num_rows: int = 5, **kwargs: Any) -> pa.Table:
        """Read the first rows; ``kwargs`` as in `scanner`."""
        rows = check_count("num_rows", num_rows)
        return self._scanner({"kwargs": {**kwargs, "limit": rows}}).to_table()

    def take(
        self, indices: list[int] | pa.Array, columns: list[str] | dict[str, str] | None = None
    ) -> pa.Table:
        """Read the rows at given positions, in the order given.

        Parameters
        ----------
        indices
            Positions from 0; they may repeat.
        columns
            As in `scanner`; but a path ``s.x`` gives the column ``s``, with only ``x`` in it.
            One of the rows' own, such as ``_rowid``, comes as often as it is named, others once.

        Raises
        ------
        RowOutOfRangeError
            A position is negative, or not below `count_rows`.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset(pa.table({"x": [10, 20, 30]}), "memory://take-example")
        >>> ds.take([2, 0])["x"].to_pylist()
        [30, 10]
        """
        positions = parse_positions(indices, self._snapshot.manifest.num_rows)
        return self._take(lambda _: positions, columns)

    def _take_rows(
        self,
        row_ids: list[int] | pa.Array,
        columns: list[str] | dict[str, str] | None = None,
        *,
        ignore_deletions: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> pa.Table:
        """Read the rows with given row ids, in the order given; deleted rows are left out.

        Parameters
        ----------
        row_ids
            As ``_rowid`` shows them: stable ids, or addresses; they may repeat.
        columns
            As in `take`.
        ignore_deletions
            Does nothing: deletions are looked at only where a row was found.
        with_row_id, with_row_address
            Append ``_rowid`` or ``_rowaddr``.

        Raises
        ------
        RowOutOfRangeError
            Ids are addresses, and there never was a row at one.
        """
        check_hints(ignore_deletions=ignore_deletions)
        hidden = {"_rowid": with_row_id, "_rowaddr": with_row_address}
        more = [name for name, wanted in hidden.items() if wanted]
        if isinstance(columns, dict):
            columns = {**columns, **{name: name for name in more}}
        elif more:
            known = self._snapshot.manifest.schema.names if columns is None else columns
            columns = [*known, *more]
        return self._take(lambda sources: row_positions(sources, row_ids), columns)

    def _take(
        self,
        positions: Callable[[FragmentSources], npt.NDArray[np.int64]],
        columns: list[str] | dict[str, str] | None,
    ) -> pa.Table:
        schema = blob_view(self._snapshot.manifest.schema)
        sources = fragment_sources(self._snapshot, schema)
        table = take_rows(sources, sources.ends, columns, positions(sources), schema)
        if not table.num_columns:
            return table
        metadata = dict(self._snapshot.manifest.schema.metadata)
        return resolved(table.replace_schema_metadata(metadata or None))

    def slice(
        self, start: int, end: int, columns: list[str] | dict[str, str] | None = None
    ) -> pa.Table:
        """Read the rows from position ``start`` to before ``end``."""
        first, stop = check_count("start", start), check_count("end", end)
        return self.to_table(columns=columns, offset=first, limit=max(stop - first, 0))

    def sample(
        self,
        num_rows: int,
        columns: list[str] | dict[str, str] | None = None,
        randomize_order: bool = True,
        **kwargs: Any,
    ) -> pa.Table:
        """Read rows chosen at random, each at most once; in row order unless randomized."""
        import numpy as np

        rows = check_count("num_rows", num_rows)
        if kwargs:
            refused = next(iter(kwargs))
            raise InvalidArgumentError(
                f"sample({refused}=...) is not offered.", hint="Filter after taking the sample."
            )
        total = self.count_rows()
        if rows > total:
            raise InvalidArgumentError(
                f"A sample of {rows} rows was asked for; the version has {total}."
            )
        chosen = np.random.default_rng().choice(total, rows, replace=False)
        return self.take(chosen if randomize_order else np.sort(chosen), columns)

    def count_rows(self, filter: Any = None, **kwargs: Any) -> int:  # noqa: A002
        """Count the rows, or those that a filter selects; without one nothing is read."""
        if filter is None and not kwargs:
            return self._snapshot.manifest.num_rows
        return self._plain_scanner(columns=[], filter=filter, **kwargs).count_rows()

    def sql(self, sql: str) -> SqlQueryBuilder:
        """Set up an SQL query over this version, which it knows as ``dataset``.

        DataFusion runs it on the columns that it names, read into memory.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://sql-example")
        >>> ds.sql("SELECT sum(x) AS total FROM dataset").build().to_batch_records()[0].to_pydict()
        {'total': [6]}
        """
        return SqlQueryBuilder(self, sql)


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _wanted(value: Any) -> Any:
    """Return what asks for something: neither ``False`` nor an empty list does."""
    return None if isinstance(value, bool | list | tuple | dict | bytes) and not value else value
