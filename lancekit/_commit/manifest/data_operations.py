"""The next version after an operation on rows: one function for each operation.

See docs/format/operations.md, 2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from lancekit._commit.manifest.draft import (
    Built,
    Draft,
    advanced,
    check_files,
    check_known,
    numbered,
    with_bases,
    without_dead,
    without_unread,
)
from lancekit._commit.manifest.indices import (
    extended,
    live_fields,
    moved,
    pruned,
    retained,
    rewritten_fields,
    swapped,
)
from lancekit._commit.manifest.row_ids import (
    RowCounter,
    all_updated,
    is_complete,
    moved_or_new,
    updated_at,
)
from lancekit._format import operations as ops
from lancekit._format.fragment import TOMBSTONE, DataFile, Fragment, FragmentList
from lancekit._format.index import FRAGMENT_REUSE
from lancekit._format.manifest import Manifest
from lancekit._format.operation_parts import RewriteGroup, UpdateMode
from lancekit._format.schema import LanceSchema
from lancekit.errors import InvalidArgumentError


def append(draft: Draft, operation: ops.Append) -> Built:
    """Add fragments, which no index covers."""
    manifest = draft.manifest
    draft.check_files(operation.fragments)
    new, next_row_id = draft.new_rows(operation.fragments)
    return draft.built(fragments=manifest.fragments.edit(added=new), next_row_id=next_row_id)


def overwrite(draft: Draft, operation: ops.Overwrite) -> Built:
    """Replace all fragments and the schema; keep config, metadata and counters."""
    manifest, creates = draft.manifest, draft.version == 1
    if any(f.deletion_file for f in operation.fragments):
        raise InvalidArgumentError("The fragments of an overwrite cannot have deletion files.")
    if operation.initial_bases and not creates:
        raise InvalidArgumentError(
            "Base paths can only be given to a new dataset.", hint="Add them with add_bases()."
        )
    given = next((file.storage_version for f in operation.fragments for file in f.files), None)
    version = draft.storage_version or given or manifest.storage_version
    check_files(operation.fragments, version)
    # ids continue after the highest ever used, because readers of old versions cache by id
    new, next_row_id = draft.new_rows([replace(f, id=0) for f in operation.fragments])
    return draft.built(
        schema=operation.new_schema,
        fragments=FragmentList.of(new),
        next_row_id=next_row_id,
        storage_version=version,
        config={**manifest.config, **operation.config_upsert_values},
        base_paths=with_bases(manifest.base_paths, operation.initial_bases),
        indices=(),
    )


def delete(draft: Draft, operation: ops.Delete) -> Built:
    """Replace changed fragments, and remove emptied ones."""
    manifest = draft.manifest
    check_known(manifest.fragments, operation.updated_fragments)
    fragments = manifest.fragments.edit(
        updated={f.id: f for f in operation.updated_fragments},
        removed=operation.deleted_fragment_ids,
    )
    indices = retained(draft.indices, manifest.schema, fragments)
    return draft.built(fragments=fragments, indices=indices)


def update(draft: Draft, operation: ops.Update) -> Built:
    """Move rows to new fragments, or change columns in place."""
    manifest, schema = draft.manifest, draft.manifest.schema
    check_known(manifest.fragments, operation.updated_fragments)
    draft.check_files(operation.new_fragments)
    origins = {f.id for f in operation.updated_fragments}.union(operation.removed_fragment_ids)
    new = numbered(manifest, operation.new_fragments)
    pure = [f.id for f in new if is_complete(f)]
    live = {field.id for field in schema.walk()}
    updated = {f.id: without_dead(f, live) for f in operation.updated_fragments}
    counter = RowCounter(max(manifest.next_row_id, draft.next_row_id or 0))
    if manifest.has_stable_row_ids and draft.next_row_id is None:
        old = manifest.fragments
        new = moved_or_new(new, counter, draft.version, old, origins, draft.sequences)
        for id_, rows in operation.changed_offsets.items():
            if id_ in updated:
                updated[id_] = updated_at(updated[id_], rows, draft.version, draft.sequences)
    fragments = manifest.fragments.edit(
        updated=updated, removed=operation.removed_fragment_ids, added=new
    )
    changed = dict.fromkeys(updated, operation.fields_modified)
    indices = pruned(draft.indices, schema, fragments, changed)
    if manifest.has_stable_row_ids and operation.update_mode is UpdateMode.REWRITE_ROWS:
        indices = extended(
            indices,
            schema,
            rewritten=operation.fields_for_preserving_frag_bitmap,
            origins=origins,
            new=pure,
        )
    indices = retained(indices, schema, fragments)
    return draft.built(
        fragments=fragments,
        next_row_id=counter.next_row_id,
        indices=advanced(indices, operation.compacted_sstables, draft.version),
    )


# ---- compaction


def rewrite(draft: Draft, operation: ops.Rewrite) -> Built:
    """Replace fragments by other fragments with the same rows."""
    manifest = draft.manifest
    groups: list[tuple[RewriteGroup, list[int]]] = []
    added: list[Fragment] = []
    free = manifest
    for group in operation.all_groups:
        check_known(manifest.fragments, group.old_fragments)
        draft.check_files(group.new_fragments)
        _check_rows(manifest.fragments, group, stable=manifest.has_stable_row_ids)
        new = numbered(free, group.new_fragments)
        free = replace(free, max_fragment_id=max((free.max_fragment_id or 0, *(f.id for f in new))))
        groups.append((group, [f.id for f in new]))
        added += new
    fragments = manifest.fragments.edit(removed=operation.all_old_ids, added=added)
    indices = swapped(draft.indices, groups, operation.rewritten_indices)
    if manifest.has_stable_row_ids:
        indices = moved(indices, groups, operation.rewritten_indices)
    if draft.reuse is not None:
        indices = (*(index for index in indices if index.name != FRAGMENT_REUSE), draft.reuse)
    return draft.built(
        fragments=fragments, indices=indices, storage_version=_version_after(manifest, fragments)
    )


def _version_after(manifest: Manifest, fragments: FragmentList) -> str:
    """Return the format of a table after its older files are rewritten.

    If the schema has blobs that the table's format cannot hold, the reference refuses to rewrite
    rows until the table has the format of the files.
    """
    new = manifest.new_file_version
    if new == manifest.storage_version:
        return new
    files = (file for fragment in fragments for file in fragment.files)
    return new if all(file.storage_version == new for file in files) else manifest.storage_version


def _check_rows(fragments: FragmentList, group: RewriteGroup, *, stable: bool) -> None:
    old = [found for f in group.old_fragments if (found := fragments.get(f.id)) is not None]
    before, after = (sum(f.num_rows for f in part) for part in (old, group.new_fragments))
    if before != after:
        raise InvalidArgumentError(
            f"A rewrite must keep the number of rows: fragments {[f.id for f in old]} have "
            f"{before}, the new fragments have {after}.",
            hint="A rewrite can only move rows. Compute it again on the newest version.",
        )
    if stable and not all(map(is_complete, group.new_fragments)):
        raise InvalidArgumentError(
            "The new fragments of a rewrite lack row ids.",
            hint="In a table with stable row ids, rows keep their ids when they are moved.",
        )


# ---- columns


def merge(draft: Draft, operation: ops.Merge) -> Built:
    """Replace the fragments and the schema: columns were added or rewritten.

    A merge that moves rows (`Draft.moves_rows`) can also delete rows, omit fragments, and bring
    rows with their previous row ids.
    """
    manifest = draft.manifest
    known = manifest.fragments
    existing, new = _split(draft, operation)
    lost = sorted(set(known.ids.tolist()).difference(existing))
    if lost and not draft.moves_rows:
        raise InvalidArgumentError(
            f"A merge must list all {len(known)} fragments, got {len(operation.fragments)} "
            f"without fragment {lost[0]}.",
            hint="List every fragment of the newest version.",
            fragments=lost,
        )
    draft.check_files(new)
    cast = _cast_fields(manifest.schema, operation.schema)
    live = {f.id for f in operation.schema.walk()}
    changed: dict[int, set[int]] = {}
    updated: dict[int, Fragment] = {}
    for old in known:
        fragment = existing.get(old.id, old)
        if fragment == old:
            continue
        _check_rows_stay(old, fragment, may_delete=draft.moves_rows)
        changed[old.id] = rewritten_fields(old, fragment)
        modified = changed[old.id] or live_fields(fragment).keys() & cast - live_fields(old).keys()
        fragment = without_dead(fragment, live)
        marked = draft.moves_rows and fragment.last_updated_at != old.last_updated_at
        if manifest.has_stable_row_ids and modified and draft.next_row_id is None and not marked:
            fragment = all_updated(fragment, draft.version)
        updated[old.id] = fragment
    added, next_row_id = _moved_rows(draft, new, lost, updated)
    fragments = known.edit(updated=updated, removed=lost, added=added)
    if not live.issuperset(f.id for f in manifest.schema.walk()):
        fragments = fragments.edit(updated=without_unread(fragments, live))
    indices = pruned(draft.indices, operation.schema, fragments, changed)
    return draft.built(
        schema=operation.schema,
        fragments=fragments,
        next_row_id=next_row_id,
        indices=retained(indices, operation.schema, fragments),
    )


def _split(draft: Draft, operation: ops.Merge) -> tuple[dict[int, Fragment], list[Fragment]]:
    """Split the fragments of a merge into existing ones, by id, and new ones."""
    ids = set(draft.manifest.fragments.ids.tolist())
    existing: dict[int, Fragment] = {}
    new: list[Fragment] = []
    for fragment in operation.fragments:
        if fragment.id in ids and fragment.id not in existing:
            existing[fragment.id] = fragment
        elif fragment.id in existing and fragment.id != 0:
            raise InvalidArgumentError(f"A merge lists fragment {fragment.id} twice.")
        else:
            new.append(fragment)
    return existing, new


def _check_rows_stay(old: Fragment, new: Fragment, *, may_delete: bool) -> None:
    if new.physical_rows == old.physical_rows and (may_delete or new.num_rows == old.num_rows):
        return
    raise InvalidArgumentError(
        f"A merge changes the number of rows of fragment {old.id} from {old.num_rows} to "
        f"{new.num_rows}.",
        hint="Compute the change again, on the newest version.",
        fragment=old.id,
    )


def _moved_rows(
    draft: Draft, new: Sequence[Fragment], lost: Sequence[int], updated: Collection[int]
) -> tuple[tuple[Fragment, ...], int]:
    """Return the new fragments of a merge with ids for all rows, and the next free row id."""
    manifest = draft.manifest
    if not draft.moves_rows or not manifest.has_stable_row_ids:
        return draft.new_rows(new)
    added = numbered(manifest, new)
    if draft.next_row_id is not None:
        return added, max(manifest.next_row_id, draft.next_row_id)
    counter = RowCounter(manifest.next_row_id)
    old, origins = manifest.fragments, [*lost, *updated]
    moved = moved_or_new(added, counter, draft.version, old, origins, draft.sequences)
    return moved, counter.next_row_id


def _cast_fields(old: LanceSchema, new: LanceSchema) -> set[int]:
    """Return the ids of top-level columns that had another id before, and of their children."""
    before = {f.name: f.id for f in old.fields}
    cast = [f for f in new.fields if before.get(f.name, f.id) != f.id]
    return {part.id for top in cast for part in top.walk()}


def data_replacement(draft: Draft, operation: ops.DataReplacement) -> Built:
    """Replace data files; the caller has checked that they have the fragments' number of rows."""
    manifest = draft.manifest
    if len({group.new_file.fields for group in operation.replacements}) > 1:
        raise InvalidArgumentError(
            "The files of a data replacement store different fields.",
            hint="Replace one set of columns at a time.",
        )
    named = (Fragment(id=id_, files=(), physical_rows=0) for id_ in operation.fragment_ids)
    check_known(manifest.fragments, named)
    live = {field.id for field in manifest.schema.walk()}
    updated: dict[int, Fragment] = {}
    for group in operation.replacements:
        fragment = updated.get(group.fragment_id) or manifest.fragments.get(group.fragment_id)
        if fragment is None:
            continue
        swapped = replace(fragment, files=_swapped(fragment, group.new_file))
        replaced = without_dead(swapped, live)
        draft.check_files([replaced])
        if manifest.has_stable_row_ids:
            replaced = all_updated(replaced, draft.version)
        updated[fragment.id] = replaced
    changed = {group.fragment_id: group.new_file.fields for group in operation.replacements}
    fragments = manifest.fragments.edit(updated=updated)
    indices = pruned(draft.indices, manifest.schema, fragments, changed)
    return draft.built(fragments=fragments, indices=indices)


def _swapped(fragment: Fragment, new: DataFile) -> tuple[DataFile, ...]:
    """Return a fragment's files with a new one, which replaces a file or single fields of files."""
    for place, file in enumerate(fragment.files):
        if file.fields == new.fields and file.version == new.version:
            return (*fragment.files[:place], new, *fragment.files[place + 1 :])
    replaced = frozenset(new.fields)
    buried = (
        replace(file, fields=tuple(TOMBSTONE if id_ in replaced else id_ for id_ in file.fields))
        for file in fragment.files
    )
    return (*buried, new)
