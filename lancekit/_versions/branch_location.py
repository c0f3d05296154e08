"""The location of a branch: the main branch of a dataset, or one of its other branches."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lancekit._file.open_files import OpenFiles
from lancekit._format.names import MAIN, branch_folder
from lancekit._legible import shown
from lancekit._storage.base import Store
from lancekit._storage.places import open_base, open_store
from lancekit.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from lancekit._storage.base import Bytes
    from lancekit._versions.manifest_writers import CommitLock, Committer, ManifestStore

# ---- the default committer: a conditional put decides which of several writers wins a version


class _ConditionalPut:
    """The default `Committer`: the store itself decides which writer wins a version."""

    __slots__ = ()

    def put(self, store: Store, name: str, version: int, data: Bytes) -> bool:  # noqa: ARG002
        """Put a manifest if its name is free."""
        return store.put_if_absent(name, data)

    def settle(self, store: Store, version: int | None = None) -> bool:  # noqa: ARG002
        """Return ``False``: a single call of the store decides and finishes."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ConditionalPut)

    def __hash__(self) -> int:
        return hash(_ConditionalPut)


_CONDITIONAL = _ConditionalPut()
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchLocation:
    """The location of a branch's versions: `root` is the dataset's main folder.

    Tags and branches are listed below `root` for every branch.  `committer` decides which of
    several writers wins a version.  `open_files` caches the data files that were read last.
    """

    root: Store
    branch: str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False, hash=False)
    committer: Committer = _CONDITIONAL
    open_files: OpenFiles = field(default_factory=OpenFiles, compare=False, repr=False)

    @property
    def store(self) -> Store:
        """The folder of this branch's versions and new files."""
        return self.root.child(branch_folder(self.branch)) if self.branch else self.root

    @property
    def code(self) -> str:
        """The call that opens the newest version, for hints."""
        opened = f"lancekit.dataset({self.root.uri!r})"
        return f"{opened}.checkout_version(({self.branch!r}, None))" if self.branch else opened

    @property
    def uri(self) -> str:
        """The folder as a path or URI."""
        return self.store.uri

    @property
    def name(self) -> str:
        """The branch's name, ``main`` for the main branch."""
        return self.branch or MAIN

    def on(self, branch: str | None) -> BranchLocation:
        """Return the location of another branch of the same dataset."""
        return replace(self, branch=None if branch == MAIN else branch)

    def base(self, path: str) -> Store:
        """Open a base path; ``UntrustedBaseError`` if it is in a store that is not trusted."""
        return open_base(path, self.root, self.storage_options)

    def anchored(self, branch: str | None) -> BranchLocation:
        """Return the location below the dataset's main folder, if it was opened as a folder.

        A branch's folder can be opened by its path, like a dataset.  Then only the manifest names
        the ``branch``.
        """
        suffix = f"/{branch_folder(branch)}"
        if branch is None or self.branch is not None or not self.root.uri.endswith(suffix):
            return self
        root = open_store(self.root.uri.removesuffix(suffix), self.storage_options)
        return replace(self, root=root, branch=branch)


def open_location(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    manifest_store: ManifestStore | None = None,
    commit_lock: CommitLock | None = None,
) -> BranchLocation:
    """Return the location at a path or URI; nothing is read yet.

    Raises InvalidTypeError: the manifest store or the lock has the wrong type.
    Raises InvalidArgumentError: both are given, but only one can decide.
    """
    root = open_store(uri, storage_options)
    return BranchLocation(
        root=root,
        storage_options=dict(storage_options) if storage_options else None,
        committer=_committer(manifest_store, commit_lock),
    )


def check_new_place(location: BranchLocation) -> None:
    """Raise ``InvalidArgumentError`` if the reference could not open a dataset at a location.

    Its paths must not have control characters, even if the disk allows them.
    """
    found = _CONTROL.search(location.uri)
    if found:
        raise InvalidArgumentError(
            f"{shown(location.uri)} contains the character {found[0]!r}, with which no other "
            "Lance reader can open it.",
            hint="Choose a path without control characters, such as line breaks and tabs.",
            uri=location.uri,
        )


def check_same_place(
    location: BranchLocation,
    storage_options: Mapping[str, str] | None,
    manifest_store: ManifestStore | None = None,
    commit_lock: CommitLock | None = None,
) -> None:
    """Raise ``InvalidArgumentError`` if arguments differ from the settings of an open handle.

    The way to access and commit to a dataset is set once, when the handle is opened.
    """
    committer = _committer(manifest_store, commit_lock)
    differing = {
        "storage_options": storage_options and dict(storage_options) != location.storage_options,
        "manifest_store or commit_lock": committer not in (_CONDITIONAL, location.committer),
    }
    for name, differs in differing.items():
        if differs:
            raise InvalidArgumentError(
                f"{name} cannot be changed for a handle, which was opened with another one.",
                hint="Pass it to lancekit.dataset(), or give the dataset's URI instead.",
                argument=name,
            )


def _committer(manifest_store: ManifestStore | None, commit_lock: CommitLock | None) -> Committer:
    if manifest_store is None and commit_lock is None:
        return _CONDITIONAL
    from lancekit._versions.manifest_writers import ExternalManifests, LockedPut, ManifestStore

    if manifest_store is not None and commit_lock is not None:
        raise InvalidArgumentError(
            "manifest_store and commit_lock exclude each other.", hint="Pass one of the two."
        )
    if manifest_store is not None:
        if not isinstance(manifest_store, ManifestStore):
            raise InvalidTypeError(
                f"manifest_store must be a manifest store, got {shown(manifest_store)}.",
                hint='For example lancekit.SqliteManifestStore("commits.sqlite").',
            )
        return ExternalManifests(manifest_store)
    if commit_lock is None or not callable(commit_lock):
        raise InvalidTypeError(
            f"commit_lock must be a function, got {shown(commit_lock)}.",
            hint="Pass a function that takes a version number and returns a context manager.",
        )
    return LockedPut(commit_lock)
