"""Replace whole columns of a version; add or update columns of one fragment without a commit.

A replacement commits a DataReplacement: rows do not move, and other columns are not written.  See
docs/format/operations.md, 6.7.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancekit._commit.rules.pending import Pending
from lancekit._format.column_names import RESERVED_NAMES
from lancekit._format.deletions import to_bitmap
from lancekit._format.field_marks import holds_blobs
from lancekit._format.fragment import Fragment
from lancekit._format.operation_parts import DataReplacementGroup
from lancekit._format.operations import DataReplacement
from lancekit._format.schema import LanceSchema
from lancekit._operations.add_columns import (
    Addition,
    NewColumns,
    check_join_keys,
    function_maker,
    function_results,
    is_stream,
    plan_addition,
    plan_join,
    with_checkpoint,
)
from lancekit._operations.alter_columns import columns_runner, columns_task, write_to_all
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.results import UpdateResult
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.common.staged_files import removed_unless_landed
from lancekit._operations.update import check_updates
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.column_patch import Assigned, Filled, superseded
from lancekit._pipeline.engine import EngineName, LocalRunner
from lancekit._pipeline.inputs import as_reader
from lancekit._pipeline.udf_checkpoint import ResultsKept
from lancekit._pipeline.write_columns import (
    Joined,
    Maker,
    Streamed,
    last_file,
    write_beside,
    write_columns,
)
from lancekit._scan.expressions.assignment import compile_assignment
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Columns of one version to replace, and the maker of their values."""

    stored: LanceSchema
    maker: Maker


def replace_columns(
    snapshot: Snapshot, new: NewColumns, policy: RetryPolicy
) -> tuple[Snapshot, UpdateResult]:
    """Replace the values of columns in all rows; their types and positions stay.

    snapshot: the version to change, which may not be the newest.
    new: the values.  A stream can be read only once, so a replacement from one is never retried.
    policy: how often to retry when other writers changed the same fragments.

    Raises ColumnNotFoundError: a column does not exist.
    Raises InvalidArgumentError: there are fewer or more values than rows.
    Raises PredicateError, SchemaMismatchError: the values do not fit the columns.
    """
    started = time.monotonic()
    if is_stream(new.transforms):
        policy = RetryPolicy(conflict_retries=0)

    new = with_checkpoint(snapshot, new)

    def attempt(current: Snapshot) -> tuple[Snapshot, Replacement, EngineName]:
        replacement = plan_replacement(current, new)
        runner = columns_runner(current, replacement.maker)
        with ResultsKept(replacement.maker, forget=False):
            written = write_to_all(current, replacement.stored, replacement.maker, runner)
        files = [(fragment.id, fragment.files[-1]) for fragment in written]
        operation = DataReplacement(
            replacements=tuple(DataReplacementGroup(id_, file) for id_, file in files)
        )
        with removed_unless_landed(current.store, map(last_file, written)):
            pending = Pending(operation=operation, doing="replace_columns")
            return commit(current, pending), replacement, runner.name

    (landed, replacement, engine), attempts = retried_writing(snapshot, attempt, policy)
    if new.checkpoint is not None:
        new.checkpoint.forget()
    return landed, UpdateResult(
        num_rows_updated=landed.manifest.num_rows,
        columns=tuple(replacement.stored.names),
        version=landed.version,
        branch=landed.branch,
        location=landed.location,
        attempts=attempts,
        duration=time.monotonic() - started,
        engine=engine,
    )


def plan_replacement(current: Snapshot, new: NewColumns) -> Replacement:
    """Plan a replacement: the columns to write, and how to compute their values."""
    given = new.transforms
    if isinstance(given, Mapping):
        return _assigned(current, check_updates(given))
    if is_stream(given):
        reader = as_reader(given, new.schema, current.row_schema)
        stored = _stored(current, reader.schema.names)
        plan = plan_cast(reader.schema, stored.to_arrow())
        streamed = Streamed(cast_all(plan, reader), stored.to_arrow())
        return Replacement(stored=stored, maker=streamed)
    return _made(current, new)


def _assigned(current: Snapshot, updates: Mapping[str, str]) -> Replacement:
    stored = _stored(current, updates)
    arrow = blob_view(current.manifest.schema).to_arrow()
    for field in stored.fields:
        if field.logical_type == "json":
            raise InvalidArgumentError(
                f"Column {field.name!r} has type JSON, which no SQL expression returns.",
                hint="Pass the new values as rows, or a function.",
                column=field.name,
            )
    assignments = tuple(
        compile_assignment(field.to_arrow(), updates[field.name], arrow) for field in stored.fields
    )
    return Replacement(stored=stored, maker=Assigned(assignments))


def _made(current: Snapshot, new: NewColumns) -> Replacement:
    columns, results = function_results(current, new)
    stored = _stored(current, results.names)
    arrow = stored.to_arrow()
    # results may have nulls at first: `Filled` checks for them and can name the column
    loose = pa.schema([field.with_nullable(True) for field in arrow])
    return Replacement(stored=stored, maker=Filled(function_maker(new, columns, loose), arrow))


def _stored(current: Snapshot, names: Iterable[str]) -> LanceSchema:
    """Return the dataset's top-level fields of some names, in the given order."""
    schema = current.manifest.schema
    fields = tuple(schema.field(name) for name in names)
    if not fields:
        raise InvalidArgumentError("No columns were given.", hint="Pass at least one column.")
    for field in fields:
        if any(holds_blobs(part.metadata) for part in field.walk()):
            raise InvalidArgumentError(
                f"Blob column {field.name!r} cannot be replaced as a whole.",
                hint="Use merge_insert() with the new rows.",
                column=field.name,
            )
    return LanceSchema(fields)


# ---- changes of one fragment, for a commit by the user


def add_to_fragment(
    snapshot: Snapshot, source: FragmentSource, new: NewColumns
) -> tuple[Fragment, LanceSchema]:
    """Write new columns for a fragment; return the fragment, and the schema to commit it with."""
    return _run(snapshot, source, plan_addition(snapshot, with_checkpoint(snapshot, new)))


def join_to_fragment(
    snapshot: Snapshot, source: FragmentSource, table: pa.Table, left_on: str, right_on: str
) -> tuple[Fragment, LanceSchema]:
    """Write another table's columns for a fragment, joined by a key."""
    return _run(snapshot, source, plan_join(snapshot, table, left_on, right_on))


def _run(
    snapshot: Snapshot, source: FragmentSource, addition: Addition
) -> tuple[Fragment, LanceSchema]:
    if addition.maker is None:
        return source.fragment, addition.schema
    task = columns_task(snapshot, source, addition.stored, addition.maker)
    finish = addition.maker.finish if isinstance(addition.maker, Streamed) else None
    with ResultsKept(addition.maker, forget=False):  # nothing has landed
        (written,) = write_beside([task], LocalRunner(), finish)
    return written, addition.schema


def update_in_fragment(
    snapshot: Snapshot, source: FragmentSource, table: pa.Table, left_on: str, right_on: str
) -> tuple[Fragment, list[int], BitMap]:
    """Rewrite columns of a fragment with values of another table, joined by a key.

    Rows without a match keep their values.

    Returns
    -------
    tuple
        The fragment, the columns' field ids, and the offsets of the rows with a match.  The new
        file in the fragment replaces older files for these columns.
    """
    schema = snapshot.manifest.schema
    check_join_keys(schema, table.schema, left_on, right_on)
    names = [name for name in table.column_names if name != right_on]
    if not names:
        raise InvalidArgumentError(
            "The rows have only key columns.", hint="Pass the columns to update."
        )
    for name in names:
        if name in RESERVED_NAMES:
            raise InvalidArgumentError(
                f"{name} is a metadata column and cannot be updated.",
                hint="Leave it out of the rows.",
                column=name,
            )
    fields = tuple(schema.field(name) for name in names)
    target = pa.schema([field.to_arrow() for field in fields])
    given = table.select(names)
    values = pa.Table.from_batches(
        cast_all(plan_cast(given.schema, target), given.to_batches()), target
    )
    keyed = values.append_column("\0key", table.column(right_on))
    maker = Joined.by(keyed, left_on, "\0key", old=names)
    stored = LanceSchema(fields)
    # old values are rewritten, so blobs are read as their bytes, not as descriptors
    written = write_columns(columns_task(snapshot, source, stored, maker, view=schema))
    ids = [f.id for f in stored.walk()]
    return superseded(written, frozenset(ids)), ids, _matched(source, maker)


def _matched(source: FragmentSource, maker: Joined) -> BitMap:
    reader = FragmentReader(source)
    rows = np.arange(reader.physical_rows) if reader.live is None else reader.live
    found = maker.find(reader.read([maker.key], rows))
    return to_bitmap(rows[found >= 0])
