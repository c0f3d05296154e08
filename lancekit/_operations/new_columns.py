"""New columns of incoming rows: an append or a merge adds them in the same commit.

The rows are written for the version with these columns at its end, which existing files lack.  The
commit is a `Merge`, the only operation that brings rows and a schema.  It must be the next version,
because it lists all fragments.  See docs/format/operations.md, 6.2.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import cast

import pyarrow as pa
from pyarrow import types as pt

from lancekit._commit.manifest.draft import numbered
from lancekit._commit.manifest.row_ids import updated_at
from lancekit._commit.rules.pending import Pending
from lancekit._format.fragment import Fragment
from lancekit._format.operations import Append, Merge, Update
from lancekit._operations.add_columns import null_columns
from lancekit._operations.cleanup.auto import commit_next
from lancekit._operations.unmerged.audit import check_new_values
from lancekit._versions.row_sequences import sequence_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import SchemaMismatchError


def widened(current: Snapshot, rows: pa.Schema) -> Snapshot:
    """Return a version with the columns of rows that it lacks, also those within structs.

    Raises SchemaMismatchError: a new name differs from an existing one only in case.
    Raises InvalidArgumentError: the table has shards, whose writers use the old columns.
    """
    known = current.manifest.schema.to_arrow()
    new = _lacking(list(known), list(rows))
    if not new:
        return current
    check_new_values(current, new[0].name)
    schema = null_columns(current, pa.schema(new)).schema
    return replace(current, manifest=replace(current.manifest, schema=schema))


def _lacking(known: list[pa.Field], rows: list[pa.Field]) -> list[pa.Field]:
    by_name = {field.name: field for field in known}
    folded = {field.name.casefold(): field.name for field in known}
    found = []
    for field in rows:
        old = by_name.get(field.name)
        if old is None:
            if (like := folded.get(field.name.casefold())) is not None:
                raise SchemaMismatchError(
                    f"Column {field.name!r} of the rows differs from {like!r} only in case.",
                    hint=f"Rename it to {like!r}.",
                    column=field.name,
                )
            found.append(field.with_nullable(True))  # existing rows have no value
        elif pt.is_struct(old.type) and pt.is_struct(field.type):
            below = _lacking(list(old.type), list(field.type))
            if below:
                found.append(pa.field(field.name, pa.struct(below)))
    return found


def commit_widened(current: Snapshot, wide: Snapshot, pending: Pending) -> Snapshot:
    """Commit rows, and the columns of the widened version, as the version after ``current``.

    pending: the commit of an `Append` or `Update`, whose operation is replaced.

    Raises RetryableConflictError: another writer landed first.
    """
    done, manifest, changed = pending.operation, current.manifest, dict[int, Fragment]()
    if isinstance(done, Update):
        changed = {fragment.id: fragment for fragment in done.updated_fragments}
        for id_, offsets in done.changed_offsets.items():
            versions = partial(sequence_of, current)
            changed[id_] = updated_at(changed[id_], offsets, current.version + 1, versions)
        new, removed = done.new_fragments, done.removed_fragment_ids
    else:
        new, removed = cast("Append", done).fragments, ()
    kept = manifest.fragments.edit(updated=changed, removed=removed)
    operation = Merge(
        fragments=(*kept, *numbered(manifest, new)),
        schema=wide.manifest.schema,
        preserves_nullability=True,
    )
    pending = replace(pending, operation=operation, affected_rows=None, moves_rows=True)
    return commit_next(current, pending, "columns were added to it", hint="Run the call again.")
