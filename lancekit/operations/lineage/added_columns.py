"""Columns that the other side added: nulls at first, in a commit of their own."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pyarrow as pa

from lancekit.commit.rules.pending import Pending
from lancekit.format.operations import Merge
from lancekit.format.schema import LanceSchema
from lancekit.format.storage_version import check_written
from lancekit.operations.cleanup.auto import commit
from lancekit.operations.lineage.three_way import ThreeWay
from lancekit.pipeline.casts.plan import normalise_new_schema
from lancekit.versions.snapshot import Snapshot

__all__ = ["add_their_columns"]


def add_their_columns(plan: ThreeWay, properties: dict[str, str], doing: str) -> Snapshot:
    """Commit the columns that ours lacks, as nulls; their values come with the rows.

    Who finds them there, for the work has to be done again, has nothing to add.
    """
    schema, ours = plan.theirs.manifest.schema, plan.ours
    # a column of nulls has no file, which the oldest releases could not read
    check_written(ours.manifest.storage_version)
    fields = pa.schema([schema.field(name).to_arrow() for name in plan.added])
    # an id that a dropped column had would make the new one look like that
    sides = (plan.base, plan.theirs, ours)
    free = 1 + max(side.manifest.max_field_id() for side in sides)
    new = LanceSchema.from_arrow(normalise_new_schema(fields), free)
    own = ours.manifest.schema
    operation = Merge(
        fragments=tuple(ours.manifest.fragments),
        schema=replace(own, fields=own.fields + new.fields),
        preserves_nullability=True,
    )
    return commit(
        ours,
        Pending(operation=operation, uuid=str(uuid.uuid4()), properties=properties, doing=doing),
    )
