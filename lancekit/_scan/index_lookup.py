"""Lookup of a filter's rows in scalar indices."""

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
from lancekit._scan.unused_indices import is_supported, warn_unused
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, LancekitError

#: up to this share of a fragment's rows, reading single rows is no slower than reading and
#: filtering the whole fragment, wherever the rows are and whatever columns are requested
_SHARE = 1 / 2
#: up to this many matched rows are always read alone: of an inexact index, and of an exact one
_FEW, _MOST_EXACT = 1024, 1 << 24


@dataclass(frozen=True, kw_only=True)
class IndexLookup:
    """A query of a version's scalar indices that runs when its rows are first needed.

    snapshot: the version.
    make_query: makes the index query, or returns ``None`` if no condition bounds the rows.
    segments: usable index segments, by column.
    reuse: maps rows that compactions moved without rewriting the indices.
    indexed_only: whether to leave out rows that no index covers, and use indices even if slower.
    others: lookups in external tables of one fragment each, by their fragment id in this table.
    filtered: whether to filter all matched rows again, even if an index is exact.
    """

    snapshot: Snapshot
    make_query: Callable[[], IndexQuery | None]
    segments: Mapping[str, tuple[Segment, ...]]
    reuse: Reuse | None = None
    indexed_only: bool = False
    others: Mapping[int, IndexLookup] = field(default_factory=dict)
    filtered: bool = False

    def describe(self) -> str:
        """Describe the indices and their columns; reads nothing."""
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
        """The number of rows of all fragments that an index covers, even if it is not used."""
        segments = chain.from_iterable(self.segments.values())
        covered = BitMap.union(BitMap(), *map(self._covered, segments))
        fragments = self.snapshot.manifest.fragments
        known = np.isin(fragments.ids, to_offsets(covered))
        return int(np.asarray(fragments.num_rows)[known].sum())

    @cached_property
    def found(self) -> RowSet:
        """The rows that the indices match; empty if no index can answer the query."""
        query = self.make_query()
        found = None if query is None else self._query_rows(query)
        return RowSet() if found is None else found

    @cached_property
    def rows(self) -> RowSet:
        """The rows to read: matched rows where reading them alone pays, else whole fragments."""
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
        """Return True if the matched rows of a fragment are read alone, not the whole fragment."""
        fragment = self.snapshot.fragment(fragment_id)
        if fragment is None or self.indexed_only:
            return fragment is not None
        most = _MOST_EXACT if fragment_id in self.found.exact else _FEW
        return count <= max(most, fragment.physical_rows * _SHARE)

    def _query_rows(self, query: IndexQuery) -> RowSet | None:
        if isinstance(query, ColumnCondition):
            return self._query_column(query)
        known = [found for part in query.parts if (found := self._query_rows(part)) is not None]
        if not known or (len(known) < len(query.parts) and not query.all_of):
            return None
        found = reduce(and_ if query.all_of else or_, known)
        whole = query.whole and len(known) == len(query.parts)
        return found if whole else found.inexact()

    def _query_column(self, condition: ColumnCondition) -> RowSet | None:
        """Query all indices of a column, exact ones first, until every fragment is covered."""
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
        """Search a segment; return its rows by fragment, ``None`` if it cannot help."""
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
                # 4.0.0 lists fragments of moved rows as covered, but makes no zones for them
                covered &= BitMap(rows.keys())
            rows = {id_: found for id_, found in rows.items() if found and id_ in covered}
            self._check(rows)
        except (LancekitError, OSError) as error:
            warn_unused(segment.index, f"cannot be read: {error}")
            return None
        some = BitMap(rows)
        # 4.0.0 keeps the old values of updated rows when it merges segments
        exact = some if segment.kind.exact and by_address else BitMap()
        return RowSet(rows=rows, skipped=covered - some, exact=exact)

    def _covered(self, segment: Segment) -> BitMap:
        return covered_now(segment.index, self.reuse) & self._live

    def _check(self, rows: Rows) -> None:
        for id_, found in rows.items():
            fragment = self.snapshot.fragment(id_)
            if fragment is not None and found.max() >= fragment.physical_rows:
                raise CorruptFileError(
                    f"it returns row {found.max()} of fragment {id_}, which has "
                    f"{fragment.physical_rows}"
                )

    def _of_ids(self, rows: Rows, covered: BitMap) -> Iterator[tuple[int, BitMap]]:
        """Yield the offsets of stable row ids, by fragment."""
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


def row_lookup(
    snapshot: Snapshot, predicate: Predicate | None, *, indexed_only: bool = False
) -> IndexLookup | None:
    """Return the index lookup of a filter; ``None`` if no index can answer it.

    Only the manifest and the fragment-reuse index, if any, are read.
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
    """Return the index lookup of some columns; ``None`` if they have no usable index.

    columns: names or paths.
    make_query: makes the index query.
    exact: whether to use only exact indices.
    schema: the schema of `columns`, by default the version's.
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
            warn_unused(moved, f"cannot be read, and other indices need it: {error}")
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
        if not is_supported(index, kind):
            continue
        store = snapshot.base_store(index.base_id)
        yield Segment(index, kind, store, snapshot.location.open_files)
