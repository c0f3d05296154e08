"""Nearest-neighbour search in a column of vectors: exact over all rows, or by an index."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import item_field, vector_hint
from lancekit._index.distances import METRICS_OF, Distances, Vectors, distances
from lancekit._scan.address_map import POSITION, Narrowed, fetch_rows, matching_rows
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.reader import column_field
from lancekit._scan.outputs import Output, column_names
from lancekit._scan.scan import Scan
from lancekit._scan.search.vector_index import IndexedVectors, RowFilter, TopK, Wanted
from lancekit._scan.take import rows_at
from lancekit.errors import InvalidArgumentError, InvalidTypeError

#: the distance of a row from the query
DISTANCE = pa.field("_distance", pa.float32())
#: the number of the query that a row was found for
QUERY_INDEX = pa.field("query_index", pa.int32(), nullable=False)

#: bytes of vectors that are read at a time, for each thread
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestSearch:
    """A search for the ``k`` rows with the nearest vectors, to one query or to each of several.

    column: the path of the column of vectors.
    queries: shape (queries, vectors of a query, dimensions), in the type that distances are
        computed in.
    batched: whether the column ``query_index`` names the query that a row was found by.
    prefilter: whether the scan's filter is applied before the search. Else it is applied to the
        rows found.
    lower, upper: distances qualify from `lower` on, and below `upper`.
    index: proposes rows of the fragments that it covers. ``None`` if all vectors are compared.
    among: a further condition that is only applied to rows that would be among the nearest. The
        next nearest rows replace rows that fail it.
    """

    column: str
    queries: Vectors
    metric: str
    k: int
    batched: bool = False
    prefilter: bool = False
    lower: float | None = None
    upper: float | None = None
    index: IndexedVectors | None = None
    among: Narrowed | None = None

    @property
    def made(self) -> tuple[pa.Field, ...]:
        """The columns that the search computes."""
        return (QUERY_INDEX, DISTANCE) if self.batched else (DISTANCE,)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that are read for all rows."""
        return (self.column,)

    def columns(
        self, given: object, stored: list[str], *, scored: bool
    ) -> list[str] | dict[str, str]:
        """Return the columns of the result: requested columns and columns of the search.

        given: names, SQL expressions by names, or ``None`` for all columns in ``stored``.
        scored: whether to add the distance if it is not requested.
        """
        if isinstance(given, dict):
            names = list(given)
        else:
            names = list(stored) if given is None else column_names(given)
        if scored and DISTANCE.name not in names:
            names.append(DISTANCE.name)
        if self.batched:
            names = [QUERY_INDEX.name, *(name for name in names if name != QUERY_INDEX.name)]
        return {name: given.get(name, name) for name in names} if isinstance(given, dict) else names

    def describe(self, scan: Scan) -> str:
        """Describe the search in a plan."""
        index, rows = self._index_of(scan), sum(source.num_rows for source in scan.sources)
        each = f" for each of {len(self.queries)} queries" if self.batched else ""
        if index is not None and index.alone and not index.covered:
            return "no index, so no rows are found"
        if index is not None and index.covered:
            return (
                f"search for the {self.k:,} nearest rows{each} by {self.metric} in "
                f"{index.describe(self.k)}; of rows that it does not cover, "
                + ("nothing is read" if index.only else "all vectors are read")
            )
        return (
            f"exact search over {rows:,} rows by {self.metric}: reads all vectors of "
            f"{self.column}, and the other columns of the {self.k:,} nearest rows{each}"
        )

    def blocks(self, scan: Scan) -> Generator[pa.Table]:
        """Yield the scan's outputs of the nearest rows, nearest first."""
        if not scan.sources:
            return
        late = None if self.prefilter else scan.request.predicate
        wanted = self._find(scan).drop_columns([] if self.batched else [QUERY_INDEX.name])
        yield from fetch_rows(scan, wanted, late)

    def _find(self, scan: Scan) -> pa.Table:
        """Return the positions of the nearest rows, with the columns that the search computes."""
        top = [TopK(self.k, self.lower, self.upper) for _ in self.queries]
        index = self._index_of(scan)
        covered = BitMap() if index is None else index.covered
        left = tuple(one for one in scan.sources if one.fragment.id not in covered)
        if index is not None and covered:
            self._add_proposed(index, scan, top)
        if index is not None and index.alone:
            left = ()
        row_filter = self._row_filter(scan)
        for table in (
            self._vectors(replace(scan, read=replace(scan.read, sources=left))) if left else ()
        ):
            vectors, ids, where = table.columns
            numbers = ids.to_numpy(), where.to_numpy().astype(np.int64)
            for one, query in zip(top, self.queries, strict=True):
                one.add(measured(self.metric, vectors, query), *numbers, row_filter)
        queries = np.repeat(np.arange(len(top), dtype=np.int32), [len(b.positions) for b in top])
        return pa.table(
            {
                POSITION: np.concatenate([one.positions for one in top]),
                QUERY_INDEX.name: queries,
                DISTANCE.name: np.concatenate([one.distances for one in top]),
            }
        )

    def _index_of(self, scan: Scan) -> IndexedVectors | None:
        return self.index and self.index.with_tables(scan.read.tables)

    def _add_proposed(self, index: IndexedVectors, scan: Scan, top: Sequence[TopK]) -> None:
        """Add the rows that an index proposes, by the distances of their vectors."""
        sources = sorted(scan.sources, key=lambda source: source.first_row)
        fragments = BitMap([source.fragment.id for source in sources])
        wanted = Wanted(
            count=self.k * (1 if index.are_exact else index.probes.refine),
            address_maps=index.address_maps(sources),
            allowed=self._allowed(scan, fragments & index.covered),
            row_filter=self._row_filter(scan),
            lower=self.lower,
            upper=self.upper,
        )
        column = [Output(column_field(sources[0].schema, self.column), path=self.column)]
        for one, query in zip(top, self.queries, strict=True):
            for found in index.propose(query[0], wanted):
                far = found.distances
                if not index.are_exact and len(far):
                    vectors = rows_at(sources, column, found.positions).column(0)
                    far = measured(self.metric, vectors, query)
                one.add(far, found.ids, found.positions)

    def _allowed(self, scan: Scan, fragments: BitMap) -> npt.NDArray[np.uint64] | None:
        """Return the ids of the rows that the filter selects if it is applied before the search."""
        early = self._early(scan)
        if early is None:
            return None
        sources = tuple(one for one in scan.sources if one.fragment.id in fragments)
        outputs = (Output(column_field(scan.sources[0].schema, "_rowid")),)
        request = replace(scan.request, outputs=outputs, predicate=early)
        found = scan.of_same_rows(request, sources).to_table()
        return np.sort(found.column(0).to_numpy())

    def _early(self, scan: Scan) -> Predicate | None:
        return scan.request.predicate if self.prefilter else None

    def _row_filter(self, scan: Scan) -> RowFilter | None:
        return self.among and partial(matching_rows, scan, predicate=self.among(None))

    def _vectors(self, scan: Scan) -> Iterator[pa.Table]:
        schema = scan.sources[0].schema
        outputs = [Output(column_field(schema, self.column), path=self.column)]
        outputs += [Output(column_field(schema, name)) for name in ("_rowid", "_rowoffset")]
        request = ScanRequest(
            outputs=tuple(outputs),
            predicate=self._early(scan),
            batch_rows=scan.request.batch_rows,
            block_bytes=_BLOCK_BYTES,
        )
        return scan.of_same_rows(request).tables()


# ---- columns of vectors, and of lists of vectors, as NumPy arrays


@dataclass(frozen=True, slots=True)
class VectorType:
    """The type of a vector column: the type of its values, its dimension, and whether in lists."""

    value: str
    dimension: int
    in_lists: bool

    @classmethod
    def of(cls, field: pa.Field) -> VectorType:
        """Return the vector type of a column.

        Raises InvalidTypeError: the column does not hold vectors.
        Raises InvalidArgumentError: no metric exists for the type of its values.
        """
        kind = field.type
        in_lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        vector = item_field(kind).type if in_lists else kind
        if not pa.types.is_fixed_size_list(vector):
            raise InvalidTypeError(
                f"The column {field.name!r} must be a vector column, got {kind}.",
                hint=vector_hint(field.name, kind)
                or "Search a column of fixed-size lists of numbers, or of lists of vectors.",
                column=field.name,
            )
        value = str(vector.value_type)
        if value not in METRICS_OF:
            raise InvalidArgumentError(
                f"The column {field.name!r} has vectors of {value}, which are not supported.",
                hint="Supported are vectors of float16, float32, float64 and uint8.",
                column=field.name,
            )
        return cls(value, vector.list_size, in_lists)


def measured(metric: str, column: pa.ChunkedArray, query: Vectors) -> Distances:
    """Return the distance of each row of a column from a query; NaN where there is no vector.

    The distance of a row with several vectors is the least one. For a query with several vectors,
    the distances are added.

    query: shape (vectors, dimensions).
    """
    parts = [_measured(metric, chunk, query) for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.float32), *parts])


def _measured(metric: str, rows: pa.Array, query: Vectors) -> Distances:
    if isinstance(rows, pa.FixedSizeListArray):
        found = _sum([distances(metric, _values(rows), vector) for vector in query])
    else:
        lists = cast("pa.ListArray | pa.LargeListArray", rows)
        found = _sum([_nearest_in_lists(metric, lists, vector) for vector in query])
    if ak.null_count(rows):
        found[rows.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found


def _sum(parts: Sequence[Distances]) -> Distances:
    return reduce(np.add, parts)


def _nearest_in_lists(
    metric: str, rows: pa.ListArray | pa.LargeListArray, query: Vectors
) -> Distances:
    ends = rows.offsets.to_numpy()
    inner = rows.values.slice(ends[0], ends[-1] - ends[0])
    each = _measured(metric, inner, query[np.newaxis])
    out = np.full(len(rows), np.nan, np.float32)
    filled = np.flatnonzero(np.diff(ends))
    if len(filled):
        out[filled] = np.fmin.reduceat(each, ends[filled] - ends[0])
    return out


def _values(vectors: pa.FixedSizeListArray) -> Vectors:
    """Return vectors as rows of an array; null values are 0, as in the reference."""
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size)
    flat = _bare(values)
    if ak.null_count(values):
        flat = np.where(values.is_valid().to_numpy(zero_copy_only=False), flat, flat.dtype.type(0))
    return flat.reshape(len(vectors), size)


def _bare(values: pa.Array) -> Vectors:
    """Return the values of an array, also those behind nulls, without a copy."""
    buffers = [None, values.buffers()[1]]
    bare = pa.Array.from_buffers(values.type, len(values), buffers, offset=values.offset)
    return bare.to_numpy()
