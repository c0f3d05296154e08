"""The parts of a table's shards that a read includes: generations, and unflushed rows.

Parts are cached by the identity of their files and of the version.  A repeated read only checks
whether these are unchanged.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of
from lancekit._cache import remembered
from lancekit._file.kernels.memory import owned
from lancekit._file.open_files import OpenFiles
from lancekit._file.reader import FileReader
from lancekit._format.mem_wal.names import entry_name
from lancekit._format.mem_wal.shard_manifest import ShardManifest, SsTable
from lancekit._format.paths import paths_by_id
from lancekit._format.schema import LanceSchema
from lancekit._index.search.btree import LOOKUP
from lancekit._lazy import cached_property
from lancekit._operations.mem_wal.generation import (
    KEYS,
    Memtable,
    generation_identity,
    open_generation,
    replayed,
)
from lancekit._operations.mem_wal.newest_rows import lacking
from lancekit._operations.mem_wal.reader.aside_rows import (
    memory_fragment,
    with_later_columns,
    with_own_mark,
)
from lancekit._operations.mem_wal.reader.newest import KeyRows
from lancekit._operations.unmerged.marks import Marks
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._shards.entry import Entry
from lancekit._shards.log import by_id, lacking_columns
from lancekit._shards.schema import TOMBSTONE, Shard, primary_key, wal_schema
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, LancekitError
from lancekit.options import options

#: the name of this cache in the cache statistics
CACHE_KIND = "shards"
#: the first id of the fragments of shards, above the ids of all fragments of a table
FIRST_ID = 1 << 31
#: estimated memory of a cached part, or of a view of the table
_PART_BYTES = 4000

#: unflushed rows in write order, after the number of their future generation
MemoryRows: TypeAlias = tuple[int, list[pa.RecordBatch]]


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardState:
    """The contents of a shard that a read includes.

    sstables: its generations.
    manifest, entries: the log entries that are in no generation, and the manifest that says so.
    memory: the unflushed rows of a writer in this process, if any.  Then its log is not read.
    """

    shard: Shard
    sstables: tuple[SsTable, ...]
    manifest: ShardManifest | None = None
    entries: tuple[Entry, ...] = ()
    memory: tuple[MemoryRows, ...] = ()

    def memtables(self, schema: LanceSchema) -> list[Memtable]:
        """Return the unflushed rows, in the current form of the log, in parts of one file each."""
        form = wal_schema(schema)
        if self.manifest is not None:
            tables = replayed(self.entries, self.manifest.current_generation, form)
            return [part for table in tables if table.rows for part in table.of_files()]
        memtables = list[Memtable]()
        for number, batches in self.memory:
            if batches:
                lacks = frozenset.intersection(
                    *(lacking_columns(batch.schema, form) for batch in batches)
                )
                rows = [by_id(one, form) for one in batches]
                memtables += Memtable(number, rows, lacking=lacks).of_files()
        return memtables

    @cached_property
    def identity(self) -> Hashable | None:
        """A cache key that is unique to the entries; ``None`` if their store has none."""
        names = [entry_name(entry.position) for entry in self.entries]
        marks = tuple(map(self.shard.store.identity, names))
        if self.manifest is None or None in marks:
            return None
        return marks, self.manifest.current_generation


@dataclass(frozen=True, eq=False, kw_only=True)
class View:
    """The schema and key in which a version reads its parts.

    schema: the table's columns in the form in which parts are read.
    keys, key_ids, key_types: the columns of the primary key in key order, with their field ids and
        types.  Empty without a primary key.
    """

    schema: LanceSchema
    keys: tuple[str, ...]
    key_ids: tuple[int, ...]
    key_types: tuple[pa.DataType, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Rows of a shard in write order: one fragment, with its own schema.

    fragment: the rows.
    view: the schema and key in which the table reads them.
    identity: a cache key that is unique to the rows, or ``None``.
    table: the generation as a table, which may have indices, or ``None`` for rows in memory.
    """

    shard: UUID
    generation: int
    fragment: FragmentSource
    view: View
    identity: Hashable | None
    table: Snapshot | None = None

    @property
    def keys(self) -> KeyRows:
        """The keys of all rows, hidden ones included."""
        key = self._cache_key("keys")
        return remembered(CACHE_KIND, key, self._read_keys, lambda keys: keys.nbytes)

    def _read_keys(self) -> KeyRows:
        schema = self.fragment.schema
        paths = paths_by_id(schema)
        key_ids = self.view.key_ids
        missing = [id_ for id_ in key_ids if id_ not in paths]
        if missing:
            raise CorruptFileError(
                f"Generation {self.generation} of shard {self.shard} lacks the primary-key column "
                f"with field id {missing[0]}.",
                shard=str(self.shard),
            )
        names = [paths[id_] for id_ in key_ids]
        marks = [TOMBSTONE] if TOMBSTONE in schema else []
        reader = FragmentReader(_opened_by(self.fragment, OpenFiles()))
        with options(verify_checksums=True):  # affordable, because whole columns are read once
            rows = ak.combine_chunks(reader.read([*names, *marks], range(reader.physical_rows)))
        deletes = np.zeros(rows.num_rows, bool)
        if marks and rows.num_rows:
            marked = rows.column(TOMBSTONE).chunk(0)
            deletes = flags_of(marked) & flags_of(marked.is_valid())
        columns = [_one_chunk(rows.column(name)) for name in names]
        return KeyRows(
            tuple(
                c if c.type == t else c.cast(t)
                for c, t in zip(columns, self.view.key_types, strict=True)
            ),
            deletes,
        )

    def range_of_keys(self) -> tuple[pa.Array, pa.Array]:
        """Return the least and the greatest key of a one-column key, as arrays of one value."""
        return remembered(CACHE_KIND, self._cache_key("range"), self._read_range, lambda _: 256)

    def _read_range(self) -> tuple[pa.Array, pa.Array]:
        if self.table is not None:
            # if the file is missing or damaged, the range is computed from the keys
            with suppress(LancekitError, OSError, KeyError), options(verify_checksums=True):
                lookup = FileReader.open(self.table.store.open(f"{KEYS}/{LOOKUP}"))
                ends = lookup.read(lookup.columns)
                return self._end(ends.column("min")[0]), self._end(ends.column("max")[-1])
        found = pc.min_max(self.keys.columns[0])
        return self._end(found["min"]), self._end(found["max"])

    def _end(self, key: pa.Scalar) -> pa.Array:
        # `pa.array` loads pandas, which takes longer than the rest of a first read
        return ak.cast(pa.repeat(key, 1), self.view.key_types[0])

    def _cache_key(self, what: str) -> Hashable | None:
        return cache_key(self.identity, what, self.view.key_ids, self.view.key_types)

    def as_fragment(self, number: int, open_files: OpenFiles, first_row: int = 0) -> FragmentSource:
        """Return the rows as a fragment of the table.

        number: the index among all parts.
        open_files: the open files of the reader.
        first_row: the number of rows before it.
        """
        rows = _opened_by(with_own_mark(self.fragment), open_files)
        return replace(
            rows,
            fragment=replace(rows.fragment, id=FIRST_ID + number),
            schema=self.view.schema,
            first_row=first_row,
        )


def cache_key(identity: Hashable | None, *more: Hashable) -> Hashable | None:
    """Return the cache key of something read from files; ``None`` if these have no identity."""
    return None if identity is None else (identity, *more)


def _opened_by(fragment: FragmentSource, open_files: OpenFiles) -> FragmentSource:
    """Return a fragment that keeps its files open in `open_files`: cached fragments keep none."""
    return replace(fragment, location=replace(fragment.location, open_files=open_files))


def _one_chunk(values: pa.ChunkedArray) -> pa.Array:
    return owned(values.chunk(0) if values.num_chunks == 1 else ak.combine_chunks(values))


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that a version of the table is read with, shard by shard."""

    base: Snapshot

    @cached_property
    def view(self) -> View:
        """The schema and key in which the version reads its parts."""
        return remembered(CACHE_KIND, self._cache_key("view"), self._view, lambda _: _PART_BYTES)

    def of(self, state: ShardState) -> Iterator[Part]:
        """Yield the unmerged parts of a shard, the newest rows first.

        Raises LancekitError, OSError: a generation cannot be read.
        """
        shard = state.shard.id
        written = {table.generation for table in state.sstables}
        for part in self._unflushed_parts(state):
            if part.generation not in written and not self._marks.has(shard, part.generation):
                yield part
        for table in sorted(state.sstables, key=lambda table: table.generation, reverse=True):
            if not self._marks.has(shard, table.generation):
                for part in self._of_generation(state.shard, table):
                    file = part.fragment.files[0]
                    yield replace(part, identity=file.store.identity(file.name))

    @cached_property
    def _marks(self) -> Marks:
        return Marks(self.base)

    @cached_property
    def _identity(self) -> Hashable | None:
        return self.base.identity

    def _cache_key(self, *more: Hashable | None) -> Hashable | None:
        return None if None in more else cache_key(self._identity, *more)

    def _view(self) -> View:
        schema = self.base.manifest.schema
        loose = (
            f if f.key_position is not None else replace(f, nullable=True) for f in schema.fields
        )
        paths, key = paths_by_id(schema), primary_key(schema)
        return View(
            schema=replace(schema, fields=tuple(loose)),
            keys=tuple(paths[field.id] for field in key),
            key_ids=tuple(field.id for field in key),
            key_types=tuple(field.to_arrow().type for field in key),
        )

    def _of_generation(self, shard: Shard, table: SsTable) -> tuple[Part, ...]:
        def make() -> tuple[Part, ...]:
            schema = self.base.manifest.schema
            snapshot = open_generation(shard, table, schema)
            missing = lacking(schema, snapshot.manifest.schema)
            return tuple(
                self._with_missing_columns(
                    Part(
                        shard=shard.id,
                        generation=table.generation,
                        fragment=replace(source, compared=True),
                        view=self.view,
                        identity=None,  # set at each read
                        table=snapshot,
                    ),
                    missing,
                )
                for source in reversed(fragment_sources(snapshot))
            )

        known = self._cache_key(shard.id, table.generation, generation_identity(shard, table))
        return remembered(CACHE_KIND, known, make, lambda made: _PART_BYTES * len(made))

    def _with_missing_columns(self, part: Part, missing: frozenset[str]) -> Part:
        """Return a part with the table's values in the columns that the part lacks."""
        if not (missing and self.view.keys):
            return part
        filled = with_later_columns(
            part.fragment, part.keys, self.view.keys, self.base, sorted(missing)
        )
        return replace(part, fragment=filled)

    def _unflushed_parts(self, state: ShardState) -> tuple[Part, ...]:
        """Return the unflushed rows as parts, one for each future generation, newest first."""
        if not (state.memory or state.entries):
            return ()
        known = self._cache_key("rows", state.identity)

        def make() -> tuple[Part, ...]:
            memtables = sorted(
                state.memtables(self.base.manifest.schema), key=attrgetter("generation")
            )
            where = f"the log of shard {state.shard.id}"
            return tuple(
                self._with_missing_columns(
                    Part(
                        shard=state.shard.id,
                        generation=one.generation,
                        fragment=_opened_by(
                            memory_fragment(one.batches, self.base, where), OpenFiles()
                        ),
                        view=self.view,
                        identity=cache_key(known, number),
                    ),
                    one.lacking,
                )
                for number, one in reversed([*enumerate(memtables)])
            )

        def size(made: tuple[Part, ...]) -> int:
            return sum(part.fragment.files[0].size or 0 for part in made) + _PART_BYTES

        return remembered(CACHE_KIND, known, make, size)
