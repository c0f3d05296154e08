"""Make an index of a column, or drop one."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from lancekit.commit.protocol import check_writable
from lancekit.commit.rules.pending import Pending
from lancekit.errors import IndexExistsError, IndexNotFoundError, InvalidArgumentError
from lancekit.format.index import IndexMetadata
from lancekit.format.mem_wal.names import MEM_WAL, mem_wal_entry
from lancekit.format.operations import CreateIndex
from lancekit.index.build.builders import parsed_parameters
from lancekit.index.kinds import IndexKind
from lancekit.legible import shown
from lancekit.operations.cleanup.auto import commit
from lancekit.operations.common.retry import RetryPolicy, retried
from lancekit.operations.index.groups import Groups
from lancekit.operations.index.segments import (
    IndexedField,
    build_segment,
    check_readable,
    indexed_field,
    removed_unless_committed,
)
from lancekit.pipeline.engine.engine import Choice, choose_engine, runner_of
from lancekit.progress import IndexProgress, told_of_rows, tracking
from lancekit.versions.snapshot import Snapshot

__all__ = [
    "IndexPlan",
    "IndexRequest",
    "check_name",
    "commit_segments",
    "create_index",
    "default_name",
    "drop_index",
    "plan_index",
    "put_segments",
    "segments_of",
]

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
    parameters: Mapping[str, Any] = field(default_factory=dict)
    replace: bool = True
    train: bool = True
    uuid: UUID | None = None
    progress: Callable[[IndexProgress], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class IndexPlan:
    """An index that is to be made of a column of a version: it is run, or explained.

    `name` is the one that the index gets.
    """

    snapshot: Snapshot
    request: IndexRequest
    column: IndexedField
    name: str

    @property
    def choice(self) -> Choice:
        """Where it runs, and why."""
        return _engine(self.snapshot, self.request)

    @property
    def replaced(self) -> bool:
        """Whether it takes the place of an index that is there."""
        return any(index.name == self.name for index in self.snapshot.indices)

    def run(self, groups: Groups | None) -> Snapshot:
        """Make the index, by groups of fragments if there are any; return the version with it."""
        current, request = self.snapshot, self.request
        if groups is not None:
            segments = groups.of(current, self.column, request.kind, self.name, request.parameters)
            if segments:
                return put_segments(current, self.name, segments, current.indices)
        segment = build_segment(
            current,
            self.column,
            request.kind,
            self.name,
            parameters=request.parameters,
            fragment_ids=None if request.train else (),
            uuid=request.uuid,
        )
        return commit_segments(current, self.name, [segment])


def plan_index(snapshot: Snapshot, request: IndexRequest) -> IndexPlan:
    """Plan an index; nothing but metadata is read.

    Raises
    ------
    ColumnNotFoundError, InvalidTypeError, IndexExistsError, InvalidArgumentError
        As `create_index`.
    """
    parsed_parameters(request.kind, request.parameters)
    check_readable(request.kind, snapshot)
    column = indexed_field(snapshot, request.column, request.kind)
    name = request.name
    if name is None:
        name = default_name(snapshot, column, request.kind)
    check_name(snapshot, column, name, replace=request.replace)
    return IndexPlan(snapshot=snapshot, request=request, column=column, name=name)


def create_index(snapshot: Snapshot, request: IndexRequest, policy: RetryPolicy) -> Snapshot:
    """Make an index; return the version that has it.

    On Spark groups of fragments are indexed each by a task.  Where another writer rewrote fragments
    meanwhile, only the groups of these are made again.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidTypeError
        An index of this kind cannot be made of its type.
    IndexExistsError
        Another index has the name.
    """
    parsed_parameters(request.kind, request.parameters)
    rows = snapshot.manifest.num_rows
    choice = _engine(snapshot, request)
    groups = Groups(runner_of(choice, snapshot.store)) if choice.engine == "spark" else None

    def attempt(current: Snapshot) -> Snapshot:
        check_writable(current)
        return plan_index(current, request).run(groups)

    with (
        told_of_rows(request.progress),
        tracking("indexing", total_rows=rows if request.train else 0),
        removed_unless_committed(snapshot, () if groups is None else groups.written),
    ):
        landed = retried(snapshot, attempt, policy)[0]
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

    Raises
    ------
    IndexExistsError
        It is that of an index of another column, or is not to be replaced.
    InvalidArgumentError
        It is none that an index can have.
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
    return commit(
        snapshot, Pending(operation=operation, uuid=str(uuids.uuid4()), doing="create_index")
    )


def drop_index(snapshot: Snapshot, name: str, policy: RetryPolicy) -> Snapshot:
    """Drop an index, or the entry of the shards; its files stay for older versions.

    Raises
    ------
    IndexNotFoundError
        There is no index of the name.
    InvalidArgumentError
        Shards have rows that are in no version.
    """

    def attempt(current: Snapshot) -> Snapshot:
        check_writable(current)
        entry = mem_wal_entry(current.indices) if name == MEM_WAL else None
        return commit(
            current,
            Pending(
                operation=CreateIndex(
                    removed_indices=segments_of(current, name) if entry is None else (entry,)
                ),
                uuid=str(uuids.uuid4()),
                doing="drop_index",
            ),
        )

    return retried(snapshot, attempt, policy)[0]


def segments_of(snapshot: Snapshot, name: str) -> tuple[IndexMetadata, ...]:
    """Return the segments of an index.

    Raises
    ------
    IndexNotFoundError
        There is none of the name.
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
