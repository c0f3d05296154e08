"""Rows in quarantine: rows that a merge cannot bring into the table (docs/format/memwal.md, 10).

The rows of one merge are a table of one version below `_mem_wal/quarantine`.  Its files are durable
before the commit that marks the table and merges the generations of the rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.mem_wal.key_bytes import one_key
from lancekit._format.mem_wal.names import QUARANTINE, new_quarantine
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.schema import LanceSchema
from lancekit._legible import plural
from lancekit._operations.mem_wal.generation import write_rows
from lancekit._operations.mem_wal.newest_rows import seen_in
from lancekit._operations.unmerged.dropped import dropped_quarantine
from lancekit._operations.unmerged.quarantined import WAITING, quarantined
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import fragment_sources
from lancekit._shards.schema import TOMBSTONE, generation_schema, primary_key
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CommitUnknownError, InvalidArgumentError, LancekitError

__all__ = ["GENERATION", "OWN", "REASON", "ROW", "SHARD", "TIME", "Quarantined"]
__all__ += ["kept_in_quarantine", "keys_in", "read_quarantine", "with_facts"]

#: columns of a quarantine beside those of the table and the mark of deleted rows
SHARD, GENERATION = "_quarantine_shard", "_quarantine_generation"
REASON, TIME = "_quarantine_reason", "_quarantine_time"
#: the number of a row in a quarantine as it was read, which no file has
ROW = "_quarantine_row"

_FACTS = pa.schema(
    {
        SHARD: pa.string(),
        GENERATION: pa.int64(),
        REASON: pa.string(),
        TIME: pa.timestamp("us", "UTC"),
    }
)
#: the columns of a stored quarantine that no table has
OWN = (TOMBSTONE, *_FACTS.names)


@dataclass(frozen=True, eq=False)
class Quarantined:
    """The rows that wait in the quarantine of a version.

    Attributes
    ----------
    snapshot
        The version.
    ids
        The tables that have the rows.
    rows
        The columns of the version, then `OWN` and `ROW`; older rows of a key come first.
    table
        The place of each row's table in `ids`.
    """

    snapshot: Snapshot
    ids: tuple[UUID, ...]
    rows: pa.Table
    table: npt.NDArray[np.int64]


def _stored(schema: LanceSchema) -> LanceSchema:
    """Return the schema of a quarantine: that of generations, and the facts of each row."""
    for name in (*_FACTS.names, ROW):
        if name in schema:
            raise InvalidArgumentError(
                f"The table has a column {name!r}, which a quarantine needs for itself.",
                hint="Rename the column.",
                column=name,
            )
    columns = generation_schema(schema)
    first = max(field.id for field in columns.walk()) + 1
    facts = LanceSchema.from_arrow(_FACTS).fields
    own = (replace(field, id=first + number) for number, field in enumerate(facts))
    return replace(columns, fields=(*columns.fields, *own))


def with_facts(
    rows: pa.Table, shards: Sequence[UUID], generations: Sequence[int], reasons: Sequence[str]
) -> pa.Table:
    """Add to rows where they come from, why they are set aside, and when: now."""
    facts = [
        [str(shard) for shard in shards],
        list(generations),
        list(reasons),
        [datetime.now(UTC)] * rows.num_rows,
    ]
    for field, values in zip(_FACTS, facts, strict=True):
        rows = rows.append_column(field, pa.array(values, field.type))
    return rows


@contextmanager
def kept_in_quarantine(
    current: Snapshot, rows: pa.Table | None
) -> Iterator[tuple[CompactedSsTable, ...]]:
    """Write rows into a new table of the quarantine, for the commit in the block.

    The files are durable when this yields.  They are removed if the commit is known not to have
    landed; else a cleanup removes them if no version marks them.

    Parameters
    ----------
    current
        The version, whose columns the rows have, then `OWN`.
    rows
        The rows; ``None`` for none.

    Yields
    ------
    tuple of CompactedSsTable
        The mark that the commit has to put.
    """
    if rows is None or not rows.num_rows:
        yield ()
        return
    manifest, id_ = current.manifest, new_quarantine()
    folder = f"{QUARANTINE}/{id_}"
    # files of 2.0 have no null structs, which are what deleted rows have
    version = "2.1" if manifest.new_file_version == "2.0" else manifest.new_file_version
    write_rows(current.store.child(folder), _stored(manifest.schema), rows, version)
    try:
        yield (CompactedSsTable(id_, WAITING),)
    except CommitUnknownError:
        raise
    except LancekitError:
        current.store.delete_tree(folder)
        raise


def read_quarantine(snapshot: Snapshot) -> Quarantined:
    """Read the rows that wait in the quarantine of a version.

    Raises
    ------
    CorruptFileError
        A table of the quarantine is missing or damaged.
    InvalidArgumentError
        The MemWAL was dropped while rows waited in quarantine.
    """
    _check_not_dropped(snapshot)
    schema = snapshot.manifest.schema
    found = quarantined(snapshot)
    mark = pa.field(TOMBSTONE, pa.bool_())
    empty = pa.schema([*loose_schema(schema).to_arrow(), mark, *_FACTS]).empty_table()
    parts = [_rows_of(one.table, schema) for one in found]
    rows = pa.concat_tables([empty, *(ak.cast(part, empty.schema) for part in parts)])
    place = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    # rows of a key and a shard come in the order in which they were written, whatever the clocks
    order = np.argsort(rows.column(GENERATION).to_numpy(), kind="stable")
    # numbers of an earlier reading are none of these, once a row came or left
    first = (zlib.crc32(b"".join(one.id.bytes for one in found)) >> 4) << 24
    numbers = pa.array(first + np.arange(rows.num_rows))
    return Quarantined(
        snapshot=snapshot,
        ids=tuple(one.id for one in found),
        rows=ak.take(rows, order).append_column(ROW, numbers),
        table=place[order],
    )


def _check_not_dropped(snapshot: Snapshot) -> None:
    if rows := dropped_quarantine(snapshot):
        raise InvalidArgumentError(
            f"{snapshot.called} of {snapshot.line.uri} has no MemWAL, and no quarantine: the "
            f"MemWAL was dropped while {plural(rows, 'row')} waited in quarantine.",
            hint="ds.initialize_mem_wal() takes the rows up again.",
            rows=rows,
            uri=snapshot.line.uri,
        )


def loose_schema(schema: LanceSchema) -> LanceSchema:
    return replace(schema, fields=tuple(replace(f, nullable=True) for f in schema.fields))


def _rows_of(table: Snapshot, schema: LanceSchema) -> pa.Table:
    seen = loose_schema(seen_in(schema, table.manifest.schema, OWN))
    names = [*schema.names, *OWN]
    sources = fragment_sources(table, seen)
    readers = [FragmentReader(replace(source, compared=True)) for source in sources]
    return pa.concat_tables(reader.read(names, range(reader.physical_rows)) for reader in readers)


def keys_in(rows: pa.Table, schema: LanceSchema) -> pa.Array:
    """Return the primary key of each row as one value, of a table that has a key."""
    return one_key([ak.combine_chunks(rows.column(key.name)) for key in primary_key(schema)])
