"""From which version the changes of a branch count: where it forked, or what was merged last.

A merge leaves a mark in the config of its target, in the very commit: up to which version of the
source it has the changes, and of the lines that the source had merged itself.  So it is made once,
however often it is tried, and the next one begins there; a branch that forks later has the marks,
too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lancekit.commit.rules.exactly_once import BatchMarker
from lancekit.errors import InvalidArgumentError, VersionNotFoundError
from lancekit.format.refs import MAIN
from lancekit.versions.ancestor import Origin, branch_origins, unique_name
from lancekit.versions.line import Line
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["MARKS", "MergeBase", "commits_unmerged", "implied_marks", "mark_of", "merge_base"]

#: how the config's keys of such marks begin
MARKS = "lancekit.merge."
#: how the mark of a merge goes on that took the source over as it was; then comes the new version
_TAKEN = "fast-forward"


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The version that both sides have in them.

    `twin` is the version of ours that took it over as it was, if one did and is still there;
    `unmerged` tells that it is where the lines part: neither was merged into the other yet.
    """

    snapshot: Snapshot
    twin: Snapshot | None = None
    unmerged: bool = False


def mark_of(source: Snapshot, target: Line, *, taken_by: int | None = None) -> BatchMarker:
    """Return the mark of a merge of all that a line has up to a version.

    ``taken_by`` is the version of the target that has it as it was.
    """
    origin = "" if taken_by is None else f"{_TAKEN} {taken_by}"
    key = _key(unique_name(source.line), unique_name(target))
    return BatchMarker(key=key, number=source.version, origin=origin)


def implied_marks(theirs: Snapshot, ours: Snapshot) -> tuple[BatchMarker, ...]:
    """Return the marks of other lines whose changes come along with a merge."""
    known, own = _Known.of(ours), unique_name(ours.line)
    return tuple(
        BatchMarker(key=_key(name, own), number=version)
        for name, version in _Known.of(theirs).versions.items()
        if name not in (unique_name(theirs.line), own) and version > known.versions.get(name, 0)
    )


def _key(source: str, target: str) -> str:
    # a clone has a main, too, and the config of its source
    return f"{MARKS}{source}.{target}" if source == MAIN else MARKS + source


@dataclass(frozen=True, slots=True)
class _Known:
    """What a version has in it: up to which version of which lines, by their unique names.

    `origins` are its own line and those that it forked from, `marks` what was merged into them.
    """

    origins: dict[str, Origin]
    marks: dict[str, BatchMarker]

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Known:
        """Return what a version has in it."""
        line, config = snapshot.line, snapshot.manifest.config
        origins = {origin.unique: origin for origin in branch_origins(line, snapshot.version)}
        keys = {_key(MAIN, target): MAIN for target in origins}
        keys |= {
            key: key.removeprefix(MARKS)
            for key in config
            if key.startswith(MARKS) and not key.startswith(f"{MARKS}{MAIN}.")
        }
        marks = dict[str, BatchMarker]()
        for key, name in keys.items():
            mark = BatchMarker(key=key, number=0).newest(config)
            if mark is not None and (name not in marks or mark.number > marks[name].number):
                marks[name] = mark
        return cls(origins, marks)

    @property
    def versions(self) -> dict[str, int]:
        """Up to which version of which line."""
        found = {name: origin.version for name, origin in self.origins.items()}
        for name, mark in self.marks.items():
            found[name] = max(found.get(name, 0), mark.number)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Common:
    """A version that both sides have in them; `forked` tells that no merge brought it."""

    name: str
    line: Line
    version: int
    forked: bool


def _in_common(theirs: _Known, ours: _Known) -> Iterator[_Common]:
    """Yield the newest version of each line that both sides have in them."""
    left, right = theirs.versions, ours.versions
    for name, origin in {**theirs.origins, **ours.origins}.items():
        if name in left and name in right:
            version = min(left[name], right[name])
            forks = [side.origins[name].version for side in (theirs, ours) if name in side.origins]
            yield _Common(name, origin.line, version, len(forks) == 2 and version == min(forks))


def merge_base(theirs: Snapshot, ours: Snapshot) -> MergeBase:
    """Return the newest version that both sides have in them.

    Raises
    ------
    InvalidArgumentError
        They have nothing in common, or each was merged into the other at the same time.
    VersionNotFoundError
        The version that was merged last is gone.
    """
    known = _Known.of(ours)
    found = {one: _loaded(one, theirs, ours) for one in _in_common(_Known.of(theirs), known)}
    versions = {of: _Known.of(side).versions for of, side in found.items() if side is not None}
    behind = {
        one
        for one in found
        if any(
            of is not one and has.get(one.name, -1) >= one.version for of, has in versions.items()
        )
    }
    newest = [one for one in found if one not in behind]
    lines = [one.line for one in newest if not one.forked]
    if theirs.line in lines and ours.line in lines:
        raise InvalidArgumentError(
            f"{theirs.line.name} and {ours.line.name} were each merged into the other at the same "
            "time, so that no one version has what both had in common.",
            hint="Put the changes together yourself: ds.diff(old, new).apply(handle).",
        )
    # several that none has all of: what was merged from one of them to the other says most
    best = min(newest, key=lambda one: [theirs.line, ours.line, one.line].index(one.line))
    snapshot = found[best]
    if snapshot is None and best.forked:
        raise InvalidArgumentError(
            f"No version is known that {theirs.called} and {ours.called} both come from, or it was "
            "cleaned up.",
            hint="Put the changes together by a key: ds.diff(old, new, on=...).apply(handle).",
        )
    if snapshot is None:
        raise VersionNotFoundError(
            f"Version {best.version} of {best.line.uri}, up to which it was merged, was cleaned "
            "up, so that nobody can tell what is new since.",
            hint="Put the changes together yourself: ds.diff(old, new).apply(handle); a tag keeps "
            "the version from a cleanup.",
            version=best.version,
        )
    mark = known.marks.get(best.name)
    taken = None if mark is None or mark.number != best.version else _twin(ours, mark)
    return MergeBase(snapshot, taken, unmerged=best.forked)


def _loaded(one: _Common, *sides: Snapshot) -> Snapshot | None:
    for side in sides:
        if (side.line, side.version) == (one.line, one.version):
            return side
    try:
        return load_snapshot(one.line, one.version)
    except VersionNotFoundError:
        return None


def commits_unmerged(source: Snapshot, target: Snapshot) -> int:
    """Return how many versions of one line another does not have in it; 0 if nobody can tell."""
    known = _Known.of(target).versions
    # the versions of a branch are counted on
    there = [
        min(known[origin.unique], origin.version)
        for origin in branch_origins(source.line, source.version)
        if origin.unique in known
    ]
    return source.version - max(there, default=source.version)


def _twin(ours: Snapshot, mark: BatchMarker) -> Snapshot | None:
    what, _, version = mark.origin.partition(" ")
    if what != _TAKEN or not version.isdecimal():
        return None
    try:
        return ours if int(version) == ours.version else load_snapshot(ours.line, int(version))
    except VersionNotFoundError:
        return None
