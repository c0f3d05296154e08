"""Where new data files go, and what they are called.

When a job on several machines fails, what its tasks answered is lost, and with it the names of the
files that they had written.  So these end with the job's own digits, by which they are found.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass

from lancekit.format.names import DATA, data_file_name
from lancekit.storage.base import Store

__all__ = ["WriteTarget", "begin_job", "new_data_file", "new_job", "remove_job_files"]

_DIGITS = 16

_job: ContextVar[str] = ContextVar("lancekit_job", default="")


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A folder for new data files: the dataset's own, or that of a base path."""

    store: Store
    folder: str = DATA
    base_id: int | None = None

    def name(self, file: str) -> str:
        """Return where in the store a data file lies."""
        return f"{self.folder}/{file}" if self.folder else file


def new_job() -> str:
    """Return what the names of a job's data files end with."""
    return secrets.token_hex(_DIGITS // 2)


def begin_job(job: str) -> None:
    """Say which job the files belong to that this process writes from now on."""
    _job.set(job)


def new_data_file() -> str:
    """Return the name of a new data file."""
    job = _job.get()
    return data_file_name(uuid.UUID(hex=uuid.uuid4().hex[: 32 - len(job)] + job))


def remove_job_files(job: str, places: Iterable[WriteTarget]) -> None:
    """Remove the files that a job has written to some places; nothing may refer to them.

    Raises
    ------
    OSError
        A place cannot be listed, or a file not be removed.
    """
    for place in places:
        for name in place.store.list_names(place.folder):
            if name.endswith(f"{job}.lance"):
                place.store.delete(place.name(name))
        for name in place.store.list_folders(place.folder):
            if name.endswith(job):
                place.store.delete_tree(place.name(name))
