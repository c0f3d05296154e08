"""Joining of small adjacent new files, before a commit lists them.

Spark's tasks do not know of each other: 2,000 rows in 200 partitions make 200 files.  The size of
a partition is only known after its task has written it, and the order of rows matters.  So
adjacent new files are joined afterwards, and only small ones, to rewrite few bytes.
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

#: a file is small if this many times its size is less than the target size
_SMALL = 8
#: up to this many bytes are joined in this process; larger tables should not pass through it
_LOCAL_BYTES = 4 << 20
#: rows that are read at the same time
_STEP = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTask:
    """Adjacent new fragments to join, and the number of the task.  Can be sent to a worker."""

    fragments: tuple[Fragment, ...]
    number: int

    @property
    def num_rows(self) -> int:
        """The number of rows to read."""
        return sum(fragment.num_rows for fragment in self.fragments)


def join_small_files(task: WriteTask, fragments: Iterable[Fragment]) -> list[Fragment]:
    """Join adjacent small fragments; return all new fragments.

    The order of fragments stays.  In a joined fragment, rows that keep their row ids come first, as
    in each of its parts.  The files of joined fragments are removed.  If this raises, the files of
    all fragments are removed.

    task: how the fragments were written.
    fragments: new fragments that no version refers to.
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
        done = runner.map(partial(join_files, task), tasks)  # sends a wide schema only once
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
    """Write the rows of several fragments to one new fragment, and return it uncommitted."""
    sources = list(new_sources(write, task.fragments))
    ids = [_moved_ids(fragment) for fragment in task.fragments]
    parts = [
        *((source, range(len(moved))) for source, moved in zip(sources, ids, strict=True)),
        *(
            (source, range(len(moved), source.num_rows))
            for source, moved in zip(sources, ids, strict=True)
        ),
    ]
    new = write_fragments(_rows(parts, write.schema.to_arrow()), write.rotated(task.number))
    moved = np.concatenate(ids)
    return with_row_ids(new, moved) if len(moved) else new


def _groups(fragments: Sequence[Fragment], task: WriteTask) -> list[range]:
    """Return ranges of adjacent small fragments that fit into one file together."""
    most = min(options.target_file_bytes, task.max_bytes_per_file)
    # blobs may be stored in files beside their data file, under its name
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
    """Return the runner for a join; few bytes are joined sooner than a Spark job starts."""
    on_spark = size > _LOCAL_BYTES and options.engine != "local" and spark_engine().is_active()
    return spark_engine().runner(store) if on_spark else LocalRunner()


def _moved_ids(fragment: Fragment) -> npt.NDArray[np.uint64]:
    """Return the row ids of a fragment's first rows, which keep them; other rows get new ids."""
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
    """Yield sources to read new fragments, which are in no version yet."""
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
