"""Flush rows that are only in logs to generations, so that a merge includes them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic, sleep

from lancekit._operations.mem_wal.claim import POLL_SECONDS, Turn
from lancekit._operations.mem_wal.initialize import details_with_shards
from lancekit._operations.mem_wal.open_writer import open_writer
from lancekit._operations.mem_wal.router import in_parallel
from lancekit._operations.mem_wal.settings import writer_settings
from lancekit._operations.mem_wal.writer import Writer, writers_of
from lancekit._operations.unmerged.waiting import has_rows_in_log
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import FencedError, LancekitError, RetriesExhaustedError


def flush_own_writers(shards: Sequence[Shard]) -> None:
    """Flush the open writers of this process; they stay open.

    Raises LancekitError: a generation could not be written.
    """

    def flush(writer: Writer) -> None:
        manifest = latest(writer.shard)
        if manifest is None or manifest.writer_epoch != writer.epoch:
            return  # another writer has the shard, and its log
        with suppress(FencedError):
            writer.flush()

    in_parallel(flush, writers_of(shards))


def flush_logs(
    snapshot: Snapshot, shards: Sequence[Shard], timeout: timedelta
) -> list[LancekitError]:
    """Claim each shard that has rows only in its log, and flush these rows.

    snapshot: a version of the branch.
    shards: the shards.  A shard without rows in its log keeps its writer.
    timeout: how long to wait for a turn among writers that put rows, and to reclaim a shard from
        its writer.  If a last attempt fails, the rows stay in the log.

    Returns
    -------
    list
        An error for each shard that could not be flushed; all other shards are flushed.

    Raises InvalidArgumentError: the table has no MemWAL.
    """
    newest = latest_snapshot(snapshot.location)
    settings = writer_settings(details_with_shards(newest, shards).defaults)
    deadline = monotonic() + timeout.total_seconds()
    failed: list[LancekitError] = []

    def flush(shard: Shard) -> None:
        turn = Turn()
        try:
            while _has_rows(shard):
                epoch, free = turn.poll(shard)
                late = monotonic() >= deadline
                if free or late:
                    with suppress(FencedError, RetriesExhaustedError):
                        taken = open_writer(newest, shard.id, settings, sealed=True, after=epoch)
                        taken[0].close()
                        return
                    if late:
                        return
                sleep(POLL_SECONDS)
        except LancekitError as error:
            failed.append(error)

    in_parallel(flush, shards)
    return failed


def _has_rows(shard: Shard) -> bool:
    manifest = latest(shard)
    return manifest is not None and has_rows_in_log(shard, manifest)
