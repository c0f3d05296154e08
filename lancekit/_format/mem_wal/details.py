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
    """Of an index: up to which generation of each shard it covers what was merged."""

    index_name: str = wire(c.TEXT)
    generations: tuple[CompactedSsTable, ...] = wire(
        GENERATIONS, name="caught_up_generations", default=()
    )


@dataclass(frozen=True, slots=True)
class ShardingField(Part):
    """A value that is made of each row, and tells its shard."""

    field_id: str = wire(c.TEXT)
    source_ids: tuple[int, ...] = wire(c.wholes(32, signed=True), default=())
    transform: str | None = wire(c.MAYBE_TEXT, default=None)
    expression: str | None = wire(c.MAYBE_TEXT, default=None)
    result_type: str = wire(c.TEXT, default="")
    parameters: Mapping[str, str] = wire(c.TEXT_MAP, default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShardingSpec(Part):
    """How rows are given to shards."""

    spec_id: int = wire(c.whole(32))
    fields: tuple[ShardingField, ...] = wire(c.parts(ShardingField), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemWalDetails(Part):
    """What the table says of its shards.

    num_shards: how many there are to be; 0 if that is open.
    specs: how rows are given to shards.
    maintained: the names of the indices that generations have, unless they have `maintain_all`.
    compacted, caught_up: what was merged of each shard, and what each index covers of it (`merged`,
        `catch_up`).
    defaults: the settings of writers, as text.
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
        """The last merged generation of each shard; none below is left to be merged."""
        return _highest(self.compacted)

    @property
    def catch_up(self) -> dict[str, dict[UUID, int]]:
        """Of each index, up to which generation of each shard it covers what was merged."""
        return {one.index_name: _highest(one.generations) for one in self.caught_up}

    def with_merged(self, merged: Mapping[UUID, int]) -> MemWalDetails:
        """Return details in which some shards are merged up to another generation."""
        left = dict(merged)
        changed = [
            replace(one, generation=left.pop(one.shard_id)) if one.shard_id in left else one
            for one in self.compacted
        ]
        new = [CompactedSsTable(shard, generation) for shard, generation in left.items()]
        return replace(self, compacted=(*changed, *new))


def _highest(compacted: Iterable[CompactedSsTable]) -> dict[UUID, int]:
    found: dict[UUID, int] = {}
    for one in compacted:
        found[one.shard_id] = max(one.generation, found.get(one.shard_id, 0))
    return found


# those of the newest version are asked for with each read
@lru_cache(maxsize=64)
def parse_details(details: IndexDetails | None) -> MemWalDetails:
    """Parse the details of the entry; those of no entry say nothing.

    Raises UnsupportedFeatureError: they are of a release before 2, which has another message under
        the name.
    Raises CorruptFileError: they are damaged.
    """
    if details is None:
        return MemWalDetails()
    what = f"details of {MEM_WAL}"
    message = parse(pb.MemWalIndexDetails, details.value, what)
    # a list of logs once, then a time
    if any(one.field_number == 1 and one.wire_type == 2 for one in iter(UnknownFieldSet(message))):
        raise UnsupportedFeatureError(
            f"The {what} are of a release of Lance before 2, whose write-ahead logs are others.",
            hint="Have that release flush its logs and drop the index, then initialize anew.",
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
    """Return what a version says of its shards, ``None`` if it has no entry."""
    entry = mem_wal_entry(indices)
    return parse_details(entry.index_details) if entry else None


def merged_generations(details: IndexDetails | None) -> dict[UUID, int]:
    """Return the last merged generation of each shard."""
    return parse_details(details).merged


def with_generations(details: IndexDetails | None, merged: Mapping[UUID, int]) -> IndexDetails:
    """Return details in which some shards are merged up to another generation."""
    return encode_details(parse_details(details).with_merged(merged))
