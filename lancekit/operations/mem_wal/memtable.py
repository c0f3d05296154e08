"""Rows of a shard that are in its log and not yet in a generation."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["Memtable"]


@dataclass(slots=True)
class Memtable:
    """The rows of one generation to be, as batches in the order in which they were written.

    Attributes
    ----------
    generation
        The number that the generation will have.
    batches
        Rows in the form of the log; readers take a copy of the list.
    rows, bytes
        What these are together.
    entries
        How many entries of the log they came in.
    last_position
        The last of these entries; 0 as long as there is none.
    lacking
        Columns that none of these entries has: the table got them later.  The rows have nulls.
    """

    generation: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    entries: int = 0
    last_position: int = 0
    lacking: frozenset[str] = frozenset()

    @property
    def given(self) -> list[pa.RecordBatch]:
        """The rows without the columns that they do not have; a list of its own."""
        if not self.lacking:
            return list(self.batches)
        return [batch.drop_columns(sorted(self.lacking)) for batch in self.batches]

    def add(self, batches: list[pa.RecordBatch], size: int, position: int) -> None:
        """Take the rows of an entry, which has a size in bytes and a position in the log."""
        self.batches += batches
        self.rows += sum(batch.num_rows for batch in batches)
        self.bytes += size
        self.entries += 1
        self.last_position = position
