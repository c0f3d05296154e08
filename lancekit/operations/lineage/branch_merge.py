"""The changes of one branch on another, in one commit, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from lancekit.operations.common.results import ApplyResult, Counts
from lancekit.operations.common.retry import RetryPolicy
from lancekit.operations.lineage.apply_changes import (
    Changed,
    How,
    apply_changes,
    planned,
    result_of,
    said_of,
    settled_rows,
)
from lancekit.operations.lineage.conflicts import Conflicts
from lancekit.operations.lineage.fast_forward import (
    fast_forward,
    result_of_taken,
    what_is_taken,
)
from lancekit.operations.lineage.merge_base import implied_marks, mark_of, merge_base
from lancekit.operations.lineage.three_way import ThreeWay
from lancekit.operations.unmerged.waiting import check_merged
from lancekit.versions.ancestor import unique_name
from lancekit.versions.line import Line
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.snapshot import Snapshot

__all__ = ["BranchMergePlan", "changes_of", "merge_branch", "plan_merge"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BranchMergePlan(Counts):
    """What a merge of a branch would do; `apply` does it.

    The counts are those of rows, without the conflicts if they are to fail.

    Attributes
    ----------
    how
        ``"fast-forward"``, ``"three-way"`` or ``"nothing to do"``.
    columns_added
        The columns that the target lacks, and would get first.
    base
        The (branch, version) from which changes count.
    theirs, ours
        The (branch, version) of both sides.
    conflicts
        The rows of which both sides made something else.
    """

    _keys: ClassVar[tuple[str, ...]] = (
        "num_inserted_rows",
        "num_updated_rows",
        "num_deleted_rows",
        "num_conflicts",
    )
    doing: str
    how: str
    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int
    num_conflicts: int
    columns_added: tuple[str, ...]
    base: tuple[str, int]
    theirs: tuple[str, int]
    ours: tuple[str, int]
    conflicts: Conflicts
    _apply: Callable[[], ApplyResult] = field(repr=False)

    def apply(self) -> ApplyResult:
        """Do the merge, worked out anew on what both branches are now; see `Branches.merge`."""
        return self._apply()


def changes_of(source: Line, target: Snapshot) -> Changed:
    """Return what a branch has that a version of another does not have yet.

    Raises
    ------
    InvalidArgumentError, VersionNotFoundError
        Nobody can tell since when, or the branch has rows in shards that its versions lack.
    """
    theirs = latest_snapshot(source)
    check_merged(theirs, f"To merge branch {source.name!r}", drained=False)
    base = merge_base(theirs, target)
    properties = {
        **said_of(base.snapshot, theirs),
        "lancekit.apply.branch": unique_name(theirs.line),
    }
    return Changed(
        base=base.snapshot,
        theirs=theirs,
        properties=properties,
        twin=base.twin,
        unmerged=base.unmerged,
        mark=mark_of(theirs, target.line),
        implied=implied_marks(theirs, target),
    )


def merge_branch(
    source: Line, target: Snapshot, how: How, policy: RetryPolicy
) -> tuple[Snapshot, ApplyResult]:
    """Put what a branch changed into another, in one commit.

    Raises
    ------
    MergeConflictError, InvalidArgumentError, SchemaMismatchError
        As of `apply_changes`.
    """
    return apply_changes(
        target, lambda ours: changes_of(source, ours), how, policy, quick=fast_forward
    )


def plan_merge(
    source: Line, target: Snapshot, how: How, apply: Callable[[], ApplyResult]
) -> BranchMergePlan:
    """Return what `merge_branch` would do; nothing is written."""
    change = changes_of(source, target)
    taken = what_is_taken(change, target)
    if taken is not None:
        # with nothing that it could clash with
        none = planned(replace(change, base=target, theirs=target, twin=None), target, how)
        none = replace(none, theirs=change.theirs)
        return _plan(result_of_taken(taken, change, target, how), none, target, apply)
    plan = planned(change, target, how)
    if len(plan.clashes) and how.conflicts == "fail":
        settled, given = plan.agreed, None
    else:
        settled, given = settled_rows(plan, how.conflicts)
    found = result_of(plan, settled, given, change, how)
    done = "nothing to do" if plan.is_empty else "three-way"
    return _plan(replace(found, how=done, columns_added=plan.added), plan, target, apply)


def _plan(
    found: ApplyResult, plan: ThreeWay, target: Snapshot, apply: Callable[[], ApplyResult]
) -> BranchMergePlan:
    return BranchMergePlan(
        doing=found.doing,
        how=found.how,
        num_inserted_rows=found.num_inserted_rows,
        num_updated_rows=found.num_updated_rows,
        num_deleted_rows=found.num_deleted_rows,
        num_conflicts=len(plan.clashes),
        columns_added=found.columns_added,
        base=found.base,
        theirs=found.theirs,
        ours=target.reference,
        conflicts=Conflicts(plan),
        _apply=apply,
    )
