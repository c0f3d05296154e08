"""Which columns of two versions are the same, by merges, ids or names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

from lancekit._commit.manifest.clone import with_bases
from lancekit._format.schema import LanceField
from lancekit._pipeline.diff.column_identity import KeptColumns, fields_by_id, kept_columns
from lancekit._pipeline.diff.fragments import ColumnPair, fits_as, pair_columns
from lancekit._pipeline.diff.recorded_columns import RecordedColumns
from lancekit._pipeline.diff.row_values import seen
from lancekit._versions.ancestor import common_ancestor, parting
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import SchemaMismatchError


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
    if old.location != new.location:  # where a branch or a clone was made
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


# ---- columns of two versions, matched by ids and names where no merge tells which are the same


def by_name(
    base: Snapshot,
    side: Snapshot,
    recorded: RecordedColumns | None = None,
    *,
    check: bool = True,
) -> dict[int, int]:
    """Return the columns that are the same by their ids and names; others may be none.

    base, side: two versions.
    recorded: columns of the side with those of the base, as a merge recorded them.
    check: whether columns must not have been renamed.

    Raises SchemaMismatchError: a column may have been renamed, and it is to be checked.
    """
    known = {} if recorded is None else recorded.known
    ancestor = common_ancestor(base, side)
    pairs = told(base, side, ancestor, pairs_since(base, side, ancestor), known)
    kept = {id_: was for id_, was in known.items() if was is not None}
    taken = {*kept.values()}
    found = {
        id_: was for id_, was in ids_of_pairs(pairs) if not (id_ in known or was in taken)
    } | kept
    if check:
        check_names(base, side, {**dict.fromkeys(known, -1), **found})
    if check and recorded is not None:
        _check_doubtful(base, side, recorded, found)
    return found


def _check_doubtful(
    base: Snapshot, side: Snapshot, recorded: RecordedColumns, found: Mapping[int, int]
) -> None:
    """Refuse a column that may be the merged one of its id, renamed, where a name tells another."""
    before, after = fields_by_id(base), fields_by_id(side)
    for id_, was in recorded.doubtful.items():
        old, new = None if was is None else before.get(was), after[id_]
        if old is not None and found.get(id_) != was and old.logical_type == new.logical_type:
            raise untold(new.name, side, old.name, base, "it has the id of that column in a merge")


def check_names(base: Snapshot, side: Snapshot, found: Mapping[int, int]) -> None:
    """Refuse columns of which one may be the other, renamed since a merge that is gone.

    Two columns are not the same if both are of the version where the sides part, or if one is and
    the versions since show that the other came.
    """
    kept, ancestor = {*found.values()}, common_ancestor(base, side)
    lost = [field for field in base.manifest.schema.fields if field.id not in kept]
    new = [field for field in side.manifest.schema.fields if field.id not in found]
    if not (lost and new):
        return
    of_base, of_side = (
        None if ancestor is None else KeptColumns(ancestor, one) for one in (base, side)
    )
    for was, now in product(lost, new):
        if was.logical_type != now.logical_type:
            continue
        ends = {_came(of_base, was), _came(of_side, now)}
        if ends == {True}:
            raise untold(now.name, side, was.name, base, "both came since they parted")
        if None in ends:
            raise untold(now.name, side, was.name, base, "one may have been cast and renamed")


def _came(kept: KeptColumns | None, field: LanceField) -> bool | None:
    """Return True if a column came since a version, False if it stood there, None if unknown."""
    if kept is None:
        return True
    if kept.origin(field.id) is not None:
        return False
    return True if kept.is_new(field.id) else None


def told(
    old: Snapshot,
    new: Snapshot,
    ancestor: Snapshot | None,
    pairs: list[ColumnPair],
    known: Collection[int] = (),
) -> list[ColumnPair]:
    """Return pairs of columns, if the versions between tell of each id what became of it.

    ``known`` are ids of which a merge tells it.
    """
    if ancestor is None and parting(old, new) is None:
        return pairs
    before = {field.id: field for field in old.manifest.schema.fields}
    sides = kept_columns(ancestor, old, new)
    for pair in pairs:
        id_ = pair.new.id
        was = before.get(id_) if sides[0].had(id_) else None
        if was is None or id_ in known or (pair.old is not None and pair.old.id == id_):
            continue
        if was.logical_type == pair.new.logical_type and not all(
            side.is_told(id_) for side in sides
        ):
            raise untold(pair.name, new, was.name, old, "both have one id")
    return pairs


def untold(name: str, new: Snapshot, other: str, old: Snapshot, why: str) -> SchemaMismatchError:
    """Return the error for a column that may be another one, with the reason."""
    return SchemaMismatchError(
        f"Nothing tells whether column {name!r} of {new.called} is column {other!r} of "
        f"{old.called}: {why}, and versions between were cleaned up.",
        hint=f"If it is, give it the name {other!r} again, and rename it after the merge. If not, "
        f"drop {other!r} on the other side first.",
        column=name,
    )
