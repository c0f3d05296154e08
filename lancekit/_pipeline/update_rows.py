"""Update tasks: find the rows that an update changes, compute and write the new rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyroaring import BitMap

from lancekit import progress
from lancekit._format.column_names import RESERVED_NAMES
from lancekit._format.deletions import to_bitmap
from lancekit._format.fragment import Fragment
from lancekit._format.row_ids_encode import encode_row_ids
from lancekit._pipeline.compact_rows import Numbers, cut
from lancekit._pipeline.delete_rows import DeletedRows
from lancekit._pipeline.write_rows import WriteTask, write_fragments
from lancekit._scan.expressions.assignment import Assignment
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest, block_rows, project, select_rows
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit._scan.fragments.rebatch import fitted
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read, Selection, select_known


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTask:
    """Rows to search, a predicate for the rows to change (``None``: all), and their new values.

    Can be sent to a worker.  The predicate is bound to the schema in which blobs are descriptors,
    the assignments to the dataset's own schema.
    """

    read: Read
    predicate: Predicate | None
    assignments: tuple[Assignment, ...]
    write: WriteTask

    @property
    def num_rows(self) -> int:
        """The number of rows to search."""
        return self.read.num_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The rows that were replaced, and the fragments with their new values."""

    marked: tuple[DeletedRows, ...]
    new_fragments: tuple[Fragment, ...]


def update_rows(task: UpdateTask) -> Updated:
    """Write the changed rows of some fragments to new fragments, and return these uncommitted."""
    marked: list[DeletedRows] = []
    row_ids: list[tuple[Numbers, ...]] = []
    fragments = write_fragments(_batches(task, marked, row_ids), task.write)
    if fragments and task.read.sources[0].stable_row_ids:
        # row ids are kept; by them, the commit distinguishes moved rows from new ones
        pieces = cut(row_ids, [f.physical_rows for f in fragments])
        fragments = [
            replace(fragment, row_ids=encode_row_ids(*ids))
            for fragment, (ids,) in zip(fragments, pieces, strict=True)
        ]
    return Updated(marked=tuple(marked), new_fragments=tuple(fragments))


def _batches(
    task: UpdateTask, marked: list[DeletedRows], row_ids: list[tuple[Numbers, ...]]
) -> Iterator[pa.RecordBatch]:
    """Yield the new rows; append the replaced rows to ``marked``, and their ids to ``row_ids``."""
    schema = task.write.schema.to_arrow()
    for source in task.read.sources:
        reader = FragmentReader(source)
        rows = BitMap()
        for found, table in _changed(reader, task):
            rows |= to_bitmap(found)
            if source.stable_row_ids:
                row_ids.append((reader.row_ids(found),))
            new = {a.field.name: fitted(a.evaluate(table), a.field.type) for a in task.assignments}
            columns = [new[n] if n in new else table.column(n) for n in schema.names]
            yield from pa.table(columns, schema=schema).to_batches()
        if rows:
            marked.append(DeletedRows.of(reader, rows))


def _changed(reader: FragmentReader, task: UpdateTask) -> Iterator[tuple[Offsets, pa.Table]]:
    """Yield the offsets of the rows that change, and the rows with their old values."""
    schema = task.write.schema
    view = blob_view(schema)
    condition = reader if view is schema else FragmentReader(replace(reader.source, schema=view))
    wanted = {name for a in task.assignments for name in a.expression.columns}
    hidden = [name for name in RESERVED_NAMES if name in wanted]
    outputs = plan_columns(schema, None, hidden)
    request = ScanRequest(outputs=outputs, predicate=task.predicate)
    inputs = {output.column for output in outputs}
    step = block_rows(schema, request)
    keep = inputs if condition is reader else ()
    for rows, known in _found(condition, task, step, keep):
        if len(rows):
            yield as_offsets(rows), project(reader, outputs, rows, known)


def _found(
    reader: FragmentReader, task: UpdateTask, step: int, keep: Collection[str]
) -> Iterator[tuple[Offsets | range, pa.Table | None]]:
    """Yield the rows that change, at most `step` at a time, as `select_rows` does."""
    id_ = reader.source.fragment.id
    offsets = task.read.rows.of(id_)
    if offsets is not None:
        predicate = None if id_ in task.read.rows.exact else task.predicate
        found = Selection(reader, *select_known(reader, predicate, offsets, keep))
        yield from ((part.rows, part.known) for part in found.parts(step))
        return
    for start in range(0, reader.physical_rows, step):
        stop = min(start + step, reader.physical_rows)
        if task.predicate is None:
            live = reader.live_between(start, stop)
            yield live, None
            progress.step(len(live))
        else:
            yield select_rows(reader, task.predicate, start, stop, keep)
