"""Committers without a conditional put, and a manifest store in SQLite.

A store with a conditional put decides itself which of several writers wins a version
(`branch_location`).  For other stores, something else must decide: a lock, or a small database that
records which manifest won (an *external manifest store*).  All writers of a dataset must use the
same committer.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from lancekit._checked import checked_methods
from lancekit._legible import shown
from lancekit._storage.base import Bytes, Store
from lancekit.errors import CorruptFileError, InvalidTypeError, StorageError

CommitLock: TypeAlias = Callable[[int], AbstractContextManager[object]]
"""Called with a version number; excludes all other writers of the dataset during its block."""


class Committer(Protocol):
    """Puts a version's manifest under its name, if no other writer has committed the version."""

    def put(self, store: Store, name: str, version: int, data: Bytes) -> bool:
        """Put a manifest; ``False`` if the version is taken."""

    def settle(self, store: Store, version: int | None = None) -> bool:
        """Finish a commit that was decided but interrupted, by default of the newest version.

        Return True if there was one.
        """


@dataclass(frozen=True, slots=True)
class LockedPut:
    """A committer with a lock around its check and its put."""

    lock: CommitLock

    def put(self, store: Store, name: str, version: int, data: Bytes) -> bool:
        """Put a manifest if its name is free, while the lock is held."""
        block = self.lock(version)
        if not hasattr(type(block), "__enter__"):
            raise InvalidTypeError(
                f"commit_lock must return a context manager, got {shown(block)}.",
                hint="Its block must exclude all other writers.",
            )
        with block:
            if store.exists(name):
                return False
            store.put(name, data)
            return True

    def settle(self, store: Store, version: int | None = None) -> bool:  # noqa: ARG002
        """Return ``False``: a commit that was unfinished at the lock's release did not happen."""
        return False


@runtime_checkable
class ManifestStore(Protocol):
    """A database that records the manifest's path for each dataset and version.

    The protocol and its method names are the reference's.  A dataset is identified by its folder's
    URI; paths are relative to that folder.
    """

    def get(self, base_uri: str, version: int) -> str | None:
        """Return the path of a version's manifest, ``None`` if there is no record."""

    def get_latest_version(self, base_uri: str) -> tuple[int, str] | None:
        """Return the newest version on record, and its path."""

    def put_if_not_exists(self, base_uri: str, version: int, path: str) -> bool:
        """Record a version; ``False`` if it is recorded already.  Atomic and durable."""

    def put_if_exists(self, base_uri: str, version: int, path: str) -> bool:
        """Change the path of a recorded version; ``False`` if there is no record."""


@dataclass(frozen=True, slots=True)
class ExternalManifests:
    """A committer with an external manifest store.

    The manifest is written under a temporary name and recorded, which decides the version.  Then it
    is copied to its final name and recorded again, and the first copy is removed.  Any process that
    finds the record of a writer that died in between finishes the work: all copy the same bytes.
    """

    manifests: ManifestStore

    def put(self, store: Store, name: str, version: int, data: Bytes) -> bool:
        """Put a manifest if its version is not recorded."""
        staged = f"{name}-{uuid.uuid4()}"
        store.put(staged, data)
        # a dataset may have versions from before it used a manifest store
        if store.exists(name) or not self.manifests.put_if_not_exists(store.uri, version, staged):
            store.delete(staged)
            return False
        self._finish(store, version, staged, name, data)
        return True

    def settle(self, store: Store, version: int | None = None) -> bool:
        """Copy the manifest of a version that is still recorded under its temporary name."""
        if version is None:
            newest = self.manifests.get_latest_version(store.uri)
            version, path = newest if newest is not None else (0, None)
        else:
            path = self.manifests.get(store.uri, version)
        if path is None or path.endswith(".manifest"):
            return False
        final = path[: path.index(".manifest") + len(".manifest")]
        try:
            data = store.read(path)
        except FileNotFoundError:
            # another process has just finished it, or the dataset was removed
            if store.exists(final):
                return True
            raise CorruptFileError(
                f"The manifest store has version {version} of {store.uri}, but its manifest "
                f"{path} is missing.",
                hint="If the dataset was removed, also remove its records from the manifest store.",
                version=version,
                file=path,
            ) from None
        self._finish(store, version, path, final, data)
        return True

    def _finish(self, store: Store, version: int, staged: str, final: str, data: Bytes) -> None:
        store.put(final, data)
        self.manifests.put_if_exists(store.uri, version, final)
        store.delete(staged)


# ---- A manifest store in an SQLite file, for writers that share a disk

_SECONDS_TO_WAIT = 60.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS manifests (
    base_uri TEXT NOT NULL, version INTEGER NOT NULL, path TEXT NOT NULL,
    PRIMARY KEY (base_uri, version)
) WITHOUT ROWID
"""


@checked_methods
@dataclass(frozen=True, slots=True)
class SqliteManifestStore:
    """Manifest store in an SQLite file, which decides which writer wins a version.

    For a dataset in a store without conditional puts.  All writers must use the same file, on a
    disk of one machine.  The methods are those of the reference's manifest store.

    Parameters
    ----------
    path
        The file; the first commit creates it.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, lancekit as lk
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     decided = lk.SqliteManifestStore(f"{folder}/commits.sqlite")
    ...     ds = lk.write_dataset(pa.table({"x": [1]}), f"{folder}/d", manifest_store=decided)
    ...     _ = ds.insert(pa.table({"x": [2]}))
    ...     lk.dataset(f"{folder}/d", manifest_store=decided).version
    2
    """

    path: str | os.PathLike[str]

    def get(self, base_uri: str, version: int) -> str | None:
        """Return the path of a version's manifest.

        Parameters
        ----------
        base_uri
            The URI of the dataset.
        version
            The number of the version.

        Returns
        -------
        str or None
            The path, ``None`` if there is no record.

        Raises
        ------
        StorageError
            The file cannot be used.

        Examples
        --------
        >>> import tempfile, lancekit as lk
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = lk.SqliteManifestStore(f"{folder}/commits.sqlite")
        ...     print(store.get("s3://bucket/table", 1))
        None
        """
        rows = self._run(
            "SELECT path FROM manifests WHERE base_uri = ? AND version = ?", base_uri, version
        )
        return rows[0][0] if rows else None

    def get_latest_version(self, base_uri: str) -> tuple[int, str] | None:
        """Return the newest version on record, and its path."""
        rows = self._run(
            "SELECT version, path FROM manifests WHERE base_uri = ? ORDER BY version DESC LIMIT 1",
            base_uri,
        )
        return rows[0] if rows else None

    def put_if_not_exists(self, base_uri: str, version: int, path: str) -> bool:
        """Record a version, unless it is recorded already.

        Parameters
        ----------
        base_uri, version
            As in `get`.
        path
            The path of the manifest.

        Returns
        -------
        bool
            ``False`` if there is a record already; then nothing changes.

        Raises
        ------
        StorageError
            The file cannot be used.

        Examples
        --------
        >>> import tempfile, lancekit as lk
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = lk.SqliteManifestStore(f"{folder}/commits.sqlite")
        ...     [store.put_if_not_exists("s3://bucket/table", 1, path) for path in ("a", "b")]
        [True, False]
        """
        return bool(
            self._run(
                "INSERT INTO manifests VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING version",
                base_uri, version, path,
            )
        )  # fmt: skip

    def put_if_exists(self, base_uri: str, version: int, path: str) -> bool:
        """Change the path of a recorded version.

        Parameters
        ----------
        base_uri, version, path
            As in `put_if_not_exists`.

        Returns
        -------
        bool
            ``False`` if there is no record; then nothing changes.

        Raises
        ------
        StorageError
            The file cannot be used.

        Examples
        --------
        >>> import tempfile, lancekit as lk
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = lk.SqliteManifestStore(f"{folder}/commits.sqlite")
        ...     store.put_if_exists("s3://bucket/table", 1, "a")
        False
        """
        return bool(
            self._run(
                "UPDATE manifests SET path = ? WHERE base_uri = ? AND version = ? "
                "RETURNING version",
                path, base_uri, version,
            )
        )  # fmt: skip

    def delete(self, base_uri: str) -> None:
        """Remove the records of a dataset that was removed."""
        self._run("DELETE FROM manifests WHERE base_uri = ?", base_uri)

    def _run(self, statement: str, *arguments: object) -> list[Any]:
        import sqlite3  # rarely needed: `import lancekit` does not load it

        path = os.fspath(self.path)
        try:
            # one connection per statement, so that it works in any thread and after a fork
            with closing(
                sqlite3.connect(path, timeout=_SECONDS_TO_WAIT, isolation_level=None)
            ) as connection:
                connection.execute(_SCHEMA)
                return connection.execute(statement, arguments).fetchall()
        except (sqlite3.Error, OverflowError) as error:
            raise StorageError(
                f"cannot use the manifest store {path}: {error}.",
                hint="Check the file and its folder.",
                path=path,
            ) from error
