"""An index made by groups of fragments, as on Spark: tasks make parts, and others join these.

How many tasks there are follows the bytes of the column, and how many segments are left of their
parts the bytes of these: each segment is asked for itself, so a look-up takes longer the more there
are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancekit.errors import StorageError
from lancekit.format.fragment import DataFile, Fragment
from lancekit.format.index import IndexMetadata
from lancekit.index.build.builders import builder_of, parsed_parameters
from lancekit.index.build.column import Content, IndexedColumn
from lancekit.index.build.files import delete_segment
from lancekit.index.build.sorting import whole
from lancekit.index.kinds import IndexKind
from lancekit.operations.index.segments import (
    IndexedField,
    build_content,
    joined_segments,
    read_rows,
    write_segment,
)
from lancekit.pipeline.engine.engine import Runner
from lancekit.scan.fragments.source import fragment_sources
from lancekit.scan.outputs import plan_columns
from lancekit.scan.runs import rows_of_runs, spread_runs
from lancekit.scan.take import rows_at
from lancekit.versions.snapshot import Snapshot

__all__ = ["Groups", "Wanted", "index_group", "join_parts"]

Item = TypeVar("Item")

#: bytes of a column that a task reads, and of the files of a segment that a task joins: a worker's
#: memory is to hold them several times over
_TASK_BYTES = 256 << 20
#: tasks that are worth starting, however little there is to read, and what each then reads at least
_TASKS, _LEAST_BYTES = 16, 4 << 20
#: bytes of a sample, and of how many runs of rows it is
_SAMPLE_BYTES, _RUNS = 256 << 20, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The index that all tasks work on.

    It is sent to a worker once, and not with each task: the manifest lists all fragments.
    """

    snapshot: Snapshot
    column: IndexedField
    kind: IndexKind
    name: str


def index_group(
    wanted: Wanted,
    parameters: Mapping[str, Any],
    model: Content | None,
    fragment_ids: tuple[int, ...],
) -> IndexMetadata:
    """Write the part of some fragments, which nothing refers to yet.

    Each attempt has a folder of its own: Spark may make several.
    """
    snapshot, column, kind = wanted.snapshot, wanted.column, wanted.kind
    if model is None:
        content = build_content(snapshot, column, kind, parameters, fragment_ids)
    else:
        rows = read_rows(snapshot, column, kind, fragment_ids)
        content = builder_of(kind).extended(model, rows)
    return write_segment(snapshot, column, kind, wanted.name, content, fragment_ids)


def join_parts(wanted: Wanted, parts: tuple[IndexMetadata, ...]) -> IndexMetadata:
    """Write the segment of some parts, which nothing refers to yet."""
    return joined_segments(wanted.snapshot, wanted.column, wanted.kind, parts)


@dataclass(slots=True)
class Groups:
    """The parts of an index that were made so far, each with the files of its fragments.

    Of those that were made of an older version, the ones stay whose fragments are as they were.

    Attributes
    ----------
    written
        All that was written of segments, to be removed but for what a version refers to.
    """

    runner: Runner
    written: set[UUID] = field(default_factory=set)
    _made: list[tuple[IndexMetadata, dict[int, tuple[DataFile, ...]]]] = field(default_factory=list)
    _model: Content | None = None

    def of(
        self,
        snapshot: Snapshot,
        column: IndexedField,
        kind: IndexKind,
        name: str,
        parameters: Mapping[str, Any],
    ) -> tuple[IndexMetadata, ...]:
        """Return segments of all fragments of a version; what is missing is made.

        There are none if all groups would have to share what no sample tells.
        """
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
        wanted = Wanted(snapshot=snapshot, column=column, kind=kind, name=name)
        tasks = [
            tuple(fragment.id for fragment in some)
            for some in _by_bytes(missing, _row_bytes(snapshot, column))
        ]
        work = partial(index_group, wanted, parameters, self._model)
        for ids, part in zip(tasks, self._mapped(work, tasks), strict=True):
            self._made.append((part, {id_: there[id_].files for id_ in ids}))
        bundles = list(_cut([part for part, _ in self._made], _file_bytes, _TASK_BYTES))
        several = [tuple(parts) for parts in bundles if len(parts) > 1]
        return (
            *(parts[0] for parts in bundles if len(parts) == 1),
            *self._mapped(partial(join_parts, wanted), several),
        )

    def sweep(self, snapshot: Snapshot) -> None:
        """Remove what was written and a version does not refer to."""
        kept = {index.uuid for index in snapshot.indices}
        with suppress(StorageError):  # a cleanup finds it
            for uuid in self.written - kept:
                delete_segment(snapshot.store, uuid)

    def _mapped(self, work: Any, tasks: Sequence[Any]) -> list[IndexMetadata]:
        found: list[IndexMetadata] = self.runner.map(work, tasks)
        self.written.update(index.uuid for index in found)
        return found


def _sample(snapshot: Snapshot, column: IndexedField) -> IndexedColumn:
    """Read rows that are spread evenly over a version, by their positions."""
    rows = snapshot.manifest.num_rows
    wanted = min(rows, int(_SAMPLE_BYTES / _row_bytes(snapshot, column)))
    rng = np.random.default_rng(0)
    runs = spread_runs(rng, rows, wanted, max(min(_RUNS, wanted), 1))
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


def _width(kind: Any) -> float | None:
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
