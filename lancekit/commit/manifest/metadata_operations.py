"""The next version after an operation that leaves rows alone: one function per operation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lancekit.commit.manifest.clone import deep_clone, shallow_clone
from lancekit.commit.manifest.draft import Built, Draft, with_bases, without_unread
from lancekit.commit.manifest.indices import retained
from lancekit.commit.manifest.mem_wal import advanced
from lancekit.commit.manifest.storage_metadata import check_marks
from lancekit.errors import InvalidArgumentError
from lancekit.format import operations as ops
from lancekit.format.fragment import Fragment
from lancekit.format.schema import LanceField, LanceSchema, with_field_metadata
from lancekit.versions.merge_edges import undone_keys

__all__ = [
    "clone",
    "create_index",
    "project",
    "reserve_fragments",
    "restore",
    "update_bases",
    "update_config",
    "update_mem_wal_state",
]


def restore(draft: Draft, operation: ops.Restore) -> Built:
    """Take an old version as it was, indices and config included."""
    if draft.restored is None:
        raise InvalidArgumentError(f"Version {operation.version} to restore was not given.")
    latest, (old, indices) = draft.manifest, draft.restored
    if old.has_stable_row_ids != latest.has_stable_row_ids:
        raise InvalidArgumentError(
            f"Version {operation.version} and the newest one differ in whether row ids are stable.",
            hint="Write the rows of the old version to a new dataset.",
            version=operation.version,
        )
    config = old.config
    if old.has_stable_row_ids and not old.schema.primary_key:
        # rows that a merge brings a second time get other row ids
        config = {**config, **undone_keys(latest.config, config)}
    # a rewound counter would give out the same row ids twice
    next_row_id = max(latest.next_row_id, old.next_row_id)
    return Built(replace(old, config=config, next_row_id=next_row_id), indices)


def create_index(draft: Draft, operation: ops.CreateIndex) -> Built:
    """Add and remove index segments."""
    gone = {index.uuid for index in (*operation.removed_indices, *operation.new_indices)}
    kept = tuple(index for index in draft.indices if index.uuid not in gone)
    return draft.built(indices=(*kept, *operation.new_indices))


def reserve_fragments(draft: Draft, operation: ops.ReserveFragments) -> Built:
    """Give out fragment ids; nothing else changes."""
    highest = draft.manifest.max_fragment_id or 0
    return draft.built(max_fragment_id=highest + operation.num_fragments)


def update_mem_wal_state(draft: Draft, operation: ops.UpdateMemWalState) -> Built:
    """Record the progress of shards."""
    indices = advanced(draft.indices, operation.compacted_sstables, draft.version)
    return draft.built(indices=indices)


def update_bases(draft: Draft, operation: ops.UpdateBases) -> Built:
    """Add base paths."""
    return draft.built(base_paths=with_bases(draft.manifest.base_paths, operation.new_bases))


def clone(draft: Draft, operation: ops.Clone) -> Built:
    """Take a version of another dataset over, under the same number."""
    built = Built(draft.manifest, draft.indices)
    if operation.is_shallow:
        return shallow_clone(built, operation)
    return deep_clone(built)


# ---- schema and settings


def project(draft: Draft, operation: ops.Project) -> Built:
    """Replace the schema; files in which nothing is left of it leave their fragments."""
    manifest = draft.manifest
    # the message has no place for the schema's own metadata
    schema = replace(operation.schema, metadata=manifest.schema.metadata)
    live = {f.id for f in schema.walk()}
    fragments = manifest.fragments
    if not live.issuperset(f.id for f in manifest.schema.walk()):
        fragments = fragments.edit(updated=without_unread(fragments, live))
    indices = retained(draft.indices, schema, fragments)
    return draft.built(schema=schema, fragments=fragments, indices=indices)


def update_config(draft: Draft, operation: ops.UpdateConfig) -> Built:
    """Change config, table metadata, schema metadata and field metadata."""
    manifest, changes = draft.manifest, operation.normalised()
    config, table = changes.config_updates, changes.table_metadata_updates
    schema = _with_field_metadata(manifest.schema, changes, manifest.fragments)
    if changes.schema_metadata_updates is not None:
        schema = replace(schema, metadata=changes.schema_metadata_updates.apply(schema.metadata))
    return draft.built(
        schema=schema,
        config=manifest.config if config is None else config.apply(manifest.config),
        table_metadata=(
            manifest.table_metadata if table is None else table.apply(manifest.table_metadata)
        ),
    )


def _with_field_metadata(
    schema: LanceSchema, changes: ops.UpdateConfig, fragments: Iterable[Fragment]
) -> LanceSchema:
    updates = changes.field_metadata_updates
    known = {f.id for f in schema.walk()}
    if lost := sorted(updates.keys() - known):
        raise InvalidArgumentError(
            f"Field with id {lost[0]} does not exist.",
            hint=f"The schema's fields have the ids {sorted(known)}.",
            field=lost[0],
        )

    def changed(field: LanceField) -> LanceField:
        children = tuple(map(changed, field.children))
        update = updates.get(field.id)
        if update is not None:
            marked = with_field_metadata(field, update.apply(field.metadata))
            check_marks(field, marked, fragments)
            field = marked
        return field if children == field.children else replace(field, children=children)

    return replace(schema, fields=tuple(map(changed, schema.fields)))
