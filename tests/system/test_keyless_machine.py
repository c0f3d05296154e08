"""Any order of changes and merges of a table without a key, whose rows are told by row ids.

The machine and the model are those of `test_lineage_machine`.  A row has a number that no other row
ever gets, and the model takes the number for a key.  So a row that a merge writes a second time is
found, and so is a row that a merge loses.  Some branches get the number as their primary key later.

Rows that a three-way merge or a pick inserted have other row ids in the target.  A merge may be
refused then.  Nothing records that a diff brought rows from or to a clone: such diffs are left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import lancekit as lk
from lancekit import errors
from tests.support import branch_steps as steps
from tests.support.branch_cases import Case, Line
from tests.support.branch_model import Node, Table
from tests.support.branch_steps import KEY, Draw, Step
from tests.system.test_lineage_machine import BranchMachine, done, left_out, run_histories

MARK = {"lance-schema:unenforced-primary-key": "true"}


def update(draw: Draw, side: Any, table: Table) -> Step | None:
    return steps.update(draw, side, table, some_rows(draw, table)) if table.rows else None


def delete(draw: Draw, side: Any, table: Table) -> Step | None:
    """Delete rows of which the other side may have changed one; some stay."""
    keys = some_rows(draw, table) if len(table.rows) > 2 else None
    return None if keys is None else steps.delete(draw, side, table, keys)


def some_rows(draw: Draw, table: Table) -> set[int]:
    return draw(st.sets(st.sampled_from(sorted(table.rows)), min_size=1, max_size=2))


class KeylessMachine(BranchMachine):
    """Branches of a table with stable row ids, and without a key at first."""

    is_stable = True

    def __init__(self) -> None:
        super().__init__()
        self.numbers = count(100)
        self.row_steps = (self.insert, update, update, update, delete, delete)

    def insert(self, draw: Draw, side: Any, table: Table) -> Step | None:
        """Insert rows with numbers that no row had."""
        keys = [next(self.numbers) for _ in range(draw(st.integers(1, 2)))]
        return steps.insert(draw, side, table, keys)

    def first_table(self, data: Any) -> tuple[Table, pa.Table]:
        table, rows = steps.first_table(data.draw)
        return table, rows.cast(pa.schema([KEY.remove_metadata(), *list(rows.schema)[1:]]))

    def why_untold(self, error: errors.LancekitError) -> str | None:
        text = str(error)
        if "cannot be matched: " in text or "match their rows differently" in text:
            return "nothing tells which rows are the same"
        return super().why_untold(error)

    def case(
        self,
        doing: str,
        bases: Sequence[Node],
        theirs: Node,
        ours: Node,
        whose: str,
        source: Line | None = None,
        *,
        named: bool = False,
        is_across: bool = False,
    ) -> Case | None:
        case = super().case(doing, bases, theirs, ours, whose, source, named=named)
        if case is None:
            return None
        came = theirs.table.rows.keys() - bases[0].table.rows.keys()
        is_across |= self.has_clone([*bases, theirs, ours])
        if came and not case.is_edge and is_across:
            left_out["rows of a clone, or for a clone"] += 1
            return None
        return replace(case, by_ids=True)

    @precondition(lambda self: len(self.branches) > 1)
    @rule(data=st.data())
    def set_the_key(self, data: Any) -> None:
        """Seldom: what follows is told by the key."""
        line = self.draw_line(data)
        if data.draw(st.integers(0, 9), label="dice") or line.branch == "clone":
            return
        step = Step(
            "the key is k",
            lambda ds: ds.update_field_metadata({"k": MARK}),
            lambda table: replace(table, has_key=True),
        )
        self.take(line, lk, step)


@pytest.mark.torture
def test_any_order_without_a_key(whole: bool) -> None:
    first = int(os.environ.get("LANCEKIT_TEST_SEED", "0"))
    done.clear()
    with lk.options(fsync=False):
        if not whole:
            run_histories(first, 6, 20, (Phase.generate,), KeylessMachine)
            return
        last = first + 50
        for number in range(first, last):
            run_histories(number, 6, 40, tuple(Phase), KeylessMachine)
    print(f"seeds {first} to {last - 1}: {done['histories']} histories, {done['steps']} steps")
    assert done["steps"] >= 10_000
