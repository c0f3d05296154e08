"""The 15 operations that a commit can perform, one frozen dataclass each.

See docs/format/table.md, 3.4.

Arguments have the order and names of pylance's classes, where these exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, get_args

from pyroaring import BitMap

from lancekit._format import _codecs as c
from lancekit._format._codecs import Part, wire
from lancekit._format.fragment import Fragment
from lancekit._format.index import IndexMetadata
from lancekit._format.key_filter import KeyFilter
from lancekit._format.manifest import BasePath
from lancekit._format.operation_parts import (
    BASES,
    FRAGMENTS,
    GENERATIONS,
    INDICES,
    KEY_FILTER,
    MODE,
    NUMBERS_BY_ID,
    CompactedSsTable,
    DataReplacementGroup,
    FieldMetadataUpdate,
    RewriteGroup,
    RewrittenIndex,
    UpdateMap,
    UpdateMode,
)
from lancekit._format.schema import LanceSchema
from lancekit._legible import discreet_repr

_MAP = c.part(UpdateMap)


def _fragments() -> Any:
    return wire(FRAGMENTS, default=())


@dataclass(frozen=True, slots=True)
class Append(Part):
    """Add fragments; the commit assigns their ids."""

    arm: ClassVar[str] = "append"
    fragments: tuple[Fragment, ...] = _fragments()


@dataclass(frozen=True, slots=True)
class Delete(Part):
    """Mark rows as deleted: fragments in their new state, and the ids of removed fragments."""

    arm: ClassVar[str] = "delete"
    updated_fragments: tuple[Fragment, ...] = _fragments()
    deleted_fragment_ids: tuple[int, ...] = wire(c.wholes(), default=())
    predicate: str = wire(c.TEXT, default="")


@dataclass(frozen=True, slots=True)
class Overwrite(Part):
    """Replace rows and schema, or create the dataset."""

    arm: ClassVar[str] = "overwrite"
    new_schema: LanceSchema = wire(c.SCHEMA, name="schema")
    fragments: tuple[Fragment, ...] = _fragments()
    initial_bases: tuple[BasePath, ...] = wire(BASES, default=())
    config_upsert_values: Mapping[str, str] = wire(c.TEXT_MAP, default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateIndex(Part):
    """Add and remove index segments."""

    arm: ClassVar[str] = "create_index"
    new_indices: tuple[IndexMetadata, ...] = wire(INDICES, default=())
    removed_indices: tuple[IndexMetadata, ...] = wire(INDICES, default=())


@dataclass(frozen=True, slots=True)
class Rewrite(Part):
    """Compact: store the same rows in other fragments.

    The two plain lists are an obsolete form of old releases; `all_groups` includes them.
    """

    arm: ClassVar[str] = "rewrite"
    groups: tuple[RewriteGroup, ...] = wire(c.parts(RewriteGroup), default=())
    rewritten_indices: tuple[RewrittenIndex, ...] = wire(c.parts(RewrittenIndex), default=())
    old_fragments: tuple[Fragment, ...] = _fragments()
    new_fragments: tuple[Fragment, ...] = _fragments()

    @property
    def all_groups(self) -> tuple[RewriteGroup, ...]:
        """All groups, including the obsolete form."""
        if not self.old_fragments and not self.new_fragments:
            return self.groups
        return (*self.groups, RewriteGroup(self.old_fragments, self.new_fragments))

    @property
    def all_old_ids(self) -> frozenset[int]:
        """Ids of all fragments that are replaced."""
        return frozenset(f.id for group in self.all_groups for f in group.old_fragments)


@dataclass(frozen=True, slots=True)
class Merge(Part):
    """Replace fragments and schema: added or cast columns."""

    arm: ClassVar[str] = "merge"
    fragments: tuple[Fragment, ...] = wire(FRAGMENTS)
    schema: LanceSchema = wire(c.SCHEMA)
    preserves_nullability: bool = wire(c.BOOL, default=False)


@dataclass(frozen=True, slots=True)
class Restore(Part):
    """Make an old version the newest."""

    arm: ClassVar[str] = "restore"
    version: int = wire(c.whole())


@dataclass(frozen=True, slots=True)
class ReserveFragments(Part):
    """Reserve fragment ids for a compaction."""

    arm: ClassVar[str] = "reserve_fragments"
    num_fragments: int = wire(c.whole(32))


@dataclass(frozen=True, slots=True)
class Update(Part):
    """Move or change rows: an update, or a merge-insert.

    `inserted_rows` is a filter of the inserted keys, for comparison by concurrent merges.
    `updated_fragment_offsets` has the rows of each fragment that were changed in place, as portable
    Roaring bitmaps; `listed_fragment_offsets` is its older form.
    """

    arm: ClassVar[str] = "update"
    removed_fragment_ids: tuple[int, ...] = wire(c.wholes(), default=())
    updated_fragments: tuple[Fragment, ...] = _fragments()
    new_fragments: tuple[Fragment, ...] = _fragments()
    fields_modified: tuple[int, ...] = wire(c.wholes(32), default=())
    fields_for_preserving_frag_bitmap: tuple[int, ...] = wire(c.wholes(32), default=())
    update_mode: UpdateMode = wire(MODE, default=UpdateMode.REWRITE_ROWS)
    updated_fragment_offsets: Mapping[int, bytes] = wire(
        c.BYTES_BY_ID, name="updated_fragment_offset_bitmaps", default_factory=dict
    )
    listed_fragment_offsets: Mapping[int, tuple[int, ...]] = wire(
        NUMBERS_BY_ID, name="updated_fragment_offsets", default_factory=dict
    )
    compacted_sstables: tuple[CompactedSsTable, ...] = wire(GENERATIONS, default=())
    inserted_rows: KeyFilter | None = wire(KEY_FILTER, default=None)

    @property
    def changed_offsets(self) -> dict[int, BitMap]:
        """Rows changed in place, by fragment, from both forms.

        Raises CorruptFileError: a bitmap is damaged.
        """
        listed = {key: BitMap(values) for key, values in self.listed_fragment_offsets.items()}
        stored = self.updated_fragment_offsets.items()
        return listed | {key: c.parse_bitmap(value) for key, value in stored}


@dataclass(frozen=True, slots=True)
class Project(Part):
    """Replace the schema without touching rows: drop, rename, nullability."""

    arm: ClassVar[str] = "project"
    schema: LanceSchema = wire(c.SCHEMA)
    preserves_nullability: bool = wire(c.BOOL, default=False)


@dataclass(frozen=True, slots=True)
class UpdateConfig(Part):
    """Change config, table metadata, schema metadata or field metadata.

    The last four fields are obsolete forms of old releases; `normalised` removes them.
    """

    arm: ClassVar[str] = "update_config"
    config_updates: UpdateMap | None = wire(_MAP, default=None)
    table_metadata_updates: UpdateMap | None = wire(_MAP, default=None)
    schema_metadata_updates: UpdateMap | None = wire(_MAP, default=None)
    field_metadata_updates: Mapping[int, UpdateMap] = wire(
        c.parts_by_id(UpdateMap, bits=32, signed=True), default_factory=dict
    )
    upsert_values: Mapping[str, str] = wire(c.TEXT_MAP, default_factory=dict, kw_only=True)
    delete_keys: tuple[str, ...] = wire(c.TEXTS, default=(), kw_only=True)
    schema_metadata: Mapping[str, str] = wire(c.TEXT_MAP, default_factory=dict, kw_only=True)
    field_metadata: Mapping[int, FieldMetadataUpdate] = wire(
        c.parts_by_id(FieldMetadataUpdate, bits=32), default_factory=dict, kw_only=True
    )

    def normalised(self) -> UpdateConfig:
        """Return the same changes in the four current fields."""
        config, schema = self.config_updates, self.schema_metadata_updates
        if config is None and (self.upsert_values or self.delete_keys):
            config = UpdateMap({**dict.fromkeys(self.delete_keys), **self.upsert_values})
        if schema is None and self.schema_metadata:
            schema = UpdateMap(self.schema_metadata, replace=True)
        older = {
            key: UpdateMap(update.metadata, replace=True)
            for key, update in self.field_metadata.items()
        }
        return replace(
            self,
            config_updates=config,
            schema_metadata_updates=schema,
            field_metadata_updates={**older, **self.field_metadata_updates},
            upsert_values={},
            delete_keys=(),
            schema_metadata={},
            field_metadata={},
        )

    @property
    def config_keys(self) -> frozenset[str]:
        """Config keys that are set or deleted."""
        config = self.normalised().config_updates
        return frozenset(config.updates if config else ())

    @property
    def touches_metadata(self) -> bool:
        """True if schema or field metadata changes."""
        changes = self.normalised()
        return bool(changes.schema_metadata_updates or changes.field_metadata_updates)


@dataclass(frozen=True, slots=True)
class DataReplacement(Part):
    """Replace data files of fragments."""

    arm: ClassVar[str] = "data_replacement"
    replacements: tuple[DataReplacementGroup, ...] = wire(c.parts(DataReplacementGroup), default=())

    @property
    def fragment_ids(self) -> frozenset[int]:
        """Ids of the fragments whose files are replaced."""
        return frozenset(group.fragment_id for group in self.replacements)


@dataclass(frozen=True, slots=True)
class UpdateMemWalState(Part):
    """Record which flushed generations were merged into the table."""

    arm: ClassVar[str] = "update_mem_wal_state"
    compacted_sstables: tuple[CompactedSsTable, ...] = wire(GENERATIONS, default=())


@dataclass(frozen=True, slots=True)
class Clone(Part):
    """Create a branch or a clone from another version."""

    arm: ClassVar[str] = "clone"
    is_shallow: bool = wire(c.BOOL)
    ref_name: str | None = wire(c.MAYBE_TEXT)
    ref_version: int = wire(c.whole())
    ref_path: str = wire(c.TEXT)
    branch_name: str | None = wire(c.MAYBE_TEXT, default=None)

    __repr__ = discreet_repr


@dataclass(frozen=True, slots=True)
class UpdateBases(Part):
    """Add base paths."""

    arm: ClassVar[str] = "update_bases"
    new_bases: tuple[BasePath, ...] = wire(BASES, default=())


@dataclass(frozen=True, slots=True)
class UnknownOperation:
    """Operation of a newer release, or a missing one; it conflicts with every operation.

    `number` is its field number in the message, `name` its name if known.
    """

    arm: ClassVar[str] = ""
    number: int | None = None
    name: str = ""


Operation = (
    Append
    | Delete
    | Overwrite
    | CreateIndex
    | Rewrite
    | Merge
    | Restore
    | ReserveFragments
    | Update
    | Project
    | UpdateConfig
    | DataReplacement
    | UpdateMemWalState
    | Clone
    | UpdateBases
    | UnknownOperation
)

#: all operations except `UnknownOperation`
OPERATIONS: tuple[type[Operation], ...] = get_args(Operation)[:-1]
