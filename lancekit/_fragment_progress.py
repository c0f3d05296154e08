"""pylance's interfaces of progress: `FragmentWriteProgress` and `IndexProgress`.

Users find it in `lancekit.progress`, as in pylance.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal


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
        """Handle a fragment whose file is about to be written; it has no rows yet.

        Parameters
        ----------
        fragment
            The `FragmentMetadata`.
        kwargs
            Reserved; lancekit and pylance pass none.

        Raises
        ------
        Exception
            Any error of the method ends the write, and its files are removed.

        Examples
        --------
        >>> class Told(NoopFragmentWriteProgress):
        ...     def begin(self, fragment, **kwargs):
        ...         print("begin", fragment.id)
        >>> import lancekit as lk
        >>> _ = lk.write_dataset({"x": [1, 2]}, "memory://begin-example", progress=Told())
        begin 0
        """

    @abstractmethod
    def complete(self, fragment: Any, **kwargs: Any) -> None:
        """Handle a fragment whose file is written; the commit may change its id.

        Parameters
        ----------
        fragment, kwargs
            As in `begin`.

        Raises
        ------
        Exception
            As in `begin`.

        Examples
        --------
        >>> class Told(NoopFragmentWriteProgress):
        ...     def complete(self, fragment, **kwargs):
        ...         print(fragment.physical_rows, "rows")
        >>> import lancekit as lk
        >>> _ = lk.write_dataset({"x": [1, 2]}, "memory://complete-example", progress=Told())
        2 rows
        """


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


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """Progress of building an index, the argument of a ``progress_callback``.

    Parameters
    ----------
    event
        ``"start"`` or ``"complete"`` of a stage; pylance also has ``"progress"``.
    stage
        The stage, such as ``"load_data"``.
    completed, total
        Finished and total work in ``unit``; ``None`` if unknown.
    unit
        The unit of these numbers, such as ``"rows"``.

    Examples
    --------
    >>> IndexProgress("complete", "load_data", 3, 4, "rows").fraction
    0.75
    """

    event: Literal["start", "progress", "complete"]
    stage: str
    completed: int | None = None
    total: int | None = None
    unit: str = ""

    @property
    def fraction(self) -> float | None:
        """Finished share of the work, from 0 to 1; ``None`` if unknown."""
        if self.completed is None or not self.total:
            return None
        return min(self.completed / self.total, 1.0)
