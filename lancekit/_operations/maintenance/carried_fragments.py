"""Fragments that another dataset or branch gets: which files come along, and their names."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from lancekit._commit.manifest.clone import with_bases
from lancekit._format import names
from lancekit._format.external_sequences import SEQUENCES, external_sequence
from lancekit._format.field_marks import is_blob_v2
from lancekit._format.fragment import DataFile, Fragment
from lancekit._format.manifest import BasePath
from lancekit._operations.maintenance.copies import Copy, managed_files, side_files
from lancekit._storage.base import Store
from lancekit._versions.snapshot import FileLocation, Snapshot

__all__ = ["carried_fragments", "referred_fragments", "remove_copies"]


def carried_fragments(
    source: Snapshot, fragments: Iterable[Fragment], home: Snapshot | None = None
) -> tuple[list[Fragment], list[Copy]]:
    """Return fragments of a version with the names that their files get, and what to copy.

    Files that ``home`` reaches stay where they are, but for those of branches and of other
    datasets, which may go: cleanups of another dataset know nothing of ``home``.
    """
    base = _bases(source, home)
    blobs = any(is_blob_v2(field.metadata) for field in source.manifest.schema.walk())
    listed: dict[Store, list[str]] = {}
    renamed: list[Fragment] = []
    copies: list[Copy] = []
    external: set[str] = set()
    copied: dict[int, list[int]] = {}
    for fragment in fragments:
        files = []
        for place, file in enumerate(fragment.files):
            location = source.data_file(file)
            folder = str(location).removesuffix(f"/{file.path}")
            if folder in base:
                files.append(replace(file, base_id=base[folder]))
                continue
            new = replace(file, path=names.data_file_name(uuid.uuid4()), base_id=None)
            files.append(new)
            copied.setdefault(fragment.id, []).append(place)
            copies.append(Copy(source=location, name=f"{names.DATA}/{new.path}", fresh=True))
            if blobs:
                copies.extend(side_files(location, new.path, listed))
        deletion, old = fragment.deletion_file, source.deletion_file(fragment)
        if deletion is not None and old is not None:
            deletion = replace(deletion, base_id=None)
            if home is None or old.store != home.store:
                deletion = replace(deletion, id=secrets.randbits(64))
                copies.append(Copy(source=old, name=deletion.name(fragment.id), fresh=True))
        places = (external_sequence(fragment, name) for name in SEQUENCES)
        external.update(place.path for place in places if place is not None)
        renamed.append(replace(fragment, files=tuple(files), deletion_file=deletion))
    copies.extend(managed_files(source, copied))
    copies.extend(
        Copy(source=FileLocation(source.store, path), name=path) for path in sorted(external)
    )
    return renamed, copies


def _bases(source: Snapshot, home: Snapshot | None) -> dict[str, int | None]:
    """Return the folders in which files may stay that a version gets, each with its base path."""
    if home is None:
        return {}
    is_other = source.line.root != home.line.root
    bases = (b.id for b in home.manifest.base_paths if not (is_other and b.is_dataset_root))
    file = DataFile("x", ())
    folders = {
        str(home.data_file(replace(file, base_id=id_))).removesuffix("/x"): id_
        for id_ in (None, *bases)
    }
    branches = f"{home.line.root.uri}/{names.TREE}/"
    return {
        folder: id_
        for folder, id_ in folders.items()
        if id_ is None or not folder.startswith(branches)
    }


def referred_fragments(
    source: Snapshot, fragments: Iterable[Fragment], home: Snapshot
) -> tuple[list[Fragment], list[BasePath]]:
    """Return fragments of a version as ``home`` has them if no file is copied.

    And the base paths that it lacks for that.
    """
    known = [None, *(base.id for base in home.manifest.base_paths)]
    ids = {home.base_place(id_): id_ for id_ in reversed(known)}
    taken, new = set(known), list[BasePath]()

    def base(base_id: int | None) -> int | None:
        place = source.base_place(base_id)
        if place not in ids:
            free = next(id_ for id_ in range(1, len(taken) + 2) if id_ not in taken)
            uri, is_root = place
            new.append(BasePath(id=free, path=uri, is_dataset_root=is_root))
            ids[place] = free
            taken.add(free)
        return ids[place]

    return [with_bases(fragment, base) for fragment in fragments], new


def remove_copies(target: Store, copies: Iterable[Copy]) -> None:
    """Remove what was brought, as far as nothing else can need it; never raises."""
    for copy in copies:
        if copy.fresh:
            with suppress(OSError):  # what is left over is for cleanup to find
                target.delete(copy.name)
