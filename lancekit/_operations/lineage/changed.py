"""Whose changes are put into a version, and how the user says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from lancekit._choice import check_choice
from lancekit._commit.rules.pending import BatchMarker
from lancekit._format.transaction import COMMIT_MESSAGE
from lancekit._operations.lineage.conflicts import Resolve, Sides
from lancekit._operations.lineage.three_way_plan import By
from lancekit._versions.ancestor import unique_name
from lancekit._versions.merge_edges import APPLIED
from lancekit._versions.references import Reference
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import LancekitError

#: whether the target gets files of a branch for itself, or reads them where they are
Files: TypeAlias = Literal["link", "reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How changes are put into a version; `doing` is what the user called.

    `files` says how files of rows that are taken over as they are come into it; `base` is the merge
    base that the user names.
    """

    doing: str
    on: tuple[str, ...] | None = None
    by: By = "cell"
    conflicts: Resolve = "fail"
    files: Files = "link"
    base: Reference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Whose changes come, and since when; what the commit says of that.

    `base` is the newest version that both sides contain.  `further` are more such versions, none of
    which contains another, as criss-cross merges leave them: a change has to be new with regard to
    each.  `twin` is the version of ours that took the base over as it was, if one did and is still
    there; `source` is that of theirs.  `start` is the version of ours from which a fast-forward
    starts: its rows have the addresses and the ids of the base, from which theirs went on.

    With a `mark`, which says in the config of ours that theirs was merged, the changes come at most
    once; `implied` says that other lines came with it, as of `Pending`.  `is_merged` tells that
    ours contains theirs already, `is_behind` that theirs contains ours.
    """

    base: Snapshot
    theirs: Snapshot
    properties: Mapping[str, str] = field(default_factory=dict)
    twin: Snapshot | None = None
    source: Snapshot | None = None
    further: tuple[Snapshot, ...] = ()
    start: Snapshot | None = None
    mark: BatchMarker | None = None
    implied: tuple[BatchMarker, ...] = ()
    is_merged: bool = False
    is_behind: bool = False

    @property
    def before(self) -> Snapshot:
        """The version of theirs from which it went on: the base, or a copy of the base."""
        return self.source or self.base


def check_how(
    doing: str, on: Iterable[str] | None, by: By, conflicts: Resolve, files: Files = "link"
) -> How:
    """Return how to put changes together, as users say it.

    Raises InvalidArgumentError: there is no such way.
    """
    check_choice("by", by, ("cell", "row"))
    if not callable(conflicts) and not isinstance(conflicts, Sides):
        function = ", or pass lk.Sides, or a function of the conflicts that returns rows"
        check_choice("conflicts", conflicts, ("fail", "ours", "theirs"), or_else=function)
    check_choice("files", files, ("link", "reference"))
    names = (on,) if isinstance(on, str) else None if on is None else tuple(on)
    return How(doing=doing, on=names, by=by, conflicts=conflicts, files=files)


def said_in(change: Changed, how: How) -> dict[str, str]:
    """Return the properties of a commit: histories show its message."""
    side = change.base if how.doing == "revert" else change.theirs
    return {
        COMMIT_MESSAGE: f"{how.doing} of {side.location.name}:{side.version}",
        **change.properties,
    }


def said_of(base: Snapshot, theirs: Snapshot) -> dict[str, str]:
    """Return what a transaction says of the changes that it brought.

    Of both ends the (branch, version), and the commit: the unique name of the branch, the version
    and its transaction.
    """
    said = {}
    for name, side in (("base", base), ("theirs", theirs)):
        said[f"{APPLIED}.{name}"] = f"{side.location.name}@{side.version}"
        with suppress(LancekitError):  # of a branch that was deleted nothing has the id
            if side.version:
                unique = unique_name(side.location)
                commit = f"{unique} {side.version} {side.transaction_uuid}"
                said[f"{APPLIED}.{name}.commit"] = commit
    return said
