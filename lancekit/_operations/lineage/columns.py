"""Which columns of two versions are the same, and which fragments they have alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from lancekit._commit.manifest.clone import with_bases
from lancekit._operations.lineage.rows import seen
from lancekit._pipeline.diff.column_identity import kept_columns
from lancekit._pipeline.diff.fragments import ColumnPair, fits_as, pair_columns
from lancekit._versions.ancestor import common_ancestor
from lancekit._versions.snapshot import Snapshot

__all__ = [
    "column_pairs",
    "fragments_apart",
    "ids_of_pairs",
    "pairs_of_sides",
    "pairs_since",
    "with_parts",
]


def column_pairs(old: Snapshot, new: Snapshot) -> list[ColumnPair]:
    """Return each column of a version with the one that it was in another."""
    return pairs_since(old, new, common_ancestor(old, new))


def pairs_since(old: Snapshot, new: Snapshot, ancestor: Snapshot | None) -> list[ColumnPair]:
    """Do the same where it is known from which version both come."""
    return pair_columns(seen(old), seen(new), *kept_columns(ancestor, old, new))


def pairs_of_sides(
    pairs: Sequence[tuple[Sequence[ColumnPair], Sequence[ColumnPair]]],
) -> list[ColumnPair]:
    """Return each column of one side with that of another, by way of the first version that can.

    ``pairs`` has, for each version, the columns of the other side, then those of this side, with
    those of the version.  Columns that neither has of it are the same if they have one name.
    """
    found = (_pairs_through(*both) for both in pairs)
    return [
        next((pair for pair in options if pair.old is not None), options[0])
        for options in zip(*found, strict=True)
    ]


def _pairs_through(to_old: Sequence[ColumnPair], to_new: Sequence[ColumnPair]) -> list[ColumnPair]:
    kept = {pair.old.name: pair.new for pair in to_old if pair.old is not None}
    added = {pair.name: pair.new for pair in to_old if pair.old is None}
    found = []
    for pair in to_new:
        match = added.get(pair.name) if pair.old is None else kept.get(pair.old.name)
        if match is not None and not fits_as(match, pair.new):
            match = None
        # the plan of columns tells parts of structs
        found.append(replace(pair, old=match, parts=()))
    return found


def fragments_apart(
    old: Snapshot, new: Snapshot, pairs: Sequence[ColumnPair] | None = None
) -> tuple[list[int], list[int]]:
    """Return the places of the fragments that two versions do not have alike.

    All of them, if columns are not the same: what is no column of the one may be in its files.
    ``pairs`` are the columns that count, all by default.
    """
    mine, theirs = (side.manifest.fragments.encoded for side in (old, new))
    both = set[bytes]()
    alike = old.manifest.base_paths == new.manifest.base_paths
    if old.line != new.line:  # where a branch or a clone was made
        numbers = dict[tuple[str, bool], int]()
        mine, theirs = _encoded(old, numbers), _encoded(new, numbers)
        alike = True
    if alike and (_same_columns(old, new) if pairs is None else _are_same(pairs)):
        both = set(mine).intersection(theirs)
    return (
        [place for place, message in enumerate(mine) if message not in both],
        [place for place, message in enumerate(theirs) if message not in both],
    )


def _encoded(side: Snapshot, numbers: dict[tuple[str, bool], int]) -> list[bytes]:
    """Return the fragments of a version, with bases that are numbered alike wherever they are."""

    @cache
    def number(base_id: int | None) -> int:
        return numbers.setdefault(side.base_place(base_id), len(numbers))

    return [with_bases(fragment, number).to_bytes() for fragment in side.manifest.fragments]


def _same_columns(old: Snapshot, new: Snapshot) -> bool:
    if old.manifest.schema.fields == new.manifest.schema.fields:
        return True
    return _are_same(column_pairs(old, new))


def _are_same(pairs: Sequence[ColumnPair]) -> bool:
    """Return True if each column has the ids and types of the old one."""
    return all(
        pair.old is not None
        and [(part.id, part.logical_type) for part in pair.old.walk()]
        == [(part.id, part.logical_type) for part in pair.new.walk()]
        for pair in pairs
    )


def with_parts(pairs: Iterable[ColumnPair]) -> Iterator[ColumnPair]:
    """Yield columns, and the parts of structs that changed."""
    for pair in pairs:
        yield pair
        yield from with_parts(pair.parts)


def ids_of_pairs(pairs: Iterable[ColumnPair]) -> Iterator[tuple[int, int]]:
    """Yield the ids of columns, and of their parts, each with that of the other version."""
    for pair in with_parts(pairs):
        if pair.old is not None and (pair.parts or pair.is_cast):
            yield pair.new.id, pair.old.id
        elif pair.old is not None:
            both = zip(pair.new.walk(), pair.old.walk(), strict=False)
            yield from ((new.id, old.id) for new, old in both)
