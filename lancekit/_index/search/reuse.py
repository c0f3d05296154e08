"""Conversion of row addresses from before compactions that did not rewrite the indices.

See docs/format/indices.md, 15.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit._cache import remembered
from lancekit._format import row_address
from lancekit._format.fragment_reuse import ReuseGroup, external_name, parse_fragment_reuse
from lancekit._format.index import IndexMetadata, fragment_reuse_of
from lancekit._format.names import INDICES
from lancekit._index.row_sets import Rows, SetForm, decoded_set, joined, rows_of, union
from lancekit._lazy import cached_property
from lancekit._legible import warn
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, LancekitError

Addresses = npt.NDArray[np.uint64]

#: larger files are not read
_MOST_BYTES = 1 << 30
#: the name of these entries in cache statistics
_KIND = "indices"
#: bytes of a row's old and new address
_PAIR_BYTES = 16


@dataclass(frozen=True)
class _Step:
    """One group of fragments that a compaction merged."""

    group: ReuseGroup

    @cached_property
    def _address_pairs(self) -> tuple[Addresses, Addresses]:
        """The old addresses of surviving rows, ascending, and their new addresses."""
        old = decoded_set(self.group.survivors, SetForm.PLAIN)
        new = [
            row_address.addresses(id_, np.arange(n, dtype=np.uint64)) for id_, n in self.group.new
        ]
        targets = np.concatenate([*new, np.empty(0, np.uint64)])
        if len(targets) != len(old):
            raise CorruptFileError(
                f"Fragments {self.group.old} kept {len(old)} rows, but {len(targets)} were written."
            )
        # rows are in the order of the listed fragments, which need not ascend
        parts = {
            id_: np.flatnonzero(row_address.fragment_ids(old) == id_) for id_ in self.group.old
        }
        order = np.concatenate([*parts.values(), np.empty(0, np.int64)])
        if len(order) != len(old):
            raise CorruptFileError(
                f"The compaction of fragments {self.group.old} lists rows of other fragments."
            )
        found = np.empty(len(old), np.uint64)
        found[order] = targets
        return old, found

    def covered(self, fragments: BitMap) -> BitMap:
        """Return the covered fragments; new ones are covered only if all old ones were."""
        old = BitMap(self.group.old)
        if not old & fragments:
            return fragments
        return fragments - old | BitMap(id_ for id_, _ in self.group.new if old <= fragments)

    def moved(self, rows: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        """Return current row addresses, and a mask of the rows that still exist."""
        mine = np.isin(row_address.fragment_ids(rows), np.array(self.group.old, np.uint64))
        if not mine.any():
            return rows, np.ones(len(rows), bool)
        old, new = self._address_pairs
        places = np.searchsorted(old, rows)
        there = ~mine
        inside = mine & (places < len(old))
        there[inside] = old[places[inside]] == rows[inside]
        moved = rows.copy()
        mine &= there
        moved[mine] = new[places[mine]]
        return moved, there

    def rows(self, rows: Rows) -> Rows:
        """Return the current addresses of a row set; deleted rows are left out."""
        moved = {id_: rows[id_] for id_ in self.group.old if id_ in rows}
        if not moved:
            return rows
        kept = {id_: found for id_, found in rows.items() if id_ not in moved}
        addresses = joined(moved)
        old, new = self._address_pairs
        places = np.searchsorted(old, addresses)
        inside = places < len(old)
        inside[inside] = old[places[inside]] == addresses[inside]
        none = {id_: BitMap() for id_, _ in self.group.new}  # listed even if empty
        return union([kept, none, rows_of(new[places[inside]])])


class Reuse:
    """The changes of fragment ids and row addresses by compactions, in order."""

    def __init__(self, groups: Iterable[ReuseGroup]) -> None:
        self._steps = [_Step(group) for group in groups]

    @property
    def groups(self) -> tuple[ReuseGroup, ...]:
        """The compactions, the oldest first."""
        return tuple(step.group for step in self._steps)

    def behind(self, index: IndexMetadata) -> tuple[ReuseGroup, ...]:
        """Return the compactions for which a segment may still have old row addresses.

        Its fragment ids may already be updated while its addresses are not.
        """
        covered = index.fragment_ids
        if covered is None:
            return self.groups
        return tuple(
            group
            for group in self.groups
            if not covered.isdisjoint(BitMap(group.old))
            or (
                index.dataset_version <= group.version
                and not self.covered(covered).isdisjoint(
                    self.covered(BitMap(id_ for id_, _ in group.new))
                )
            )
        )

    def moved(self, rows: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        """Return current row addresses, and a mask of the rows that still exist."""
        kept = np.ones(len(rows), bool)
        for step in self._steps:
            rows, there = step.moved(rows)
            kept &= there
        return rows, kept

    def covered(self, fragments: BitMap) -> BitMap:
        """Return the fragments that an index covers now, given those that it was built for."""
        for step in self._steps:
            fragments = step.covered(fragments)
        return fragments

    def rows(self, rows: Rows) -> Rows:
        """Return the current addresses of a row set of an index.

        Raises CorruptFileError: the new address of a row is missing.
        """
        for step in self._steps:
            rows = step.rows(rows)
        return rows


class _UnreadableReuse(Reuse):
    """A stand-in for unreadable compactions: it locates no row of an older index."""

    def __init__(self, entry: IndexMetadata) -> None:
        last = entry.dataset_version
        super().__init__([ReuseGroup(version=last, old_digests=(), new_digests=(), survivors=b"")])

    def behind(self, index: IndexMetadata) -> tuple[ReuseGroup, ...]:
        """Return the stand-in for all compactions, unless a segment is newer than the last one."""
        return tuple(group for group in self.groups if index.dataset_version <= group.version)

    def moved(self, rows: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        """Return a mask that is all False: no row can be located."""
        return rows, np.zeros(len(rows), bool)

    def covered(self, fragments: BitMap) -> BitMap:
        """Return an empty set: no fragment is known to be covered."""
        return fragments - fragments


def covered_now(index: IndexMetadata, reuse: Reuse | None) -> BitMap:
    """Return the current ids of the fragments that a segment covers; some may no longer exist."""
    covered = index.fragment_ids or BitMap()
    return covered if reuse is None else reuse.covered(covered)


def found_reuse(snapshot: Snapshot) -> Reuse | None:
    """Return the compactions as `reuse_of` does, but warn instead of raising an error.

    The result then locates no row.
    """
    entry = fragment_reuse_of(snapshot.indices)
    if entry is None:
        return None
    try:
        return _read(entry, snapshot)
    except (LancekitError, OSError) as error:
        warn(
            f"Index {entry.name!r} cannot be read. No index of this table is used until "
            f"optimize_indices() rebuilds them: {error}"
        )
        return _UnreadableReuse(entry)


def reuse_of(snapshot: Snapshot) -> Reuse | None:
    """Return the compactions that moved indexed rows, ``None`` if all indices are up to date.

    Raises LancekitError, OSError: they cannot be read.
    """
    entry = fragment_reuse_of(snapshot.indices)
    return None if entry is None else _read(entry, snapshot)


def _read(entry: IndexMetadata, snapshot: Snapshot) -> Reuse:
    details, store = entry.index_details, snapshot.base_store(entry.base_id)
    name = _file_of(entry.name, details)
    path = None if name is None else f"{INDICES}/{entry.uuid}/{name}"
    known = None if path is None else store.identity(path)

    def read() -> Reuse:
        content = None if path is None else bytes(store.read(path, _MOST_BYTES))
        return Reuse(parse_fragment_reuse(entry.name, details, content))

    # without a separate file, the details alone identify the compactions
    key = (details, known) if path is None or known is not None else None
    return remembered(_KIND, key, read, _held_bytes)


_file_of = lru_cache(maxsize=8)(external_name)


def _held_bytes(reuse: Reuse) -> int:
    """Return about how many bytes compactions take, with the addresses that are computed later."""
    return sum(
        len(group.survivors) + _PAIR_BYTES * sum(rows for _, rows in group.new)
        for group in reuse.groups
    )
