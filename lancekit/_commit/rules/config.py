"""Rules about config, metadata and base paths, and about changes of the schema."""

from __future__ import annotations

from collections.abc import Collection

from lancekit._commit.rules.effects import (
    MapWrites,
    config_writes,
    map_writes,
    row_changes,
    written_fields,
)
from lancekit._commit.rules.verdict import COMPATIBLE, Context, Verdict, excluded, listed, retry
from lancekit._format import operations as ops
from lancekit._format.manifest import BasePath
from lancekit._format.paths import paths_by_id
from lancekit._format.schema import LanceSchema


def _both(mine: MapWrites, theirs: MapWrites) -> frozenset[str] | None:
    """Return the keys on which two changes of a map exclude each other, ``None`` without conflict.

    Removing a key twice is no conflict.  A replacement changes every key, so it excludes any other
    change; then the result has the keys of both sides.
    """
    if mine and theirs and (mine.replaced or theirs.replaced):
        return mine.touched | theirs.touched
    return (mine.upserted & theirs.touched | mine.touched & theirs.upserted) or None


def _same_config(
    mine: ops.Overwrite | ops.UpdateConfig, theirs: ops.Overwrite | ops.UpdateConfig
) -> Verdict:
    both = _both(config_writes(mine), config_writes(theirs))
    if both is None:
        return COMPATIBLE
    keys = tuple(sorted(both))
    named = listed(map(repr, keys)) or "all keys"
    return excluded(f"both changed config {named}", config_keys=keys)


def config_keys(mine: ops.Overwrite, theirs: ops.UpdateConfig, _context: Context) -> Verdict:
    """Lands unless both changed the same config key; replacing the config changes every key."""
    return _same_config(mine, theirs)


def overwrite_twice(mine: ops.Overwrite, theirs: ops.Overwrite, _context: Context) -> Verdict:
    """Must be done again, because the later overwrite must be based on the earlier one.

    If both set the same config key, they exclude each other.
    """
    verdict = _same_config(mine, theirs)
    return retry("the dataset was overwritten") if verdict.lands else verdict


def metadata_gone(mine: ops.UpdateConfig, theirs: ops.Overwrite, _context: Context) -> Verdict:
    """Lands unless it changes metadata of the old schema or its fields, or the same config key."""
    changes = mine.normalised()
    if changes.schema_metadata_updates or changes.field_metadata_updates:
        return excluded("the schema of the metadata was replaced")
    return _same_config(mine, theirs)


def config_and_metadata(
    mine: ops.UpdateConfig, theirs: ops.UpdateConfig, context: Context
) -> Verdict:
    """Lands unless both changed the same key of the config or of the table's metadata.

    Two changes of the schema's metadata, or of one field's, exclude each other whatever the keys.
    Replacing a map changes all its keys.
    """
    verdict = _same_config(mine, theirs)
    if not verdict.lands:
        return verdict
    ours, others = mine.normalised(), theirs.normalised()
    tables = map_writes(ours.table_metadata_updates), map_writes(others.table_metadata_updates)
    both = _both(*tables)
    if both is None:
        both = (tables[0].touched & tables[1].touched) or None
    if both is not None:
        keys = tuple(sorted(both))
        return excluded(f"both changed table metadata {listed(map(repr, keys))}", config_keys=keys)
    if ours.schema_metadata_updates and others.schema_metadata_updates:
        return excluded("both changed the schema's metadata")
    if fields := ours.field_metadata_updates.keys() & others.field_metadata_updates.keys():
        return excluded(f"both changed metadata of {context.named(fields)}", fields=fields)
    return COMPATIBLE


def metadata_in_new_schema(
    mine: ops.UpdateConfig, theirs: ops.Merge | ops.Project, context: Context
) -> Verdict:
    """Lands unless it changes metadata that the new schema may have changed or dropped.

    After columns were added or cast, every such change must be done again.  After columns were
    dropped or renamed, a change of a dropped field's metadata can never land.
    """
    changes = mine.normalised()
    fields = set(changes.field_metadata_updates)
    if isinstance(theirs, ops.Merge):
        if not fields and not changes.schema_metadata_updates:
            return COMPATIBLE
        return retry("the schema of the metadata was changed")
    if dropped := fields - {f.id for f in theirs.schema.walk()}:
        return excluded(f"{context.named(dropped)} was dropped", fields=dropped)
    return COMPATIBLE


def metadata_restored(
    mine: ops.Restore | ops.UpdateConfig, theirs: ops.UpdateConfig | ops.Restore, _context: Context
) -> Verdict:
    """Lands unless metadata of the schema or of a field changed, which one side would undo."""
    update = mine if isinstance(mine, ops.UpdateConfig) else theirs
    assert isinstance(update, ops.UpdateConfig)  # noqa: S101  # one of the two is
    if not update.touches_metadata:
        return COMPATIBLE
    return excluded("a restore and a change of schema or field metadata exclude each other")


def same_bases(mine: ops.UpdateBases, theirs: ops.UpdateBases, _context: Context) -> Verdict:
    """Lands unless both added a base path with the same id, name or path."""
    taken = {key for base in theirs.new_bases for key in _base_keys(base)}
    both = sorted({base.path for base in mine.new_bases if _base_keys(base) & taken})
    if not both:
        return COMPATIBLE
    return excluded(f"both added base path {listed(both)}", bases=tuple(both))


def _base_keys(base: BasePath) -> set[tuple[str, object]]:
    # an id of 0 is not assigned yet
    keys = {("id", base.id or None), ("name", base.name), ("path", base.path)}
    return {key for key in keys if key[1] is not None}


# ---- rules about changes of the schema


def recast_fields(written: Collection[int], read: LanceSchema, now: LanceSchema) -> frozenset[int]:
    """Return the written fields whose path now belongs to a field with another id.

    A cast gives a column another id, and so does dropping it and adding one of the same name.
    """
    still = {f.id for f in now.walk()}
    lost = [id_ for id_ in written if id_ >= 0 and id_ not in still]
    if not lost:  # the usual case, which needs no names
        return frozenset()
    before, names = paths_by_id(read), frozenset(paths_by_id(now).values())
    return frozenset(id_ for id_ in lost if before.get(id_) in names)


def _stricter(theirs: ops.Merge | ops.Project) -> Verdict | None:
    if theirs.preserves_nullability:
        return None
    return retry("the schema was changed, and may reject nulls in the new rows")


def _recast(written: Collection[int], theirs: ops.Merge | ops.Project, context: Context) -> Verdict:
    fields = recast_fields(written, context.read.schema, theirs.schema)
    if not fields:
        return COMPATIBLE
    what = f"{context.named(fields)} was cast or recreated"
    return retry(f"{what}, and the new values would read as null", fields=fields)


def new_schema(mine: ops.Append, theirs: ops.Merge | ops.Project, context: Context) -> Verdict:
    """Lands if the new schema accepts the rows, and can read all their columns.

    A renamed or dropped column does not matter.  A column that was cast, or dropped and added
    again, has another id: the rows would silently be null.
    """
    return _stricter(theirs) or _recast(written_fields(mine.fragments), theirs, context)


def updated_in_new_schema(mine: ops.Update, theirs: ops.Project, context: Context) -> Verdict:
    """Lands like an append, unless a column that it rewrote in place was dropped."""
    if verdict := _stricter(theirs):
        return verdict
    if dropped := set(mine.fields_modified) - {f.id for f in theirs.schema.walk()}:
        return retry(f"{context.named(dropped)} was dropped", fields=dropped)
    return _recast(written_fields(row_changes(mine).added), theirs, context)


def replaced_in_new_schema(
    mine: ops.DataReplacement, theirs: ops.Project, context: Context
) -> Verdict:
    """Lands if the new schema accepts the values, and has every replaced column."""
    if verdict := _stricter(theirs):
        return verdict
    written = {id_ for group in mine.replacements for id_ in group.new_file.fields if id_ >= 0}
    if dropped := written - {f.id for f in theirs.schema.walk()}:
        return excluded(f"{context.named(dropped)} was dropped", fields=dropped)
    return COMPATIBLE


def stricter_schema(
    mine: ops.Project, _theirs: ops.Append | ops.Update | ops.DataReplacement, _context: Context
) -> Verdict:
    """Lands if the new schema accepts the values that the other change wrote."""
    if mine.preserves_nullability:
        return COMPATIBLE
    return retry("new rows may have values that the new schema rejects")


def field_metadata_kept(
    _mine: ops.Merge | ops.Project, theirs: ops.UpdateConfig, context: Context
) -> Verdict:
    """Lands unless metadata of the schema or of a field changed, which mine would undo."""
    changes = theirs.normalised()
    fields = {id_ for id_, update in changes.field_metadata_updates.items() if update}
    if not fields and not changes.schema_metadata_updates:
        return COMPATIBLE
    return retry(f"metadata of {context.named(fields) or 'the schema'} was changed", fields=fields)
