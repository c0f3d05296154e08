"""What one version did: taken back, or done on another branch, too."""

from __future__ import annotations

from lancekit._operations.common.results import ApplyResult
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.lineage.apply_changes import apply_changes
from lancekit._operations.lineage.changed import Changed, How, said_of
from lancekit._operations.unmerged.waiting import check_merged
from lancekit._versions.line import Line
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, VersionNotFoundError

__all__ = ["pick_version", "revert_version"]


def revert_version(
    ours: Snapshot, version: int, how: How, policy: RetryPolicy
) -> tuple[Snapshot, ApplyResult]:
    """Put the inverse of what a version did into a newer version of its line.

    Raises
    ------
    MergeConflictError, SchemaMismatchError
        As of `apply_changes`.
    VersionNotFoundError
        The version, or the one before, is not there.
    InvalidArgumentError
        The version comes later, or the branch has rows in shards that its versions lack.
    """
    if version > ours.version:
        raise InvalidArgumentError(
            f"Version {version} comes after version {ours.version}, which the handle is at.",
            hint="ds.checkout_latest() moves it to the newest.",
            version=version,
        )
    check_merged(latest_snapshot(ours.line), f"To revert version {version}")
    before, after = _step(ours.line, version)
    change = Changed(base=after, theirs=before, properties=said_of(after, before))
    return apply_changes(ours, lambda _: change, how, policy)


def pick_version(
    ours: Snapshot, line: Line, version: int, how: How, policy: RetryPolicy
) -> tuple[Snapshot, ApplyResult]:
    """Put what a version of another line did into a version.

    Raises
    ------
    MergeConflictError, SchemaMismatchError
        As of `apply_changes`.
    VersionNotFoundError
        The version, or the one before, is not there.
    """
    before, after = _step(line, version)
    change = Changed(base=before, theirs=after, properties=said_of(before, after))
    return apply_changes(ours, lambda _: change, how, policy)


def _step(line: Line, version: int) -> tuple[Snapshot, Snapshot]:
    """Return the version before one, and the one."""
    after = load_snapshot(line, version)
    try:
        return load_snapshot(line, version - 1), after
    except VersionNotFoundError as error:
        raise VersionNotFoundError(
            f"{line.uri} has no version {version - 1}, so that nobody can tell what version "
            f"{version} did.",
            hint="It was cleaned up, or the first. ds.changes() has what is left together.",
            version=version - 1,
        ) from error
