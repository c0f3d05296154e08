"""The changes that a merge applies, and the rules that the user chose for it."""

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

#: whether the target links or copies the files of a branch, or refers to them in the branch
Files: TypeAlias = Literal["link", "reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Settings of a merge: row matching and conflicts; `doing` names the call, such as "merge".

    `files` applies to a fast-forward.  `base` is the merge base that the user named, if any.
    """

    doing: str
    on: tuple[str, ...] | None = None
    by: By = "cell"
    conflicts: Resolve = "fail"
    files: Files = "link"
    base: Reference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The changes of a merge source (``theirs``) since the merge base, and their commit records.

    base: the newest version that both sides contain.
    other_bases: more bases of a criss-cross merge.  No base contains another.  Only a change that
        is new with regard to each base counts.
    our_copy, their_copy: the version of the target, and of the source, that fast-forwarded to the
        base; ``None`` if there is no such version.
    start: the target version from which a fast-forward can start.  Its rows have the addresses and
        ids of the base on which the source built.
    mark: the config entry of the target that records the merge, so that it lands at most once.
    implied: the marks of other branches that come with the merge, as in `Pending`.
    is_merged, is_behind: whether the target, or the source, contains the other version.
    """

    base: Snapshot
    theirs: Snapshot
    properties: Mapping[str, str] = field(default_factory=dict)
    our_copy: Snapshot | None = None
    their_copy: Snapshot | None = None
    other_bases: tuple[Snapshot, ...] = ()
    start: Snapshot | None = None
    mark: BatchMarker | None = None
    implied: tuple[BatchMarker, ...] = ()
    is_merged: bool = False
    is_behind: bool = False

    @property
    def before(self) -> Snapshot:
        """The version on which the source built: the base, or its copy on the source side."""
        return self.their_copy or self.base


def merge_rules(
    doing: str, on: Iterable[str] | None, by: By, conflicts: Resolve, files: Files = "link"
) -> Rules:
    """Check the arguments of a merge, and return them as rules.

    Raises InvalidArgumentError: an argument is not one of its allowed values.
    """
    check_choice("by", by, ("cell", "row"))
    if not callable(conflicts) and not isinstance(conflicts, Sides):
        function = ", lk.Sides, or a function of the conflicts that returns rows"
        check_choice("conflicts", conflicts, ("fail", "ours", "theirs"), or_else=function)
    check_choice("files", files, ("link", "reference"))
    names = (on,) if isinstance(on, str) else None if on is None else tuple(on)
    return Rules(doing=doing, on=names, by=by, conflicts=conflicts, files=files)


def commit_properties(change: Changed, rules: Rules) -> dict[str, str]:
    """Return the transaction properties of a merge commit, with the message for histories."""
    side = change.base if rules.doing == "revert" else change.theirs
    return {
        COMMIT_MESSAGE: f"{rules.doing} of {side.location.name}:{side.version}",
        **change.properties,
    }


def commit_ends(base: Snapshot, theirs: Snapshot) -> dict[str, str]:
    """Return the transaction properties that name both ends of the applied changes.

    Each end has "branch@version", and its commit: the branch's unique name, version, transaction.
    """
    found = {}
    for name, side in (("base", base), ("theirs", theirs)):
        found[f"{APPLIED}.{name}"] = f"{side.location.name}@{side.version}"
        with suppress(LancekitError):  # the unique name of a deleted branch is gone
            if side.version:
                unique = unique_name(side.location)
                commit = f"{unique} {side.version} {side.transaction_uuid}"
                found[f"{APPLIED}.{name}.commit"] = commit
    return found
