"""What operations are made of, where that is more than one value (docs/format/table.md, 3.4).

Arguments come in pylance's order and under its names, where it has the class.
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

# ---- how the parts that several operations hold are read, written and accepted


def _get_key_filter(message: Message, name: str) -> KeyFilter | None:
    if not message.HasField(name):
        return None
    stored = getattr(message, name)
    ids = tuple(stored.field_ids)
    if stored.WhichOneof("data") == "exact":
        hashes = np.unique(np.array(stored.exact.key_hashes, dtype=np.uint64))
        return ExactKeySet(field_ids=ids, hashes=hashes)
    bloom = stored.bloom  # unset reads as an empty bitmap, which conflicts with everything
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
    """How an update stored changed rows: as new rows, or in place as new column files."""

    REWRITE_ROWS = "rewrite_rows"
    REWRITE_COLUMNS = "rewrite_columns"


_MODES = tuple(UpdateMode)


def _accept_mode(value: object, what: str) -> UpdateMode:
    try:
        return UpdateMode(cast("str", value or UpdateMode.REWRITE_ROWS))
    except ValueError:
        raise InvalidArgumentError(
            f"{what} is {shown(value)}; it has to be one of {', '.join(_MODES)}.", value=value
        ) from None


def _get_mode(message: object, name: str) -> UpdateMode:
    stored: int = getattr(message, name)
    # a mode of a newer release: as new columns, which makes every rule look at the fields too
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
# pylance says with None that there are none
BASES = replace(
    _BASES, accept=lambda given, what: _BASES.accept(() if given is None else given, what)
)
_DATA_FILE = c.one_message(DataFile, data_file_from_pb, data_file_to_pb, "a DataFile")
KEY_FILTER = Codec(_get_key_filter, _put_key_filter, _accept_key_filter)
MODE = Codec(_get_mode, lambda m, name, value: setattr(m, name, _MODES.index(value)), _accept_mode)
NUMBERS_BY_ID = Codec(_get_numbers, _put_numbers, c.mapping_of_numbers)


@dataclass(frozen=True, slots=True)
class RewriteGroup(Part):
    """Fragments replaced by others that hold the same rows."""

    old_fragments: tuple[Fragment, ...] = wire(FRAGMENTS, default=())
    new_fragments: tuple[Fragment, ...] = wire(FRAGMENTS, default=())


@dataclass(frozen=True, slots=True, init=False)
class RewrittenIndex(Part):
    """A segment whose entries were moved to the new fragments, and the one that it replaces.

    What kind of index the new one is can be said in pylance's way too: as two arguments.
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
        """The kind of index; empty where nothing is said."""
        return self.details.type_url if self.details else ""

    @property
    def new_details_value(self) -> bytes:
        """The encoded parameters of the index."""
        return self.details.value if self.details else b""


@dataclass(frozen=True, slots=True)
class CompactedSsTable(Part):
    """Up to which generation a shard is merged into the table, or an index has caught up."""

    shard_id: UUID = wire(c.UUIDS)
    generation: int = wire(c.whole())


GENERATIONS = c.parts(CompactedSsTable)


@dataclass(frozen=True, slots=True)
class UpdateMap(Part):
    """Changes of one string map; a value of ``None`` deletes the key.

    With `replace`, the map becomes exactly the entries that have a value.
    """

    updates: Mapping[str, str | None] = wire(c.ENTRIES, name="update_entries", default_factory=dict)
    replace: bool = wire(c.BOOL, default=False)

    @property
    def entries(self) -> Mapping[str, str | None]:
        """The changes, under the name that the format has for them."""
        return self.updates

    def apply(self, old: Mapping[str, str]) -> dict[str, str]:
        """Return the map after the changes."""
        merged = {**({} if self.replace else old), **self.updates}
        return {key: value for key, value in merged.items() if value is not None}


@dataclass(frozen=True, slots=True)
class FieldMetadataUpdate(Part):
    """The obsolete form of a field's new metadata: all of it."""

    metadata: Mapping[str, str] = wire(c.TEXT_MAP, default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataReplacementGroup(Part):
    """A data file that takes the place of one with the same fields."""

    fragment_id: int = wire(c.whole())
    new_file: DataFile = wire(_DATA_FILE)
