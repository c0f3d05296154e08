"""Transactions: what each commit did, and on top of which version (table format, 3.4).

An operation is a frozen dataclass whose field names are those of its message; each field names
the codec that carries it, so encoding and decoding are one loop each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from lancekit.format import fragment as frag
from lancekit.format.index import IndexMetadata, index_from_pb, index_to_pb
from lancekit.format.key_filter import BloomKeyFilter, ExactKeySet, KeyFilter
from lancekit.format.manifest import BasePath, base_path_from_pb, base_path_to_pb
from lancekit.format.pb import transaction_pb2
from lancekit.format.pb.transaction_pb2 import Transaction as Message
from lancekit.format.schema import LanceSchema, schema_from_pb, schema_to_pb
from lancekit.format.wire import parse, put_unknown, take_unknown

__all__ = [
    "COMMIT_MESSAGE",
    "Append",
    "Clone",
    "CreateIndex",
    "DataReplacement",
    "Delete",
    "Merge",
    "Operation",
    "Overwrite",
    "Project",
    "ReserveFragments",
    "Restore",
    "Rewrite",
    "Transaction",
    "UnknownOperation",
    "Update",
    "UpdateBases",
    "UpdateConfig",
    "UpdateMemWalState",
    "encode_transaction",
    "parse_transaction",
]

#: the transaction property that holds the commit message
COMMIT_MESSAGE = "__lance_commit_message"


# ---- codecs: how one field of a message is read and written


@dataclass(frozen=True, slots=True)
class _Codec:
    get: Callable[[Any, str], Any]
    put: Callable[[Any, str, Any], None]


def _put_optional(message: Any, name: str, value: Any) -> None:
    if value is not None:
        setattr(message, name, value)


def _messages(decode: Callable[[Any], Any], encode: Callable[[Any], Any]) -> _Codec:
    return _Codec(
        lambda message, name: tuple(map(decode, getattr(message, name))),
        lambda message, name, values: getattr(message, name).extend(map(encode, values)),
    )


def _get_schema(message: Any, name: str) -> LanceSchema:
    return schema_from_pb(getattr(message, name), getattr(message, "schema_metadata", None))


def _put_schema(message: Any, name: str, schema: LanceSchema) -> None:
    getattr(message, name).extend(schema_to_pb(schema))
    if hasattr(message, "schema_metadata"):
        message.schema_metadata.update({k: v.encode() for k, v in schema.metadata.items()})


def _get_key_filter(message: Any, name: str) -> KeyFilter | None:
    if not message.HasField(name):
        return None
    wire = getattr(message, name)
    ids = tuple(wire.field_ids)
    if wire.WhichOneof("data") == "exact":
        hashes = np.unique(np.array(wire.exact.key_hashes, dtype=np.uint64))
        return ExactKeySet(field_ids=ids, hashes=hashes)
    bloom = wire.bloom  # unset reads as an empty bitmap, which conflicts with everything
    return BloomKeyFilter(
        field_ids=ids,
        bitmap=bloom.bitmap,
        num_bits=bloom.num_bits,
        number_of_items=bloom.number_of_items or 8192,
        probability=bloom.probability or 0.00057,
    )


def _put_key_filter(message: Any, name: str, value: KeyFilter | None) -> None:
    if value is None:
        return
    wire = getattr(message, name)
    wire.field_ids.extend(value.field_ids)
    if isinstance(value, ExactKeySet):
        wire.exact.SetInParent()
        wire.exact.key_hashes.extend(value.hashes.tolist())
    else:
        wire.bloom.bitmap = value.bitmap
        wire.bloom.num_bits = value.num_bits
        wire.bloom.number_of_items = value.number_of_items
        wire.bloom.probability = value.probability


def _put_opaque(message: Any, name: str, parts: tuple[bytes, ...]) -> None:
    for part in parts:
        getattr(message, name).add().MergeFromString(part)


_SCALAR = _Codec(getattr, setattr)
_OPTIONAL = _Codec(lambda m, name: getattr(m, name) if m.HasField(name) else None, _put_optional)
_NUMBERS = _Codec(lambda m, name: tuple(getattr(m, name)), lambda m, n, v: getattr(m, n).extend(v))
_MAP = _Codec(lambda m, name: dict(getattr(m, name)), lambda m, n, v: getattr(m, n).update(v))
_FRAGMENTS = _messages(frag.fragment_from_pb, frag.fragment_to_pb)
_INDICES = _messages(index_from_pb, index_to_pb)
_BASES = _messages(base_path_from_pb, base_path_to_pb)
_SCHEMA = _Codec(_get_schema, _put_schema)
_KEY_FILTER = _Codec(_get_key_filter, _put_key_filter)
# parts that no operation of this release interprets travel as bytes
_OPAQUE = _Codec(
    lambda m, name: tuple(part.SerializeToString() for part in getattr(m, name)), _put_opaque
)


def _wire(codec: _Codec, **kwargs: Any) -> Any:
    return field(metadata={"codec": codec}, **kwargs)


def _empty(codec: _Codec) -> Any:
    return _wire(codec, default=())


def _empty_map() -> Any:
    return _wire(_MAP, default_factory=dict)


# ---- operations


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Add fragments; their ids are given out when the manifest is built."""

    arm: ClassVar[str] = "append"
    fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Mark rows as deleted: fragments in their new state, and the ids of those that are gone."""

    arm: ClassVar[str] = "delete"
    updated_fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)
    deleted_fragment_ids: tuple[int, ...] = _empty(_NUMBERS)
    predicate: str = _wire(_SCALAR, default="")
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """Replace rows and schema, or create the dataset."""

    arm: ClassVar[str] = "overwrite"
    fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)
    schema: LanceSchema = _wire(_SCHEMA)
    config_upsert_values: Mapping[str, str] = _empty_map()
    initial_bases: tuple[BasePath, ...] = _empty(_BASES)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIndex:
    """Add and remove index segments."""

    arm: ClassVar[str] = "create_index"
    new_indices: tuple[IndexMetadata, ...] = _empty(_INDICES)
    removed_indices: tuple[IndexMetadata, ...] = _empty(_INDICES)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroup:
    """Fragments replaced by others that hold the same rows."""

    old_fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)
    new_fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)


def _group_from_pb(message: Any) -> RewriteGroup:
    return RewriteGroup(**_decode_fields(RewriteGroup, message))


def _group_to_pb(group: RewriteGroup) -> Any:
    message = Message.Rewrite.RewriteGroup()
    _encode_fields(group, message)
    return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Compaction: the same rows in other fragments."""

    arm: ClassVar[str] = "rewrite"
    old_fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)
    new_fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)
    groups: tuple[RewriteGroup, ...] = _empty(_messages(_group_from_pb, _group_to_pb))
    rewritten_indices: tuple[bytes, ...] = _empty(_OPAQUE)
    unknown: bytes = b""

    @property
    def all_old_ids(self) -> frozenset[int]:
        """The ids of every fragment that is replaced."""
        old = [*self.old_fragments, *(f for group in self.groups for f in group.old_fragments)]
        return frozenset(f.id for f in old)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Replace fragments and schema: columns added or cast."""

    arm: ClassVar[str] = "merge"
    fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)
    schema: LanceSchema = _wire(_SCHEMA)
    preserves_nullability: bool = _wire(_SCALAR, default=False)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Make an old version the newest."""

    arm: ClassVar[str] = "restore"
    version: int = _wire(_SCALAR)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveFragments:
    """Give out fragment ids to a compaction."""

    arm: ClassVar[str] = "reserve_fragments"
    num_fragments: int = _wire(_SCALAR)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Rows moved or changed: an update, or a merge-insert.

    `inserted_rows` names the keys that were inserted, for concurrent merges to compare.
    """

    arm: ClassVar[str] = "update"
    removed_fragment_ids: tuple[int, ...] = _empty(_NUMBERS)
    updated_fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)
    new_fragments: tuple[frag.Fragment, ...] = _empty(_FRAGMENTS)
    fields_modified: tuple[int, ...] = _empty(_NUMBERS)
    merged_generations: tuple[bytes, ...] = _empty(_OPAQUE)
    fields_for_preserving_frag_bitmap: tuple[int, ...] = _empty(_NUMBERS)
    update_mode: int = _wire(_SCALAR, default=0)
    inserted_rows: KeyFilter | None = _wire(_KEY_FILTER, default=None)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Replace the schema without touching rows: drop, rename, nullability."""

    arm: ClassVar[str] = "project"
    schema: LanceSchema = _wire(_SCHEMA)
    preserves_nullability: bool = _wire(_SCALAR, default=False)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMap:
    """Changes of one string map; a value of ``None`` deletes the key."""

    entries: Mapping[str, str | None]
    replace: bool = False


def _map_from_pb(message: Any) -> UpdateMap:
    entries = {e.key: e.value if e.HasField("value") else None for e in message.update_entries}
    return UpdateMap(entries=entries, replace=message.replace)


def _fill_map(message: Any, update: UpdateMap) -> None:
    message.SetInParent()
    message.replace = update.replace
    for key, value in update.entries.items():
        message.update_entries.add(key=key, value=value)


def _get_map(message: Any, name: str) -> UpdateMap | None:
    return _map_from_pb(getattr(message, name)) if message.HasField(name) else None


def _put_map(message: Any, name: str, update: UpdateMap | None) -> None:
    if update is not None:
        _fill_map(getattr(message, name), update)


def _get_field_maps(message: Any, name: str) -> dict[int, UpdateMap]:
    return {key: _map_from_pb(value) for key, value in getattr(message, name).items()}


def _put_field_maps(message: Any, name: str, updates: Mapping[int, UpdateMap]) -> None:
    for key, update in updates.items():
        _fill_map(getattr(message, name)[key], update)


_UPDATE_MAP = _Codec(_get_map, _put_map)
_FIELD_MAPS = _Codec(_get_field_maps, _put_field_maps)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfig:
    """Change config, table metadata, schema metadata or field metadata.

    The first three fields are obsolete forms that old releases wrote.
    """

    arm: ClassVar[str] = "update_config"
    upsert_values: Mapping[str, str] = _empty_map()
    delete_keys: tuple[str, ...] = _empty(_NUMBERS)
    schema_metadata: Mapping[str, str] = _empty_map()
    config_updates: UpdateMap | None = _wire(_UPDATE_MAP, default=None)
    table_metadata_updates: UpdateMap | None = _wire(_UPDATE_MAP, default=None)
    schema_metadata_updates: UpdateMap | None = _wire(_UPDATE_MAP, default=None)
    field_metadata_updates: Mapping[int, UpdateMap] = _wire(_FIELD_MAPS, default_factory=dict)
    unknown: bytes = b""

    @property
    def config_keys(self) -> frozenset[str]:
        """The config keys that are set or deleted."""
        newer = self.config_updates.entries if self.config_updates else {}
        return frozenset([*newer, *self.upsert_values, *self.delete_keys])

    @property
    def touches_metadata(self) -> bool:
        """Whether schema or field metadata changes."""
        return bool(
            self.schema_metadata or self.schema_metadata_updates or self.field_metadata_updates
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReplacement:
    """Swap data files of fragments; each part is a serialized group."""

    arm: ClassVar[str] = "data_replacement"
    replacements: tuple[bytes, ...] = _empty(_OPAQUE)
    unknown: bytes = b""

    @property
    def fragment_ids(self) -> frozenset[int]:
        """The fragments whose files are swapped."""
        group = transaction_pb2.Transaction.DataReplacementGroup
        return frozenset(group.FromString(part).fragment_id for part in self.replacements)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMemWalState:
    """Record which flushed generations were merged into the table."""

    arm: ClassVar[str] = "update_mem_wal_state"
    merged_generations: tuple[bytes, ...] = _empty(_OPAQUE)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """Start a branch or a clone from another version."""

    arm: ClassVar[str] = "clone"
    is_shallow: bool = _wire(_SCALAR)
    ref_name: str | None = _wire(_OPTIONAL, default=None)
    ref_version: int = _wire(_SCALAR)
    ref_path: str = _wire(_SCALAR)
    branch_name: str | None = _wire(_OPTIONAL, default=None)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBases:
    """Add base paths."""

    arm: ClassVar[str] = "update_bases"
    new_bases: tuple[BasePath, ...] = _empty(_BASES)
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownOperation:
    """An operation of a newer release, or none at all; it conflicts with everything."""

    arm: ClassVar[str] = ""


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

OPERATIONS: tuple[type, ...] = (
    Append,
    Delete,
    Overwrite,
    CreateIndex,
    Rewrite,
    Merge,
    Restore,
    ReserveFragments,
    Update,
    Project,
    UpdateConfig,
    DataReplacement,
    UpdateMemWalState,
    Clone,
    UpdateBases,
)
_BY_ARM: dict[str, type] = {kind.arm: kind for kind in OPERATIONS}  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One commit: the version it read, what it did, and who can recognise it by `uuid`."""

    read_version: int
    uuid: str
    operation: Operation
    transaction_properties: Mapping[str, str] = field(default_factory=dict)
    unknown: bytes = b""


def _decode_fields(kind: type, message: Any) -> dict[str, Any]:
    return {
        f.name: f.metadata["codec"].get(message, f.name)
        for f in fields(kind)
        if "codec" in f.metadata
    }


def _encode_fields(value: Any, message: Any) -> None:
    for f in fields(value):
        if "codec" in f.metadata:
            f.metadata["codec"].put(message, f.name, getattr(value, f.name))


def parse_transaction(data: bytes | memoryview, where: str) -> Transaction:
    """Decode a transaction file, or the inline section of a manifest.

    Raises
    ------
    CorruptFileError
        The bytes are not a transaction.
    """
    message = parse(Message, data, f"transaction {where}")
    arm = message.WhichOneof("operation")
    operation: Operation = UnknownOperation()
    if arm is not None:
        kind, body = _BY_ARM[arm], getattr(message, arm)
        operation = kind(**_decode_fields(kind, body), unknown=take_unknown(body))
    return Transaction(
        read_version=message.read_version,
        uuid=message.uuid,
        operation=operation,
        transaction_properties=dict(message.transaction_properties),
        unknown=take_unknown(message),
    )


def encode_transaction(transaction: Transaction) -> bytes:
    """Encode a transaction; the same bytes are the file and the inline section."""
    message = Message(
        read_version=transaction.read_version,
        uuid=transaction.uuid,
        transaction_properties=transaction.transaction_properties,
    )
    operation = transaction.operation
    if not isinstance(operation, UnknownOperation):
        body = getattr(message, operation.arm)
        body.SetInParent()
        _encode_fields(operation, body)
        put_unknown(body, operation.unknown)
    put_unknown(message, transaction.unknown)
    return message.SerializeToString()
