"""Fragments as what reads them needs them, and the rows that have to be read of them."""

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
    """A fragment of one version: its metadata and where its files lie.  Can be sent to a worker.

    `first_row` is the position of the fragment's first live row in the dataset.  `schema` is the
    dataset's own, or one that shows its blobs in another form.  With `with_deleted`, deleted rows
    are read like others, but have no row id and no address.  With `compared` pages on a local disk
    are compared with their checksums when they are first read.
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
        """Whether all its files are on a disk of this machine."""
        return all(isinstance(location.store, LocalStore) for location in self.files)

    @property
    def where(self) -> str:
        """What to call the fragment in messages."""
        return f"fragment {self.fragment.id} of version {self.version}"


class FragmentSources(Sequence[FragmentSource]):
    """The fragments of a version, in row order; each is made when it is looked at.

    snapshot: the version.
    schema: what to see in the fragments.
    """

    def __init__(self, snapshot: Snapshot, schema: LanceSchema) -> None:
        self._snapshot = snapshot
        self._fragments = snapshot.manifest.fragments
        self._schema = schema

    @property
    def stable_row_ids(self) -> bool:
        """Whether row ids are not the addresses."""
        return self._snapshot.manifest.has_stable_row_ids

    @property
    def ids(self) -> Numbers:
        """The id of each fragment."""
        return self._fragments.ids

    @property
    def num_rows(self) -> Numbers:
        """The number of rows of each fragment that are still there."""
        return self._fragments.num_rows

    @cached_property
    def ends(self) -> Offsets:
        """The position behind the last row of each fragment."""
        return np.cumsum(self._fragments.num_rows, dtype=np.int64)

    def with_addresses(self, addresses: Numbers) -> Offsets:
        """Return the places of the fragments that some addresses are in."""
        return np.flatnonzero(np.isin(self._fragments.ids, row_address.fragment_ids(addresses)))

    def with_row_ids(self, ids: Numbers) -> Offsets:
        """Return the places of the fragments that may have a row of some ids, which ascend."""
        if not self.stable_row_ids:
            return self.with_addresses(ids)
        return self._fragments.row_id_bounds.candidates(ids)

    def without(self, fragment_ids: BitMap) -> list[FragmentSource]:
        """Return all fragments but some."""
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
    """Some fragments of a version; each is made when it is looked at.

    sources, places: all fragments, and the places of some of them.
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
        """The number of rows of each fragment that are still there."""
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
    """Return the fragments that may have rows which a filter selects, as far as row ids tell."""
    if predicate is None:
        return sources
    chosen: Sequence[int] = range(len(sources))
    for column, places in _BY_NUMBER.items():
        points = predicate.points(column)
        if points is not None:
            asked = np.array(sorted(point for point in points if point < 1 << 64), np.uint64)
            chosen = np.intersect1d(chosen, places(sources, asked)).tolist()
    return sources if len(chosen) == len(sources) else [sources[place] for place in chosen]


_BY_NUMBER: Mapping[str, Callable[[FragmentSources, Numbers], Offsets]] = {
    "_rowid": FragmentSources.with_row_ids,
    "_rowaddr": FragmentSources.with_addresses,
}


def fragment_sources(snapshot: Snapshot, schema: LanceSchema | None = None) -> FragmentSources:
    """Return the fragments of a version, in row order; ``schema`` is what to see in them."""
    return FragmentSources(snapshot, snapshot.manifest.schema if schema is None else schema)


# ---- which rows of a table's fragments have to be looked at: the one type that says so


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSet:
    """Which rows of a table's fragments have to be looked at.  Can be sent to a worker.

    A fragment that is not mentioned is read whole, and each of its rows is filtered: the empty set
    says "all rows".  So what is forgotten takes longer, and is never wrong.

    rows: offsets of physical rows by the ids of their fragments, deleted rows among them.  All rows
        that are wanted are there; so may be others, unless the fragment is `exact`.
    skipped: fragments that have no row to look at.
    exact: fragments of `rows` whose offsets are just those of the rows that are wanted, so that no
        filter has to look at them.

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
        """The fragments of which something is said."""
        return self.skipped | BitMap(self.rows)

    def of(self, fragment_id: int) -> BitMap | None:
        """Return the offsets to look at in a fragment; ``None`` for all of its rows."""
        return BitMap() if fragment_id in self.skipped else self.rows.get(fragment_id)

    def only(self, fragment_ids: Iterable[int]) -> RowSet:
        """Return what is said of some fragments."""
        ids = BitMap(fragment_ids)
        return RowSet(
            rows={id_: self.rows[id_] for id_ in ids if id_ in self.rows},
            skipped=self.skipped & ids,
            exact=self.exact & ids,
        )

    def inexact(self) -> RowSet:
        """Return the same rows, each to be filtered."""
        return RowSet(rows=self.rows, skipped=self.skipped)

    def filled_by(self, other: RowSet) -> RowSet:
        """Return the set with what another one says of fragments of which this one says nothing."""
        more = other.only(other.known - self.known)
        return RowSet(
            rows={**self.rows, **more.rows},
            skipped=self.skipped | more.skipped,
            exact=self.exact | more.exact,
        )

    def __and__(self, other: RowSet) -> RowSet:
        """Return the rows that both want; exact where both are."""
        rows = {**self.rows, **other.rows}
        for id_ in self.rows.keys() & other.rows.keys():
            rows[id_] = self.rows[id_] & other.rows[id_]
        none = BitMap(id_ for id_, found in rows.items() if not found)
        skipped = self.skipped | other.skipped | none
        some = {id_: found for id_, found in rows.items() if id_ not in skipped}
        return RowSet(rows=some, skipped=skipped, exact=self.exact & other.exact & BitMap(some))

    def __or__(self, other: RowSet) -> RowSet:
        """Return the rows that one of both wants: all rows where one of them says nothing."""
        rows = {**self.rows, **other.rows}
        for id_ in self.rows.keys() & other.rows.keys():
            rows[id_] = self.rows[id_] | other.rows[id_]
        both = self.known & other.known
        some = {id_: found for id_, found in rows.items() if id_ in both}
        # a skipped fragment has none of the rows that are wanted: that is exact
        exact = (self.exact | self.skipped) & (other.exact | other.skipped)
        return RowSet(rows=some, skipped=self.skipped & other.skipped, exact=exact & BitMap(some))
