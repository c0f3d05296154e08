"""Row addresses mapped from one version to another, from a comparison of the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lancekit._format import row_address
from lancekit._operations.lineage.diff import Changes
from lancekit._operations.lineage.diff_plan import DiffPlan
from lancekit._pipeline.diff.row_values import NOWHERE, Addresses
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
