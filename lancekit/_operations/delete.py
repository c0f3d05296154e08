"""Delete the rows that a predicate selects."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyroaring import BitMap

from lancekit import _arrow_compute as pc
from lancekit._commit.rebase import write_deletions
from lancekit._commit.rules.pending import Pending
from lancekit._format.fragment import Fragment
from lancekit._format.operations import Delete
from lancekit._legible import shown
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.results import DeleteResult
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._pipeline.delete_rows import DeletedRows, find_rows_together, mark_tasks
from lancekit._pipeline.engine import Choice, Runner, choose_engine, runner_of
from lancekit._scan.expressions.objects import Expression
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.expressions.texts import as_sql
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.read import Read, reading
from lancekit._storage.base import Store
from lancekit._versions.listing import at_once
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidTypeError


@dataclass(frozen=True)
class DeletePlan:
    """Plan of a delete from a version, to run or to explain.

    snapshot: the version to delete from.
    predicate: selects the rows; rows where it is null stay.
    read: the fragments and rows to filter.
    """

    snapshot: Snapshot
    predicate: Predicate
    read: Read

    @property
    def choice(self) -> Choice:
        """The engine that runs the delete, and the reason."""
        return choose_engine(self.read.num_rows)

    def run(self) -> tuple[Snapshot, int, Runner]:
        """Mark the rows as deleted and commit; return the version, the row count, the runner."""
        runner = runner_of(self.choice, self.snapshot.store)
        parts = runner.map(find_rows_together, mark_tasks(self.read, self.predicate))
        marked = [found for part in parts for found in part if found.rows]
        updated, removed = apply_deletions(self.snapshot, marked)
        pending = Pending(
            operation=Delete(
                updated_fragments=updated,
                deleted_fragment_ids=removed,
                predicate=str(self.predicate.source),
            ),
            affected_rows={found.fragment_id: found.rows for found in marked},
        )
        return commit(self.snapshot, pending), sum(len(found.rows) for found in marked), runner


def plan_delete(snapshot: Snapshot, predicate: object) -> DeletePlan:
    """Plan a delete; only the manifest is read.

    Raises InvalidTypeError: the predicate is not SQL text or an expression.
    Raises PredicateError: the predicate does not parse, or does not fit the schema.
    """
    if not isinstance(predicate, str | Expression | pc.Expression):
        from lancekit._guesses import condition_hint, condition_of, rows_by

        schema = snapshot.manifest.schema
        key = [field.name for field in schema.primary_key or schema.fields[:1]]
        found = rows_by(key, predicate) or condition_of(predicate)
        line = "ds.truncate_table()" if predicate is True else found and f"ds.delete({found!r})"
        raise InvalidTypeError(
            f"The predicate must be SQL text or an expression, got {shown(predicate)}.",
            hint=f"Use {line}." if line else condition_hint(predicate),
        )
    schema = blob_view(snapshot.manifest.schema)
    parsed = Predicate.parse(as_sql(predicate), schema.to_arrow())
    return DeletePlan(snapshot, parsed, reading(snapshot, parsed, schema))


def delete_rows(
    snapshot: Snapshot, predicate: object, policy: RetryPolicy
) -> tuple[Snapshot, DeleteResult]:
    """Delete rows; a predicate that selects no row still makes a version, as in the reference.

    snapshot: the version to delete from, which may not be the newest.
    predicate: SQL text or a pyarrow expression; rows where it is null stay.
    policy: how often to retry when other writers changed the same rows.
    """
    started = time.monotonic()
    (landed, rows, runner), attempts = retried_writing(
        snapshot, lambda at: plan_delete(at, predicate).run(), policy
    )
    return landed, DeleteResult(
        num_deleted_rows=rows,
        version=landed.version,
        branch=landed.branch,
        location=landed.location,
        attempts=attempts,
        duration=time.monotonic() - started,
        engine=runner.name,
    )


def apply_deletions(
    snapshot: Snapshot, marked: Iterable[DeletedRows]
) -> tuple[tuple[Fragment, ...], tuple[int, ...]]:
    """Write new deletion files; return the changed fragments, and the ids of empty fragments."""
    fragments = {f.id: f for f in snapshot.manifest.fragments}
    left: dict[int, BitMap] = {}
    removed: list[int] = []
    for found in marked:
        deleted: BitMap = found.rows | found.deleted_before
        if len(deleted) >= fragments[found.fragment_id].physical_rows:
            removed.append(found.fragment_id)
        else:
            left[found.fragment_id] = deleted

    def updated(id_: int) -> Fragment:
        file = write_deletions(snapshot.store, id_, snapshot.version, left[id_])
        return replace(fragments[id_], deletion_file=file)

    # a disk syncs several files in about the time of one
    return tuple(at_once(updated, left)), tuple(removed)


def delete_in_fragment(
    store: Store, source: FragmentSource, rows: BitMap, before: BitMap
) -> Fragment | None:
    """Write a deletion file for one fragment, without a commit.

    rows: the offsets to delete.
    before: the offsets that are deleted already.

    Returns
    -------
    Fragment or None
        The fragment in its new state, ``None`` if no row is left.
    """
    fragment = source.fragment
    deleted: BitMap = rows | before
    if len(deleted) >= fragment.physical_rows:
        return None
    if len(deleted) == len(before):
        return fragment
    file = write_deletions(store, fragment.id, source.version, deleted)
    return replace(fragment, deletion_file=file)
