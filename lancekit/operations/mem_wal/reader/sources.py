"""What a table is read together with: the generations and logs of its shards.

Manifests and logs are read first, then the newest version of the table, and what that version has
merged is left out.  The other way around rows could be missed: those that are merged after the
version was read, and drained before the manifest was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancekit.cache import remembered
from lancekit.errors import CorruptFileError, LancekitError
from lancekit.file import FileReader
from lancekit.file.kernels.bits import flags_of
from lancekit.file.kernels.memory import owned
from lancekit.format.mem_wal.details import details_of
from lancekit.format.mem_wal.names import entry_name
from lancekit.format.mem_wal.shard_manifest import ShardManifest, SsTable
from lancekit.format.paths import paths_by_id
from lancekit.format.schema import LanceSchema
from lancekit.index.search.btree import LOOKUP
from lancekit.lazy import cached_property
from lancekit.operations.mem_wal.generation import KEYS, open_generation
from lancekit.operations.mem_wal.reader.held import held_fragment
from lancekit.operations.mem_wal.reader.newest import KeyRows, Newest, newest_of
from lancekit.operations.mem_wal.replay import replayed
from lancekit.operations.unmerged.waiting import Marks
from lancekit.scan.fragments.reader import FragmentReader
from lancekit.scan.fragments.source import FragmentSource, fragment_sources
from lancekit.shards.by_id import by_id
from lancekit.shards.log import Entry, replayable
from lancekit.shards.manifests import latest
from lancekit.shards.schema import TOMBSTONE, primary_key, wal_schema
from lancekit.shards.shard import Shard, shard_of, shards_of
from lancekit.storage import Store
from lancekit.versions.line import Line
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = [
    "FIRST_ID",
    "Memory",
    "Part",
    "ReadSet",
    "ShardState",
    "again_if_gone",
    "newest_read_set",
    "read_set",
]

T = TypeVar("T")

#: how often all is looked at again if what a manifest lists goes meanwhile, and the first pause
_ATTEMPTS, _PAUSE_SECONDS = 6, 0.005
#: what it is called where it is counted what is remembered
_KIND = "shards"
#: the fragments of shards have ids from here on, which no fragment of a table reaches
FIRST_ID = 1 << 31
#: in the place of the field that marks deleted rows; no table has so many
_MARK_ID = (1 << 31) - 1


#: rows that are in no generation: the number of the one that they are to be, and the rows, as they
#: were written
Memory: TypeAlias = tuple[int, list[pa.RecordBatch]]


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardState:
    """What is read of a shard.

    Attributes
    ----------
    sstables
        Its generations.
    manifest, entries
        What of its log is in none of them, and the manifest that says so.
    memory
        What a writer of this process holds, if there is one; its log is not read then.
    """

    shard: Shard
    sstables: tuple[SsTable, ...]
    manifest: ShardManifest | None = None
    entries: tuple[Entry, ...] = ()
    memory: tuple[Memory, ...] = ()

    def held(self, schema: LanceSchema) -> list[Memory]:
        """Return the rows that are in no generation, in the form that the log has today."""
        form = wal_schema(schema)
        if self.manifest is None:
            held = [(number, [by_id(one, form) for one in some]) for number, some in self.memory]
            return [(number, batches) for number, batches in held if batches]
        tables = replayed(self.entries, self.manifest, form)
        return [(table.generation, table.batches) for table in tables if table.batches]

    @cached_property
    def identity(self) -> Hashable | None:
        """What tells the entries from all others, if anything does."""
        names = [entry_name(entry.position) for entry in self.entries]
        marks = tuple(map(self.shard.store.identity, names))
        if self.manifest is None or None in marks:
            return None
        return marks, self.manifest.current_generation


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Rows of a shard that were written after each other: a fragment in a schema of its own.

    Attributes
    ----------
    fragment
        The rows.
    schema
        The table's columns as they are read in it.
    key_ids
        The fields of the primary key, in its order; none if the table has none.
    key_types
        Their types in the table.
    identity
        What tells it from all others, if anything does.
    folder
        That of the generation, which has all of its keys in order; ``None`` for rows in memory.
    """

    shard: UUID
    generation: int
    fragment: FragmentSource
    schema: LanceSchema
    key_ids: tuple[int, ...]
    key_types: tuple[pa.DataType, ...]
    identity: Hashable | None
    folder: Store | None = None

    @property
    def keys(self) -> KeyRows:
        """The keys of all its rows, hidden ones included."""
        key = _known_by(self.identity, "keys", self.key_ids, self.key_types)
        return remembered(_KIND, key, self._read_keys, lambda keys: keys.bytes_held)

    def _read_keys(self) -> KeyRows:
        schema = self.fragment.schema
        paths = paths_by_id(schema)
        missing = [id_ for id_ in self.key_ids if id_ not in paths]
        if missing:
            raise CorruptFileError(
                f"Generation {self.generation} of shard {self.shard} lacks the column of the "
                f"primary key whose field is {missing[0]}.",
                shard=str(self.shard),
            )
        names = [paths[id_] for id_ in self.key_ids]
        marks = [TOMBSTONE] if TOMBSTONE in schema else []
        reader = FragmentReader(self.fragment)
        rows = reader.read([*names, *marks], range(reader.physical_rows)).combine_chunks()
        deletes = np.zeros(rows.num_rows, bool)
        if marks and rows.num_rows:
            deletes = flags_of(pc.fill_null(rows.column(TOMBSTONE), False).chunk(0)).copy()
        columns = [_whole(rows.column(name)) for name in names]
        return KeyRows(
            tuple(
                c if c.type == t else c.cast(t)
                for c, t in zip(columns, self.key_types, strict=True)
            ),
            deletes,
        )

    @property
    def table(self) -> Snapshot | None:
        """The generation as a table, which may have indices; ``None`` for rows in memory."""
        if self.folder is None:
            return None
        of = self.fragment
        key = _known_by(self.identity, "table")
        return remembered(_KIND, key, lambda: load_snapshot(of.line, of.version), _bytes_of)

    def range_of_keys(self) -> tuple[Any, Any]:
        """Return the least and the greatest key, of a key of one column."""
        key = _known_by(self.identity, "range", self.key_ids, self.key_types)
        return remembered(_KIND, key, self._read_range, lambda _: 256)

    def _read_range(self) -> tuple[Any, Any]:
        if self.folder is not None:
            with suppress(LancekitError, OSError):  # the keys themselves tell it, too
                lookup = FileReader.open(self.folder.open(f"{KEYS}/{LOOKUP}"))
                ends = lookup.read(lookup.columns)
                return ends.column("min")[0].as_py(), ends.column("max")[-1].as_py()
        found = pc.min_max(self.keys.columns[0]).as_py()
        return found["min"], found["max"]

    def seen(self, number: int, first_row: int) -> FragmentSource:
        """Return its rows as a fragment of the table, by a number among all parts.

        The table may have given out the id of the mark, which was free when the rows were written,
        to a column since.
        """
        marks = {f.id for f in self.fragment.schema.fields if f.name == TOMBSTONE}
        files = tuple(
            replace(file, fields=tuple(_MARK_ID if id_ in marks else id_ for id_ in file.fields))
            for file in self.fragment.fragment.files
        )
        return replace(
            self.fragment,
            fragment=replace(self.fragment.fragment, id=FIRST_ID + number, files=files),
            schema=self.schema,
            first_row=first_row,
        )


def _bytes_of(table: Snapshot) -> int:
    return 4 * table.manifest_size


def _known_by(identity: Hashable | None, *more: Hashable) -> Hashable | None:
    """Return what something read is remembered by, if anything tells its files from others."""
    return None if identity is None else (identity, *more)


def _whole(values: pa.ChunkedArray) -> pa.Array:
    array = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return owned(array)


@dataclass(frozen=True, eq=False, kw_only=True)
class ReadSet:
    """A version of a table, and what its shards hold that is not in it.

    Attributes
    ----------
    base
        The version.
    keys
        The primary key; nothing for a table without.
    parts
        Those of newer rows first.
    """

    base: Snapshot
    keys: tuple[str, ...]
    parts: tuple[Part, ...] = field(repr=False)

    @cached_property
    def newest(self) -> Newest | None:
        """Where keys lead; ``None`` if there are none, or no parts."""
        if not self.keys or not self.parts:
            return None
        identities = tuple(part.identity for part in self.parts)
        first, known = self.parts[0], None if None in identities else identities
        key = _known_by(known, "newest", first.key_ids, first.key_types)
        return remembered(_KIND, key, self._newest, lambda found: found.bytes_held)

    def _newest(self) -> Newest:
        ids = range(FIRST_ID, FIRST_ID + len(self.parts))
        return newest_of(self.keys, [part.keys for part in self.parts], ids)

    @cached_property
    def fragments(self) -> tuple[FragmentSource, ...]:
        """The parts as fragments of the table, behind its own."""
        before, found = self.base.manifest.num_rows, []
        for number, part in enumerate(self.parts):
            found.append(part.seen(number, before))
            before += found[-1].num_rows
        return tuple(found)

    @property
    def told(self) -> str:
        """What is read with the table, in words."""
        if not self.parts:
            return "no rows of shards are left to be read with the table"
        rows = sum(part.fragment.num_rows for part in self.parts)
        shards = len({part.shard for part in self.parts})
        return (
            f"{rows:,} rows of {len(self.parts)} generations of {shards} shards are read with the "
            "table, of each key the newest row"
        )

    def is_like(self, other: ReadSet) -> bool:
        """Tell whether another one reads the same files."""
        return self._files == other._files

    @property
    def _files(self) -> tuple[object, ...]:
        names = [(part.shard, part.fragment.files[0].name) for part in self.parts]
        return self.base.version, *names

    @property
    def generations(self) -> tuple[int, ...]:
        """The generation of each part."""
        return tuple(part.generation for part in self.parts)


def newest_read_set(line: Line, writers: Mapping[UUID, Sequence[Memory]] | None = None) -> ReadSet:
    """Return what a table is at this moment, its shards included.

    Parameters
    ----------
    line
        The table.
    writers
        By shards, what writers of this process hold, asked before.

    Raises
    ------
    LancekitError, OSError
        Something cannot be read, and not because it was just merged.
    """
    known = writers or {}

    def read() -> ReadSet:
        shards = {shard.id: shard for shard in shards_of(line.store)}
        shards |= {id_: shard_of(line.store, id_) for id_ in known}
        states = [_state(shards[id_], known.get(id_)) for id_ in sorted(shards)]
        base = latest_snapshot(line)
        initialized = details_of(base.indices) is not None  # what an overwrite left is not its
        return read_set(base, [one for one in states if one and initialized])

    return again_if_gone(read)


def again_if_gone(read: Callable[[], T]) -> T:
    """Read again what cannot be read, some times: what is merged meanwhile goes."""
    for attempt in range(_ATTEMPTS):
        with suppress(LancekitError, OSError):
            return read()
        time.sleep(_PAUSE_SECONDS * 2**attempt)
    return read()


def _state(shard: Shard, memory: Sequence[Memory] | None) -> ShardState | None:
    """Return what a shard holds: its manifest may not move while the log is read."""
    manifest = latest(shard)
    while manifest is not None:
        if memory is not None:
            return ShardState(shard=shard, sstables=manifest.sstables, memory=tuple(memory))
        entries, failure = _entries(shard, manifest)
        again = latest(shard)
        if again is not None and _reach(again) == _reach(manifest):
            if failure is not None:
                raise failure
            return ShardState(
                shard=shard, sstables=manifest.sstables, manifest=manifest, entries=entries
            )
        manifest = again
    return None


def _entries(
    shard: Shard, manifest: ShardManifest
) -> tuple[tuple[Entry, ...], CorruptFileError | None]:
    """Return the entries of a log, or the error: those that a generation has may be collected."""
    try:
        return tuple(entry for entry in replayable(shard, manifest) if entry.batches), None
    except CorruptFileError as error:
        return (), error


def _reach(manifest: ShardManifest) -> tuple[int, int]:
    return manifest.replay_after, manifest.current_generation


def read_set(base: Snapshot, states: Iterable[ShardState]) -> ReadSet:
    """Return a version of a table, and what shards hold that it has not merged.

    Raises
    ------
    LancekitError, OSError
        A generation cannot be read.
    """
    marks = Marks(base)
    parts = [part for state in states for part in _parts(base, state, marks)]
    # the sort is stable: parts of a generation stay, the newest first
    parts.sort(key=lambda part: part.generation, reverse=True)
    paths = paths_by_id(base.manifest.schema)
    key = primary_key(base.manifest.schema)
    return ReadSet(base=base, keys=tuple(paths[f.id] for f in key), parts=tuple(parts))


def _parts(base: Snapshot, state: ShardState, marks: Marks) -> Iterator[Part]:
    """Yield what of a shard is not merged, the newest rows first."""
    shard = state.shard.id
    written = {table.generation for table in state.sstables}
    for number, fragment in _held_fragments(base, state):
        if number not in written and not marks.has(shard, number):
            held = _known_by(state.identity, number, base.line.uri, base.version)
            yield _part(base, state.shard, number, fragment, held)
    for table in sorted(state.sstables, key=lambda table: table.generation, reverse=True):
        if not marks.has(shard, table.generation):
            snapshot = open_generation(state.shard, table)
            for source in reversed(fragment_sources(snapshot)):
                file = source.files[0]
                identity = file.store.identity(file.name)
                # what is open stays so with the table's handle
                line = replace(source.line, open_files=base.line.open_files)
                fragment = replace(source, line=line)
                part = _part(base, state.shard, table.generation, fragment, identity)
                yield replace(part, folder=snapshot.store)


def _held_fragments(base: Snapshot, state: ShardState) -> list[tuple[int, FragmentSource]]:
    """Return the rows that are in no generation by the ones that they are to be, newest first."""

    def make() -> list[tuple[int, FragmentSource]]:
        held = sorted(state.held(base.manifest.schema), key=itemgetter(0), reverse=True)
        where = f"the log of shard {state.shard.id}"
        return [(number, held_fragment(batches, base, where)) for number, batches in held]

    return remembered(
        _KIND,
        _known_by(state.identity, "rows", base.line.uri, base.version),
        make,
        lambda made: sum(one.fragment.files[0].size_bytes or 0 for _, one in made),
    )


def _part(
    base: Snapshot, shard: Shard, generation: int, source: FragmentSource, identity: Hashable | None
) -> Part:
    schema = base.manifest.schema
    loose = (f if f.key_position is not None else replace(f, nullable=True) for f in schema.fields)
    key = primary_key(schema)
    return Part(
        shard=shard.id,
        generation=generation,
        fragment=source,
        schema=replace(schema, fields=tuple(loose)),
        key_ids=tuple(field.id for field in key),
        key_types=tuple(field.to_arrow().type for field in key),
        identity=identity,
    )
