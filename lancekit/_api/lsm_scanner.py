"""Scans of a table together with its shards, which return the newest row of each key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar
from uuid import UUID

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api._handle import Handle
from lancekit._api.fulltext import full_text_search
from lancekit._api.nearest import nearest_search
from lancekit._api.planned_scan import planned, with_read_set
from lancekit._arguments.checks import check_count, check_items
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.extensions import resolved, resolved_schema
from lancekit._format.mem_wal.names import generation_number
from lancekit._format.mem_wal.shard_manifest import SsTable
from lancekit._legible import shown
from lancekit._operations.explain.explanation import Explanation
from lancekit._operations.explain.scans import explain_scan
from lancekit._operations.mem_wal.reader.merge_on_read import (
    GENERATION,
    generation_output,
    merged_scan,
)
from lancekit._operations.mem_wal.reader.parts import ShardState
from lancekit._operations.mem_wal.reader.sources import ReadSet, again_if_gone, read_set
from lancekit._pipeline.engine import spark_engine
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.outputs import column_names, plan_columns
from lancekit._scan.scan import Scan
from lancekit._scan.search.text_queries import FullTextQuery
from lancekit._shards.schema import shard_of
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

T = TypeVar("T")


@checked_methods
class LsmScanner(Displayed):
    """A scan of the newest version of a table and of its shards: the newest row of each key.

    Rows are read from logs and generations, newest first, and then from the table.  Each run reads
    the state at its start.  Setters such as `project` and `filter` return the scanner.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://lsm-example", primary_key="id")
    >>> ds.lsm_scanner().filter("id > 1").to_table().to_pydict()
    {'id': [2]}
    """

    def __init__(self, snapshot: Snapshot, read: _Read) -> None:
        self._snapshot = snapshot
        self._read = read
        self._columns: list[str] | None = None
        self._arguments = ScanArguments()
        self._with_generation = False

    @staticmethod
    def from_snapshots(dataset: Handle, shard_snapshots: list[ShardSnapshot]) -> LsmScanner:
        """Return a scanner of a dataset and some generations of shards.

        Logs are not read.  Generations that the table has merged are left out.

        Parameters
        ----------
        dataset
            The table, read at its newest version, or at the version that the handle is pinned to.
        shard_snapshots
            The generations to read.

        Returns
        -------
        LsmScanner
            The scanner.

        Raises
        ------
        InvalidArgumentError
            The dataset has no primary key.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://lsm-snapshots", primary_key="id")
        >>> lk.LsmScanner.from_snapshots(ds, []).count_rows()
        2
        """
        check_has_key(dataset)
        return LsmScanner(dataset._snapshot, of_snapshots(dataset, shard_snapshots))

    def _plain(self) -> str:
        return f"LsmScanner({self._snapshot.called})"

    def project(self, columns: list[str]) -> Self:
        """Select columns; the columns of the primary key are always added.

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        """
        plan_columns(self._snapshot.manifest.schema, column_names(columns))
        self._columns = list(columns)
        return self

    def filter(self, expr: str) -> Self:
        """Filter the rows by SQL, such as ``"x > 3"``; it is applied to the newest row of each key.

        Raises
        ------
        PredicateError
            The filter does not fit the schema.
        """
        Predicate.parse(expr, self._snapshot.manifest.schema.to_arrow())
        self._arguments = self._arguments.but(filter=expr)
        return self

    def full_text_search(
        self, query: str | FullTextQuery, columns: list[str] | None = None
    ) -> Self:
        """Search for words, best rows first; a filter is applied before the search.

        Parameters
        ----------
        query
            Words, or a query object, which names its columns itself.
        columns
            The columns to search; by default all with a full-text index.

        Returns
        -------
        LsmScanner
            This scanner.

        Raises
        ------
        InvalidArgumentError, ColumnNotFoundError
            A column does not exist, or no column has an index.

        Examples
        --------
        >>> import lancekit as lk
        >>> rows = {"id": [1, 2], "t": ["late snow", "rain"]}
        >>> ds = lk.write_dataset(rows, "memory://lsm-words", primary_key="id")
        >>> _ = ds.create_scalar_index("t", "INVERTED")
        >>> ds.lsm_scanner().full_text_search("snow").to_table()["id"].to_pylist()
        [1]
        """
        given = query if isinstance(query, FullTextQuery) else {"query": query, "columns": columns}
        full_text_search(given, self._snapshot)  # report errors here, not in the run
        self._arguments = self._arguments.but(full_text_query=given, nearest=None, prefilter=True)
        return self

    def nearest(self, column: str, q: object, k: int = 10, **more: object) -> Self:
        """Search for the nearest vectors, nearest first; a filter is applied before the search.

        Parameters
        ----------
        column
            The column of vectors.
        q
            The query vector, or several.
        k
            The number of rows.
        more
            Other members of ``nearest`` of `LanceDataset.scanner`, such as ``nprobes``.

        Returns
        -------
        LsmScanner
            This scanner.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError, ColumnNotFoundError
            The query does not fit the column, or an argument is out of range.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = {"id": [1, 2], "v": pa.array([[0, 0], [5, 5]], pa.list_(pa.float32(), 2))}
        >>> ds = lk.write_dataset(rows, "memory://lsm-near", primary_key="id")
        >>> ds.lsm_scanner().nearest("v", [4, 5], k=1).to_table()["id"].to_pylist()
        [2]
        """
        given = {"column": column, "q": q, "k": k, **more}
        nearest_search(given, self._snapshot)  # report errors here, not in the run
        self._arguments = self._arguments.but(nearest=given, full_text_query=None, prefilter=True)
        return self

    def limit(self, n: int | None = None, offset: int | None = None) -> Self:
        """Limit the rows of the result.

        Parameters
        ----------
        n
            The most rows to return; all by default.
        offset
            The number of rows to skip before them.

        Returns
        -------
        LsmScanner
            This scanner.

        Raises
        ------
        InvalidArgumentError
            A number is negative.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2, 3]}, "memory://lsm-limit", primary_key="id")
        >>> ds.lsm_scanner().limit(1, offset=1).to_table()["id"].to_pylist()
        [2]
        """
        for name, value in (("n", n), ("offset", offset)):
            if value is not None:
                check_count(name, value)
        self._arguments = self._arguments.but(limit=n, offset=offset)
        return self

    def with_row_address(self) -> Self:
        """Append ``_rowaddr``, which is null for rows of shards."""
        self._arguments = self._arguments.but(with_row_address=True)
        return self

    def with_memtable_gen(self) -> Self:
        """Append ``_memtable_gen``: the generation of the row, 0 for the table."""
        self._with_generation = True
        return self

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return resolved_schema(self._scan(self._read()).request.schema)

    def to_table(self) -> pa.Table:
        """Run the scan, and return the rows as an Arrow table."""
        return resolved(self._run(Scan.to_table))

    def to_batch(self) -> pa.RecordBatch:
        """Run the scan, and return the rows as one batch."""
        table = ak.combine_chunks(self.to_table())
        empty = pa.RecordBatch.from_pylist([], schema=table.schema)
        return next(iter(table.to_batches()), empty)

    def to_batches(self) -> list[pa.RecordBatch]:
        """Run the scan, and return the rows as batches."""
        return [resolved(batch) for batch in self._run(lambda scan: list(scan.batches()))]

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as an Arrow reader, which reads them on demand.

        If the files are merged and cleaned up meanwhile, the reader raises an error.
        """
        scan = self._scan(self._read())
        batches: Iterator[pa.RecordBatch] = map(resolved, scan.batches())
        return pa.RecordBatchReader.from_batches(resolved_schema(scan.request.schema), batches)

    def count_rows(self) -> int:
        """Count the rows of the result."""
        return self._run(Scan.count)

    def to_spark(self) -> Any:
        """Return the result as a Spark DataFrame.

        Each action reads the state at the time of this call, on the executors.

        Raises
        ------
        StorageError
            The dataset is in the memory of this process, where executors cannot read it.
        """
        return spark_engine().frame(self._scan(self._read()), None)

    def explain(self) -> Explanation:
        """Describe the columns, fragments and generations that the scan would read."""
        of = self._read()
        found = explain_scan(of.base, self._scan(of))
        return replace(found, notes=(of.describe, *found.notes))

    def _run(self, work: Callable[[Scan], T]) -> T:
        """Run a function on the scan; retry if its files were merged and cleaned up meanwhile."""
        return with_read_set(self._read, lambda of: work(self._scan(of)))

    def _scan(self, of: ReadSet) -> Scan:
        scan = planned(of.base, self._arguments.but(columns=with_keys(self._columns, of)))
        if self._with_generation:
            if GENERATION.name in scan.request.schema.names:
                raise InvalidArgumentError(
                    f"Column {GENERATION.name!r} clashes with a column of shards.",
                    hint="Rename it with alter_columns() first.",
                )
            outputs = (*scan.request.outputs, generation_output(of))
            scan = replace(scan, request=replace(scan.request, outputs=outputs))
        return merged_scan(scan, of)


def with_keys(columns: list[str] | None, of: ReadSet) -> list[str] | None:
    """Append the missing columns of the primary key to columns."""
    if columns is None:
        return None
    return [*columns, *(name for name in of.keys if name not in columns)]


# ---- the read sets of scanners and planners: a table with generations of shards

#: reads the present generations and the merge progress of the table, in each call
_Read = Callable[[], ReadSet]


def of_snapshots(dataset: Handle, snapshots: Sequence[ShardSnapshot]) -> _Read:
    """Return a function that reads a dataset with some generations of shards, without logs.

    It reads the newest version, or the version that the handle is pinned to.  Generations that this
    version has merged are left out.
    """
    location, pinned = dataset._location, dataset._snapshot if dataset._read_only else None
    of = "ShardSnapshot objects"
    states = [
        ShardState(shard=shard_of(location.store, one._id), sstables=tuple(one._sstables.values()))
        for one in check_items("shard_snapshots", snapshots, ShardSnapshot, of)
    ]

    return partial(_read, location, pinned, states)


def _read(location: BranchLocation, pinned: Snapshot | None, states: list[ShardState]) -> ReadSet:
    return again_if_gone(lambda: read_set(pinned or latest_snapshot(location), states))


def check_has_key(dataset: Handle, columns: Sequence[str] | None = None) -> None:
    """Raise ``InvalidArgumentError`` if a dataset has no primary key, or not these columns."""
    key = [field.name for field in dataset._snapshot.manifest.schema.primary_key]
    if not key:
        raise InvalidArgumentError(
            f"{dataset.uri} has no primary key to order the rows of shards by.",
            hint="Write the dataset with primary_key=.",
            uri=dataset.uri,
        )
    if columns is not None and list(columns) != key:
        raise InvalidArgumentError(
            f"pk_columns must be the primary key {key}, got {list(columns)}.",
            hint="Leave it out.",
            argument="pk_columns",
        )


# ---- `ShardSnapshot`: the generations of a shard to read


@checked_methods
class ShardSnapshot:
    """Some generations of a shard, by number and folder; its setters return it.

    Examples
    --------
    >>> shard = "6f9b1c0e-6f0a-4c5e-9d52-0f4d1c7a9a10"
    >>> ShardSnapshot(shard).with_sstable(1, "0a1b2c3d_gen_1").shard_id == shard
    True
    """

    def __init__(self, shard_id: str) -> None:
        try:
            self._id = UUID(shard_id)
        except ValueError:
            raise InvalidArgumentError(
                f"shard_id must be a UUID as text, got {shown(shard_id)}.", argument="shard_id"
            ) from None
        self._sstables: dict[int, SsTable] = {}
        self._spec_id = self._current = 0

    @property
    def shard_id(self) -> str:
        """The shard's UUID."""
        return str(self._id)

    def with_spec_id(self, spec_id: int) -> Self:
        """Set the sharding spec; it changes no result."""
        self._spec_id = spec_id
        return self

    def with_current_generation(self, generation: int) -> Self:
        """Set the number of the current generation; it changes no result."""
        self._current = generation
        return self

    def with_sstable(self, generation: int, path: str) -> Self:
        """Add a generation.

        Parameters
        ----------
        generation
            The number of the generation.
        path
            The name of its folder in the shard, as in the shard's manifest.

        Returns
        -------
        ShardSnapshot
            This object.

        Raises
        ------
        InvalidArgumentError
            The path is not the name of a generation's folder.

        Examples
        --------
        >>> snapshot = ShardSnapshot("6f9b1c0e-6f0a-4c5e-9d52-0f4d1c7a9a10")
        >>> snapshot.with_sstable(1, "0a1b2c3d_gen_1") is snapshot
        True
        """
        if not generation_number(path):
            raise InvalidArgumentError(
                f"path must be the name of a folder in the shard, got {shown(path)}.",
                hint='For example "0a1b2c3d_gen_1".',
                argument="path",
            )
        self._sstables[generation] = SsTable(generation, path)
        return self

    def __repr__(self) -> str:
        return (
            f"ShardSnapshot(shard_id={self.shard_id!r}, spec_id={self._spec_id}, "
            f"current_generation={self._current}, sstables={sorted(self._sstables)})"
        )
