"""Writing deletion files."""

from __future__ import annotations

import secrets

from pyroaring import BitMap

from lancekit.format.deletions import choose_kind, encode_deletions
from lancekit.format.fragment import DeletionFile, DeletionKind
from lancekit.storage import Store

__all__ = ["write_deletions"]


def write_deletions(
    store: Store,
    fragment_id: int,
    read_version: int,
    deleted: BitMap,
    kind: DeletionKind | None = None,
) -> DeletionFile:
    """Write the complete set of a fragment's deleted offsets under a fresh name."""
    kind = kind or choose_kind(deleted)
    file = DeletionFile(
        file_type=kind,
        read_version=read_version,
        id=secrets.randbits(64),
        num_deleted_rows=len(deleted),
    )
    store.put(file.name(fragment_id), encode_deletions(deleted, kind))
    return file
