"""Rows whose ids do not tell which rows of another version they are.

A merge of a table without a key gives rows that it inserts ids of the target's own.  So one row can
have two ids, and one id can mean two rows.  Of rows that are equal it does not matter which is
which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lancekit._legible import count
from lancekit._operations.lineage.diff import Changes, compare_rows
from lancekit._operations.lineage.diff_plan import DiffPlan
from lancekit._operations.lineage.rows import read_rows
from lancekit._pipeline.diff.side import Addresses
from lancekit._versions.commit_graph import CommitGraph
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = ["check_inserted", "check_returned", "check_rows_of_new", "check_told"]
__all__ += ["paired_by_values"]


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


def check_told(plan: DiffPlan, found: Changes) -> None:
    """Refuse to merge changes of rows if nothing tells which rows are the same.

    Raises
    ------
    InvalidArgumentError
        There is no key that stands once, and no row ids of a common version.
    """
    if plan.way == "whole rows" or _are_untold(plan, found):
        raise _error(plan, "both sides changed some")
    if found.ambiguous:
        raise InvalidArgumentError(
            f"Rows that differ between {_sides(plan)} share their key ({', '.join(plan.key)}) with "
            f"other rows: {count(found.ambiguous)} in all.",
            hint=f"ds.duplicates({list(plan.key)!r}) shows such rows of a version. Delete all but "
            "one of each key on both sides, or name columns in `on` whose values stand once.",
            ambiguous=found.ambiguous,
        )


def check_rows_of_new(brings: DiffPlan, other: DiffPlan, found: Changes) -> None:
    """Refuse new columns of a side if the other one may have some of its rows under other ids.

    These would be rows without values in the new columns.
    """
    new = [pair.name for pair in brings.columns if pair.old is None]
    if new and _are_untold(other, found):
        names = ", ".join(map(repr, new))
        raise _error(other, f"one side has new columns ({names})")


def check_inserted(between: DiffPlan, base: Snapshot, theirs: Changes, ours: Changes) -> None:
    """Refuse rows that both sides inserted since a base if the two merged since that base.

    One side may have rows of the other one under ids of its own. Where ours contains theirs, it may
    have lost the rows and got them back since.
    """
    sides = between.old, between.new
    if between.way != "row ids" or sides[0].line.root != sides[1].line.root:
        return
    if not (len(theirs.inserted) and len(_untold(between, between.new, ours.inserted))):
        return
    graph = CommitGraph(between.new.line)
    have_met = len(_untold(between, between.old, theirs.inserted)) > 0 and (
        graph.have_met_since(base, *sides)
    )
    # a version that is reverted, or picked again
    is_contained = any(graph.contains(one, between.old) for one in (base, between.new))
    if have_met or (is_contained and graph.have_returned_since([base], between.new)):
        why = "a merge or a pick brought rows of one side to the other"
        raise _error(between, f"both sides inserted some since {base.called}, and {why} since")


def check_returned(
    plan: DiffPlan, found: Changes, other: DiffPlan, changed: Changes, bases: Sequence[Snapshot]
) -> None:
    """Refuse rows that a side deleted and got back under new ids, if the other side changed them.

    Parameters
    ----------
    plan, found
        What the side did since a merge base.
    other, changed
        What the other side did; a new column has values of all rows.
    bases
        All merge bases.
    """
    if plan.way != "row ids" or not (len(found.deleted) and len(found.inserted)):
        return
    both = np.isin(found.deleted, np.concatenate([changed.deleted, changed.updated[0]])).any()
    has_new = any(pair.old is None for pair in other.columns)
    if (both or has_new) and CommitGraph(plan.new.line).have_returned_since(bases, plan.new):
        why = "changed some of these rows" if both else "has new columns"
        brought = "a merge or a pick brought back rows that the latter had deleted"
        raise _error(plan, f"{brought}, and {other.new.called} {why}")


def _error(plan: DiffPlan, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Nothing tells which rows of {_sides(plan)} are the same, and {why}: there is no key, nor "
        "are there row ids that both got from a common version.",
        hint='Name columns that tell the rows: on=["id"].',
    )


def _sides(plan: DiffPlan) -> str:
    return f"{plan.old.called} and {plan.new.called}"


def _are_untold(plan: DiffPlan, found: Changes) -> bool:
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
