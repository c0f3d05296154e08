"""Merge-inserts that update columns where the rows are: what can be, and the transaction of it."""

from __future__ import annotations

from collections.abc import Sequence

from lancekit.errors import InvalidArgumentError
from lancekit.format.field_marks import holds_blobs
from lancekit.format.key_filter import KeyFilter
from lancekit.format.operations import UpdateMode
from lancekit.format.schema import LanceSchema
from lancekit.format.transaction import Update
from lancekit.pipeline.merge.plan import MergeClauses, MergeWork
from lancekit.pipeline.merge.rewrite_columns import rewritten_columns
from lancekit.versions.snapshot import Snapshot

__all__ = ["check_rewrite", "rewrite_operation"]


def check_rewrite(schema: LanceSchema, clauses: MergeClauses, source: Sequence[str]) -> None:
    """Raise ``InvalidArgumentError`` if a merge cannot be done by writing columns anew.

    Parameters
    ----------
    schema
        The dataset's.
    clauses
        What to do.
    source
        The columns that the source brings.
    """
    columns = rewritten_columns(source, clauses.on)
    blobs = [
        name
        for name in columns
        if any(holds_blobs(part.metadata) for part in schema.field(name).walk())
    ]
    reasons = {
        "new rows are to be inserted": clauses.insert,
        "rows that the source lacks are to be deleted": clauses.delete_by_source,
        "matched rows are not to be updated": clauses.matched != "update",
        "the source has all columns of the dataset": set(source) >= set(schema.names),
        "the source has no column besides the key": not columns,
        f"the source has a column of blobs, {', '.join(blobs)}": bool(blobs),
    }
    for reason, holds in reasons.items():
        if holds:
            raise InvalidArgumentError(
                f"write_mode='rewrite_columns' cannot do this merge: {reason}.",
                hint="Use write_mode('auto'); columns are rewritten for merges that only update "
                "matched rows, of sources with some of the dataset's columns.",
                write_mode="rewrite_columns",
            )


def rewrite_operation(current: Snapshot, work: MergeWork, guard: KeyFilter | None) -> Update:
    """Return the operation that puts patched fragments in the place of the old ones."""
    schema = current.manifest.schema
    held = {id_ for part in work.patched for id_ in part.fragment.files[-1].fields}
    tops = [f for f in schema.fields if held.intersection(part.id for part in f.walk())]
    stable = current.manifest.has_stable_row_ids
    return Update(
        updated_fragments=tuple(part.fragment for part in work.patched),
        # a file does not list the structs that its fields are parts of
        fields_modified=tuple(field.id for top in tops for field in top.walk()),
        update_mode=UpdateMode.REWRITE_COLUMNS,
        updated_fragment_offsets=(
            {part.fragment.id: bytes(part.rows.serialize()) for part in work.patched}
            if stable
            else {}
        ),
        inserted_rows=guard,
    )
