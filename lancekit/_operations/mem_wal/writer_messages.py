"""The errors of a shard writer, and the notes on its log that an interrupt reports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from lancekit._interrupts import beginning
from lancekit.errors import FencedError, InvalidArgumentError, ShardError

#: the hint after an interrupt that ended a put
AFTER_PUT = (
    "the writer accepts the next put; repeat puts that were not acknowledged: with a primary key, "
    "their rows count once"
)


def closed() -> ShardError:
    """Return the error of a put into a closed writer."""
    return ShardError("The writer is closed.", hint="Open a new one: ds.mem_wal_writer(shard).")


def forked(shard: UUID) -> ShardError:
    """Return the error of a call in a process that was forked from the writer's process."""
    return ShardError(
        "The writer belongs to another process, from which this process was forked.",
        hint="Open a writer of another shard in this process: ds.mem_wal_writer(shard).",
        shard=str(shard),
    )


def stopped(error: BaseException) -> ShardError:
    """Return the error of a writer that failed while it wrote an entry."""
    return ShardError(
        f"The writer was interrupted while it wrote to its log ({type(error).__name__}: {error}): "
        "the entry may or may not have been written.",
        hint="Open the writer again: it replays the log.",
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
        f"{unflushed[0]:,} bytes in {unflushed[1]} memtables wait to be flushed, and stayed above "
        f"max_unflushed_memtable_bytes ({limit:,}) for {timeout}.{why} The rows were not written.",
        hint="Put more slowly, use more shards, raise max_unflushed_memtable_bytes, or wait "
        "longer: put(..., timeout=timedelta(...)).",
        shard=str(shard),
    )


def not_taken(shard: UUID, claim_timeout: timedelta) -> FencedError:
    """Return the error of a put whose shard other writers claimed until the deadline."""
    seconds = claim_timeout.total_seconds()
    return FencedError(
        f"Other writers held shard {shard} until the claim_timeout of {seconds:g} seconds was "
        "over. The rows were not written.",
        hint="Repeat the call, or pass a longer claim_timeout, such as "
        f"timedelta(seconds={max(60, 2 * seconds):g}). If this continues, use fewer processes, or "
        "put more rows in each call.",
        shard=str(shard),
        claim_timeout=claim_timeout,
    )


#: the state of the last put that an interrupt reports: acknowledged, not written, or unknown
_OF_PUT = {
    True: "the last put was acknowledged",
    False: "the last put was not written",
    None: "the last put was not acknowledged: its rows were written, or come with the next put",
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
    return f"the last put into shard {shard} was still waiting and was not written"


def too_many(rows: int, limit: int) -> InvalidArgumentError:
    """Return the error of a put of more rows than a memtable may have."""
    return InvalidArgumentError(
        f"A put can have at most {limit:,} rows, got {rows:,}.",
        hint="Split the rows, or raise max_memtable_rows: a put is never divided.",
        rows=rows,
    )
