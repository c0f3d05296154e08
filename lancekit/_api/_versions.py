"""The part of a dataset handle for versions: history, time travel, tags, branches, clones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Self

from lancekit._api._handle import Handle
from lancekit._api.time_travel import snapshot_as_of, snapshot_at, snapshot_to_restore
from lancekit._arguments.checks import check_count
from lancekit._checked import checked_methods
from lancekit._display import interactive
from lancekit._legible import shown, warn
from lancekit._versions.listing import latest_snapshot, list_versions
from lancekit._versions.references import Ref, parse_reference, resolve
from lancekit._versions.snapshot import load_snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from lancekit._api.answer import Answer
    from lancekit._api.branches import Branches
    from lancekit._api.history import History, Version
    from lancekit._api.tags import Tags
    from lancekit._format.transaction import Transaction
    from lancekit._operations.common.results import ApplyResult
    from lancekit._operations.lineage.conflicts import Resolve
    from lancekit._operations.lineage.three_way_plan import By


@checked_methods
class Versions(Handle):
    """Versions, tags, branches and clones."""

    @property
    def latest_version(self) -> int:
        """The newest version of the handle's branch."""
        return list_versions(self._location).latest

    @property
    def branch(self) -> str:
        """The name of the handle's branch; ``main`` for the main branch."""
        return self._location.name

    def versions(self) -> History:
        """Return the versions of the handle's branch, oldest first; each is read on access."""
        from lancekit._api.history import History

        return History(self._location)

    def version_refs(self) -> list[dict[str, int]]:
        """Return the numbers of the branch's versions, oldest first, without reading manifests."""
        return [{"version": version} for version in list_versions(self._location).versions]

    def get_version(self) -> Version:
        """Return the description of the handle's version."""
        from lancekit._api.history import describe_version

        return describe_version(self._snapshot)

    def checkout_version(self, version: Ref) -> Self:
        """Return a handle at another version.

        Parameters
        ----------
        version
            A version of this branch, a tag, or a pair of branch (``None``: main) and version
            (``None``: the newest).

        Raises
        ------
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            The version, tag or branch does not exist.
        """
        if version is None:
            raise InvalidTypeError(
                "No version was passed.", hint="checkout_latest() loads the newest."
            )
        found = parse_reference(version, self._location)
        opened = self._other(resolve(self._location, found))
        opened._pinned = found.is_version
        return opened

    def latest(self) -> Self:
        """Return a handle at the newest version of the branch; this handle does not move.

        Returns
        -------
        LanceDataset
            A handle, which can write even if this one is read-only.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://latest-example")
        >>> old = ds.at(1)
        >>> _ = ds.delete("true")
        >>> old.latest().version
        2
        """
        return self._other(latest_snapshot(self._location))

    def checkout_latest(self) -> Answer:
        """Move the handle to the newest version of its branch; `latest` returns another one."""
        self._pinned = False
        return self._done("checkout_latest", lambda snapshot: latest_snapshot(snapshot.location))

    def at(
        self,
        when: Ref | date | timedelta | None = None,
        *,
        asof: date | timedelta | str | None = None,
    ) -> Self:
        """Return a read-only handle that never moves.

        Parameters
        ----------
        when
            A version of this branch, a tag, a pair of branch and version, or a time as in `asof`.
            Text is the name of a tag.
        asof
            A time instead: the newest version committed until then.  A datetime, a date or its
            text (without a zone it is local time, and warns), or a negative timedelta from now.

        Returns
        -------
        LanceDataset
            A new handle.

        Raises
        ------
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            The version, tag or branch does not exist.  For a time before the first version, or one
            at which the version was cleaned up, the error names the nearest existing versions.
        InvalidArgumentError
            The timedelta is in the future, or not exactly one argument was given.

        Examples
        --------
        >>> import lancekit as lk
        >>> from datetime import timedelta
        >>> ds = lk.write_dataset({"x": [1]}, "memory://at-example")
        >>> ds.at(timedelta(0)).version
        1
        """
        if (when is None) is (asof is None):
            raise InvalidArgumentError(
                f"at() needs either when or asof, got when={shown(when)} and asof={shown(asof)}."
            )
        if asof is not None:
            return self._other(snapshot_as_of(self._location, asof), read_only=True)
        return self._other(snapshot_at(self._location, when), read_only=True)

    def restore(self, version: Ref | date | timedelta | None = None) -> Answer:
        """Commit a version of the branch again, as the newest version; the handle moves there.

        Parameters
        ----------
        version
            A number, a tag, or a time.  By default the handle's version.

        Raises
        ------
        VersionNotFoundError, TagNotFoundError
            It does not exist, or was cleaned up.
        InvalidArgumentError
            The version is on another branch.
        """
        from lancekit._operations.settings import restore_version

        old = snapshot_to_restore(self, version)
        self._pinned = False  # the usual way back: ds.checkout_version(3).restore()
        return self._done("restore", lambda _: restore_version(old), version=old.version)

    def undo(self) -> Answer:
        """Undo the newest change: the previous version is committed again, as the newest.

        Nothing is lost: the undone version stays in the history, and can be restored.  The handle
        moves to the new version.  A warning says so if the change was an undo itself, a compaction,
        or another commit that changed no rows: an undo of an undo brings the rows back.

        Raises
        ------
        RetryableConflictError
            The handle is not at the newest version, so the undo would drop unseen changes.
        VersionNotFoundError
            The previous version was cleaned up.
        InvalidArgumentError
            There is no previous version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://undo-example")
        >>> _ = ds.delete("true")
        >>> ds.undo()
        took back main:2 (delete): now 2 rows · main:3; ds.restore(2) brings it back
        """
        from lancekit._operations.settings import took_back, undo_version

        undone = self._snapshot
        answer = self._done("undo", undo_version)
        if text := took_back(undone, self._snapshot):
            warn(text)
        return answer

    def revert(
        self,
        version: int,
        *,
        on: str | Sequence[str] | None = None,
        by: By = "cell",
        conflicts: Resolve = "fail",
    ) -> ApplyResult:
        """Revert the row changes of one version, and keep later changes; the handle moves.

        Rows that later versions changed again are conflicts.  ``"ours"`` keeps their present
        values, ``"theirs"`` restores their values from before the version.  See `DatasetDiff.apply`
        and `diff` for the arguments.

        Parameters
        ----------
        version
            A version of this branch.
        on
            The key columns that identify a row.
        by, conflicts
            The granularity of conflicts, and their resolution.

        Returns
        -------
        ApplyResult
            The numbers of changed rows, and the new version.

        Raises
        ------
        MergeConflictError
            Rows that the version changed were changed again.
        VersionNotFoundError
            The version or its predecessor does not exist.
        SchemaMismatchError
            A later version changed a column in a different way than the version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://revert-example", primary_key="id")
        >>> _ = ds.delete("id = 1")
        >>> _ = ds.insert({"id": [3]}, mode="append")
        >>> dict(ds.revert(2))["num_inserted_rows"]
        1
        >>> sorted(ds.to_table()["id"].to_pylist())
        [1, 2, 3]
        """
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.lineage.branch_merge import revert_version
        from lancekit._operations.lineage.changed import merge_rules

        how = merge_rules("revert", on, by, conflicts)
        number = check_count("version", version, least=1)
        return self._move(lambda ours: revert_version(ours, number, how, RetryPolicy()))

    def read_transaction(self, version: int) -> Transaction | None:
        """Return the transaction of a version's commit, or ``None`` if none is recorded."""
        return load_snapshot(self._location, check_count("version", version)).transaction

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """Return the transactions of the latest commits up to the handle's version, newest first.

        The list has no gaps: it ends before the first version that was cleaned up.
        """
        count = check_count("recent_transactions", recent_transactions)
        existing = frozenset(list_versions(self._location).versions)
        numbers = range(self.version, max(self.version - count, 0), -1)
        return [
            self._snapshot.transaction if number == self.version else self.read_transaction(number)
            for number in takewhile(
                lambda number: number == self.version or number in existing, numbers
            )
        ]

    def explore(self, at: Ref | None = None, *, against: Ref | None = None) -> Any:
        """Return an explorer of the versions, branches and tags: a widget, and a card.

        In a notebook, the widget steps through versions, and shows rows, columns and changes.  It
        restores, tags, branches and promotes, each after a preview.  The handle does not move.
        Without a notebook or ipywidgets the card is shown.

        Parameters
        ----------
        at
            The first stop: a version of this branch, a tag, or a pair of branch and version; the
            handle's version by default.
        against
            The version that stops are compared with; each stop's predecessor by default.

        Returns
        -------
        lancekit._notebook.explorer.Explorer
            `handle` is a handle at the present stop, and `code` is the code of the view.

        Raises
        ------
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            The version, tag or branch does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://explore-example")
        >>> _ = ds.delete("x = 1")
        >>> ds.explore(1).code
        'ds.checkout_version(1).to_table(limit=10)'
        """
        return interactive("explorer", self, at, against)

    # ---- tags, branches, clones

    @property
    def tags(self) -> Tags[Self]:
        """The dataset's tags."""
        from lancekit._api.tags import Tags

        return Tags(self)

    @property
    def branches(self) -> Branches[Self]:
        """The dataset's branches."""
        from lancekit._api.branches import Branches

        return Branches(self)

    def create_branch(
        self,
        branch: str,
        reference: Ref | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> Self:
        """Create a branch, and return a handle on it; no data is copied.

        Parameters
        ----------
        branch
            The name of the branch; it can have segments separated by ``/``.
        reference
            The start of the branch: a version of this branch, a tag, or a pair of branch and
            version; the handle's version by default.
        storage_options
            If given, they must equal the dataset's.

        Returns
        -------
        LanceDataset
            A new handle, at the branch's newest version.

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
        >>> trial = ds.create_branch("trial")
        >>> _ = trial.insert({"x": [2]})
        >>> trial.count_rows(), ds.count_rows()
        (2, 1)
        """
        if storage_options and storage_options != self._location.storage_options:
            raise InvalidArgumentError(
                "create_branch() cannot change the storage_options of the dataset.",
                hint="Leave storage_options out: a branch is stored with its dataset.",
            )
        return self.branches.create(branch, reference)

    def shallow_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Ref | None = None,
        storage_options: dict[str, str] | None = None,
        **kwargs: object,
    ) -> Self:
        """Create a new dataset that shares this one's files, and return a handle on it.

        The clone starts at the cloned version, and has its own history.  It breaks if the shared
        files are removed: tag the version, and keep the tag as long as the clone.

        Parameters
        ----------
        target_path
            The path or URI of the clone.
        reference
            The version to clone: a version of this branch, a tag, or a pair of branch and version.
            By default, the version that the handle is at.
        storage_options
            The options of the clone's store.

        Returns
        -------
        LanceDataset
            A new handle on the clone.

        Raises
        ------
        DatasetExistsError
            There is a dataset at ``target_path`` already.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://cloned-example")
        >>> ds.shallow_clone("memory://clone-example").count_rows()
        1
        """
        from lancekit._commit.clock import Clock
        from lancekit._commit.refs import clone_version

        _refuse_kwargs("shallow_clone", kwargs)
        source = self._snapshot if reference is None else snapshot_at(self._location, reference)
        clone = clone_version(source, target_path, storage_options, Clock())
        return self._at(clone, os.fspath(target_path), self._scan_defaults)

    def deep_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Ref | None = None,
        storage_options: dict[str, str] | None = None,
        **kwargs: object,
    ) -> Self:
        """Copy one version with all of its files to a new dataset, and return a handle on it.

        The clone starts at the cloned version, has its own history, and does not depend on this
        dataset.  Files are copied in parts, also between different kinds of stores.  The dataset
        appears when the copy is complete.

        Parameters
        ----------
        target_path
            The path or URI of the clone.
        reference
            The version to clone: a version of this branch, a tag, or a pair of branch and version.
            By default, the version that the handle is at.
        storage_options
            The options of the clone's store.

        Returns
        -------
        LanceDataset
            A new handle on the clone.

        Raises
        ------
        DatasetExistsError
            There is a dataset at ``target_path`` already.
        CorruptFileError
            A file that the version needs is missing.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://copied-example")
        >>> ds.deep_clone("memory://copy-example").count_rows()
        1
        """
        from lancekit._commit.clock import Clock
        from lancekit._operations.maintenance.deepen import copy_version

        _refuse_kwargs("deep_clone", kwargs)
        source = self._snapshot if reference is None else snapshot_at(self._location, reference)
        clone = copy_version(source, target_path, storage_options, Clock())
        return self._at(clone, os.fspath(target_path), self._scan_defaults)


def _refuse_kwargs(method: str, kwargs: Mapping[str, object]) -> None:
    for name in kwargs:
        raise InvalidTypeError(f"{method}() has no argument {name!r}.", argument=name)
