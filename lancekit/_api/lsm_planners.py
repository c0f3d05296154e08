"""Planners of look-ups by key and of vector searches over a table and its shards."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import cast

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api._handle import Handle
from lancekit._api.execution_plan import ExecutionPlan
from lancekit._api.lsm_scanner import with_keys
from lancekit._api.planned_scan import planned
from lancekit._api.shard_sets import check_has_key, of_snapshots
from lancekit._api.shard_snapshot import ShardSnapshot
from lancekit._arguments.checks import check_count
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.extensions import resolved, resolved_schema
from lancekit._format.schema import LanceField
from lancekit._operations.explain.scans import explain_scan
from lancekit._operations.mem_wal.reader.lookup import look_up
from lancekit._operations.mem_wal.reader.merge_on_read import merged_scan
from lancekit._operations.mem_wal.reader.sources import ReadSet
from lancekit._scan.outputs import plan_columns
from lancekit._scan.scan import Scan
from lancekit.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["LsmPointLookupPlanner", "LsmVectorSearchPlanner"]


@checked_methods
class LsmPointLookupPlanner(Displayed):
    """Plans look-ups of single rows by their primary key: in shards, then in the table.

    Parameters
    ----------
    dataset
        The table; its newest version is read.
    shard_snapshots
        The generations to look in; those that the table has merged are left out.
    pk_columns
        The columns of the primary key, in its order; nothing else is taken.

    Raises
    ------
    InvalidArgumentError
        The table has no primary key, or another one.

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
        """Plan the look-up of one key.

        Parameters
        ----------
        pk_value
            An array of one value; for a key of several columns, of one struct with a field for
            each.
        columns
            What to return; the key comes along.

        Raises
        ------
        InvalidArgumentError
            It is not one value, or none of the key's type.
        ColumnNotFoundError
            There is no such column.
        """
        key = _key(self._schema.primary_key, pk_value)

        def run() -> pa.Table:
            of = self._read()
            outputs = plan_columns(of.base.manifest.schema, with_keys(columns, of))
            return resolved(look_up(of, key, outputs))

        def told() -> str:
            of = self._read()
            return f"look-up of one key: {of.told}; then in the table, if no part has the key"

        names = None if columns is None else list(columns)
        if names is not None:
            names += [f.name for f in self._schema.primary_key if f.name not in names]
        outputs = plan_columns(self._schema, names)
        schema = resolved_schema(pa.schema([output.field for output in outputs]))
        return ExecutionPlan(schema, resolved_schema(self._schema.to_arrow()), told, run)


def _key(fields: tuple[LanceField, ...], given: object) -> tuple[pa.Array, ...]:
    """Return a key as columns of its types."""
    if isinstance(given, pa.ChunkedArray):
        given = ak.combine_chunks(given)
    if not isinstance(given, pa.Array):
        raise InvalidTypeError(f"pk_value is {given!r}.", hint="Pass pa.array([key]).")
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
            f"pk_value has {len(columns)} columns, the primary key has {len(fields)}.",
            hint=f"They are {', '.join(field.name for field in fields)}.",
            argument="pk_value",
        )
    return tuple(_cast(c, field) for c, field in zip(columns, fields, strict=True))


def _cast(value: pa.Array, field: LanceField) -> pa.Array:
    kind = field.to_arrow().type
    try:
        return value.cast(kind)
    except pa.ArrowException as error:
        raise InvalidArgumentError(
            f"pk_value has {value[0].as_py()!r} for {field.name!r}, which is of {kind}.",
            hint="Pass a value of that type.",
            argument="pk_value",
        ) from error


@checked_methods
class LsmVectorSearchPlanner(Displayed):
    """Plans searches for the nearest vectors among the newest rows of a table and its shards.

    Of each key only the newest row is searched.  The table's index proposes rows of the table if
    it has one, and those of generations theirs; of what has none all vectors are looked at.

    Parameters
    ----------
    dataset
        The table; its newest version is read.
    shard_snapshots
        The generations to look in; those that the table has merged are left out.
    vector_column
        The column of vectors.
    pk_columns
        The columns of the primary key, in its order; nothing else is taken.
    distance_type
        ``"l2"``, ``"cosine"``, ``"dot"`` or ``"hamming"``; by default that of the index, or
        ``"l2"``.
    filter
        SQL that is asked before the search.
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
        """Plan the search for the ``k`` nearest rows.

        Parameters
        ----------
        query
            The vector.
        nprobes
            How many partitions of the table's index are looked at.
        columns
            What to return; the key and ``_distance`` come along.
        refine_base_table
            Read the vectors of what the index proposes, and measure them again.
        overfetch_factor
            1.0 or more: rows that newer ones replace take no place here, so it changes nothing.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError, ColumnNotFoundError
            The query does not fit the column, or an argument is out of range.
        """
        check_count("k", k, least=1)
        check_count("nprobes", nprobes, least=1)
        if not isfinite(overfetch_factor) or overfetch_factor < 1:
            raise InvalidArgumentError(
                f"overfetch_factor is {overfetch_factor}.", hint="Pass 1.0 or more."
            )
        nearest = {**self._nearest, "q": query, "k": k, "nprobes": nprobes}
        if refine_base_table:
            nearest["refine_factor"] = 1
        options = ScanArguments(filter=self._filter, nearest=nearest, prefilter=True)

        def scan(of: ReadSet) -> Scan:
            return merged_scan(planned(of.base, options.but(columns=with_keys(columns, of))), of)

        def told() -> str:
            of = self._read()
            found = explain_scan(of.base, scan(of), operation="search")
            return str(replace(found, notes=(of.told, *found.notes)))

        keys = tuple(field.name for field in self._snapshot.manifest.schema.primary_key)
        alone = scan(ReadSet(base=self._snapshot, keys=keys, parts=()))
        return ExecutionPlan(
            resolved_schema(alone.request.schema),
            resolved_schema(self._snapshot.manifest.schema.to_arrow()),
            told,
            lambda: resolved(scan(self._read()).to_table()),
        )
