"""References of users to versions: parsing, and loading of the version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lancekit._format.names import MAIN
from lancekit._legible import shown
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import dataset_exists, latest_snapshot
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import DatasetNotFoundError, InvalidTypeError, VersionNotFoundError

#: a user's reference to a version: its number, a tag, or a branch and a number
Ref: TypeAlias = int | str | tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed reference: a tag, or a version (``None``: the newest) of a branch."""

    version: int | None = None
    branch: str | None = None
    tag: str | None = None

    @property
    def is_version(self) -> bool:
        """True for a number or a tag, False for the newest version of a branch."""
        return self.tag is not None or self.version is not None

    @property
    def value(self) -> str | int | tuple[str, int | None]:
        """The reference as users write it, valid whatever branch is current."""
        if self.tag is not None:
            return self.tag
        return 0 if self.version == 0 else (self.branch or MAIN, self.version)


def parse_reference(value: object, current: BranchLocation) -> Reference:
    """Parse a user's reference to a version.

    A number is a version of the current branch, a string is a tag, and a pair has a branch
    (``None``: main) and a version (``None``: the newest).  ``None`` alone is the newest version of
    the current branch.  A `Version`, or another handle, is its own branch and number.

    Raises InvalidTypeError: the value has another type.
    """
    match value:
        case None:
            return Reference(branch=current.branch)
        case bool():
            pass
        case int():
            return Reference(version=value, branch=current.branch)
        case str():
            return Reference(tag=value)
        case (str() | None) as branch, (int() | None) as version if not isinstance(version, bool):
            return Reference(version=version, branch=None if branch == MAIN else branch)
        case {"version": int() as version} if branch := getattr(value, "branch", None):
            return parse_reference((branch, version), current)  # an item of History
        case _ if (at := getattr(value, "_snapshot", None)) is not None:  # of a handle
            if at.location.root.uri == current.root.uri:
                return Reference(version=at.version, branch=at.location.branch)
        case _:
            pass
    raise InvalidTypeError(
        f"A version must be a number, a tag or a branch reference, got {shown(value)}.",
        hint='Pass a number, a tag, or a pair such as ("branch", 2), and a time as asof=.',
        reference=value,
    )


def resolve(location: BranchLocation, reference: Reference) -> Snapshot:
    """Load the version that a reference points to.

    Raises TagNotFoundError, BranchNotFoundError, VersionNotFoundError: it does not exist.
    """
    if reference.tag is not None:
        from lancekit._versions.reference_files import get_tag

        tag = get_tag(location.root, reference.tag)
        return load_snapshot(location.on(tag.branch), tag.version)
    target = location.on(reference.branch)
    try:
        if reference.version is None:
            return latest_snapshot(target)
        return load_snapshot(target, reference.version)
    except (DatasetNotFoundError, VersionNotFoundError):
        if reference.branch is not None and not dataset_exists(target):
            from lancekit._versions.reference_files import no_branch

            raise no_branch(location.root, reference.branch) from None
        raise
