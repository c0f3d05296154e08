"""Copies of fragments and files from another place, with their blobs, deletions and indices."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from lancekit._commit.manifest.clone import with_bases
from lancekit._file.reader import FileReader
from lancekit._format import names
from lancekit._format.external_sequences import SEQUENCES, external_sequence
from lancekit._format.field_marks import is_blob_v2
from lancekit._format.fragment import DataFile, Fragment
from lancekit._format.index import IndexMetadata
from lancekit._format.manifest import BasePath
from lancekit._scan.fragments.managed_blobs import managed_blobs
from lancekit._scan.fragments.source import fragment_sources
from lancekit._storage.base import RandomAccess, Store
from lancekit._storage.places import check_trusted_file
from lancekit._versions.snapshot import FileLocation, Snapshot, missing_file
from lancekit.errors import CorruptFileError
from lancekit.progress import step

#: bytes of a file in memory at once, in each copying thread
COPY_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A file to copy, and the name of the copy; `fresh` if no other file can get this name."""

    source: FileLocation
    name: str
    fresh: bool = False


def side_files(location: FileLocation, path: str, listed: dict[Store, list[str]]) -> Iterator[Copy]:
    """Yield the copies of the blob files beside a data file.

    location: the data file.
    path: the path of its copy.
    listed: a cache of the blob files in each store.
    """
    store = location.store
    if store not in listed:
        folder = location.name.rpartition("/")[0]
        listed[store] = [name for name in _names_in(store, folder) if name.endswith(".blob")]
    old = location.name.removesuffix(".lance")
    stem = f"{names.DATA}/{path.removesuffix('.lance')}"
    for name in listed[store]:
        if name.startswith(f"{old}/"):
            yield Copy(
                source=FileLocation(store, name), name=stem + name.removeprefix(old), fresh=True
            )


def managed_files(source: Snapshot, copied: Mapping[int, Collection[int]]) -> Iterator[Copy]:
    """Yield the copies of the blob files that copied data files refer to, under the same names.

    A blob in a base path is not copied: the copy of the data file refers to this base path, too.

    source: the version.
    copied: the positions of copied data files, by fragment id.
    """
    if not source.manifest.has_managed_blobs:
        return
    objects = {
        blob.path: found.files[blob.file_index].store
        for found in fragment_sources(source)
        if found.fragment.id in copied
        for blob in managed_blobs(found)
        if blob.base_id is None and blob.file_index in copied[found.fragment.id]
    }
    for path, store in sorted(objects.items()):
        yield Copy(source=FileLocation(store, path), name=path, fresh=True)


def index_files(source: Snapshot, index: IndexMetadata) -> Iterator[Copy]:
    """Yield the copies of an index segment's files, under their names.

    Raises CorruptFileError: a file is missing.
    """
    folder = f"{names.INDICES}/{index.uuid}"
    store = source.base_store(index.base_id)
    found = set(_names_in(store, folder))
    for file in index.files:
        if f"{folder}/{file.path}" not in found:
            raise missing_file(FileLocation(store, f"{folder}/{file.path}"), source.version)
    for name in sorted(found):
        yield Copy(source=FileLocation(store, name), name=name)


def _names_in(store: Store, folder: str) -> Iterator[str]:
    for file in store.list_tree(folder):
        if not file.regular:
            raise CorruptFileError(
                f"{store.uri}/{file.name} is a link or a special file and cannot be copied.",
                hint="Replace it with a regular file or folder.",
                path=f"{store.uri}/{file.name}",
            )
        yield file.name


def opened(copy: Copy) -> RandomAccess:
    """Open a file to copy; its bytes are not checked, so it must not be an untrusted file.

    Raises CorruptFileError: the file has a data file's name but is not one.
    """
    check_trusted_file(str(copy.source), copy.source.store)
    reader = copy.source.store.open(copy.source.name, copy.source.size)
    if copy.name.endswith(".lance") and copy.name.startswith(f"{names.DATA}/"):
        FileReader.open(reader)  # a base path may lead to files of any kind
    return reader


def carry_out(copy: Copy, target: Store, version: int, *, link: bool = False) -> int:
    """Copy a file in parts, and return its size in bytes.

    link: let the stores link or copy the file if possible, see `Store.adopt`; needs a free name.

    Raises CorruptFileError: the file is missing, or has a data file's name but is not one.
    """
    try:
        reader = opened(copy)
        size = reader.size()
        if link and target.adopt(copy.name, copy.source.store, copy.source.name):
            return size
        # an interrupted attempt may have left a file, unless the name is fresh
        sink = target.create(copy.name) if copy.fresh else target.create_over(copy.name)
        try:
            for start in range(0, size, COPY_BYTES):
                step()
                sink.write(reader.read(start, min(COPY_BYTES, size - start)))
            sink.close()
        except BaseException:
            sink.abort()
            raise
    except FileNotFoundError as error:
        raise missing_file(copy.source, version) from error
    return size


# ---- fragments for another dataset or branch: the files to copy, and their names


def carried_fragments(
    source: Snapshot, fragments: Iterable[Fragment], home: Snapshot | None = None
) -> tuple[list[Fragment], list[Copy]]:
    """Return fragments of a version with the new names of their files, and the copies to make.

    ``home`` is the version that gets the fragments, ``None`` for a new dataset.  Files in folders
    that it reads are not copied, except in folders of branches and of other datasets: their
    cleanups do not know of ``home``, and may remove the files.
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
    """Return the folders whose files need no copy for ``home``, each with its base id."""
    if home is None:
        return {}
    is_other = source.location.root != home.location.root
    bases = (b.id for b in home.manifest.base_paths if not (is_other and b.is_dataset_root))
    file = DataFile("x", ())
    folders = {
        str(home.data_file(replace(file, base_id=id_))).removesuffix("/x"): id_
        for id_ in (None, *bases)
    }
    branches = f"{home.location.root.uri}/{names.TREE}/"
    return {
        folder: id_
        for folder, id_ in folders.items()
        if id_ is None or not folder.startswith(branches)
    }


def referred_fragments(
    source: Snapshot, fragments: Iterable[Fragment], home: Snapshot
) -> tuple[list[Fragment], list[BasePath]]:
    """Return fragments with base ids of ``home``, so that no file is copied, and new base paths.

    The fragments need the new base paths, and ``home`` lacks them.
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
    """Remove copies that nothing else can need; never raise."""
    for copy in copies:
        if copy.fresh:
            with suppress(OSError):  # a cleanup removes the rest
                target.delete(copy.name)
