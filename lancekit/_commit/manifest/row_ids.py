"""Row ids and row versions of the fragments that a commit writes.

See docs/format/table.md, 5.3 and 5.4.

Row ids are assigned only here, when a manifest is built.  A commit that lost a race builds again,
with a newer counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from lancekit._format.external_sequences import without_external
from lancekit._format.fragment import Fragment, FragmentList
from lancekit._format.row_ids import (
    RowVersions,
    U64Array,
    count_row_ids,
    parse_row_ids,
    read_row_ids,
    read_row_versions,
)
from lancekit._format.row_ids_encode import (
    append_row_ids,
    encode_row_ids,
    encode_row_versions,
    uniform_versions,
)
from lancekit.errors import CorruptFileError, InvalidArgumentError

#: returns the encoded row ids or row versions of a fragment, wherever they are stored
Sequences: TypeAlias = Callable[[Fragment, str], bytes | None]

_MOST_IDS = (1 << 64) - 1
#: ids that are looked up at the same time
_BLOCK = 1 << 16


def inline(fragment: Fragment, name: str) -> bytes | None:
    """Return a fragment's sequence from the manifest; ``None`` if it is not stored there."""
    found: bytes | None = getattr(fragment, name)
    return found


class RowCounter:
    """A counter that assigns row ids; `next_row_id` is the first free one."""

    def __init__(self, next_row_id: int) -> None:
        self.next_row_id = next_row_id

    def complete(self, fragment: Fragment) -> Fragment:
        """Return the fragment with an id for each row: its own ids, then new ones."""
        given = _given(fragment)
        missing = fragment.physical_rows - given
        if missing < 0:
            raise InvalidArgumentError(
                f"A fragment of {fragment.physical_rows} rows has {given} row ids.",
                hint="Leave out the row ids of new rows: the commit assigns them.",
            )
        if missing == 0 and fragment.row_ids is not None:
            return fragment
        fresh = range(self.next_row_id, self.next_row_id + missing)
        if fresh.stop > _MOST_IDS:
            raise CorruptFileError(
                f"The row ids of the table are exhausted: the next one is {self.next_row_id}.",
                hint="Unless the table is very old, its latest manifest is damaged: restore an "
                "earlier version, or write the rows to a new table.",
                next_row_id=self.next_row_id,
            )
        self.next_row_id = fresh.stop
        ids = fragment.row_ids
        encoded = encode_row_ids(fresh) if ids is None else append_row_ids(ids, fresh, "it")
        return replace(fragment, row_ids=encoded)


def _given(fragment: Fragment) -> int:
    return 0 if fragment.row_ids is None else count_row_ids(fragment.row_ids, "a new fragment")


def is_complete(fragment: Fragment) -> bool:
    """Return True if a fragment has ids for all rows, so that all were moved and none is new."""
    return fragment.row_ids is not None and _given(fragment) == fragment.physical_rows


def all_new(
    fragments: Iterable[Fragment], counter: RowCounter, version: int
) -> tuple[Fragment, ...]:
    """Return fragments whose rows were all created by ``version``."""
    return tuple(
        replace(
            counter.complete(fragment),
            created_at=(at := uniform_versions(fragment.physical_rows, version)),
            last_updated_at=at,
        )
        for fragment in fragments
    )


def all_updated(fragment: Fragment, version: int) -> Fragment:
    """Return a fragment whose rows were all updated by ``version``."""
    without = without_external(fragment, "last_updated_at")
    return replace(without, last_updated_at=uniform_versions(fragment.physical_rows, version))


def updated_at(
    fragment: Fragment, rows: Iterable[int], version: int, sequences: Sequences
) -> Fragment:
    """Return a fragment whose rows at some offsets were updated by ``version``."""
    encoded, where = sequences(fragment, "last_updated_at"), f"fragment {fragment.id}"
    versions = read_row_versions(encoded, fragment.physical_rows, where).values()
    versions[np.fromiter(rows, np.int64)] = version
    without = without_external(fragment, "last_updated_at")
    return replace(without, last_updated_at=encode_row_versions(versions))


def moved_or_new(
    fragments: Sequence[Fragment],
    counter: RowCounter,
    version: int,
    old: FragmentList,
    touched: Iterable[int],
    sequences: Sequences,
) -> tuple[Fragment, ...]:
    """Return fragments of moved rows, which have ids, followed by new rows, with all sequences.

    All rows were updated by ``version``.  A moved row keeps the version that created it; a new row
    was created by ``version``.  A deleted row that comes back is no longer in ``old``: the version
    that created it is in `created_at` of its new fragment.

    old: the fragments before the commit.
    touched: the ids of the fragments that rows were moved from, which are searched first.
    sequences: reads row ids and row versions of old fragments.
    """
    wanted = np.empty(sum(map(_given, fragments)), np.uint64)
    end = 0
    for fragment in fragments:
        ids = _ids_given(fragment)
        wanted[end : (end := end + len(ids))] = ids
    wanted.sort()
    created = _created_at(wanted, old, touched, version, sequences)
    out = []
    for fragment in fragments:
        ids = _ids_given(fragment)  # decoded again: the ids of all fragments need too much memory
        versions = np.full(max(fragment.physical_rows, len(ids)), version, np.uint64)
        for block in _blocks(0, len(ids)):
            versions[block] = created[np.searchsorted(wanted, ids[block])]
        if fragment.created_at is not None:
            moved = versions[: len(ids)]
            known = read_row_versions(fragment.created_at, len(ids), "a new fragment").values()
            np.copyto(moved, known, where=(moved == version) & (known > 0))
        del ids
        out.append(
            replace(
                counter.complete(fragment),
                created_at=encode_row_versions(versions),
                last_updated_at=uniform_versions(fragment.physical_rows, version),
            )
        )
    return tuple(out)


def _ids_given(fragment: Fragment) -> U64Array:
    """Return the row ids that a new fragment already has."""
    if fragment.row_ids is None:
        return np.empty(0, np.uint64)
    return parse_row_ids(fragment.row_ids, _given(fragment), "a new fragment")


def _blocks(start: int, stop: int) -> Iterator[slice]:
    """Yield the blocks of a range, which keep temporary arrays small."""
    for first in range(start, stop, _BLOCK):
        yield slice(first, min(first + _BLOCK, stop))


def _created_at(
    wanted: U64Array, old: FragmentList, touched: Iterable[int], version: int, sequences: Sequences
) -> U64Array:
    """Return the version that created each row; ``version`` for an id that no row has."""
    out = np.full(len(wanted), version, np.uint64)
    missing = np.ones(len(wanted), bool)
    for fragment in _nearest_first(old, touched):
        if not missing.any():
            break
        row_ids = sequences(fragment, "row_ids")
        if row_ids is None:
            continue
        where = f"fragment {fragment.id}"
        known = read_row_ids(row_ids, fragment.physical_rows, where)
        versions: RowVersions | None = None
        for block in _blocks(*known.between(wanted)):
            rows = known.find(wanted[block])
            here = np.flatnonzero(missing[block] & (rows >= 0))
            if len(here):
                versions = versions or read_row_versions(
                    sequences(fragment, "created_at"), fragment.physical_rows, where
                )
                out[block][here] = versions.at(rows[here])
                missing[block][here] = False
    return out


def _nearest_first(old: FragmentList, touched: Iterable[int]) -> Iterator[Fragment]:
    first = dict.fromkeys(touched)
    yield from filter(None, map(old.get, first))
    yield from (fragment for fragment in old if fragment.id not in first)
