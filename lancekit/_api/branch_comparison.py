"""`BranchComparison`: what two branches did since they had the same rows."""

from __future__ import annotations

from lancekit._api.diff import DatasetDiff, diff_of
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._lazy import cached_property
from lancekit._operations.lineage.apply_changes import planned
from lancekit._operations.lineage.branch_merge import changes_of, with_key
from lancekit._operations.lineage.changed import How
from lancekit._operations.lineage.conflicts import Conflicts
from lancekit._operations.lineage.fast_forward import what_is_taken
from lancekit._operations.lineage.merge_base import commits_unmerged
from lancekit._versions.line import Line
from lancekit._versions.snapshot import Snapshot

__all__ = ["BranchComparison"]


@checked_methods
class BranchComparison(Displayed):
    """A branch beside another one; `Branches.compare` makes it, and reads no rows yet.

    *Ours* is the handle's branch, *theirs* the one that it is compared with, as in a merge.

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

    def __init__(self, source: Line, ours: Snapshot, how: How) -> None:
        how = with_key(how, ours)
        self._change = changes_of(source, ours, how.base)
        self._ours = ours
        self._how = how

    @property
    def theirs(self) -> tuple[str, int]:
        """The branch that is compared, and its newest version."""
        return self._change.theirs.reference

    @property
    def ours(self) -> tuple[str, int]:
        """The handle's branch, and its newest version."""
        return self._ours.reference

    @property
    def base(self) -> tuple[str, int]:
        """The newest version that both contain, or the one that was named; version 0 is none."""
        return self._change.base.reference

    @cached_property
    def ahead(self) -> int:
        """How many versions the branch has that are not merged yet."""
        return commits_unmerged(self._change.theirs, self._ours)

    @cached_property
    def behind(self) -> int:
        """How many versions this branch has that the other one does not have in it."""
        return commits_unmerged(self._ours, self._change.theirs)

    @cached_property
    def is_fast_forward(self) -> bool:
        """Whether a merge would take the branch's fragments over as they are."""
        return what_is_taken(self._change, self._ours) is not None

    @cached_property
    def theirs_diff(self) -> DatasetDiff:
        """What the branch changed since."""
        return self._diff(self._change.before, self._change.theirs)

    @cached_property
    def ours_diff(self) -> DatasetDiff:
        """What this branch changed since."""
        return self._diff(self._change.twin or self._change.base, self._ours)

    @cached_property
    def conflicts(self) -> Conflicts:
        """The rows of which both made something else.

        Raises
        ------
        InvalidArgumentError
            Nothing tells which rows are the same.
        SchemaMismatchError
            Columns changed, too.
        """
        return Conflicts(planned(self._change, self._ours, self._how))

    @property
    def is_compared(self) -> bool:
        """Whether conflicts were looked for already."""
        return "conflicts" in self.__dict__

    def _diff(self, old: Snapshot, new: Snapshot) -> DatasetDiff:
        return diff_of(old, new, on=self._how.on, condition=None, columns=None)

    def _plain(self) -> str:
        return f"BranchComparison({self._change.theirs.called} beside {self._ours.called})"
