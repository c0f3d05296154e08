"""What operations are made of, where that is more than one value (docs/format/table.md, 3.4).

Arguments come in pylance's order and under its names, where it has the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from lancekit.format import _codecs as c
from lancekit.format._codecs import Part, wire
from lancekit.format._operation_codecs import DATA_FILE, FRAGMENTS
from lancekit.format.data_file import DataFile
from lancekit.format.fragment import Fragment
from lancekit.format.index import DETAILS, INDEX_FILES, IndexDetails, IndexFile

__all__ = [
    "GENERATIONS",
    "CompactedSsTable",
    "DataReplacementGroup",
    "FieldMetadataUpdate",
    "RewriteGroup",
    "RewrittenIndex",
    "UpdateMap",
]


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
    new_file: DataFile = wire(DATA_FILE)
