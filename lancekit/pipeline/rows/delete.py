"""Which rows of a fragment a predicate deletes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap

from lancekit.errors import FormatError
from lancekit.format.deletions import to_bitmap
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragment_rows import ScanRequest, block_rows, read_together, select_rows
from lancekit.scan.fragments.joint_reader import JointReader
from lancekit.scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit.scan.fragments.source import FragmentSource
from lancekit.scan.indexed.choice import RowChoice, row_choice
from lancekit.scan.indexed_rows import IndexedRows, divided
from lancekit.scan.outputs import plan_columns
from lancekit.versions.snapshot import Snapshot

__all__ = [
    "DeletedRows",
    "FindDeletedTask",
    "find_rows",
    "find_rows_asking",
    "find_rows_together",
    "mark_tasks",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindDeletedTask:
    """A fragment and a predicate.  Can be sent to a worker.

    `others` are fragments behind it that can be read together with it.  Where indices were asked
    of all of them, `chosen` has the rows to look at.
    """

    source: FragmentSource
    predicate: Predicate
    others: tuple[FragmentSource, ...] = ()
    chosen: IndexedRows | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows to look at."""
        if self.chosen is not None:
            return self.chosen.num_rows
        return sum(source.fragment.num_rows for source in (self.source, *self.others))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """The rows found in a fragment, and those that were deleted before."""

    fragment_id: int
    rows: BitMap
    deleted_before: BitMap


def find_rows(task: FindDeletedTask) -> DeletedRows:
    """Return the offsets of the live rows that the predicate selects."""
    reader = FragmentReader(task.source)
    step = block_rows(task.source.schema, _request(task))
    rows = BitMap()
    for start in range(0, reader.physical_rows, step):
        stop = min(start + step, reader.physical_rows)
        found, _ = select_rows(reader, task.predicate, start, stop)
        rows |= to_bitmap(as_offsets(found))
    return DeletedRows(
        fragment_id=task.source.fragment.id,
        rows=rows,
        deleted_before=reader.deleted,
    )


def find_rows_asking(
    snapshot: Snapshot, source: FragmentSource, predicate: Predicate
) -> DeletedRows:
    """Do what `find_rows` does, but ask the indices of a version first, if it has the fragment.

    A handle may have moved on since it gave the fragment away, and its indices with it.
    """
    is_there = snapshot.fragment(source.fragment.id) == source.fragment
    choice = row_choice(snapshot, predicate) if is_there else None
    for task in mark_tasks([source], predicate, choice):
        for found in find_rows_together(task):
            return found
    before = FragmentReader(source).deleted
    return DeletedRows(fragment_id=source.fragment.id, rows=BitMap(), deleted_before=before)


def mark_tasks(
    sources: Sequence[FragmentSource], predicate: Predicate, choice: RowChoice | None = None
) -> list[FindDeletedTask]:
    """Return a task for each fragment, or for several that are small.

    None for fragments of which indices know, if there is a `choice` that asks them, that no row
    is wanted.
    """
    tasks: list[FindDeletedTask] = []
    for part in divided(sources, choice):
        chosen = part if isinstance(part, IndexedRows) else None
        groups = [part.sources] if isinstance(part, IndexedRows) else _together(part, predicate)
        tasks += [
            FindDeletedTask(source=first, predicate=predicate, others=tuple(others), chosen=chosen)
            for first, *others in groups
        ]
    return tasks


def _together(
    sources: Sequence[FragmentSource], predicate: Predicate
) -> Iterator[tuple[FragmentSource, ...]]:
    if sources:
        request = _request(FindDeletedTask(source=sources[0], predicate=predicate))
        yield from read_together(sources, request)


def find_rows_together(task: FindDeletedTask) -> list[DeletedRows]:
    """Do what `find_rows` does for all fragments of a task; those without such rows may miss."""
    if task.chosen is not None:
        found = task.chosen.select(task.predicate)
        return _by_fragment(found.reader, as_offsets(found.rows))
    alone = replace(task, others=())
    if task.others:
        try:
            return _found_in_all(task)
        except FormatError:
            pass  # the next time the error names the file
    return [find_rows(replace(alone, source=source)) for source in (task.source, *task.others)]


def _found_in_all(task: FindDeletedTask) -> list[DeletedRows]:
    reader = JointReader((task.source, *task.others))
    found, _ = select_rows(reader, task.predicate, 0, reader.physical_rows)
    return _by_fragment(reader, as_offsets(found))


def _by_fragment(reader: FragmentReader, found: Offsets) -> list[DeletedRows]:
    return [
        DeletedRows(
            fragment_id=part.source.fragment.id,
            rows=to_bitmap(rows),
            deleted_before=part.deleted,
        )
        for part, rows in reader.split(found)
    ]


def _request(task: FindDeletedTask) -> ScanRequest:
    outputs = plan_columns(task.source.schema, ["_rowaddr"])
    return ScanRequest(outputs=outputs, predicate=task.predicate)
