"""Update: new values for some columns of the rows that a predicate selects.

See docs/format/operations.md, 6.1.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lancekit._commit.rules.pending import Pending
from lancekit._defaults import MAX_ROWS_PER_FILE
from lancekit._format.field_marks import holds_blobs
from lancekit._format.operations import Update
from lancekit._format.schema import LanceSchema
from lancekit._format.transaction import row_counts
from lancekit._legible import shown
from lancekit._machine import processors
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.results import UpdateResult
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.common.staged_files import removed_unless_landed, write_task
from lancekit._operations.delete import apply_deletions
from lancekit._pipeline.engine import Choice, Runner, choose_engine, runner_of
from lancekit._pipeline.join_files import join_small_files
from lancekit._pipeline.key_counter import check_new_keys
from lancekit._pipeline.update_rows import UpdateTask, update_rows
from lancekit._scan.expressions.assignment import Assignment, compile_assignment
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.expressions.texts import as_sql, value_sql
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.read import Read, reading
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError


def check_updates(updates: object) -> dict[str, str]:
    """Return a user's updates, SQL expressions by column, after a check of their types.

    Raises InvalidTypeError: the updates are not a dictionary of column names and values.
    Raises InvalidArgumentError: the dictionary is empty.
    """
    if not isinstance(updates, Mapping) or not all(isinstance(name, str) for name in updates):
        text = updates if isinstance(updates, str) else "price"
        name, value = map(str.strip, (*text.split("=", 1), "0")[:2])
        raise InvalidTypeError(
            f"updates must be a dict of columns and new values, got {shown(updates)}.",
            hint=f"For example ds.update({{{name!r}: {value!r}}}): SQL text, lk.col('x') * 2, or a "
            "constant. Without where=, it changes every row. A text constant has its own quotes, "
            "or is lk.lit('new'). For rows, use "
            "ds.merge_insert(...).when_matched_update_all().execute(rows).",
        )
    if not updates:
        raise InvalidArgumentError("No updates were given.", hint="Pass at least one column.")
    return {name: value_sql(value, name) for name, value in updates.items()}


def check_where(where: object) -> object:
    """Return a condition; raise ``InvalidTypeError`` if it is neither text nor an expression."""
    if where is not None and not isinstance(where, str) and type(where).__name__ != "Expression":
        raise InvalidTypeError(
            f"The condition must be SQL text or an expression, got {shown(where)}.",
            hint="For example \"x > 3\" or lk.col('x') > 3.",
        )
    return as_sql(where)


@dataclass(frozen=True)
class UpdatePlan:
    """Plan of an update of a version, to run or to explain.

    snapshot: the version to change.
    predicate: selects the rows, ``None`` for all.
    assignments: compute the new values from the old rows.
    read: the fragments and rows to filter.
    """

    snapshot: Snapshot
    predicate: Predicate | None
    assignments: tuple[Assignment, ...]
    read: Read

    @property
    def choice(self) -> Choice:
        """The engine that runs the update, and the reason."""
        return choose_engine(self.read.num_rows)

    def run(self, storage_version: str | None = None) -> tuple[Snapshot, int, Runner]:
        """Write the rows and commit; return the version, the row count, the runner."""
        snapshot = self.snapshot
        runner = runner_of(self.choice, snapshot.store)
        write = write_task(snapshot, storage_version)
        tasks = [
            UpdateTask(
                read=self.read.only(group),
                predicate=self.predicate,
                assignments=self.assignments,
                write=write,
            )
            for group in _groups(self.read, runner)
        ]
        done = runner.map(update_rows, tasks)
        marked = [found for part in done for found in part.marked]
        rows = sum(len(found.rows) for found in marked)
        written = (fragment for part in done for fragment in part.new_fragments)
        new = tuple(join_small_files(write, written))
        schema = snapshot.manifest.schema
        changed = [schema.field(one.field.name) for one in self.assignments]
        ids = tuple(part.id for field in changed for part in field.walk())
        with removed_unless_landed(snapshot.store, new):
            if any(field.id in ids for field in schema.primary_key):
                check_new_keys(write, new, "warn")
            updated, removed = apply_deletions(snapshot, marked)
            pending = Pending(
                operation=Update(
                    removed_fragment_ids=removed,
                    updated_fragments=updated,
                    new_fragments=new,
                    fields_for_preserving_frag_bitmap=ids,
                ),
                affected_rows={found.fragment_id: found.rows for found in marked},
                properties=row_counts(0, rows, 0),
            )
            return commit(snapshot, pending), rows, runner


def plan_update(snapshot: Snapshot, updates: Mapping[str, str], where: Any) -> UpdatePlan:
    """Plan an update; only the manifest is read.

    Raises PredicateError: an expression or the condition does not fit the schema.
    """
    schema = snapshot.manifest.schema
    predicate = None if where is None else Predicate.parse(where, blob_view(schema).to_arrow())
    assignments = tuple(_assignments(schema, updates))
    return UpdatePlan(snapshot, predicate, assignments, reading(snapshot, predicate))


def update_columns(
    snapshot: Snapshot,
    updates: Mapping[str, str],
    where: object,
    policy: RetryPolicy,
    storage_version: str | None = None,
) -> tuple[Snapshot, UpdateResult]:
    """Update rows; a condition that selects no row still makes a version, as in the reference.

    snapshot: the version to change, which may not be the newest.
    updates: an SQL expression for each column.  All expressions read the old row, so two columns
        can be swapped.
    where: SQL text, a pyarrow expression, or ``None`` for all rows.
    policy: how often to retry when other writers changed the same rows.
    storage_version: the format of the new files, by default the dataset's.

    Raises PredicateError: an expression or the condition does not fit the schema, or a value does
        not fit its column.
    """
    started = time.monotonic()
    (landed, rows, runner), attempts = retried_writing(
        snapshot, lambda at: plan_update(at, updates, where).run(storage_version), policy
    )
    return landed, UpdateResult(
        num_rows_updated=rows,
        columns=tuple(updates),
        version=landed.version,
        branch=landed.branch,
        location=landed.location,
        attempts=attempts,
        duration=time.monotonic() - started,
        engine=runner.name,
    )


def _assignments(schema: LanceSchema, updates: Mapping[str, str]) -> list[Assignment]:
    arrow = schema.to_arrow()
    found = []
    for name, sql in updates.items():
        field = schema.field(name)
        if holds_blobs(field.metadata) or field.logical_type == "json":
            kind = "blobs" if holds_blobs(field.metadata) else "JSON"
            raise InvalidArgumentError(
                f"Column {field.name!r} has type {kind}, which no SQL expression returns.",
                hint="Use merge_insert() with the new rows.",
                column=field.name,
            )
        found.append(compile_assignment(field.to_arrow(), sql, arrow))
    return found


def _groups(read: Read, runner: Runner) -> list[tuple[FragmentSource, ...]]:
    """Divide fragments among tasks; few, because each task writes at least one file."""
    most = processors() if runner.name == "local" else len(read.fragments)
    number = max(min(most, read.num_rows // MAX_ROWS_PER_FILE), 1)
    groups: list[list[FragmentSource]] = [[] for _ in range(number)]
    seen = 0
    for source in read.fragments:
        groups[min(seen * number // max(read.num_rows, 1), number - 1)].append(source)
        seen += read.rows_in(source)
    return [tuple(group) for group in groups if group]
