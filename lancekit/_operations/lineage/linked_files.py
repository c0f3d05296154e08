"""Commits of files that come from a branch: linked before the commit, and again if they vanish.

Also which files of a fragment hold a field, and fragments with other deletion files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lancekit._commit.rules.pending import Pending
from lancekit._format.fragment import Fragment
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.maintenance.carried_fragments import remove_copies
from lancekit._operations.maintenance.copies import Copy, carry_out
from lancekit._pipeline.engine.engine import LocalRunner
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    CommitUnknownError,
    LancekitError,
    RetriesExhaustedError,
    RetryableConflictError,
)

__all__ = ["bring_again", "commit_with_files", "places_of_fields", "with_deletions"]


def commit_with_files(
    pending: Pending, copies: Sequence[Copy], theirs: Snapshot, ours: Snapshot
) -> Snapshot:
    """Link or copy files of a branch, and commit them as the version after ``ours``.

    Raises
    ------
    RetryableConflictError
        Another writer landed first; the files are gone again.
    """
    store = ours.store
    try:
        _bring(copies, theirs, ours)
        landed = commit(ours, pending, strict=True)
    except CommitUnknownError:
        raise
    except LancekitError as error:
        remove_copies(store, copies)
        if isinstance(error, RetriesExhaustedError):
            raise RetryableConflictError(
                f"{ours.line.name} moved while {theirs.line.name} was merged into it.",
                read_version=ours.version,
            ) from error
        raise
    return landed


def bring_again(copies: Iterable[Copy], theirs: Snapshot, ours: Snapshot) -> None:
    """Link or copy files again that vanished between the link and the commit.

    A cleanup that listed files before the commit can take a new file for a left-over one.
    """
    _bring([copy for copy in copies if not ours.store.exists(copy.name)], theirs, ours)


def _bring(copies: Iterable[Copy], theirs: Snapshot, ours: Snapshot) -> None:
    LocalRunner().map(
        lambda copy: carry_out(copy, ours.store, theirs.version, link=copy.fresh), list(copies)
    )


def places_of_fields(
    side: Snapshot, fragment: Fragment | None, ids: Collection[int]
) -> list[tuple[str, int]]:
    """Return the file that holds each of some fields in a fragment, and its place in the file."""
    return [
        (str(side.data_file(file)), at)
        for file in (() if fragment is None else fragment.files)
        for at, id_ in enumerate(file.fields)
        if id_ in ids
    ]


def with_deletions(
    known: Mapping[int, Fragment], deleted: Iterable[Fragment]
) -> Iterator[Fragment]:
    """Yield known fragments with the deletion files of ``deleted``, which have the same ids."""
    for fragment in deleted:
        yield replace(known[fragment.id], deletion_file=fragment.deletion_file)
