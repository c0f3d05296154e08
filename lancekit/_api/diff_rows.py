"""The changed rows of a diff: found once, and made into tables, tasks and samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from lancekit._scan.fragments.rebatch import taken

#: rows that one task of Spark reads, at most
_ROWS_OF_A_TASK = 1 << 16


@dataclass(frozen=True, slots=True)
class Words:
    """The column that says what became of a row, and what it says."""

    column: str
    deleted: str
    inserted: str
    before: str
    after: str


#: our words, and those of Delta's change feed
_WORDS = {
    "lance": Words("_change", "delete", "insert", "update_before", "update_after"),
    "delta": Words("_change_type", "delete", "insert", "update_preimage", "update_postimage"),
}


def words_of(names: str) -> Words:
    """Return the words that a user chose.

    Raises
    ------
    InvalidArgumentError
        There are none of that name.
    """
    check_choice("names", names, _WORDS)
    return _WORDS[names]


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """One changed row: `key` tells which, `cells` has (old, new) of each value that differs.

    Of an inserted row the old values are ``None``, of a deleted one the new ones.
    """

    change: Literal["insert", "delete", "update"]
    key: dict[str, Any]
    cells: dict[str, tuple[Any, Any]]


class DiffRows:
    """The rows that differ by a plan; nothing is read before they are asked for."""

    def __init__(self, plan: DiffPlan) -> None:
        self._plan = plan

    def __getstate__(self) -> dict[str, object]:
        # open files stay behind
        return {name: value for name, value in self.__dict__.items() if name != "sides"}

    @cached_property
    def sides(self) -> Sides:
        """What reads the rows of each side."""
        return read_sides(self._plan)

    @cached_property
    def changes(self) -> Changes:
        """Which rows changed."""
        plan = self._plan
        return find_changes(plan, self.sides, choose_runner(plan.rows_apart, plan.new.store))

    @property
    def is_compared(self) -> bool:
        """Whether the rows were found already."""
        return "changes" in self.__dict__

    @cached_property
    def gone(self) -> list[pa.Field]:
        """The columns that only the old side has."""
        if not self._plan.whole:
            return []
        kept = {pair.old.id for pair in self._plan.columns if pair.old is not None}
        return [field.to_arrow() for field in seen(self._plan.old).fields if field.id not in kept]

    @cached_property
    def _columns(self) -> tuple[ColumnPair, ...]:
        """The columns, those of the key first."""
        by_name = {pair.name: pair for pair in self._plan.columns}
        key = [by_name[name] for name in self._plan.key]
        return (*key, *(pair for pair in self._plan.columns if pair not in key))

    def schema(self, words: Words) -> pa.Schema:
        """Return the schema of the rows; a column that went is there unless its name is taken."""
        stored = [pair.new.to_arrow().with_nullable(True) for pair in self._columns]
        names = {pair.name for pair in self._columns}
        dropped = [field.with_nullable(True) for field in self.gone if field.name not in names]
        return pa.schema([pa.field(words.column, pa.string(), False), *stored, *dropped])

    def tables(self, words: Words, rows: int) -> Iterator[pa.Table]:
        """Yield rows, so many at a time: deleted, inserted, updated ones before and after."""
        schema, found = self.schema(words), self.changes

        def table(word: str, addresses: Addresses, *, new: bool) -> pa.Table:
            side = self.sides[new]
            return changed_rows(schema, word, self._columns, side, addresses, new=new)

        for word, addresses, new in (
            (words.deleted, found.deleted, False),
            (words.inserted, found.inserted, True),
        ):
            for start in range(0, len(addresses), rows):
                yield table(word, addresses[start : start + rows], new=new)
        step = max(rows // 2, 1)
        for start in range(0, len(found.updated[0]), step):
            before, after = (side[start : start + step] for side in found.updated)
            both = pa.concat_tables(
                [table(words.before, before, new=False), table(words.after, after, new=True)]
            )
            yield taken(both, np.arange(len(both)).reshape(2, -1).T.ravel())

    def tasks(self, words: Words) -> list[ChangedRows]:
        """Return what reads the rows elsewhere."""
        schema, found = self.schema(words), self.changes
        before, after = found.updated
        parts = (
            (words.deleted, found.deleted, False),
            (words.inserted, found.inserted, True),
            (words.before, before, False),
            (words.after, after, True),
        )
        return [
            ChangedRows(schema, word, self._columns, self.sides[new].sources(some), some, new)
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
        return [
            *self._updated(old, new),
            *self._alone("insert", inserted),
            *self._alone("delete", deleted),
        ]

    def _values(self, addresses: Addresses, *, new: bool) -> dict[str, pa.Array]:
        columns = self._plan.columns
        values = row_values(columns, self.sides[new], addresses, new=new)
        return {pair.name: v for pair, v in zip(columns, values, strict=True)}

    def _told(
        self, values: Mapping[str, pa.Array], addresses: Addresses, *, new: bool
    ) -> list[dict[str, Any]]:
        """Return what tells rows to a person: their keys, or their row ids or addresses."""
        key = self._plan.key
        if key:
            told = pa.table({name: values[name] for name in key})
        else:
            name = "_rowid" if self._plan.way.startswith("row ids") else "_rowaddr"
            told = self.sides[new].read([name], addresses)
        return python_rows(told)

    def _updated(self, old: Addresses, new: Addresses) -> list[ChangedRow]:
        if not len(new):
            return []
        before, after = self._values(old, new=False), self._values(new, new=True)
        unlike = {name: differing(before[name], after[name]) for name in before}
        return [
            ChangedRow(
                "update",
                key,
                {
                    name: (python_value(before[name][row]), python_value(after[name][row]))
                    for name, cells in unlike.items()
                    if cells[row]
                },
            )
            for row, key in enumerate(self._told(after, new, new=True))
        ]

    def _alone(self, change: Literal["insert", "delete"], addresses: Addresses) -> list[ChangedRow]:
        if not len(addresses):
            return []
        new = change == "insert"
        values = self._values(addresses, new=new)
        rows = []
        for row, key in enumerate(self._told(values, addresses, new=new)):
            held = {
                name: python_value(column[row])
                for name, column in values.items()
                if name not in self._plan.key and column[row].is_valid
            }
            cells = {name: (None, v) if new else (v, None) for name, v in held.items()}
            rows.append(ChangedRow(change, key, cells))
        return rows
