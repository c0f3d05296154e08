"""Merge a branch, revert a version, or cherry-pick a version, each in one commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NoReturn, TypeAlias, cast

from lancekit._display import interactive
from lancekit._operations.common.results import ApplyResult, MergedChanges
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.lineage.apply_changes import (
    apply_changes,
    check_change,
    planned,
    result_of,
    settled_rows,
    sides_of,
    unchanged_result,
)
from lancekit._operations.lineage.changed import Changed, Rules, commit_ends, merge_rules
from lancekit._operations.lineage.column_key import check_new_key
from lancekit._operations.lineage.conflicts import Conflicts, Resolve, choose_sides, settle
from lancekit._operations.lineage.fast_forward import (
    fast_forward,
    fast_forward_result,
    plan_fast_forward,
)
from lancekit._operations.lineage.merge_base import merge_base, named_base
from lancekit._operations.unmerged.waiting import check_merged
from lancekit._versions.ancestor import unique_name
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.merge_edges import MERGED, REPEATS, check_requirements
from lancekit._versions.references import Reference
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, VersionNotFoundError

#: runs a change on the newest version of the target branch, and moves the handle of that branch
Land: TypeAlias = Callable[[Callable[[Snapshot], tuple[Snapshot, object]]], object]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BranchMergePlan(MergedChanges):
    """A planned merge of a branch; `apply` executes it.

    It counts rows and changed values (`num_changed_cells`).  Conflicts without a chosen side are
    not counted.

    Attributes
    ----------
    how
        ``"fast-forward"``, ``"three-way"`` or ``"nothing to do"``.
    columns_added, columns_dropped, columns_renamed, columns_cast, columns_altered
        The planned changes of columns, as in `ApplyResult`.
    base
        The (branch, version) of the merge base; version 0 is a table without rows.
    theirs, ours
        The (branch, version) of the source and of the target.
    conflicts
        The rows and the columns that the two branches changed differently.
    num_unsettled
        The number of conflicts without a chosen side.
    """

    _keys: ClassVar[tuple[str, ...]] = (
        "num_inserted_rows",
        "num_updated_rows",
        "num_deleted_rows",
        "num_conflicts",
    )
    ours: tuple[str, int]
    conflicts: Conflicts
    num_unsettled: int
    _source: BranchLocation = field(repr=False)
    _target: BranchLocation = field(repr=False)
    _rules: Rules = field(repr=False)
    _land: Land = field(repr=False)

    def apply(self) -> ApplyResult:
        """Merge the newest versions of both branches; see `Branches.merge`."""
        return cast(
            ApplyResult,
            self._land(lambda ours: merge_branch(self._source, ours, self._rules, RetryPolicy())),
        )

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_land": _refuse_copy}

    def resolved(self, conflicts: Resolve) -> BranchMergePlan:
        """Plan the same merge of the newest versions with another choice for conflicts.

        Parameters
        ----------
        conflicts
            As in `Branches.merge`.

        Raises
        ------
        InvalidArgumentError
            The value is no valid choice for conflicts.

        Examples
        --------
        >>> import lancekit as lk
        >>> rows = {"id": [1, 2], "price": [5, 6]}
        >>> ds = lk.write_dataset(rows, "memory://resolved-example", primary_key="id")
        >>> for side, price in ((ds.create_branch("trial"), 7), (ds, 8)):
        ...     _ = side.update({"price": str(price)})
        >>> plan = ds.branches.merge("trial", dry_run=True)
        >>> plan.num_unsettled, plan.resolved(lk.Sides(rows={1: "theirs"})).num_unsettled
        (2, 1)
        """
        rules = self._rules
        rules = replace(
            merge_rules(rules.doing, rules.on, rules.by, conflicts, rules.files), base=rules.base
        )
        return plan_merge(self._source, self._target, rules, self._land)

    def interactive(self) -> Any:
        """Return a view of the plan in which clicks choose the side of a row or of a column.

        The view shows the result, merges, and undoes the merge.  Without ipywidgets, and in a saved
        notebook, it is the card of this plan.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://picking-example", primary_key="id")
        >>> _ = ds.create_branch("trial").update({"id": "2"})
        >>> bench = ds.branches.merge("trial", dry_run=True).interactive()
        """
        return interactive("branches", self)


def _refuse_copy(_: object) -> NoReturn:
    """Refuse to apply a copy of a plan: a copy has no handle to move."""
    raise InvalidArgumentError(
        "The plan was copied or unpickled, so it cannot be applied.",
        hint="Create a new plan with merge(..., dry_run=True).",
    )


def changes_of(source: BranchLocation, target: Snapshot, named: Reference | None = None) -> Changed:
    """Return the changes of a branch that a version of another branch does not contain.

    ``named`` is the merge base that the user named, if any.

    Raises InvalidArgumentError, VersionNotFoundError: the merge base is unknown, or the branch has
        rows in shards that its versions lack.
    """
    theirs = latest_snapshot(source)
    for side in (theirs, target):  # before the merge marks of either are read
        check_requirements(side, "The merge")
    check_merged(theirs, f"Merging branch {source.name!r}", drained=False)
    change = merge_base(theirs, target) if named is None else named_base(theirs, target, named)
    properties = {**commit_ends(change.base, theirs), MERGED: unique_name(theirs.location)}
    if change.is_behind:
        # holds for the next version only: a later one has changes of other writers, too
        properties[REPEATS] = f"{target.version + 1}"
    return replace(change, properties=properties)


def merge_branch(
    source: BranchLocation, target: Snapshot, rules: Rules, policy: RetryPolicy
) -> tuple[Snapshot, ApplyResult]:
    """Merge the changes of a branch into another branch, in one commit.

    Raises MergeConflictError, InvalidArgumentError, SchemaMismatchError: as in `apply_changes`.
    """
    rules = with_key(rules, target)
    return apply_changes(
        target, lambda ours: changes_of(source, ours, rules.base), rules, policy, fast_forward
    )


def with_key(rules: Rules, ours: Snapshot) -> Rules:
    """Return the rules; without a merge base (``base=0``), with the primary key in `on`."""
    if rules.base is None or rules.base.version != 0 or rules.on is not None:
        return rules
    schema = ours.manifest.schema
    key = tuple(field.name for field in schema.primary_key)
    if not key or not set(schema.names).issuperset(key):
        raise InvalidArgumentError(
            f"A merge without a base (base=0) matches rows by key, but {ours.location.name} has "
            "no primary key.",
            hint='Pass columns that identify each row: on=["id"].',
            argument="on",
        )
    return replace(rules, on=key)


def plan_merge(
    source: BranchLocation, location: BranchLocation, rules: Rules, land: Land
) -> BranchMergePlan:
    """Plan `merge_branch` on the newest version of a target branch; nothing is written.

    ``land`` runs the planned change on the newest version, and moves the user's handle.
    """
    target = latest_snapshot(location)
    requested, rules = rules, with_key(rules, target)
    change = changes_of(source, target, rules.base)
    check_change(change, target, rules)
    forward = plan_fast_forward(change, target)
    unsettled = 0
    if forward is not None or change.is_merged:
        # a plan without changes, so without conflicts
        none = replace(
            change, base=target, theirs=target, our_copy=None, their_copy=None, other_bases=()
        )
        plan = replace(planned(none, target, rules), base=change.base, theirs=change.theirs)
        found = unchanged_result(change, target, rules)
        if forward is not None:
            found = fast_forward_result(forward, change, target, rules)
    else:
        plan = planned(change, target, rules)
        if callable(rules.conflicts):
            settled = settled_rows(plan, rules.conflicts)
        else:
            chosen = choose_sides(plan, sides_of(rules.conflicts))
            settled, unsettled = settle(plan, chosen), len(chosen.left)
        found = replace(result_of(plan, settled, change, rules), how="three-way")
        unsettled += len(plan.merged.unsettled)
        if not unsettled:
            check_new_key(plan, settled)
    return BranchMergePlan(
        **{one.name: getattr(found, one.name) for one in fields(MergedChanges)},
        ours=target.reference,
        conflicts=Conflicts(plan),
        num_unsettled=unsettled,
        _source=source,
        _target=location,
        _rules=requested,
        _land=land,
    )


# ---- the changes of one version: reverted, or picked onto another branch


def revert_version(
    ours: Snapshot, version: int, rules: Rules, policy: RetryPolicy
) -> tuple[Snapshot, ApplyResult]:
    """Apply the inverse of a version's changes to a newer version of its branch.

    Raises MergeConflictError, SchemaMismatchError: as in `apply_changes`.
    Raises VersionNotFoundError: the version, or the previous version, does not exist.
    Raises InvalidArgumentError: the version is newer than ``ours``, or the branch has rows in
        shards that its versions lack.
    """
    if version > ours.version:
        raise InvalidArgumentError(
            f"Version {version} is newer than version {ours.version} of this handle.",
            hint="Call ds.checkout_latest() first.",
            version=version,
        )
    check_merged(latest_snapshot(ours.location), f"Reverting version {version}")
    before, after = _version_pair(ours.location, version)
    change = Changed(base=after, theirs=before, properties=commit_ends(after, before))
    return apply_changes(ours, lambda _: change, rules, policy)


def pick_version(
    ours: Snapshot, location: BranchLocation, version: int, rules: Rules, policy: RetryPolicy
) -> tuple[Snapshot, ApplyResult]:
    """Apply the changes of a version of another branch (a cherry-pick).

    Raises MergeConflictError, SchemaMismatchError: as in `apply_changes`.
    Raises VersionNotFoundError: the version, or the previous version, does not exist.
    """
    before, after = _version_pair(location, version)
    change = Changed(base=before, theirs=after, properties=commit_ends(before, after))
    return apply_changes(ours, lambda _: change, rules, policy)


def _version_pair(location: BranchLocation, version: int) -> tuple[Snapshot, Snapshot]:
    """Return the previous version, then the version."""
    after = load_snapshot(location, version)
    try:
        return load_snapshot(location, version - 1), after
    except VersionNotFoundError as error:
        raise VersionNotFoundError(
            f"The changes of version {version} are unknown: {location.uri} has no version "
            f"{version - 1}.",
            hint=f"It was cleaned up, or version {version} is the first. ds.changes() shows the "
            "changes between the remaining versions.",
            version=version - 1,
        ) from error
