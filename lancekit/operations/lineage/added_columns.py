"""Columns that the other side added: nulls at first, in a commit of their own."""

from __future__ import annotations

import uuid

import pyarrow as pa

from lancekit.commit.rules.pending import Pending
from lancekit.format.operations import Merge
from lancekit.operations.cleanup.auto import commit
from lancekit.operations.columns.add import NewColumns, plan_addition
from lancekit.operations.lineage.three_way import ThreeWay
from lancekit.versions.snapshot import Snapshot

__all__ = ["add_their_columns"]


def add_their_columns(plan: ThreeWay, properties: dict[str, str], doing: str) -> Snapshot:
    """Commit the columns that ours lacks, as nulls; their values come with the rows.

    Who finds them there, for the work has to be done again, has nothing to add.
    """
    schema, ours = plan.theirs.manifest.schema, plan.ours
    fields = pa.schema([schema.field(name).to_arrow() for name in plan.added])
    addition = plan_addition(ours, NewColumns(transforms=fields))
    operation = Merge(
        fragments=tuple(ours.manifest.fragments),
        schema=addition.schema,
        preserves_nullability=True,
    )
    return commit(
        ours,
        Pending(operation=operation, uuid=str(uuid.uuid4()), properties=properties, doing=doing),
    )
