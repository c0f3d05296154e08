"""Scan a table and its shards as one scan.

Rows of shards are additional fragments, and a filter passes only the newest row of each key.  So
columns, filters, limits, searches and runs on Spark work as in any scan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import arrow_of, booleans_of, numbers_of, scalar_of
from lancekit._format import row_address
from lancekit._format.column_names import ROW_ADDRESS
from lancekit._format.schema import LanceSchema
from lancekit._operations.mem_wal.reader.newest import newest_only
from lancekit._operations.mem_wal.reader.parts import FIRST_ID
from lancekit._operations.mem_wal.reader.sources import ReadSet
from lancekit._scan.expressions.nodes import Apply, Expr, FieldRef, columns_of
from lancekit._scan.expressions.predicate import ComputedColumn, Predicate
from lancekit._scan.external_table import ExternalTable
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import META_COLUMNS
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.index_lookup import IndexLookup, lookup_of
from lancekit._scan.outputs import Output
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._scan.search.nearest import NearestSearch
from lancekit._scan.search.text_search import FullTextSearch
from lancekit.errors import InvalidArgumentError, LancekitError, UnsupportedFeatureError

#: the column with the generation of each row; 0 is the table itself
GENERATION = pa.field("_memtable_gen", pa.uint64(), nullable=False)


#: the column of row addresses, which identify the fragment or part of a row
_ADDRESS = FieldRef(pa.uint64(), ROW_ADDRESS)


def _of_table(values: pa.Array, addresses: pa.Array) -> pa.Array:
    """Return the values of the table's own rows; rows of shards get nulls."""
    outside = booleans_of(_fragment_ids(addresses) >= FIRST_ID)
    return pc.if_else(outside, scalar_of(None, values.type), values)


@dataclass(frozen=True, slots=True)
class _Generations:
    """Computes the generations of rows from their addresses."""

    generations: tuple[int, ...]

    def __call__(self, addresses: pa.Array) -> pa.Array:
        """Return the generation of each row, 0 for rows of the table."""
        ids = _fragment_ids(addresses).astype(np.int64)
        numbers = np.array([*self.generations, 0], np.uint64)
        return arrow_of(numbers[np.where(ids >= FIRST_ID, ids - FIRST_ID, len(numbers) - 1)])


def _fragment_ids(addresses: pa.Array) -> np.ndarray:
    return row_address.fragment_ids(numbers_of(addresses))


def generation_output(of: ReadSet) -> Output:
    """Return the output column with the generation of each row."""
    made = Apply(GENERATION.type, _Generations(of.generations), (_ADDRESS,))
    return Output(GENERATION, _column(GENERATION.name, made))


def _column(name: str, expr: Expr) -> ComputedColumn:
    return ComputedColumn(sql=name, expr=expr, columns=columns_of(expr))


def _with_tables(
    lookup: IndexLookup, tables: Iterable[ExternalTable], schema: LanceSchema
) -> IndexLookup:
    """Return a lookup that also queries the indices of generations, for the same columns.

    The rows that it finds are filtered again, because they may not be the newest of their keys.
    """
    others = {}
    for table in tables:
        found = lookup_of(
            table.snapshot,
            lookup.segments,
            lookup.make_query,
            indexed_only=lookup.indexed_only,
            schema=schema,
        )
        if found is not None:
            others[table.fragment_id] = found
    return replace(lookup, others=others, filtered=True)


def merged_scan(scan: Scan, of: ReadSet, blob_handling: str | None = None) -> Scan:
    """Extend a scan of a table by its shards.

    Rows of shards come first, newest generation first.

    scan: a scan of the version in `of`.
    of: the version, and its unmerged parts.
    blob_handling: how the scan shows blobs, as `blob_view` takes it.

    Raises InvalidArgumentError: a filter or an expression names a hidden column, which rows of
        shards do not have.
    Raises UnsupportedFeatureError: the table has fragment ids in the range of shards.
    """
    request = scan.request
    search = cast("FullTextSearch | NearestSearch | None", scan.search)
    if request.predicate is not None:
        _check_stored("The filter", request.predicate.columns, of)
    outputs = tuple(_output(output, of) for output in request.outputs)
    predicate = request.predicate
    early = search is None or search.prefilter
    if early:  # with a postfilter, rows that fail the filter still count among the nearest
        of = parts_for(of, predicate)
    if not of.parts:
        return replace(scan, request=replace(request, outputs=outputs))
    if int(max(of.base.manifest.fragments.ids, default=0)) >= FIRST_ID:
        raise UnsupportedFeatureError(
            f"{of.base.called} has fragment ids above {FIRST_ID}, reserved for rows of shards.",
            hint="Write the rows to a new dataset.",
        )
    if of.newest is not None and search is None:
        predicate = newest_only(of.newest, of.base.row_schema, predicate)
    elif of.newest is not None and search is not None:
        search = replace(search, among=partial(newest_only, of.newest, of.base.row_schema))
    fragments = [
        replace(source, schema=blob_view(source.schema, blob_handling)) for source in of.fragments
    ]
    tables, lookup = tuple(_indexed_parts(of, fragments)), scan.read.lookup
    return replace(
        scan,
        read=Read(
            (*fragments, *scan.sources),
            lookup=lookup and _with_tables(lookup, tables, of.base.manifest.schema),
            tables=tables,
        ),
        request=replace(request, outputs=outputs, predicate=predicate),
        search=search,
    )


def _indexed_parts(of: ReadSet, fragments: Iterable[FragmentSource]) -> Iterator[ExternalTable]:
    """Yield the generations that have indices and one fragment."""
    for part, source in zip(of.parts, fragments, strict=True):
        with suppress(LancekitError, OSError):  # reading its rows raises the error
            table = part.table
            if table is not None and table.indices and len(table.manifest.fragments) == 1:
                yield ExternalTable(source, table)


def _check_stored(what: str, columns: Collection[str], of: ReadSet) -> None:
    hidden = sorted(set(columns) & META_COLUMNS.keys() - set(of.base.manifest.schema.names))
    if hidden:
        raise InvalidArgumentError(
            f"{what} contains {hidden[0]}, which rows of shards do not have.",
            hint="Leave it out, or read the table without its shards.",
            column=hidden[0],
        )


def _output(output: Output, of: ReadSet) -> Output:
    """Return an output that is null for rows of shards if it is a hidden column."""
    if output.field is GENERATION:
        return output
    if output.expression is not None:
        _check_stored(f"Column {output.field.name!r}", output.inputs, of)
        return output
    if output.column not in META_COLUMNS or output.column in of.base.manifest.schema:
        return output
    values = FieldRef(output.field.type, output.column)
    hidden = Apply(values.type, _of_table, (values, _ADDRESS))
    return replace(output, expression=_column(output.column, hidden))


def parts_for(of: ReadSet, predicate: Predicate | None) -> ReadSet:
    """Drop the parts whose key range cannot match a filter.

    A dropped part has no matching row, and no newer row of a matching key.
    """
    if not of.parts or len(of.keys) != 1 or predicate is None:
        return of
    from lancekit._scan.expressions.bounds import comparisons  # a slow import: all kernels

    (key,) = of.keys
    if key not in predicate.schema.names or not comparisons(predicate.expr, key):
        return of
    ends = zip(*(part.range_of_keys() for part in of.parts), strict=True)
    least, greatest = map(ak.concat_arrays, ends)
    may = predicate.may_want(key, least, greatest)
    return replace(of, parts=tuple(part for part, kept in zip(of.parts, may, strict=True) if kept))
