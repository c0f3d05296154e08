"""The effects of operations on fragments, files, fields and config keys, for rules and rebase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lancekit._format import operations as ops
from lancekit._format.fragment import Fragment
from lancekit._format.operation_parts import UpdateMap, UpdateMode
from lancekit._format.paths import paths_by_id
from lancekit._format.schema import LanceSchema


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The fragments that a delete or an update updates, removes and adds."""

    updated: Mapping[int, Fragment]
    removed: frozenset[int]
    added: tuple[Fragment, ...] = ()

    @property
    def ids(self) -> frozenset[int]:
        """The fragments of the version read that are changed."""
        return self.removed | self.updated.keys()


def row_changes(operation: ops.Delete | ops.Update) -> RowChanges:
    """Return the changes of a delete or an update to fragments."""
    updated = {f.id: f for f in operation.updated_fragments}
    if isinstance(operation, ops.Delete):
        return RowChanges(updated, frozenset(operation.deleted_fragment_ids))
    removed = frozenset(operation.removed_fragment_ids)
    return RowChanges(updated, removed, tuple(operation.new_fragments))


def is_in_place(update: ops.Update) -> bool:
    """Return True if an update rewrites columns in place, and moves no row."""
    return update.update_mode is UpdateMode.REWRITE_COLUMNS


def changed_fields(old: LanceSchema, new: LanceSchema) -> frozenset[int]:
    """Return the ids of fields that are gone, or have another name, parent, type or nullability."""

    def described(schema: LanceSchema) -> dict[int, tuple[object, ...]]:
        return {f.id: (f.name, f.parent_id, f.nullable, f.logical_type) for f in schema.walk()}

    before, after = described(old), described(new)
    return frozenset(id_ for id_, what in before.items() if after.get(id_) != what)


def fragment_ids(
    operation: ops.Delete | ops.Update | ops.Rewrite | ops.DataReplacement,
) -> frozenset[int]:
    """Return the existing fragments that an operation changes or removes."""
    if isinstance(operation, ops.Rewrite):
        return operation.all_old_ids
    if isinstance(operation, ops.DataReplacement):
        return operation.fragment_ids
    return row_changes(operation).ids


def written_fields(fragments: Iterable[Fragment]) -> frozenset[int]:
    """Return the ids of the fields that fragments store."""
    return frozenset(
        id_ for fragment in fragments for file in fragment.files for id_ in file.fields if id_ >= 0
    )


# ---- schemas


def field_names(schema: LanceSchema, ids: Iterable[int]) -> list[str]:
    """Return the paths of fields, or ``field 7`` for a field that is not in the schema."""
    paths = paths_by_id(schema)
    return [repr(paths[id_]) if id_ in paths else f"field {id_}" for id_ in sorted(ids)]


# ---- maps of strings


@dataclass(frozen=True, slots=True)
class MapWrites:
    """The keys of a map that are set and removed; replacing the map changes all keys."""

    upserted: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    replaced: bool = False

    @property
    def touched(self) -> frozenset[str]:
        """The keys that are set or removed."""
        return self.upserted | self.deleted

    def __bool__(self) -> bool:
        return self.replaced or bool(self.touched)


def map_writes(update: UpdateMap | None) -> MapWrites:
    """Return the writes of an update to its map."""
    if update is None:
        return MapWrites()
    upserted = frozenset(key for key, value in update.updates.items() if value is not None)
    return MapWrites(upserted, frozenset(update.updates) - upserted, update.replace)


def config_writes(operation: ops.Overwrite | ops.UpdateConfig) -> MapWrites:
    """Return the writes of an operation to the config."""
    if isinstance(operation, ops.Overwrite):
        return MapWrites(frozenset(operation.config_upsert_values))
    return map_writes(operation.normalised().config_updates)
