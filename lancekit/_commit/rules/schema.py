"""Rules about changes of the schema."""

from __future__ import annotations

from collections.abc import Collection

from lancekit._commit.rules.effects import field_names, paths_by_id, row_changes, written_fields
from lancekit._commit.rules.verdict import COMPATIBLE, Context, Verdict, excluded, retry
from lancekit._format import operations as ops
from lancekit._format.schema import LanceSchema

__all__ = ["field_metadata_kept", "new_schema", "replaced_in_new_schema", "stricter_schema"]
__all__ += ["updated_in_new_schema"]


def made_anew(written: Collection[int], read: LanceSchema, now: LanceSchema) -> frozenset[int]:
    """Return the written fields that are gone while another one now has their name.

    That is what a cast does, and dropping a column and adding one of the same name.
    """
    still = {f.id for f in now.walk()}
    lost = [id_ for id_ in written if id_ >= 0 and id_ not in still]
    if not lost:  # nearly always: the names need not be looked at
        return frozenset()
    before, names = paths_by_id(read), frozenset(paths_by_id(now).values())
    return frozenset(id_ for id_ in lost if before.get(id_) in names)


def _stricter(theirs: ops.Merge | ops.Project) -> Verdict | None:
    if theirs.preserves_nullability:
        return None
    return retry("the schema was changed, and may refuse nulls that are written here")


def _anew(written: Collection[int], theirs: ops.Merge | ops.Project, context: Context) -> Verdict:
    fields = made_anew(written, context.read.schema, theirs.schema)
    if not fields:
        return COMPATIBLE
    named = ", ".join(field_names(context.read.schema, fields))
    return retry(
        f"{named} was cast or made anew, and the values written here would read as null",
        fields=tuple(sorted(fields)),
    )


def new_schema(mine: ops.Append, theirs: ops.Merge | ops.Project, context: Context) -> Verdict:
    """Lands if the new schema cannot refuse the rows, and can read every column of them.

    A column that was renamed or dropped does not matter.  One that was cast, or dropped and added
    again, has another id: the rows would silently read null.
    """
    return _stricter(theirs) or _anew(written_fields(mine.fragments), theirs, context)


def updated_in_new_schema(mine: ops.Update, theirs: ops.Project, context: Context) -> Verdict:
    """Lands as an append would, unless a column that it rewrote in place was dropped."""
    if verdict := _stricter(theirs):
        return verdict
    known = {f.id for f in theirs.schema.walk()}
    if dropped := set(mine.fields_modified) - known:
        named = ", ".join(field_names(context.read.schema, dropped))
        return retry(f"{named} was dropped", fields=tuple(sorted(dropped)))
    return _anew(written_fields(row_changes(mine).added), theirs, context)


def replaced_in_new_schema(
    mine: ops.DataReplacement, theirs: ops.Project, context: Context
) -> Verdict:
    """Lands if the new schema cannot refuse the values, and has every column replaced."""
    if verdict := _stricter(theirs):
        return verdict
    known = {f.id for f in theirs.schema.walk()}
    written = {id_ for group in mine.replacements for id_ in group.new_file.fields if id_ >= 0}
    if dropped := written - known:
        named = ", ".join(field_names(context.read.schema, dropped))
        return excluded(f"{named} was dropped", fields=tuple(sorted(dropped)))
    return COMPATIBLE


def stricter_schema(
    mine: ops.Project, _theirs: ops.Append | ops.Update | ops.DataReplacement, _context: Context
) -> Verdict:
    """Lands if the schema that I set cannot refuse the values that the other one wrote."""
    if mine.preserves_nullability:
        return COMPATIBLE
    return retry("values were written that the new schema may refuse")


def field_metadata_kept(
    _mine: ops.Merge | ops.Project, theirs: ops.UpdateConfig, context: Context
) -> Verdict:
    """Lands unless metadata of the schema or of a field changed: mine would take it back."""
    changes = theirs.normalised()
    fields = [id_ for id_, update in changes.field_metadata_updates.items() if update]
    if not fields and not changes.schema_metadata_updates:
        return COMPATIBLE
    named = ", ".join(field_names(context.read.schema, fields)) or "the schema"
    return retry(f"metadata of {named} was changed", fields=tuple(sorted(fields)))
