"""Composite values in operations (docs/format/table.md, 3.4).

Arguments have the order and names of pylance's classes, where these exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast
from uuid import UUID

import numpy as np
from google.protobuf.message import Message

from lancekit._format import _codecs as c
from lancekit._format._codecs import Codec, Part, wire
from lancekit._format.data_file import DataFile, data_file_from_pb, data_file_to_pb
from lancekit._format.fragment import Fragment, fragment_from_pb, fragment_to_pb
from lancekit._format.index import (
    DETAILS,
    INDEX_FILES,
    IndexDetails,
    IndexFile,
    IndexMetadata,
    index_from_pb,
    index_to_pb,
)
from lancekit._format.key_filter import BloomKeyFilter, ExactKeySet, KeyFilter
from lancekit._format.manifest import BasePath, base_path_from_pb, base_path_to_pb
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError

# ---- codecs of values that several operations share


def _get_key_filter(message: Message, name: str) -> KeyFilter | None:
    if not message.HasField(name):
        return None
    stored = getattr(message, name)
    ids = tuple(stored.field_ids)
    if stored.WhichOneof("data") == "exact":
        hashes = np.unique(np.array(stored.exact.key_hashes, dtype=np.uint64))
        return ExactKeySet(field_ids=ids, hashes=hashes)
    bloom = stored.bloom  # unset is an empty bitmap, which conflicts with all
    return BloomKeyFilter(
        field_ids=ids,
        bitmap=bloom.bitmap,
        num_bits=bloom.num_bits,
        number_of_items=bloom.number_of_items or 8192,
        probability=bloom.probability or 0.00057,
    )


def _put_key_filter(message: object, name: str, value: KeyFilter | None) -> None:
    if value is None:
        return
    stored = getattr(message, name)
    stored.field_ids.extend(value.field_ids)
    if isinstance(value, ExactKeySet):
        stored.exact.SetInParent()
        stored.exact.key_hashes.extend(value.hashes.tolist())
    else:
        stored.bloom.bitmap = value.bitmap
        stored.bloom.num_bits = value.num_bits
        stored.bloom.number_of_items = value.number_of_items
        stored.bloom.probability = value.probability


def _accept_key_filter(value: object, what: str) -> KeyFilter | None:
    if value is None or isinstance(value, ExactKeySet | BloomKeyFilter):
        return value
    raise c.wrong_type(value, what, "a key filter or None")


class UpdateMode(StrEnum):
    """Storage of an update's changed rows: as new rows, or in place as new column files."""

    REWRITE_ROWS = "rewrite_rows"
    REWRITE_COLUMNS = "rewrite_columns"


_MODES = tuple(UpdateMode)


def _accept_mode(value: object, what: str) -> UpdateMode:
    try:
        return UpdateMode(cast("str", value or UpdateMode.REWRITE_ROWS))
    except ValueError:
        raise InvalidArgumentError(
            f"{what} must be one of {', '.join(_MODES)}, got {shown(value)}.", value=value
        ) from None


def _get_mode(message: object, name: str) -> UpdateMode:
    stored: int = getattr(message, name)
    # an unknown newer mode counts as new columns, so all conflict rules also compare fields
    return _MODES[min(stored, len(_MODES) - 1)]


def _get_numbers(message: object, name: str) -> dict[int, tuple[int, ...]]:
    return {key: tuple(value.values) for key, value in getattr(message, name).items()}


def _put_numbers(message: object, name: str, lists: Mapping[int, tuple[int, ...]]) -> None:
    for key, values in lists.items():
        getattr(message, name)[key].values.extend(values)


FRAGMENTS = c.messages(
    Fragment, fragment_from_pb, fragment_to_pb, "a FragmentMetadata", ("id", "physical_rows")
)
INDICES = c.messages(IndexMetadata, index_from_pb, index_to_pb, "an IndexMetadata")
_BASES = c.messages(BasePath, base_path_from_pb, base_path_to_pb, "a base path")
# pylance passes None for no base paths
BASES = replace(
    _BASES, accept=lambda given, what: _BASES.accept(() if given is None else given, what)
)
_DATA_FILE = c.one_message(DataFile, data_file_from_pb, data_file_to_pb, "a DataFile")
KEY_FILTER = Codec(_get_key_filter, _put_key_filter, _accept_key_filter)
MODE = Codec(_get_mode, lambda m, name, value: setattr(m, name, _MODES.index(value)), _accept_mode)
NUMBERS_BY_ID = Codec(_get_numbers, _put_numbers, c.mapping_of_numbers)


@dataclass(frozen=True, slots=True)
class RewriteGroup(Part):
    """Old fragments, and the new fragments with the same rows that replace them."""

    old_fragments: tuple[Fragment, ...] = wire(FRAGMENTS, default=())
    new_fragments: tuple[Fragment, ...] = wire(FRAGMENTS, default=())


@dataclass(frozen=True, slots=True, init=False)
class RewrittenIndex(Part):
    """Index segment that was moved to new fragments, and the segment that it replaces.

    The new segment's details can also be passed as pylance's two arguments.
    """

    old_id: UUID = wire(c.UUIDS)
    new_id: UUID = wire(c.UUIDS)
    details: IndexDetails | None = wire(DETAILS, name="new_index_details")
    new_index_version: int | None = wire(c.nonzero_whole(32))
    files: tuple[IndexFile, ...] = wire(INDEX_FILES, name="new_index_files")

    def __init__(
        self,
        old_id: UUID | str,
        new_id: UUID | str,
        new_details_type_url: str = "",
        new_details_value: bytes = b"",
        new_index_version: int | None = None,
        files: Iterable[IndexFile] = (),
        *,
        details: IndexDetails | None = None,
        unknown: bytes = b"",
    ) -> None:
        if new_details_type_url:
            details = IndexDetails(new_details_type_url, new_details_value)
        put = object.__setattr__
        put(self, "old_id", old_id)
        put(self, "new_id", new_id)
        put(self, "details", details)
        put(self, "new_index_version", new_index_version)
        put(self, "files", files)
        put(self, "unknown", unknown)
        self.__post_init__()

    @property
    def new_details_type_url(self) -> str:
        """Type URL of the new index; empty if it is not stored."""
        return self.details.type_url if self.details else ""

    @property
    def new_details_value(self) -> bytes:
        """Encoded parameters of the new index."""
        return self.details.value if self.details else b""


@dataclass(frozen=True, slots=True)
class CompactedSsTable(Part):
    """Generation up to which a shard is merged into the table, or an index has caught up."""

    shard_id: UUID = wire(c.UUIDS)
    generation: int = wire(c.whole())


GENERATIONS = c.parts(CompactedSsTable)


@dataclass(frozen=True, slots=True)
class UpdateMap(Part):
    """Changes of a string map; a value of ``None`` deletes the key.

    With `replace`, the map becomes the entries that have a value.
    """

    updates: Mapping[str, str | None] = wire(c.ENTRIES, name="update_entries", default_factory=dict)
    replace: bool = wire(c.BOOL, default=False)

    @property
    def entries(self) -> Mapping[str, str | None]:
        """The changes, with the format's name for them."""
        return self.updates

    def apply(self, old: Mapping[str, str]) -> dict[str, str]:
        """Apply the changes to a map."""
        merged = {**({} if self.replace else old), **self.updates}
        return {key: value for key, value in merged.items() if value is not None}


@dataclass(frozen=True, slots=True)
class FieldMetadataUpdate(Part):
    """Obsolete form of an update of field metadata: the complete new metadata."""

    metadata: Mapping[str, str] = wire(c.TEXT_MAP, default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataReplacementGroup(Part):
    """Data file that replaces a file with the same fields."""

    fragment_id: int = wire(c.whole())
    new_file: DataFile = wire(_DATA_FILE)
