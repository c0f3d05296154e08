"""Creation of an index of a column, and its removal."""

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

#: prefix of the table format's own index names
_OWN = "__lance"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """Request to create an index of a column.

    name: by default derived from the column.
    train: False to create an index that covers no row yet.
    progress: called with the state of the work.
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
    """Plan to create an index of a column of a version, to run or to explain."""

    request: IndexRequest

    @property
    def choice(self) -> Choice:
        """The engine that builds the index, and the reason."""
        return _engine(self.snapshot, self.request)

    @property
    def replaced(self) -> bool:
        """True if the index replaces an existing one."""
        return any(index.name == self.name for index in self.snapshot.indices)

    def run(self, groups: _Groups | None) -> Snapshot:
        """Build and commit the index, in groups of fragments if given; return the new version."""
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
    """Plan an index; only metadata is read.

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
    """Create an index; return the version that has it.

    On Spark each task indexes a group of fragments.  If another writer rewrote fragments meanwhile,
    only the groups with these fragments are indexed again.

    Raises ColumnNotFoundError: the column does not exist.
    Raises InvalidTypeError: the column's type does not fit this kind of index.
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
        return Choice("local", "uuid= needs one folder, and each Spark task would write its own")
    return choose_engine(snapshot.manifest.num_rows)


def default_name(snapshot: Snapshot, column: IndexedField, kind: IndexKind) -> str:
    """Return the default name of an index of the given kind, numbered if others have the name."""
    others = {
        index.name
        for index in snapshot.indices
        if index.fields != (column.field.id,) or not kind.describes(index)
    }
    base = f"{column.path}_idx"
    names = (base if number == 1 else f"{base}_{number}" for number in count(1))
    return next(name for name in names if name not in others)


def check_name(snapshot: Snapshot, column: IndexedField, name: str, *, replace: bool) -> None:
    """Check the name of a new index of a column.

    Raises IndexExistsError: an index of another column has the name, or an index of this column
        does and ``replace`` is False.
    Raises InvalidArgumentError: the name is empty or reserved.
    """
    if not name or name.startswith(_OWN):
        raise InvalidArgumentError(
            f"Index name {shown(name)} is reserved.",
            hint=f"Choose a name that does not begin with {_OWN}.",
            index=name,
        )
    taken = [index for index in snapshot.indices if index.name == name]
    if any(index.fields != (column.field.id,) for index in taken):
        raise IndexExistsError(
            f"Index {name!r} already exists on another column.",
            hint="Choose another name, or drop the other index first.",
            index=name,
        )
    if taken and not replace:
        raise IndexExistsError(
            f"Index {name!r} already exists, and replace is False.",
            hint="Pass replace=True to rebuild it, or choose another name.",
            index=name,
        )


def commit_segments(snapshot: Snapshot, name: str, segments: Sequence[IndexMetadata]) -> Snapshot:
    """Commit an index of new segments; remove their files if the commit fails."""
    with removed_unless_committed(snapshot, [segment.uuid for segment in segments]):
        return put_segments(snapshot, name, segments, snapshot.indices)


def put_segments(
    snapshot: Snapshot,
    name: str,
    segments: Sequence[IndexMetadata],
    existing: Sequence[IndexMetadata],
) -> Snapshot:
    """Commit segments that replace all segments of their name in ``existing``."""
    old = tuple(index for index in existing if index.name == name)
    operation = CreateIndex(new_indices=tuple(segments), removed_indices=old)
    return commit(snapshot, Pending(operation=operation, doing="create_index"))


def drop_index(snapshot: Snapshot, name: str, policy: RetryPolicy) -> Snapshot:
    """Drop an index, or the MemWAL entry of the shards; its files stay for older versions.

    Raises IndexNotFoundError: no index has the name.
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

    Raises IndexNotFoundError: no index has the name.
    """
    found = tuple(index for index in snapshot.indices if index.name == name and not index.is_system)
    if not found:
        known = sorted({index.name for index in snapshot.indices if not index.is_system})
        raise IndexNotFoundError(
            f"There is no index {shown(name)} (index not found).",
            hint=f"The indices are {', '.join(known)}."
            if known
            else "The version has no indices. ds.create_scalar_index('id', 'BTREE') creates one.",
            index=name,
        )
    return found


# ---- an index built in groups of fragments, as on Spark: tasks build parts, other tasks merge them
#
# The number of tasks depends on the bytes of the column, and the number of merged segments on the
# bytes of the parts.  A lookup queries each segment, so it is slower the more segments there are.

Item = TypeVar("Item")

#: maximal bytes of a column that a task reads, and of segment files that a task merges: they must
#: fit several times into a worker's memory
_TASK_BYTES = 256 << 20
#: number of tasks, unless each would read less than `_LEAST_BYTES` or more than `_TASK_BYTES`
_TASKS, _LEAST_BYTES = 16, 4 << 20
#: bytes of a sample, and the number of its row runs
_SAMPLE_BYTES, _RUNS = 256 << 20, 1024


def _index_group(
    target: IndexTarget,
    parameters: Mapping[str, object],
    model: Content | None,
    fragment_ids: tuple[int, ...],
) -> IndexMetadata:
    """Write an uncommitted segment of some fragments.

    Each attempt has its own folder, because Spark may run a task several times.
    """
    if model is None:
        content = build_content(target, parameters, fragment_ids)
    else:
        content = builder_of(target.kind).extended(model, read_rows(target, fragment_ids))
    return write_segment(target, content, fragment_ids)


@dataclass(slots=True)
class _Groups:
    """Builder of an index in groups of fragments, which keeps finished parts between attempts.

    A part of an older version is reused if the files of its fragments did not change.

    written: the UUIDs of all written segments, to remove unreferenced segments.
    """

    runner: Runner
    written: set[UUID] = field(default_factory=set)
    _made: list[tuple[IndexMetadata, dict[int, tuple[DataFile, ...]]]] = field(default_factory=list)
    _model: Content | None = None

    def of(
        self, wanted: IndexTarget, parameters: Mapping[str, object]
    ) -> tuple[IndexMetadata, ...]:
        """Return segments of all fragments of a version; build the missing ones.

        Return no segments if the kind needs a model and the sample gives none.
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
        # sent to a worker once, not with each task, because the manifest lists all fragments
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
        """Remove the written segments that a version does not refer to."""
        kept = {index.uuid for index in snapshot.indices}
        with suppress(StorageError):  # a cleanup removes the rest
            for uuid in self.written - kept:
                delete_segment(snapshot.store, uuid)

    def _mapped(
        self, work: Callable[[Item], IndexMetadata], tasks: Sequence[Item]
    ) -> list[IndexMetadata]:
        found = self.runner.map(work, tasks)
        self.written.update(index.uuid for index in found)
        return found


def _sample(snapshot: Snapshot, column: IndexedField) -> IndexedColumn:
    """Read a sample of a column: runs of rows that are spread evenly over a version."""
    rows = snapshot.manifest.num_rows
    wanted = min(rows, int(_SAMPLE_BYTES / _row_bytes(snapshot, column)))
    runs = spread_runs(np.random.default_rng(0), rows, wanted, max(min(_RUNS, wanted), 1))
    outputs = plan_columns(snapshot.manifest.schema, [column.path])
    positions = rows_of_runs(*runs)
    found = rows_at(fragment_sources(snapshot), outputs, positions)
    return IndexedColumn(column.type, whole(found.column(0)), positions.astype(np.uint64))


def _by_bytes(fragments: Sequence[Fragment], row_bytes: float) -> Iterator[Sequence[Fragment]]:
    """Cut fragments into groups for tasks, by the bytes of their rows."""
    total = sum(fragment.num_rows for fragment in fragments) * row_bytes
    most = min(max(total / _TASKS, _LEAST_BYTES), _TASK_BYTES)
    return _cut(fragments, lambda fragment: fragment.num_rows * row_bytes, most)


def _file_bytes(part: IndexMetadata) -> float:
    return sum(file.size_bytes for file in part.files or ())


def _row_bytes(snapshot: Snapshot, column: IndexedField) -> float:
    """Return the bytes per row of a column; without a fixed width, an upper bound."""
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
    """Cut items into groups with a total size up to `most`; a larger item is a group alone."""
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
