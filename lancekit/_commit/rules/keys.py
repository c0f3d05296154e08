"""Rules about inserted keys: two merges must not insert the same one."""

from __future__ import annotations

import pyarrow as pa

from lancekit._commit.rules.effects import field_names, row_changes
from lancekit._commit.rules.mem_wal import generations
from lancekit._commit.rules.rows import same_fragments, same_rows
from lancekit._commit.rules.verdict import COMPATIBLE, Context, Verdict, retry
from lancekit._format import operations as ops
from lancekit._format.key_filter import KeyFilter, is_empty, shared_keys
from lancekit._format.manifest import Manifest

__all__ = ["new_keys_append", "new_keys_replacement", "new_keys_update"]


def new_keys_append(mine: ops.Update, _theirs: ops.Append, context: Context) -> Verdict:
    """Lands unless the merge inserted keys: an append does not say which keys it added."""
    ours = mine.inserted_rows
    if ours is None or is_empty(ours, _key_types(ours, context.read)):
        return COMPATIBLE
    return retry("rows were appended that may have the inserted keys", fields=ours.field_ids)


def new_keys_update(mine: ops.Update, theirs: ops.Update, context: Context) -> Verdict:
    """Lands if the keys inserted by both are distinct, and no row was changed by both.

    An update that does not say which keys it inserted may have inserted any, if it wrote rows.
    Of two that merge generations of one shard the second has to be done again, or is done already.
    """
    for verdict in (_distinct_keys(mine, theirs, context), generations(mine, theirs, context)):
        if not verdict.lands:
            return verdict
    return same_rows(mine, theirs, context)


def new_keys_replacement(
    mine: ops.Update, theirs: ops.DataReplacement, context: Context
) -> Verdict:
    """Lands if no fragment was changed by both, and no key was replaced while it inserted some."""
    ours = mine.inserted_rows
    if ours is None or is_empty(ours, _key_types(ours, context.read)):
        return same_fragments(mine, theirs, context)
    written = {id_ for group in theirs.replacements for id_ in group.new_file.fields}
    if both := written.intersection(ours.field_ids):
        named = ", ".join(field_names(context.read.schema, both))
        return retry(f"values of the key {named} were replaced", fields=tuple(sorted(both)))
    return same_fragments(mine, theirs, context)


def _distinct_keys(mine: ops.Update, theirs: ops.Update, context: Context) -> Verdict:
    ours, others = mine.inserted_rows, theirs.inserted_rows
    if ours is None or is_empty(ours, _key_types(ours, context.read)):
        return COMPATIBLE
    if others is None:
        if row_changes(theirs).added or not set(theirs.fields_modified).isdisjoint(ours.field_ids):
            return retry(
                "an update landed that does not say which keys it inserted", fields=ours.field_ids
            )
        return COMPATIBLE  # it wrote no row and no key
    found = shared_keys(ours, others, _key_types(ours, context.read))
    if not found.possible:
        return COMPATIBLE
    key = ", ".join(field_names(context.read.schema, ours.field_ids))
    number = len(found.hashes)
    return retry(
        f"both inserted {number} of the same keys of {key}"
        if found.certain
        else f"both may have inserted the same keys of {key} ({found.why})",
        fields=ours.field_ids,
        keys=tuple(found.hashes[:5].tolist()),
        keys_certain=found.certain,
    )


def _key_types(keys: KeyFilter, manifest: Manifest) -> list[pa.DataType]:
    by_id = {f.id: f for f in manifest.schema.walk()}
    return [by_id[id_].to_arrow().type for id_ in keys.field_ids if id_ in by_id]
