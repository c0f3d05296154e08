"""Row addresses mapped from one version to another, from a comparison of the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lancekit._format import row_address
from lancekit._legible import count
from lancekit._operations.lineage.column_conflicts import named_bases
from lancekit._operations.lineage.diff import Changes
from lancekit._operations.lineage.diff_plan import DiffPlan
from lancekit._operations.lineage.three_way_plan import Since
from lancekit._pipeline.diff.row_values import NOWHERE, Addresses, read_rows, row_digests
from lancekit._pipeline.diff.values import Seeds
from lancekit._pipeline.hashed_keys import Hashes
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

#: rows of the source, and the same rows of the target
Met = tuple[Addresses, Addresses]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A sorted map from addresses to addresses."""

    keys: Addresses
    values: Addresses

    @classmethod
    def of(cls, keys: Sequence[Addresses], values: Sequence[Addresses]) -> Lookup:
        """Build the map from keys in any order."""
        joined, others = np.concatenate(keys), np.concatenate(values)
        order = np.argsort(joined)
        return cls(joined[order], others[order])

    def find(self, rows: Addresses) -> Addresses:
        """Return the mapped addresses of rows; `NOWHERE` for unknown rows."""
        found = np.full(len(rows), NOWHERE)
        if len(self.keys):
            at = np.minimum(np.searchsorted(self.keys, rows), len(self.keys) - 1)
            hit = self.keys[at] == rows
            found[hit] = self.values[at[hit]]
        return found


@dataclass(frozen=True, slots=True)
class PairedRows:
    """A map from row addresses of one version to the same rows of another version.

    fragments: fragment ids, for fragments with the same rows at the same offsets.
    elsewhere: rows at other addresses, or with other values.
    alone: rows that the other version lacks.
    """

    fragments: Mapping[int, int]
    elsewhere: Lookup
    alone: Addresses

    @classmethod
    def to_new(cls, plan: DiffPlan, changes: Changes) -> PairedRows:
        """Map the rows of the old version to the new version."""
        (olds, news), (was, now) = changes.same, changes.updated
        return cls(plan.shared.mates, Lookup.of([olds, was], [news, now]), changes.deleted)

    @classmethod
    def to_old(cls, plan: DiffPlan, changes: Changes) -> PairedRows:
        """Map the rows of the new version to the old version."""
        fragments = {new: old for old, new in plan.shared.mates.items()}
        (olds, news), (was, now) = changes.same, changes.updated
        return cls(fragments, Lookup.of([news, now], [olds, was]), changes.inserted)

    def find(self, rows: Addresses) -> Addresses:
        """Return the addresses in the other version; `NOWHERE` for rows that it lacks."""
        found = self.elsewhere.find(rows)
        left = np.flatnonzero((found == NOWHERE) & (rows != NOWHERE) & ~np.isin(rows, self.alone))
        owners = row_address.fragment_ids(rows[left])
        for id_ in np.unique(owners).tolist():
            if id_ in self.fragments:
                own, other = left[owners == id_], self.fragments[id_]
                found[own] = row_address.addresses(other, row_address.offsets(rows[own]))
        return found


def rows_met(
    theirs: Addresses, ours: Addresses, others: Sequence[tuple[PairedRows, PairedRows]]
) -> Met:
    """Return the pairs of rows that both sides inserted since one base, matched in another base.

    theirs, ours: the rows that each side inserted.
    others: for each other base, the maps from the source to the base, and on to the target.
    """
    pairs = [np.empty((0, 2), np.uint64)]
    for to_base, to_ours in others:
        met = np.stack([theirs, to_ours.find(to_base.find(theirs))], axis=1)
        pairs.append(met[np.isin(met[:, 1], ours)])
    found = np.unique(np.concatenate(pairs), axis=0)
    return found[:, 0], found[:, 1]


def check_paired(theirs: Snapshot, ours: Snapshot, pairs: Met) -> None:
    """Refuse a row of one side that is paired with two rows of the other side."""
    for rows in pairs:
        there = rows[rows != NOWHERE]
        if len(np.unique(there)) != len(there):
            raise InvalidArgumentError(
                f"{theirs.called} and {ours.called} have several merge bases, which match their "
                "rows differently.",
                hint="Name one of them: base=(branch, version); or match rows by columns: on=.",
            )


# ---- keys that stand more than once in a merge base, or on a side


def with_keys_once(
    since: Since, between: DiffPlan, new_columns: Sequence[bool], bases: Sequence[Snapshot]
) -> Since:
    """Return changes in which each side has one row of a key that stands more than once.

    Nothing tells which row of such a key became which.  If both sides changed some, these rows of
    the merge base count as deleted by both, and the row that each side has instead as inserted:
    two that differ are a conflict.

    between: the comparison of theirs with ours.
    new_columns: whether theirs has columns that the base lacks, and whether ours has some: their
        values are changes of all rows.
    bases: all merge bases.

    Raises InvalidArgumentError: a side has several rows of such a key, or one side alone has a row;
        or there are several merge bases.
    """
    plans, both = (since.to_theirs, since.to_ours), (since.changes, since.mine)
    is_alone = any(found.is_empty for found in both) and not any(new_columns)
    if is_alone or not any(found.ambiguous for found in both):
        return since
    if len(bases) > 1 or not (between.key and since.to_ours.key):
        raise _repeated(since, bases)
    keys = _changed_keys(since, between)
    shared = []
    for plan, found, (gone, come, _), other, has_new in zip(
        plans, both, keys, keys[::-1], new_columns[::-1], strict=True
    ):
        came = come[np.isin(found.inserted, found.repeated[1])]
        lost = gone[np.isin(found.deleted, found.repeated[0])]
        if plan.way.startswith("row ids"):  # which tell the rows that went
            lost = lost[:0]
        changed = np.concatenate([*other, came if has_new else came[:0]])
        shared.append(np.intersect1d(np.concatenate([lost, came]), changed))
    chosen = np.concatenate(shared)
    gone = np.concatenate([of_side[0] for of_side in keys])
    deleted = np.concatenate([found.deleted for found in both])
    rows, at = np.unique(deleted[np.isin(gone, chosen)], return_index=True)
    row_keys = gone[np.isin(gone, chosen)][at]
    once, left = list[Changes](), []
    for plan, found, (_, come, _) in zip(plans, both, keys, strict=True):
        stays = ~np.isin(rows, found.deleted)
        there = PairedRows.to_new(plan, found).find(rows[stays])
        olds, news = (side[~np.isin(found.same[0], rows)] for side in found.same)
        left.append(np.sort(np.concatenate([come[np.isin(come, chosen)], row_keys[stays]])))
        lost, came = np.union1d(found.deleted, rows), np.union1d(found.inserted, there)
        once.append(replace(found, deleted=lost, inserted=came, same=(olds, news)))
    theirs, ours = left
    is_moved = any(np.isin(moved, chosen).any() for _, _, moved in keys)
    if is_moved or len(np.unique(theirs)) < len(theirs) or not np.array_equal(theirs, ours):
        raise _repeated(since, bases)
    return replace(since, changes=once[0], mine=once[1])


def _changed_keys(since: Since, between: DiffPlan) -> list[tuple[Hashes, Hashes, Hashes]]:
    """Return for theirs and ours hashes of the keys of deleted, inserted and updated rows."""
    seeds = Seeds.drawn()

    def keys(plan: DiffPlan, rows: Addresses, *, new: bool) -> Hashes:
        columns = {pair.name: pair for pair in plan.columns}
        side = read_rows(plan.new if new else plan.old, rows)
        return row_digests([columns[name] for name in plan.key], side, rows, seeds, new=new).first

    base = partial(keys, since.to_ours, new=False)
    out = []
    for found, is_ours in ((since.changes, False), (since.mine, True)):
        side, (was, now) = partial(keys, between, new=is_ours), found.updated
        out.append((base(found.deleted), side(found.inserted), np.append(base(was), side(now))))
    return out


def _repeated(since: Since, bases: Sequence[Snapshot]) -> InvalidArgumentError:
    both = (since.to_theirs, since.changes), (since.to_ours, since.mine)
    plan, number = next((one, found.ambiguous) for one, found in both if found.ambiguous)
    several = f"; or name one merge base: {named_bases(bases)}" if len(bases) > 1 else ""
    return InvalidArgumentError(
        f"Rows that differ between {plan.old.called} and {plan.new.called} share their key "
        f"({', '.join(plan.key)}) with other rows: {count(number)} in all.",
        hint=f"ds.duplicates({list(plan.key)!r}) shows such rows of a version. Leave one row of "
        "each such key on both sides, or none on both; or name columns in `on` whose values stand "
        f"once{several}.",
        ambiguous=number,
    )
