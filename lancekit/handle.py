"""What every part of a handle stands on: the version that it is at, and how it moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from lancekit.commit.line import Line
from lancekit.commit.snapshot import Snapshot, load_snapshot
from lancekit.errors import ReadOnlyError

__all__ = ["Handle"]

T = TypeVar("T")


class Handle:
    """A version of a dataset, the name it was opened by, and whether it may move."""

    _uri: str
    _scan_defaults: dict[str, Any]
    _snapshot: Snapshot
    _read_only: bool

    @classmethod
    def _at(
        cls, snapshot: Snapshot, uri: str, defaults: Mapping[str, Any], *, read_only: bool = False
    ) -> Self:
        handle = cls.__new__(cls)
        handle._uri = uri
        handle._scan_defaults = dict(defaults)
        handle._snapshot = snapshot
        handle._read_only = read_only
        return handle

    def _other(self, snapshot: Snapshot, *, read_only: bool = False) -> Self:
        same_line = snapshot.line == self._line
        uri = self._uri if same_line else snapshot.line.uri
        return self._at(snapshot, uri, self._scan_defaults, read_only=read_only)

    def __reduce__(self) -> tuple[Any, ...]:
        line = self._line
        state = (line, self._snapshot.version, self._uri, self._scan_defaults, self._read_only)
        return (_reopen, (type(self), *state))

    def __copy__(self) -> Self:
        return self._at(self._snapshot, self._uri, self._scan_defaults, read_only=self._read_only)

    @property
    def _line(self) -> Line:
        return self._snapshot.line

    def _move(self, change: Callable[[Snapshot], tuple[Snapshot, T]]) -> T:
        """Run a change on the version the handle is at, and move to the one that came of it."""
        self._check_movable()
        self._snapshot, result = change(self._snapshot)
        return result

    def _check_movable(self) -> None:
        if self._read_only:
            raise ReadOnlyError(
                f"This handle is pinned to version {self._snapshot.version}.",
                hint="Open the dataset with lancekit.dataset() to write to it.",
                version=self._snapshot.version,
            )


def _reopen(
    kind: type[Handle],
    line: Line,
    version: int,
    uri: str,
    defaults: dict[str, Any],
    read_only: bool,
) -> Handle:
    return kind._at(load_snapshot(line, version), uri, defaults, read_only=read_only)
