"""Descriptions, statistics and coverage of indices, from manifests and index files."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyroaring import BitMap

from lancekit._display import Displayed
from lancekit._format.index import IndexMetadata
from lancekit._format.items import Items, Numbers
from lancekit._format.paths import paths_by_id
from lancekit._index.build.builders import builder_of
from lancekit._index.build.read import OpenSegment
from lancekit._index.inverted.segment import open_partitions, params_of
from lancekit._index.inverted.settings import parse_settings
from lancekit._index.kinds import (
    BITMAP,
    BLOOM_FILTER,
    BTREE,
    INVERTED,
    LABEL_LIST,
    NGRAM,
    VECTORS,
    ZONE_MAP,
    kept_up_as,
    kind_of,
)
from lancekit._index.segment import Segment
from lancekit._lazy import cached_property
from lancekit._operations.index.create import segments_of
from lancekit._operations.index.segments import (
    covered_fragments,
    live_fragments,
    opened_segment,
    target_of,
)
from lancekit._operations.index.vectors import vector_statistics
from lancekit._versions.listing import VersionListing, list_versions
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import LancekitError


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSegmentDescription:
    """A segment of an index, as the manifest describes it.

    `fragment_ids` are the indexed fragments, including fragments that no longer exist.  Fragments
    that a compaction with ``defer_index_remap=True`` replaced are given as the new ones.
    """

    uuid: str
    fragment_ids: BitMap
    dataset_version_at_last_update: int
    index_version: int
    created_at: datetime | None
    size_bytes: int | None
    base_id: int | None
    covering_fields: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDescription(Displayed):
    """An index, as the manifest describes it.

    Attributes
    ----------
    num_rows_indexed
        The live rows of the fragments that the index covers.
    fields, field_names
        The ids of the indexed columns, and their paths.
    details
        The parameters of a vector or full-text index, named as in pylance; empty for other kinds.
        Stop words are left out: the manifest does not store the words.
    total_size_bytes
        ``None`` if the manifest lacks the size of a segment.
    """

    name: str
    type_url: str
    index_type: str
    num_rows_indexed: int
    fields: tuple[int, ...]
    field_names: tuple[str, ...]
    segments: tuple[IndexSegmentDescription, ...]
    details: dict[str, Any]
    total_size_bytes: int | None


def describe_indices(snapshot: Snapshot) -> list[IndexDescription]:
    """Describe the indices of a version, by their names; no file is read."""
    return [
        _described(snapshot, [index for index in snapshot.indices if index.name == name])
        for name in sorted({index.name for index in snapshot.indices})
    ]


def _described(snapshot: Snapshot, segments: list[IndexMetadata]) -> IndexDescription:
    first, paths = segments[0], paths_by_id(snapshot.manifest.schema)
    found = Items(
        IndexSegmentDescription(
            uuid=str(index.uuid),
            fragment_ids=Numbers(covered_fragments(index, snapshot) or ()),
            dataset_version_at_last_update=index.dataset_version,
            index_version=index.index_version or 0,
            created_at=index.created_at,
            size_bytes=sum(file.size_bytes for file in index.files) if index.files else None,
            base_id=index.base_id,
            covering_fields=index.covering_fields,
        )
        for index in segments
    )
    sizes = [segment.size_bytes for segment in found if segment.size_bytes is not None]
    return IndexDescription(
        name=first.name,
        type_url=first.type_url,
        index_type=first.kind,
        num_rows_indexed=_rows(snapshot, _covered(snapshot, segments)),
        fields=first.fields,
        field_names=Items(paths.get(id_, f"field {id_}") for id_ in first.fields),
        segments=found,
        details=first.parameters,
        total_size_bytes=sum(sizes) if len(sizes) == len(found) else None,
    )


def _covered(snapshot: Snapshot, segments: list[IndexMetadata]) -> set[int]:
    return {id_ for index in segments for id_ in live_fragments(index, snapshot)}


def _rows(snapshot: Snapshot, fragments: set[int]) -> int:
    return sum(f.num_rows for f in snapshot.manifest.fragments if f.id in fragments)


def _type(index: IndexMetadata) -> str:
    """Return the type of a segment's index; without details, the type that its files show."""
    kind = kept_up_as(index) if index.index_details is None else None
    return index.kind if kind is None else kind.label


def index_statistics(snapshot: Snapshot, name: str) -> dict[str, object]:
    """Return statistics of an index: its coverage, and counts from its files.

    Raises IndexNotFoundError: no index has the name.
    Raises FormatError: a file of the index cannot be read.
    """
    segments = list(segments_of(snapshot, name))
    covered = _covered(snapshot, segments)
    parts = [_in_files(snapshot, index) for index in segments]
    fragments, rows = len(snapshot.manifest.fragments), snapshot.manifest.num_rows
    indexed = _rows(snapshot, covered)
    times = [index.created_at for index in segments if index.created_at is not None]
    return {
        "index_type": _type(segments[0]),
        "name": name,
        "num_indices": len(segments),
        "num_segments": len(segments),
        "indices": parts,
        "segments": parts,
        "num_indexed_fragments": len(covered),
        "num_indexed_rows": indexed,
        "num_unindexed_fragments": fragments - len(covered),
        "num_unindexed_rows": rows - indexed,
        "num_indexed_rows_per_delta": [
            _rows(snapshot, set(live_fragments(index, snapshot))) for index in segments
        ],
        "updated_at_timestamp_ms": int(max(times).timestamp() * 1000) if times else None,
    }


def _in_files(snapshot: Snapshot, index: IndexMetadata) -> dict[str, object]:
    if VECTORS.describes(index):
        return vector_statistics(snapshot, index)
    kind = kind_of(index)
    if kind is None:
        store = snapshot.base_store(index.base_id)
        return _words(Segment(index, INVERTED, store)) if INVERTED.describes(index) else {}
    return _COUNTS[kind.name](opened_segment(target_of(snapshot, index, kind), index))


def _words(segment: Segment) -> dict[str, object]:
    text, where = params_of(segment.file("metadata.lance"))
    parse_settings(text, where)
    partitions = open_partitions(segment)
    return {
        "params": json.loads(text),
        "num_tokens": sum(one.postings_file.num_rows for one in partitions),
        "num_docs": sum(one.documents_file.num_rows for one in partitions),
    }


def _pages(found: OpenSegment) -> dict[str, object]:
    table = found.table("page_lookup.lance")
    ends = [table["min"][0], table["max"][len(table) - 1]] if len(table) else [None, None]
    texts = ["NULL" if end is None or not end.is_valid else str(end.as_py()) for end in ends]
    return {"min": texts[0], "max": texts[1], "num_pages": len(table)}


def _rows_of_file(key: str) -> Callable[[OpenSegment], dict[str, object]]:
    return lambda found: {key: next(iter(found.files.values())).num_rows}


def _zones(found: OpenSegment) -> dict[str, object]:
    return {**_rows_of_file("num_zones")(found), **builder_of(ZONE_MAP).read(found).parameters}


def _filters(found: OpenSegment) -> dict[str, object]:
    return {
        "type": BLOOM_FILTER.label,
        **_rows_of_file("num_blocks")(found),
        **builder_of(BLOOM_FILTER).read(found).parameters,
    }


_COUNTS: Mapping[str, Callable[[OpenSegment], dict[str, object]]] = {
    BTREE.name: _pages,
    BITMAP.name: _rows_of_file("num_bitmaps"),
    LABEL_LIST.name: _rows_of_file("num_bitmaps"),
    NGRAM.name: _rows_of_file("num_ngrams"),
    ZONE_MAP.name: _zones,
    BLOOM_FILTER.name: _filters,
}

# ---- rows that an index does not cover: since which version, and the call that adds them

#: The maximal number of versions to name: each takes a search among all versions.
_MOST_NAMED = 8

#: Types of indices to which lancekit adds no rows.
_NOT_KEPT_UP = ("IVF_HNSW", "IVF_RQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """Fragments that an index does not cover, and the version since which it does not.

    This version added the fragments, rewrote their values, or built the index of other fragments.
    `version`, `operation` and `timestamp` are ``None`` if the version was cleaned up, or was not
    searched for because there are too many.
    """

    fragments: tuple[int, ...]
    num_rows: int
    version: int | None = None
    operation: str | None = None
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCoverage(Displayed):
    """An index, and the fragments that it does not cover, the newest first.

    `mended_by` is the call that adds their rows to the index.  ``None`` if it covers all rows, or
    if lancekit adds no rows to this kind of index.
    """

    description: IndexDescription
    num_rows: int
    uncovered: tuple[Uncovered, ...]
    mended_by: str | None

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.description.name

    @property
    def share(self) -> float:
        """The share of the table's rows that the index covers."""
        return self.description.num_rows_indexed / self.num_rows if self.num_rows else 1.0


def index_coverage(snapshot: Snapshot) -> list[IndexCoverage]:
    """Return the coverage of each index of a version, by name, without the format's own entries.

    This reads manifests of some earlier versions, and no index files.
    """
    history = _History(snapshot)
    return [
        _coverage(snapshot, description, history)
        for description in describe_indices(snapshot)
        if not description.name.startswith("__lance_")
    ]


def _coverage(
    snapshot: Snapshot, description: IndexDescription, history: _History
) -> IndexCoverage:
    name, rows = description.name, _uncovered(snapshot, description.name)
    kind, label = kept_up_as(segments_of(snapshot, name)[0]), description.index_type
    can_mend = kind is not None and not label.startswith(_NOT_KEPT_UP)
    return IndexCoverage(
        description=description,
        num_rows=snapshot.manifest.num_rows,
        uncovered=tuple(_grouped(name, rows, history)),
        mended_by=f"ds.optimize.optimize_indices(index_names=[{name!r}])"
        if rows and can_mend
        else None,
    )


def _uncovered(snapshot: Snapshot, name: str) -> dict[int, int]:
    """Return the row counts of fragments that an index does not cover; empty without the index."""
    segments = [index for index in snapshot.indices if index.name == name]
    covered = {id_ for index in segments for id_ in live_fragments(index, snapshot)}
    fragments = snapshot.manifest.fragments if segments else ()
    return {f.id: f.num_rows for f in fragments if f.id not in covered}


def _grouped(name: str, rows: dict[int, int], history: _History) -> Iterator[Uncovered]:
    """Yield uncovered fragments, grouped by the version since which they are; unknown ones last."""
    rest = dict(sorted(rows.items(), reverse=True))
    found: dict[int, list[int]] = {}
    unknown: list[int] = []
    while rest and len(found) < _MOST_NAMED:
        first = next(iter(rest))
        place = history.since(name, first)
        if place is None:
            unknown.append(first)
            del rest[first]
            continue
        since = history.uncovered(name, place).keys() - history.uncovered(name, place - 1).keys()
        found[place] = [id_ for id_ in rest if id_ in since]
        rest = {id_: count for id_, count in rest.items() if id_ not in since}
    for place, ids in sorted(found.items(), reverse=True):
        version = history.load(place)
        transaction = version.transaction_summary
        yield Uncovered(
            fragments=tuple(sorted(ids)),
            num_rows=sum(rows[id_] for id_ in ids),
            version=version.manifest.version,
            operation=transaction.operation if transaction else None,
            timestamp=version.manifest.timestamp,
        )
    if unknown or rest:
        ids = sorted([*unknown, *rest])
        yield Uncovered(fragments=tuple(ids), num_rows=sum(rows[id_] for id_ in ids))


class _History:
    """Coverage of indices in a version and earlier ones, by position; loaded when needed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[tuple[str, int], dict[int, int]] = {}

    @cached_property
    def _listing(self) -> VersionListing:
        return list_versions(self._snapshot.location)

    @cached_property
    def _numbers(self) -> list[int]:
        return [v for v in self._listing.versions if v <= self._snapshot.version]

    def load(self, place: int) -> Snapshot:
        """Return the version at a position."""
        return load_snapshot(self._snapshot.location, self._numbers[place], self._listing.naming)

    def uncovered(self, name: str, place: int) -> dict[int, int]:
        """Return the row counts of fragments that an index does not cover at a position."""
        key = name, place
        if key not in self._known:
            self._known[key] = _uncovered(self.load(place), name)
        return self._known[key]

    def since(self, name: str, fragment: int) -> int | None:
        """Return the position since which a fragment is uncovered; ``None`` if always, or unknown.

        No fragment joins an index after its newest segment, so the search starts there.  It goes
        back in doubling steps: an earlier uncovered stretch must not count as part of this one.
        """
        with suppress(LancekitError):  # a version that is damaged, or was removed meanwhile
            after, step = len(self._numbers) - 1, max(1, len(self._numbers) - 1 - self._built(name))
            while (before := after - step) >= 0 and fragment in self.uncovered(name, before):
                step = 1 if after == len(self._numbers) - 1 else 2 * step
                after = before
            places = range(max(before, -1) + 1, after)
            place = places.start
            place += bisect_left(places, True, key=lambda at: fragment in self.uncovered(name, at))
            return place or None
        return None

    def _built(self, name: str) -> int:
        """Return the position of the version that committed the newest segment."""
        times = [index.created_at for index in self._snapshot.indices if index.name == name]
        newest = max((time for time in times if time is not None), default=None)
        if newest is None:
            return len(self._numbers)
        places = range(len(self._numbers))
        return bisect_left(places, newest, key=lambda at: self.load(at).manifest.timestamp)
