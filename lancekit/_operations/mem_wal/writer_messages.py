"""The errors that the writer of a shard raises, and what an interrupt says of its log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from lancekit._interrupts import beginning
from lancekit.errors import FencedError, InvalidArgumentError, ShardError

#: what to do when an interrupt ended a put
AFTER_PUT = (
    "the writer takes the next put; put rows again that were not acknowledged: with a primary key "
    "they count once"
)


def closed() -> ShardError:
    """Return the error of a put into a closed writer."""
    return ShardError("The writer is closed.", hint="Open another one: ds.mem_wal_writer(shard).")


def forked(shard: UUID) -> ShardError:
    """Return the error of a call in a process that was forked from the process of the writer."""
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
    held: tuple[int, int],
    most: int,
    error: BaseException | None,
) -> ShardError:
    """Return the error of a put that waited too long for memory.

    shard, timeout: the shard, and how long the put waited.
    held: how many bytes, and how many memtables, are in memory and in no generation.
    most: the setting of the writer.
    error: why the last flush failed, if it did.
    """
    why = f" The last attempt failed: {error}" if error else ""
    return ShardError(
        f"{held[0]:,} bytes wait in {held[1]} memtables to be written as "
        f"generations, and did not get fewer than max_unflushed_memtable_bytes "
        f"({most:,}) in {timeout}.{why} "
        "The rows were not written.",
        hint="Put more slowly, spread the rows over more shards, raise "
        "max_unflushed_memtable_bytes, or wait longer: put(..., timeout=timedelta(...)).",
        shard=str(shard),
    )


def not_taken(shard: UUID, claim_timeout: timedelta) -> FencedError:
    """Return the error of a put whose shard other writers took until the deadline."""
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


#: what an interrupt says of the last put into a shard: it was acknowledged, it was not written, or
#: its entry may be there
_OF_PUT = {
    True: "the last put was acknowledged",
    False: "the last put was not written",
    None: "the last put was not acknowledged: its rows are there, or come with the next put",
}


def told(shard: UUID, position: Callable[[], int], landed: bool | None) -> str:
    """Return what an interrupt says of a shard whose log is written up to a position."""
    end = f"the log of shard {shard} is written up to position {position()}"
    return f"{end}, and {_OF_PUT[landed]}"


def put_begun() -> None:
    """Have an interrupt say that no row was written, until a shard says more."""
    beginning("no row of this call was written", AFTER_PUT)


def not_put(shard: UUID) -> str:
    """Return what an interrupt says of a put that waited for its turn to take a shard."""
    return f"the last put into shard {shard} waited for its turn, and was not written"


def too_many(rows: int, most: int) -> InvalidArgumentError:
    """Return the error for a put of more rows than a memtable may have."""
    return InvalidArgumentError(
        f"{rows:,} rows are put at once, and a memtable has {most:,} at most.",
        hint="Put them in parts, or raise max_memtable_rows: a put is never divided.",
        rows=rows,
    )
