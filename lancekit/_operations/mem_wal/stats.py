"""What a writer counts, and what it has in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter

from lancekit._operations.mem_wal.group_commit import Ticket
from lancekit._operations.mem_wal.memtable import Memtable

__all__ = ["Memory", "WriterStats"]


@dataclass(slots=True)
class WriterStats:
    """How often a writer did what, and how long that took; by pylance's names.

    Examples
    --------
    >>> stats = WriterStats()
    >>> stats.add("put", perf_counter())
    >>> stats.shown()["put_count"]
    1
    """

    put_count: int = 0
    put_time_ms: float = 0.0
    wal_flush_count: int = 0
    wal_flush_bytes: int = 0
    wal_flush_time_ms: float = 0.0
    memtable_flush_count: int = 0
    memtable_flush_rows: int = 0
    memtable_flush_failures: int = 0
    memtable_flush_time_ms: float = 0.0

    def add(self, what: str, started: float) -> None:
        """Count what began at a time of `perf_counter`."""
        passed = (perf_counter() - started) * 1000
        setattr(self, f"{what}_count", getattr(self, f"{what}_count") + 1)
        setattr(self, f"{what}_time_ms", getattr(self, f"{what}_time_ms") + passed)

    def shown(self) -> dict[str, int]:
        """Return the counts; times in whole milliseconds."""
        return {name: int(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a writer has in memory.

    Attributes
    ----------
    generation, rows, batches, bytes
        Of the memtable that is written to.
    frozen, frozen_bytes
        Memtables that wait to be generations.
    pending_batches, pending_rows, pending_bytes
        What is not in the log yet.
    entries
        How many entries of the log the writer has written.
    """

    generation: int
    rows: int
    batches: int
    bytes: int
    frozen: int
    frozen_bytes: int
    pending_batches: int
    pending_rows: int
    pending_bytes: int
    entries: int

    @classmethod
    def of(
        cls, active: Memtable, frozen: Collection[Memtable], pending: Sequence[Ticket], entries: int
    ) -> Memory:
        """Count memtables, and the rows that wait for the log."""
        return cls(
            generation=active.generation,
            rows=active.rows,
            batches=len(active.batches),
            bytes=active.bytes,
            frozen=len(frozen),
            frozen_bytes=sum(table.bytes for table in frozen),
            pending_batches=sum(len(ticket.batches) for ticket in pending),
            pending_rows=sum(ticket.rows for ticket in pending),
            pending_bytes=sum(ticket.bytes for ticket in pending),
            entries=entries,
        )

    def shown(self) -> dict[str, int | None]:
        """Return it by pylance's names; what is not done here is 0."""
        first, last = self.batches, self.batches + self.pending_batches
        waiting = bool(self.pending_batches)
        return {
            "row_count": self.rows,
            "batch_count": self.batches,
            "estimated_size_bytes": self.bytes,
            "index_bytes": 0,
            "generation": self.generation,
            "max_buffered_batch_position": self.batches - 1 if self.batches else None,
            "durable_batch_count": self.entries,
            "global_offset": max(self.entries - self.batches, 0),
            "pending_wal_start_batch_position": first if waiting else None,
            "pending_wal_end_batch_position": last if waiting else None,
            "pending_wal_batch_count": self.pending_batches,
            "pending_wal_row_count": self.pending_rows,
            "pending_wal_estimated_bytes": self.pending_bytes,
            "frozen_count": self.frozen,
            "frozen_bytes": self.frozen_bytes,
            "grace_bytes": 0,
            "retained_bytes": self.bytes + self.frozen_bytes,
        }
