"""Whether index segments that an operation made by hand names are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from lancekit._format import names
from lancekit._format.index import FRAGMENT_REUSE, IndexMetadata
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError

__all__ = ["check_index_folders", "check_indices"]

#: the entries that the table format itself owns, by the ends of their types
_SYSTEM: Mapping[str, str] = {
    FRAGMENT_REUSE: ".FragmentReuseIndexDetails",
    MEM_WAL: ".MemWalIndexDetails",
}


def check_indices(indices: Iterable[IndexMetadata], read: Snapshot) -> None:
    """Raise if new segments could not be used.

    Raises
    ------
    InvalidArgumentError
        A segment has no files, is of a field that is not there, or takes a name that the format
        keeps for itself.
    """
    known = {index.uuid for index in read.indices}
    fields = {field.id for field in read.manifest.schema.walk()}
    new = []
    for index in indices:
        if index.name in _SYSTEM:
            if not index.type_url.endswith(_SYSTEM[index.name]):
                raise InvalidArgumentError(
                    f"The name {index.name!r} is kept for the table format's own entries; an "
                    f"index of type {index.type_url or 'unknown'!r} cannot have it.",
                    hint="Give the index another name.",
                    index=index.name,
                )
            continue
        if lost := [id_ for id_ in index.fields if id_ not in fields]:
            raise InvalidArgumentError(
                f"Index {index.name!r} is of field {lost[0]}, which is not in the schema.",
                hint=f"The schema's fields have the ids {sorted(fields)}.",
                index=index.name,
            )
        if index.uuid not in known:
            new.append((index.uuid, index.base_id))
    check_index_folders(new, read)


def check_index_folders(segments: Iterable[tuple[UUID, int | None]], read: Snapshot) -> None:
    """Raise ``InvalidArgumentError`` if a segment, named with its base, has no files."""
    for uuid, base_id in segments:
        try:
            store = read.base_store(base_id)
        except CorruptFileError as error:
            raise InvalidArgumentError(f"Index {uuid}: {error.message}") from error
        if not store.first_names(f"{names.INDICES}/{uuid}").names:
            raise InvalidArgumentError(
                f"There are no files of index {uuid} in {store.uri}/{names.INDICES}.",
                hint="Write the index before the commit.",
                uuid=str(uuid),
            )
