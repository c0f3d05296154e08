"""Rows with the version that last changed each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit._api.scanner import scan_of
from lancekit._arguments.scan import ScanArguments
from lancekit._format.transaction import TransactionSummary
from lancekit._operations.lineage.trace import last_changes
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = ["blame_of"]

#: what is told of the version that last changed a row
_FIELDS = (
    pa.field("_changed_in", pa.uint64()),
    pa.field("_changed_branch", pa.string()),
    pa.field("_changed_at", pa.timestamp("us", "UTC")),
    pa.field("_changed_by", pa.string()),
    pa.field("_changed_message", pa.string()),
    pa.field("_changed_from", pa.string()),
)


def _origin(commit: TransactionSummary) -> str | None:
    return str(commit.provenance) if commit.provenance else None


def blame_of(
    snapshot: Snapshot, condition: str | pc.Expression | None, columns: Sequence[str] | None
) -> pa.Table:
    """Return rows with the version that last changed each; see `LanceDataset.blame`."""
    schema = snapshot.manifest.schema
    names = [field.name for field in schema.fields] if columns is None else [*columns]
    for name in names:
        schema.field(name)
    taken = {field.name for field in _FIELDS}.intersection(names)
    if taken:
        raise InvalidArgumentError(
            f"The column {min(taken)!r} has the name of what is told of rows.",
            hint="Name other columns in `columns`.",
            column=min(taken),
        )
    asked = ScanArguments(columns=names, filter=condition, with_row_address=True)
    rows = scan_of(snapshot, asked).to_table()
    addresses = rows["_rowaddr"].to_numpy().astype(np.uint64)
    found = last_changes(snapshot, addresses, columns)
    said = {number: at.transaction_summary for number, at in found.by_number.items()}
    facts: tuple[dict[int, object], ...] = (
        {number: number for number in said},
        {number: at.line.name for number, at in found.by_number.items()},
        {number: at.manifest.timestamp for number, at in found.by_number.items()},
        {number: commit and commit.operation for number, commit in said.items()},
        {number: commit and commit.message for number, commit in said.items()},
        {number: commit and _origin(commit) for number, commit in said.items()},
    )
    table = rows.select(names)
    for field, values in zip(_FIELDS, facts, strict=True):
        table = table.append_column(field, found.column(values, field.type))
    return table
