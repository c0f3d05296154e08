"""Rows of entries and generations that a repair moved aside, in the table's current schema.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import booleans_of
from lancekit._file.writer import FileWriter
from lancekit._format.data_file import DEFAULT_VERSION
from lancekit._format.fragment import TOMBSTONE as NO_FIELD
from lancekit._format.fragment import DataFile, Fragment
from lancekit._format.schema import LanceSchema
from lancekit._operations.mem_wal.newest_rows import GenerationRows
from lancekit._operations.mem_wal.quarantine import nullable_schema
from lancekit._operations.mem_wal.reader.newest import KeyRows, Newest
from lancekit._pipeline.probe import KeyTable
from lancekit._pipeline.source_keys import key_lookup
from lancekit._pipeline.write_rows import data_file
from lancekit._scan.expressions.nodes import applied
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.rebatch import combined, taken_values
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._shards.aside import Aside, files_aside, read_aside_entry
from lancekit._shards.log import by_id, lacking_columns
from lancekit._shards.schema import TOMBSTONE, Shard, generation_schema, wal_schema
from lancekit._storage.base import Bytes, Store
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import FileLocation, Snapshot, load_snapshot
from lancekit.errors import CorruptFileError, LancekitError, StorageError

Numbers = npt.NDArray[np.int64]

#: the position of rows of a generation: they sort after the rows of the generation's entries
LAST = (1 << 63) - 1

#: errors that a damaged file can raise
_OF_DAMAGE = (LancekitError, OSError, ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideFile:
    """A file that was moved aside, and its readable contents.

    uri: the URI of the file.
    generation: the generation of its rows, or 0 if it is unknown.
    fault: its damage.  Empty if it has none.
    lacking: the columns of the table that its rows lack.
    rows: the number of readable rows.
    """

    aside: Aside
    uri: str
    generation: int
    fault: str
    lacking: frozenset[str]
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class AsideRows:
    """The rows of a shard that were moved aside, in the order in which they were put.

    files: its files aside whose rows wait, readable or not.
    done: the positions of entries whose copies were put back or discarded.
    rows: the columns of the version, nullable, then `_tombstone`.
    file: the index in `files` of each row's file.
    """

    shard: Shard
    files: tuple[AsideFile, ...]
    done: frozenset[int]
    rows: pa.Table
    file: Numbers

    @property
    def offsets(self) -> Numbers:
        """The index of each row in its file."""
        return np.arange(len(self.file)) - np.searchsorted(self.file, self.file)

    @property
    def generations(self) -> Numbers:
        """The generation of each row."""
        return self._of_files([one.generation for one in self.files])

    @property
    def positions(self) -> Numbers:
        """The position of each row in the log; `LAST` for rows of a generation."""
        return self._of_files([one.aside.position or LAST for one in self.files])

    def _of_files(self, values: Sequence[int]) -> Numbers:
        return np.array(values, np.int64)[self.file] if values else self.file


def read_aside_rows(snapshot: Snapshot, shard: Shard) -> AsideRows:
    """Read the rows of a shard that were moved aside and are neither put back nor discarded."""
    schema = snapshot.manifest.schema
    form = pa.schema([*nullable_schema(schema).to_arrow(), pa.field(TOMBSTONE, pa.bool_())])
    every = files_aside(shard)
    found = [_read(snapshot, shard, one, form) for one in every if not one.is_done]
    found.sort(key=lambda one: (one[0].generation, one[0].aside.position or LAST))
    files = tuple(file for file, _ in found)
    return AsideRows(
        shard=shard,
        files=files,
        done=frozenset(one.position for one in every if one.is_done and one.position),
        rows=pa.concat_tables([form.empty_table(), *(rows for _, rows in found)]),
        file=np.repeat(np.arange(len(files)), [file.rows for file in files]),
    )


def _read(
    snapshot: Snapshot, shard: Shard, aside: Aside, form: pa.Schema
) -> tuple[AsideFile, pa.Table]:
    uri = f"{shard.store.uri}/{aside.name}"
    read = _read_generation if aside.position is None else _read_entry
    try:
        generation, fault, lacking, rows = read(snapshot, shard, aside)
        rows = ak.cast(rows.rename_columns(form.names), form)
    except StorageError:  # the file may be intact, and other rows may duplicate its rows
        raise
    except _OF_DAMAGE as error:
        fault = error.message if isinstance(error, LancekitError) else str(error)
        generation, lacking, rows = aside.generation or 0, frozenset[str](), form.empty_table()
    return AsideFile(
        aside=aside,
        uri=uri,
        generation=generation,
        fault=fault,
        lacking=lacking,
        rows=rows.num_rows,
    ), rows


_Read = tuple[int, str, frozenset[str], pa.Table]


def _read_entry(snapshot: Snapshot, shard: Shard, aside: Aside) -> _Read:
    entry, schema = read_aside_entry(shard, aside), wal_schema(snapshot.manifest.schema)
    rows = [by_id(batch, schema) for batch in entry.batches]
    lacking = lacking_columns(entry.batches[0].schema, schema) if rows else frozenset[str]()
    return entry.generation or 0, entry.fault, lacking, pa.Table.from_batches(rows, schema)


def _read_generation(snapshot: Snapshot, shard: Shard, aside: Aside) -> _Read:
    opened = load_snapshot(BranchLocation(root=shard.store.child(aside.name)), 1)
    found = GenerationRows.read([opened], snapshot.manifest.schema)
    rows = found.rows(np.ones(found.keys.num_rows, bool))
    whole = aside.note is not None and aside.note.whole
    fault = "" if whole else "The generation was damaged when it was moved."
    return aside.generation or 0, fault, frozenset().union(*found.lacking), rows


# ---- columns that the table got after rows were put: the rows take the values of the table's rows
#
# When a row replaces a row of the table, a merge keeps the values of such columns.  A read shows
# the same: it takes the values from the table's rows with the same keys, as a data file in memory.

#: a field id for `_tombstone` that no table has
_MARK_ID = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class _HasKey:
    """Tests whether rows have one of a set of keys."""

    keys: Newest

    def __call__(self, *columns: pa.Array) -> pa.BooleanArray:
        found = np.zeros(len(columns[0]), bool)
        found[self.keys.find(columns)[0]] = True
        return booleans_of(found)


def with_later_columns(
    rows: FragmentSource,
    keys: KeyRows,
    names: tuple[str, ...],
    base: Snapshot,
    lacking: Collection[str],
) -> FragmentSource:
    """Return rows of a shard with the table's values in the columns that the rows lack.

    rows, keys: the rows, and their keys, hidden rows included.
    names: the names of the key columns.
    base: the version of the table.  Rows whose key it lacks get nulls.
    lacking: the columns that the rows lack.
    """
    schema = base.manifest.schema
    rows = with_own_mark(rows)
    wanted, found = rows_of_keys(base, names, keys.columns, lacking)
    at = _places(wanted, found)
    own = LanceSchema(tuple(replace(f, nullable=True) for f in schema.fields if f.name in lacking))
    columns = [taken_values(found.column(field.name), at) for field in own.fields]
    values = combined(pa.table(columns, schema=own.to_arrow()))
    file, location = _memory_file(values.to_batches(), own, f"later columns of {rows.where}")
    ids = {field.id for field in own.walk()}
    files = tuple(
        replace(one, fields=tuple(NO_FIELD if id_ in ids else id_ for id_ in one.fields))
        for one in rows.fragment.files
    )
    return replace(
        rows, fragment=replace(rows.fragment, files=(*files, file)), files=(*rows.files, location)
    )


def rows_of_keys(
    base: Snapshot, names: tuple[str, ...], keys: tuple[pa.Array, ...], columns: Collection[str]
) -> tuple[Newest, pa.Table]:
    """Read the rows of a version that have one of some keys.

    names, keys: the names of the key columns, and the keys.
    columns: the columns to read in addition to the key.

    Returns
    -------
    tuple
        A map from the keys to their indices in `keys`, and the rows.
    """
    table = KeyTable(names, keys)
    wanted = Newest(table, np.arange(len(keys[0]), dtype=np.uint64))
    typed = pa.schema(zip(names, (column.type for column in keys), strict=True))
    test = applied(_HasKey(wanted), typed)
    request = ScanRequest(
        outputs=plan_columns(base.manifest.schema, [*names, *columns]),
        predicate=Predicate(source="true", expr=test, schema=typed, columns=frozenset(names)),
    )
    read = Read(fragment_sources(base), lookup=key_lookup(base, table))
    return wanted, Scan(read=read, request=request).to_table()


def with_own_mark(rows: FragmentSource) -> FragmentSource:
    """Return rows of a shard with a field id of `_tombstone` that no table has.

    The table may have given the id, which was free when the rows were written, to a column since.
    """
    fragment, schema = rows.fragment, rows.schema
    marks = {field.id for field in schema.fields if field.name == TOMBSTONE}
    files = (
        replace(file, fields=tuple(_MARK_ID if id_ in marks else id_ for id_ in file.fields))
        for file in fragment.files
    )
    fields = (replace(f, id=_MARK_ID) if f.id in marks else f for f in schema.fields)
    return replace(
        rows,
        fragment=replace(fragment, files=tuple(files)),
        schema=replace(schema, fields=tuple(fields)),
    )


def _places(wanted: Newest, found: pa.Table) -> pa.Array:
    """Return the index of each row's key among the found rows; null if it was not found."""
    rows, firsts = wanted.find([found.column(name) for name in wanted.keys.names])
    places: npt.NDArray[np.int64] = np.full(len(wanted.addresses), -1)
    places[firsts.astype(np.int64)] = rows
    places = places[wanted.keys.first_rows[wanted.keys.codes]]
    return pa.array(places, mask=places < 0)


# ---- rows of logs and of writers' memory, as fragments: a data file each, in memory
#
# So readers of fragments read them, too: columns are matched by field id, and filters and searches
# work as for other fragments.

_NAME = "rows"


class _MemoryFile:
    """A `RandomAccess` over bytes in memory."""

    gap = 0
    identity = None

    def __init__(self, data: pa.Buffer, name: str) -> None:
        self._data = data
        self.name = name

    def size(self) -> int:
        return self._data.size

    def read(self, start: int, length: int) -> pa.Buffer:
        if not 0 <= start <= start + length <= self._data.size:
            raise CorruptFileError(f"{self.name} ends before byte {start + length}.")
        return self._data.slice(start, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        return [self.read(start, length) for start, length in ranges]


@dataclass(frozen=True)
class _MemoryStore:
    """The part of a store that reads its one file; it can be sent to a worker."""

    data: pa.Buffer
    uri: str

    def open(self, name: str, _size: int | None = None) -> _MemoryFile:
        return _MemoryFile(self.data, f"{self.uri}/{name}")


class _MemorySink:
    """A `Sink` that keeps the written bytes in memory."""

    def __init__(self) -> None:
        self._stream = pa.BufferOutputStream()
        self.data = pa.py_buffer(b"")

    def write(self, data: Bytes) -> None:
        self._stream.write(data)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        self.data = self._stream.getvalue()

    def abort(self) -> None:
        self._stream.close()


def _memory_file(
    batches: Sequence[pa.RecordBatch], schema: LanceSchema, where: str
) -> tuple[DataFile, FileLocation]:
    """Write rows of a schema to a data file in memory; `where` as of `memory_fragment`."""
    sink, plain = _MemorySink(), schema.to_arrow()
    # files of 2.0 cannot store null structs, which tombstones have
    writer = FileWriter(sink, schema, version=DEFAULT_VERSION)
    for batch in batches:
        writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=plain))
    summary = writer.finish()
    store = cast("Store", _MemoryStore(sink.data, where))
    return data_file(_NAME, summary), FileLocation(store, _NAME, summary.size_bytes)


def memory_fragment(
    batches: Sequence[pa.RecordBatch], base: Snapshot, where: str
) -> FragmentSource:
    """Return rows in the current form of a log as a fragment.

    base: the table.
    where: the name of the rows' source, for messages.
    """
    own = generation_schema(base.manifest.schema)
    file, location = _memory_file(batches, own, where)
    return FragmentSource(
        fragment=Fragment(0, (file,), sum(batch.num_rows for batch in batches)),
        files=(location,),
        deletion=None,
        schema=own,
        stable_row_ids=False,
        first_row=0,
        version=base.version,
        location=base.location,
        base_paths=(),
    )
