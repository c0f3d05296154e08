"""The changed rows of a diff: found once, then converted to tables, tasks and samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from lancekit._choice import check_choice
from lancekit._lazy import cached_property
from lancekit._legible import python_rows, python_value
from lancekit._operations.lineage.diff import Changes, Sides, find_changes, read_sides
from lancekit._operations.lineage.diff_plan import DiffPlan
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.row_values import (
    Addresses,
    ChangedRows,
    changed_rows,
    row_values,
    seen,
)
from lancekit._pipeline.diff.values import differing
from lancekit._pipeline.engine import choose_runner
from lancekit._sampled import SampledRows
from lancekit._scan.fragments.rebatch import taken

#: the most rows that one Spark task reads
_ROWS_OF_A_TASK = 1 << 16


@dataclass(frozen=True, slots=True)
class ChangeLabels:
    """The name of the column for the kind of change, and its values."""

    column: str
    deleted: str
    inserted: str
    before: str
    after: str


#: lancekit's labels, and the labels of Delta's change feed
_LABELS = {
    "lance": ChangeLabels("_change", "delete", "insert", "update_before", "update_after"),
    "delta": ChangeLabels(
        "_change_type", "delete", "insert", "update_preimage", "update_postimage"
    ),
}


def labels_of(names: str) -> ChangeLabels:
    """Return the labels for the `names` argument; ``InvalidArgumentError`` if it is unknown."""
    check_choice("names", names, _LABELS)
    return _LABELS[names]


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A changed row: `key` identifies it, `cells` has (old, new) of each differing value.

    In an inserted row the old values are ``None``, in a deleted row the new values.
    """

    change: Literal["insert", "delete", "update"]
    key: dict[str, Any]
    cells: dict[str, tuple[Any, Any]]


class SampledChanges(SampledRows[ChangedRow]):
    """Some of the changed rows of a diff."""


class DiffRows:
    """The changed rows of a diff plan; rows are only read when a result needs them."""

    def __init__(self, plan: DiffPlan) -> None:
        self.plan = plan

    def __getstate__(self) -> dict[str, object]:
        # open files cannot be pickled
        return {name: value for name, value in self.__dict__.items() if name != "sides"}

    @cached_property
    def sides(self) -> Sides:
        """The readers of the rows of each side."""
        return read_sides(self.plan)

    @cached_property
    def changes(self) -> Changes:
        """The addresses of the changed rows."""
        plan = self.plan
        return find_changes(plan, self.sides, choose_runner(plan.rows_apart, plan.new.store))

    @property
    def only_added(self) -> int:
        """The number of updated rows that differ only in added columns."""
        return int((self.changes.shared_widths == 0).sum())

    @property
    def is_compared(self) -> bool:
        """True if the rows have been compared already."""
        return "changes" in self.__dict__

    @cached_property
    def gone(self) -> list[pa.Field]:
        """The columns that only the old side has."""
        if not self.plan.whole:
            return []
        kept = {pair.old.id for pair in self.plan.columns if pair.old is not None}
        return [field.to_arrow() for field in seen(self.plan.old).fields if field.id not in kept]

    @cached_property
    def columns(self) -> tuple[ColumnPair, ...]:
        """The compared columns, key columns first."""
        by_name = {pair.name: pair for pair in self.plan.columns}
        key = [by_name[name] for name in self.plan.key]
        return (*key, *(pair for pair in self.plan.columns if pair not in key))

    def schema(self, labels: ChangeLabels) -> pa.Schema:
        """Return the schema of the rows, with dropped columns whose names are not reused."""
        stored = [pair.new.to_arrow().with_nullable(True) for pair in self.columns]
        names = {pair.name for pair in self.columns}
        dropped = [field.with_nullable(True) for field in self.gone if field.name not in names]
        return pa.schema([pa.field(labels.column, pa.string(), False), *stored, *dropped])

    def tables(self, labels: ChangeLabels, rows: int) -> Iterator[pa.Table]:
        """Yield tables of at most ``rows`` rows: deleted, inserted, updated before and after."""
        schema, found = self.schema(labels), self.changes

        def table(word: str, addresses: Addresses, *, new: bool) -> pa.Table:
            side = self.sides[new]
            return changed_rows(schema, word, self.columns, side, addresses, new=new)

        for word, addresses, new in (
            (labels.deleted, found.deleted, False),
            (labels.inserted, found.inserted, True),
        ):
            for start in range(0, len(addresses), rows):
                yield table(word, addresses[start : start + rows], new=new)
        step = max(rows // 2, 1)
        for start in range(0, len(found.updated[0]), step):
            before, after = (side[start : start + step] for side in found.updated)
            both = pa.concat_tables(
                [table(labels.before, before, new=False), table(labels.after, after, new=True)]
            )
            yield taken(both, np.arange(len(both)).reshape(2, -1).T.ravel())

    def tasks(self, labels: ChangeLabels) -> list[ChangedRows]:
        """Return tasks that read the rows on executors."""
        schema, found = self.schema(labels), self.changes
        before, after = found.updated
        parts = (
            (labels.deleted, found.deleted, False),
            (labels.inserted, found.inserted, True),
            (labels.before, before, False),
            (labels.after, after, True),
        )
        return [
            ChangedRows(schema, word, self.columns, self.sides[new].sources(some), some, new)
            for word, rows, new in parts
            for start in range(0, len(rows), _ROWS_OF_A_TASK)
            for some in [rows[start : start + _ROWS_OF_A_TASK]]
        ]

    def sample(self, n: int) -> list[ChangedRow]:
        """Return some rows, updated ones first."""
        found, left = self.changes, n
        old, new = (side[:left] for side in found.updated)
        left -= len(old)
        inserted = found.inserted[:left]
        deleted = found.deleted[: left - len(inserted)]
        rows = [
            *self.updated_rows(old, new, self.plan.columns),
            *self.rows_alone("insert", inserted, self.plan.columns),
            *self.rows_alone("delete", deleted, self.plan.columns),
        ]
        return SampledChanges(
            rows, len(found.updated[0]) + len(found.inserted) + len(found.deleted)
        )

    def _values(
        self, addresses: Addresses, columns: Sequence[ColumnPair], *, new: bool
    ) -> dict[str, pa.Array]:
        values = row_values(columns, self.sides[new], addresses, new=new)
        return {pair.name: v for pair, v in zip(columns, values, strict=True)}

    def _identities(
        self, values: Mapping[str, pa.Array], addresses: Addresses, *, new: bool
    ) -> list[dict[str, Any]]:
        """Return an identity of each row for display: its key, row id or address."""
        key = self.plan.key
        if key:
            identity = pa.table({name: values[name] for name in key})
        else:
            name = "_rowid" if self.plan.matched_by.startswith("row ids") else "_rowaddr"
            identity = self.sides[new].read([name], addresses)
        return python_rows(identity)

    def updated_rows(
        self, old: Addresses, new: Addresses, columns: Sequence[ColumnPair]
    ) -> list[ChangedRow]:
        """Return updated rows with the differing values of some columns, key columns included."""
        if not len(new):
            return []
        before = self._values(old, columns, new=False)
        after = self._values(new, columns, new=True)
        differs = {name: differing(before[name], after[name]) for name in before}
        return [
            ChangedRow(
                "update",
                key,
                {
                    name: (python_value(before[name][row]), python_value(after[name][row]))
                    for name, cells in differs.items()
                    if cells[row]
                },
            )
            for row, key in enumerate(self._identities(after, new, new=True))
        ]

    def rows_alone(
        self,
        change: Literal["insert", "delete"],
        addresses: Addresses,
        columns: Sequence[ColumnPair],
    ) -> list[ChangedRow]:
        """Return inserted or deleted rows with the values of some columns, key included."""
        if not len(addresses):
            return []
        new = change == "insert"
        values = self._values(addresses, columns, new=new)
        rows = []
        for row, key in enumerate(self._identities(values, addresses, new=new)):
            present = {
                name: python_value(column[row])
                for name, column in values.items()
                if name not in self.plan.key and column[row].is_valid
            }
            cells = {name: (None, v) if new else (v, None) for name, v in present.items()}
            rows.append(ChangedRow(change, key, cells))
        return rows
