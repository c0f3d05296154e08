"""Which versions of a line took in another line: found in few manifests of very many.

The config of a line's head says up to which version of which lines it has all; these numbers only
grow, so that the version which brought one is found by halves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lancekit.errors import LancekitError
from lancekit.versions.line import Line
from lancekit.versions.merge_edges import APPLIED, FAST_FORWARD, MERGE_KEYS
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["Merge", "Reader", "merges_into"]

#: merges of one line into another that are looked for, the newest first
_MOST = 4


@dataclass(frozen=True, slots=True)
class Merge:
    """Version `into` of a line has all that branch `source` had up to version `of`."""

    kind: str
    source: str
    of: int
    into: int


class Reader:
    """Reads versions, each once, and no more than so many; then it returns ``None``."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._known: dict[tuple[Line, int], Snapshot] = {}

    def read(self, line: Line, version: int) -> Snapshot | None:
        """Return a version; ``VersionNotFoundError`` if it is gone."""
        known = self._known.get((line, version))
        if known is not None or self._left <= 0:
            return known
        self._left -= 1
        found = self._known[line, version] = load_snapshot(line, version)
        return found


def merges_into(line: Line, versions: Sequence[int], reader: Reader) -> Iterator[Merge]:
    """Yield the newest merges into a line; none where manifests are too large or too damaged."""
    if not versions:
        return
    with suppress(LancekitError):
        head = reader.read(line, versions[-1])
        keys = [key for key in head.manifest.config if key.startswith(MERGE_KEYS)] if head else []
        for key in keys:
            yield from _by(key, line, versions, reader)


def _by(key: str, line: Line, versions: Sequence[int], reader: Reader) -> Iterator[Merge]:
    """Yield the merges that left one mark, the newest first."""
    end = len(versions)
    for _ in range(_MOST):
        number, taken = _mark(reader.read(line, versions[end - 1]), key)
        if not number:
            return
        place = bisect_left(
            range(end), number, key=lambda at: _mark(reader.read(line, versions[at]), key)[0]
        )
        found = reader.read(line, versions[place])
        said = found.transaction.transaction_properties if found and found.transaction else {}
        source, _, version = said.get(f"{APPLIED}.theirs", "").rpartition("@")
        if source and version == str(number):  # else it came along with another line's merge
            kind = "fast-forward" if taken else "merge"
            yield Merge(kind, source, number, versions[place])
        end = place
        if not end:
            return


def _mark(snapshot: Snapshot | None, key: str) -> tuple[int, bool]:
    number, *words = (snapshot.manifest.config.get(key, "") if snapshot else "").split() or [""]
    return int(number) if number.isdecimal() else 0, FAST_FORWARD in words
