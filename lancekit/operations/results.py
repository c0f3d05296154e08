"""What an operation did.  Results answer to the keys that pylance's dictionaries have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from lancekit.display import Displayed

__all__ = ["DeleteResult", "MergeResult"]


class _Counts(Displayed, Mapping[str, int]):
    """A result that can be read like the dictionary of counts that pylance returns."""

    __slots__ = ()
    _keys: ClassVar[tuple[str, ...]] = ()

    def __getitem__(self, key: str) -> int:
        if key not in self._keys:
            raise KeyError(key)
        return int(getattr(self, key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def _plain(self) -> str:
        return f"{type(self).__name__}({dict(self)})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeleteResult(_Counts):
    """What a delete did: rows, the version that came of it, and how.

    `duration` is in seconds, `engine` is where the work ran, `attempts` counts executions: more
    than one means that other writers landed meanwhile.
    """

    _keys = ("num_deleted_rows",)
    num_deleted_rows: int
    version: int
    branch: str | None = None
    attempts: int = 1
    duration: float = 0.0
    engine: str = "local"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MergeResult(_Counts):
    """What a merge-insert did.

    `key_guard` says how inserted keys are guarded against a concurrent merge: ``"bloom"``,
    ``"exact"``, or ``None`` where the merge is not on the primary key.
    """

    _keys = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")
    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int
    on: tuple[str, ...]
    version: int
    read_version: int
    branch: str | None = None
    attempts: int = 1
    duration: float = 0.0
    engine: str = "local"
    key_guard: str | None = None
    fragments_added: int = 0
    fragments_changed: int = 0
    fragments_removed: int = 0
    bytes_written: int = 0
