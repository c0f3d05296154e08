"""Rows that indices of vectors propose: those of the partitions that are nearest to a query."""

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
from lancekit._scan.unused_indices import opened_or_told
from lancekit._versions.snapshot import Snapshot

Numbers = npt.NDArray[np.uint64]

#: partitions that are looked at if nothing is said: about as many as the reference looks at
_FIRST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """How much of an index is looked at.

    least: partitions that are looked at in any case, of each segment.
    most: partitions that are looked at while too few rows are found; ``None`` for all.
    effort: from 0, for the least, to 1, for all at once; ``None`` for as many as so many rows want.
    refine: how many times as many rows as asked for are compared by their vectors, where an index
        has codes for these.
    """

    least: int = 1
    most: int | None = None
    effort: float | None = None
    refine: int = 1

    def first(self, partitions: int, count: int) -> int:
        """Return how many partitions are looked at at first, if so many rows are wanted."""
        least, most = min(self.least, partitions), self.last(partitions)
        wanted: float = max(_FIRST, sqrt(count))
        if self.effort is not None:
            wanted = float(least) ** (1 - self.effort) * float(most) ** self.effort
        return min(max(ceil(wanted), least), most)

    def last(self, partitions: int) -> int:
        """Return how many are looked at at most."""
        return partitions if self.most is None else min(self.most, partitions)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wanted:
    """Which rows count, and how many are wanted.

    count: how many.
    places: where rows that count are, for each segment.
    allowed: the ids of the rows that count, ascending; ``None`` if all do.
    kept: is asked in addition of those that would be among the nearest.
    lower, upper: the least distance that counts, and the first that does not.
    """

    count: int
    places: tuple[AddressMap, ...]
    allowed: Numbers | None = None
    kept: Kept | None = None
    lower: float | None = None
    upper: float | None = None

    def leave_out(self, far: Distances, error: float, looked: _Looked, places: AddressMap) -> None:
        """Make NaN of the distances of rows that do not count, if they may be wrong by so much."""
        if self.lower is not None:
            far[far < self.lower - error] = np.nan
        if self.upper is not None:
            far[far >= self.upper + error] = np.nan
        if self.allowed is not None:
            far[~among(places.ids(looked.ids()), self.allowed)] = np.nan


@dataclass(frozen=True, slots=True, eq=False)
class Proposed:
    """Rows that may be the nearest ones, each by its id and its position."""

    ids: Numbers
    positions: npt.NDArray[np.int64]
    distances: Distances


@dataclass(slots=True, eq=False)
class _Looked:
    """The rows of the partitions that were looked at."""

    parts: list[Neighbours] = field(default_factory=list)

    def ids(self) -> Numbers:
        """Return the ids of all rows."""
        return np.concatenate([np.empty(0, np.uint64), *(part.ids for part in self.parts)])

    def distances(self) -> tuple[Distances, float]:
        """Return the distances of all rows, and by how much they may be wrong."""
        parts = [part.compared for part in self.parts]
        far = np.concatenate([np.empty(0, np.float32), *(part.distances for part in parts)])
        return far, max((part.error for part in parts), default=0.0)

    def exactly(self, places: npt.NDArray[np.intp], far: Distances) -> tuple[Numbers, Distances]:
        """Return the ids and the distances of some rows, of which `far` are about those."""
        ends = np.cumsum([len(part.ids) for part in self.parts])
        owners = np.searchsorted(ends, places, "right")
        ids, near = np.empty(len(places), np.uint64), far.copy()
        for one in np.unique(owners).tolist():
            part, mine = self.parts[one], owners == one
            inside = places[mine] - (ends[one] - len(part.ids))
            ids[mine] = part.ids[inside]
            if part.compared.exactly is not None:
                near[mine] = part.compared.exactly(inside)
        return ids, near


@dataclass(frozen=True, kw_only=True)
class IndexedVectors:
    """The segments of an index of vectors, in a version.

    metric: what rows are to be compared by; segments that compare by another are passed over.
    only: whether rows that no index covers are left out.
    tables: tables that are read as fragments, with indices of their own.
    """

    snapshot: Snapshot
    indices: tuple[IndexMetadata, ...]
    metric: str
    probes: Probes
    only: bool = False
    tables: tuple[ExternalTable, ...] = ()

    def with_tables(self, tables: tuple[ExternalTable, ...]) -> IndexedVectors:
        """Return the same with the indices of some tables that are read as fragments."""
        return replace(self, tables=tables) if tables else self

    @cached_property
    def opened(self) -> tuple[tuple[VectorSegment, BitMap, MovedRows | None], ...]:
        """What can be used, each with the fragments that it covers, and where its rows are."""
        live = BitMap(self.snapshot.manifest.fragments.ids.tolist())
        found = []
        for index in self.indices:
            covered = live & covered_now(index, self._reuse)
            segment = _opened(self.snapshot, index) if covered else None
            if segment is not None and segment.metric == self.metric:
                found.append((segment, covered, self._reuse))
                live -= covered  # a row is proposed once
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
        """Whether no other rows are found: not, if there is an index that cannot be used."""
        return self.only and bool(self.covered or not self.indices)

    @cached_property
    def _reuse(self) -> Reuse | None:
        return found_reuse(self.snapshot)

    @property
    def are_exact(self) -> bool:
        """Whether the distances that are proposed are those of the vectors."""
        return all(segment.codes.are_exact for segment, *_ in self.opened)

    def describe(self, count: int) -> str:
        """Say what is looked at if so many rows are wanted."""
        names = sorted({index.name for index in self.indices})
        parts = sum(len(segment.centroids) for segment, *_ in self.opened)
        first = sum(self.probes.first(len(one.centroids), count) for one, *_ in self.opened)
        last = sum(self.probes.last(len(one.centroids)) for one, *_ in self.opened)
        more = f", up to {last:,} while too few rows are found" if last > first else ""
        return f"index {', '.join(names)}, the {first:,} nearest of {parts:,} partitions{more}"

    def propose(self, query: npt.NDArray[np.generic], wanted: Wanted) -> Iterator[Proposed]:
        """Yield the nearest rows of each segment, as many as are wanted, if it has them.

        query: shape (dimensions,).
        """
        count = wanted.count
        for (segment, *_), places in zip(self.opened, wanted.places, strict=True):
            order = segment.by_distance(query)
            most, stop = self.probes.last(len(order)), self.probes.first(len(order), count)
            looked, best, done = _Looked(), None, 0
            while done < stop:
                looked.parts += segment.search(query, order[done:stop])
                best = _best(looked, wanted, places)
                done, stop = stop, stop if len(best.ids) >= count else min(2 * stop, most)
            if best is not None:
                yield best

    def places(self, sources: Sequence[FragmentSource]) -> tuple[AddressMap, ...]:
        """Return where the rows of each segment are, in some fragments."""
        return tuple(
            AddressMap([one for one in sources if one.fragment.id in covered], moves)
            for _, covered, moves in self.opened
        )


def _best(looked: _Looked, wanted: Wanted, places: AddressMap) -> Proposed:
    """Return the nearest rows that there are."""
    far, error = looked.distances()
    wanted.leave_out(far, error, looked, places)
    count = wanted.count
    size = 2 * count
    while True:
        limit = np.float32(np.inf)
        if size < len(far):
            limit = np.partition(far, size - 1)[size - 1]  # NaN comes last
        if np.isnan(limit):
            limit = np.float32(np.inf)
        some = np.flatnonzero(far <= limit)
        ids, near = looked.exactly(some, far[some])
        positions = places.positions(ids)
        there = np.flatnonzero(_counted(near, wanted.lower, wanted.upper) & (positions >= 0))
        if wanted.kept is not None:
            there = there[wanted.kept(positions[there])]
        kept = there[np.lexsort((ids[there], near[there]))][:count]
        # of the rows left out none is nearer
        whole = len(kept) == count and near[kept[-1]] <= limit - error
        if whole or limit == np.inf:
            return Proposed(places.ids(ids[kept]), positions[kept], near[kept])
        size *= 4


def metric_of(snapshot: Snapshot, indices: Iterable[IndexMetadata]) -> str | None:
    """Return what an index compares by, as the manifest says it, or its files; ``None`` without."""
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

    return opened_or_told(index, VECTORS, opened, "all vectors are looked at")


def vector_indices(snapshot: Snapshot, field_id: int) -> tuple[IndexMetadata, ...]:
    """Return the segments of the first index of vectors of a column; nothing else is looked at."""
    return first_of(VECTORS, snapshot.indices, field_id)


# ---- the best rows of those that came so far

#: tells of rows, by their positions, which count
Kept: TypeAlias = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]


def _counted(
    distances: Distances, lower: float | None, upper: float | None
) -> npt.NDArray[np.bool_]:
    """Return which distances count: from the lower one on, below the upper one, and no NaN."""
    wanted = ~np.isnan(distances)
    if lower is not None:
        wanted &= distances >= np.float32(lower)
    if upper is not None:
        wanted &= distances < np.float32(upper)
    return wanted


class Best:
    """The rows of the least distances, nearest first, and by row ids where these are equal.

    most: how many there are to be.
    lower, upper: the least distance that counts, and the first that does not; NaN never does.
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
        kept: Kept | None = None,
    ) -> None:
        """Look at more rows.

        distances: becomes NaN where a row is found not to count.
        kept: is asked of those that would be among the best; ``None`` if all count.
        """
        chosen = self._chosen(distances)
        while kept is not None and len(chosen):
            gone = chosen[~kept(positions[chosen])]
            if not len(gone):
                break
            distances[gone] = np.nan  # others take their places
            chosen = self._chosen(distances)
        if not len(chosen):
            return
        found = np.concatenate([self.distances, distances[chosen]])
        ids = np.concatenate([self.row_ids, row_ids[chosen]])
        where = np.concatenate([self.positions, positions[chosen]])
        order = np.lexsort((ids, found))[: self.most]
        self.distances, self.row_ids, self.positions = found[order], ids[order], where[order]

    def _chosen(self, distances: Distances) -> npt.NDArray[np.intp]:
        """Return which rows may be among the best: not many more than there are to be."""
        wanted = _counted(distances, self.lower, self.upper)
        if len(self.distances) == self.most:
            wanted &= distances <= self.distances[-1]  # at the same distance its id may be less
        chosen = np.flatnonzero(wanted)
        if len(chosen) > self.most:
            asked = distances[chosen]
            chosen = chosen[asked <= np.partition(asked, self.most - 1)[self.most - 1]]
        return chosen
