"""What of a table's shards is read with it, part by part: generations, and rows that are in none.

Parts are remembered by what tells their files, and that of the version, from all others: so a
reader that comes again asks no more than whether they are the same.
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
    held_fragment,
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

#: what it is called where it is counted what is remembered
KIND = "shards"
#: the fragments of shards have ids from here on, which no fragment of a table reaches
FIRST_ID = 1 << 31
#: what a part, or a view of the table, takes, about
_HELD_BYTES = 4000

#: rows that are in no generation: the number of the one that they are to be, and the rows, as they
#: were written
Memory: TypeAlias = tuple[int, list[pa.RecordBatch]]


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardState:
    """What is read of a shard.

    sstables: its generations.
    manifest, entries: what of its log is in none of them, and the manifest that says so.
    memory: what a writer of this process holds, if there is one; its log is not read then.
    """

    shard: Shard
    sstables: tuple[SsTable, ...]
    manifest: ShardManifest | None = None
    entries: tuple[Entry, ...] = ()
    memory: tuple[Memory, ...] = ()

    def held(self, schema: LanceSchema) -> list[Memtable]:
        """Return the rows that are in no generation, in the form that the log has today."""
        form = wal_schema(schema)
        if self.manifest is not None:
            return [
                table
                for table in replayed(self.entries, self.manifest.current_generation, form)
                if table.rows
            ]
        held = []
        for number, batches in self.memory:
            if batches:
                lacks = frozenset.intersection(
                    *(lacking_columns(batch.schema, form) for batch in batches)
                )
                held.append(Memtable(number, [by_id(one, form) for one in batches], lacking=lacks))
        return held

    @cached_property
    def identity(self) -> Hashable | None:
        """What tells the entries from all others, if anything does."""
        names = [entry_name(entry.position) for entry in self.entries]
        marks = tuple(map(self.shard.store.identity, names))
        if self.manifest is None or None in marks:
            return None
        return marks, self.manifest.current_generation


@dataclass(frozen=True, eq=False, kw_only=True)
class View:
    """What a version of the table asks of its parts.

    schema: the table's columns as they are read in parts.
    keys, key_ids, key_types: the columns of the primary key, their fields and types, in its order;
        none if there is none.
    """

    schema: LanceSchema
    keys: tuple[str, ...]
    key_ids: tuple[int, ...]
    key_types: tuple[pa.DataType, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Rows of a shard that were written after each other: a fragment in a schema of its own.

    fragment: the rows.
    view: how the table sees them.
    identity: what tells it from all others, if anything does.
    table: the generation as a table, which may have indices; ``None`` for rows in memory.
    """

    shard: UUID
    generation: int
    fragment: FragmentSource
    view: View
    identity: Hashable | None
    table: Snapshot | None = None

    @property
    def keys(self) -> KeyRows:
        """The keys of all its rows, hidden ones included."""
        key = self._known_by("keys")
        return remembered(KIND, key, self._read_keys, lambda keys: keys.bytes_held)

    def _read_keys(self) -> KeyRows:
        schema = self.fragment.schema
        paths = paths_by_id(schema)
        key_ids = self.view.key_ids
        missing = [id_ for id_ in key_ids if id_ not in paths]
        if missing:
            raise CorruptFileError(
                f"Generation {self.generation} of shard {self.shard} lacks the column of the "
                f"primary key whose field is {missing[0]}.",
                shard=str(self.shard),
            )
        names = [paths[id_] for id_ in key_ids]
        marks = [TOMBSTONE] if TOMBSTONE in schema else []
        reader = FragmentReader(_opened_by(self.fragment, OpenFiles()))
        with options(verify_checksums=True):  # they are read as a whole, once
            rows = ak.combine_chunks(reader.read([*names, *marks], range(reader.physical_rows)))
        deletes = np.zeros(rows.num_rows, bool)
        if marks and rows.num_rows:
            marked = rows.column(TOMBSTONE).chunk(0)
            deletes = flags_of(marked) & flags_of(marked.is_valid())
        columns = [_whole(rows.column(name)) for name in names]
        return KeyRows(
            tuple(
                c if c.type == t else c.cast(t)
                for c, t in zip(columns, self.view.key_types, strict=True)
            ),
            deletes,
        )

    def range_of_keys(self) -> tuple[pa.Array, pa.Array]:
        """Return the least and the greatest key, of a key of one column, as arrays of one value."""
        return remembered(KIND, self._known_by("range"), self._read_range, lambda _: 256)

    def _read_range(self) -> tuple[pa.Array, pa.Array]:
        if self.table is not None:
            # the keys themselves tell it, too, where the file is missing or damaged
            with suppress(LancekitError, OSError, KeyError), options(verify_checksums=True):
                lookup = FileReader.open(self.table.store.open(f"{KEYS}/{LOOKUP}"))
                ends = lookup.read(lookup.columns)
                return self._end(ends.column("min")[0]), self._end(ends.column("max")[-1])
        found = pc.min_max(self.keys.columns[0])
        return self._end(found["min"]), self._end(found["max"])

    def _end(self, key: pa.Scalar) -> pa.Array:
        # `pa.array` loads pandas, which takes longer than all else of a first read
        return ak.cast(pa.repeat(key, 1), self.view.key_types[0])

    def _known_by(self, what: str) -> Hashable | None:
        return known_by(self.identity, what, self.view.key_ids, self.view.key_types)

    def seen(self, number: int, open_files: OpenFiles, first_row: int = 0) -> FragmentSource:
        """Return its rows as a fragment of the table.

        number: its place among all parts.
        open_files: those of whoever reads it.
        first_row: how many rows come before.
        """
        rows = _opened_by(with_own_mark(self.fragment), open_files)
        return replace(
            rows,
            fragment=replace(rows.fragment, id=FIRST_ID + number),
            schema=self.view.schema,
            first_row=first_row,
        )


def known_by(identity: Hashable | None, *more: Hashable) -> Hashable | None:
    """Return what something read is remembered by, if anything tells its files from others."""
    return None if identity is None else (identity, *more)


def _opened_by(fragment: FragmentSource, open_files: OpenFiles) -> FragmentSource:
    """Return a fragment whose files are kept open with others: what is remembered keeps none."""
    return replace(fragment, location=replace(fragment.location, open_files=open_files))


def _whole(values: pa.ChunkedArray) -> pa.Array:
    return owned(values.chunk(0) if values.num_chunks == 1 else ak.combine_chunks(values))


@dataclass(frozen=True, eq=False)
class Parts:
    """What a version of the table is read with, shard by shard."""

    base: Snapshot

    @cached_property
    def view(self) -> View:
        """How the version sees its parts."""
        return remembered(KIND, self._known_by("view"), self._view, lambda _: _HELD_BYTES)

    def of(self, state: ShardState) -> Iterator[Part]:
        """Yield what of a shard is not merged, the newest rows first.

        Raises LancekitError, OSError: a generation cannot be read.
        """
        shard = state.shard.id
        written = {table.generation for table in state.sstables}
        for part in self._held(state):
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

    def _known_by(self, *more: Hashable | None) -> Hashable | None:
        return None if None in more else known_by(self._identity, *more)

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
                self._whole(
                    Part(
                        shard=shard.id,
                        generation=table.generation,
                        fragment=replace(source, compared=True),
                        view=self.view,
                        identity=None,  # is looked at each time
                        table=snapshot,
                    ),
                    missing,
                )
                for source in reversed(fragment_sources(snapshot))
            )

        known = self._known_by(shard.id, table.generation, generation_identity(shard, table))
        return remembered(KIND, known, make, lambda made: _HELD_BYTES * len(made))

    def _whole(self, part: Part, missing: frozenset[str]) -> Part:
        """Return rows with the table's values of columns that they do not have."""
        if not (missing and self.view.keys):
            return part
        filled = with_later_columns(
            part.fragment, part.keys, self.view.keys, self.base, sorted(missing)
        )
        return replace(part, fragment=filled)

    def _held(self, state: ShardState) -> tuple[Part, ...]:
        """Return the rows that are in no generation, by the ones that they are to be, in order."""
        if not (state.memory or state.entries):
            return ()
        known = self._known_by("rows", state.identity)

        def make() -> tuple[Part, ...]:
            held = sorted(
                state.held(self.base.manifest.schema), key=attrgetter("generation"), reverse=True
            )
            where = f"the log of shard {state.shard.id}"
            return tuple(
                self._whole(
                    Part(
                        shard=state.shard.id,
                        generation=one.generation,
                        fragment=_opened_by(
                            held_fragment(one.batches, self.base, where), OpenFiles()
                        ),
                        view=self.view,
                        identity=known_by(known, one.generation),
                    ),
                    one.lacking,
                )
                for one in held
            )

        def size(made: tuple[Part, ...]) -> int:
            return sum(part.fragment.files[0].size or 0 for part in made) + _HELD_BYTES

        return remembered(KIND, known, make, size)
