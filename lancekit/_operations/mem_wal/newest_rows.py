"""Find the newest row of each key in generations, and commit these rows to the table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._commit.rules.pending import Pending
from lancekit._format.deletions import to_bitmap
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.operations import Update
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.staged_files import removed_unless_landed, write_task
from lancekit._operations.delete import apply_deletions
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.delete_rows import DeletedRows
from lancekit._pipeline.engine import EngineName, LocalRunner, spark_engine
from lancekit._pipeline.key_counter import key_filter, key_paths
from lancekit._pipeline.merge_plan import MergeClauses, MergeJob, MergeWork
from lancekit._pipeline.source import LocalSource, Source
from lancekit._pipeline.source_keys import SourceKeys
from lancekit._scan.fragment_rows import ScanRequest, block_rows
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, RowSet, fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._shards.schema import TOMBSTONE
from lancekit._versions.snapshot import Snapshot
from lancekit.options import options

Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class NewestRows:
    """The newest row of each key in generations: offsets of live rows, and deleted keys.

    schema: the table's schema, in which the rows are read.
    sources, offsets: the fragments of the generations, and the offsets of the newest live rows of
        each.
    deleted: the keys whose newest row is a tombstone.  No columns without a primary key.
    places: the index of each live row among all rows of the generations.
    lacking: the columns that the generations lack.
    """

    schema: LanceSchema
    sources: tuple[FragmentSource, ...]
    offsets: tuple[Offsets, ...]
    deleted: pa.Table
    places: Offsets
    lacking: frozenset[str] = frozenset()

    @property
    def given(self) -> NewestRows:
        """The rows without the columns that the generations lack."""
        return replace(self, schema=without(self.schema, self.lacking))

    @property
    def num_rows(self) -> int:
        """The number of live rows."""
        return sum(map(len, self.offsets))

    def scan(self) -> Scan:
        """Return a scan of the live rows, in the order of the generations."""
        numbered = tuple(
            replace(source, fragment=replace(source.fragment, id=number))
            for number, source in enumerate(self.sources)
        )
        request = ScanRequest(outputs=plan_columns(self.schema, self.schema.names))
        some = {number: to_bitmap(rows) for number, rows in enumerate(self.offsets) if len(rows)}
        exact = BitMap(some)
        rows = RowSet(rows=some, skipped=BitMap(range(len(numbered))) - exact, exact=exact)
        return Scan(read=Read(numbered, rows), request=request)

    def reader(self) -> pa.RecordBatchReader:
        """Return a new reader of the live rows, in the order of the generations."""
        return pa.RecordBatchReader.from_batches(self.schema.to_arrow(), self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        names, schema = self.schema.names, self.schema.to_arrow()
        step = block_rows(self.schema, ScanRequest(outputs=plan_columns(self.schema, names)))
        for source, offsets in zip(self.sources, self.offsets, strict=True):
            reader = FragmentReader(source)
            for start in range(0, len(offsets), step):
                rows = _read_verified(reader, names, offsets[start : start + step])
                yield from pa.table(rows.columns, schema=schema).to_batches()


@dataclass(frozen=True)
class GenerationRows:
    """All visible rows of some generations, older generations first.

    schema: the table's schema.
    sources, offsets: the fragments of the generations, and the offsets of the visible rows of each.
    keys: the key and `_tombstone` of each row.
    generation: the index of each row's generation in the list that was read.
    lacking: for each generation, the table's columns that it lacks.  Empty without a primary key,
        where no row replaces another.
    replaced: the lacking columns whose name the generation has for another field: the table's
        column was cast, or dropped and added again.
    """

    schema: LanceSchema
    sources: tuple[FragmentSource, ...]
    offsets: tuple[Offsets, ...]
    keys: pa.Table
    generation: Offsets
    lacking: tuple[frozenset[str], ...] = ()
    replaced: tuple[frozenset[str], ...] = ()

    @classmethod
    def read(cls, generations: Sequence[Snapshot], schema: LanceSchema) -> GenerationRows:
        """Read the keys of generations.

        Columns are matched by field id.  A column that a generation lacks is null.

        generations: later generations have newer rows.  In each, only the last row of a key is
            visible.
        schema: the table's schema.
        """
        names = tuple(field.name for field in schema.primary_key)
        sources = [
            (number, replace(source, compared=True))
            for number, generation in enumerate(generations)
            for source in fragment_sources(generation, seen_in(schema, generation.manifest.schema))
        ]
        found = LocalRunner().map(_read_keys, [(source, names) for _, source in sources])
        keys = pa.concat_tables([table for table, _ in found]) if found else _no_keys(schema, names)
        numbers = [number for number, _ in sources]
        missing = tuple(lacking(schema, one.manifest.schema) for one in generations)
        return cls(
            schema=schema,
            sources=tuple(source for _, source in sources),
            offsets=tuple(offsets for _, offsets in found),
            keys=keys,
            generation=np.repeat(numbers, [len(offsets) for _, offsets in found]).astype(np.int64),
            lacking=missing if names else (),
            replaced=tuple(
                columns & _not_renamed(schema, one.manifest.schema)
                for columns, one in zip(missing, generations, strict=True)
            ),
        )

    def newest(self, left_out: Mask | None = None) -> NewestRows:
        """Return the newest row of each key, or every row without a primary key.

        left_out: rows to ignore.
        """
        key = tuple(name for name in self.keys.column_names if name != TOMBSTONE)
        newest = np.ones(self.keys.num_rows, bool) if left_out is None else ~left_out
        if key:
            left = np.flatnonzero(newest)
            rows = self.keys if left_out is None else ak.take(self.keys, left)
            columns = [ak.combine_chunks(rows.column(name)) for name in key]
            newest[left] = SourceKeys.choose(key, columns, dedupe="last").unmatched([])
        deleted = self.keys.column(TOMBSTONE).to_numpy()
        live, dead = newest & ~deleted, newest & deleted
        return NewestRows(
            schema=self.schema,
            sources=self.sources,
            offsets=self._split(live),
            deleted=ak.filter(self.keys.select(list(key)), dead),
            places=np.flatnonzero(live),
            lacking=frozenset().union(*self.lacking),
        )

    def rows(self, selected: Mask) -> pa.Table:
        """Return the selected rows with the table's columns and `_tombstone`."""
        schema = self.schema.to_arrow()
        parts = [
            _read_verified(FragmentReader(source), self.schema.names, offsets)
            for source, offsets in zip(self.sources, self._split(selected), strict=True)
            if len(offsets)
        ]
        loose = pa.schema([field.with_nullable(True) for field in schema])
        table = pa.concat_tables([pa.table(part.columns, schema=loose) for part in parts])
        marks = ak.filter(self.keys.select([TOMBSTONE]), selected)
        return table.append_column(TOMBSTONE, marks.column(0))

    def _split(self, selected: Mask) -> tuple[Offsets, ...]:
        ends = np.cumsum([len(own) for own in self.offsets])[:-1]
        parts = np.split(selected, ends) if self.offsets else []
        return tuple(own[mask] for own, mask in zip(self.offsets, parts, strict=True))


def seen_in(
    schema: LanceSchema, generation: LanceSchema, own: Collection[str] = (TOMBSTONE,)
) -> LanceSchema:
    """Return the schema that reads a table's columns, and the own columns, from a generation.

    The table may have given the field id of an own column to a new column since.  The new column
    then reads as null.

    schema, generation: the schemas of the table and of the generation.
    own: the names of the generation's own columns: `_tombstone`, and the facts of a quarantine.
    """
    known = {f.id: f.logical_type for f in generation.walk() if f.name not in own}
    free = count(max(f.id for f in (*schema.walk(), *generation.walk())) + 1)

    def seen(field: LanceField, parent: int) -> LanceField:
        same = known.get(field.id) == field.logical_type
        own = field.id if same else next(free)
        children = tuple(seen(child, own) for child in field.children)
        return replace(field, id=own, parent_id=parent, children=children)

    marks = [f for f in generation.fields if f.name in own]
    return replace(schema, fields=(*(seen(f, f.parent_id) for f in schema.fields), *marks))


def lacking(schema: LanceSchema, generation: LanceSchema) -> frozenset[str]:
    """Return the columns of a table that a generation lacks, matched by field id.

    A struct whose nested fields differ is not lacking: new nested fields are null in its rows.
    """
    known = {field.id: field.logical_type for field in generation.fields if field.name != TOMBSTONE}
    return frozenset(f.name for f in schema.fields if known.get(f.id) != f.logical_type)


def _not_renamed(schema: LanceSchema, generation: LanceSchema) -> frozenset[str]:
    """Return the columns of a generation that the table does not have under another name."""
    names = {field.id: field.name for field in schema.fields}
    return frozenset(f.name for f in generation.fields if names.get(f.id, f.name) == f.name)


def without(schema: LanceSchema, columns: Collection[str]) -> LanceSchema:
    """Return a schema without some columns."""
    return replace(schema, fields=tuple(f for f in schema.fields if f.name not in columns))


def _no_keys(schema: LanceSchema, keys: Sequence[str]) -> pa.Table:
    empty = schema.to_arrow().empty_table().select(list(keys))
    return empty.append_column(TOMBSTONE, pa.array([], pa.bool_()))


def _read_keys(task: tuple[FragmentSource, tuple[str, ...]]) -> tuple[pa.Table, Offsets]:
    """Return the keys and tombstone flags of a fragment's visible rows, and their offsets."""
    source, keys = task
    reader = FragmentReader(source)
    offsets = np.arange(reader.physical_rows) if reader.live is None else reader.live
    if TOMBSTONE not in source.schema:
        none = pa.array(np.zeros(len(offsets), bool))
        return _read_verified(reader, keys, offsets).append_column(TOMBSTONE, none), offsets
    rows = _read_verified(reader, [*keys, TOMBSTONE], offsets)
    marks = pc.fill_null(rows.column(TOMBSTONE), False)
    return rows.select(list(keys)).append_column(TOMBSTONE, marks), offsets


def _read_verified(reader: FragmentReader, names: Sequence[str], rows: Offsets) -> pa.Table:
    """Read rows and verify page checksums, because a merge makes the rows permanent.

    Raises CorruptFileError: a page does not match its checksum.
    """
    with options(verify_checksums=True):
        return reader.read(names, rows)


# ---- upsert rows into a version by primary key, in one commit
#
# Merges of generations use this, and rows that are put back from a quarantine.


def prepare_merge(
    current: Snapshot,
    live: Callable[[], Source],
    deleted: pa.Table,
    engine: EngineName = "local",
    lacking: frozenset[str] = frozenset(),
) -> MergeWork:
    """Write rows, and find the rows that they replace and the rows to delete.

    current: the version to merge into.
    live: opens the rows, which have the columns of the version.  Each key occurs once.
    deleted: the keys of the rows to delete.
    engine: where the merge runs.
    lacking: columns that the rows lack.  A replaced row keeps its values of these columns.
    """
    schema = current.manifest.schema
    columns = pa.schema([field for field in schema.to_arrow() if field.name not in lacking])
    plan = plan_cast(columns, columns, optional=lacking)
    task, on = write_task(current), tuple(field.name for field in schema.primary_key)
    if not on:
        with live() as source:
            new = source.write(plan, task)
        rows = sum(fragment.physical_rows or 0 for fragment in new)
        return MergeWork(new_fragments=tuple(new), inserted=rows)
    upsert = MergeClauses(on=on, matched="update", insert=True, once=True, guard=key_paths(schema))
    job = MergeJob(
        casts=plan,
        target=tuple(fragment_sources(current)),
        clauses=upsert,
        task=task,
        snapshot=current,
    )
    with live() as source:
        work = source.merge(job)
    if not deleted.num_rows:
        return work
    keys = plan_cast(deleted.schema, deleted.schema)
    deleting = replace(job, casts=keys, clauses=MergeClauses(on=on, matched="delete"))
    with removed_unless_landed(current.store, work.new_fragments), _keys(deleted, engine) as source:
        gone = source.merge(deleting)
    return replace(work, marked=_combined(work.marked, gone.marked), deleted=gone.deleted)


def _keys(keys: pa.Table, engine: EngineName) -> Source:
    if engine == "spark":
        source: Source = spark_engine().source(keys, None)
        return source
    return LocalSource(keys.to_reader(), options.source_memory_bytes)


def _combined(*parts: Sequence[DeletedRows]) -> tuple[DeletedRows, ...]:
    """Combine the deleted rows of several merges into one version, one item for each fragment."""
    found: dict[int, DeletedRows] = {}
    for one in (each for part in parts for each in part):
        other = found.get(one.fragment_id)
        rows = one.rows if other is None else one.rows | other.rows
        found[one.fragment_id] = replace(one, rows=rows)
    return tuple(found.values())


def land(
    current: Snapshot, work: MergeWork, marks: tuple[CompactedSsTable, ...], *, doing: str
) -> Snapshot:
    """Commit the result of `prepare_merge`.

    current: the version that it was prepared for.
    work: the prepared rows.
    marks: the marks of the generations and quarantine tables that the rows come from.
    doing: the name of the operation, for messages.
    """
    schema = current.manifest.schema
    with removed_unless_landed(current.store, work.new_fragments):
        updated, removed = apply_deletions(current, work.marked)
        operation = Update(
            removed_fragment_ids=removed,
            updated_fragments=updated,
            new_fragments=work.new_fragments,
            fields_for_preserving_frag_bitmap=tuple(f.id for f in schema.walk()),
            inserted_rows=key_filter(schema, work.inserted_hashes),
            compacted_sstables=marks,
        )
        pending = Pending(
            operation=operation,
            affected_rows={found.fragment_id: found.rows for found in work.marked},
            doing=doing,
        )
        return commit(current, pending)
