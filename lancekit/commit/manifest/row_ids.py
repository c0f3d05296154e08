"""Row ids and row versions of the fragments that a commit writes.

See docs/format/table.md, 5.3 and 5.4.

Ids are given out here, when a manifest is built, and never sooner: a commit that lost a race
builds again, on a newer counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from lancekit.errors import CorruptFileError, InvalidArgumentError
from lancekit.format.external_sequences import without_external
from lancekit.format.fragment import Fragment, FragmentList
from lancekit.format.row_ids import (
    U64Array,
    count_row_ids,
    parse_row_ids,
    read_row_ids,
    read_row_versions,
)
from lancekit.format.row_ids_encode import (
    append_row_ids,
    encode_row_ids,
    encode_row_versions,
    uniform_versions,
)

__all__ = [
    "RowCounter",
    "Sequences",
    "all_new",
    "all_updated",
    "inline",
    "is_complete",
    "moved_or_new",
    "updated_at",
]

#: returns the encoded row ids or row versions of a fragment, wherever they are stored
Sequences: TypeAlias = Callable[[Fragment, str], bytes | None]

_MOST_IDS = (1 << 64) - 1


def inline(fragment: Fragment, name: str) -> bytes | None:
    """Return a sequence of a fragment that is in the manifest."""
    found: bytes | None = getattr(fragment, name)
    return found


class RowCounter:
    """Gives out row ids; `next_row_id` is the first one that is free."""

    def __init__(self, next_row_id: int) -> None:
        self.next_row_id = next_row_id

    def complete(self, fragment: Fragment) -> Fragment:
        """Return the fragment with an id for each row: those it has, then fresh ones."""
        given = _given(fragment)
        missing = fragment.physical_rows - given
        if missing < 0:
            raise InvalidArgumentError(
                f"A fragment of {fragment.physical_rows} rows came with {given} row ids.",
                hint="Leave the row ids of new rows out; they are given out by the commit.",
            )
        if missing == 0 and fragment.row_ids is not None:
            return fragment
        fresh = range(self.next_row_id, self.next_row_id + missing)
        if fresh.stop > _MOST_IDS:
            raise CorruptFileError(
                f"The table has no row ids left: the next one is {self.next_row_id}.",
                hint="If it is not that old, its latest manifest is damaged: restore an earlier "
                "version, or write the rows to a new table.",
                next_row_id=self.next_row_id,
            )
        self.next_row_id = fresh.stop
        ids = fragment.row_ids
        encoded = encode_row_ids(fresh) if ids is None else append_row_ids(ids, fresh, "it")
        return replace(fragment, row_ids=encoded)


def _given(fragment: Fragment) -> int:
    return 0 if fragment.row_ids is None else count_row_ids(fragment.row_ids, "a new fragment")


def is_complete(fragment: Fragment) -> bool:
    """Return whether a fragment has the ids of all its rows: all were moved, none is new."""
    return fragment.row_ids is not None and _given(fragment) == fragment.physical_rows


def all_new(
    fragments: Iterable[Fragment], counter: RowCounter, version: int
) -> tuple[Fragment, ...]:
    """Return fragments whose rows were all written by ``version``."""
    return tuple(
        replace(
            counter.complete(fragment),
            created_at=(at := uniform_versions(fragment.physical_rows, version)),
            last_updated_at=at,
        )
        for fragment in fragments
    )


def all_updated(fragment: Fragment, version: int) -> Fragment:
    """Return a fragment of which a value of every row was changed by ``version``."""
    without = without_external(fragment, "last_updated_at")
    return replace(without, last_updated_at=uniform_versions(fragment.physical_rows, version))


def updated_at(
    fragment: Fragment, rows: Iterable[int], version: int, sequences: Sequences
) -> Fragment:
    """Return a fragment of which ``version`` changed values of some rows, by offset."""
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
    """Return fragments of moved rows, which carry their ids, and of new rows behind them.

    A moved row keeps the version that created it, a new one was created by ``version``; all were
    updated by it.  A row that comes back has that version in its fragment.

    Parameters
    ----------
    old
        The fragments before the commit.
    touched
        The ids of those that rows were moved from.
    sequences
        Reads row ids and row versions of old fragments.
    """
    given = [
        np.empty(0, np.uint64)
        if f.row_ids is None
        else parse_row_ids(f.row_ids, _given(f), "a new fragment")
        for f in fragments
    ]
    wanted = np.unique(np.concatenate([*given, np.empty(0, np.uint64)]))
    created = _created_at(wanted, old, touched, version, sequences)
    out = []
    for fragment, ids in zip(fragments, given, strict=True):
        moved = created[np.searchsorted(wanted, ids)]
        if fragment.created_at is not None:
            known = read_row_versions(fragment.created_at, len(ids), "a new fragment").values()
            moved = np.where((moved == version) & (known > 0), known, moved)
        fresh = np.full(max(fragment.physical_rows - len(ids), 0), version, np.uint64)
        out.append(
            replace(
                counter.complete(fragment),
                created_at=encode_row_versions(np.concatenate([moved, fresh])),
                last_updated_at=uniform_versions(fragment.physical_rows, version),
            )
        )
    return tuple(out)


def _created_at(
    wanted: U64Array,
    old: FragmentList,
    touched: Iterable[int],
    version: int,
    sequences: Sequences,
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
        rows = read_row_ids(row_ids, fragment.physical_rows, where).find(wanted)
        here = np.flatnonzero(missing & (rows >= 0))
        if len(here):
            created = sequences(fragment, "created_at")
            versions = read_row_versions(created, fragment.physical_rows, where)
            out[here] = versions.at(rows[here])
            missing[here] = False
    return out


def _nearest_first(old: FragmentList, touched: Iterable[int]) -> Iterator[Fragment]:
    first = dict.fromkeys(touched)
    yield from filter(None, map(old.get, first))
    yield from (fragment for fragment in old if fragment.id not in first)
