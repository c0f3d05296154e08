"""Rows that are in logs alone become generations, so that a merge has them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic, sleep

from lancekit._operations.mem_wal.claim import LOOK_SECONDS as TURN_SECONDS
from lancekit._operations.mem_wal.claim import Turn
from lancekit._operations.mem_wal.initialize import details_beside
from lancekit._operations.mem_wal.open_writer import open_writer
from lancekit._operations.mem_wal.router import beside_each_other
from lancekit._operations.mem_wal.settings import writer_settings
from lancekit._operations.mem_wal.writer import Writer, writers_of
from lancekit._operations.unmerged.waiting import has_rows_in_log
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import FencedError, LancekitError, RetriesExhaustedError


def flush_own_writers(shards: Sequence[Shard]) -> None:
    """Have the open writers of this process make generations; they stay open.

    Raises LancekitError: a generation could not be written.
    """

    def flush(writer: Writer) -> None:
        manifest = latest(writer.shard)
        if manifest is None or manifest.writer_epoch != writer.epoch:
            return  # another writer has the shard, and its log
        with suppress(FencedError):
            writer.flush()

    beside_each_other(flush, writers_of(shards))


def flush_logs(
    snapshot: Snapshot, shards: Sequence[Shard], timeout: timedelta
) -> list[LancekitError]:
    """Take each shard that has rows in its log alone from its writer, and flush the rows.

    snapshot: a version of the branch.
    shards: the shards; one without rows in its log keeps its writer.
    timeout: how long to wait for a turn beside writers that put rows, and to take a shard again
        that its writer takes back.  After a last attempt its rows wait.

    Returns
    -------
    list
        An error for each shard that could not be flushed; the others are.

    Raises InvalidArgumentError: the table has no MemWAL.
    """
    newest = latest_snapshot(snapshot.location)
    settings = writer_settings(details_beside(newest, shards).defaults)
    deadline = monotonic() + timeout.total_seconds()
    failed: list[LancekitError] = []

    def flush(shard: Shard) -> None:
        turn = Turn()
        try:
            while _has_rows(shard):
                epoch, free = turn.look(shard)
                late = monotonic() >= deadline
                if free or late:
                    with suppress(FencedError, RetriesExhaustedError):
                        taken = open_writer(newest, shard.id, settings, sealed=True, after=epoch)
                        taken[0].close()
                        return
                    if late:
                        return
                sleep(TURN_SECONDS)
        except LancekitError as error:
            failed.append(error)

    beside_each_other(flush, shards)
    return failed


def _has_rows(shard: Shard) -> bool:
    manifest = latest(shard)
    return manifest is not None and has_rows_in_log(shard, manifest)
