"""Columns of two versions, matched by ids and names where no merge tells which are the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product

from lancekit._format.schema import LanceField
from lancekit._operations.lineage.columns import ids_of_pairs, pairs_since
from lancekit._pipeline.diff.column_identity import KeptColumns, fields_by_id, kept_columns
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.recorded_columns import RecordedColumns
from lancekit._versions.ancestor import common_ancestor, parting
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import SchemaMismatchError

__all__ = ["by_name", "check_names", "told", "untold"]


def by_name(
    base: Snapshot,
    side: Snapshot,
    recorded: RecordedColumns | None = None,
    *,
    check: bool = True,
) -> dict[int, int]:
    """Return the columns that are the same by their ids and names; others may be none.

    Parameters
    ----------
    base, side
        Two versions.
    recorded
        Columns of the side with those of the base, as a merge recorded them.
    check
        Whether columns must not have been renamed.

    Raises
    ------
    SchemaMismatchError
        A column may have been renamed, and it is to be checked.
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
