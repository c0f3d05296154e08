"""Which rows a segment names: those that it still covers, by ids or by addresses."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit.format import row_address
from lancekit.format.index import IndexMetadata
from lancekit.index.build.column import Mask, RowMap
from lancekit.index.kinds import IndexKind
from lancekit.index.search.reuse import found_reuse
from lancekit.scan.fragments.reader import FragmentReader
from lancekit.scan.fragments.source import FragmentSource, fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = [
    "covered_fragments",
    "covered_rows",
    "in_fragments",
    "live_addresses",
    "live_fragments",
    "looked_up",
    "one_after_the_other",
]

Words = npt.NDArray[np.uint64]


def covered_fragments(index: IndexMetadata, snapshot: Snapshot) -> BitMap | None:
    """Return the fragments that a segment covers, by the ids that they have in a version.

    Fragments that are gone are among them; ``None`` if it does not say which.
    """
    covered = index.fragment_ids
    reuse = found_reuse(snapshot) if covered else None
    return covered if reuse is None or covered is None else reuse.covered(covered)


def live_fragments(index: IndexMetadata, snapshot: Snapshot) -> list[int]:
    """Return the fragments of a version that a segment covers; none if it does not say which."""
    covered = covered_fragments(index, snapshot) or BitMap()
    return [int(id_) for id_ in snapshot.manifest.fragments.ids if int(id_) in covered]


def live_addresses(source: FragmentSource) -> tuple[FragmentReader, npt.NDArray[np.int64], Words]:
    """Return a fragment's rows that are not deleted: their offsets and their addresses."""
    reader = FragmentReader(source)
    rows = np.arange(reader.physical_rows) if reader.live is None else reader.live
    return reader, rows, reader.addresses(rows)


def covered_rows(index: IndexMetadata, kind: IndexKind, snapshot: Snapshot) -> RowMap:
    """Return what keeps the rows of a segment that it still answers for, named as new ones are.

    A row that was updated may keep its id, and is in a fragment that the segment does not cover.
    """
    covered = live_fragments(index, snapshot)
    stable = snapshot.manifest.has_stable_row_ids
    if kind.has_addresses(kind.written, stable):
        reuse = found_reuse(snapshot)
        there = in_fragments(covered)
        return there if reuse is None else one_after_the_other(reuse.moved, there)
    by_address = kind.has_addresses(index.index_version, stable)
    wanted = set(covered)
    old, ids = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for source in fragment_sources(snapshot):
        if source.fragment.id in wanted:
            reader, rows, addresses = live_addresses(source)
            ids.append(reader.row_ids(rows))
            old.append(addresses if by_address else ids[-1])
    return looked_up(np.concatenate(old), np.concatenate(ids))


def one_after_the_other(first: RowMap, second: RowMap) -> RowMap:
    """Return what tells where rows are that moved twice."""

    def follow(rows: Words) -> tuple[Words, Mask]:
        rows, there = first(rows)
        rows, still = second(rows)
        return rows, there & still

    return follow


def in_fragments(fragments: Collection[int]) -> RowMap:
    """Return what keeps the addresses in some fragments."""
    known = np.array(sorted(fragments), np.uint64)

    def keep(rows: Words) -> tuple[Words, Mask]:
        return rows, np.isin(row_address.fragment_ids(rows), known)

    return keep


def looked_up(old: Words, new: Words, others: Sequence[int] | None = None) -> RowMap:
    """Return what gives rows that are in one array what is at their places in the other.

    Rows in neither are dropped, but for addresses in fragments other than `others`.
    """
    order = np.argsort(old)
    old, new = old[order], new[order]
    moved = None if others is None else np.array(sorted(others), np.uint64)

    def find(rows: Words) -> tuple[Words, Mask]:
        places = np.searchsorted(old, rows)
        places[places == len(old)] = 0
        known = old[places] == rows if len(old) else np.zeros(len(rows), bool)
        found = np.where(known, new[places], rows) if len(old) else rows
        if moved is None:
            return found, known
        return found, known | ~np.isin(row_address.fragment_ids(rows), moved)

    return find
