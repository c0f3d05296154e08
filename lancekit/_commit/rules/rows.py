"""Rules about rows, fragments and their files, generations of shards, and inserted keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import pyarrow as pa

from lancekit._commit.rules.effects import changed_fields, fragment_ids, is_in_place, row_changes
from lancekit._commit.rules.verdict import (
    COMPATIBLE,
    Context,
    Verdict,
    excluded,
    listed,
    named_fragments,
    rebased,
    retry,
)
from lancekit._format import operations as ops
from lancekit._format.key_filter import KeyFilter, is_empty, shared_keys
from lancekit._format.manifest import Manifest
from lancekit._format.mem_wal.details import merged_generations
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._format.operation_parts import CompactedSsTable


def compatible(_mine: ops.Operation, _theirs: ops.Operation, _context: Context) -> Verdict:
    """Lands unchanged."""
    return COMPATIBLE


def retryable(_mine: ops.Operation, _theirs: ops.Operation, _context: Context) -> Verdict:
    """Must be done again on the newest version, because it depends on the other change."""
    return retry("this change depends on the result of the other change")


def incompatible(_mine: ops.Operation, theirs: ops.Operation, context: Context) -> Verdict:
    """Can never land; the evidence names the columns or state that the other change replaced."""
    if isinstance(theirs, ops.Project):
        fields = changed_fields(context.read.schema, theirs.schema)
        named = context.named(fields) or "no column of that version"
        return excluded(f"columns were dropped, renamed or changed: {named}", fields=fields)
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

    Must be done again if the rows that it changed are unknown, or if the other change removed one
    of its fragments or rewrote columns of one.
    """
    my_ids, changes = row_changes(mine).ids, row_changes(theirs)
    both = my_ids & changes.ids
    if not both:
        return COMPATIBLE
    if context.mine.affected_rows is None:
        return retry(
            f"both changed {named_fragments(both)}, and the rows of this change are unknown",
            fragments=both,
        )
    if gone := both & changes.removed:
        return retry(f"{named_fragments(gone)} was removed", fragments=gone)
    rewritten = set()
    for id_ in both:
        before = context.read.fragments.get(id_)
        if before is not None and before.files != changes.updated[id_].files:
            rewritten.add(id_)
    if rewritten:
        return retry(f"columns of {named_fragments(rewritten)} were rewritten", fragments=rewritten)
    # overlaps of single rows are detected when the deletions are merged
    return rebased(f"the deletions of {named_fragments(both)} are merged", fragments=both)


def same_fragments(
    mine: ops.Delete | ops.Update | ops.Rewrite | ops.DataReplacement,
    theirs: ops.Delete | ops.Update | ops.Rewrite | ops.DataReplacement,
    _context: Context,
) -> Verdict:
    """Lands if no fragment was changed by both."""
    both = fragment_ids(mine) & fragment_ids(theirs)
    if not both:
        return COMPATIBLE
    return retry(f"both changed {named_fragments(both)}", fragments=both)


def replaced_rows(
    mine: ops.DataReplacement, theirs: ops.Delete | ops.Update, context: Context
) -> Verdict:
    """Lands if the fragments still exist, with all their rows and the same columns.

    Rows marked as deleted do not matter.  A row that was moved would keep its old value.
    """
    changes = row_changes(theirs)
    targets = mine.fragment_ids
    if gone := targets & changes.removed:
        return excluded(f"{named_fragments(gone)} was removed", fragments=gone)
    both = targets & changes.updated.keys()
    if not both or isinstance(theirs, ops.Delete):
        return COMPATIBLE
    if changes.added and not is_in_place(theirs):
        return retry(f"rows of {named_fragments(both)} were moved to new fragments", fragments=both)
    fields = {
        id_
        for group in mine.replacements
        if group.fragment_id in both
        for id_ in group.new_file.fields
    } & set(theirs.fields_modified)
    if not fields:
        return COMPATIBLE
    what = f"{context.named(fields)} of {named_fragments(both)}"
    return retry(f"{what} was rewritten", fragments=both, fields=fields)


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
            what = f"{context.named(fields)} of fragment {group.fragment_id}"
            return retry(f"both replaced {what}", fragments=(group.fragment_id,), fields=fields)
    return COMPATIBLE


# ---- rules about shards: the generations of each shard are merged once, in order


def _by_shard(merged: Iterable[CompactedSsTable]) -> dict[UUID, int]:
    found: dict[UUID, int] = {}
    for one in merged:
        found[one.shard_id] = max(one.generation, found.get(one.shard_id, 0))
    return found


def _compared(mine: Mapping[UUID, int], theirs: Mapping[UUID, int]) -> Verdict:
    both = sorted(mine.keys() & theirs.keys(), key=str)
    if not both:
        return COMPATIBLE
    stale = [shard for shard in both if theirs[shard] >= mine[shard]]
    facts = tuple((str(shard), theirs[shard]) for shard in stale or both)
    named = listed(f"shard {shard} up to generation {number}" for shard, number in facts)
    if stale:
        return excluded(f"{named} is merged already", generations=facts)
    return retry(f"{named} was merged", generations=facts)


def generations(
    mine: ops.Update | ops.UpdateMemWalState,
    theirs: ops.Update | ops.UpdateMemWalState | ops.CreateIndex,
    _context: Context,
) -> Verdict:
    """Lands unless both merged generations of the same shard.

    If the other change merged the same generation or a later one, mine can never land.  If it
    merged an earlier one, mine must be done again.
    """
    ours = _by_shard(mine.compacted_sstables)
    if isinstance(theirs, ops.CreateIndex):
        details = [index.index_details for index in theirs.new_indices if index.name == MEM_WAL]
        return _compared(ours, merged_generations(details[0]) if details else {})
    return _compared(ours, _by_shard(theirs.compacted_sstables))


def index_over_generations(
    mine: ops.CreateIndex, theirs: ops.UpdateMemWalState, _context: Context
) -> Verdict:
    """Lands if it makes the log's own index, which then records the newest generations."""
    if all(index.name != MEM_WAL for index in mine.new_indices):
        return excluded("the state of the write-ahead log was changed")
    merged = _by_shard(theirs.compacted_sstables)
    return rebased(
        "the newest generation of each shard is kept",
        indices=(MEM_WAL,),
        generations=tuple((str(shard), number) for shard, number in merged.items()),
    )


# ---- rules about inserted keys: two merges must not insert the same key


def new_keys_append(mine: ops.Update, _theirs: ops.Append, context: Context) -> Verdict:
    """Lands unless the merge inserted keys, because an append does not record its keys."""
    ours = _inserted_keys(mine, context)
    if ours is None:
        return COMPATIBLE
    return retry("rows were appended that may have the inserted keys", fields=ours.field_ids)


def new_keys_update(mine: ops.Update, theirs: ops.Update, context: Context) -> Verdict:
    """Lands if the keys inserted by both are distinct, and no row was changed by both.

    An update that does not record its inserted keys may have inserted any key, if it wrote rows.
    Of two that merge generations of one shard, the second must be done again, or is done already.
    """
    for verdict in (_distinct_keys(mine, theirs, context), generations(mine, theirs, context)):
        if not verdict.lands:
            return verdict
    return same_rows(mine, theirs, context)


def new_keys_replacement(
    mine: ops.Update, theirs: ops.DataReplacement, context: Context
) -> Verdict:
    """Lands if no fragment was changed by both, and no column of its inserted keys was replaced."""
    ours = _inserted_keys(mine, context)
    written = {id_ for group in theirs.replacements for id_ in group.new_file.fields}
    if ours is not None and (both := written.intersection(ours.field_ids)):
        return retry(f"values of the key {context.named(both)} were replaced", fields=both)
    return same_fragments(mine, theirs, context)


def _distinct_keys(mine: ops.Update, theirs: ops.Update, context: Context) -> Verdict:
    ours, others = _inserted_keys(mine, context), theirs.inserted_rows
    if ours is None:
        return COMPATIBLE
    if others is None:
        if row_changes(theirs).added or not set(theirs.fields_modified).isdisjoint(ours.field_ids):
            return retry("an update was committed without its inserted keys", fields=ours.field_ids)
        return COMPATIBLE  # it wrote no rows and no keys
    found = shared_keys(ours, others, _key_types(ours, context.read))
    if not found.possible:
        return COMPATIBLE
    key = context.named(ours.field_ids)
    return retry(
        f"both inserted {len(found.hashes)} of the same keys of {key}"
        if found.certain
        else f"both may have inserted the same keys of {key} ({found.why})",
        fields=ours.field_ids,
        keys=tuple(found.hashes[:5].tolist()),
        keys_certain=found.certain,
    )


def _inserted_keys(mine: ops.Update, context: Context) -> KeyFilter | None:
    """Return the filter of the keys that an update inserted; ``None`` if it inserted none."""
    keys = mine.inserted_rows
    return None if keys is None or is_empty(keys, _key_types(keys, context.read)) else keys


def _key_types(keys: KeyFilter, manifest: Manifest) -> list[pa.DataType]:
    by_id = {f.id: f for f in manifest.schema.walk()}
    return [by_id[id_].to_arrow().type for id_ in keys.field_ids if id_ in by_id]
