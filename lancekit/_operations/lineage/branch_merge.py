"""The changes of one branch, or of one version, on another, in one commit, once."""

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
    nothing_done,
    planned,
    result_of,
    settled_rows,
    sides_of,
)
from lancekit._operations.lineage.changed import Changed, How, check_how, said_of
from lancekit._operations.lineage.column_key import check_new_key
from lancekit._operations.lineage.conflicts import Conflicts, Resolve, choose_sides, settle
from lancekit._operations.lineage.fast_forward import fast_forward, result_of_taken, what_is_taken
from lancekit._operations.lineage.merge_base import merge_base, named_base
from lancekit._operations.unmerged.waiting import check_merged
from lancekit._versions.ancestor import unique_name
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.merge_edges import MERGED, REPEATS, check_requirements
from lancekit._versions.references import Reference
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, VersionNotFoundError

#: runs a change on the newest version of the line that gets it, and moves a handle on that
Land: TypeAlias = Callable[[Callable[[Snapshot], tuple[Snapshot, object]]], object]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BranchMergePlan(MergedChanges):
    """What a merge of a branch would do; `apply` does it.

    The counts are those of rows and of changed values (`num_changed_cells`), without the conflicts
    if they are to fail.

    Attributes
    ----------
    how
        ``"fast-forward"``, ``"three-way"`` or ``"nothing to do"``.
    columns_added, columns_dropped, columns_renamed, columns_cast, columns_altered
        What would become of columns, as of `ApplyResult`.
    base
        The (branch, version) from which changes count; version 0 is a table without rows.
    theirs, ours
        The (branch, version) of both sides.
    conflicts
        The rows, and the columns, that the two branches changed differently.
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
    _how: How = field(repr=False)
    _land: Land = field(repr=False)

    def apply(self) -> ApplyResult:
        """Do the merge, worked out anew on what both branches are now; see `Branches.merge`."""
        return cast(
            ApplyResult,
            self._land(lambda ours: merge_branch(self._source, ours, self._how, RetryPolicy())),
        )

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_land": _elsewhere}

    def resolved(self, conflicts: Resolve) -> BranchMergePlan:
        """Plan the same merge with conflicts settled in another way, on what both branches are now.

        Parameters
        ----------
        conflicts
            As of `Branches.merge`.

        Raises
        ------
        InvalidArgumentError
            Conflicts cannot be settled so.

        Examples
        --------
        >>> import lancekit as lk
        >>> rows = {"id": [1, 2], "price": [5, 6]}
        >>> ds = lk.write_dataset(rows, "memory://resolved-example", primary_key="id")
        >>> for line, price in ((ds.create_branch("trial"), 7), (ds, 8)):
        ...     _ = line.update({"price": str(price)})
        >>> plan = ds.branches.merge("trial", dry_run=True)
        >>> plan.num_unsettled, plan.resolved(lk.Sides(rows={1: "theirs"})).num_unsettled
        (2, 1)
        """
        how = self._how
        how = replace(check_how(how.doing, how.on, how.by, conflicts, how.files), base=how.base)
        return plan_merge(self._source, self._target, how, self._land)

    def interactive(self) -> Any:
        """Return the plan as a view in which sides are picked by clicks, by row and by column.

        It shows what would come of it, merges, and takes that back.  Where there is no ipywidgets,
        and in a saved notebook, it is this plan's card.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://picking-example", primary_key="id")
        >>> _ = ds.create_branch("trial").update({"id": "2"})
        >>> bench = ds.branches.merge("trial", dry_run=True).interactive()
        """
        return interactive("branches", self)


def _elsewhere(_: object) -> NoReturn:
    """Refuse to apply the copy of a plan, which has no handle."""
    raise InvalidArgumentError(
        "The plan was copied, or made in another process.",
        hint="Make a new one with merge(..., dry_run=True).",
    )


def changes_of(source: BranchLocation, target: Snapshot, named: Reference | None = None) -> Changed:
    """Return what a branch has that a version of another does not have yet.

    ``named`` is the merge base that the user names.

    Raises InvalidArgumentError, VersionNotFoundError: nobody can tell since when, or the branch has
        rows in shards that its versions lack.
    """
    theirs = latest_snapshot(source)
    for side in (theirs, target):  # before their keys are read
        check_requirements(side, "The merge")
    check_merged(theirs, f"To merge branch {source.name!r}", drained=False)
    change = merge_base(theirs, target) if named is None else named_base(theirs, target, named)
    properties = {**said_of(change.base, theirs), MERGED: unique_name(theirs.location)}
    if change.is_behind:
        # true of the next version alone: another one has the changes of other writers, too
        properties[REPEATS] = f"{target.version + 1}"
    return replace(change, properties=properties)


def merge_branch(
    source: BranchLocation, target: Snapshot, how: How, policy: RetryPolicy
) -> tuple[Snapshot, ApplyResult]:
    """Put what a branch changed into another, in one commit.

    Raises MergeConflictError, InvalidArgumentError, SchemaMismatchError: as of `apply_changes`.
    """
    how = with_key(how, target)
    return apply_changes(
        target, lambda ours: changes_of(source, ours, how.base), how, policy, quick=fast_forward
    )


def with_key(how: How, ours: Snapshot) -> How:
    """Return how to merge; without a base nothing but a key tells which rows are the same."""
    if how.base is None or how.base.version != 0 or how.on is not None:
        return how
    schema = ours.manifest.schema
    key = tuple(field.name for field in schema.primary_key)
    if not key or not set(schema.names).issuperset(key):
        raise InvalidArgumentError(
            f"A merge without a base (base=0) matches rows by a key, and {ours.location.name} has "
            "no primary key.",
            hint='Name columns that tell the rows: on=["id"].',
            argument="on",
        )
    return replace(how, on=key)


def plan_merge(
    source: BranchLocation, location: BranchLocation, how: How, land: Land
) -> BranchMergePlan:
    """Return what `merge_branch` would do to the newest version of a line; nothing is written.

    ``land`` runs a change on that version, and moves the handles that have to.
    """
    target = latest_snapshot(location)
    asked, how = how, with_key(how, target)
    change = changes_of(source, target, how.base)
    check_change(change, target, how)
    taken = what_is_taken(change, target)
    left = 0
    if taken is not None or change.is_merged:
        # with nothing that it could clash with
        none = replace(change, base=target, theirs=target, twin=None, source=None, further=())
        plan = replace(planned(none, target, how), base=change.base, theirs=change.theirs)
        found = nothing_done(change, target, how)
        if taken is not None:
            found = result_of_taken(taken, change, target, how)
    else:
        plan = planned(change, target, how)
        if callable(how.conflicts):
            settled = settled_rows(plan, how.conflicts)
        else:
            chosen = choose_sides(plan, sides_of(how.conflicts))
            settled, left = settle(plan, chosen), len(chosen.left)
        found = replace(result_of(plan, settled, change, how), how="three-way")
        left += len(plan.merged.unsettled)
        if not left:
            check_new_key(plan, settled)
    return BranchMergePlan(
        **{one.name: getattr(found, one.name) for one in fields(MergedChanges)},
        ours=target.reference,
        conflicts=Conflicts(plan),
        num_unsettled=left,
        _source=source,
        _target=location,
        _how=asked,
        _land=land,
    )


# ---- what one version did: taken back, or done on another branch, too


def revert_version(
    ours: Snapshot, version: int, how: How, policy: RetryPolicy
) -> tuple[Snapshot, ApplyResult]:
    """Put the inverse of what a version did into a newer version of its line.

    Raises MergeConflictError, SchemaMismatchError: as of `apply_changes`.
    Raises VersionNotFoundError: the version, or the one before, is not there.
    Raises InvalidArgumentError: the version comes later, or the branch has rows in shards that its
        versions lack.
    """
    if version > ours.version:
        raise InvalidArgumentError(
            f"Version {version} comes after version {ours.version}, which the handle is at.",
            hint="ds.checkout_latest() moves it to the newest.",
            version=version,
        )
    check_merged(latest_snapshot(ours.location), f"To revert version {version}")
    before, after = _step(ours.location, version)
    change = Changed(base=after, theirs=before, properties=said_of(after, before))
    return apply_changes(ours, lambda _: change, how, policy)


def pick_version(
    ours: Snapshot, location: BranchLocation, version: int, how: How, policy: RetryPolicy
) -> tuple[Snapshot, ApplyResult]:
    """Put what a version of another line did into a version.

    Raises MergeConflictError, SchemaMismatchError: as of `apply_changes`.
    Raises VersionNotFoundError: the version, or the one before, is not there.
    """
    before, after = _step(location, version)
    change = Changed(base=before, theirs=after, properties=said_of(before, after))
    return apply_changes(ours, lambda _: change, how, policy)


def _step(location: BranchLocation, version: int) -> tuple[Snapshot, Snapshot]:
    """Return the version before one, and the one."""
    after = load_snapshot(location, version)
    try:
        return load_snapshot(location, version - 1), after
    except VersionNotFoundError as error:
        raise VersionNotFoundError(
            f"{location.uri} has no version {version - 1}, so that nobody can tell what version "
            f"{version} did.",
            hint="It was cleaned up, or the first. ds.changes() has what is left together.",
            version=version - 1,
        ) from error
