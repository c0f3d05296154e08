"""Deletion tasks: find the rows of fragments that a predicate selects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyroaring import BitMap

from lancekit._format.deletions import to_bitmap
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest, block_rows, read_together, select_rows
from lancekit._scan.fragments.joint_reader import JointReader
from lancekit._scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read, reading
from lancekit._versions.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FindDeletedTask:
    """Rows to search, which are read together, and a predicate.  Can be sent to a worker."""

    read: Read
    predicate: Predicate

    @property
    def num_rows(self) -> int:
        """The number of rows to search."""
        return self.read.num_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """The offsets of the rows found in a fragment, and of rows that were already deleted."""

    fragment_id: int
    rows: BitMap
    deleted_before: BitMap

    @classmethod
    def of(cls, reader: FragmentReader, rows: BitMap) -> DeletedRows:
        """Return rows of the reader's fragment."""
        return cls(fragment_id=reader.source.fragment.id, rows=rows, deleted_before=reader.deleted)


def find_rows(source: FragmentSource, predicate: Predicate) -> DeletedRows:
    """Return the offsets of the live rows of a fragment that a predicate selects."""
    reader = FragmentReader(source)
    step = block_rows(source.schema, _request(source, predicate))
    rows = BitMap()
    for start in range(0, reader.physical_rows, step):
        stop = min(start + step, reader.physical_rows)
        found, _ = select_rows(reader, predicate, start, stop)
        rows |= to_bitmap(as_offsets(found))
    return DeletedRows.of(reader, rows)


def find_rows_by_index(
    snapshot: Snapshot, source: FragmentSource, predicate: Predicate
) -> DeletedRows:
    """Return the same as `find_rows`, but query indices if the version has the fragment.

    A handle can have moved to a version that no longer has this fragment.
    """
    is_current = snapshot.fragment(source.fragment.id) == source.fragment
    read = (
        reading(snapshot, predicate, source.schema).only([source]) if is_current else Read([source])
    )
    for task in mark_tasks(read, predicate):
        for found in find_rows_together(task):
            return found
    return DeletedRows.of(FragmentReader(source), BitMap())


def mark_tasks(read: Read, predicate: Predicate) -> list[FindDeletedTask]:
    """Return a task for each fragment with rows to search, or for several small fragments."""
    return [
        FindDeletedTask(read=piece, predicate=predicate)
        for part in read.parts()
        for piece in (_pieces(part, predicate) if part.is_of_all_rows else [part])
    ]


def _pieces(part: Read, predicate: Predicate) -> Iterator[Read]:
    if part.sources:
        yield from map(Read, read_together(part.sources, _request(part.sources[0], predicate)))


def find_rows_together(task: FindDeletedTask) -> list[DeletedRows]:
    """Return the rows of each fragment of a task; fragments without a match may be omitted."""
    return _deleted_rows(task.predicate, task.read)


def _deleted_rows(predicate: Predicate, read: Read) -> list[DeletedRows]:
    if not read.is_of_all_rows:
        found = read.select(predicate)
        return _by_fragment(found.reader, as_offsets(found.rows))
    if len(read.sources) == 1:
        return [find_rows(read.sources[0], predicate)]
    reader = JointReader(read.sources)
    rows, _ = select_rows(reader, predicate, 0, reader.physical_rows)
    return _by_fragment(reader, as_offsets(rows))


def _by_fragment(reader: FragmentReader, found: Offsets) -> list[DeletedRows]:
    return [DeletedRows.of(part, to_bitmap(rows)) for part, rows in reader.split(found)]


def _request(source: FragmentSource, predicate: Predicate) -> ScanRequest:
    return ScanRequest(outputs=plan_columns(source.schema, ["_rowaddr"]), predicate=predicate)
