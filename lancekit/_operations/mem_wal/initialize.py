"""Initialize a table for shards: add its MemWAL index entry, with the sharding spec."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyarrow import types as pt

from lancekit._commit.rules.pending import Pending
from lancekit._format.arrow_parts import one_of
from lancekit._format.data_file import check_written
from lancekit._format.index import IndexMetadata
from lancekit._format.mem_wal.details import (
    MemWalDetails,
    ShardingField,
    ShardingSpec,
    details_of,
    encode_details,
)
from lancekit._format.mem_wal.names import MEM_WAL, mem_wal_entry
from lancekit._format.mem_wal.sharding import MOST_BUCKETS, bucket_numbers
from lancekit._format.operations import CreateIndex
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import warn
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.mem_wal.settings import settings_as_text, writer_settings
from lancekit._operations.mem_wal.shares import spec_of
from lancekit._operations.mem_wal.table_watch import DroppedLogs, dropped_logs
from lancekit._shards.schema import Shard, primary_key, wal_schema
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    IndexExistsError,
    IndexNotFoundError,
    InvalidArgumentError,
    UnsupportedTypeError,
)

#: the reference's name for the only field of its specs, whatever the transform
FIELD = "bucket"
_SPEC = 1
#: the spec that routes all rows to one shard, also for tables without a sharding spec
ONE_SHARD = ShardingSpec(_SPEC, (ShardingField(FIELD, (), "unsharded", None, "int32"),))

#: the kinds of indices that generations can have
_MAINTAINED = ("BTree", "Inverted", "Vector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """The rule that routes rows to shards; empty if the caller picks a shard for each writer."""

    bucket_column: str | None = None
    num_buckets: int | None = None
    identity_column: str | None = None
    unsharded: bool = False

    def __post_init__(self) -> None:
        if (self.bucket_column is None) != (self.num_buckets is None):
            raise InvalidArgumentError(
                f"bucket_column ({self.bucket_column!r}) and num_buckets ({self.num_buckets!r}) "
                "belong together.",
                hint="Pass both, or neither.",
            )
        ways = [self.bucket_column is not None, self.identity_column is not None, self.unsharded]
        if sum(ways) > 1:
            raise InvalidArgumentError(
                "The arguments contain more than one sharding rule.",
                hint="Pass bucket_column with num_buckets, identity_column, or unsharded.",
            )
        if self.num_buckets is not None and not 1 <= self.num_buckets <= MOST_BUCKETS:
            raise InvalidArgumentError(
                f"num_buckets must be from 1 to {MOST_BUCKETS}, got {self.num_buckets}.",
                argument="num_buckets",
            )

    @property
    def is_given(self) -> bool:
        """True if any argument was set."""
        return self != Sharding()


def initialize(
    snapshot: Snapshot,
    sharding: Sharding | None,
    maintained: Sequence[str] | None = None,
    settings: Mapping[str, object] | None = None,
) -> Snapshot:
    """Add the MemWAL entry to a table; return the version that has it.

    sharding: the routing of rows to shards, or ``None`` for one shard.  If the MemWAL was dropped
        while rows wait, ``None`` and an empty `Sharding` mean the sharding of these rows.
    maintained: the names of the indices that generations are to have, or ``None`` for all.
    settings: writer settings by name.  If any is given, all settings are recorded.

    Raises IndexExistsError: the table already has a MemWAL entry.
    Raises IndexNotFoundError: a name in `maintained` is not an index.
    Raises ColumnNotFoundError: a sharding column is missing.
    Raises InvalidArgumentError, UnsupportedTypeError: shards do not support an index, the primary
        key, or a column.  Or rows wait in shards of another sharding.
    Raises ShardError: the folder has rows of logs that an overwrite or a restore ended.
    """
    defaults = settings_as_text(writer_settings({}, settings)) if settings else {}

    def attempt(current: Snapshot) -> Snapshot:
        if mem_wal_entry(current.indices) is not None:
            raise IndexExistsError(
                f"{current.location.uri} already has a MemWAL.",
                hint="Put rows with ds.mem_wal_upsert(rows). To change the sharding, call "
                f"ds.merge_mem_wal(flush=True), ds.drop_index({MEM_WAL!r}) and this again.",
                index=MEM_WAL,
            )
        schema = current.manifest.schema
        check_written(current.manifest.storage_version)
        wal_schema(schema)
        primary_key(schema)
        _check_maintained(maintained or (), current)
        dropped = dropped_logs(current)
        field = _field(sharding or Sharding(unsharded=True), schema)
        specs = tuple([] if field is None else [ShardingSpec(_SPEC, (field,))])
        if dropped is not None and dropped.has_rows:
            if sharding is not None and sharding.is_given:
                _check_as_before(specs, dropped, current)
            specs = dropped.details.specs
        details = MemWalDetails(
            num_shards=_shard_count(specs),
            specs=specs,
            compacted=() if dropped is None else dropped.details.compacted,
            maintained=tuple(maintained or ()),
            maintain_all=maintained is None,
            defaults=defaults,
        )
        return _put_entry(current, details)

    return retried_writing(snapshot, attempt, RetryPolicy())[0]


def initialized(snapshot: Snapshot) -> MemWalDetails:
    """Return the MemWAL details of a version.

    Raises InvalidArgumentError: the version has no MemWAL.
    Raises ShardError: the version has no MemWAL, and its folder has rows of logs that an overwrite
        or a restore ended.
    """
    details = details_of(snapshot.indices)
    if details is None:
        dropped_logs(snapshot)  # raises instead of a hint that would lead to its error
        raise InvalidArgumentError(
            f"{snapshot.called} of {snapshot.location.uri} has no MemWAL, so it accepts no rows "
            "into shards.",
            hint="Call ds.initialize_mem_wal() first. Without arguments, all rows go to one shard.",
            uri=snapshot.location.uri,
        )
    return details


def details_with_shards(snapshot: Snapshot, shards: Sequence[Shard]) -> MemWalDetails:
    """Return the MemWAL details of a version; empty details if it has neither MemWAL nor shards.

    Raises InvalidArgumentError: the version has shards and no MemWAL, so nothing records which of
        their rows the table has.
    """
    if shards:
        return initialized(snapshot)
    return details_of(snapshot.indices) or MemWalDetails()


def _put_entry(snapshot: Snapshot, details: MemWalDetails) -> Snapshot:
    now = datetime.now(UTC)
    entry = IndexMetadata(
        uuid=uuid.uuid4(),
        name=MEM_WAL,
        dataset_version=snapshot.version,
        index_version=0,
        created_at=now.replace(microsecond=now.microsecond // 1000 * 1000),
        index_details=encode_details(details),
    )
    operation = CreateIndex(new_indices=(entry,))
    return commit(snapshot, Pending(operation=operation, doing="initialize_mem_wal"))


def _check_maintained(maintained: Iterable[str], table: Snapshot) -> None:
    top = {(field.id,) for field in table.manifest.schema.fields}
    for name in maintained:
        found = [one for one in table.indices if one.name == name and not one.is_system]
        if not found:
            raise IndexNotFoundError(
                f"maintained_indexes contains {name!r}, but there is no index {name!r}.",
                hint="Create the index first, or leave its name out.",
                index=name,
            )
        kind = found[0].type_url.rpartition(".")[2].removesuffix("IndexDetails")
        if kind not in _MAINTAINED:
            raise InvalidArgumentError(
                f"maintained_indexes contains {name!r}, an index of kind {found[0].kind}.",
                hint=f"Generations can have indices of the kinds {', '.join(_MAINTAINED)}.",
                index=name,
            )
        if found[0].fields not in top:
            raise InvalidArgumentError(
                f"maintained_indexes contains {name!r}, an index on a nested column.",
                hint="Generations can have indices only on top-level columns. Leave its name out.",
                index=name,
            )


# ---- sharding specs


def _shard_count(specs: Sequence[ShardingSpec]) -> int:
    """Return the number of shards that specs route rows to; 0 if it is not fixed."""
    fields = [field for spec in specs for field in spec.fields]
    if not fields or fields[-1].transform == "unsharded":
        return len(fields[-1:])
    return int(fields[-1].parameters.get("num_buckets", "0"))


def _check_as_before(
    specs: Sequence[ShardingSpec], dropped: DroppedLogs, current: Snapshot
) -> None:
    """Refuse another sharding while rows wait: a key would have unordered rows in two shards."""
    before = spec_of(dropped.details) or ONE_SHARD
    (now,) = specs
    if _rule(now) == _rule(before):
        return
    names = {field.id: field.name for field in current.manifest.schema.fields}
    raise InvalidArgumentError(
        f"{current.location.uri} has unmerged rows under another sharding: "
        f"{_words(before, names)}. Newer rows of the same keys would go to other shards, and "
        "their order would be unknown.",
        hint="Call ds.initialize_mem_wal() without a sharding, which resumes these shards. Then "
        f"call ds.merge_mem_wal(flush=True), ds.drop_index({MEM_WAL!r}) and this again.",
        uri=current.location.uri,
    )


def _rule(spec: ShardingSpec) -> list[tuple[object, ...]]:
    return [(one.transform, one.source_ids, dict(one.parameters)) for one in spec.fields]


def _words(spec: ShardingSpec, names: Mapping[int, str]) -> str:
    if spec == ONE_SHARD or not spec.fields:
        return "one shard for all rows"
    field = spec.fields[0]
    sources = " and ".join(names.get(id_, "a dropped column") for id_ in field.source_ids)
    buckets = field.parameters.get("num_buckets")
    return f"{field.transform} of {sources}" + (f", num_buckets={buckets}" if buckets else "")


def _field(sharding: Sharding, schema: LanceSchema) -> ShardingField | None:
    """Return the field of the sharding spec, as the reference writes it."""
    if sharding.bucket_column is not None:
        column = _source(schema, sharding.bucket_column, "bucket_column", _has_buckets)
        buckets = {"num_buckets": str(sharding.num_buckets)}
        return ShardingField(FIELD, (column.id,), "bucket", None, "int32", buckets)
    if sharding.identity_column is not None:
        column = _source(schema, sharding.identity_column, "identity_column", _has_identity)
        return ShardingField(FIELD, (column.id,), "identity", None, _type_name(column))
    return ONE_SHARD.fields[0] if sharding.unsharded else None


def _has_buckets(kind: pa.DataType) -> bool:
    try:
        bucket_numbers(pa.array([], kind), 1)
    except UnsupportedTypeError:
        return False
    return True


_has_identity = one_of(pt.is_boolean, pt.is_integer, pt.is_string, pt.is_large_string)


def _type_name(column: LanceField) -> str:
    """Return the reference's name for the type of a column."""
    name = str(column.to_arrow().type)
    return {"bool": "boolean", "string": "utf8", "large_string": "large_utf8"}.get(name, name)


def _source(
    schema: LanceSchema, name: str, argument: str, usable: Callable[[pa.DataType], bool]
) -> LanceField:
    column = schema.field(name)
    if not usable(column.to_arrow().type):
        raise UnsupportedTypeError(
            f"{argument} {name!r} of type {column.to_arrow().type} cannot route rows to shards.",
            hint="Choose a column of integers, bool or text; bucket_column can also have times, "
            "dates or floats.",
            argument=argument,
            column=name,
        )
    keys = [key.name for key in schema.primary_key]
    if keys and name not in keys:
        warn(
            f"{argument} {name!r} is not in the primary key: rows with one key but different "
            f"{name!r} go to different shards, and their order is unknown."
        )
    return column
