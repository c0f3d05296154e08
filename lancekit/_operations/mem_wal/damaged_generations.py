"""Repair damaged generations and quarantine tables, and generations that no manifest lists.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

from lancekit._commit.protocol import check_writable
from lancekit._file.reader import FileReader
from lancekit._format.mem_wal.names import ASIDE, LOGS, QUARANTINE, generation_number
from lancekit._format.mem_wal.shard_manifest import ShardManifest, SsTable
from lancekit._format.names import INDICES
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.schema import LanceSchema
from lancekit._index.search.btree import DATA, LOOKUP
from lancekit._operations.common.retry import RetryPolicy, retried
from lancekit._operations.maintenance.validate import validate_version
from lancekit._operations.mem_wal.flush import MaintainedIndices
from lancekit._operations.mem_wal.generation import (
    KEYS,
    OF_DAMAGE,
    open_generation,
    replayed,
    write_generation,
)
from lancekit._operations.mem_wal.newest_rows import land, without
from lancekit._operations.mem_wal.quarantine import OWN_COLUMNS, SetAside, written_to_quarantine
from lancekit._operations.unmerged.marks import EMPTIED, quarantine_ids, quarantine_table
from lancekit._pipeline.merge_plan import MergeWork
from lancekit._shards.entry import Entry, read_entry
from lancekit._shards.log import copy_aside, positions
from lancekit._shards.manifests import change
from lancekit._shards.schema import TOMBSTONE, Shard, primary_key, wal_schema
from lancekit._storage.base import Store
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, LancekitError, UnsupportedFeatureError
from lancekit.options import options

#: the reason for moving a generation that is not damaged
UNLISTED = "The manifest that listed it is damaged, and the log does not have all of its rows."


def fault_of_generation(shard: Shard, table: SsTable, schema: LanceSchema) -> str:
    """Return why a generation cannot be read completely; empty if it can."""
    try:
        generation = open_generation(shard, table, schema)
    except LancekitError as error:
        return error.message
    has_keys = bool(generation.manifest.schema.primary_key)
    of_keys = [f"{KEYS}/{name}" for name in (DATA, LOOKUP) if has_keys]
    of_indices = (
        f"{INDICES}/{index.uuid}/{file.path}"
        for index in generation.indices
        for file in index.files
    )
    return fault_of_table(generation, (*of_keys, *of_indices))


def rewritten(snapshot: Snapshot, shard: Shard, table: SsTable, reason: str) -> Iterator[SetAside]:
    """Rewrite a damaged generation from its data file or the log; unlist it if neither is whole."""
    readable = readable_parts(shard.store, table.path, snapshot.manifest.schema)
    entries = list(_entries_of(shard, table.generation))
    report = generation_report(snapshot, shard, table.path, reason, table.physical_rows)
    rows = _all_rows(snapshot, table, readable, entries)
    new: tuple[SsTable, ...] = ()
    if rows is not None:
        version = max(snapshot.manifest.new_file_version, "2.1")  # as of a flush
        index = MaintainedIndices(snapshot.location)
        new = (write_generation(shard, *rows, table.generation, version, index),)
        report = replace(report, rows=0, keys=None, read_by="")
    copies = [copy_aside(shard, entry.position) for entry in entries] if rows is None else []

    def edit(now: ShardManifest) -> ShardManifest:
        listed = (new if one.path == table.path else (one,) for one in now.sstables)
        return replace(now, sstables=tuple(one for some in listed for one in some))

    change(shard, None, edit)
    yield report
    for entry, name in zip(entries, copies, strict=False):
        of = entry_report(shard, entry.position, reason, name)
        yield replace(of, generation=table.generation, rows=0)


def _entries_of(shard: Shard, generation: int) -> Iterator[Entry]:
    """Yield the log entries with rows of a generation that no cleanup has removed yet."""
    for number in positions(shard):
        with suppress(CorruptFileError, UnsupportedFeatureError, FileNotFoundError):
            entry = read_entry(shard, number)
            if entry.generation == generation and entry.rows:
                yield entry


def _all_rows(
    snapshot: Snapshot, table: SsTable, readable: ReadableParts, entries: Sequence[Entry]
) -> _AllRows | None:
    """Return all rows of a generation, from its data file or else from the log."""
    if readable.whole is not None and table.physical_rows in (None, readable.whole.num_rows):
        return readable.whole
    if not entries or sum(entry.rows for entry in entries) != table.physical_rows:
        return None
    schema = snapshot.manifest.schema
    (memtable,) = replayed(entries, table.generation, wal_schema(schema))
    own = without(schema, memtable.lacking)
    return _AllRows(own, [batch.select([*own.names, TOMBSTONE]) for batch in memtable.batches])


def relisted(
    snapshot: Snapshot, shard: Shard, manifest: ShardManifest
) -> tuple[ShardManifest, list[SetAside]]:
    """List generations again whose manifest is lost, and whose rows the log does not have.

    A generation qualifies if its number is unique among folders and it is not damaged.  It must
    have no fewer rows than the log has for it: generations of fenced writers have fewer.

    Returns
    -------
    tuple
        The manifest, and reports on copies of all other generations that may have such rows.
    """
    folders: dict[int, list[str]] = {}
    for folder in shard.store.list_folders(""):
        if (number := generation_number(folder)) >= manifest.current_generation:
            folders.setdefault(number, []).append(folder)
    found: list[SsTable] = []
    for number in sorted(folders):
        table = SsTable(number, folders[number][0])
        readable = readable_parts(shard.store, table.path, snapshot.manifest.schema)
        in_log = sum(entry.rows for entry in _entries_of(shard, number))
        is_sure = (
            len(folders[number]) == 1 and readable.rows is not None and readable.rows >= in_log
        )
        if not is_sure or fault_of_generation(shard, table, snapshot.manifest.schema):
            break
        found.append(replace(table, physical_rows=readable.rows))
        del folders[number]
    stray = [
        generation_report(snapshot, shard, folder, UNLISTED)
        for some in folders.values()
        for folder in some
    ]
    if not found:
        return manifest, stray
    last = found[-1].generation
    done = manifest.replay_after
    for number in range(manifest.current_generation, last + 1):
        done = max([done, *(entry.position for entry in _entries_of(shard, number))])

    def edit(now: ShardManifest) -> ShardManifest:
        return replace(
            now, sstables=(*now.sstables, *found), replay_after=done, current_generation=last + 1
        )

    return change(shard, manifest.writer_epoch, edit), stray


# ---- reports


def entry_report(shard: Shard, position: int, reason: str, aside: str) -> SetAside:
    """Report an entry, and which rows can be read without its checksum."""
    file = f"{shard.store.uri}/{aside}" if aside else None
    rows, read_by = None, ""
    if file is not None:
        with suppress(pa.ArrowException, OSError, ValueError):
            rows = pa.ipc.open_stream(shard.store.read(aside)).read_all().num_rows
            read_by = f'pyarrow.ipc.open_stream("{file}").read_all()'
    return SetAside(
        shard_id=str(shard.id),
        position=position,
        file=file,
        reason=reason,
        rows=rows,
        read_by=read_by,
    )


def generation_report(
    snapshot: Snapshot, shard: Shard, folder: str, reason: str, rows: int | None = None
) -> SetAside:
    """Copy a generation aside and report its readable rows; `rows` replaces an unreadable count."""
    schema = snapshot.manifest.schema
    found = _copied_aside(
        shard.store, folder, readable_parts(shard.store, folder, schema), reason, rows
    )
    keys = _keys_of(shard, folder, schema) if found.keys is None else found.keys
    generation = generation_number(folder)
    return replace(found, shard_id=str(shard.id), generation=generation, keys=keys)


def _copied_aside(
    store: Store, folder: str, readable: ReadableParts, reason: str, rows: int | None
) -> SetAside:
    """Copy a table aside and report its readable rows; `rows` replaces an unreadable count."""
    files = store.list_tree(folder)
    for file in files:
        with suppress(FileNotFoundError):
            store.put(f"{ASIDE}/{file.name}", store.read(file.name, file.size))
    copy = f"{store.uri}/{ASIDE}/{folder}" if files else None
    return SetAside(
        shard_id=None,
        file=copy,
        reason=reason,
        rows=rows if readable.rows is None else readable.rows,
        keys=readable.keys,
        read_by=readable.read_by(copy) if copy else "",
    )


def _keys_of(shard: Shard, folder: str, schema: LanceSchema) -> pa.Table | None:
    """Return the keys of a generation, from its key index or from the log."""
    names = [field.name for field in primary_key(schema)]
    if len(names) == 1:
        with suppress(LancekitError, OSError, KeyError), options(verify_checksums=True):
            reader = FileReader.open(shard.store.open(f"{folder}/{KEYS}/{DATA}"))
            return pa.table({names[0]: reader.read(reader.columns).column("values")})
    entries = list(_entries_of(shard, generation_number(folder)))
    batches = [batch for entry in entries for batch in entry.batches]
    if not names or not batches or any(set(names) - set(b.schema.names) for b in batches):
        return None
    return pa.concat_tables(pa.table(batch.select(names)) for batch in batches)


# ---- the damage of generations and quarantine tables, and their readable parts
#
# See docs/format/memwal.md, 3.

#: errors of reading a damaged or missing file
_UNREADABLE = (LancekitError, OSError, *OF_DAMAGE)


class _AllRows(NamedTuple):
    """All rows of a generation in write order, hidden ones included."""

    schema: LanceSchema
    batches: Sequence[pa.RecordBatch]

    @property
    def num_rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


class ReadableParts(NamedTuple):
    """The readable parts of a damaged table.

    rows: the number of rows, or ``None`` if it is unknown.
    keys: the primary keys of all rows, if they can be read.
    columns: the columns that can be read.
    whole: all rows, if every column can be read.
    file: the data file, relative to the table.
    """

    rows: int | None = None
    keys: pa.Table | None = None
    columns: tuple[str, ...] = ()
    whole: _AllRows | None = None
    file: str = ""

    def read_by(self, copy: str) -> str:
        """Return an expression that reads the readable columns from a copy of the table."""
        if not self.columns:
            return ""
        file = f"{copy}/{self.file}"
        columns = "" if self.whole else f", columns={list(self.columns)}"
        return f'lancekit.file.LanceFileReader("{file}"{columns}).read_all().to_table()'


def fault_of_table(table: Snapshot, others: Iterable[str] = ()) -> str:
    """Return why the rows of a table, or its `others` files, are unreadable; empty if readable."""
    try:
        with options(engine="local"):
            validate_version(table, deep=True)
        with options(verify_checksums=True, cache_bytes=0):
            for name in others:
                reader = FileReader.open(table.store.open(name))
                reader.read(reader.columns)
    except FileNotFoundError:
        return f"{table.store.uri}/{name} is missing."
    except CorruptFileError as error:
        return error.message
    except _UNREADABLE as error:
        # an index of an unsupported kind can have any form
        return "" if isinstance(error, LancekitError) else f"{table.store.uri} is damaged: {error}."
    return ""


def readable_parts(store: Store, folder: str, schema: LanceSchema) -> ReadableParts:
    """Return the readable parts of a table's one data file, independent of its manifest.

    store, folder: the location of the table.
    schema: the schema of the base table.
    """
    try:
        (name,) = store.list_names(f"{folder}/data")
        with options(verify_checksums=True, cache_bytes=0):
            reader = FileReader.open(store.open(f"{folder}/data/{name}"))
            columns: dict[str, pa.ChunkedArray] = {}
            for column in reader.columns:
                with suppress(*_UNREADABLE):
                    columns[column.field.name] = reader.read([column]).column(0)
            own = reader.lance_schema
    except (*_UNREADABLE, ValueError):
        return ReadableParts()
    keys = [one.name for field in primary_key(schema) for one in own.fields if one.id == field.id]
    known = keys and len(keys) == len(primary_key(schema)) and columns.keys() >= set(keys)
    whole = None
    if len(columns) == len(own.fields) and TOMBSTONE in own:
        of_key = {field.id: field for field in primary_key(schema)}
        fields = tuple(of_key.get(f.id, f) for f in own.fields if f.name != TOMBSTONE)
        ordered = [columns[f.name] for f in own.fields if f.name != TOMBSTONE]
        names = [*(f.name for f in fields), TOMBSTONE]
        rows = pa.Table.from_arrays([*ordered, columns[TOMBSTONE]], names)
        whole = _AllRows(replace(own, fields=fields), rows.to_batches())
    return ReadableParts(
        reader.num_rows,
        pa.table({name: columns[name] for name in keys}) if known else None,
        tuple(columns),
        whole,
        f"data/{name}",
    )


# ---- damaged and missing quarantine tables
#
# See docs/format/memwal.md, 10.


class _Damaged(NamedTuple):
    """A damaged quarantine table, with its rows in the current schema if all can be read."""

    id: UUID
    report: SetAside
    rows: pa.Table | None


def repair_quarantine(snapshot: Snapshot) -> tuple[Snapshot, list[SetAside]]:
    """Move damaged quarantine tables aside, in one commit if there are any.

    Rows of a table whose data file is whole stay in quarantine.

    Returns
    -------
    tuple
        The version that landed, and the tables that were moved aside.
    """

    def attempt(current: Snapshot) -> tuple[Snapshot, list[SetAside]]:
        found = list(_damaged(current))
        if not found:
            return current, []
        check_writable(current)
        rows = [one.rows for one in found if one.rows is not None]
        marks = tuple(CompactedSsTable(one.id, EMPTIED) for one in found)
        with written_to_quarantine(current, pa.concat_tables(rows) if rows else None) as kept:
            landed = land(current, MergeWork(), (*marks, *kept), doing="repair_mem_wal")
        return landed, [one.report for one in found]

    return retried(snapshot, attempt, RetryPolicy())[0]


def _damaged(snapshot: Snapshot) -> Iterator[_Damaged]:
    schema, store = snapshot.manifest.schema, snapshot.store.child(LOGS)
    for id_ in sorted(quarantine_ids(snapshot)):
        rows: int | None = None
        try:
            table = quarantine_table(snapshot, id_)
            rows, reason = table.manifest.num_rows, fault_of_table(table)
        except CorruptFileError as error:
            reason = error.message
        if not reason:
            continue
        folder = f"{QUARANTINE}/{id_}".removeprefix(f"{LOGS}/")
        readable = readable_parts(store, folder, schema)
        report = replace(_copied_aside(store, folder, readable, reason, rows), quarantine=str(id_))
        whole = _whole(readable, schema)
        if whole is not None:
            report = replace(report, rows=0, keys=None, read_by="")
        yield _Damaged(id_, report, whole)


def _whole(readable: ReadableParts, schema: LanceSchema) -> pa.Table | None:
    """Return all rows, if their fields are the fields of the table's current schema."""
    if readable.whole is None:
        return None
    known = {field.id: (field.name, field.logical_type) for field in readable.whole.schema.fields}
    if any(known.get(f.id) != (f.name, f.logical_type) for f in schema.fields):
        return None
    rows = pa.Table.from_batches(readable.whole.batches)
    names = [*schema.names, *OWN_COLUMNS]
    return rows.select(names) if set(names) <= set(rows.column_names) else None
