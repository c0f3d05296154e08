"""Matching of the columns of two versions, by merges, field ids or names."""

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
from lancekit._versions.ancestor import common_ancestor, common_origin
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import SchemaMismatchError


def column_pairs(old: Snapshot, new: Snapshot) -> list[ColumnPair]:
    """Return each column of a version, paired with the same column in an older version."""
    return pairs_since(old, new, common_ancestor(old, new))


def pairs_since(old: Snapshot, new: Snapshot, ancestor: Snapshot | None) -> list[ColumnPair]:
    """Return the column pairs of two versions whose common ancestor is known."""
    return pair_columns(seen(old), seen(new), *kept_columns(ancestor, old, new))


def pairs_of_sides(
    pairs: Sequence[tuple[Sequence[ColumnPair], Sequence[ColumnPair]]],
) -> list[ColumnPair]:
    """Pair each column of one side with its column on another side, through merge bases.

    The first base that has the column decides; columns without a base are matched by name.
    ``pairs`` has for each base the column pairs of the other side, then of this side.
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
        # the column plan pairs the parts of structs
        found.append(replace(pair, old=match, parts=()))
    return found


def fragments_apart(
    old: Snapshot, new: Snapshot, pairs: Sequence[ColumnPair] | None = None
) -> tuple[list[int], list[int]]:
    """Return the positions of the fragments whose metadata differs between two versions.

    All fragments count as different if columns differ, because files can hold values of columns
    that a version lacks.  ``pairs`` are the columns to compare, all by default.
    """
    mine, theirs = (side.manifest.fragments.encoded for side in (old, new))
    both = set[bytes]()
    comparable = old.manifest.base_paths == new.manifest.base_paths
    if old.location != new.location:  # a branch or a clone: base ids can differ
        numbers = dict[tuple[str, bool], int]()
        mine, theirs = _encoded(old, numbers), _encoded(new, numbers)
        comparable = True
    if comparable and (_same_columns(old, new) if pairs is None else _are_same(pairs)):
        both = set(mine).intersection(theirs)
    return (
        [place for place, message in enumerate(mine) if message not in both],
        [place for place, message in enumerate(theirs) if message not in both],
    )


def _encoded(side: Snapshot, numbers: dict[tuple[str, bool], int]) -> list[bytes]:
    """Return the encoded fragments of a version, with base ids from a shared numbering."""

    @cache
    def number(base_id: int | None) -> int:
        return numbers.setdefault(side.base_place(base_id), len(numbers))

    return [with_bases(fragment, number).to_bytes() for fragment in side.manifest.fragments]


def _same_columns(old: Snapshot, new: Snapshot) -> bool:
    if old.manifest.schema.fields == new.manifest.schema.fields:
        return True
    return _are_same(column_pairs(old, new))


def _are_same(pairs: Sequence[ColumnPair]) -> bool:
    """Return True if each column, with its parts, has the same ids and types as the old column."""
    return all(
        pair.old is not None
        and [(part.id, part.logical_type) for part in pair.old.walk()]
        == [(part.id, part.logical_type) for part in pair.new.walk()]
        for pair in pairs
    )


def with_parts(pairs: Iterable[ColumnPair]) -> Iterator[ColumnPair]:
    """Yield column pairs, and the pairs of struct parts that changed."""
    for pair in pairs:
        yield pair
        yield from with_parts(pair.parts)


def ids_of_pairs(pairs: Iterable[ColumnPair]) -> Iterator[tuple[int, int]]:
    """Yield the (new, old) field ids of columns and of their parts."""
    for pair in with_parts(pairs):
        if pair.old is not None and (pair.parts or pair.is_cast):
            yield pair.new.id, pair.old.id
        elif pair.old is not None:
            both = zip(pair.new.walk(), pair.old.walk(), strict=False)
            yield from ((new.id, old.id) for new, old in both)


# ---- columns of two versions, matched by ids and names where no merge recorded the match


def by_name(
    base: Snapshot, side: Snapshot, recorded: RecordedColumns | None = None, *, check: bool = True
) -> dict[int, int]:
    """Return the field ids of a side with the ids in a base, matched by ids and names.

    base, side: two versions.
    recorded: the match that a merge recorded, if any.
    check: whether to refuse columns that may have been renamed.

    Raises SchemaMismatchError: ``check`` is set, and a column may have been renamed.
    """
    known = {} if recorded is None else recorded.known
    ancestor = common_ancestor(base, side)
    pairs = checked_pairs(base, side, ancestor, pairs_since(base, side, ancestor), known)
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
    """Refuse a column whose name and recorded id match different columns: it may be renamed."""
    before, after = fields_by_id(base), fields_by_id(side)
    for id_, was in recorded.doubtful.items():
        old, new = None if was is None else before.get(was), after[id_]
        if old is not None and found.get(id_) != was and old.logical_type == new.logical_type:
            raise unclear(new.name, side, old.name, base, "a merge gave it the id of that column")


def check_names(base: Snapshot, side: Snapshot, found: Mapping[int, int]) -> None:
    """Refuse unmatched columns if one may be the other, renamed since a merge that is gone.

    Two columns differ for certain if the common ancestor has both.  They also differ if it has one,
    and the versions since then show that the other was added.
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
        ends = {_was_added(of_base, was), _was_added(of_side, now)}
        if ends == {True}:
            raise unclear(now.name, side, was.name, base, "both were added on their branch")
        if None in ends:
            raise unclear(now.name, side, was.name, base, "one may have been cast and renamed")


def _was_added(kept: KeptColumns | None, field: LanceField) -> bool | None:
    """Return True if a column was added since the ancestor, False if not, None if unknown."""
    if kept is None:
        return True
    if kept.origin(field.id) is not None:
        return False
    return True if kept.is_new(field.id) else None


def checked_pairs(
    old: Snapshot,
    new: Snapshot,
    ancestor: Snapshot | None,
    pairs: list[ColumnPair],
    known: Collection[int] = (),
) -> list[ColumnPair]:
    """Return the column pairs; refuse a field id of both versions that may mean two columns.

    ``known`` are field ids that a merge recorded: they are not checked.
    """
    if ancestor is None and common_origin(old, new) is None:
        return pairs
    before = {field.id: field for field in old.manifest.schema.fields}
    sides = kept_columns(ancestor, old, new)
    for pair in pairs:
        id_ = pair.new.id
        was = before.get(id_) if sides[0].had(id_) else None
        if was is None or id_ in known or (pair.old is not None and pair.old.id == id_):
            continue
        if was.logical_type == pair.new.logical_type and not all(
            side.is_identified(id_) for side in sides
        ):
            raise unclear(pair.name, new, was.name, old, "both have the same field id")
    return pairs


def unclear(name: str, new: Snapshot, other: str, old: Snapshot, why: str) -> SchemaMismatchError:
    """Return the error for a column that may be another column, with the reason."""
    return SchemaMismatchError(
        f"Column {name!r} of {new.called} may or may not be column {other!r} of {old.called}: "
        f"{why}, and versions in between were cleaned up.",
        hint=f"If it is, rename it back to {other!r}, merge, and rename it again. If not, drop "
        f"{other!r} on the other side first.",
        column=name,
    )
