"""Versions that were cleaned up before a stale change could look at them.

Nobody can tell what they did to rows, so that a change of rows has to be worked out again.  A
change of settings reads nothing: what it needs to know of such versions is whether what it sets
was set by them, and that the manifests before and after them tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lancekit._commit.rules.effects import changed_fields, field_names
from lancekit._commit.rules.pending import Pending
from lancekit._commit.rules.table import judge
from lancekit._commit.rules.verdict import COMPATIBLE, Context, Verdict, retry
from lancekit._format import operations as ops
from lancekit._format.manifest import Manifest
from lancekit._format.operation_parts import UpdateMap
from lancekit._format.transaction import Transaction

__all__ = ["judge_gap", "passes_gaps"]


def passes_gaps(mine: Pending) -> bool:
    """Whether a change can be put on top of versions that nobody can read any more."""
    return isinstance(mine.operation, ops.UpdateConfig | ops.UpdateBases)


def judge_gap(mine: Pending, read: Manifest, now: Manifest) -> Verdict:
    """Return how a change of settings meets what became of the version that it read.

    A value that was changed and changed back is no conflict: it is what the writer saw.
    """
    context = Context(mine, read)
    for seen in _differences(read, now):
        verdict = judge(mine, Transaction(read_version=0, uuid="", operation=seen), context)
        if not verdict.lands:
            return verdict
    return _same_fields(mine, read, now)


def _same_fields(mine: Pending, read: Manifest, now: Manifest) -> Verdict:
    """Refuse to change metadata of a field that may be another one: an overwrite reuses ids."""
    if not isinstance(mine.operation, ops.UpdateConfig):
        return COMPATIBLE
    named = mine.operation.normalised().field_metadata_updates.keys()
    other = named & changed_fields(read.schema, now.schema)
    if not other:
        return COMPATIBLE
    listed = ", ".join(field_names(read.schema, other))
    return retry(f"{listed} was changed", fields=tuple(sorted(other)))


def _differences(read: Manifest, now: Manifest) -> Iterable[ops.Operation]:
    """Yield what would make the settings of one manifest those of another."""
    fields = {field.id: field.metadata for field in now.schema.walk()}
    yield ops.Project(schema=now.schema)
    yield ops.UpdateConfig(
        config_updates=_changes(read.config, now.config),
        table_metadata_updates=_changes(read.table_metadata, now.table_metadata),
        schema_metadata_updates=_changes(read.schema.metadata, now.schema.metadata),
        field_metadata_updates={
            field.id: changes
            for field in read.schema.walk()
            if field.id in fields
            if (changes := _changes(field.metadata, fields[field.id])) is not None
        },
    )
    known = {base.id for base in read.base_paths}
    yield ops.UpdateBases(tuple(base for base in now.base_paths if base.id not in known))


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> UpdateMap | None:
    changed = {key: new.get(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    return UpdateMap(changed) if changed else None
