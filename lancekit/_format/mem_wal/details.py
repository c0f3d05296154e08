"""Details of the `__lance_mem_wal` entry (docs/format/memwal.md, 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from uuid import UUID

from google.protobuf.unknown_fields import UnknownFieldSet

from lancekit._format import _codecs as c
from lancekit._format._codecs import Part, decode, encode, wire
from lancekit._format.index import IndexDetails, IndexMetadata
from lancekit._format.mem_wal.names import MEM_WAL, mem_wal_entry
from lancekit._format.operation_parts import GENERATIONS, CompactedSsTable
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.unknown_fields import parse
from lancekit.errors import UnsupportedFeatureError

_TYPE_URL = "/lance.table.MemWalIndexDetails"


@dataclass(frozen=True, slots=True)
class IndexCatchUp(Part):
    """Generation of each shard up to which an index covers the merged rows."""

    index_name: str = wire(c.TEXT)
    generations: tuple[CompactedSsTable, ...] = wire(
        GENERATIONS, name="caught_up_generations", default=()
    )


@dataclass(frozen=True, slots=True)
class ShardingField(Part):
    """Sharding value: a transform of source columns that assigns rows to shards."""

    field_id: str = wire(c.TEXT)
    source_ids: tuple[int, ...] = wire(c.wholes(32, signed=True), default=())
    transform: str | None = wire(c.MAYBE_TEXT, default=None)
    expression: str | None = wire(c.MAYBE_TEXT, default=None)
    result_type: str = wire(c.TEXT, default="")
    parameters: Mapping[str, str] = wire(c.TEXT_MAP, default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShardingSpec(Part):
    """Sharding specification: the values that assign rows to shards."""

    spec_id: int = wire(c.whole(32))
    fields: tuple[ShardingField, ...] = wire(c.parts(ShardingField), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemWalDetails(Part):
    """Details of a table's shards.

    num_shards: planned number of shards; 0 without a plan.
    specs: sharding specifications.
    maintained: names of the indices that generations have, too, unless `maintain_all` is set.
    compacted, caught_up: merged generation of each shard (see `merged`), and the generation that
        each index covers.
    defaults: writer settings, as text.
    """

    num_shards: int = wire(c.whole(32), default=0)
    specs: tuple[ShardingSpec, ...] = wire(c.parts(ShardingSpec), name="sharding_specs", default=())
    maintained: tuple[str, ...] = wire(c.TEXTS, name="maintained_indexes", default=())
    compacted: tuple[CompactedSsTable, ...] = wire(
        GENERATIONS, name="compacted_sstables", default=()
    )
    caught_up: tuple[IndexCatchUp, ...] = wire(
        c.parts(IndexCatchUp), name="index_catchup", default=()
    )
    defaults: Mapping[str, str] = wire(
        c.TEXT_MAP, name="writer_config_defaults", default_factory=dict
    )
    maintain_all: bool | None = wire(c.MAYBE_BOOL, name="maintain_all_indexes", default=None)
    type_url: str = field(default=_TYPE_URL, repr=False)

    @property
    def merged(self) -> dict[UUID, int]:
        """Last merged generation of each shard; all generations below it are merged, too."""
        found: dict[UUID, int] = {}
        for one in self.compacted:
            found[one.shard_id] = max(one.generation, found.get(one.shard_id, 0))
        return found

    def with_merged(self, merged: Mapping[UUID, int]) -> MemWalDetails:
        """Return details with new merged generations for some shards."""
        left = dict(merged)
        changed = [
            replace(one, generation=left.pop(one.shard_id)) if one.shard_id in left else one
            for one in self.compacted
        ]
        new = [CompactedSsTable(shard, generation) for shard, generation in left.items()]
        return replace(self, compacted=(*changed, *new))


# cached, because each read requests the details of the newest version
@lru_cache(maxsize=64)
def parse_details(details: IndexDetails | None) -> MemWalDetails:
    """Parse the details of the entry; without an entry, return default details.

    Raises UnsupportedFeatureError: they are from a release before 2, which used the name for
        another message.
    Raises CorruptFileError: they are damaged.
    """
    if details is None:
        return MemWalDetails()
    what = f"details of {MEM_WAL}"
    message = parse(pb.MemWalIndexDetails, details.value, what)
    # in early releases field 1 is a list of logs, later a time
    if any(one.field_number == 1 and one.wire_type == 2 for one in iter(UnknownFieldSet(message))):
        raise UnsupportedFeatureError(
            f"The {what} are of a Lance release before 2, with another log format.",
            hint="Flush the logs with that release and drop the index, then initialize it again.",
            index=MEM_WAL,
        )
    return replace(decode(MemWalDetails, message), type_url=details.type_url)


def encode_details(details: MemWalDetails) -> IndexDetails:
    r"""Encode the details of the entry.

    Examples
    --------
    >>> encode_details(MemWalDetails(maintain_all=True)).value
    b'`\x01'
    """
    message = pb.MemWalIndexDetails()
    encode(details, message)
    return IndexDetails(details.type_url, message.SerializeToString(deterministic=True))


def details_of(indices: Iterable[IndexMetadata]) -> MemWalDetails | None:
    """Return the shard details of a version, ``None`` if it has no entry."""
    entry = mem_wal_entry(indices)
    return parse_details(entry.index_details) if entry else None


def merged_generations(details: IndexDetails | None) -> dict[UUID, int]:
    """Return the last merged generation of each shard."""
    return parse_details(details).merged


def with_generations(details: IndexDetails | None, merged: Mapping[UUID, int]) -> IndexDetails:
    """Encode details with new merged generations for some shards."""
    return encode_details(parse_details(details).with_merged(merged))
