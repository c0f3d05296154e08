"""Looking up in scalar indices which rows a filter wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from operator import and_, or_

import numpy as np
from pyroaring import BitMap

from lancekit._format.deletions import to_bitmap, to_offsets
from lancekit._format.index import fragment_reuse_of
from lancekit._format.paths import find_field
from lancekit._format.schema import LanceSchema
from lancekit._index.kinds import IndexKind, kind_of
from lancekit._index.row_sets import Rows, joined
from lancekit._index.search.index_query import ColumnCondition, IndexQuery
from lancekit._index.search.registry import REGISTRY
from lancekit._index.search.reuse import Reuse, covered_now, reuse_of
from lancekit._index.segment import Segment
from lancekit._lazy import cached_property
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import RowSet, fragment_sources
from lancekit._scan.unused_indices import is_known, tell_unused
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, LancekitError

#: rows that are found are read by themselves up to this share of a fragment's, of which that takes
#: no longer than to read and filter all, wherever they lie and whatever columns are wanted
_SHARE = 1 / 2
#: but so few are in any case, and so many that need no second look: those are listed in memory
_FEW, _MOST_EXACT = 1024, 1 << 24


@dataclass(frozen=True, kw_only=True)
class IndexLookup:
    """Asks the indices of a version which rows are wanted, once that is needed.

    snapshot: the version.
    make_query: makes what the indices are asked; ``None`` if any row may be wanted.
    segments: those that may know, by the column that they are of.
    reuse: tells where rows went that compactions moved without telling the indices.
    indexed_only: whether rows that no index covers are left out, and indices asked even where it
        does not pay.
    others: lookups in other tables of one fragment each, by the number that it has here.
    filtered: whether each row that is found is filtered again, whatever the indices know.
    """

    snapshot: Snapshot
    make_query: Callable[[], IndexQuery | None]
    segments: Mapping[str, tuple[Segment, ...]]
    reuse: Reuse | None = None
    indexed_only: bool = False
    others: Mapping[int, IndexLookup] = field(default_factory=dict)
    filtered: bool = False

    def describe(self) -> str:
        """Say which indices are asked for what; nothing is read for it."""
        by_name = {
            segment.index.name: f"{segment.index.name} ({segment.kind.label}) of {column}"
            for column, segments in self.segments.items()
            for segment in segments
        }
        others = "left out" if self.indexed_only else "read, too"
        return f"{' and '.join(by_name.values())}; rows that no index covers are {others}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the indices."""
        segments = chain.from_iterable(self.segments.values())
        return tuple(sorted({segment.index.name for segment in segments}))

    @cached_property
    def covered_rows(self) -> int:
        """The rows of fragments that an index covers, whatever it will tell of them."""
        segments = chain.from_iterable(self.segments.values())
        covered = BitMap.union(BitMap(), *map(self._covered, segments))
        fragments = self.snapshot.manifest.fragments
        known = np.isin(fragments.ids, to_offsets(covered))
        return int(np.asarray(fragments.num_rows)[known].sum())

    @cached_property
    def found(self) -> RowSet:
        """What the indices tell; nothing if they know nothing."""
        query = self.make_query()
        found = None if query is None else self._answer(query)
        return RowSet() if found is None else found

    @cached_property
    def rows(self) -> RowSet:
        """The rows to look at: those found, where to read them by themselves pays."""
        found = self.found
        rows = {id_: some for id_, some in found.rows.items() if self._reads_alone(id_, len(some))}
        left_out = self._live - found.known if self.indexed_only and found.known else BitMap()
        skipped = found.skipped | left_out
        for number, other in self.others.items():
            there = other.rows.of(int(other.snapshot.manifest.fragments.ids[0]))
            if there:
                rows[number] = there
            elif there is not None:
                skipped |= BitMap([number])
        found = RowSet(rows=rows, skipped=skipped, exact=found.exact & BitMap(rows))
        return found.inexact() if self.filtered else found

    def _reads_alone(self, fragment_id: int, count: int) -> bool:
        """Return whether some rows of a fragment are read by themselves, and not among all."""
        fragment = self.snapshot.fragment(fragment_id)
        if fragment is None or self.indexed_only:
            return fragment is not None
        return _pays(count, fragment.physical_rows, fragment_id in self.found.exact)

    def _answer(self, query: IndexQuery) -> RowSet | None:
        if isinstance(query, ColumnCondition):
            return self._ask(query)
        known = [found for part in query.parts if (found := self._answer(part)) is not None]
        if not known or (len(known) < len(query.parts) and not query.all_of):
            return None
        found = reduce(and_ if query.all_of else or_, known)
        whole = query.whole and len(known) == len(query.parts)
        return found if whole else found.inexact()

    def _ask(self, condition: ColumnCondition) -> RowSet | None:
        """Ask all indices of a column, exact ones first, until one knows of every fragment."""
        by_name: dict[str, list[Segment]] = {}
        for segment in self.segments.get(condition.column, ()):
            by_name.setdefault(segment.index.name, []).append(segment)
        found = RowSet()
        for segments in sorted(by_name.values(), key=lambda some: not some[0].kind.exact):
            if self._live <= found.known:
                break
            for segment in segments:
                if (part := self._search(segment, condition)) is not None:
                    found = found.filled_by(part)
        return found if found.known else None

    def _search(self, segment: Segment, condition: ColumnCondition) -> RowSet | None:
        covered = self._covered(segment)
        if not covered:
            return None
        search = REGISTRY[segment.kind.name].search()
        try:
            rows = search(segment, condition, always=self.indexed_only)
            if rows is None:
                return None
            stable = self.snapshot.manifest.has_stable_row_ids
            by_address = segment.kind.has_addresses(segment.index.index_version, stable)
            if not by_address:
                rows = dict(self._of_ids(rows, covered))
            elif self.reuse is not None:
                rows = self.reuse.rows(rows)
            if segment.kind.zones:
                # 4.0.0 notes that fragments of moved rows are covered, and makes no zones of them
                covered &= BitMap(rows.keys())
            rows = {id_: found for id_, found in rows.items() if found and id_ in covered}
            self._check(rows)
        except (LancekitError, OSError) as error:
            tell_unused(segment.index, f"cannot be read: {error}")
            return None
        some = BitMap(rows)
        # 4.0.0 keeps the old values of updated rows when it puts segments together
        exact = some if segment.kind.exact and by_address else BitMap()
        return RowSet(rows=rows, skipped=covered - some, exact=exact)

    def _covered(self, segment: Segment) -> BitMap:
        return covered_now(segment.index, self.reuse) & self._live

    def _check(self, rows: Rows) -> None:
        for id_, found in rows.items():
            fragment = self.snapshot.fragment(id_)
            if fragment is not None and found.max() >= fragment.physical_rows:
                raise CorruptFileError(
                    f"it finds row {found.max()} of fragment {id_}, which has "
                    f"{fragment.physical_rows}"
                )

    def _of_ids(self, rows: Rows, covered: BitMap) -> Iterator[tuple[int, BitMap]]:
        """Yield the rows with some ids by the fragments that hold them."""
        ids = joined(rows)
        if not len(ids):
            return
        sources = fragment_sources(self.snapshot)
        for place in sources.with_row_ids(ids).tolist():
            source = sources[place]
            if source.fragment.id in covered:
                known = FragmentReader(source).stable_ids
                if known is not None:
                    offsets = known.find(ids)
                    yield source.fragment.id, to_bitmap(offsets[offsets >= 0])

    @cached_property
    def _live(self) -> BitMap:
        return BitMap(self.snapshot.manifest.fragments.ids.tolist())


def _pays(rows: int, of: int, exact: bool) -> bool:
    """Return whether to read some rows of a fragment takes less than to read and filter all."""
    return rows <= max(_MOST_EXACT if exact else _FEW, of * _SHARE)


def row_lookup(
    snapshot: Snapshot, predicate: Predicate | None, *, indexed_only: bool = False
) -> IndexLookup | None:
    """Return what asks the indices of a version, ``None`` if there is none to ask.

    Nothing but the manifest is looked at.
    """
    if predicate is None or not snapshot.indices:
        return None

    def make_query() -> IndexQuery | None:
        from lancekit._scan.index_queries import index_query_of  # loads the kernels

        return index_query_of(predicate)

    stored = predicate.stored_in(snapshot.manifest.schema)
    return lookup_of(snapshot, stored, make_query, indexed_only=indexed_only)


def lookup_of(
    snapshot: Snapshot,
    columns: Iterable[str],
    make_query: Callable[[], IndexQuery | None],
    *,
    exact: bool = False,
    indexed_only: bool = False,
    schema: LanceSchema | None = None,
) -> IndexLookup | None:
    """Return what asks the indices of some columns, ``None`` if there is none to ask.

    columns: names or paths.
    make_query: makes what they are asked.
    exact: whether only those are that tell rows, and no ranges of them.
    schema: what the columns are called in; by default the version's.
    """
    schema = schema or snapshot.manifest.schema
    segments: dict[str, tuple[Segment, ...]] = {}
    for column in sorted(columns):
        usable = tuple(
            segment
            for segment in _usable(snapshot, find_field(schema, column)[-1].id)
            if segment.kind.exact or not exact
        )
        if usable:
            segments[column] = usable
    if not segments:
        return None
    moved, reuse = fragment_reuse_of(snapshot.indices), None
    if moved is not None:
        try:
            reuse = reuse_of(snapshot)
        except (LancekitError, OSError) as error:
            tell_unused(moved, f"cannot be read, without which no other can: {error}")
            return None
    return IndexLookup(
        snapshot=snapshot,
        make_query=make_query,
        segments=segments,
        reuse=reuse,
        indexed_only=indexed_only,
    )


def _usable(snapshot: Snapshot, field_id: int) -> Iterator[Segment]:
    for index in snapshot.indices:
        kind: IndexKind | None = kind_of(index) if index.fields == (field_id,) else None
        if kind is None or kind.name not in REGISTRY or not index.fragment_ids:
            continue
        if not is_known(index, kind):
            continue
        store = snapshot.base_store(index.base_id)
        yield Segment(index, kind, store, snapshot.location.open_files)
