"""A manifest store in an SQLite file, for writers that share a disk but no conditional put."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from lancekit._checked import checked_methods
from lancekit.errors import StorageError

__all__ = ["SqliteManifestStore"]

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
    """Decide in an SQLite file which writer wins a version.

    For a dataset in a store that cannot put an object only if its name is free.  All writers have
    to be given the same file, on a disk of one machine.

    Parameters
    ----------
    path
        The file; it is created by the first commit.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, lancekit as lk
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     decided = lk.SqliteManifestStore(f"{folder}/commits.sqlite")
    ...     ds = lk.write_dataset(pa.table({"x": [1]}), f"{folder}/d", manifest_store=decided)
    ...     ds.insert(pa.table({"x": [2]}))
    ...     lk.dataset(f"{folder}/d", manifest_store=decided).version
    2
    """

    path: str | os.PathLike[str]

    def get(self, base_uri: str, version: int) -> str | None:
        """Return the path of a version's manifest, ``None`` if there is no record."""
        rows = self._run(
            "SELECT path FROM manifests WHERE base_uri = ? AND version = ?", base_uri, version
        )
        return rows[0][0] if rows else None

    def get_latest_version(self, base_uri: str) -> tuple[int, str] | None:
        """Return the newest version that is recorded, and its path."""
        rows = self._run(
            "SELECT version, path FROM manifests WHERE base_uri = ? ORDER BY version DESC LIMIT 1",
            base_uri,
        )
        return rows[0] if rows else None

    def put_if_not_exists(self, base_uri: str, version: int, path: str) -> bool:
        """Record a version; ``False`` if it is recorded already."""
        return bool(
            self._run(
                "INSERT INTO manifests VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING version",
                base_uri, version, path,
            )
        )  # fmt: skip

    def put_if_exists(self, base_uri: str, version: int, path: str) -> bool:
        """Change the path of a version that is recorded; ``False`` if it is not."""
        return bool(
            self._run(
                "UPDATE manifests SET path = ? WHERE base_uri = ? AND version = ? "
                "RETURNING version",
                path, base_uri, version,
            )
        )  # fmt: skip

    def delete(self, base_uri: str) -> None:
        """Forget all versions of a dataset that was removed."""
        self._run("DELETE FROM manifests WHERE base_uri = ?", base_uri)

    def _run(self, statement: str, *arguments: object) -> list[Any]:
        import sqlite3  # few need it: `import lancekit` does not load it

        path = os.fspath(self.path)
        try:
            # a connection per statement: it can be used in any thread, and after a fork
            with closing(
                sqlite3.connect(path, timeout=_SECONDS_TO_WAIT, isolation_level=None)
            ) as connection:
                connection.execute(_SCHEMA)
                return connection.execute(statement, arguments).fetchall()
        except (sqlite3.Error, OverflowError) as error:
            raise StorageError(
                f"cannot use the manifest store {path}: {error}.",
                hint="Check the file and the folder that it is in.",
                path=path,
            ) from error
