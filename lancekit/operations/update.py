"""Update: new values for columns of the rows that a predicate selects.

See docs/format/operations.md, 6.1.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from lancekit.commit.protocol import check_writable
from lancekit.commit.rules.pending import Pending
from lancekit.defaults import MAX_ROWS_PER_FILE
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.format.field_marks import holds_blobs
from lancekit.format.schema import LanceField, LanceSchema
from lancekit.format.transaction import Update
from lancekit.legible import shown
from lancekit.machine import processors
from lancekit.operations.cleanup.auto import commit
from lancekit.operations.common.results import UpdateResult
from lancekit.operations.common.retry import RetryPolicy, retried
from lancekit.operations.common.staged_files import removed_unless_landed, write_task
from lancekit.operations.delete import apply_deletions
from lancekit.pipeline.engine.engine import Runner, choose_runner
from lancekit.pipeline.join_files import join_small_files
from lancekit.pipeline.rows.update import UpdateTask, rows_to_look_at, update_rows
from lancekit.scan.expressions.assignment import Assignment, compile_assignment
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragments.blobs import blob_view
from lancekit.scan.fragments.source import FragmentSource, fragment_sources
from lancekit.scan.indexed.choice import row_choice
from lancekit.scan.indexed.found import ChosenRows
from lancekit.scan.indexed_rows import IndexedRows, divided
from lancekit.versions.snapshot import Snapshot

__all__ = ["check_updates", "check_where", "update_columns"]


def check_updates(updates: Any) -> dict[str, str]:
    """Return columns and SQL expressions as they were passed.

    Raises
    ------
    InvalidTypeError
        Not a dictionary of strings.
    InvalidArgumentError
        It is empty.
    """
    if not isinstance(updates, Mapping) or not all(
        isinstance(part, str) for pair in updates.items() for part in pair
    ):
        raise InvalidTypeError(
            f"The updates are {shown(updates)}.",
            hint="Pass columns and SQL expressions, such as {'price': 'price * 2'}; "
            "a constant text has quotes of its own: {'name': \"'new'\"}.",
        )
    if not updates:
        raise InvalidArgumentError("No updates were given.", hint="Name a column to change.")
    return dict(updates)


def check_where(where: Any) -> Any:
    """Return a condition; ``InvalidTypeError`` if it is neither text nor an expression."""
    if where is not None and not isinstance(where, str) and type(where).__name__ != "Expression":
        raise InvalidTypeError(
            f"The condition of an update is {shown(where)}.",
            hint='Pass SQL text such as "x > 3", or a pyarrow expression.',
        )
    return where


def update_columns(
    snapshot: Snapshot,
    updates: Mapping[str, str],
    where: Any,
    policy: RetryPolicy,
    storage_version: str | None = None,
) -> tuple[Snapshot, UpdateResult]:
    """Change rows; none that the condition selects still makes a version, as in the reference.

    Parameters
    ----------
    snapshot
        The version to change; others may have landed since.
    updates
        An SQL expression for each column.  All see the row as it was, so two columns can be
        swapped.
    where
        SQL text, a pyarrow expression, or ``None`` for all rows.
    policy
        How often to do it again when the same rows were changed by others.
    storage_version
        The format of the new files, that of the dataset by default.

    Raises
    ------
    PredicateError
        An expression or the condition does not fit the schema, or a value does not fit its column.
    """
    started = time.monotonic()

    def attempt(current: Snapshot) -> tuple[Snapshot, int, Runner]:
        check_writable(current)
        schema = current.manifest.schema
        predicate = None if where is None else Predicate.parse(where, blob_view(schema).to_arrow())
        assignments = tuple(_assignments(schema, updates))
        sources, chosen = _looked_at(current, predicate)
        runner = choose_runner(
            sum(rows_to_look_at(source, chosen) for source in sources), current.store
        )
        task = write_task(current, storage_version)
        tasks = [
            UpdateTask(
                sources=group,
                predicate=predicate,
                assignments=assignments,
                write=task,
                chosen={id_: chosen[id_] for s in group if (id_ := s.fragment.id) in chosen},
            )
            for group in _groups(sources, chosen, runner)
        ]
        done = runner.map(update_rows, tasks)
        marked = [found for part in done for found in part.marked]
        written = (fragment for part in done for fragment in part.new_fragments)
        new = tuple(join_small_files(task, written))
        with removed_unless_landed(current.store, new):
            updated, removed = apply_deletions(current, marked)
            operation = Update(
                removed_fragment_ids=removed,
                updated_fragments=updated,
                new_fragments=new,
                fields_for_preserving_frag_bitmap=_ids(schema, updates),
            )
            pending = Pending(
                operation=operation,
                uuid=str(uuid.uuid4()),
                affected_rows={found.fragment_id: found.rows for found in marked},
            )
            return commit(current, pending), sum(len(found.rows) for found in marked), runner

    (landed, rows, runner), attempts = retried(snapshot, attempt, policy)
    return landed, UpdateResult(
        num_rows_updated=rows,
        columns=tuple(updates),
        version=landed.version,
        branch=landed.branch,
        line=landed.line,
        attempts=attempts,
        duration=time.monotonic() - started,
        engine=runner.name,
    )


def _assignments(schema: LanceSchema, updates: Mapping[str, str]) -> list[Assignment]:
    arrow = schema.to_arrow()
    found = []
    for name, sql in updates.items():
        field = schema.field(name)
        _check_assignable(field)
        found.append(compile_assignment(field.to_arrow(), sql, arrow))
    return found


def _check_assignable(field: LanceField) -> None:
    if holds_blobs(field.metadata) or field.logical_type == "json":
        kind = "blobs" if holds_blobs(field.metadata) else "JSON"
        raise InvalidArgumentError(
            f"Column {field.name!r} holds {kind}, which no SQL expression gives.",
            hint="Use merge_insert() with the new rows.",
            column=field.name,
        )


def _ids(schema: LanceSchema, names: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(field.id for name in names for field in schema.field(name).walk())


def _looked_at(
    current: Snapshot, predicate: Predicate | None
) -> tuple[list[FragmentSource], dict[int, ChosenRows]]:
    """Return the fragments that may have rows to change, and those rows where indices know them."""
    choice = row_choice(current, predicate)
    sources: list[FragmentSource] = []
    chosen: dict[int, ChosenRows] = {}
    for part in divided(fragment_sources(current), choice):
        if isinstance(part, IndexedRows):
            chosen |= {s.fragment.id: c for s, c in zip(part.sources, part.chosen, strict=True)}
        sources += part.sources if isinstance(part, IndexedRows) else part
    return sources, chosen


def _groups(
    sources: Sequence[FragmentSource], chosen: Mapping[int, ChosenRows], runner: Runner
) -> list[tuple[FragmentSource, ...]]:
    """Divide fragments among tasks: each writes a file at least, so not into many."""
    rows = sum(rows_to_look_at(source, chosen) for source in sources)
    most = processors() if runner.name == "local" else len(sources)
    number = max(min(most, rows // MAX_ROWS_PER_FILE), 1)
    groups: list[list[FragmentSource]] = [[] for _ in range(number)]
    seen = 0
    for source in sources:
        groups[min(seen * number // max(rows, 1), number - 1)].append(source)
        seen += rows_to_look_at(source, chosen)
    return [tuple(group) for group in groups if group]
