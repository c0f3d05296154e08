"""Row addresses mapped from one version to another, from a comparison of the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lancekit._format import row_address
from lancekit._operations.lineage.column_conflicts import named_bases
from lancekit._operations.lineage.diff import Changes, joined_pairs
from lancekit._operations.lineage.diff_plan import DiffPlan
from lancekit._operations.lineage.three_way_plan import Since
from lancekit._pipeline.diff.row_values import NOWHERE, Addresses, read_rows, row_digests
from lancekit._pipeline.diff.values import Seeds
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

#: rows of the source, and the same rows of the target
RowPairs = tuple[Addresses, Addresses]


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

    def among(self, keys: Addresses, *, invert: bool = False) -> Lookup:
        """Return the entries with some keys, or with all other keys."""
        at = np.isin(self.keys, keys, invert=invert)
        return Lookup(self.keys[at], self.values[at])

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

    fragments: ids of fragments with the same rows at the same offsets.
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


def paired_in_others(
    theirs: Addresses, ours: Addresses, others: Sequence[tuple[PairedRows, PairedRows]]
) -> RowPairs:
    """Return the pairs of rows that both sides inserted since one base, matched in another base.

    theirs, ours: the rows that each side inserted.
    others: for each other base, maps from the source to the base, and from there to the target.
    """
    pairs = [np.empty((0, 2), np.uint64)]
    for to_base, to_ours in others:
        both = np.stack([theirs, to_ours.find(to_base.find(theirs))], axis=1)
        pairs.append(both[np.isin(both[:, 1], ours)])
    found = np.unique(np.concatenate(pairs), axis=0)
    return found[:, 0], found[:, 1]


def check_paired(theirs: Snapshot, ours: Snapshot, pairs: RowPairs) -> None:
    """Refuse a row of one side that is paired with two rows of the other side."""
    for rows in pairs:
        there = rows[rows != NOWHERE]
        if len(np.unique(there)) != len(there):
            raise InvalidArgumentError(
                f"{theirs.called} and {ours.called} have several merge bases, which match their "
                "rows differently.",
                hint="Pass one base, base=(branch, version), or match rows by columns: on=.",
            )


# ---- keys that occur more than once in a merge base, or on a side


def with_keys_once(
    since: Since, between: DiffPlan, new_columns: Sequence[bool], bases: Sequence[Snapshot]
) -> Since:
    """Return changes in which each side has at most one row of a repeated key that both changed.

    The rows of such a key cannot be matched.  So the changed rows of the merge base count as
    deleted by both sides.  The row of each side counts as inserted: two different rows conflict.
    A row that one side alone has counts as updated there.

    between: the comparison of theirs with ours.
    new_columns: True if theirs has columns that the base lacks, and True if ours has some.
    bases: all merge bases.

    Raises InvalidArgumentError: there are several merge bases, or several rows of such a key on a
        side, or a changed key.  Or a side has new columns, and the other side alone replaced rows.
    """
    plans, both = (since.to_theirs, since.to_ours), (since.changes, since.mine)
    if any(found.is_empty for found in both) and not any(new_columns):
        return since
    if len(bases) > 1 or not (between.key and since.to_ours.key):
        if any(found.ambiguous for found in both):
            raise _repeated(since, bases)
        return since
    seeds = Seeds.drawn()
    base = partial(_by_key, since.to_ours, seeds, new=False)
    sides = [partial(_by_key, between, seeds, new=is_ours) for is_ours in (False, True)]
    came = [side(found.repeated).keys for side, found in zip(sides, both, strict=True)]
    chosen = np.empty(0, np.uint64)
    apart = [np.setdiff1d(one.deleted, other.deleted) for one, other in (both, both[::-1])]
    if all(map(len, apart)):  # each side may have deleted the row that the other one kept
        chosen = np.intersect1d(base(apart[0]).keys, base(apart[1]).keys)
    if not len(np.concatenate([chosen, *came])):
        return since
    # keys that are new on one side, and whose rows the other side changed, too
    changed = [np.append(found.deleted, found.updated[0]) for found in both]
    for at, (found, side) in enumerate(zip(both, sides, strict=True)):
        keys, lost = came[1 - at], base(both[1 - at].deleted).keys
        own = np.append(base(changed[at]).keys, side(found.inserted).keys)
        if new_columns[at] and not np.isin(np.intersect1d(keys, lost), own).all():
            raise _repeated(since, bases)
        chosen = np.append(chosen, np.intersect1d(keys, own))
    # the rows of these keys: changed rows of the base, and the rows of each side instead
    olds, news = base(np.union1d(*changed)).among(chosen), list[Lookup]()
    for plan, found, side in zip(plans, both, sides, strict=True):
        there = PairedRows.to_new(plan, found).find(olds.values)
        there = there[there != NOWHERE]
        rows = side(np.union1d(found.inserted, there)).among(chosen)
        if len(np.unique(rows.keys)) < len(rows.keys) or not np.isin(there, rows.values).all():
            raise _repeated(since, bases)
        news.append(rows)
    once = list[Changes]()
    for found, rows, others in zip(both, news, news[::-1], strict=True):
        alone = rows.among(others.keys, invert=True)
        before, (was, now) = olds.find(alone.keys), found.updated
        left, same = (~np.isin(pairs[0], olds.values) for pairs in (found.updated, found.same))
        once.append(
            replace(
                found,
                deleted=np.setdiff1d(np.union1d(found.deleted, olds.values), before),
                inserted=np.setdiff1d(np.union1d(found.inserted, rows.values), alone.values),
                updated=joined_pairs([(was[left], now[left]), (before, alone.values)]),
                same=(found.same[0][same], found.same[1][same]),
                widths=np.append(found.widths[left], np.ones(len(before), np.int64)),
            )
        )
    return replace(since, changes=once[0], mine=once[1])


def _by_key(plan: DiffPlan, seeds: Seeds, rows: Addresses, *, new: bool) -> Lookup:
    """Return rows of a side of a comparison by hashes of their keys."""
    columns = {pair.name: pair for pair in plan.columns}
    key, side = [columns[name] for name in plan.key], read_rows(plan.new if new else plan.old, rows)
    return Lookup.of([row_digests(key, side, rows, seeds, new=new).first], [rows])


def _repeated(since: Since, bases: Sequence[Snapshot]) -> InvalidArgumentError:
    theirs, ours = since.to_theirs, since.to_ours
    key, number = list(theirs.key or ours.key), since.changes.ambiguous + since.mine.ambiguous
    several = f"; or name one merge base, {named_bases(bases)}" if len(bases) > 1 else ""
    return InvalidArgumentError(
        f"Rows of {theirs.new.called} and {ours.new.called} share their key ({', '.join(key)}) "
        "with other rows, so rows of the two versions cannot be matched.",
        hint=f"ds.duplicates({key!r}) shows such rows of a version. Leave at most one row of each "
        f"such key on both sides; or name columns in `on` with unique values{several}.",
        ambiguous=number,
    )
