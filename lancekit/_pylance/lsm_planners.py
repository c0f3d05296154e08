"""Planners of point lookups and vector searches over a table and its shards, and their plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._api._handle import Handle
from lancekit._api.lsm_scanner import ShardSnapshot, check_has_key, of_snapshots, with_keys
from lancekit._api.planned_scan import planned
from lancekit._arguments.checks import check_count
from lancekit._arguments.scan import ScanArguments
from lancekit._arrow_values import booleans_of, flags_of
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format import row_address
from lancekit._format.extensions import resolved, resolved_schema
from lancekit._format.schema import LanceField
from lancekit._operations.explain.scans import explain_scan
from lancekit._operations.mem_wal.reader.merge_on_read import merged_scan
from lancekit._operations.mem_wal.reader.newest import NOWHERE
from lancekit._operations.mem_wal.reader.parts import FIRST_ID
from lancekit._operations.mem_wal.reader.sources import ReadSet
from lancekit._pipeline.probe import KeyTable
from lancekit._pipeline.source_keys import key_lookup
from lancekit._scan.expressions.nodes import applied
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest, project
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.rebatch import no_rows
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import Output, plan_columns
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit.errors import InvalidArgumentError, InvalidTypeError


@checked_methods
class LsmPointLookupPlanner(Displayed):
    """Plans lookups of single rows by primary key: in the shards, then in the table.

    Parameters
    ----------
    dataset
        The table, read at its newest version, or at the version that the handle is pinned to.
    shard_snapshots
        The generations to search.  Merged generations are left out.
    pk_columns
        The columns of the primary key, in its order.  No other columns are accepted.

    Raises
    ------
    InvalidArgumentError
        The table has no primary key, or a different one.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset({"id": [1, 2], "x": [3, 4]}, "memory://lookup", primary_key="id")
    >>> LsmPointLookupPlanner(ds, []).plan_lookup(pa.array([2])).to_table().to_pylist()
    [{'id': 2, 'x': 4}]
    """

    def __init__(
        self,
        dataset: Handle,
        shard_snapshots: list[ShardSnapshot],
        pk_columns: list[str] | None = None,
    ) -> None:
        check_has_key(dataset, pk_columns)
        self._read = of_snapshots(dataset, shard_snapshots)
        self._schema = dataset._snapshot.manifest.schema

    def plan_lookup(self, pk_value: pa.Array, columns: list[str] | None = None) -> ExecutionPlan:
        """Plan the lookup of one key, and return the plan without running it.

        Parameters
        ----------
        pk_value
            An array of one value.  A key of several columns is a struct with their values.
        columns
            The columns to return; the key columns are always added.

        Returns
        -------
        ExecutionPlan
            The plan; its `to_table` runs it.

        Raises
        ------
        InvalidArgumentError
            ``pk_value`` does not have exactly one value, or its type does not fit the key.
        ColumnNotFoundError
            A column does not exist.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset({"id": [1], "x": [3]}, "memory://plan-lookup", primary_key="id")
        >>> LsmPointLookupPlanner(ds, []).plan_lookup(pa.array([1]), ["x"]).to_table().to_pylist()
        [{'x': 3, 'id': 1}]
        """
        key = _key(self._schema.primary_key, pk_value)

        def run() -> pa.Table:
            of = self._read()
            outputs = plan_columns(of.base.manifest.schema, with_keys(columns, of))
            return resolved(look_up(of, key, outputs))

        def describe() -> str:
            of = self._read()
            return f"point lookup: {of.describe}, then in the table, if no part has the key"

        names = None if columns is None else list(columns)
        if names is not None:
            names += [f.name for f in self._schema.primary_key if f.name not in names]
        outputs = plan_columns(self._schema, names)
        schema = resolved_schema(pa.schema([output.field for output in outputs]))
        return ExecutionPlan(schema, resolved_schema(self._schema.to_arrow()), describe, run)


def _key(fields: tuple[LanceField, ...], given: object) -> tuple[pa.Array, ...]:
    """Cast a key to the types of the key columns."""
    if isinstance(given, pa.ChunkedArray):
        given = ak.combine_chunks(given)
    if not isinstance(given, pa.Array):
        raise InvalidTypeError(f"pk_value must be pa.array([key]), got {given!r}.")
    if len(given) != 1:
        raise InvalidArgumentError(
            f"pk_value must contain exactly one row, got {len(given)}.",
            hint="Look keys up one by one, or filter a scan: ds.lsm_scanner().filter(...).",
            argument="pk_value",
        )
    columns = [given]
    if pa.types.is_struct(given.type):
        columns = cast("pa.StructArray", given).flatten()
    if len(columns) != len(fields):
        raise InvalidArgumentError(
            f"pk_value must have {len(fields)} columns, got {len(columns)}.",
            hint=f"The key columns are {', '.join(field.name for field in fields)}.",
            argument="pk_value",
        )
    return tuple(_cast(c, field) for c, field in zip(columns, fields, strict=True))


def _cast(value: pa.Array, field: LanceField) -> pa.Array:
    kind = field.to_arrow().type
    try:
        return value.cast(kind)
    except pa.ArrowException as error:
        raise InvalidArgumentError(
            f"pk_value has {value[0].as_py()!r} for column {field.name!r} of type {kind}.",
            hint="Pass a value of that type.",
            argument="pk_value",
        ) from error


@checked_methods
class LsmVectorSearchPlanner(Displayed):
    """Plans searches for the nearest vectors among the newest rows of a table and its shards.

    Of each key only the newest row is searched.  Where the table or a generation has an index, the
    index proposes its rows.  Without an index, all vectors are read.

    Parameters
    ----------
    dataset
        The table, read at its newest version, or at the version that the handle is pinned to.
    shard_snapshots
        The generations to search.  Merged generations are left out.
    vector_column
        The column of vectors.
    pk_columns
        The columns of the primary key, in its order.  No other columns are accepted.
    distance_type
        ``"l2"``, ``"cosine"``, ``"dot"`` or ``"hamming"``.  By default the index's, or L2.
    filter
        A filter in SQL that is applied before the search.
    """

    def __init__(
        self,
        dataset: Handle,
        shard_snapshots: list[ShardSnapshot],
        vector_column: str,
        pk_columns: list[str] | None = None,
        distance_type: str | None = None,
        filter: str | None = None,  # noqa: A002
    ) -> None:
        check_has_key(dataset, pk_columns)
        self._read = of_snapshots(dataset, shard_snapshots)
        self._snapshot = dataset._snapshot
        self._nearest = {"column": vector_column, "metric": distance_type}
        self._filter = filter

    def plan_search(
        self,
        query: pa.Array,
        k: int = 10,
        nprobes: int = 20,
        columns: list[str] | None = None,
        refine_base_table: bool = False,
        overfetch_factor: float = 1.0,
    ) -> ExecutionPlan:
        """Plan the search for the ``k`` nearest rows, and return the plan without running it.

        Parameters
        ----------
        query
            The query vector.
        nprobes
            The number of partitions of the table's index to visit.
        columns
            The columns to return.  The key columns and ``_distance`` are always added.
        refine_base_table
            Whether to read the vectors of proposed rows, and compute exact distances.
        overfetch_factor
            1.0 or more.  It changes nothing: replaced rows take no place in the result.

        Returns
        -------
        ExecutionPlan
            The plan; its `to_table` runs it.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError, ColumnNotFoundError
            The query does not fit the column, or an argument is out of range.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = {"id": [1, 2], "v": pa.array([[0, 0], [5, 5]], pa.list_(pa.float32(), 2))}
        >>> ds = lk.write_dataset(rows, "memory://plan-search", primary_key="id")
        >>> planner = LsmVectorSearchPlanner(ds, [], "v")
        >>> planner.plan_search(pa.array([4.0, 5.0]), 1, columns=["id"]).to_table().to_pylist()
        [{'id': 2, '_distance': 1.0}]
        """
        check_count("k", k, least=1)
        check_count("nprobes", nprobes, least=1)
        if not isfinite(overfetch_factor) or overfetch_factor < 1:
            raise InvalidArgumentError(
                f"overfetch_factor must be a number of 1.0 or more, got {overfetch_factor}."
            )
        nearest = {**self._nearest, "q": query, "k": k, "nprobes": nprobes}
        if refine_base_table:
            nearest["refine_factor"] = 1
        options = ScanArguments(filter=self._filter, nearest=nearest, prefilter=True)

        def scan(of: ReadSet) -> Scan:
            return merged_scan(planned(of.base, options.but(columns=with_keys(columns, of))), of)

        def describe() -> str:
            of = self._read()
            found = explain_scan(of.base, scan(of), operation="search")
            return str(replace(found, notes=(of.describe, *found.notes)))

        keys = tuple(field.name for field in self._snapshot.manifest.schema.primary_key)
        alone = scan(ReadSet(base=self._snapshot, keys=keys, parts=()))
        return ExecutionPlan(
            resolved_schema(alone.request.schema),
            resolved_schema(self._snapshot.manifest.schema.to_arrow()),
            describe,
            lambda: resolved(scan(self._read()).to_table()),
        )


# ---- `ExecutionPlan`: the result of a planner


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A planned lookup or search; a run reads the newest version, unless the handle is pinned.

    Attributes
    ----------
    schema
        The schema of the result.
    dataset_schema
        The schema of the table.
    """

    schema: pa.Schema
    dataset_schema: pa.Schema
    _describe: Callable[[], str]
    _run: Callable[[], pa.Table]

    def explain(self) -> str:
        """Describe the files and rows that a run would read."""
        return self._describe()

    def to_table(self) -> pa.Table:
        """Run the plan, and return the rows as an Arrow table."""
        return self._run()

    def to_reader(self) -> pa.RecordBatchReader:
        """Run the plan, and return the rows as an Arrow reader."""
        return self.to_table().to_reader()

    def to_batches(self) -> list[pa.RecordBatch]:
        """Run the plan, and return the rows in batches."""
        return self.to_table().to_batches()


# ---- point lookups in a table and its shards


@dataclass(frozen=True, slots=True)
class _HasKey:
    """A predicate that is true for rows with the only key of a key table."""

    keys: KeyTable

    def may_hold(self, place: int, least: pa.Array, greatest: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each block of rows whether it can have the key, by the range of one column."""
        key = self.keys.columns[place][0]
        may = pc.and_(pc.less_equal(least, key), pc.greater_equal(greatest, key))
        return flags_of(may) & flags_of(may.is_valid())

    def __call__(self, *columns: pa.Array) -> pa.BooleanArray:
        rows, found = self.keys.find(0, columns[0])
        codes = np.full(len(columns[0]), -1)
        codes[rows] = found
        for place, values in enumerate(columns[1:], start=1):
            codes = self.keys.extend(codes, place, values)
        return booleans_of(codes >= 0)


def look_up(of: ReadSet, key: tuple[pa.Array, ...], outputs: tuple[Output, ...]) -> pa.Table:
    """Return the row with a primary key, or no row.

    key: one value for each column of the primary key, of the column's type.
    """
    request = ScanRequest(outputs=outputs)
    newest = of.newest
    if newest is not None:
        rows, addresses = newest.find(key)
        if len(rows):
            return _row_at(of, addresses[0], request)
    keys = KeyTable(of.keys, key)
    schema = pa.schema(zip(of.keys, (column.type for column in key), strict=True))
    test = applied(_HasKey(keys), schema)
    wanted = Predicate(source="true", expr=test, schema=schema, columns=frozenset(of.keys))
    return Scan(
        read=Read(fragment_sources(of.base), lookup=key_lookup(of.base, keys)),
        request=replace(request, predicate=wanted),
        limit=1,
    ).to_table()


def _row_at(of: ReadSet, address: np.uint64, request: ScanRequest) -> pa.Table:
    if address == NOWHERE:
        return no_rows(request.schema)
    id_, offset = row_address.parts(int(address))
    part = of.parts[id_ - FIRST_ID]
    reader = FragmentReader(part.as_fragment(id_ - FIRST_ID, of.base.location.open_files))
    if offset in reader.deleted:
        return no_rows(request.schema)
    return project(reader, request.outputs, np.array([offset]))
