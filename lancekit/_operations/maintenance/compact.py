"""Compaction: rewrite rows to fewer files, without deleted rows: docs/format/operations.md, 6.3."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lancekit._checked import from_text
from lancekit._commit.rules.pending import Pending, ReuseEntry
from lancekit._format.fragment import Fragment
from lancekit._format.operation_parts import RewriteGroup, RewrittenIndex
from lancekit._format.operations import ReserveFragments, Rewrite
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.results import CompactionMetrics
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.common.staged_files import removed_unless_landed, write_task
from lancekit._operations.index.optimize import deferred
from lancekit._operations.index.remap import rewritten_indices
from lancekit._operations.index.segments import removed_unless_committed
from lancekit._operations.maintenance.compact_plan import (
    CompactionOptions,
    CompactionTask,
    plan_compaction,
)
from lancekit._pipeline.compact_rows import LARGE_PAGE, CompactTask, compact_rows
from lancekit._pipeline.engine import Choice, Runner, choose_engine, runner_of
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """Result of one compaction task: the old fragments, and their new replacements."""

    read_version: int
    original_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]

    @property
    def metrics(self) -> CompactionMetrics:
        """Counts of the fragments and files that a commit of this result would replace."""
        return measure([self], self.read_version)

    def json(self) -> str:
        """Return the result as JSON for another process; pylance can read it, too."""
        metrics = self.metrics
        counts = ("fragments_removed", "fragments_added", "files_removed", "files_added")
        return json.dumps(
            {
                "metrics": {name: getattr(metrics, name) for name in counts},
                "new_fragments": _shown_fragments(self.new_fragments),
                "read_version": self.read_version,
                "original_fragments": _shown_fragments(self.original_fragments),
                "row_addrs": None,
            }
        )

    @staticmethod
    def from_json(json: str) -> RewriteResult:
        """Return the result from the JSON text of `json`, of lancekit or pylance.

        Raises
        ------
        InvalidArgumentError
            The text is not a compaction result.
        """
        return from_text("RewriteResult", json, _parsed_result)


def _parsed_result(values: Any) -> RewriteResult:
    return RewriteResult(
        read_version=int(values["read_version"]),
        original_fragments=_parsed_fragments(values["original_fragments"]),
        new_fragments=_parsed_fragments(values["new_fragments"]),
    )


def compact(
    snapshot: Snapshot, options: CompactionOptions, policy: RetryPolicy
) -> tuple[Snapshot, CompactionMetrics]:
    """Plan a compaction, rewrite its fragments and commit; make no version without a task.

    snapshot: the version to compact, which may not be the newest.
    options: the options of the compaction.
    policy: how often to retry when other writers changed the same fragments.
    """
    started = time.monotonic()

    def attempt(current: Snapshot) -> tuple[Snapshot, CompactionMetrics]:
        plan = plan_compaction(current, options)
        runner = runner_of(compaction_choice(plan.tasks), current.store)
        results = run_tasks(current, plan.tasks, runner)
        landed = commit_compaction(current, results, defer=options.defer_index_remap)
        metrics = measure(results, landed.version)
        left = {covered.index: covered.fragment_ids for covered in plan.left_to_indices}
        return landed, replace(
            metrics, left_to_indices=left, branch=landed.branch, engine=runner.name
        )

    (landed, metrics), attempts = retried_writing(snapshot, attempt, policy)
    return landed, replace(
        metrics,
        read_version=snapshot.version,
        attempts=attempts,
        duration=time.monotonic() - started,
    )


#: minimal bytes of pages to copy without decoding, by mode; ``None`` to copy none
_COPIED = {None: LARGE_PAGE, "reencode": None, "try_binary_copy": 0}


def compaction_choice(tasks: Iterable[CompactionTask]) -> Choice:
    """Choose the engine that runs the tasks of a compaction."""
    return choose_engine(sum(f.num_rows for task in tasks for f in task.fragments))


def run_tasks(
    snapshot: Snapshot, tasks: Sequence[CompactionTask], runner: Runner | None = None
) -> list[RewriteResult]:
    """Write the new files of tasks that were planned on this version, without a commit."""
    runner = runner or runner_of(compaction_choice(tasks), snapshot.store)
    sources = {source.fragment.id: source for source in fragment_sources(snapshot)}
    for task in tasks:
        for fragment in task.fragments:
            found = sources.get(fragment.id)
            if found is None or found.fragment != fragment:
                raise InvalidArgumentError(
                    f"Fragment {fragment.id} of a compaction task is not in version "
                    f"{snapshot.version} of {snapshot.location.uri}.",
                    hint="Execute a task on the dataset that it was planned for.",
                    fragment=fragment.id,
                )
    work = [
        CompactTask(
            sources=tuple(sources[f.id] for f in task.fragments),
            write=write_task(
                snapshot, task.options.data_storage_version, task.options.max_bytes_per_file
            ),
            target_rows=task.options.target_rows_per_fragment,
            copied=_COPIED[task.options.compaction_mode],
        )
        for task in tasks
    ]
    written = runner.map(compact_rows, work)
    return [
        RewriteResult(
            read_version=snapshot.version, original_fragments=task.fragments, new_fragments=new
        )
        for task, new in zip(tasks, written, strict=True)
    ]


def commit_compaction(
    snapshot: Snapshot, results: Sequence[RewriteResult], *, defer: bool = False
) -> Snapshot:
    """Commit new fragments in place of the old: first a version that reserves their ids.

    snapshot: the version that the tasks were planned on.
    results: all or some results of `run_tasks`.
    defer: leave indices unchanged, and record the moves of rows in the fragment reuse entry.

    Raises RetryableConflictError: other writers changed these fragments.  New files are removed.
    """
    if not results:
        return snapshot
    if other := [r.read_version for r in results if r.read_version != snapshot.version]:
        raise InvalidArgumentError(
            f"Compaction tasks of version {other[0]} and {snapshot.version} cannot be committed "
            "together.",
            hint="Commit the tasks of one plan at a time.",
            read_version=other[0],
        )
    new = [fragment for result in results for fragment in result.new_fragments]
    segments: list[RewrittenIndex] = []
    written: list[uuid.UUID] = []
    with removed_unless_landed(snapshot.store, new), removed_unless_committed(snapshot, written):
        # no other writer gets these ids, which the rewrite assigns to its fragments
        reserve = ReserveFragments(num_fragments=len(new))
        reserved = _commit(snapshot, reserve) if new else snapshot
        last = reserved.manifest.max_fragment_id or 0
        ids = iter(range(last - len(new) + 1, last + 1))
        groups = tuple(
            RewriteGroup(
                old_fragments=result.original_fragments,
                new_fragments=tuple(replace(f, id=next(ids)) for f in result.new_fragments),
            )
            for result in results
        )
        reuse = deferred(snapshot, groups, reserved.version) if defer else None
        if reuse is not None:
            written.append(reuse.new.uuid)
        else:
            for segment in rewritten_indices(snapshot, groups):
                segments.append(segment)
                written.append(segment.new_id)
        return _commit(snapshot, Rewrite(groups=groups, rewritten_indices=tuple(segments)), reuse)


def _commit(
    snapshot: Snapshot, operation: ReserveFragments | Rewrite, reuse: ReuseEntry | None = None
) -> Snapshot:
    return commit(snapshot, Pending(operation=operation, reuse=reuse, doing="compaction"))


def measure(results: Sequence[RewriteResult], version: int) -> CompactionMetrics:
    """Return the counts of replaced and new fragments and files, for a version."""
    old = [fragment for result in results for fragment in result.original_fragments]
    new = [fragment for result in results for fragment in result.new_fragments]
    return CompactionMetrics(
        fragments_removed=len(old),
        fragments_added=len(new),
        files_removed=sum(len(f.files) + (f.deletion_file is not None) for f in old),
        files_added=sum(len(f.files) for f in new),
        deleted_rows_removed=sum(f.num_deletions for f in old),
        bytes_read=sum(file.size_bytes for f in old for file in f.files),
        bytes_written=sum(file.size_bytes for f in new for file in f.files),
        version=version,
        read_version=results[0].read_version if results else version,
    )


# ---- plans, tasks and results of a compaction as JSON, in pylance's form


def _shown_fragments(fragments: Iterable[Fragment]) -> list[dict[str, object]]:
    """Return fragments as values for JSON."""
    return [fragment.to_json() for fragment in fragments]


def _parsed_fragments(values: Iterable[Any]) -> tuple[Fragment, ...]:
    return tuple(map(Fragment.from_dict, values))


def shown_task(task: CompactionTask) -> dict[str, object]:
    """Return a task as a value for JSON."""
    return {
        "task": {"fragments": _shown_fragments(task.fragments)},
        "read_version": task.read_version,
        "options": task.options.to_json(),
    }


def parsed_task(values: Any) -> CompactionTask:
    """Return a task from its JSON value."""
    return CompactionTask(
        read_version=int(values["read_version"]),
        fragments=_parsed_fragments(values["task"]["fragments"]),
        options=CompactionOptions.from_json(values["options"]),
    )
