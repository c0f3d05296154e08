"""Full-text indices that several processes make in one folder, and then commit by hand.

Each makes a part of some fragments; one puts the parts together, and commits an index of the
folder's UUID.  The parts of pylance and of lancekit are alike.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

from lancekit.errors import InvalidArgumentError
from lancekit.format.index import IndexFile, IndexMetadata
from lancekit.format.operations import CreateIndex, Operation
from lancekit.index.build.builders import parsed_parameters
from lancekit.index.build.files import add_files, segment_folder
from lancekit.index.build.full_text import STAGING, TextRows, read_staged
from lancekit.index.kinds import INVERTED
from lancekit.index.segment import Segment
from lancekit.operations.index.by_parts import check_fragments
from lancekit.operations.index.segments import indexed_field, read_rows
from lancekit.versions.snapshot import Snapshot

__all__ = ["merge_staged", "stage_part", "with_files"]

#: parts are numbered by the first of their fragments, which stands in the upper half
_FRAGMENT = 32


def stage_part(
    snapshot: Snapshot,
    path: str,
    fragment_ids: Collection[int],
    parameters: Mapping[str, Any],
    uuid: UUID | None,
) -> None:
    """Make a part of a full-text index, of some fragments.

    Raises
    ------
    InvalidArgumentError
        A fragment is not there, or none is named.
    ColumnNotFoundError, InvalidTypeError
        There is no such column, or it holds no text.
    """
    column = indexed_field(snapshot, path, INVERTED)
    check_fragments(snapshot, fragment_ids)
    rows = read_rows(snapshot, column, INVERTED, fragment_ids)
    content = TextRows.build(rows, **parsed_parameters(INVERTED, parameters))
    number = min(fragment_ids) << _FRAGMENT
    for _ in add_files(snapshot.store, uuid or uuids.uuid4(), content.staged(number), over=True):
        pass


def merge_staged(snapshot: Snapshot, uuid: UUID) -> None:
    """Put the parts of an index together; nothing is done if they were before.

    Raises
    ------
    InvalidArgumentError
        There are no such parts, or they were not made alike.
    """
    store, folder = snapshot.store, segment_folder(uuid)
    there = {info.name for info in store.list_tree(folder)}
    names = [name.rpartition("/")[2] for name in there if f"/{STAGING}" in name]
    if not names and any(name.endswith(f"/{file}") for file in INVERTED.files for name in there):
        return
    found = read_staged(Segment(IndexMetadata(uuid, ""), INVERTED, store), names)
    for _ in add_files(store, uuid, found.files(), over=True):
        pass
    with suppress(OSError):  # a cleanup removes them
        store.delete_tree(f"{folder}/{STAGING.rstrip('/')}")


def with_files(operation: Operation, read: Snapshot) -> Operation:
    """Return an operation whose new indices say which files they have, where they do not yet."""
    if not isinstance(operation, CreateIndex):
        return operation
    return replace(operation, new_indices=tuple(_told(one, read) for one in operation.new_indices))


def _told(index: IndexMetadata, read: Snapshot) -> IndexMetadata:
    if index.files or index.is_system:
        return index
    folder = segment_folder(index.uuid)
    found = read.base_store(index.base_id).list_tree(folder)
    names = ((info.name.rpartition(f"{folder}/")[2], info.size) for info in found)
    files = tuple(IndexFile(name, size) for name, size in sorted(names) if "/" not in name)
    if not files:
        raise InvalidArgumentError(
            f"The parts of index {index.name!r} are not put together.",
            hint="Call merge_index_metadata() before the commit.",
            index=index.name,
        )
    return replace(index, files=files)
