"""Generations (SSTables of a shard), and the memtables that become generations."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancekit._commit.manifest.build import build_manifest, first_manifest
from lancekit._commit.put_version import put_first_manifest
from lancekit._commit.rebase import is_other_file, write_deletions
from lancekit._commit.rules.pending import Pending
from lancekit._file.columns.categories import Categories
from lancekit._format import row_address
from lancekit._format.deletions import to_bitmap
from lancekit._format.fragment import Fragment
from lancekit._format.index import IndexMetadata
from lancekit._format.manifest import Manifest, encode_manifest_file
from lancekit._format.mem_wal.names import generation_folder, generation_number
from lancekit._format.mem_wal.shard_manifest import SsTable
from lancekit._format.mem_wal.sharding import one_key
from lancekit._format.names import VERSIONS, ManifestNaming, manifest_name
from lancekit._format.operations import Delete, Overwrite
from lancekit._format.schema import LanceSchema
from lancekit._index.build.btree import SortedRows
from lancekit._index.build.column import IndexedColumn
from lancekit._index.build.files import write_file
from lancekit._index.build.sorting import differs, whole
from lancekit._pipeline.write_rows import WriteTask, write_fragments
from lancekit._shards.entry import Entry
from lancekit._shards.log import entry_rows, lacking_columns
from lancekit._shards.schema import Shard, generation_schema, primary_key
from lancekit._storage.base import Store
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot, snapshot_of
from lancekit.errors import (
    CorruptFileError,
    InvalidArgumentError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lancekit.options import options

#: the folder of a generation's key index
KEYS = "_pk_index"
#: the rows of a page of the key index; a point lookup reads a whole page
_PAGE_ROWS = 8192

#: a bloom filter for other readers that matches every key.  The filters of release 14 miss stored
#: keys of some types.
_FILTER, _FILTER_BYTES = "bloom_filter.bin", 1 << 15

#: the offsets of rows that no reader sees, by their fragments
_Hidden: TypeAlias = Mapping[int, BitMap]
_VERSION = 1
_MANIFEST = f"{VERSIONS}/{manifest_name(_VERSION, ManifestNaming.V2)}"

_WAY_OUT = "To continue without them, ds.repair_mem_wal() removes the generation from its shard."

#: errors that a damaged manifest can raise
OF_DAMAGE = (CorruptFileError, UnsupportedFeatureError, ArithmeticError, LookupError, TypeError)

#: builds the indices of a generation that has all files but its manifest
Indexed: TypeAlias = Callable[[Snapshot], tuple[IndexMetadata, ...]]


def write_generation(
    shard: Shard,
    schema: LanceSchema,
    batches: Sequence[pa.RecordBatch],
    number: int,
    storage_version: str,
    indexed: Indexed = lambda _: (),
) -> SsTable:
    """Write rows of a log as a generation, which no manifest of the shard lists yet.

    shard: the shard of the rows.
    schema: the table's schema.
    batches: the rows in write order, with the columns of `wal_schema`.
    number: the number of the generation.
    storage_version: the format version of the table's data files.
    indexed: builds the indices of the generation.

    Returns
    -------
    SsTable
        The generation's entry for the shard's manifest.  All its files are durable.

    Raises InvalidArgumentError: there are no rows.
    """
    rows = pa.Table.from_batches(batches)
    if not rows.num_rows:
        raise InvalidArgumentError(
            f"Generation {number} of shard {shard.id} has no rows.",
            hint="Pass the rows of the log, or write no generation.",
            generation=number,
        )
    folder = generation_folder(number)
    store = shard.store.child(folder)
    try:
        key_bytes = _write(store, generation_schema(schema), rows, storage_version, indexed)
        crc32 = zlib.crc32(store.read(_MANIFEST))
    except BaseException:
        _remove(shard.store, folder)
        raise
    return SsTable(number, folder, rows.nbytes, rows.num_rows, key_bytes, crc32)


def _write(
    store: Store, schema: LanceSchema, rows: pa.Table, storage_version: str, indexed: Indexed
) -> int | None:
    """Write all files; return the bytes of the keys, or ``None`` without a primary key."""
    fragments = _write_fragments(store, schema, rows, storage_version)
    key = [whole(rows.column(one.name)) for one in primary_key(schema)]
    hidden = _write_keys(store, one_key(key), fragments) if key else {}
    store.put(_FILTER, b"\xff" * _FILTER_BYTES)
    _put_version(store, Overwrite(schema, fragments), hidden, storage_version, indexed)
    return sum(column.nbytes for column in key) if key else None


def write_rows(store: Store, schema: LanceSchema, rows: pa.Table, storage_version: str) -> None:
    """Write rows as a table of one version, as a generation; all its files are durable.

    If this raises, it removes the files.
    """
    try:
        overwrite = Overwrite(schema, _write_fragments(store, schema, rows, storage_version))
        _put_version(store, overwrite, {}, storage_version, lambda _: ())
    except BaseException:
        _remove(store, "")
        raise


def _write_fragments(
    store: Store, schema: LanceSchema, rows: pa.Table, storage_version: str
) -> tuple[Fragment, ...]:
    """Write one file, or several if a dictionary has too many values for the type of its keys."""
    stored = pa.Table.from_arrays(rows.columns, schema=schema.to_arrow()).to_batches()
    task = WriteTask(
        store=store,
        schema=schema,
        storage_version=storage_version,
        max_rows_per_file=rows.num_rows,
        checksums=True,
        optimize_for=options.optimize_for,
    )
    return tuple(write_fragments(stored, task))


def _write_keys(store: Store, keys: pa.Array, fragments: Sequence[Fragment]) -> _Hidden:
    """Write the key index; return all rows but the last row of each key, by fragment."""
    own = [np.arange(one.physical_rows, dtype=np.uint64) for one in fragments]
    rows = np.concatenate([row_address.addresses(id_, of) for id_, of in enumerate(own)])
    found = SortedRows.build(IndexedColumn(keys.type, keys, rows), _PAGE_ROWS)
    for file in found.files():
        write_file(store.create(f"{KEYS}/{file.name}"), file, checksums=True)
    # the sort is stable: before a row of the same key comes the row that was written earlier
    hidden = np.sort(found.rows[:-1][~differs(found.values)[1:]])
    return {id_: to_bitmap(offsets) for id_, offsets in row_address.by_fragment(hidden)}


def _put_version(
    store: Store, operation: Overwrite, hidden: _Hidden, storage_version: str, indexed: Indexed
) -> None:
    """Put the only version of a table, with the `hidden` rows of its fragments deleted."""
    location = BranchLocation(root=store)
    now = time.time_ns()
    empty = first_manifest(operation, storage_version)
    built = build_manifest(empty, operation, timestamp_ns=now, storage_version=storage_version)
    if hidden:
        fragments = list(built.manifest.fragments)
        for id_, rows in hidden.items():
            deleted = write_deletions(store, id_, _VERSION, rows, checked=True)
            fragments[id_] = replace(fragments[id_], deletion_file=deleted)
        built = build_manifest(built.manifest, Delete(tuple(fragments)), timestamp_ns=now)
        built = built._replace(manifest=replace(built.manifest, version=_VERSION))
    named, data = ManifestNaming.V2, encode_manifest_file(built.manifest)
    indices = indexed(snapshot_of(location, built.manifest, named, data))
    pending = Pending(operation=operation)
    put_first_manifest(location, built._replace(indices=indices), pending.transaction(0), named)


def _remove(store: Store, folder: str) -> None:
    """Remove the written files of a generation that no manifest lists, as far as possible."""
    with suppress(OSError):  # left over, until a cleanup removes it
        store.delete_tree(folder)


def generation_identity(shard: Shard, table: SsTable) -> Hashable | None:
    """Return a cache key that is unique to a generation, or ``None`` if its store has none."""
    return shard.store.child(table.path).identity(_MANIFEST)


def open_generation(shard: Shard, table: SsTable, schema: LanceSchema) -> Snapshot:
    """Open a generation that a manifest of the shard lists.

    shard, table: the shard, and the manifest's entry for the generation.
    schema: the table's schema.  The generation must have the columns of its primary key.

    Raises CorruptFileError: the generation was removed, or its own manifest is damaged or
        contradicts the shard's manifest.
    """
    if generation_number(table.path) != table.generation:
        raise _damaged(
            shard, table, f"{table.path!r} is not a folder of generation {table.generation}"
        )
    store = shard.store.child(table.path)
    try:
        is_whole = table.manifest_crc32 in (None, zlib.crc32(store.read(_MANIFEST)))
        snapshot = load_snapshot(BranchLocation(root=store), _VERSION) if is_whole else None
        fault = "its checksum does not match"
        if snapshot is not None:
            fault = _fault(snapshot.manifest, table, schema)
            # without a checksum of the manifest, another library may have named the file
            if not fault and table.manifest_crc32 is not None:
                fault = _changed_deletions(snapshot)
    except (VersionNotFoundError, FileNotFoundError) as error:
        where = f"{shard.store.uri}/{table.path}"
        raise CorruptFileError(
            f"Generation {table.generation} of shard {shard.id} does not exist: {where}.",
            hint="Read the shard's newest manifest. If it lists the generation, restore its "
            f"folder from a copy: acknowledged rows are in it. {_WAY_OUT}",
            file=where,
            generation=table.generation,
            shard=str(shard.id),
            path=table.path,
        ) from error
    # an unsupported feature is damage, too: the table, which has the same columns, could be read
    except OF_DAMAGE as error:
        raise _damaged(shard, table, str(error)) from error
    if snapshot is None or fault:
        raise _damaged(shard, table, fault)
    return snapshot


def _fault(manifest: Manifest, table: SsTable, schema: LanceSchema) -> str:
    """Return how a generation's manifest contradicts other manifests; empty if it does not."""
    rows = sum(fragment.physical_rows or 0 for fragment in manifest.fragments)
    if table.physical_rows not in (None, rows):
        return f"it records {rows} rows, but the shard manifest records {table.physical_rows}"
    if table.manifest_crc32 is None:
        manifest.schema.to_arrow()  # raises for an unknown type
    types = {field.id: field.logical_type for field in manifest.schema.fields}
    for key in primary_key(schema):
        if types.get(key.id) != key.logical_type:
            return f"its field {key.id} is not the {key.logical_type} key {key.name!r}"
    for fragment in manifest.fragments:
        deleted = fragment.deletion_file
        bases = [deleted.base_id if deleted else None, *(file.base_id for file in fragment.files)]
        if bases.count(None) < len(bases):
            return f"a file of fragment {fragment.id} is in another folder"
        for file in fragment.files:
            places = list(file.columns.values())
            if len(set(places)) < len(places):
                return f"two fields share one column of {file.path!r}"
        stored = {number for file in fragment.files for number in file.fields}
        for column in manifest.schema.fields:
            if stored.isdisjoint(one.id for one in column.walk()):
                return f"no file of fragment {fragment.id} has column {column.name!r}"
    return ""


def _changed_deletions(generation: Snapshot) -> str:
    """Return which deletion file of a generation has a wrong checksum; empty if none has."""
    for fragment in generation.manifest.fragments:
        if (file := fragment.deletion_file) is not None:
            name = file.name(fragment.id)
            if is_other_file(file, generation.store.read(name)):
                return f"the checksum of {name} does not match"
    return ""


def _damaged(shard: Shard, table: SsTable, why: str) -> CorruptFileError:
    where = f"{shard.store.uri}/{table.path}/{_MANIFEST}"
    return CorruptFileError(
        f"{where} is damaged: {why}.",
        hint=f"Restore the file from a copy: acknowledged rows are in its table. {_WAY_OUT}",
        file=where,
        generation=table.generation,
        shard=str(shard.id),
    )


# ---- rows of a shard that are in its log and in no generation


@dataclass(slots=True)
class Memtable:
    """The rows of a future generation, as batches in write order.

    generation: the number that the generation will have.
    batches: rows in the form of the log; readers take a copy of the list.
    rows, bytes: the totals of the batches.
    entries: the number of log entries that they came in.
    last_position: the last of these entries, or 0 before the first.
    lacking: columns that none of these entries has: the table got them later.  The rows have nulls.
    categories: the values of dictionaries with small keys, including values of rows to come.
    """

    generation: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    entries: int = 0
    last_position: int = 0
    lacking: frozenset[str] = frozenset()
    categories: Categories | None = None

    def holds(self, batches: Sequence[pa.RecordBatch]) -> bool:
        """Add dictionary values of rows to come; ``False`` if too many for the type of the keys."""
        if self.categories is None and batches:
            # files of generations are of 2.1 or later
            self.categories = Categories(batches[0].schema, "2.1")
            batches = [*self.batches, *batches]
        return self.categories is None or self.categories.add_all(batches)

    def of_files(self) -> list[Memtable]:
        """Return its rows in parts that fit into one file each."""
        parts = [replace(self, batches=[], categories=None)]
        for batch in self.batches:
            if not parts[-1].holds([batch]):
                parts.append(replace(self, batches=[], categories=None))
                parts[-1].holds([batch])
            parts[-1].batches.append(batch)
        return parts

    @property
    def given(self) -> list[pa.RecordBatch]:
        """The rows without their lacking columns, as a new list."""
        if not self.lacking:
            return list(self.batches)
        return [batch.drop_columns(sorted(self.lacking)) for batch in self.batches]

    def add(self, batches: list[pa.RecordBatch], size: int, position: int) -> None:
        """Add the rows of a log entry of `size` bytes at `position`."""
        self.batches += batches
        self.rows += sum(batch.num_rows for batch in batches)
        self.bytes += size
        self.entries += 1
        self.last_position = position


# ---- replay: entries become memtables again, as their writers had them


def replayed(entries: Iterable[Entry], generation: int, schema: pa.Schema) -> list[Memtable]:
    """Return the memtables of entries, ascending; the last one is the active memtable.

    entries: the result of `replayable` for the shard's newest manifest.
    generation: the number of the next generation, by the manifest.
    schema: the result of `wal_schema` for the table's current schema.

    Raises CorruptFileError: as `entry_rows` raises it.
    """
    tables = [Memtable(generation)]
    for entry in entries:
        rows = entry_rows(entry, schema)
        if not rows:
            continue
        number = entry.generation or 0
        if number > tables[-1].generation:  # an entry without a number joins the last memtable
            if tables[-1].rows:
                tables.append(Memtable(number))
            tables[-1].generation = number
        missing = lacking_columns(entry.batches[0].schema, schema)
        tables[-1].lacking = missing & tables[-1].lacking if tables[-1].rows else missing
        tables[-1].add(rows, sum(batch.nbytes for batch in rows), entry.position)
    return tables
