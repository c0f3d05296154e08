"""Rows in quarantine, and the report of a repair of logs (docs/format/memwal.md, 10).

The rows of one merge are a table of one version below `_mem_wal/quarantine`.  Its files are durable
before the commit that marks the table and merges the generations of the rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._display import Displayed
from lancekit._format.mem_wal.names import LOGS, QUARANTINE, new_quarantine
from lancekit._format.mem_wal.sharding import one_key
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.schema import LanceSchema
from lancekit._legible import cut, plural
from lancekit._operations.common.staged_files import undone_unless_landed
from lancekit._operations.mem_wal.generation import write_rows
from lancekit._operations.mem_wal.newest_rows import seen_in
from lancekit._operations.unmerged.marks import WAITING, dropped_quarantine, quarantined
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.fragments.source import fragment_sources
from lancekit._shards.schema import TOMBSTONE, generation_schema, primary_key
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

#: columns of a quarantine table, in addition to the table's columns and `_tombstone`
SHARD, GENERATION = "_quarantine_shard", "_quarantine_generation"
REASON, TIME = "_quarantine_reason", "_quarantine_time"
#: the number of a row in one read of the quarantine; it is not stored
ROW = "_quarantine_row"

_FACTS = pa.schema(
    {
        SHARD: pa.string(),
        GENERATION: pa.int64(),
        REASON: pa.string(),
        TIME: pa.timestamp("us", "UTC"),
    }
)
#: the columns of a stored quarantine table that are not the table's
OWN_COLUMNS = (TOMBSTONE, *_FACTS.names)


@dataclass(frozen=True, eq=False)
class Quarantined:
    """The rows that wait in the quarantine of a version.

    snapshot: the version.
    ids: the quarantine tables that have the rows.
    rows: the columns of the version, then `OWN_COLUMNS` and `ROW`.  Older rows of a key come first.
    table: the index in `ids` of each row's table.
    """

    snapshot: Snapshot
    ids: tuple[UUID, ...]
    rows: pa.Table
    table: npt.NDArray[np.int64]


def _stored(schema: LanceSchema) -> LanceSchema:
    """Return the schema of a quarantine table: the generation schema and the facts of each row."""
    for name in (*_FACTS.names, ROW):
        if name in schema:
            raise InvalidArgumentError(
                f"Column {name!r} of the table clashes with a column of quarantines.",
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
    """Add to each row its shard, its generation, the reason of its quarantine, and the time."""
    facts = [
        [str(shard) for shard in shards],
        list(generations),
        list(reasons),
        [datetime.now(UTC)] * rows.num_rows,
    ]
    for column, values in zip(_FACTS, facts, strict=True):
        rows = rows.append_column(column, pa.array(values, column.type))
    return rows


@contextmanager
def written_to_quarantine(
    current: Snapshot, rows: pa.Table | None
) -> Iterator[tuple[CompactedSsTable, ...]]:
    """Write rows to a new quarantine table, for the commit inside the ``with`` block.

    The files are durable when this yields.  They are removed if the commit certainly did not land.
    Otherwise a cleanup removes them if no version marks them.

    current: the version whose columns the rows have, followed by `OWN_COLUMNS`.
    rows: the rows, or ``None``.

    Yields
    ------
    tuple of CompactedSsTable
        The mark that the commit must put; empty without rows.
    """
    if rows is None or not rows.num_rows:
        yield ()
        return
    manifest, id_ = current.manifest, new_quarantine()
    folder = f"{QUARANTINE}/{id_}"
    # files of 2.0 cannot store null structs, and tombstones have null structs
    version = "2.1" if manifest.new_file_version == "2.0" else manifest.new_file_version
    write_rows(current.store.child(folder), _stored(manifest.schema), rows, version)
    with undone_unless_landed(lambda: current.store.delete_tree(folder)):
        yield (CompactedSsTable(id_, WAITING),)


def read_quarantine(snapshot: Snapshot) -> Quarantined:
    """Read the rows that wait in the quarantine of a version.

    Raises CorruptFileError: a table of the quarantine is missing or damaged.
    Raises InvalidArgumentError: the MemWAL was dropped while rows waited in quarantine.
    """
    if dropped := dropped_quarantine(snapshot):
        raise InvalidArgumentError(
            f"{snapshot.called} of {snapshot.location.uri} has no MemWAL and no quarantine: the "
            f"MemWAL was dropped while {plural(dropped, 'row')} waited in quarantine.",
            hint="Call ds.initialize_mem_wal(), which restores these rows.",
            rows=dropped,
            uri=snapshot.location.uri,
        )
    schema = snapshot.manifest.schema
    found = quarantined(snapshot)
    mark = pa.field(TOMBSTONE, pa.bool_())
    empty = pa.schema([*nullable_schema(schema).to_arrow(), mark, *_FACTS]).empty_table()
    parts = [_rows_of(one.table, schema) for one in found]
    rows = pa.concat_tables([empty, *(ak.cast(part, empty.schema) for part in parts)])
    place = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    # rows of a key in a shard stay in write order, whatever the clocks say
    order = np.argsort(rows.column(GENERATION).to_numpy(), kind="stable")
    # row numbers of an earlier read are invalid once the set of tables changed
    first = (zlib.crc32(b"".join(one.id.bytes for one in found)) >> 4) << 24
    numbers = pa.array(first + np.arange(rows.num_rows))
    return Quarantined(
        snapshot=snapshot,
        ids=tuple(one.id for one in found),
        rows=taken(rows, order).append_column(ROW, numbers),
        table=place[order],
    )


def nullable_schema(schema: LanceSchema) -> LanceSchema:
    return replace(schema, fields=tuple(replace(f, nullable=True) for f in schema.fields))


def _rows_of(table: Snapshot, schema: LanceSchema) -> pa.Table:
    seen = nullable_schema(seen_in(schema, table.manifest.schema, OWN_COLUMNS))
    names = [*schema.names, *OWN_COLUMNS]
    sources = fragment_sources(table, seen)
    readers = [FragmentReader(replace(source, compared=True)) for source in sources]
    return pa.concat_tables(reader.read(names, range(reader.physical_rows)) for reader in readers)


def keys_in(rows: pa.Table, schema: LanceSchema) -> pa.Array:
    """Return the primary key of each row as one value; the table must have a key."""
    return one_key([ak.combine_chunks(rows.column(key.name)) for key in primary_key(schema)])


# ---- the report of a repair: files that were moved aside, and lost rows

#: the most keys of lost rows in a report, and the most characters of these keys
_KEYS, _KEY_CHARACTERS = 5, 80


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A part of a write-ahead log that a repair moved aside.

    Attributes
    ----------
    shard_id
        The shard; ``None`` for a quarantine table.
    position, last_position
        The position of a log entry; for adjacent missing entries the first and the last position.
    generation
        The number of a generation; for a log entry, the lost generation whose rows it has.
    manifest
        The version of a manifest of the shard.
    quarantine
        The id of a quarantine table.
    file
        The URI of the file or folder that has the bytes now; ``None`` if there were none.
    reason
        The damage, as a sentence.
    rows
        The number of rows that no read returns any more, 0 if the repair kept all rows; ``None``
        if it is unknown.
    keys
        The primary keys of these rows, as far as they can be read.
    read_by
        An expression that reads the remaining rows; empty without such rows, or if nothing is lost.
    """

    shard_id: str | None
    position: int | None = None
    last_position: int | None = None
    generation: int | None = None
    manifest: int | None = None
    quarantine: str | None = None
    file: str | None
    reason: str
    rows: int | None = None
    keys: pa.Table | None = field(default=None, compare=False, repr=False)
    read_by: str = ""

    @property
    def called(self) -> str:
        """The part that was moved aside, as a phrase."""
        if self.last_position not in (None, self.position):
            return f"entries {self.position} to {self.last_position}"
        parts = {
            "entry": self.position,
            "generation": self.generation,
            "manifest": self.manifest,
            "quarantine": self.quarantine,
        }
        named = [f"{name} {value}" for name, value in parts.items() if value is not None]
        return named[0] if named else "all files"

    @property
    def path(self) -> str:
        """The file or folder with the bytes, relative to the table; empty without bytes."""
        if self.file is None:
            return ""
        return f"{LOGS}/{self.file.rpartition(f'/{LOGS}/')[2]}"

    @property
    def lost(self) -> str:
        """The lost rows, as a phrase."""
        if self.position is not None and self.generation is not None:
            return f"rows of generation {self.generation}"
        if self.rows == 0:
            return "no row was lost"
        if self.rows is None:
            return "its rows are unknown" if self.keys is None else f"lost{self._keys}"
        return f"{plural(self.rows, 'row')} lost{self._keys}"

    @property
    def words(self) -> str:
        """The location of the bytes, the lost rows, and what reads the rest, as a phrase."""
        missing = f"missing in shard {self.shard_id}" if self.shard_id else "missing"
        read = f"; {self.read_by} reads the remaining rows" if self.read_by else ""
        return f"{self.path or missing}: {self.lost}{read}"

    @property
    def _keys(self) -> str:
        if self.keys is None or not self.keys.num_rows:
            return ""
        some = self.keys.slice(0, _KEYS)
        first = dict(zip(some.column_names, (one.to_pylist() for one in some.columns), strict=True))
        more = ", ..." if self.keys.num_rows > _KEYS else ""
        shown = "; ".join(f"{name} {', '.join(map(repr, of))}{more}" for name, of in first.items())
        return f" ({cut(shown, _KEY_CHARACTERS)})"


class MemWalRepair(Displayed, list[SetAside]):
    """The parts of write-ahead logs that a repair moved aside: a list with a card."""

    def _plain(self) -> str:
        return "\n".join([self.title, *(f"{one.called}: {one.words}" for one in self)])

    @property
    def title(self) -> str:
        """The number of parts that were moved aside, and of lost rows, as a phrase."""
        if not self:
            return "no damage"
        known = sum(one.rows or 0 for one in self)
        unknown = any(one.rows is None for one in self)
        lost = f"{'at least ' if unknown else ''}{plural(known, 'row')} lost"
        if not known:
            lost = "rows may be lost" if unknown else "no row was lost"
        return f"{plural(len(self), 'part')} of write-ahead logs moved aside, {lost}"
