"""Fragment sources, with the metadata and files of a fragment; and sets of rows to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit._format import row_address
from lancekit._format.fragment import Fragment
from lancekit._format.manifest import BasePath
from lancekit._format.schema import LanceSchema
from lancekit._lazy import cached_property
from lancekit._scan.expressions.predicate import Predicate
from lancekit._storage.local import LocalStore
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import FileLocation, Snapshot

Numbers = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentSource:
    """A fragment of one version: its metadata and the locations of its files.

    Can be sent to a worker. `first_row` is the position of the fragment's first live row in the
    dataset. `schema` is the dataset's schema, or a view that shows blobs in another form. With
    `with_deleted`, deleted rows are read like others, but have no row id and no address. With
    `compared`, pages on a local disk are verified against their checksums when they are first read.
    """

    fragment: Fragment
    files: tuple[FileLocation, ...]
    deletion: FileLocation | None
    schema: LanceSchema
    stable_row_ids: bool
    first_row: int
    version: int
    location: BranchLocation
    base_paths: tuple[BasePath, ...]
    with_deleted: bool = False
    compared: bool = False

    @property
    def num_rows(self) -> int:
        """The number of rows that a scan sees."""
        return self.fragment.physical_rows if self.with_deleted else self.fragment.num_rows

    @property
    def on_disk(self) -> bool:
        """True if all files are on a local disk."""
        return all(isinstance(location.store, LocalStore) for location in self.files)

    @property
    def where(self) -> str:
        """The fragment's name in messages."""
        return f"fragment {self.fragment.id} of version {self.version}"


class FragmentSources(Sequence[FragmentSource]):
    """The fragments of a version, in row order; each source is made when it is accessed.

    snapshot: the version.
    schema: the schema to read with, or a view that shows blobs in another form.
    """

    def __init__(self, snapshot: Snapshot, schema: LanceSchema) -> None:
        self._snapshot = snapshot
        self._fragments = snapshot.manifest.fragments
        self._schema = schema

    @property
    def stable_row_ids(self) -> bool:
        """True if row ids are stable, and not the addresses."""
        return self._snapshot.manifest.has_stable_row_ids

    @property
    def ids(self) -> Numbers:
        """The id of each fragment."""
        return self._fragments.ids

    @property
    def num_rows(self) -> Numbers:
        """The number of live rows of each fragment."""
        return self._fragments.num_rows

    @cached_property
    def ends(self) -> Offsets:
        """The position after the last row of each fragment."""
        return np.cumsum(self._fragments.num_rows, dtype=np.int64)

    def with_addresses(self, addresses: Numbers) -> Offsets:
        """Return the indices of the fragments that contain some addresses."""
        return np.flatnonzero(np.isin(self._fragments.ids, row_address.fragment_ids(addresses)))

    def with_row_ids(self, ids: Numbers) -> Offsets:
        """Return the indices of the fragments that may contain one of some ascending row ids."""
        if not self.stable_row_ids:
            return self.with_addresses(ids)
        return self._fragments.row_id_bounds.candidates(ids)

    def without(self, fragment_ids: BitMap) -> list[FragmentSource]:
        """Return all fragments except some."""
        ids = enumerate(self._fragments.ids.tolist())
        return [self._at(place) for place, id_ in ids if id_ not in fragment_ids]

    def _at(self, place: int) -> FragmentSource:
        snapshot, fragment = self._snapshot, self._fragments[place]
        return FragmentSource(
            fragment=fragment,
            files=tuple(snapshot.data_file(file) for file in fragment.files),
            deletion=snapshot.deletion_file(fragment),
            schema=self._schema,
            stable_row_ids=self.stable_row_ids,
            first_row=int(self.ends[place - 1]) if place else 0,
            version=snapshot.version,
            location=snapshot.location,
            base_paths=snapshot.manifest.base_paths,
        )

    @overload
    def __getitem__(self, index: int) -> FragmentSource: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[FragmentSource, ...]: ...
    def __getitem__(self, index: int | slice) -> FragmentSource | tuple[FragmentSource, ...]:
        places = range(len(self))[index]
        return self._at(places) if isinstance(places, int) else tuple(map(self._at, places))

    def __iter__(self) -> Iterator[FragmentSource]:
        return map(self._at, range(len(self)))

    def __len__(self) -> int:
        return len(self._fragments)


class SomeSources(Sequence[FragmentSource]):
    """Some fragments of a version; each source is made when it is accessed.

    sources, places: all fragments, and the indices of the selected ones.
    """

    def __init__(self, sources: FragmentSources, places: Offsets) -> None:
        self._sources = sources
        self._places = places

    @property
    def ids(self) -> Numbers:
        """The id of each fragment."""
        return self._sources.ids[self._places]

    @property
    def num_rows(self) -> Numbers:
        """The number of live rows of each fragment."""
        return self._sources.num_rows[self._places]

    @overload
    def __getitem__(self, index: int) -> FragmentSource: ...
    @overload
    def __getitem__(self, index: slice) -> SomeSources: ...
    def __getitem__(self, index: int | slice) -> FragmentSource | SomeSources:
        if isinstance(index, slice):
            return SomeSources(self._sources, self._places[index])
        return self._sources[int(self._places[index])]

    def __len__(self) -> int:
        return len(self._places)


def sources_for(sources: FragmentSources, predicate: Predicate | None) -> Sequence[FragmentSource]:
    """Return the fragments that a filter's row ids and addresses do not rule out."""
    if predicate is None:
        return sources
    selected: Sequence[int] = range(len(sources))
    for column, places in _BY_NUMBER.items():
        points = predicate.points(column)
        if points is not None:
            requested = np.array(sorted(point for point in points if point < 1 << 64), np.uint64)
            selected = np.intersect1d(selected, places(sources, requested)).tolist()
    return sources if len(selected) == len(sources) else [sources[place] for place in selected]


_BY_NUMBER: Mapping[str, Callable[[FragmentSources, Numbers], Offsets]] = {
    "_rowid": FragmentSources.with_row_ids,
    "_rowaddr": FragmentSources.with_addresses,
}


def fragment_sources(snapshot: Snapshot, schema: LanceSchema | None = None) -> FragmentSources:
    """Return the fragments of a version, in row order, to be read with a schema or a view."""
    return FragmentSources(snapshot, snapshot.manifest.schema if schema is None else schema)


# ---- row sets: the one type for the rows to read


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSet:
    """The rows to read in a table's fragments. Can be sent to a worker.

    A fragment that is in neither `rows` nor `skipped` is read and filtered as a whole, so the empty
    set means "all rows". Leaving a fragment out costs time, but never changes a result.

    rows: offsets of physical rows by fragment id, which may include deleted rows. They include all
        matching rows, and maybe others, unless the fragment is `exact`.
    skipped: fragments without a row to read.
    exact: fragments in `rows` whose offsets are exactly the matching rows, so that no filter has to
        run on them.

    Examples
    --------
    >>> from pyroaring import BitMap
    >>> one = RowSet(rows={0: BitMap([1, 2])}, skipped=BitMap([1]), exact=BitMap([0]))
    >>> other = RowSet(rows={0: BitMap([2, 3]), 2: BitMap([7])})
    >>> (one & other).of(0), (one & other).of(2), (one | other).of(2)
    (BitMap([2]), BitMap([7]), None)
    """

    rows: Mapping[int, BitMap] = field(default_factory=dict)
    skipped: BitMap = field(default_factory=BitMap)
    exact: BitMap = field(default_factory=BitMap)

    @property
    def known(self) -> BitMap:
        """The fragments in this set: those in `rows` or `skipped`."""
        return self.skipped | BitMap(self.rows)

    def of(self, fragment_id: int) -> BitMap | None:
        """Return the offsets to read in a fragment; ``None`` for all of its rows."""
        return BitMap() if fragment_id in self.skipped else self.rows.get(fragment_id)

    def only(self, fragment_ids: Iterable[int]) -> RowSet:
        """Return the set restricted to some fragments."""
        ids = BitMap(fragment_ids)
        return RowSet(
            rows={id_: self.rows[id_] for id_ in ids if id_ in self.rows},
            skipped=self.skipped & ids,
            exact=self.exact & ids,
        )

    def inexact(self) -> RowSet:
        """Return the same rows with no fragment exact, so that each row is filtered."""
        return RowSet(rows=self.rows, skipped=self.skipped)

    def filled_by(self, other: RowSet) -> RowSet:
        """Return the set, extended by fragments that only another set has."""
        more = other.only(other.known - self.known)
        return RowSet(
            rows={**self.rows, **more.rows},
            skipped=self.skipped | more.skipped,
            exact=self.exact | more.exact,
        )

    def __and__(self, other: RowSet) -> RowSet:
        """Return the rows in both sets; exact where both are."""
        rows = {**self.rows, **other.rows}
        for id_ in self.rows.keys() & other.rows.keys():
            rows[id_] = self.rows[id_] & other.rows[id_]
        none = BitMap(id_ for id_, found in rows.items() if not found)
        skipped = self.skipped | other.skipped | none
        some = {id_: found for id_, found in rows.items() if id_ not in skipped}
        return RowSet(rows=some, skipped=skipped, exact=self.exact & other.exact & BitMap(some))

    def __or__(self, other: RowSet) -> RowSet:
        """Return the rows in either set; a fragment that only one set has is read whole."""
        rows = {**self.rows, **other.rows}
        for id_ in self.rows.keys() & other.rows.keys():
            rows[id_] = self.rows[id_] | other.rows[id_]
        both = self.known & other.known
        some = {id_: found for id_, found in rows.items() if id_ in both}
        # a skipped fragment has no matching rows: that is exact
        exact = (self.exact | self.skipped) & (other.exact | other.skipped)
        return RowSet(rows=some, skipped=self.skipped & other.skipped, exact=exact & BitMap(some))
