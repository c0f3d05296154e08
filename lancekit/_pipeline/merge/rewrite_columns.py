"""A merge-insert that updates columns where the rows are, in this process.

See docs/format/operations.md, 5.3.

Only the source's columns are read and written, for all rows of each fragment that has a match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit._format.schema import LanceSchema
from lancekit._pipeline.columns.column_patch import Patch, Patched, all_patched, try_patch
from lancekit._pipeline.keys.probe import Matches
from lancekit._pipeline.keys.source_keys import SourceKeys
from lancekit._pipeline.merge.condition import where_condition
from lancekit._pipeline.merge.plan import MergeJob, MergeWork, find_matches, guard_hashes
from lancekit._pipeline.merge.strategy import MatchPlan
from lancekit._pipeline.rows.write import WriteTask
from lancekit._scan.fragments.rebatch import taken
from lancekit.errors import LancekitError

__all__ = ["patch_task", "rewrite_locally", "rewritten_columns"]

#: fragments whose new values are held at a time
_TOGETHER = 16


def rewritten_columns(source: Sequence[str], on: Sequence[str]) -> list[str]:
    """Return the columns that are written: those of the source that are no keys."""
    return [name for name in source if name not in on]


def patch_task(task: WriteTask, columns: Sequence[str]) -> WriteTask:
    """Return how to write files of some of the dataset's columns."""
    fields = tuple(task.schema.field(name) for name in columns)
    return replace(task, schema=LanceSchema(fields))


def rewrite_locally(
    source: pa.Table,
    keys: SourceKeys,
    job: MergeJob,
    map_tasks: Callable[..., list[Any]],
    match: MatchPlan,
) -> MergeWork:
    """Work out a merge that updates columns; arguments as in `merge_locally`."""
    clauses, asked = job.clauses, job.condition
    by_id = {s.fragment.id: s for s in job.target}
    touched = find_matches(job, keys, map_tasks, match)
    chosen = [where_condition(m, source, by_id[m.fragment_id], asked) for m in touched]
    changed = [m for m in chosen if len(m.offsets)]
    columns = rewritten_columns(source.column_names, clauses.on)
    write = patch_task(job.task, columns)
    values = source.select(columns)
    found: list[Patched | LancekitError] = []
    for group in _groups(changed):
        patches = [
            Patch(
                source=by_id[m.fragment_id],
                offsets=m.offsets,
                values=taken(values, m.source_rows),
                write=write,
            )
            for m in group
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
    )


def _groups(matches: Sequence[Matches]) -> Iterator[Sequence[Matches]]:
    for start in range(0, len(matches), _TOGETHER):
        yield matches[start : start + _TOGETHER]
