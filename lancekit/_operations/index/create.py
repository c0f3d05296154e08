"""Make an index of a column, or drop one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancekit._commit.rules.pending import Pending
from lancekit._format.fragment import DataFile, Fragment
from lancekit._format.index import IndexMetadata
from lancekit._format.mem_wal.names import MEM_WAL, mem_wal_entry
from lancekit._format.operations import CreateIndex
from lancekit._index.build.builders import builder_of, parsed_parameters
from lancekit._index.build.column import Content, IndexedColumn
from lancekit._index.build.files import delete_segment
from lancekit._index.build.sorting import whole
from lancekit._index.kinds import IndexKind
from lancekit._legible import shown
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.index.segments import (
    IndexedField,
    IndexTarget,
    build_content,
    build_segment,
    check_readable,
    indexed_field,
    joined_segments,
    read_rows,
    removed_unless_committed,
    write_segment,
)
from lancekit._pipeline.engine import Choice, Runner, choose_engine, runner_of
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.take import rows_at, rows_of_runs, spread_runs
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import IndexExistsError, IndexNotFoundError, InvalidArgumentError, StorageError
from lancekit.progress import IndexProgress, told_of_rows, tracking

#: what the table format calls its own entries
_OWN = "__lance"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """An index that is to be made of a column.

    `name` is made of the column's if there is none; without `train` it covers no row yet;
    `progress` is told how far it has come.
    """

    column: str
    kind: IndexKind
    name: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    replace: bool = True
    train: bool = True
    uuid: UUID | None = None
    progress: Callable[[IndexProgress], object] | None = None


@dataclass(frozen=True, kw_only=True)
class IndexPlan(IndexTarget):
    """An index that is to be made of a column of a version: it is run, or explained.

    `name` is the one that the index gets.
    """

    request: IndexRequest

    @property
    def choice(self) -> Choice:
        """Where it runs, and why."""
        return _engine(self.snapshot, self.request)

    @property
    def replaced(self) -> bool:
        """Whether it takes the place of an index that is there."""
        return any(index.name == self.name for index in self.snapshot.indices)

    def run(self, groups: _Groups | None) -> Snapshot:
        """Make the index, by groups of fragments if there are any; return the version with it."""
        current, request = self.snapshot, self.request
        if groups is not None:
            segments = groups.of(self, request.parameters)
            if segments:
                return put_segments(current, self.name, segments, current.indices)
        segment = build_segment(
            self,
            parameters=request.parameters,
            fragment_ids=None if request.train else (),
            uuid=request.uuid,
        )
        return commit_segments(current, self.name, [segment])


def plan_index(snapshot: Snapshot, request: IndexRequest) -> IndexPlan:
    """Plan an index; nothing but metadata is read.

    Raises ColumnNotFoundError, InvalidTypeError, IndexExistsError, InvalidArgumentError: as
        `create_index`.
    """
    kind, name = request.kind, request.name
    parsed_parameters(kind, request.parameters)
    check_readable(kind, snapshot)
    column = indexed_field(snapshot, request.column, kind)
    if name is None:
        name = default_name(snapshot, column, kind)
    check_name(snapshot, column, name, replace=request.replace)
    return IndexPlan(snapshot=snapshot, column=column, kind=kind, name=name, request=request)


def create_index(snapshot: Snapshot, request: IndexRequest, policy: RetryPolicy) -> Snapshot:
    """Make an index; return the version that has it.

    On Spark groups of fragments are indexed each by a task.  Where another writer rewrote fragments
    meanwhile, only the groups of these are made again.

    Raises ColumnNotFoundError: there is no such column.
    Raises InvalidTypeError: an index of this kind cannot be made of its type.
    Raises IndexExistsError: another index has the name.
    """
    parsed_parameters(request.kind, request.parameters)
    rows = snapshot.manifest.num_rows
    choice = _engine(snapshot, request)
    groups = _Groups(runner_of(choice, snapshot.store)) if choice.engine == "spark" else None
    with (
        told_of_rows(request.progress),
        tracking("indexing", total_rows=rows if request.train else 0),
        removed_unless_committed(snapshot, () if groups is None else groups.written),
    ):
        landed, _ = retried_writing(
            snapshot, lambda at: plan_index(at, request).run(groups), policy
        )
    if groups is not None:
        groups.sweep(landed)
    return landed


def _engine(snapshot: Snapshot, request: IndexRequest) -> Choice:
    if not request.train:
        return Choice("local", "no rows are indexed yet")
    if request.uuid is not None:
        return Choice("local", "the folder of its files is given, and tasks make one each")
    return choose_engine(snapshot.manifest.num_rows)


def default_name(snapshot: Snapshot, column: IndexedField, kind: IndexKind) -> str:
    """Return the name of a column's index of a kind, or the first one that is not taken."""
    others = {
        index.name
        for index in snapshot.indices
        if index.fields != (column.field.id,) or not kind.describes(index)
    }
    base = f"{column.path}_idx"
    names = (base if number == 1 else f"{base}_{number}" for number in count(1))
    return next(name for name in names if name not in others)


def check_name(snapshot: Snapshot, column: IndexedField, name: str, *, replace: bool) -> None:
    """Check the name of an index that is to be made of a column.

    Raises IndexExistsError: it is that of an index of another column, or is not to be replaced.
    Raises InvalidArgumentError: it is none that an index can have.
    """
    if not name or name.startswith(_OWN):
        raise InvalidArgumentError(
            f"An index cannot be named {shown(name)}.",
            hint=f"Give it another name, that does not begin with {_OWN}.",
            index=name,
        )
    taken = [index for index in snapshot.indices if index.name == name]
    if any(index.fields != (column.field.id,) for index in taken):
        raise IndexExistsError(
            f"There is an index {name!r} on another column.",
            hint="Give this one another name, or drop the other first.",
            index=name,
        )
    if taken and not replace:
        raise IndexExistsError(
            f"There is an index {name!r} already, and replace=False.",
            hint="Pass replace=True to make it anew, or give this one another name.",
            index=name,
        )


def commit_segments(snapshot: Snapshot, name: str, segments: Sequence[IndexMetadata]) -> Snapshot:
    """Commit an index of new segments; if they do not land, their files are removed."""
    with removed_unless_committed(snapshot, [segment.uuid for segment in segments]):
        return put_segments(snapshot, name, segments, snapshot.indices)


def put_segments(
    snapshot: Snapshot,
    name: str,
    segments: Sequence[IndexMetadata],
    there: Sequence[IndexMetadata],
) -> Snapshot:
    """Commit segments in the place of those of their name that are there."""
    old = tuple(index for index in there if index.name == name)
    operation = CreateIndex(new_indices=tuple(segments), removed_indices=old)
    return commit(snapshot, Pending(operation=operation, doing="create_index"))


def drop_index(snapshot: Snapshot, name: str, policy: RetryPolicy) -> Snapshot:
    """Drop an index, or the entry of the shards; its files stay for older versions.

    Raises IndexNotFoundError: there is no index of the name.
    Raises InvalidArgumentError: shards have rows that are in no version.
    """

    def attempt(current: Snapshot) -> Snapshot:
        entry = mem_wal_entry(current.indices) if name == MEM_WAL else None
        return commit(
            current,
            Pending(
                operation=CreateIndex(
                    removed_indices=segments_of(current, name) if entry is None else (entry,)
                ),
                doing="drop_index",
            ),
        )

    return retried_writing(snapshot, attempt, policy)[0]


def segments_of(snapshot: Snapshot, name: str) -> tuple[IndexMetadata, ...]:
    """Return the segments of an index.

    Raises IndexNotFoundError: there is none of the name.
    """
    found = tuple(index for index in snapshot.indices if index.name == name and not index.is_system)
    if not found:
        known = sorted({index.name for index in snapshot.indices if not index.is_system})
        raise IndexNotFoundError(
            f"There is no index {shown(name)} (index not found).",
            hint=f"The indices are {', '.join(known)}." if known else "The version has none.",
            index=name,
        )
    return found


# ---- an index made by groups of fragments, as on Spark: tasks make parts, and others join these
#
# How many tasks there are follows the bytes of the column, and how many segments are left of their
# parts the bytes of these: each segment is asked for itself, so a look-up takes longer the more
# there are.

Item = TypeVar("Item")

#: bytes of a column that a task reads, and of the files of a segment that a task joins: a worker's
#: memory is to hold them several times over
_TASK_BYTES = 256 << 20
#: tasks that are worth starting, however little there is to read, and what each then reads at least
_TASKS, _LEAST_BYTES = 16, 4 << 20
#: bytes of a sample, and of how many runs of rows it is
_SAMPLE_BYTES, _RUNS = 256 << 20, 1024


def _index_group(
    target: IndexTarget,
    parameters: Mapping[str, object],
    model: Content | None,
    fragment_ids: tuple[int, ...],
) -> IndexMetadata:
    """Write the part of some fragments, which nothing refers to yet.

    Each attempt has a folder of its own: Spark may make several.
    """
    if model is None:
        content = build_content(target, parameters, fragment_ids)
    else:
        content = builder_of(target.kind).extended(model, read_rows(target, fragment_ids))
    return write_segment(target, content, fragment_ids)


@dataclass(slots=True)
class _Groups:
    """The parts of an index that were made so far, each with the files of its fragments.

    Of those that were made of an older version, the ones stay whose fragments are as they were.

    written: all that was written of segments, to be removed but for what a version refers to.
    """

    runner: Runner
    written: set[UUID] = field(default_factory=set)
    _made: list[tuple[IndexMetadata, dict[int, tuple[DataFile, ...]]]] = field(default_factory=list)
    _model: Content | None = None

    def of(
        self, wanted: IndexTarget, parameters: Mapping[str, object]
    ) -> tuple[IndexMetadata, ...]:
        """Return segments of all fragments of a version; what is missing is made.

        There are none if all groups would have to share what no sample tells.
        """
        snapshot, column, kind = wanted.snapshot, wanted.column, wanted.kind
        given = parsed_parameters(kind, parameters)
        if self._model is None and (model := builder_of(kind).model) is not None:
            rows = snapshot.manifest.num_rows
            self._model = model(_sample(snapshot, column), rows, **given)
            if self._model is None:
                return ()
        there = {f.id: f for f in snapshot.manifest.fragments}
        self._made = [
            (part, files)
            for part, files in self._made
            if all(id_ in there and there[id_].files == held for id_, held in files.items())
        ]
        covered = {id_ for _, files in self._made for id_ in files}
        missing = [fragment for id_, fragment in there.items() if id_ not in covered]
        # sent to a worker once, and not with each task: the manifest lists all fragments
        target = IndexTarget(snapshot=snapshot, column=column, kind=kind, name=wanted.name)
        tasks = [
            tuple(fragment.id for fragment in some)
            for some in _by_bytes(missing, _row_bytes(snapshot, column))
        ]
        work = partial(_index_group, target, parameters, self._model)
        for ids, part in zip(tasks, self._mapped(work, tasks), strict=True):
            self._made.append((part, {id_: there[id_].files for id_ in ids}))
        bundles = list(_cut([part for part, _ in self._made], _file_bytes, _TASK_BYTES))
        several = [tuple(parts) for parts in bundles if len(parts) > 1]
        return (
            *(parts[0] for parts in bundles if len(parts) == 1),
            *self._mapped(partial(joined_segments, target), several),
        )

    def sweep(self, snapshot: Snapshot) -> None:
        """Remove what was written and a version does not refer to."""
        kept = {index.uuid for index in snapshot.indices}
        with suppress(StorageError):  # a cleanup finds it
            for uuid in self.written - kept:
                delete_segment(snapshot.store, uuid)

    def _mapped(
        self, work: Callable[[Item], IndexMetadata], tasks: Sequence[Item]
    ) -> list[IndexMetadata]:
        found = self.runner.map(work, tasks)
        self.written.update(index.uuid for index in found)
        return found


def _sample(snapshot: Snapshot, column: IndexedField) -> IndexedColumn:
    """Read rows that are spread evenly over a version, by their positions."""
    rows = snapshot.manifest.num_rows
    wanted = min(rows, int(_SAMPLE_BYTES / _row_bytes(snapshot, column)))
    runs = spread_runs(np.random.default_rng(0), rows, wanted, max(min(_RUNS, wanted), 1))
    outputs = plan_columns(snapshot.manifest.schema, [column.path])
    positions = rows_of_runs(*runs)
    found = rows_at(fragment_sources(snapshot), outputs, positions)
    return IndexedColumn(column.type, whole(found.column(0)), positions.astype(np.uint64))


def _by_bytes(fragments: Sequence[Fragment], row_bytes: float) -> Iterator[Sequence[Fragment]]:
    """Cut fragments into groups for tasks."""
    total = sum(fragment.num_rows for fragment in fragments) * row_bytes
    most = min(max(total / _TASKS, _LEAST_BYTES), _TASK_BYTES)
    return _cut(fragments, lambda fragment: fragment.num_rows * row_bytes, most)


def _file_bytes(part: IndexMetadata) -> float:
    return sum(file.size_bytes for file in part.files or ())


def _row_bytes(snapshot: Snapshot, column: IndexedField) -> float:
    """Return how many bytes a row of a column has; of no fixed width, at most so many."""
    width = _width(column.type)
    if width is not None:
        return width
    fragments = snapshot.manifest.fragments
    size = sum(file.file_size_bytes or 0 for one in fragments for file in one.files)
    return max(size / max(snapshot.manifest.num_rows, 1), 1)


def _width(kind: pa.DataType) -> float | None:
    if pa.types.is_fixed_size_list(kind):
        width = _width(kind.value_type)
        return None if width is None else width * kind.list_size
    try:
        return float(kind.bit_width) / 8
    except ValueError:  # of no fixed width
        return None


def _cut(
    items: Sequence[Item], size: Callable[[Item], float], most: float
) -> Iterator[Sequence[Item]]:
    """Cut items into groups that are no larger than `most` together, if none of them is."""
    group: list[Item] = []
    taken = 0.0
    for item in items:
        own = size(item)
        if group and taken + own > most:
            yield group
            group, taken = [], 0.0
        group.append(item)
        taken += own
    if group:
        yield group
