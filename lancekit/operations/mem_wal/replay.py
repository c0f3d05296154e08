"""What a log has and no generation: memtables as the writers of its entries had them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lancekit.operations.mem_wal.memtable import Memtable
from lancekit.shards.by_id import entry_rows, lacking_columns
from lancekit.shards.entry import Entry

__all__ = ["replayed"]


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
