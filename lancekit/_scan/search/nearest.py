"""Search for the rows whose vectors are nearest: all are looked at, or those of an index."""

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
from lancekit._format.arrow_parts import item_field
from lancekit._index.distances import METRICS_OF, Distances, Vectors, distances
from lancekit._scan.address_map import POSITION, Narrowed, chosen_rows, fulfilling
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.reader import column_field
from lancekit._scan.outputs import Output, column_names
from lancekit._scan.scan import Scan
from lancekit._scan.search.vector_index import Best, IndexedVectors, Kept, Wanted
from lancekit._scan.take import rows_at
from lancekit.errors import InvalidArgumentError, InvalidTypeError

#: how far a row is from the query
DISTANCE = pa.field("_distance", pa.float32())
#: which of several queries a row is near to
QUERY_INDEX = pa.field("query_index", pa.int32(), nullable=False)

#: bytes of vectors that are read at a time, for each thread
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestSearch:
    """Which rows are wanted: the ``k`` whose vectors are nearest to a query, or to each of several.

    column: the path of the column of vectors.
    queries: shape (queries, vectors of a query, dimensions), of the type that values are compared
        as.
    batched: whether the rows of each query are told apart, by ``query_index``.
    prefilter: whether the scan's filter is asked before; if not, it is asked of the rows that are
        found.
    lower, upper: the least distance that counts, and the first that does not.
    index: what proposes rows of the fragments that it covers; ``None`` if all vectors are looked
        at.
    among: what is asked of rows in any case, of no more of them than would be the nearest; others
        take the places of those that do not count.
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
        """The columns that the search makes."""
        return (QUERY_INDEX, DISTANCE) if self.batched else (DISTANCE,)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that all rows are asked for."""
        return (self.column,)

    def columns(
        self, asked: object, stored: list[str], *, scored: bool
    ) -> list[str] | dict[str, str]:
        """Return the columns of the result: those asked for, and those that the search makes.

        asked: names, SQL expressions by names, or ``None`` for all that is ``stored``.
        scored: whether the distance comes along if nobody asks for it.
        """
        if isinstance(asked, dict):
            names = list(asked)
        else:
            names = list(stored) if asked is None else column_names(asked)
        if scored and DISTANCE.name not in names:
            names.append(DISTANCE.name)
        if self.batched:
            names = [QUERY_INDEX.name, *(name for name in names if name != QUERY_INDEX.name)]
        return {name: asked.get(name, name) for name in names} if isinstance(asked, dict) else names

    def describe(self, scan: Scan) -> str:
        """Say what is done."""
        index, rows = self._index_of(scan), sum(source.num_rows for source in scan.sources)
        each = f" for each of {len(self.queries)} queries" if self.batched else ""
        if index is not None and index.alone and not index.covered:
            return "no index, so that no rows are found"
        if index is not None and index.covered:
            return (
                f"search for the {self.k:,} nearest rows{each} by {self.metric} in "
                f"{index.describe(self.k)}; of what it does not cover "
                + ("nothing is read" if index.only else "all vectors are read")
            )
        return (
            f"exact search over {rows:,} rows by {self.metric}: of {self.column} all vectors are "
            f"read, of the other columns the {self.k:,} nearest rows{each}"
        )

    def blocks(self, scan: Scan) -> Generator[pa.Table]:
        """Yield what the scan asks for of the rows that are nearest, nearest first."""
        if not scan.sources:
            return
        late = None if self.prefilter else scan.request.predicate
        wanted = self._find(scan).drop_columns([] if self.batched else [QUERY_INDEX.name])
        yield from chosen_rows(scan, wanted, late)

    def _find(self, scan: Scan) -> pa.Table:
        """Return the positions of the rows, with what the search makes of them."""
        best = [Best(self.k, self.lower, self.upper) for _ in self.queries]
        index = self._index_of(scan)
        covered = BitMap() if index is None else index.covered
        left = tuple(one for one in scan.sources if one.fragment.id not in covered)
        if index is not None and covered:
            self._add_proposed(index, scan, best)
        if index is not None and index.alone:
            left = ()
        kept = self._kept(scan)
        for table in (
            self._vectors(replace(scan, read=replace(scan.read, sources=left))) if left else ()
        ):
            vectors, ids, where = table.columns
            numbers = ids.to_numpy(), where.to_numpy().astype(np.int64)
            for one, query in zip(best, self.queries, strict=True):
                one.add(measured(self.metric, vectors, query), *numbers, kept)
        queries = np.repeat(np.arange(len(best), dtype=np.int32), [len(b.positions) for b in best])
        return pa.table(
            {
                POSITION: np.concatenate([one.positions for one in best]),
                QUERY_INDEX.name: queries,
                DISTANCE.name: np.concatenate([one.distances for one in best]),
            }
        )

    def _index_of(self, scan: Scan) -> IndexedVectors | None:
        return self.index and self.index.with_tables(scan.read.tables)

    def _add_proposed(self, index: IndexedVectors, scan: Scan, best: Sequence[Best]) -> None:
        """Add the rows that an index proposes, by the distances of their vectors."""
        sources = sorted(scan.sources, key=lambda source: source.first_row)
        fragments = BitMap([source.fragment.id for source in sources])
        wanted = Wanted(
            count=self.k * (1 if index.are_exact else index.probes.refine),
            places=index.places(sources),
            allowed=self._allowed(scan, fragments & index.covered),
            kept=self._kept(scan),
            lower=self.lower,
            upper=self.upper,
        )
        column = [Output(column_field(sources[0].schema, self.column), path=self.column)]
        for one, query in zip(best, self.queries, strict=True):
            for found in index.propose(query[0], wanted):
                far = found.distances
                if not index.are_exact and len(far):
                    vectors = rows_at(sources, column, found.positions).column(0)
                    far = measured(self.metric, vectors, query)
                one.add(far, found.ids, found.positions)

    def _allowed(self, scan: Scan, fragments: BitMap) -> npt.NDArray[np.uint64] | None:
        """Return the ids of the rows that the filter selects if it is asked first."""
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

    def _kept(self, scan: Scan) -> Kept | None:
        return self.among and partial(fulfilling, scan, predicate=self.among(None))

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
    """What a column of vectors holds: values of which type, how many, and whether in lists."""

    value: str
    dimension: int
    in_lists: bool

    @classmethod
    def of(cls, field: pa.Field) -> VectorType:
        """Return what a column holds.

        Raises InvalidTypeError: it holds no vectors.
        Raises InvalidArgumentError: it holds vectors of values that are not compared.
        """
        kind = field.type
        in_lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        vector = item_field(kind).type if in_lists else kind
        if not pa.types.is_fixed_size_list(vector):
            raise InvalidTypeError(
                f"The column {field.name!r} must be a vector column; it holds {kind}, no vectors.",
                hint="Name a column of fixed-size lists of numbers, or of lists of them.",
                column=field.name,
            )
        value = str(vector.value_type)
        if value not in METRICS_OF:
            raise InvalidArgumentError(
                f"The column {field.name!r} holds vectors of {value}.",
                hint="Vectors of float16, float32, float64 and uint8 are searched.",
                column=field.name,
            )
        return cls(value, vector.list_size, in_lists)


def measured(metric: str, column: pa.ChunkedArray, query: Vectors) -> Distances:
    """Return how far the rows of a column are from a query; NaN where there is no vector.

    Of a row of several vectors the nearest counts, and of a query of several their sum.

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
    held = np.flatnonzero(np.diff(ends))
    if len(held):
        out[held] = np.fmin.reduceat(each, ends[held] - ends[0])
    return out


def _values(vectors: pa.FixedSizeListArray) -> Vectors:
    """Return vectors as rows of an array; a value that is null is 0, as in the reference."""
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size)
    flat = _bare(values)
    if ak.null_count(values):
        flat = np.where(values.is_valid().to_numpy(zero_copy_only=False), flat, flat.dtype.type(0))
    return flat.reshape(len(vectors), size)


def _bare(values: pa.Array) -> Vectors:
    """Return what numbers are, or stand behind nulls, without a copy."""
    buffers = [None, values.buffers()[1]]
    bare = pa.Array.from_buffers(values.type, len(values), buffers, offset=values.offset)
    return bare.to_numpy()
