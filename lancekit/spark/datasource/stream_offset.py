"""Positions of a stream, as Spark keeps them in its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lancekit.errors import InvalidArgumentError

__all__ = ["Span", "StreamOffset", "spans_between"]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A position: all changes up to `version` are read, or some fragments of the last change.

    Parameters
    ----------
    version
        The version that the stream reads, or has read.
    since
        ``None`` if the version is read to its end.  Otherwise the change goes from this version to
        `version`.
    fragments
        How many fragments of that change are read, in the order of the change.
    """

    version: int
    since: int | None = None
    fragments: int = 0

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> StreamOffset:
        """Read an offset of a checkpoint.

        Raises
        ------
        InvalidArgumentError
            The offset has other keys or values than this release writes.
        """
        keys = set(offset)
        if keys in ({"version"}, {"since", "until", "fragments"}) and all(
            isinstance(value, int) for value in offset.values()
        ):
            if "version" in offset:
                return cls(offset["version"])
            return cls(offset["until"], offset["since"], offset["fragments"])
        raise InvalidArgumentError(
            f"The offset {dict(offset)!r} of the checkpoint is unknown.",
            hint="Use the release of lancekit that wrote it, or start with a new checkpoint.",
        )

    def to_json(self) -> dict[str, int]:
        """Return the offset for Spark, always with the same text.

        A position within a change has no key "version": a release that does not know such
        positions would take the whole version for read.
        """
        if self.since is None:
            return {"version": self.version}
        return {"since": self.since, "until": self.version, "fragments": self.fragments}


@dataclass(frozen=True, slots=True)
class Span:
    """Some fragments of the change from version `since` to `until`: from `first` to before `stop`.

    `stop` is ``None`` for all that follow.
    """

    since: int
    until: int
    first: int = 0
    stop: int | None = None


def spans_between(start: StreamOffset, end: StreamOffset) -> Iterator[Span]:
    """Yield what a batch reads, in order: the rest of a change, whole ones, and part of another."""
    at = start.version
    if start.since is not None:
        same = (start.since, start.version) == (end.since, end.version)
        yield Span(start.since, start.version, start.fragments, end.fragments if same else None)
        if same:
            return
    whole = end.version if end.since is None else end.since
    if whole > at:
        yield Span(at, whole)
    if end.since is not None:
        yield Span(end.since, end.version, 0, end.fragments)
