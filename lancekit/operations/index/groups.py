"""An index made by groups of fragments at a time, each a segment of its own, as on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from lancekit.format.fragment import DataFile, Fragment
from lancekit.format.index import IndexMetadata
from lancekit.index.build.files import delete_segment
from lancekit.index.kinds import IndexKind
from lancekit.operations.index.segments import IndexedField, build_segment
from lancekit.pipeline.engine.engine import Runner
from lancekit.versions.snapshot import Snapshot

__all__ = ["GroupTask", "Groups", "index_group"]

#: segments at most: each is asked for itself, until they are put together
_SEGMENTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTask:
    """Fragments that become a segment.  Can be sent to a worker."""

    snapshot: Snapshot
    column: IndexedField
    kind: IndexKind
    name: str
    parameters: Mapping[str, Any]
    fragment_ids: tuple[int, ...]


def index_group(task: GroupTask) -> IndexMetadata:
    """Write the segment of some fragments, which nothing refers to yet.

    Each attempt has a folder of its own: Spark may make several.
    """
    return build_segment(
        task.snapshot,
        task.column,
        task.kind,
        task.name,
        parameters=task.parameters,
        fragment_ids=task.fragment_ids,
    )


@dataclass(slots=True)
class Groups:
    """The segments of an index that were made so far, each with the files of its fragments.

    Of those that were made of an older version, the ones stay whose fragments are as they were.
    """

    runner: Runner
    made: dict[UUID, tuple[IndexMetadata, dict[int, tuple[DataFile, ...]]]] = field(
        default_factory=dict
    )

    def of(
        self,
        snapshot: Snapshot,
        column: IndexedField,
        kind: IndexKind,
        name: str,
        parameters: Mapping[str, Any],
    ) -> tuple[IndexMetadata, ...]:
        """Return segments of all fragments of a version; what is missing is made."""
        there = {f.id: f for f in snapshot.manifest.fragments}
        for uuid, (_, files) in list(self.made.items()):
            if any(id_ not in there or there[id_].files != held for id_, held in files.items()):
                del self.made[uuid]
                delete_segment(snapshot.store, uuid)
        covered = {id_ for _, files in self.made.values() for id_ in files}
        missing = [fragment for id_, fragment in there.items() if id_ not in covered]
        tasks = [
            GroupTask(
                snapshot=snapshot,
                column=column,
                kind=kind,
                name=name,
                parameters=parameters,
                fragment_ids=tuple(fragment.id for fragment in group),
            )
            for group in _cut(missing)
        ]
        for task, segment in zip(tasks, self.runner.map(index_group, tasks), strict=True):
            files = {id_: there[id_].files for id_ in task.fragment_ids}
            self.made[segment.uuid] = segment, files
        return tuple(segment for segment, _ in self.made.values())


def _cut(fragments: Sequence[Fragment]) -> Iterator[Sequence[Fragment]]:
    """Cut fragments into groups of about as many rows."""
    most = sum(f.num_rows for f in fragments) / _SEGMENTS
    start = rows = 0
    for place, fragment in enumerate(fragments, 1):
        rows += fragment.num_rows
        if rows >= most or place == len(fragments):
            yield fragments[start:place]
            start, rows = place, 0
