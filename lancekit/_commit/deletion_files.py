"""Writing deletion files."""

from __future__ import annotations

import secrets
import zlib

from pyroaring import BitMap

from lancekit._format.deletions import choose_kind, encode_deletions
from lancekit._format.fragment import DeletionFile, DeletionKind
from lancekit._storage.base import Bytes, Store

__all__ = ["is_other_file", "write_deletions"]

#: the upper half of a number in the name of a file that has a checksum in the lower half
_CHECKED = 0x6C6B6372


def write_deletions(
    store: Store,
    fragment_id: int,
    read_version: int,
    deleted: BitMap,
    kind: DeletionKind | None = None,
    *,
    checked: bool = False,
) -> DeletionFile:
    """Write the complete set of a fragment's deleted offsets under a fresh name.

    With ``checked`` the name has a checksum of the file: the format has no place for checksums.
    """
    kind = kind or choose_kind(deleted)
    data = encode_deletions(deleted, kind)
    file = DeletionFile(
        file_type=kind,
        read_version=read_version,
        id=_checksum(data) if checked else secrets.randbits(64),
        num_deleted_rows=len(deleted),
    )
    store.put(file.name(fragment_id), data)
    return file


def is_other_file(file: DeletionFile, data: Bytes) -> bool:
    """Return True if the name of a deletion file has a checksum, and the file has another."""
    return file.id >> 32 == _CHECKED and file.id != _checksum(data)


def _checksum(data: Bytes) -> int:
    return _CHECKED << 32 | zlib.crc32(data)
