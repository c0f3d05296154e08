"""A three-way merge, planned: what is to be done to ours, and the rows that clash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lancekit.format.schema import LanceSchema
from lancekit.operations.lineage.column_sides import ColumnSides
from lancekit.operations.lineage.diff import Changes
from lancekit.operations.lineage.diff_plan import DiffPlan
from lancekit.operations.lineage.merged_columns import Clashes, ColumnPlan, Settled
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.pipeline.diff.side import Addresses
from lancekit.versions.snapshot import Snapshot

__all__ = ["By", "ThreeWay"]

#: whether changes of different columns of a row exclude each other
By = Literal["cell", "row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeWay:
    """What theirs changed since `base`, as it meets what ours changed.

    `columns` are those that come of it, each with that of theirs, `before` with that of the base;
    `merged` is the plan of these, and `sides` has the sides that were chosen for columns.
    `changes` are all rows that theirs changed, `mine` those that ours changed, `met` those that
    both inserted, on theirs and on ours.  `by_ids` tells whether rows are told by their ids, so
    that keys may change.
    """

    base: Snapshot
    theirs: Snapshot
    ours: Snapshot
    key: tuple[str, ...]
    by_ids: bool
    columns: tuple[ColumnPair, ...]
    before: tuple[ColumnPair, ...]
    merged: ColumnPlan
    sides: ColumnSides
    to_theirs: DiffPlan
    to_ours: DiffPlan
    changes: Changes
    mine: Changes
    met: tuple[Addresses, Addresses]
    agreed: Settled
    clashes: Clashes

    @property
    def schema(self) -> LanceSchema:
        """The columns of the result, with their ids."""
        return self.merged.schema

    @property
    def changes_columns(self) -> bool:
        """Whether ours gets other columns than it has."""
        return self.schema != self.ours.manifest.schema

    @property
    def is_empty(self) -> bool:
        """Whether theirs changed no row and no column at all."""
        left = bool(self.agreed) or bool(len(self.clashes))
        return not left and self.changes.is_empty and not self.changes_columns
