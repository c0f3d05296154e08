"""Merge-inserts in this process, which write rows, or columns beside the existing rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit._format import row_address
from lancekit._format.deletions import to_bitmap
from lancekit._format.fragment import Fragment
from lancekit._format.row_ids_encode import with_row_ids
from lancekit._format.schema import LanceSchema
from lancekit._pipeline.column_patch import Patch, Patched, all_patched, try_patch
from lancekit._pipeline.engine import MapTasks
from lancekit._pipeline.merge_condition import rows_at_a_time, where_condition
from lancekit._pipeline.merge_plan import (
    EXAMPLES,
    MergeClauses,
    MergeJob,
    MergeWork,
    fan_out,
    find_matches,
    guard_hashes,
    mark_fragments,
    matched_rows,
)
from lancekit._pipeline.merge_strategy import MatchPlan
from lancekit._pipeline.probe import Matches, first_matches, key_values
from lancekit._pipeline.source_keys import SourceKeys, key_columns
from lancekit._pipeline.write_rows import WriteTask, write_fragments
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.fragments.source import FragmentSource
from lancekit.errors import LancekitError
from lancekit.progress import step, tracking

Indices = npt.NDArray[np.int64]


def merge_locally(
    source: pa.Table, keys: SourceKeys, job: MergeJob, map_tasks: MapTasks, match: MatchPlan
) -> MergeWork:
    """Run a merge that writes rows, and return its uncommitted files.

    source: the rows of the source, cast.
    keys: the keys of the source.
    job: the merge.
    map_tasks: a runner's ``map``.
    match: the plan of the search for keys, for the result.
    """
    clauses = job.clauses
    touched = find_matches(job, keys, map_tasks, match)
    if clauses.matched == "fail" and touched:
        rows = np.concatenate([m.source_rows for m in touched])
        named = pa.table(key_columns(source, clauses.on), names=list(clauses.on))
        raise matched_rows(clauses.on, key_values(named, clauses.on, rows), len(rows))
    by_id = {s.fragment.id: s for s in job.target}
    new = _NewRows(source, by_id, clauses, job.task)
    # a condition selects which matched rows change; the others still count as matched
    condition = job.condition
    changed = [where_condition(m, source, by_id[m.fragment_id], condition) for m in touched]
    unmatched = keys.unmatched([m.source_rows for m in touched])
    inserted = np.flatnonzero(unmatched) if clauses.insert else np.empty(0, np.int64)
    updates, dropped = _split(changed, source, clauses)
    replaced = sum(len(m.offsets) for m in updates)
    updates = first_matches(updates) if clauses.once else updates
    gone = changed if clauses.matched in {"update", "delete"} else []
    marked, unmatched_rows, examples = mark_fragments(
        job, _offsets(touched), _offsets(gone), _offsets(dropped), map_tasks
    )
    hashes = new.guard(updates, inserted) if clauses.guard else None
    return MergeWork(
        marked=marked,
        new_fragments=() if job.dry else new.write(updates, inserted, keep_ids=job.keeps_ids),
        inserted=len(inserted),
        updated=replaced,
        deleted=unmatched_rows + sum(len(m.offsets) for m in dropped),
        skipped=keys.skipped,
        inserted_hashes=hashes,
        match=match,
        examples=new.examples(updates, inserted) if job.dry else None,
        matched=sum(len(m.offsets) for m in touched),
        alone=int(unmatched.sum()),
        deleted_examples=examples,
        fan_out=fan_out(touched),
    )


def _split(
    changed: list[Matches], source: pa.Table, clauses: MergeClauses
) -> tuple[list[Matches], list[Matches]]:
    """Split the rows that change into rows to update and rows to delete."""
    if clauses.deleting is None:
        nothing = list[Matches]()
        updates = changed if clauses.matched == "update" else nothing
        return updates, changed if clauses.matched == "delete" else nothing
    drop = source.column(clauses.deleting).to_numpy()
    updates, dropped = (
        [m.part(np.flatnonzero(drop[m.source_rows] == wanted)) for m in changed]
        for wanted in (False, True)
    )
    return [m for m in updates if len(m.offsets)], dropped


def _offsets(matches: Sequence[Matches]) -> dict[int, BitMap]:
    return {m.fragment_id: to_bitmap(m.offsets) for m in matches}


@dataclass(frozen=True)
class _NewRows:
    """The new rows of a merge, made from source rows and target rows."""

    source: pa.Table
    by_id: Mapping[int, FragmentSource]
    clauses: MergeClauses
    task: WriteTask

    def write(
        self, updates: Sequence[Matches], inserted: Indices, *, keep_ids: bool
    ) -> tuple[Fragment, ...]:
        """Write the new rows: updated rows in the target's order, then inserted rows."""
        rows = sum(len(m.offsets) for m in updates) + len(inserted)
        with tracking("merging", total_rows=rows):
            fragments = write_fragments(self._batches(updates, inserted), self.task)
        if updates and keep_ids:
            moved = [FragmentReader(self.by_id[m.fragment_id]).row_ids(m.offsets) for m in updates]
            fragments = with_row_ids(fragments, np.concatenate(moved))
        return tuple(fragments)

    def guard(self, updates: Sequence[Matches], inserted: Indices) -> npt.NDArray[np.uint64]:
        """Return the hashes of the primary keys that may be new."""
        keyed = [m.source_rows for m in updates] if self.clauses.guard_updates else []
        return guard_hashes(self.source, self.clauses, np.concatenate([*keyed, inserted]))

    def examples(self, updates: Sequence[Matches], inserted: Indices) -> pa.Table:
        """Return the first few new rows, with the addresses of the rows that they replace."""
        group = next(_groups(updates, EXAMPLES), [])
        rows = [self._updated(group)] if group else []
        rows.append(self._inserted(inserted[:EXAMPLES]))
        old = [row_address.addresses(m.fragment_id, m.offsets) for m in group]
        addresses = pa.array(np.concatenate([np.empty(0, np.int64), *old]).astype(np.uint64))
        blank = pa.nulls(rows[-1].num_rows, pa.uint64())
        return pa.concat_tables(rows).append_column(
            "_rowaddr", pa.chunked_array([addresses, blank])
        )

    def _batches(self, updates: Sequence[Matches], inserted: Indices) -> Iterator[pa.RecordBatch]:
        rows = rows_at_a_time(self.source)
        for group in _groups(updates, rows):
            yield from _counted(self._updated(group))
        for start in range(0, len(inserted), rows):
            yield from _counted(self._inserted(inserted[start : start + rows]))

    def _updated(self, group: Sequence[Matches]) -> pa.Table:
        rows = taken(self.source, np.concatenate([m.source_rows for m in group]))
        given = set(rows.column_names)
        missing = [name for name in self.task.schema.names if name not in given]
        if not missing:
            return self._in_order(rows)
        kept = [FragmentReader(self.by_id[m.fragment_id]).read(missing, m.offsets) for m in group]
        return self._in_order(rows, pa.concat_tables(kept))

    def _inserted(self, chosen: Indices) -> pa.Table:
        return self._in_order(taken(self.source, chosen))

    def _in_order(self, rows: pa.Table, *others: pa.Table) -> pa.Table:
        """Return rows in the order of the schema; a column that no table has is null."""
        columns = {
            name: column
            for table in (rows, *others)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        schema = self.task.schema.to_arrow()
        found = [
            columns[field.name] if field.name in columns else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        return pa.table(found, schema=schema)


def _counted(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.to_batches()
    step(rows.num_rows)


def _groups(matches: Sequence[Matches], most: int) -> Iterator[list[Matches]]:
    """Split matches into groups of at most `most` rows, in order."""
    group: list[Matches] = []
    left = most
    for match in matches:
        start = 0
        while start < len(match.offsets):
            part = match.part(slice(start, start + left))
            group.append(part)
            start += len(part.offsets)
            left -= len(part.offsets)
            if not left:
                yield group
                group, left = [], most
    if group:
        yield group


# ---- Merge-inserts that update columns beside the existing rows, in this process
#
# See docs/format/operations.md, 5.3.
#
# Only the source's columns are read and written, for all rows of each fragment with a match.

#: fragments whose new values are held in memory at the same time
_TOGETHER = 16


def rewritten_columns(source: Sequence[str], on: Sequence[str]) -> list[str]:
    """Return the columns to write: the source's columns that are not keys."""
    return [name for name in source if name not in on]


def patch_task(task: WriteTask, columns: Sequence[str]) -> WriteTask:
    """Return a task that writes files of some of the dataset's columns."""
    fields = tuple(task.schema.field(name) for name in columns)
    return replace(task, schema=LanceSchema(fields))


def rewrite_locally(
    source: pa.Table, keys: SourceKeys, job: MergeJob, map_tasks: MapTasks, match: MatchPlan
) -> MergeWork:
    """Run a merge that updates columns; for the arguments, see `merge_locally`."""
    clauses, condition = job.clauses, job.condition
    by_id = {s.fragment.id: s for s in job.target}
    touched = find_matches(job, keys, map_tasks, match)
    chosen = [where_condition(m, source, by_id[m.fragment_id], condition) for m in touched]
    changed = [m for m in chosen if len(m.offsets)]
    columns = rewritten_columns(source.column_names, clauses.on)
    write = patch_task(job.task, columns)
    values = source.select(columns)
    found: list[Patched | LancekitError] = []
    for start in range(0, len(changed), _TOGETHER):
        patches = [
            Patch(
                source=by_id[m.fragment_id],
                offsets=m.offsets,
                values=taken(values, m.source_rows),
                write=write,
            )
            for m in changed[start : start + _TOGETHER]
        ]
        found += map_tasks(try_patch, patches)
        if any(isinstance(part, LancekitError) for part in found):
            break
    patched = all_patched(found, job.task.store)
    rows = np.concatenate([np.empty(0, np.int64), *(m.source_rows for m in changed)])
    return MergeWork(
        patched=patched,
        updated=len(rows),
        skipped=keys.skipped,
        inserted_hashes=guard_hashes(source, clauses, rows) if clauses.guard else None,
        match=match,
        fan_out=fan_out(changed),
    )
