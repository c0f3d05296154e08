"""Index metadata: the index section of a manifest.  What is inside an index is out of scope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from lancekit.format.pb import table_pb2 as pb
from lancekit.format.wire import parse

__all__ = ["IndexMetadata", "index_from_pb", "index_to_pb", "parse_index_section"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMetadata:
    """One segment of an index; several segments of one index share its name.

    `encoded` is the whole message: whatever is not modelled is written back as it was read.
    """

    uuid: UUID
    name: str
    fields: tuple[int, ...]
    dataset_version: int
    type_url: str
    base_id: int | None
    encoded: bytes

    @property
    def is_system(self) -> bool:
        """Whether the table format itself owns it (fragment reuse, MemWAL)."""
        return self.name.startswith("__lance_")


def index_from_pb(message: pb.IndexMetadata) -> IndexMetadata:
    """Decode one segment."""
    return IndexMetadata(
        uuid=UUID(bytes=message.uuid.uuid.rjust(16, b"\0")[:16]),
        name=message.name,
        fields=tuple(message.fields),
        dataset_version=message.dataset_version,
        type_url=message.index_details.type_url,
        base_id=message.base_id if message.HasField("base_id") else None,
        encoded=message.SerializeToString(),
    )


def index_to_pb(index: IndexMetadata) -> pb.IndexMetadata:
    """Encode one segment: as it was read, with the base id it has now."""
    message = parse(pb.IndexMetadata, index.encoded, f"metadata of index {index.name!r}")
    if index.base_id is not None:
        message.base_id = index.base_id
    return message


def parse_index_section(data: bytes, where: str) -> tuple[IndexMetadata, ...]:
    """Decode the index section of a manifest."""
    section = parse(pb.IndexSection, data, f"index section of {where}")
    return tuple(map(index_from_pb, section.indices))


def encode_index_section(indices: Iterable[IndexMetadata]) -> bytes:
    """Encode the index section of a manifest."""
    return pb.IndexSection(indices=map(index_to_pb, indices)).SerializeToString()
