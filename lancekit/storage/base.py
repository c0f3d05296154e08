"""The contract of a store: a folder of immutable objects, on a disk or in an object store.

A ``Store`` is rooted at a folder.  Names are ``/``-separated and relative to that root; ``..``
and absolute names are refused.  A store can be pickled and used in a Spark worker, except for
``memory://``, which lives in one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

__all__ = ["ObjectInfo", "RandomAccess", "Sink", "Store"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object: name relative to the store's root, bytes, seconds since the epoch."""

    name: str
    size: int
    modified: float


@runtime_checkable
class RandomAccess(Protocol):
    """One object opened for ranged reads.  Thread-safe."""

    @property
    def name(self) -> str:
        """The full path or URI, for messages."""

    def size(self) -> int:
        """Return the object's size in bytes."""

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return exactly ``length`` bytes at ``start``; ``CorruptFileError`` if there are fewer."""

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return one buffer per ``(start, length)``; stores merge nearby ranges into one request."""


class Sink(Protocol):
    """One new object being written; nothing is visible under its name before ``close``."""

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer) -> None:
        """Append ``data``."""

    def tell(self) -> int:
        """Return the number of bytes written so far."""

    def close(self) -> None:
        """Make the object visible and (local, unless turned off) durable."""

    def abort(self) -> None:
        """Give up and remove what was written; does nothing after ``close``."""


class Store(Protocol):
    """A rooted folder.  Every failure is a ``StorageError``, or ``FileNotFoundError`` for a name
    that is not there (callers turn that into their own error)."""

    @property
    def uri(self) -> str:
        """The root as an absolute path or URI, without a trailing slash."""

    def child(self, folder: str) -> Store:
        """Return a store rooted at a sub-folder (which need not exist)."""

    def open(self, name: str, size: int | None = None) -> RandomAccess:
        """Open an object for ranged reads; a known ``size`` saves a request."""

    def read(self, name: str) -> pa.Buffer:
        """Return a whole object."""

    def tail(self, name: str, length: int) -> tuple[pa.Buffer, int]:
        """Return the last ``length`` bytes (fewer if the object is shorter) and the whole size."""

    def put(self, name: str, data: bytes) -> None:
        """Write a whole object atomically and durably, replacing one of that name."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a whole object only if the name is free; ``False`` if it is taken.

        Atomic and durable: of any number of racing writers exactly one gets ``True``.
        """

    def create(self, name: str) -> Sink:
        """Start writing a new object as a stream."""

    def list_names(self, folder: str) -> list[str]:
        """Return the bare names of the objects directly in ``folder``; empty if there is none.

        Unordered, no sizes: this is the fast listing that finds versions.
        """

    def list_tree(self, folder: str = "") -> list[ObjectInfo]:
        """Return every object at or below ``folder``."""

    def exists(self, name: str) -> bool:
        """Return whether the object is there."""

    def delete(self, name: str) -> None:
        """Remove an object; a missing one is not an error."""

    def delete_tree(self, folder: str) -> None:
        """Remove a folder and all below it; a missing one is not an error."""
