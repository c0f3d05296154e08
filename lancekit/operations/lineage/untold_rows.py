"""Rows whose ids do not tell which rows of another version they are.

A merge of a table without a key gives rows that it inserts ids of the target's own.  So one row can
have two ids, and one id can mean two rows.  Of rows that are equal it does not matter which is
which.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lancekit.operations.lineage.diff import Changes, compare_rows
from lancekit.operations.lineage.diff_plan import DiffPlan
from lancekit.operations.lineage.rows import read_rows
from lancekit.pipeline.diff.side import Addresses
from lancekit.versions.snapshot import Snapshot

__all__ = ["are_untold", "paired_by_values"]


def paired_by_values(plan: DiffPlan, found: Changes) -> Changes:
    """Return changes without rows that are equal on both sides under ids that tell nothing.

    Examples
    --------
    A branch merged a row of main, and has it under an id of its own: no row came and none went.
    """
    if not _gave_ids_out(plan) or any(pair.old is None for pair in plan.columns):
        return found
    gone = _untold(plan, plan.old, found.deleted)
    come = _untold(plan, plan.new, found.inserted) if len(gone) else gone
    if not len(come):
        return found
    olds, news = compare_rows(replace(plan, way="whole rows"), gone, come).same
    return replace(
        found,
        deleted=np.setdiff1d(found.deleted, olds, assume_unique=True),
        inserted=np.setdiff1d(found.inserted, news, assume_unique=True),
        same=(np.concatenate([found.same[0], olds]), np.concatenate([found.same[1], news])),
    )


def are_untold(plan: DiffPlan, found: Changes) -> bool:
    """Tell whether rows that went may be rows that came, with other values."""
    return (
        _gave_ids_out(plan)
        and len(_untold(plan, plan.old, found.deleted)) > 0
        and len(_untold(plan, plan.new, found.inserted)) > 0
    )


def _gave_ids_out(plan: DiffPlan) -> bool:
    """Tell whether both sides gave ids out, which can mean other rows on the other side."""
    ends = {(side.line, side.version) for side in (plan.old, plan.new)}
    parted = plan.ancestor is not None and (plan.ancestor.line, plan.ancestor.version) not in ends
    return plan.way == "row ids" and parted and plan.old.manifest.next_row_id > plan.common_ids


def _untold(plan: DiffPlan, side: Snapshot, rows: Addresses) -> Addresses:
    """Return the rows of a side under ids that mean nothing on the other side."""
    if not len(rows):
        return rows
    ids = read_rows(side, rows).read(["_rowid"], rows)["_rowid"].to_numpy()
    return rows[ids >= plan.common_ids]
