"""What the constraints of a table add to a commit."""

from __future__ import annotations

from collections.abc import Iterator

from lancekit.errors import LancekitError
from lancekit.legible import count, plural
from lancekit.operations.constraints.evaluate import condition_of
from lancekit.operations.constraints.stored import stored_constraints
from lancekit.operations.explain.stored_bytes import stored_bytes
from lancekit.scan.fragments.source import fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = ["constraint_notes"]


def constraint_notes(snapshot: Snapshot) -> Iterator[str]:
    """Yield what trying each constraint reads, or why one cannot be tried."""
    manifest = snapshot.manifest
    for name, constraint in stored_constraints(manifest.config).items():
        try:
            constraint.check_known()
            condition = condition_of(snapshot, constraint.condition)
        except LancekitError as error:
            yield f"constraint {name!r}: no commit of rows lands: {error.message.splitlines()[0]}"
            continue
        columns = ", ".join(sorted(condition.columns))
        if condition.of_rows:
            yield f"constraint {name!r}: of rows that are new or changed, {columns} is read again"
        elif not columns:
            yield f"constraint {name!r}: the manifest says how many rows there are"
        else:
            size = stored_bytes(fragment_sources(snapshot), manifest.schema, condition.columns)
            yield (
                f"constraint {name!r}: at each attempt to commit, {columns} is read of all rows; "
                f"now that is of {plural(manifest.num_rows, 'row')}, {count(size)} bytes"
            )
