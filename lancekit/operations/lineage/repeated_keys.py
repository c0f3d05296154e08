"""Keys that would stand twice in the result of a three-way merge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lancekit.errors import MergeConflictError
from lancekit.legible import literals, python_value
from lancekit.operations.lineage.rows import read_rows
from lancekit.operations.lineage.three_way_plan import ThreeWay
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.pipeline.diff.match import stand_among
from lancekit.pipeline.diff.row_values import row_digests, row_values
from lancekit.pipeline.diff.values import Seeds

__all__ = ["check_keys"]


def check_keys(plan: ThreeWay) -> None:
    """Refuse keys that would stand twice.

    Rows may be told by ids, and both sides may have given a key to another row; or a side wrote
    a second row of a key without a look, as pylance does, and the other side updated the first.
    """
    seeds = Seeds.drawn()
    key = [pair for pair in plan.columns if pair.name in plan.key]
    kept = np.concatenate([plan.mine.inserted, plan.mine.updated[1]])
    came = np.concatenate([plan.agreed.inserted, plan.changes.updated[1]])
    if not (len(kept) and len(came)):
        return
    ours = row_digests(key, read_rows(plan.ours, kept), kept, seeds, new=True)
    theirs = row_digests(key, read_rows(plan.theirs, came), came, seeds, new=False)
    twice = stand_among(theirs, ours)
    # a row that both sides have may well have its key on both
    _, left, right = np.intersect1d(
        plan.changes.updated[0], plan.mine.updated[0], assume_unique=True, return_indices=True
    )
    left += len(plan.agreed.inserted)
    one, other = theirs.at(left), ours.at(right + len(plan.mine.inserted))
    twice[left[(one.first == other.first) & (one.second == other.second)]] = False
    if twice.any():
        raise _twice(plan, key, came[twice][0])


def _twice(plan: ThreeWay, key: Sequence[ColumnPair], row: Any) -> MergeConflictError:
    rows = np.array([row], np.uint64)
    values = row_values(key, read_rows(plan.theirs, rows), rows, new=False)
    named = literals({p.name: python_value(v[0]) for p, v in zip(key, values, strict=True)})
    return MergeConflictError(
        f"Both {plan.theirs.called} and {plan.ours.called} have a row with {named}, and they are "
        "not the same row.",
        hint="Change the key of one of them, or delete it; then do it again.",
        key=named,
    )
