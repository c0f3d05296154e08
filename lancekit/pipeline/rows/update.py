"""Rows that an update changes: found, computed anew and written, per group of fragments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyroaring import BitMap

from lancekit import progress
from lancekit.format.column_names import RESERVED_NAMES
from lancekit.format.deletions import to_bitmap
from lancekit.format.fragment import Fragment
from lancekit.format.row_ids_encode import encode_row_ids
from lancekit.pipeline.rows.compact import Numbers, cut
from lancekit.pipeline.rows.delete import DeletedRows
from lancekit.pipeline.rows.write import WriteTask, write_fragments
from lancekit.scan.expressions.assignment import Assignment
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragment_rows import ScanRequest, block_rows, project, select_rows
from lancekit.scan.fragments.blobs import blob_view
from lancekit.scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit.scan.fragments.source import FragmentSource
from lancekit.scan.indexed.found import ChosenRows
from lancekit.scan.indexed_rows import select_chosen
from lancekit.scan.outputs import plan_columns
from lancekit.scan.selection import Selection

__all__ = ["UpdateTask", "Updated", "rows_to_look_at", "update_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTask:
    """Fragments, which of their rows to change (``None``: all), and how.

    Can be sent to a worker.  The predicate is bound to the schema that shows blobs by their
    descriptors, the assignments to the dataset's own.  By the ids of fragments, `chosen` has the
    rows to look at where indices have told them.
    """

    sources: tuple[FragmentSource, ...]
    predicate: Predicate | None
    assignments: tuple[Assignment, ...]
    write: WriteTask
    chosen: Mapping[int, ChosenRows] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """The number of rows to look at."""
        return sum(rows_to_look_at(source, self.chosen) for source in self.sources)


def rows_to_look_at(source: FragmentSource, chosen: Mapping[int, ChosenRows]) -> int:
    """Return the number of live rows of a fragment, or of those that indices have chosen."""
    known = chosen.get(source.fragment.id)
    return source.fragment.num_rows if known is None else len(known.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The rows that were replaced, and the fragments that hold what replaces them."""

    marked: tuple[DeletedRows, ...]
    new_fragments: tuple[Fragment, ...]


def update_rows(task: UpdateTask) -> Updated:
    """Write the changed rows of some fragments to new ones, which nothing refers to yet."""
    marked: list[DeletedRows] = []
    row_ids: list[tuple[Numbers, ...]] = []
    fragments = write_fragments(_batches(task, marked, row_ids), task.write)
    if fragments and task.sources[0].stable_row_ids:
        # the ids move along; the commit knows them by that from rows that are new
        pieces = cut(row_ids, [f.physical_rows for f in fragments])
        fragments = [
            replace(fragment, row_ids=encode_row_ids(*ids))
            for fragment, (ids,) in zip(fragments, pieces, strict=True)
        ]
    return Updated(marked=tuple(marked), new_fragments=tuple(fragments))


def _batches(
    task: UpdateTask, marked: list[DeletedRows], row_ids: list[tuple[Numbers, ...]]
) -> Iterator[pa.RecordBatch]:
    schema = task.write.schema.to_arrow()
    for source in task.sources:
        reader = FragmentReader(source)
        rows = BitMap()
        for found, table in _changed(reader, task):
            rows |= to_bitmap(found)
            if source.stable_row_ids:
                row_ids.append((reader.row_ids(found),))
            new = {a.field.name: a.evaluate(table) for a in task.assignments}
            columns = [new[n] if n in new else table.column(n) for n in schema.names]
            yield from pa.table(columns, schema=schema).to_batches()
        if rows:
            marked.append(
                DeletedRows(
                    fragment_id=source.fragment.id, rows=rows, deleted_before=reader.deleted
                )
            )


def _changed(reader: FragmentReader, task: UpdateTask) -> Iterator[tuple[Offsets, pa.Table]]:
    """Yield the offsets of the rows that change, and the rows as they are."""
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
    """Yield which rows change, so many at most at a time, as `select_rows` does."""
    chosen = task.chosen.get(reader.source.fragment.id)
    if chosen is not None:
        found = Selection(reader, *select_chosen(reader, task.predicate, chosen, keep))
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
