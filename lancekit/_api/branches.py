"""The branches of a dataset: listing, deletion, comparison, merge, rebase and cherry-pick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, overload

from lancekit._api._handle import Handle
from lancekit._api.answer import Answer
from lancekit._api.branch_comparison import BranchComparison
from lancekit._api.hinting import hinting_operators
from lancekit._api.tags import NamesAndRefs, Pairs, Refs, check_name, ordered
from lancekit._arguments.checks import check_count
from lancekit._checked import checked_methods
from lancekit._commit import refs
from lancekit._commit.clock import Clock
from lancekit._format.refs import Branch
from lancekit._operations.common.results import ApplyResult
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.lineage.branch_merge import (
    BranchMergePlan,
    merge_branch,
    pick_version,
    plan_merge,
)
from lancekit._operations.lineage.changed import Rules, merge_rules
from lancekit._operations.lineage.conflicts import Resolve
from lancekit._operations.lineage.three_way_plan import By
from lancekit._versions import reference_files
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.references import Ref, parse_reference, resolve
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

T = TypeVar("T")
H_co = TypeVar("H_co", bound=Handle, covariant=True)


def _branch_dict(branch: Branch) -> dict[str, object]:
    return {
        "parent_branch": branch.parent_branch,
        "branch_identifier": list(branch.identifier),
        "parent_version": branch.parent_version,
        "create_at": branch.create_at,
        "manifest_size": branch.manifest_size,
        "metadata": dict(branch.metadata),
    }


@hinting_operators("__setitem__ __delitem__ __call__ __enter__ __exit__")
@checked_methods
class Branches(Refs[H_co]):
    """The branches of a dataset, without main.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1]}, "memory://branches-example")
    >>> trial = ds.branches.create("trial")
    >>> list(ds.branches), ds.branches["trial"].branch
    (['trial'], 'trial')
    """

    _columns = ("parent_branch", "parent_version", "create_at", "metadata")

    def __getitem__(self, branch: str) -> H_co:
        """Return a handle at the newest version of a branch, which can be ``"main"``."""
        check_name(branch, "branch")
        found = parse_reference((branch, None), self._location())
        return self._handle._other(resolve(self._location(), found))

    def create(self, branch: str, reference: Ref | None = None) -> H_co:
        """Create a branch, and return a handle on it; no data is copied.

        Parameters
        ----------
        branch
            The name of the branch; it can have segments separated by ``/``.
        reference
            The start of the branch: a version of this branch, a tag, or a pair of branch and
            version; the handle's version by default.

        Returns
        -------
        LanceDataset
            A handle at the start of the branch.

        Raises
        ------
        RefConflictError
            The branch exists already.
        InvalidArgumentError
            The name is not allowed.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://create-branch-example")
        >>> ds.branches.create("trial").branch
        'trial'
        """
        start = self._handle.version if reference is None else reference
        name = check_name(branch, "branch")
        return self._handle._other(refs.create_branch(self._location(), name, start, Clock()))

    def names(self) -> tuple[str, ...]:
        """Return the names of the branches, sorted; unlike `list`, this reads no file."""
        return tuple(reference_files.branch_files(self._location().root))

    def list(self) -> dict[str, dict[str, Any]]:
        """Return each branch's parent, fork version, creation time and metadata, by name."""
        found = reference_files.list_branches(self._location().root)
        return {name: _branch_dict(branch) for name, branch in found.items()}

    def list_ordered(self, order: Literal["asc", "desc"] | None = None) -> Pairs:
        """Return the branches by fork version, newest first unless ``order`` is ``"asc"``."""
        return self._pairs(reference_files.list_branches(self._location().root), order)

    def _names_and_refs(self, most: int) -> NamesAndRefs:
        """Return `names`, and `list_ordered` if there are at most ``most``, from one listing."""
        root = self._location().root
        files = reference_files.branch_files(root)
        found = None if len(files) > most else reference_files.list_branches(root, files)
        return tuple(files), None if found is None else self._pairs(found)

    def _pairs(self, found: Mapping[str, Branch], order: str | None = None) -> Pairs:
        names = ordered(found, order, lambda branch: branch.parent_version)
        return [(name, _branch_dict(found[name])) for name in names]

    def delete(self, branch: str) -> Answer:
        """Delete a branch and its own files.

        The folder of the branch is kept if it has no versions of the branch, or is behind a link.
        Then only the reference is deleted, with a warning.

        Raises
        ------
        BranchNotFoundError
            The branch does not exist, or is main.
        RefConflictError
            A tag or another branch needs the branch.  Or versions of other branches read its files,
            after ``merge(..., files="reference")``.
        """
        refs.delete_branch(self._location(), check_name(branch, "branch"))
        return self._done("branches.delete", branch=branch)

    def replace_metadata(self, branch: str, metadata: dict[str, str]) -> Answer:
        """Replace the key-value metadata of a branch.

        Parameters
        ----------
        branch
            The name of the branch.
        metadata
            The new texts by key.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        BranchNotFoundError
            The branch does not exist, or is main.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://branch-metadata-example")
        >>> _ = ds.create_branch("trial")
        >>> ds.branches.replace_metadata("trial", {"owner": "ada"})
        set metadata of branch trial: owner
        """
        name = check_name(branch, "branch")
        refs.replace_branch_metadata(self._location().root, name, metadata)
        return self._done("replace_metadata", ref=f"branch {name}", keys=[*metadata])

    # ---- transfer of changes between branches

    def cherry_pick(
        self,
        branch: str,
        version: int,
        *,
        on: str | Sequence[str] | None = None,
        by: By = "cell",
        conflicts: Resolve = "fail",
    ) -> ApplyResult:
        """Apply the row changes of one version of a branch to the handle's branch.

        The handle moves.

        Parameters
        ----------
        branch
            The other branch; ``"main"`` for the main branch.
        version
            The version whose changes are applied.
        on
            The key columns that identify a row, as in `LanceDataset.diff`.
        by, conflicts
            The granularity of conflicts, and their resolution, as in `DatasetDiff.apply`.

        Returns
        -------
        ApplyResult
            Counts of changed rows, and the new version.

        Raises
        ------
        MergeConflictError
            Both sides changed a row in different ways.
        BranchNotFoundError, VersionNotFoundError
            The branch, the version or its predecessor does not exist.
        SchemaMismatchError
            Both sides changed a column in different ways.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://pick-example", primary_key="id")
        >>> trial = ds.create_branch("trial")
        >>> _ = trial.delete("id = 1")
        >>> _ = trial.delete("id = 2")
        >>> dict(ds.branches.cherry_pick("trial", 2))["num_deleted_rows"]
        1
        """
        how = merge_rules("cherry-pick", on, by, conflicts)
        location = self._other(branch)
        number = check_count("version", version, least=1)
        return self._handle._move(
            lambda ours: pick_version(ours, location, number, how, RetryPolicy())
        )

    def compare(
        self,
        branch: str,
        *,
        on: str | Sequence[str] | None = None,
        by: By = "cell",
        base: int | str | tuple[str | None, int | None] | None = None,
    ) -> BranchComparison:
        """Compare a branch with the handle's branch, both at their newest versions.

        Parameters
        ----------
        branch
            The other branch; ``"main"`` for the main branch.
        on
            The key columns that identify a row, as in `LanceDataset.diff`.
        by
            The granularity of conflicts, as in `DatasetDiff.apply`.
        base
            The merge base, as in `merge`; 0 is a table without rows.

        Returns
        -------
        BranchComparison
            `ahead`, `behind`, `base`, the changes of each side since, and the `conflicts`.

        Raises
        ------
        BranchNotFoundError
            The branch does not exist.
        InvalidArgumentError
            There is no known common version, or one branch does not contain ``base``.
        VersionNotFoundError
            The merge base was cleaned up.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://compare-branch", primary_key="id")
        >>> _ = ds.create_branch("trial").delete("id = 1")
        >>> found = ds.branches.compare("trial")
        >>> found.ahead, found.behind, found.theirs_diff.counts.deleted
        (1, 0, 1)
        """
        how = self._with_base(base, merge_rules("merge", on, by, "fail"))
        return BranchComparison(self._other(branch), latest_snapshot(self._location()), how)

    @overload
    def merge(
        self,
        source: str,
        into: str | None = None,
        *,
        on: str | Sequence[str] | None = None,
        by: By = "cell",
        conflicts: Resolve = "fail",
        files: Literal["link", "reference"] = "link",
        base: int | str | tuple[str | None, int | None] | None = None,
        dry_run: Literal[False] = False,
    ) -> ApplyResult: ...
    @overload
    def merge(
        self,
        source: str,
        into: str | None = None,
        *,
        on: str | Sequence[str] | None = None,
        by: By = "cell",
        conflicts: Resolve = "fail",
        files: Literal["link", "reference"] = "link",
        base: int | str | tuple[str | None, int | None] | None = None,
        dry_run: Literal[True],
    ) -> BranchMergePlan: ...
    def merge(
        self,
        source: str,
        into: str | None = None,
        *,
        on: str | Sequence[str] | None = None,
        by: By = "cell",
        conflicts: Resolve = "fail",
        files: Literal["link", "reference"] = "link",
        base: int | str | tuple[str | None, int | None] | None = None,
        dry_run: bool = False,
    ) -> ApplyResult | BranchMergePlan:
        """Merge the changes of a branch since it forked, or since its last merge.

        The merge is one commit on the newest version of the target.  It happens at most once: a
        repeated merge finds the record of the first in the table's config.  A handle on the target
        moves.

        Parameters
        ----------
        source
            The branch with the changes; ``"main"`` for the main branch.
        into
            The target branch; the handle's branch by default.
        on
            The key columns that identify a row, as in `LanceDataset.diff`.
        by, conflicts
            The granularity of conflicts, and their resolution, as in `DatasetDiff.apply`; *ours* is
            the target.
        files
            The treatment of the branch's files in a fast-forward merge: ``"link"`` gives the target
            its own links or copies.  With ``"reference"`` the target reads, and needs, the files of
            the branch.
        base
            The merge base, if lancekit finds the wrong one or none: a version of the handle's
            branch, a tag, or a pair of branch and version.  Both branches must contain it. 0 merges
            by key without a base.  Then rows of the source alone are inserted, different rows are
            conflicts, and no row is deleted.
        dry_run
            Return a plan, and write nothing; ``apply()`` of the plan merges.

        Returns
        -------
        ApplyResult or BranchMergePlan
            The numbers of changed rows, and the new version; or the plan.

        Raises
        ------
        MergeConflictError
            Both branches changed a row in different ways.
        BranchNotFoundError
            A branch does not exist.
        InvalidArgumentError
            There is no key that identifies rows, or one branch does not contain ``base``.
        VersionNotFoundError
            The merge base was cleaned up.
        SchemaMismatchError
            Both branches changed a column in different ways.
        DuplicateKeysError
            One branch set a primary key, and the other has rows with duplicate keys.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://merge-branches", primary_key="id")
        >>> trial = ds.create_branch("trial")
        >>> _ = trial.delete("id = 1")
        >>> _ = ds.insert({"id": [3]}, mode="append")
        >>> dict(ds.branches.merge("trial"))["num_deleted_rows"]
        1
        >>> sorted(ds.to_table()["id"].to_pylist())
        [2, 3]
        """
        how = self._with_base(base, merge_rules("merge", on, by, conflicts, files))
        theirs, target = (
            self._other(source),
            self._location() if into is None else self._other(into),
        )
        if theirs == target:
            raise InvalidArgumentError(
                f"Cannot merge branch {source!r} into itself.",
                hint="Pass another source, or a target with into=.",
                source=source,
            )
        if dry_run:
            return plan_merge(theirs, target, how, lambda change: self._land(target, change))
        return self._merged(theirs, target, how)

    def rebase(
        self,
        branch: str,
        *,
        on: str | Sequence[str] | None = None,
        by: By = "cell",
        conflicts: Resolve = "fail",
        base: int | str | tuple[str | None, int | None] | None = None,
    ) -> ApplyResult:
        """Merge the changes of a branch's parent into the branch, as one commit.

        The versions of the branch keep their numbers.  A handle on the branch moves.

        Parameters
        ----------
        branch
            The name of the branch.
        on, by, conflicts, base
            As in `merge`; *ours* is the branch, *theirs* its parent.

        Returns
        -------
        ApplyResult
            Counts of changed rows, and the new version of the branch.

        Raises
        ------
        MergeConflictError, BranchNotFoundError, InvalidArgumentError, SchemaMismatchError
            As in `merge`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://rebase-branch", primary_key="id")
        >>> trial = ds.create_branch("trial")
        >>> _ = ds.delete("id = 1")
        >>> dict(trial.branches.rebase("trial"))["num_deleted_rows"]
        1
        """
        how = self._with_base(base, merge_rules("rebase", on, by, conflicts))
        location = self._other(branch)
        if location.branch is None:
            raise InvalidArgumentError(
                "The main branch has no parent to rebase on.",
                hint="To bring a branch's changes into main, use merge(source).",
                branch=branch,
            )
        parent = reference_files.get_branch(location.root, location.branch).parent_branch
        return self._merged(location.on(parent), location, how)

    def _merged(self, source: BranchLocation, target: BranchLocation, how: Rules) -> ApplyResult:
        return self._land(target, lambda newest: merge_branch(source, newest, how, RetryPolicy()))

    def _land(self, target: BranchLocation, change: Callable[[Snapshot], tuple[Snapshot, T]]) -> T:
        """Make a change of a branch's newest version; the handle moves if it is on the branch."""
        if target == self._location():
            return self._handle._move(lambda _: change(latest_snapshot(target)))
        self._handle._check_movable()
        return change(latest_snapshot(target))[1]

    def _with_base(self, base: object, how: Rules) -> Rules:
        """Return merge options with a base that the user names."""
        return how if base is None else replace(how, base=parse_reference(base, self._location()))

    def _other(self, branch: str) -> BranchLocation:
        """Return the location of an existing branch."""
        current = self._location()
        return resolve(current, parse_reference((branch, None), current)).location

    def _plain(self) -> str:
        return f"Branches({self._location().root.uri!r})"
