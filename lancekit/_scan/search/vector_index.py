"""Candidate rows from vector indices: the rows of the partitions nearest to a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit._format.index import IndexMetadata
from lancekit._index.distances import Distances
from lancekit._index.ivf.segment import Neighbours, VectorSegment
from lancekit._index.kinds import VECTORS, first_of
from lancekit._index.row_sets import among
from lancekit._index.search.reuse import Reuse, covered_now, found_reuse
from lancekit._index.segment import open_index_file
from lancekit._lazy import cached_property
from lancekit._scan.address_map import AddressMap, MovedRows
from lancekit._scan.external_table import ExternalTable
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.unused_indices import open_or_warn
from lancekit._versions.snapshot import Snapshot

Numbers = npt.NDArray[np.uint64]

#: partitions that are searched by default: about as many as in the reference
_FIRST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """The part of an index to search, and the precision.

    least: partitions of each segment that are always searched.
    most: the most partitions to search while too few rows are found. ``None`` for all.
    effort: the part to search first, from 0 (`least` partitions) to 1 (`most`). ``None`` chooses by
        the number of rows.
    refine: how many times the requested number of rows are compared by their vectors, if the index
        stores codes instead of vectors.
    """

    least: int = 1
    most: int | None = None
    effort: float | None = None
    refine: int = 1

    def first(self, partitions: int, count: int) -> int:
        """Return how many partitions are searched first, for a requested number of rows."""
        least, most = min(self.least, partitions), self.last(partitions)
        wanted: float = max(_FIRST, sqrt(count))
        if self.effort is not None:
            wanted = float(least) ** (1 - self.effort) * float(most) ** self.effort
        return min(max(ceil(wanted), least), most)

    def last(self, partitions: int) -> int:
        """Return how many partitions are searched at most."""
        return partitions if self.most is None else min(self.most, partitions)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wanted:
    """The number of rows to propose, and the conditions on them.

    count: the number of rows.
    address_maps: the address maps of qualifying rows, for each segment.
    allowed: the ascending ids of the rows that qualify. ``None`` if all do.
    row_filter: a further condition that is only applied to rows that would be among the nearest.
    lower, upper: distances qualify from `lower` on, and below `upper`.
    """

    count: int
    address_maps: tuple[AddressMap, ...]
    allowed: Numbers | None = None
    row_filter: RowFilter | None = None
    lower: float | None = None
    upper: float | None = None

    def leave_out(
        self, far: Distances, error: float, searched: _Searched, address_map: AddressMap
    ) -> None:
        """Set distances of rows that do not qualify to NaN; distances may be off by `error`."""
        if self.lower is not None:
            far[far < self.lower - error] = np.nan
        if self.upper is not None:
            far[far >= self.upper + error] = np.nan
        if self.allowed is not None:
            far[~among(address_map.ids(searched.ids()), self.allowed)] = np.nan


@dataclass(frozen=True, slots=True, eq=False)
class Proposed:
    """Candidates for the nearest rows, each with its id and its position."""

    ids: Numbers
    positions: npt.NDArray[np.int64]
    distances: Distances


@dataclass(slots=True, eq=False)
class _Searched:
    """The rows of the partitions that were searched."""

    parts: list[Neighbours] = field(default_factory=list)

    def ids(self) -> Numbers:
        return np.concatenate([np.empty(0, np.uint64), *(part.ids for part in self.parts)])

    def distances(self) -> tuple[Distances, float]:
        """Return the distances of all rows, and the largest error that they may have."""
        parts = [part.compared for part in self.parts]
        far = np.concatenate([np.empty(0, np.float32), *(part.distances for part in parts)])
        return far, max((part.error for part in parts), default=0.0)

    def exactly(self, indices: npt.NDArray[np.intp], far: Distances) -> tuple[Numbers, Distances]:
        """Return the ids and exact distances of some rows; `far` are their estimated distances."""
        ends = np.cumsum([len(part.ids) for part in self.parts])
        owners = np.searchsorted(ends, indices, "right")
        ids, near = np.empty(len(indices), np.uint64), far.copy()
        for one in np.unique(owners).tolist():
            part, mine = self.parts[one], owners == one
            inside = indices[mine] - (ends[one] - len(part.ids))
            ids[mine] = part.ids[inside]
            if part.compared.exactly is not None:
                near[mine] = part.compared.exactly(inside)
        return ids, near


@dataclass(frozen=True, kw_only=True)
class IndexedVectors:
    """The segments of a vector index, in a version.

    metric: the metric to compare by. Segments with another metric are ignored.
    only: whether to leave out rows that no index covers.
    tables: external tables, with indices of their own.
    """

    snapshot: Snapshot
    indices: tuple[IndexMetadata, ...]
    metric: str
    probes: Probes
    only: bool = False
    tables: tuple[ExternalTable, ...] = ()

    def with_tables(self, tables: tuple[ExternalTable, ...]) -> IndexedVectors:
        """Return the index together with the indices of external tables."""
        return replace(self, tables=tables) if tables else self

    @cached_property
    def opened(self) -> tuple[tuple[VectorSegment, BitMap, MovedRows | None], ...]:
        """The usable segments, each with its covered fragments and the map of its moved rows."""
        live = BitMap(self.snapshot.manifest.fragments.ids.tolist())
        found = []
        for index in self.indices:
            covered = live & covered_now(index, self._reuse)
            segment = _opened(self.snapshot, index) if covered else None
            if segment is not None and segment.metric == self.metric:
                found.append((segment, covered, self._reuse))
                live -= covered  # so that no row is proposed twice
        return (*found, *self._of_tables()) if self.indices else ()

    def _of_tables(self) -> Iterator[tuple[VectorSegment, BitMap, MovedRows]]:
        fields = self.indices[0].fields
        for table in self.tables:
            for index in table.indices(VECTORS, fields[0]):
                segment = _opened(table.snapshot, index)
                if segment is not None and segment.metric == self.metric:
                    yield segment, BitMap([table.fragment_id]), table

    @cached_property
    def covered(self) -> BitMap:
        """The fragments whose rows are proposed."""
        return BitMap.union(BitMap(), *(covered for _, covered, _ in self.opened))

    @property
    def alone(self) -> bool:
        """True if only indexed rows are found. If an index exists but is unusable, it is False."""
        return self.only and bool(self.covered or not self.indices)

    @cached_property
    def _reuse(self) -> Reuse | None:
        return found_reuse(self.snapshot)

    @property
    def are_exact(self) -> bool:
        """True if the proposed distances are computed from the vectors, not from codes."""
        return all(segment.codes.are_exact for segment, *_ in self.opened)

    def describe(self, count: int) -> str:
        """Describe the partitions to search for a requested number of rows."""
        names = sorted({index.name for index in self.indices})
        parts = sum(len(segment.centroids) for segment, *_ in self.opened)
        first = sum(self.probes.first(len(one.centroids), count) for one, *_ in self.opened)
        last = sum(self.probes.last(len(one.centroids)) for one, *_ in self.opened)
        more = f", up to {last:,} while too few rows are found" if last > first else ""
        return f"index {', '.join(names)}, the {first:,} nearest of {parts:,} partitions{more}"

    def propose(self, query: npt.NDArray[np.generic], wanted: Wanted) -> Iterator[Proposed]:
        """Yield the nearest rows of each segment: the requested number, if it has that many.

        query: shape (dimensions,).
        """
        count = wanted.count
        for (segment, *_), address_map in zip(self.opened, wanted.address_maps, strict=True):
            order = segment.by_distance(query)
            most, stop = self.probes.last(len(order)), self.probes.first(len(order), count)
            searched, best, done = _Searched(), None, 0
            while done < stop:
                searched.parts += segment.search(query, order[done:stop])
                best = _nearest(searched, wanted, address_map)
                done, stop = stop, stop if len(best.ids) >= count else min(2 * stop, most)
            if best is not None:
                yield best

    def address_maps(self, sources: Sequence[FragmentSource]) -> tuple[AddressMap, ...]:
        """Return the address map of each segment, for some fragments."""
        return tuple(
            AddressMap([one for one in sources if one.fragment.id in covered], moves)
            for _, covered, moves in self.opened
        )


def _nearest(searched: _Searched, wanted: Wanted, address_map: AddressMap) -> Proposed:
    """Return the nearest rows of the partitions searched so far."""
    far, error = searched.distances()
    wanted.leave_out(far, error, searched, address_map)
    count = wanted.count
    size = 2 * count
    while True:
        limit = np.float32(np.inf)
        if size < len(far):
            limit = np.partition(far, size - 1)[size - 1]  # NaN comes last
        if np.isnan(limit):
            limit = np.float32(np.inf)
        some = np.flatnonzero(far <= limit)
        ids, near = searched.exactly(some, far[some])
        positions = address_map.positions(ids)
        there = np.flatnonzero(_qualifying(near, wanted.lower, wanted.upper) & (positions >= 0))
        if wanted.row_filter is not None:
            there = there[wanted.row_filter(positions[there])]
        kept = there[np.lexsort((ids[there], near[there]))][:count]
        # no row that was left out is nearer
        whole = len(kept) == count and near[kept[-1]] <= limit - error
        if whole or limit == np.inf:
            return Proposed(address_map.ids(ids[kept]), positions[kept], near[kept])
        size *= 4


def metric_of(snapshot: Snapshot, indices: Iterable[IndexMetadata]) -> str | None:
    """Return the metric of an index, from the manifest or else its files; ``None`` without one."""
    for index in indices:
        segment = None if index.metric else _opened(snapshot, index)
        if found := index.metric or (segment and segment.metric):
            return found
    return None


def _opened(snapshot: Snapshot, index: IndexMetadata) -> VectorSegment | None:
    def opened() -> VectorSegment:
        store, kept = snapshot.base_store(index.base_id), snapshot.location.open_files
        files = (open_index_file(store, index, name, kept) for name in VECTORS.files)
        return VectorSegment.open(*files)

    return open_or_warn(index, VECTORS, opened, "all vectors are read")


def vector_indices(snapshot: Snapshot, field_id: int) -> tuple[IndexMetadata, ...]:
    """Return the segments of the first vector index of a column; reads nothing."""
    return first_of(VECTORS, snapshot.indices, field_id)


# ---- the k nearest rows so far

#: returns a mask of the positions that qualify
RowFilter: TypeAlias = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]


def _qualifying(
    distances: Distances, lower: float | None, upper: float | None
) -> npt.NDArray[np.bool_]:
    """Return a mask of the distances that qualify: from `lower` on, below `upper`, not NaN."""
    wanted = ~np.isnan(distances)
    if lower is not None:
        wanted &= distances >= np.float32(lower)
    if upper is not None:
        wanted &= distances < np.float32(upper)
    return wanted


class TopK:
    """The rows of the least distances, nearest first, with ties in the order of row ids.

    most: the number of rows to keep.
    lower, upper: distances qualify from `lower` on, and below `upper`. NaN never qualifies.
    """

    def __init__(self, most: int, lower: float | None = None, upper: float | None = None) -> None:
        self.most, self.lower, self.upper = most, lower, upper
        self.distances: Distances = np.empty(0, np.float32)
        self.row_ids: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self.positions: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def add(
        self,
        distances: Distances,
        row_ids: npt.NDArray[np.uint64],
        positions: npt.NDArray[np.int64],
        row_filter: RowFilter | None = None,
    ) -> None:
        """Merge more rows into the nearest ones.

        distances: overwritten with NaN for rows that are found not to qualify.
        row_filter: a condition that is only applied to rows that would be among the nearest.
        """
        candidates = self._candidates(distances)
        while row_filter is not None and len(candidates):
            gone = candidates[~row_filter(positions[candidates])]
            if not len(gone):
                break
            distances[gone] = np.nan  # the next nearest rows replace them
            candidates = self._candidates(distances)
        if not len(candidates):
            return
        found = np.concatenate([self.distances, distances[candidates]])
        ids = np.concatenate([self.row_ids, row_ids[candidates]])
        where = np.concatenate([self.positions, positions[candidates]])
        order = np.lexsort((ids, found))[: self.most]
        self.distances, self.row_ids, self.positions = found[order], ids[order], where[order]

    def _candidates(self, distances: Distances) -> npt.NDArray[np.intp]:
        """Return the rows that may be among the nearest: not many more than `most`."""
        wanted = _qualifying(distances, self.lower, self.upper)
        if len(self.distances) == self.most:
            wanted &= distances <= self.distances[-1]  # at the same distance its id may be less
        candidates = np.flatnonzero(wanted)
        if len(candidates) > self.most:
            near = distances[candidates]
            candidates = candidates[near <= np.partition(near, self.most - 1)[self.most - 1]]
        return candidates
