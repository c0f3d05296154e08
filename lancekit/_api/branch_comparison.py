"""The comparison of two branches: their changes since the merge base."""

from __future__ import annotations

from lancekit._api.diff import DatasetDiff, diff_of
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._lazy import cached_property
from lancekit._operations.lineage.apply_changes import planned
from lancekit._operations.lineage.branch_merge import changes_of, with_key
from lancekit._operations.lineage.changed import Rules
from lancekit._operations.lineage.conflicts import Conflicts
from lancekit._operations.lineage.fast_forward import plan_fast_forward
from lancekit._operations.lineage.merge_base import commits_unmerged
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot


@checked_methods
class BranchComparison(Displayed):
    """A comparison of two branches; `Branches.compare` returns it, and reads no rows.

    *Ours* is the handle's branch and *theirs* the other one, as in a merge.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://compare-branches", primary_key="id")
    >>> trial = ds.create_branch("trial")
    >>> _ = trial.delete("id = 1")
    >>> _ = ds.insert({"id": [3]}, mode="append")
    >>> found = ds.branches.compare("trial")
    >>> found.ahead, found.behind, found.base
    (1, 1, ('main', 1))
    >>> found.theirs_diff.counts.deleted, found.ours_diff.counts.inserted, len(found.conflicts)
    (1, 1, 0)
    """

    def __init__(self, source: BranchLocation, ours: Snapshot, how: Rules) -> None:
        how = with_key(how, ours)
        self._change = changes_of(source, ours, how.base)
        self._ours = ours
        self._how = how

    @property
    def theirs(self) -> tuple[str, int]:
        """The other branch, and its newest version."""
        return self._change.theirs.reference

    @property
    def ours(self) -> tuple[str, int]:
        """The handle's branch, and its newest version."""
        return self._ours.reference

    @property
    def base(self) -> tuple[str, int]:
        """The newest common version, or the one passed as ``base``; 0 is a table without rows."""
        return self._change.base.reference

    @cached_property
    def ahead(self) -> int:
        """The number of versions of the other branch that are not merged yet."""
        return commits_unmerged(self._change.theirs, self._ours)

    @cached_property
    def behind(self) -> int:
        """The number of versions of the handle's branch that are not in the other branch."""
        return commits_unmerged(self._ours, self._change.theirs)

    @cached_property
    def is_fast_forward(self) -> bool:
        """True if a merge would be a fast-forward: it reuses the fragments of the branch."""
        return plan_fast_forward(self._change, self._ours) is not None

    @cached_property
    def theirs_diff(self) -> DatasetDiff:
        """The changes of the other branch since the merge base."""
        return self._diff(self._change.before, self._change.theirs)

    @cached_property
    def ours_diff(self) -> DatasetDiff:
        """The changes of the handle's branch since the merge base."""
        return self._diff(self._change.our_copy or self._change.base, self._ours)

    @cached_property
    def conflicts(self) -> Conflicts:
        """The rows that both sides changed in different ways.

        Raises
        ------
        InvalidArgumentError
            There is no key that identifies rows.
        SchemaMismatchError
            It is unknown whether a column was renamed.
        """
        return Conflicts(planned(self._change, self._ours, self._how))

    @property
    def is_compared(self) -> bool:
        """True if the conflicts have been computed already."""
        return "conflicts" in self.__dict__

    def _diff(self, old: Snapshot, new: Snapshot) -> DatasetDiff:
        return diff_of(old, new, on=self._how.on, condition=None, columns=None)

    def _plain(self) -> str:
        return f"BranchComparison({self._change.theirs.called} beside {self._ours.called})"
