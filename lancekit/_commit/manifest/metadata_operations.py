"""The next version after an operation that changes no rows: one function for each operation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from lancekit._commit.manifest.clone import deep_clone, shallow_clone
from lancekit._commit.manifest.draft import Built, Draft, advanced, with_bases, without_unread
from lancekit._commit.manifest.indices import retained
from lancekit._file.columns.physical import in_one_column
from lancekit._format import operations as ops
from lancekit._format.extensions import EXTENSION_METADATA, EXTENSION_NAME, resolved_schema
from lancekit._format.field_marks import holds_blobs, is_packed, unclear_packing
from lancekit._format.fragment import Fragment, columns_of_files
from lancekit._format.schema import LanceField, LanceSchema, with_field_metadata
from lancekit._legible import shown
from lancekit._versions.merge_edges import undone_keys
from lancekit.errors import CorruptFileError, InvalidArgumentError


def restore(draft: Draft, operation: ops.Restore) -> Built:
    """Return an old version with its indices and config; only counters and merge records differ."""
    if draft.restored is None:
        raise InvalidArgumentError(f"Version {operation.version} to restore was not given.")
    latest, (old, indices) = draft.manifest, draft.restored
    if old.has_stable_row_ids != latest.has_stable_row_ids:
        raise InvalidArgumentError(
            f"Version {operation.version} and the newest one differ in having stable row ids.",
            hint="Write the rows of the old version to a new dataset.",
            version=operation.version,
        )
    config = old.config
    if old.has_stable_row_ids and not old.schema.primary_key:
        # without a key, rows that are merged again get other row ids: record the undone merges
        config = {**config, **undone_keys(latest.config, config)}
    # with a lower counter, row ids would be assigned twice
    next_row_id = max(latest.next_row_id, old.next_row_id)
    return Built(replace(old, config=config, next_row_id=next_row_id), indices)


def create_index(draft: Draft, operation: ops.CreateIndex) -> Built:
    """Add and remove index segments."""
    gone = {index.uuid for index in (*operation.removed_indices, *operation.new_indices)}
    kept = tuple(index for index in draft.indices if index.uuid not in gone)
    return draft.built(indices=(*kept, *operation.new_indices))


def reserve_fragments(draft: Draft, operation: ops.ReserveFragments) -> Built:
    """Reserve fragment ids; nothing else changes."""
    highest = draft.manifest.max_fragment_id or 0
    return draft.built(max_fragment_id=highest + operation.num_fragments)


def update_mem_wal_state(draft: Draft, operation: ops.UpdateMemWalState) -> Built:
    """Record the progress of shards."""
    return draft.built(indices=advanced(draft.indices, operation.compacted_sstables, draft.version))


def update_bases(draft: Draft, operation: ops.UpdateBases) -> Built:
    """Add base paths."""
    return draft.built(base_paths=with_bases(draft.manifest.base_paths, operation.new_bases))


def clone(draft: Draft, operation: ops.Clone) -> Built:
    """Return the source version of a clone or branch, under the same number."""
    built = Built(draft.manifest, draft.indices)
    return shallow_clone(built, operation) if operation.is_shallow else deep_clone(built)


# ---- schema and settings


def project(draft: Draft, operation: ops.Project) -> Built:
    """Replace the schema; drop files without any of its fields."""
    manifest = draft.manifest
    # the operation's message lacks the schema's own metadata
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
            hint=f"The field ids of the schema are {sorted(known)}.",
            field=lost[0],
        )

    def changed(field: LanceField) -> LanceField:
        children = tuple(map(changed, field.children))
        update = updates.get(field.id)
        if update is not None:
            marked = with_field_metadata(field, update.apply(field.metadata))
            _check_marks(field, marked, fragments)
            field = marked
        return field if children == field.children else replace(field, children=children)

    return replace(schema, fields=tuple(map(changed, schema.fields)))


# ---- field metadata that declare how values are stored, which must match the existing files

_EXTENSION = (EXTENSION_NAME.decode(), EXTENSION_METADATA.decode())
_JSON = frozenset({"arrow.json", "lance.json"})


def _check_marks(old: LanceField, new: LanceField, fragments: Iterable[Fragment]) -> None:
    """Raise ``InvalidArgumentError`` if new metadata of a field contradict its stored values.

    fragments: the rows, whose structs may be packed regardless of the old metadata.
    """
    if holds_blobs(old.metadata) != holds_blobs(new.metadata):
        hint = "Write the column again as a blob column."
        stored = holds_blobs(old.metadata)
        raise _misfit(new, "blobs", _CANNOT[stored], hint, stored=stored)
    if new.logical_type == "struct" and _packing(old) != _packing(new):
        _check_packing(new, _forms(new, fragments))
    if any(old.metadata.get(key) != new.metadata.get(key) for key in _EXTENSION):
        _check_extension(new)


def _packing(field: LanceField) -> object:
    """Return whether a struct is packed, or its mark if readers disagree about the mark."""
    return unclear_packing(field.metadata) or is_packed(field.metadata)


def _forms(field: LanceField, fragments: Iterable[Fragment]) -> set[bool]:
    """Return whether files store a struct as one column; a table can have both forms."""
    parts = {part.id for part in field.walk()}
    files = (columns for fragment in fragments for columns in columns_of_files(fragment))
    return {in_one_column(field, columns) for columns in files if not parts.isdisjoint(columns)}


def _check_packing(field: LanceField, forms: set[bool]) -> None:
    mark = "Mark it as packed='true'." if True in forms else "Leave out the mark."
    unclear = unclear_packing(field.metadata)
    if unclear is not None and forms:
        key, value = unclear
        problem = f"only some releases of the reference read {key}={shown(value)} as 'packed'"
        raise _misfit(field, "packed structs", problem, mark, stored=True in forms)
    if forms == {not is_packed(field.metadata)}:
        hint = f"{mark} For another form, write the rows to a new dataset."
        raise _misfit(field, "packed structs", _CANNOT[True in forms], hint, stored=True in forms)


#: the consequence for values that are stored in some form, and that are not
_CANNOT = {True: "they cannot be read in another form", False: "they cannot be read in that form"}


def _misfit(
    field: LanceField, what: str, problem: str, hint: str, *, stored: bool
) -> InvalidArgumentError:
    how = "stored" if stored else "not stored"
    return InvalidArgumentError(
        f"The values of column {field.name!r} are {how} as {what}; {problem}.",
        hint=hint,
        column=field.name,
    )


def _check_extension(field: LanceField) -> None:
    name = field.metadata.get(_EXTENSION[0], "")
    problem = ""
    if name in _JSON:
        if (field.logical_type, name) != ("json", "lance.json"):
            problem = f"JSON is stored in its own form, not as {field.logical_type}"
    elif name:
        try:
            resolved_schema(pa.schema([field.to_arrow()]))
        except CorruptFileError as error:
            problem = str(error.__cause__ or error)
    if problem:
        raise InvalidArgumentError(
            f"Column {field.name!r} cannot have the extension type {name!r}: {problem}.",
            hint="Cast the column, or write it again with that type.",
            column=field.name,
            extension=name,
        )
