"""pylance's interface for each fragment of a write: `FragmentWriteProgress`.

Users find it in `lancekit.progress`, as in pylance.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from typing import Any


class FragmentWriteProgress(ABC):
    """Receiver of progress for each fragment of a write; the ``progress=`` argument of writes.

    Any object with these two methods is accepted.  They get a `FragmentMetadata`.  If they raise,
    the write ends, and its files are removed.  For a write on Spark, both are called in this
    process for each fragment, after all fragments have been written.

    Examples
    --------
    >>> import lancekit as lk
    >>> class Told(lk.FragmentWriteProgress):
    ...     def begin(self, fragment, **kwargs):
    ...         print("begin")
    ...
    ...     def complete(self, fragment, **kwargs):
    ...         print("complete", fragment.physical_rows)
    >>> _ = lk.write_dataset({"x": [1, 2]}, "memory://told-example", progress=Told())
    begin
    complete 2
    """

    @abstractmethod
    def begin(self, fragment: Any, **kwargs: Any) -> None:
        """Handle a fragment whose file is about to be written; it has no rows yet."""

    @abstractmethod
    def complete(self, fragment: Any, **kwargs: Any) -> None:
        """Handle a fragment whose file is written; the commit may change its id."""


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Progress receiver that does nothing."""

    def begin(self, fragment: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def complete(self, fragment: Any, **kwargs: Any) -> None:
        """Do nothing."""


class FileSystemFragmentWriteProgress(FragmentWriteProgress):
    """Progress receiver with a file ``fragment_<id>.in_progress`` for each fragment in progress.

    A second file ``fragment_<id>.json`` remains, with the metadata from before the write.
    Fragments have different ids only if `LanceFragment.create` gets different ids.

    Parameters
    ----------
    base_uri
        The folder of these files: a URI for Arrow's file systems, or an absolute path.
    metadata
        Stored in the ``.in_progress`` file, to identify the worker.
    """

    PROGRESS_EXT = ".in_progress"

    def __init__(self, base_uri: str, metadata: dict[str, str] | None = None) -> None:
        from pyarrow.fs import FileSystem

        self._files, self._folder = FileSystem.from_uri(os.fspath(base_uri))
        self._metadata = dict(metadata or {})

    def begin(self, fragment: Any, **kwargs: Any) -> None:  # noqa: ARG002  # for subclasses
        """Write both files."""
        self._files.create_dir(self._folder, recursive=True)
        about = {"fragment_id": fragment.id, "metadata": self._metadata}
        self._put(self._name(fragment.id, self.PROGRESS_EXT), about)
        self._put(self._name(fragment.id, ".json"), fragment.to_json())

    def complete(self, fragment: Any, **kwargs: Any) -> None:  # noqa: ARG002  # for subclasses
        """Remove the ``.in_progress`` file."""
        self._files.delete_file(self._name(fragment.id, self.PROGRESS_EXT))

    def _name(self, fragment_id: int, suffix: str) -> str:
        return f"{self._folder}/fragment_{fragment_id}{suffix}"

    def _put(self, name: str, content: object) -> None:
        with self._files.open_output_stream(name) as out:
            out.write(json.dumps(content).encode())
