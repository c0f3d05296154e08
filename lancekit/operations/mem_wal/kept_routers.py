"""The writers of `mem_wal_upsert`, which a process keeps between handles of one table.

A handle for each row would claim the shard for each row: after a pause in which the writer before,
of the same process, could go on, and with three files that are flushed to the disk.
"""

from __future__ import annotations

from lancekit.operations.mem_wal.router import Router
from lancekit.options import Options, options
from lancekit.versions.line import Line
from lancekit.versions.snapshot import Snapshot

__all__ = ["keep_router", "kept_router"]

#: of how many tables the writers are kept: each may hold a memtable
_MOST = 8

#: replaced as a whole, so that threads need no lock, which a fork could leave locked
_kept: tuple[tuple[Line, Options, Router], ...] = ()


def kept_router(line: Line, now: Snapshot) -> Router | None:
    """Return the kept writers of a table, if a handle at a version of it can use them.

    They were opened with the options in force now, a writer is open, and the table is still there
    with the same columns.
    """
    current = options.current()
    for place, said, router in _kept:
        if router.is_of_this_process and place == line and said == current:
            # a version without logs fits nothing, and is seen by the look
            usable = router.is_live() and (now.version <= router.version or router.fits(now))
            return router if usable else None
    return None


def keep_router(line: Line, router: Router) -> None:
    """Keep the writers of a table, in the place of others with the same options."""
    global _kept  # noqa: PLW0603  # it stands for the process
    entry = (line, options.current(), router)
    _kept = (*(one for one in _kept if one[:2] != entry[:2]), entry)[-_MOST:]
