"""From which version the changes of a branch count: where it forked, or what was merged last.

A merge leaves a mark in the config of its target, in the very commit: up to which version of the
source it has the changes.  So it is made once, however often it is tried, and the next one begins
there.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancekit.commit.rules.exactly_once import BatchMarker
from lancekit.errors import InvalidArgumentError, VersionNotFoundError
from lancekit.format.refs import MAIN
from lancekit.versions.ancestor import common_ancestor, unique_name
from lancekit.versions.line import Line
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["MergeBase", "commits_unmerged", "mark_of", "merge_base"]

#: how the config's keys of such marks begin
_KEY = "lancekit.merge."
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
    return BatchMarker(key=_key(source.line, target), number=source.version, origin=origin)


def _key(source: Line, target: Line) -> str:
    name = unique_name(source)
    # a clone has a main, too, and the config of its source
    return f"{_KEY}{name}.{unique_name(target)}" if name == MAIN else _KEY + name


def merge_base(theirs: Snapshot, ours: Snapshot) -> MergeBase:
    """Return the newest version that both sides have in them.

    Raises
    ------
    InvalidArgumentError
        They have nothing in common, or each was merged into the other at the same time.
    VersionNotFoundError
        The version that was merged last is gone.
    """
    here, there = _merged(theirs.line, ours), _merged(ours.line, theirs)
    if here is not None and there is not None:
        source, target = _last(theirs.line, here), _last(ours.line, there)
        back = _merged(theirs.line, target)
        if back is not None and back.number >= here.number:
            return MergeBase(target)
        back = _merged(ours.line, source)
        if back is not None and back.number >= there.number:
            return MergeBase(source, _twin(ours, here))
        raise InvalidArgumentError(
            f"{theirs.line.name} and {ours.line.name} were each merged into the other at the same "
            "time, so that no one version has what both had in common.",
            hint="Put the changes together yourself: ds.diff(old, new).apply(handle).",
        )
    if here is not None:
        return MergeBase(_last(theirs.line, here), _twin(ours, here))
    if there is not None:
        return MergeBase(_last(ours.line, there))
    found = common_ancestor(theirs, ours)
    if found is None:
        raise InvalidArgumentError(
            f"No version is known that {theirs.line.name}@{theirs.version} and {ours.line.name}"
            f"@{ours.version} both come from, or it was cleaned up.",
            hint="Put the changes together by a key: ds.diff(old, new, on=...).apply(handle).",
        )
    return MergeBase(found, unmerged=True)


def commits_unmerged(source: Snapshot, target: Snapshot) -> int:
    """Return how many versions of one line another does not have in it; 0 if nobody can tell."""
    mark = _merged(source.line, target)
    if mark is not None:
        return max(source.version - mark.number, 0)
    found = common_ancestor(source, target)  # the versions of a branch are counted on
    return 0 if found is None else source.version - found.version


def _merged(source: Line, target: Snapshot) -> BatchMarker | None:
    """Return the mark of what a version has of a line."""
    mark = BatchMarker(key=_key(source, target.line), number=0)
    return mark.newest(target.manifest.config)


def _twin(ours: Snapshot, mark: BatchMarker) -> Snapshot | None:
    what, _, version = mark.origin.partition(" ")
    if what != _TAKEN or not version.isdecimal():
        return None
    try:
        return ours if int(version) == ours.version else load_snapshot(ours.line, int(version))
    except VersionNotFoundError:
        return None


def _last(line: Line, mark: BatchMarker) -> Snapshot:
    try:
        return load_snapshot(line, mark.number)
    except VersionNotFoundError as error:
        raise VersionNotFoundError(
            f"Version {mark.number} of {line.uri}, up to which it was merged, was cleaned up, so "
            "that nobody can tell what is new since.",
            hint="Put the changes together yourself: ds.diff(old, new).apply(handle); a tag keeps "
            "the version from a cleanup.",
            version=mark.number,
        ) from error
