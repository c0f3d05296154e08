"""Packed versions: a zip file with a small complete dataset, which is not trusted when unpacked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lancekit._commit.clock import Clock
from lancekit._commit.manifest.build import build_manifest
from lancekit._commit.put_version import put_first_manifest
from lancekit._format import names
from lancekit._format.fragment import FragmentList
from lancekit._format.operations import Clone
from lancekit._format.transaction import Transaction
from lancekit._legible import shown
from lancekit._operations.common.new_file import (
    WrittenFiles,
    remove_leftovers,
    written_aside,
)
from lancekit._operations.maintenance.copies import (
    COPY_BYTES,
    Copy,
    carried_fragments,
    index_files,
    opened,
)
from lancekit._operations.maintenance.deepen import deep_clone
from lancekit._operations.unmerged.counts import waiting_rows
from lancekit._scan.fragments.managed_blobs import outside_blobs
from lancekit._scan.fragments.source import fragment_sources
from lancekit._storage.local import LocalStore
from lancekit._versions.branch_location import BranchLocation, check_new_place, open_location
from lancekit._versions.listing import latest_snapshot, list_versions
from lancekit._versions.snapshot import FileLocation, Snapshot, missing_file
from lancekit.errors import (
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidArgumentError,
    LancekitError,
    MemoryLimitError,
    NotOfferedError,
    StorageError,
)
from lancekit.progress import step, tracking

#: the entry with the size and the SHA-256 of every other entry
LISTING = "lancekit-pack.json"
_FORMAT = "lancekit pack 1"
_MOST_LISTED = 64 << 20
#: the same time in each entry, so that a version has the same pack on each day
_TIME = (1980, 1, 1, 0, 0, 0)
_FOLDERS = (
    names.DATA,
    names.DELETIONS,
    names.INDICES,
    names.BLOBS,
    names.VERSIONS,
    names.TRANSACTIONS,
)
#: errors of damaged zip files
_DAMAGED = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)


# ---- packing


def pack_version(source: Snapshot, path: Path, *, overwrite: bool) -> WrittenFiles:
    """Write a zip file with all files of one version, and a manifest that refers to no others.

    Raises DatasetExistsError: the file exists.
    Raises NotOfferedError: the version has blobs outside of the dataset.
    """
    _check_inside(source)
    fragments, copies = carried_fragments(source, source.manifest.fragments)
    copies.extend(copy for index in source.indices for copy in index_files(source, index))
    operation = Clone(
        is_shallow=False,
        ref_name=source.location.branch,
        ref_version=source.version,
        ref_path=source.location.root.uri.rpartition("/")[2],  # no path of this machine
    )
    manifest = replace(source.manifest, fragments=FragmentList.of(fragments))
    built = build_manifest(
        manifest, operation, timestamp_ns=Clock().now_ns(), indices=source.indices
    )
    built = built._replace(manifest=replace(built.manifest, base_paths=()))
    made = open_location(f"memory://pack-{uuid.uuid4()}")
    try:
        put_first_manifest(made, built, Transaction(source.version, operation))
        copies.extend(
            Copy(source=FileLocation(made.store, info.name), name=info.name)
            for info in made.store.list_tree()
        )
        with written_aside(path, overwrite=overwrite) as aside:
            _write_zip(aside, {copy.name: copy for copy in copies}, source.version)
            size = aside.stat().st_size
    finally:
        made.store.delete_tree("")
    entries = len({copy.name for copy in copies}) + 1
    rows = source.manifest.num_rows
    waiting = waiting_rows(source)
    return WrittenFiles(
        path=path, num_rows=rows, num_files=entries, num_bytes=size, waiting=waiting
    )


def _check_inside(source: Snapshot) -> None:
    for fragment in fragment_sources(source):
        for place in outside_blobs(fragment):
            raise NotOfferedError(
                f"{fragment.where} has a blob outside of the dataset: {shown(place)}.",
                hint="Rewrite the rows first, which copies their blobs: ds.update() can set a "
                "column to itself.",
                fragment=fragment.fragment.id,
            )


def _write_zip(path: Path, copies: Mapping[str, Copy], version: int) -> None:
    listed: dict[str, tuple[int, str]] = {}
    with (
        tracking("packing files", len(copies)) as tracker,
        zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED, compresslevel=1) as target,
    ):
        for name in sorted(copies):
            size, digest = 0, hashlib.sha256()
            try:
                reader = opened(copies[name])
                whole = reader.size()
                with target.open(_entry(name), "w", force_zip64=True) as entry:
                    for start in range(0, whole, COPY_BYTES):
                        step()
                        piece = reader.read(start, min(COPY_BYTES, whole - start))
                        digest.update(piece)
                        size += entry.write(piece)
            except FileNotFoundError as error:
                raise missing_file(copies[name].source, version) from error
            listed[name] = (size, digest.hexdigest())
            tracker.advance()
        text = json.dumps({"format": _FORMAT, "files": listed}, indent=0)
        target.writestr(_entry(LISTING), text)


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


# ---- unpacking


def unpack_version(
    path: Path,
    target: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    max_bytes: int,
) -> Snapshot:
    """Create a dataset from a pack, which is not trusted.

    Raises CorruptFileError: the file is no pack, or is damaged.
    Raises MemoryLimitError: the unpacked files have more than `max_bytes` bytes.
    Raises DatasetExistsError: there are files at the target.
    """
    location = _new_location(target, storage_options)
    with _extracted(path, location, max_bytes) as folder:
        try:
            return _cloned(open_location(folder), path.name, location)
        except (CorruptFileError, DatasetNotFoundError) as error:
            raise _damaged(path, error.message.replace(f"{folder}/", "").rstrip(".")) from error


def _cloned(unpacked: BranchLocation, name: str, location: BranchLocation) -> Snapshot:
    if len(list_versions(unpacked).versions) != 1:
        raise CorruptFileError("it does not have one version")
    source = latest_snapshot(unpacked)
    if source.manifest.base_paths or source.manifest.branch is not None:
        raise CorruptFileError("its manifest refers to other places")
    _check_inside(source)
    operation = Clone(is_shallow=False, ref_name=None, ref_version=source.version, ref_path=name)
    transaction = Transaction(source.version, operation)
    return deep_clone(source, location, transaction, Clock(), link=True)


def _new_location(
    target: str | os.PathLike[str], storage_options: Mapping[str, str] | None
) -> BranchLocation:
    location = open_location(target, storage_options)
    check_new_place(location)
    if location.store.list_tree():
        raise DatasetExistsError(
            f"There are files at {location.uri} already.",
            hint="Unpack to another place, or remove them first.",
            uri=location.uri,
        )
    return location


@contextmanager
def _extracted(path: Path, location: BranchLocation, max_bytes: int) -> Iterator[Path]:
    """Yield a temporary folder with the checked files of a pack, on the target's disk if it can."""
    parent = Path(location.uri).parent if isinstance(location.store, LocalStore) else None
    near = parent if parent is not None and parent.is_dir() else None
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise InvalidArgumentError(f"There is no file {str(path)!r}.") from error
    except (*_DAMAGED, OSError) as error:
        raise _damaged(path, str(error)) from error
    with archive:
        if near is not None:
            remove_leftovers(near, r"\.lancekit-unpack-[a-z0-9_]{8}")
        folder = Path(tempfile.mkdtemp(prefix=".lancekit-unpack-", dir=near))
        try:
            _extract(archive, path, folder, max_bytes)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _extract(archive: zipfile.ZipFile, path: Path, folder: Path, max_bytes: int) -> None:
    try:
        entries = _entries(archive, path, max_bytes)
        listed = _listed(archive, path, entries)
        for name, (size, digest) in listed.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            found, left = hashlib.sha256(), size
            with archive.open(entries[name]) as source, place.open("xb") as sink:
                while piece := source.read(min(COPY_BYTES, left + 1)):
                    step()
                    left -= len(piece)
                    if left < 0:
                        break
                    found.update(piece)
                    sink.write(piece)
            if left or found.hexdigest() != digest:
                raise _damaged(path, f"{shown(name)} has other bytes than its checksum says")
    except LancekitError:
        raise
    except _DAMAGED as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise StorageError(f"{str(path)!r} cannot be unpacked: {error}.") from error


def _entries(archive: zipfile.ZipFile, path: Path, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by name; the name, kind and size of each is checked."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        if not _is_inside(info.filename) or kind not in (0, stat.S_IFREG) or info.is_dir():
            raise _damaged(path, f"{shown(info.filename)} is no file inside of a dataset")
        if info.filename in found or info.orig_filename != info.filename:
            raise _damaged(path, f"{shown(info.filename)} is there twice")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _damaged(path, f"{shown(info.filename)} is compressed by another method")
        found[info.filename] = info
    size = sum(info.file_size for info in found.values())
    if size > max_bytes:
        raise MemoryLimitError(
            f"{str(path)!r} has {size:,} bytes when unpacked, more than max_bytes={max_bytes:,}.",
            hint=f"If you trust it, pass max_bytes={size}.",
        )
    return found


def _is_inside(name: str) -> bool:
    """Return True for the listing, and for a relative path in one of a dataset's folders."""
    parts = name.split("/")
    plain = all(part not in ("", ".", "..") and part.isprintable() for part in parts)
    is_file = len(parts) > 1 and parts[0] in _FOLDERS
    return name == LISTING or (plain and is_file and "\\" not in name and len(name) < 1024)


def _listed(
    archive: zipfile.ZipFile, path: Path, entries: Mapping[str, zipfile.ZipInfo]
) -> dict[str, tuple[int, str]]:
    """Return the size and the checksum of each file, which are those of the entries."""
    info = entries.get(LISTING)
    if info is None:
        raise _damaged(path, f"it has no {LISTING}")
    if info.file_size > _MOST_LISTED:
        raise _damaged(path, f"{LISTING} is too large")
    with archive.open(info) as file:
        stored = json.loads(file.read(_MOST_LISTED))
    match stored:
        case {"format": str(form), "files": dict(files)} if form == _FORMAT:
            listed = {name: _pair(one) for name, one in files.items()}
        case _:
            raise _damaged(path, f"{LISTING} has another form")
    sizes = {name: one.file_size for name, one in entries.items() if name != LISTING}
    if {name: size for name, (size, _) in listed.items()} != sizes:
        raise _damaged(path, "its entries are not those that it lists")
    return listed


def _pair(stored: object) -> tuple[int, str]:
    match stored:
        case [int(size), str(digest)]:
            return size, digest
    raise ValueError(f"{shown(stored)} is no size and checksum")


def _damaged(path: Path, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"{str(path)!r} is no pack of a dataset, or is damaged: {why}.",
        hint="Make it again with ds.pack(path).",
        file=str(path),
    )
