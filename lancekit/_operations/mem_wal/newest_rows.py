"""The newest row of each key in some generations, and the commit that brings these in."""

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
    """Rows of generations, by the places where they are, and the keys of those that are deleted.

    schema: the table's, in whose columns the rows are read.
    sources, offsets: the fragments of the generations, and which rows of each are the newest, and
        live.
    deleted: the keys whose newest row says that they are deleted; no columns if there are no keys.
    places: of each row that lives, its place among all rows of the generations.
    lacking: the columns that the generations do not have.
    """

    schema: LanceSchema
    sources: tuple[FragmentSource, ...]
    offsets: tuple[Offsets, ...]
    deleted: pa.Table
    places: Offsets
    lacking: frozenset[str] = frozenset()

    @property
    def given(self) -> NewestRows:
        """The rows without the columns that the generations do not have."""
        return replace(self, schema=without(self.schema, self.lacking))

    @property
    def num_rows(self) -> int:
        """The number of rows that live."""
        return sum(map(len, self.offsets))

    def scan(self) -> Scan:
        """Return the live rows, in the order of the generations, as tasks read them."""
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
        """Return the live rows, in the order of the generations; may be asked again."""
        return pa.RecordBatchReader.from_batches(self.schema.to_arrow(), self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        names, schema = self.schema.names, self.schema.to_arrow()
        step = block_rows(self.schema, ScanRequest(outputs=plan_columns(self.schema, names)))
        for source, offsets in zip(self.sources, self.offsets, strict=True):
            reader = FragmentReader(source)
            for start in range(0, len(offsets), step):
                rows = _checked(reader, names, offsets[start : start + step])
                yield from pa.table(rows.columns, schema=schema).to_batches()


@dataclass(frozen=True)
class GenerationRows:
    """All visible rows of some generations, older generations first.

    schema: the table's.
    sources, offsets: the fragments of the generations, and the visible rows of each.
    keys: the key and the mark of deletion of each row.
    generation: the place of each row's generation in the list that was read.
    lacking: of each generation, the table's columns that it does not have; none without a primary
        key, where a row takes the place of no other.
    replaced: of these, the columns whose name the generation has for another column: the table's
        was cast, or dropped and added.
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

        Columns go by the ids of their fields: what a generation lacks is null, and so is a column
        that the table got since.

        generations: later ones hold newer rows; in each every key is once, or hidden.
        schema: the table's.
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
                columns & _unknown(schema, one.manifest.schema)
                for columns, one in zip(missing, generations, strict=True)
            ),
        )

    def newest(self, left_out: Mask | None = None) -> NewestRows:
        """Choose the newest row of each key; every row if there is no key.

        left_out: rows that are as if they were not there.
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

    def rows(self, chosen: Mask) -> pa.Table:
        """Return some rows with the table's columns and the mark of deletion."""
        schema = self.schema.to_arrow()
        parts = [
            _checked(FragmentReader(source), self.schema.names, offsets)
            for source, offsets in zip(self.sources, self._split(chosen), strict=True)
            if len(offsets)
        ]
        loose = pa.schema([field.with_nullable(True) for field in schema])
        table = pa.concat_tables([pa.table(part.columns, schema=loose) for part in parts])
        marks = ak.filter(self.keys.select([TOMBSTONE]), chosen)
        return table.append_column(TOMBSTONE, marks.column(0))

    def _split(self, chosen: Mask) -> tuple[Offsets, ...]:
        ends = np.cumsum([len(own) for own in self.offsets])[:-1]
        parts = np.split(chosen, ends) if self.offsets else []
        return tuple(own[mask] for own, mask in zip(self.offsets, parts, strict=True))


def newest_rows(generations: Sequence[Snapshot], schema: LanceSchema) -> NewestRows:
    """Return the newest row of each key in generations; arguments as of `GenerationRows.read`."""
    return GenerationRows.read(generations, schema).newest()


def seen_in(
    schema: LanceSchema, generation: LanceSchema, own: Collection[str] = (TOMBSTONE,)
) -> LanceSchema:
    """Return a table's columns as they are read in a generation, and the generation's own columns.

    The table may have given out the id of an own column, which was free when the generation was
    written, to another column since: that one reads as null.

    schema, generation: the table's schema and the generation's.
    own: the names of the own columns: the mark of deleted rows, and what a quarantine adds.
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
    """Return the columns of a table that a generation does not have.

    Columns go by the ids of their fields.  A part of a struct that a generation does not have is
    null in its rows.
    """
    known = {field.id: field.logical_type for field in generation.fields if field.name != TOMBSTONE}
    return frozenset(f.name for f in schema.fields if known.get(f.id) != f.logical_type)


def _unknown(schema: LanceSchema, generation: LanceSchema) -> frozenset[str]:
    """Return the columns of a generation that go by no column of the table of another name."""
    names = {field.id: field.name for field in schema.fields}
    return frozenset(f.name for f in generation.fields if names.get(f.id, f.name) == f.name)


def without(schema: LanceSchema, columns: Collection[str]) -> LanceSchema:
    """Return a schema without some columns."""
    return replace(schema, fields=tuple(f for f in schema.fields if f.name not in columns))


def _no_keys(schema: LanceSchema, keys: Sequence[str]) -> pa.Table:
    empty = schema.to_arrow().empty_table().select(list(keys))
    return empty.append_column(TOMBSTONE, pa.array([], pa.bool_()))


def _read_keys(task: tuple[FragmentSource, tuple[str, ...]]) -> tuple[pa.Table, Offsets]:
    """Return the keys and marks of a fragment's visible rows, and their offsets."""
    source, keys = task
    reader = FragmentReader(source)
    offsets = np.arange(reader.physical_rows) if reader.live is None else reader.live
    if TOMBSTONE not in source.schema:
        none = pa.array(np.zeros(len(offsets), bool))
        return _checked(reader, keys, offsets).append_column(TOMBSTONE, none), offsets
    rows = _checked(reader, [*keys, TOMBSTONE], offsets)
    marks = pc.fill_null(rows.column(TOMBSTONE), False)
    return rows.select(list(keys)).append_column(TOMBSTONE, marks), offsets


def _checked(reader: FragmentReader, names: Sequence[str], rows: Offsets) -> pa.Table:
    """Read rows, and compare the pages with their checksums: what is merged stays.

    Raises CorruptFileError: a page is not what was written.
    """
    with options(verify_checksums=True):
        return reader.read(names, rows)


# ---- rows that come into a version by their primary key, and the commit that brings them
#
# A merge of generations uses this, and so do rows that are put back from a quarantine.


def work_out(
    current: Snapshot,
    live: Callable[[], Source],
    deleted: pa.Table,
    engine: EngineName = "local",
    lacking: frozenset[str] = frozenset(),
) -> MergeWork:
    """Write rows, and find what they replace and what is deleted.

    current: the version that they come on top of.
    live: opens the rows, which have the columns of the version; each key is there once.
    deleted: the keys of the rows that are deleted.
    engine: where this runs.
    lacking: columns that the rows do not have: a row that is replaced keeps its values of these.
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
    with (
        removed_unless_landed(current.store, work.new_fragments),
        _keys(deleted, engine) as source,
    ):
        gone = source.merge(deleting)
    return replace(work, marked=_together(work.marked, gone.marked), deleted=gone.deleted)


def _keys(keys: pa.Table, engine: EngineName) -> Source:
    if engine == "spark":
        source: Source = spark_engine().source(keys, None)
        return source
    return LocalSource(keys.to_reader(), options.source_memory_bytes)


def _together(*parts: Sequence[DeletedRows]) -> tuple[DeletedRows, ...]:
    """Return what several merges into one version found, each fragment once."""
    found: dict[int, DeletedRows] = {}
    for one in (each for part in parts for each in part):
        other = found.get(one.fragment_id)
        rows = one.rows if other is None else one.rows | other.rows
        found[one.fragment_id] = replace(one, rows=rows)
    return tuple(found.values())


def land(
    current: Snapshot, work: MergeWork, marks: tuple[CompactedSsTable, ...], *, doing: str
) -> Snapshot:
    """Commit what `work_out` found.

    current: the version that it was worked out on.
    work: the rows.
    marks: of the generations and the tables of a quarantine that the rows come from.
    doing: what the commit is called in messages.
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
