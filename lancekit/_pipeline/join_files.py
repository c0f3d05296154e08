"""Small new files that lie beside each other, joined before a commit lists them.

Spark's tasks do not know of each other: 2,000 rows in 200 partitions are 200 files.  How many bytes
a partition has is known when its task has written them, and the order of the rows counts.  So the
neighbours among the new files are joined afterwards, and only those that are small: what is written
twice is little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._format.field_marks import holds_blobs
from lancekit._format.fragment import Fragment
from lancekit._format.row_ids import count_row_ids, parse_row_ids
from lancekit._format.row_ids_encode import with_row_ids
from lancekit._pipeline.engine import LocalRunner, Runner, spark_engine
from lancekit._pipeline.write_rows import WriteTarget, WriteTask, delete_fragments, write_fragments
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource
from lancekit._storage.base import Store
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import FileLocation
from lancekit.options import options

#: a file is small below this part of what a file should have
_SMALL = 8
#: so many bytes are joined in this process, through which no table of a cluster is to pass
_HERE = 4 << 20
#: rows that are read at a time
_STEP = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTask:
    """New fragments that become one; their place among others.  Can be sent to a worker."""

    fragments: tuple[Fragment, ...]
    number: int

    @property
    def num_rows(self) -> int:
        """The number of rows to read."""
        return sum(fragment.num_rows for fragment in self.fragments)


def join_small_files(task: WriteTask, fragments: Iterable[Fragment]) -> list[Fragment]:
    """Return new fragments, the small ones of which that lie beside each other are joined.

    Their order stays, but rows that keep their row ids come first in a joined fragment, as in each
    of its parts.  The files of the parts are removed; if this raises, all files are.

    task: how they were written.
    fragments: what nothing refers to yet.
    """
    new = list(fragments)
    groups = _groups(new, task)
    if not groups:
        return new
    tasks = [
        JoinTask(fragments=tuple(new[group.start : group.stop]), number=number)
        for number, group in enumerate(groups)
    ]
    runner = _runner(sum(_size(new[at]) for group in groups for at in group), task.store)
    try:
        done = runner.map(partial(join_files, task), tasks)  # a wide schema is sent once
    except BaseException:
        delete_fragments(task.store, new, task.places)
        raise
    parts = {group.start: one for group, one in zip(groups, done, strict=True)}
    gone = {at for group in groups for at in group}
    delete_fragments(task.store, (new[at] for at in gone), task.places)
    return [
        fragment
        for at, one in enumerate(new)
        for fragment in (parts.get(at, []) if at in gone else [one])
    ]


def join_files(write: WriteTask, task: JoinTask) -> list[Fragment]:
    """Write the rows of several fragments behind each other; nothing refers to the file yet."""
    sources = list(new_sources(write, task.fragments))
    ids = [_moved_ids(fragment) for fragment in task.fragments]
    parts = [
        *((source, range(len(moved))) for source, moved in zip(sources, ids, strict=True)),
        *(
            (source, range(len(moved), source.num_rows))
            for source, moved in zip(sources, ids, strict=True)
        ),
    ]
    new = write_fragments(_rows(parts, write.schema.to_arrow()), write.turned(task.number))
    moved = np.concatenate(ids)
    return with_row_ids(new, moved) if len(moved) else new


def _groups(fragments: Sequence[Fragment], task: WriteTask) -> list[range]:
    """Return which small fragments that lie beside each other fit into one file."""
    most = min(options.target_file_bytes, task.max_bytes_per_file)
    # the bytes of blobs may lie beside their file, under its name
    if any(holds_blobs(field.metadata) for field in task.schema.walk()):
        return []
    groups, group, left, rows = list[range](), range(0), most, task.max_rows_per_file
    for at, fragment in enumerate(fragments):
        size = _size(fragment)
        is_small = size * _SMALL < most
        if not is_small or size > left or fragment.physical_rows > rows:
            groups.append(group)
            group, left, rows = range(at, at), most, task.max_rows_per_file
        if is_small:
            group = range(group.start if group else at, at + 1)
            left, rows = left - size, rows - fragment.physical_rows
    return [group for group in [*groups, group] if len(group) > 1]


def _size(fragment: Fragment) -> int:
    return sum(file.file_size_bytes or 0 for file in fragment.files)


def _runner(size: int, store: Store) -> Runner:
    """Return where so many bytes are joined: few of them are here sooner than a job has begun."""
    on_spark = size > _HERE and options.engine != "local" and spark_engine().is_active()
    return spark_engine().runner(store) if on_spark else LocalRunner()


def _moved_ids(fragment: Fragment) -> npt.NDArray[np.uint64]:
    """Return the row ids of the first rows, which were elsewhere before; the others get theirs."""
    if fragment.row_ids is None:
        return np.empty(0, np.uint64)
    where = f"new file {fragment.files[0].path}"
    return parse_row_ids(fragment.row_ids, count_row_ids(fragment.row_ids, where), where)


def _rows(
    parts: Iterable[tuple[FragmentSource, range]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for source, rows in parts:
        reader = FragmentReader(source)
        for start in range(rows.start, rows.stop, _STEP):
            table = reader.read(schema.names, range(start, min(start + _STEP, rows.stop)))
            for batch in table.to_batches():
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def new_sources(task: WriteTask, fragments: Iterable[Fragment]) -> Iterator[FragmentSource]:
    """Yield fragments that no version has yet in the form in which fragments are read."""
    known = {place.base_id: place for place in (WriteTarget(task.store), *task.places)}
    for number, fragment in enumerate(fragments):
        files = [(known[file.base_id], file) for file in fragment.files]
        yield FragmentSource(
            fragment=fragment,
            files=tuple(
                FileLocation(place.store, place.name(file.path), file.file_size_bytes or None)
                for place, file in files
            ),
            deletion=None,
            schema=task.schema,
            stable_row_ids=False,
            first_row=number,
            version=0,
            location=BranchLocation(root=task.store),
            base_paths=(),
        )
