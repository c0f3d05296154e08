"""Rules about rows, fragments and their files."""

from __future__ import annotations

from lancekit._commit.rules.effects import (
    changed_fields,
    field_names,
    fragment_ids,
    is_in_place,
    row_changes,
)
from lancekit._commit.rules.verdict import (
    COMPATIBLE,
    Context,
    Verdict,
    excluded,
    named_fragments,
    rebased,
    retry,
)
from lancekit._format import operations as ops

__all__ = ["compatible", "incompatible", "replaced_rows", "retryable", "same_columns"]
__all__ += ["same_fragments", "same_rows"]


def compatible(_mine: ops.Operation, _theirs: ops.Operation, _context: Context) -> Verdict:
    """Lands unchanged."""
    return COMPATIBLE


def retryable(_mine: ops.Operation, _theirs: ops.Operation, _context: Context) -> Verdict:
    """Has to be done again on the newest version: the other change decides what it has to do."""
    return retry("the other change decides what this one has to do")


def incompatible(_mine: ops.Operation, theirs: ops.Operation, context: Context) -> Verdict:
    """Can never land; the evidence says what theirs replaced."""
    if isinstance(theirs, ops.Project):
        fields = changed_fields(context.read.schema, theirs.schema)
        named = ", ".join(field_names(context.read.schema, fields)) or "no column of that version"
        return excluded(
            f"columns were dropped, renamed or changed: {named}", fields=tuple(sorted(fields))
        )
    what = {
        ops.Overwrite: "all rows and the schema were replaced",
        ops.Restore: "an older version was restored",
        ops.UpdateMemWalState: "the state of the write-ahead log was changed",
    }
    return excluded(what.get(type(theirs), "the two changes exclude each other"))


def same_rows(
    mine: ops.Delete | ops.Update, theirs: ops.Delete | ops.Update, context: Context
) -> Verdict:
    """Lands if no row was changed by both; the deletions of one fragment are merged.

    Has to be done again if the writer did not say which rows it changed, if a fragment of mine
    was removed, or if columns of it were rewritten.
    """
    my_ids, changes = row_changes(mine).ids, row_changes(theirs)
    both = my_ids & changes.ids
    if not both:
        return COMPATIBLE
    if context.mine.affected_rows is None:
        return retry(
            f"both changed {named_fragments(both)}, and it is not known which rows this one did",
            fragments=tuple(sorted(both)),
        )
    if gone := both & changes.removed:
        return retry(f"{named_fragments(gone)} was removed", fragments=tuple(sorted(gone)))
    rewritten = set()
    for id_ in both:
        before = context.read.fragments.get(id_)
        if before is not None and before.files != changes.updated[id_].files:
            rewritten.add(id_)
    if rewritten:
        return retry(
            f"columns of {named_fragments(rewritten)} were rewritten",
            fragments=tuple(sorted(rewritten)),
        )
    # whether single rows overlap shows when the deletions are merged
    return rebased(
        f"the deletions of {named_fragments(both)} are merged", fragments=tuple(sorted(both))
    )


def same_fragments(
    mine: ops.Delete | ops.Update | ops.Rewrite | ops.DataReplacement,
    theirs: ops.Delete | ops.Update | ops.Rewrite | ops.DataReplacement,
    _context: Context,
) -> Verdict:
    """Lands if no fragment was changed by both."""
    both = fragment_ids(mine) & fragment_ids(theirs)
    if not both:
        return COMPATIBLE
    return retry(f"both changed {named_fragments(both)}", fragments=tuple(sorted(both)))


def replaced_rows(
    mine: ops.DataReplacement, theirs: ops.Delete | ops.Update, context: Context
) -> Verdict:
    """Lands if the fragments are still there, with all their rows and the same columns.

    Rows marked as deleted do not matter.  A row that was moved would keep its old value.
    """
    changes = row_changes(theirs)
    targets = mine.fragment_ids
    if gone := targets & changes.removed:
        return excluded(f"{named_fragments(gone)} was removed", fragments=tuple(sorted(gone)))
    both = targets & changes.updated.keys()
    if not both or isinstance(theirs, ops.Delete):
        return COMPATIBLE
    if changes.added and not is_in_place(theirs):
        return retry(
            f"rows of {named_fragments(both)} were moved to new fragments",
            fragments=tuple(sorted(both)),
        )
    fields = {
        id_
        for group in mine.replacements
        if group.fragment_id in both
        for id_ in group.new_file.fields
    } & set(theirs.fields_modified)
    if not fields:
        return COMPATIBLE
    named = ", ".join(field_names(context.read.schema, fields))
    return retry(
        f"{named} of {named_fragments(both)} was rewritten",
        fragments=tuple(sorted(both)),
        fields=tuple(sorted(fields)),
    )


def same_columns(
    mine: ops.DataReplacement, theirs: ops.DataReplacement, context: Context
) -> Verdict:
    """Lands unless both replaced the same column of the same fragment."""
    taken: dict[int, set[int]] = {}
    for group in theirs.replacements:
        taken.setdefault(group.fragment_id, set()).update(group.new_file.fields)
    for group in mine.replacements:
        fields = {f for f in group.new_file.fields if f >= 0} & taken.get(group.fragment_id, set())
        if fields:
            named = ", ".join(field_names(context.read.schema, fields))
            return retry(
                f"both replaced {named} of fragment {group.fragment_id}",
                fragments=(group.fragment_id,),
                fields=tuple(sorted(fields)),
            )
    return COMPATIBLE
