"""The errors of a shard writer, and the notes on its log that an interrupt reports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from lancekit._interrupts import beginning
from lancekit.errors import FencedError, InvalidArgumentError, ShardError

#: the hint after an interrupt that ended a put
AFTER_PUT = (
    "the writer takes the next put; put rows again that were not acknowledged: with a primary key "
    "they count once"
)


def closed() -> ShardError:
    """Return the error of a put into a closed writer."""
    return ShardError("The writer is closed.", hint="Open another one: ds.mem_wal_writer(shard).")


def forked(shard: UUID) -> ShardError:
    """Return the error of a call in a process that was forked from the writer's process."""
    return ShardError(
        "The writer belongs to the process that opened it, and this one was forked of it.",
        hint="Open a writer here, of another shard: ds.mem_wal_writer(shard).",
        shard=str(shard),
    )


def stopped(error: BaseException) -> ShardError:
    """Return the error of a writer that failed while it wrote an entry."""
    return ShardError(
        f"The writer was stopped while it wrote to its log ({type(error).__name__}: {error}): what "
        "it wrote then may be there or not.",
        hint="Open the writer again: it reads what the log has.",
    )


def no_room(
    shard: UUID,
    timeout: timedelta,
    unflushed: tuple[int, int],
    limit: int,
    error: BaseException | None,
) -> ShardError:
    """Return the error of a put that waited too long for memory.

    shard, timeout: the shard, and how long the put waited.
    unflushed: the bytes and the number of memtables in memory.
    limit: the setting `max_unflushed_memtable_bytes`.
    error: the error of the last flush, if it failed.
    """
    why = f" The last attempt failed: {error}" if error else ""
    return ShardError(
        f"{unflushed[0]:,} bytes wait in {unflushed[1]} memtables to be written as "
        f"generations, and did not get fewer than max_unflushed_memtable_bytes "
        f"({limit:,}) in {timeout}.{why} "
        "The rows were not written.",
        hint="Put more slowly, spread the rows over more shards, raise "
        "max_unflushed_memtable_bytes, or wait longer: put(..., timeout=timedelta(...)).",
        shard=str(shard),
    )


def not_taken(shard: UUID, claim_timeout: timedelta) -> FencedError:
    """Return the error of a put whose shard other writers claimed until the deadline."""
    seconds = claim_timeout.total_seconds()
    return FencedError(
        f"Other writers took shard {shard} before these rows were in its log, for claim_timeout "
        f"({seconds:g} seconds). The rows were not written.",
        hint="Call it again, or with a longer claim_timeout, such as "
        f"timedelta(seconds={max(60, 2 * seconds):g}). If this goes on, write from fewer processes "
        "at the same time, or put more rows in each call.",
        shard=str(shard),
        claim_timeout=claim_timeout,
    )


#: the state of the last put that an interrupt reports: acknowledged, not written, or unknown
_OF_PUT = {
    True: "the last put was acknowledged",
    False: "the last put was not written",
    None: "the last put was not acknowledged: its rows are there, or come with the next put",
}


def log_state(shard: UUID, position: Callable[[], int], landed: bool | None) -> str:
    """Return an interrupt's note on a shard: the end of its log, and the state of the last put."""
    end = f"the log of shard {shard} is written up to position {position()}"
    return f"{end}, and {_OF_PUT[landed]}"


def put_begun() -> None:
    """Make an interrupt report that no row was written, until a shard reports more."""
    beginning("no row of this call was written", AFTER_PUT)


def not_put(shard: UUID) -> str:
    """Return an interrupt's note on a put that waited for its turn to claim a shard."""
    return f"the last put into shard {shard} waited for its turn, and was not written"


def too_many(rows: int, limit: int) -> InvalidArgumentError:
    """Return the error of a put of more rows than a memtable may have."""
    return InvalidArgumentError(
        f"{rows:,} rows are put at once, and a memtable has {limit:,} at most.",
        hint="Put them in parts, or raise max_memtable_rows: a put is never divided.",
        rows=rows,
    )
