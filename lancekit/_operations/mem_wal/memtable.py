"""Rows of a shard that are in its log and not yet in a generation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from lancekit._shards.by_id import entry_rows, lacking_columns
from lancekit._shards.entry import Entry

__all__ = ["Memtable", "replayed"]


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


# ---- what a log has and no generation: memtables as the writers of its entries had them


def replayed(entries: Iterable[Entry], generation: int, schema: pa.Schema) -> list[Memtable]:
    """Return the memtables of entries, ascending; the last one is that which is written to.

    Parameters
    ----------
    entries
        What `replayable` gives for the shard's newest manifest.
    generation
        The number of the next generation, by the manifest.
    schema
        What `wal_schema` makes of the table's schema today.

    Raises
    ------
    CorruptFileError
        As of `entry_rows`.
    """
    tables = [Memtable(generation)]
    for entry in entries:
        rows = entry_rows(entry, schema)
        if not rows:
            continue
        number = entry.generation or 0
        if number > tables[-1].generation:  # what does not say joins those before it
            if tables[-1].rows:
                tables.append(Memtable(number))
            tables[-1].generation = number
        missing = lacking_columns(entry.batches[0].schema, schema)
        tables[-1].lacking = missing & tables[-1].lacking if tables[-1].rows else missing
        tables[-1].add(rows, sum(batch.nbytes for batch in rows), entry.position)
    return tables
