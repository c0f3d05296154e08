"""A loaded version of a dataset: its manifest, and the locations of its files."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import BitMap

from lancekit._cache import keep, look_up, remembered
from lancekit._format import names
from lancekit._format.fragment import DataFile, DeletionFile, Fragment
from lancekit._format.manifest import (
    FOOTER_BYTES,
    Manifest,
    manifest_position,
    parse_manifest,
    read_section,
)
from lancekit._format.names import ManifestNaming
from lancekit._lazy import cached_property
from lancekit._storage.base import METADATA_BYTES, Store, too_large
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.old_counts import counted
from lancekit.errors import CorruptFileError, InvalidArgumentError, VersionNotFoundError

if TYPE_CHECKING:
    from lancekit._format.index import IndexMetadata
    from lancekit._format.transaction import Transaction, TransactionSummary

_BARE = re.compile(r"[^/\\\0]+")

# bytes of a deletion file without rows; each row takes at most 12, in a sparse bitmap
_DELETION_BYTES = 1 << 16

#: the kind of manifests in the cache, and the memory of a parsed fragment
_KIND, _FRAGMENT_BYTES = "manifests", 2000

# a read of this many bytes usually covers a manifest and its other sections
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A file and its store; can be sent to a worker."""

    store: Store
    name: str
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.store.uri}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A version that was read: unlike a handle, it never moves.

    `sections` has the bytes before the manifest in its file: the indices and the transaction;
    ``None`` if the first read did not return them.  `mark` distinguishes the file from others of
    its name, if the store supports that.
    """

    location: BranchLocation
    manifest: Manifest
    naming: ManifestNaming
    manifest_size: int
    manifest_name: str
    sections: memoryview | None
    mark: str | None = None

    def __getstate__(self) -> dict[str, object]:
        # another process reads the sections again, if it needs them
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "sections": None}

    @property
    def version(self) -> int:
        """The version's number, on its branch."""
        return self.manifest.version

    @property
    def branch(self) -> str | None:
        """The branch, ``None`` for main."""
        return self.manifest.branch

    @property
    def identity(self) -> Hashable | None:
        """The identity of the manifest's file (see `Store.identity`), or ``None``."""
        return self.store.identity(f"{names.VERSIONS}/{self.manifest_name}", self.mark)

    @property
    def reference(self) -> tuple[str, int]:
        """The branch's name and the version, as users write them."""
        return self.location.name, self.version

    @property
    def called(self) -> str:
        """The name of the version in messages."""
        return f"version {self.version} of {self.location.name}"

    @property
    def row_schema(self) -> pa.Schema:
        """The schema of rows for users, with the extension types of this process."""
        from lancekit._format.extensions import resolved_schema

        return resolved_schema(self.manifest.schema.to_arrow())

    @property
    def store(self) -> Store:
        """The folder of the version's branch, where new files go."""
        return self.location.store

    def _base(self, base_id: int | None) -> tuple[Store, bool]:
        if base_id is None:
            return self.store, True
        base = self.manifest.base_path(base_id)
        try:
            return self.location.base(base.path), base.is_dataset_root
        except InvalidArgumentError as error:
            raise CorruptFileError(
                f"Version {self.version} of {self.store.uri} has an invalid base path "
                f"{base.path!r}: {error.message}",
                version=self.version,
                base_id=base_id,
            ) from error

    def base_place(self, base_id: int | None) -> tuple[str, bool]:
        """Return the folder of a base, and True if it is the root of a dataset."""
        store, is_root = self._base(base_id)
        return store.uri, is_root

    def base_store(self, base_id: int | None) -> Store:
        """Return the dataset folder of a base, or the branch's own for ``None``.

        Raises CorruptFileError: the base is no dataset root, and may have only data files.
        """
        store, is_root = self._base(base_id)
        if not is_root:
            raise CorruptFileError(
                f"Version {self.version} of {self.store.uri} has non-data files in base "
                f"path {base_id}, which is not the root of a dataset.",
                base_id=base_id,
            )
        return store

    def data_file(self, file: DataFile) -> FileLocation:
        """Return the location of a data file."""
        _check_bare(file.path, self)
        store, is_root = self._base(file.base_id)
        name = f"{names.DATA}/{file.path}" if is_root else file.path
        # old releases recorded wrong sizes of legacy files
        return FileLocation(store, name, None if file.is_legacy else file.size_bytes or None)

    def deletion_file(self, fragment: Fragment) -> FileLocation | None:
        """Return the location of a fragment's deletion file, ``None`` if nothing is deleted."""
        file = fragment.deletion_file
        if file is None:
            return None
        return FileLocation(self.base_store(file.base_id), file.name(fragment.id))

    def deleted_rows(self, fragment: Fragment) -> BitMap:
        """Return the deleted offsets of a fragment."""
        location = self.deletion_file(fragment)
        if location is None:
            return BitMap()
        return read_deletions(location, fragment, self.version)

    def fragment(self, fragment_id: int) -> Fragment | None:
        """Return a fragment by id."""
        return self.manifest.fragments.get(fragment_id)

    @cached_property
    def indices(self) -> tuple[IndexMetadata, ...]:
        """The segments of every index."""
        data = self._index_section()
        if data is None:
            return ()
        from lancekit._format.index import parse_index_section

        return parse_index_section(data, self.manifest_name)

    @cached_property
    def indexed_fields(self) -> frozenset[int]:
        """The ids of the indexed fields; filters of other fields query no index."""
        data = self._index_section()
        if data is None:
            return frozenset()
        from lancekit._format.batch_parse import indexed_fields

        return indexed_fields(data, self.manifest_name)

    def _index_section(self) -> bytes | None:
        if self.manifest.index_section is None:
            return None
        return bytes(read_section(self._whole(), self.manifest.index_section, self.manifest_name))

    @cached_property
    def transaction(self) -> Transaction | None:
        """The transaction of the version's commit; ``None`` if nothing is recorded."""
        from lancekit._format.transaction import parse_transaction

        encoded = self._encoded_transaction()
        return None if encoded is None else parse_transaction(*encoded)

    @property
    def transaction_summary(self) -> TransactionSummary | None:
        """The part of the transaction that lists of versions show, at a third of the cost."""
        from lancekit._format.transaction import summarize_transaction

        encoded = self._encoded_transaction()
        return None if encoded is None else summarize_transaction(*encoded)

    @property
    def transaction_uuid(self) -> str:
        """The uuid of the version's transaction; empty if nothing is recorded."""
        if file := self.manifest.transaction_file:
            return file.removesuffix(".txn").partition("-")[2]
        found = self.transaction
        return "" if found is None else found.uuid

    def _encoded_transaction(self) -> tuple[memoryview, str] | None:
        """Return the transaction's bytes, and their location."""
        offset, file = self.manifest.inline_transaction, self.manifest.transaction_file
        if offset is not None:
            return read_section(self._whole(), offset, self.manifest_name), self.manifest_name
        if not file:
            return None
        _check_bare(file, self)
        name = f"{names.TRANSACTIONS}/{file}"
        try:
            return memoryview(self.store.read(name)), name
        except FileNotFoundError as error:
            raise missing_file(FileLocation(self.store, name), self.version) from error

    def _whole(self) -> memoryview:
        if self.sections is not None:
            return self.sections
        return memoryview(self.store.read(f"{names.VERSIONS}/{self.manifest_name}"))


def read_deletions(location: FileLocation, fragment: Fragment, version: int) -> BitMap:
    """Read a fragment's deletion file, or copy its cached content."""
    file = fragment.deletion_file
    if file is None:
        return BitMap()
    # a file with a random 64-bit id keeps its content, so the manifest's data identify it
    mark = f"{file.num_deleted_rows} rows" if file.id >> 32 else None
    known = location.store.identity(location.name, mark)
    checked = known, file.file_type, file.num_deleted_rows, fragment.physical_rows
    return remembered(
        "deletions",
        None if known is None else checked,
        lambda: _read_deletions(location, file, fragment, version),
        _bitmap_bytes,
    ).copy()


def _read_deletions(
    location: FileLocation, file: DeletionFile, fragment: Fragment, version: int
) -> BitMap:
    from lancekit._format.deletions import decode_deletions

    try:
        data = location.store.read(location.name, _most(file, fragment))
    except FileNotFoundError as error:
        raise missing_file(location, version) from error
    return decode_deletions(
        data, file.file_type, str(location), fragment.physical_rows, file.num_deleted_rows
    )


def _bitmap_bytes(rows: BitMap) -> int:
    facts = rows.get_statistics()
    values = facts["n_bytes_array_containers"] + facts["n_bytes_bitset_containers"]
    return values + facts["n_bytes_run_containers"] + 64 * (1 + facts["n_containers"])


def _most(file: DeletionFile, fragment: Fragment) -> int:
    """Return the most bytes of a deletion file; old releases did not record its number of rows."""
    rows = file.num_deleted_rows or fragment.physical_rows
    return min(_DELETION_BYTES + 12 * rows, METADATA_BYTES) if rows else METADATA_BYTES


def missing_file(location: FileLocation, version: int) -> CorruptFileError:
    """Return the error for a file that a manifest lists and that does not exist."""
    hint = "A cleanup removed it, here or in the source of a clone; or someone did by hand."
    if not location.store.list_names(""):
        hint = (
            f"{location.store.uri} has no files. If that dataset was moved or renamed, put it "
            "back, or put a link to it there. ds.deepen() then copies the files into this dataset."
        )
    return CorruptFileError(
        f"Version {version} lists the file {location}, which does not exist.",
        hint=hint,
        file=str(location),
        version=version,
    )


def _check_bare(name: str, snapshot: Snapshot) -> None:
    if not name or name in {".", ".."} or not _BARE.fullmatch(name):
        raise CorruptFileError(
            f"Version {snapshot.version} of {snapshot.store.uri} lists a file named {name!r}; "
            "only bare file names are allowed.",
            hint="The manifest is damaged, or was crafted to read other files.",
            file=name,
        )


def load_snapshot(
    location: BranchLocation,
    version: int,
    naming: ManifestNaming | None = None,
    mark: str | None = None,
) -> Snapshot:
    """Load a version of a branch.

    naming: the naming to try first; the other one is tried, too, in case of a migration.
    mark: the mark of the manifest, if a listing has returned it.

    Raises VersionNotFoundError: the version does not exist.
    Raises CorruptFileError, UnsupportedFeatureError: the manifest is damaged, or written by a
        release with unknown features.
    """
    first = naming or ManifestNaming.V2
    tried = [first] if names.is_detached(version) else [first, *set(ManifestNaming) - {first}]
    found = _find(location, version, tried, mark)
    if found is None and location.committer.settle(location.store, version):
        found = _find(location, version, tried, mark)
    if found is None:
        raise VersionNotFoundError(
            f"Version {version} of {location.store.uri} was not found.",
            hint="Count back from the handle's version: ds.checkout_version(ds.version - 1)."
            if version < 0
            else "`versions()` lists the existing versions; older ones may have been cleaned up.",
            version=version,
            uri=location.store.uri,
        )
    return found


def _find(
    location: BranchLocation, version: int, tried: Iterable[ManifestNaming], mark: str | None
) -> Snapshot | None:
    store = location.store
    for naming in tried:
        name = names.manifest_name(version, naming)
        path = f"{names.VERSIONS}/{name}"
        try:
            # a mark taken after the read could belong to a file that was put there in between
            mark = mark or store.mark(path)
            known = store.identity(path, mark)
            read = None if known is None else look_up(_KIND, (name, known))
            if read is None:
                tail, size, identity = _tail_with_manifest(store, path)
                read = _parse(store, name, memoryview(tail), size)
                read = replace(read, manifest=counted(store, read.manifest))
                if identity is not None:
                    keep(_KIND, (name, identity), read, read.memory_bytes())
        except FileNotFoundError:
            mark = None
            continue
        return read.snapshot(location, naming, name, mark)
    return None


def remember_put(snapshot: Snapshot) -> None:
    """Cache a version that was just committed, for its next read."""
    name = snapshot.manifest_name
    known = snapshot.identity
    if known is not None:
        read = _Content(snapshot.manifest, snapshot.manifest_size, snapshot.sections)
        keep(_KIND, (name, known), read, read.memory_bytes())


def snapshot_of(
    location: BranchLocation, manifest: Manifest, naming: ManifestNaming, data: bytes
) -> Snapshot:
    """Return the version whose manifest file will have the bytes ``data``, without a `mark`.

    The bytes are decoded, so that an unreadable version is never committed.  ``manifest`` is the
    manifest that was encoded; its parsed fragments are reused.

    Raises CorruptFileError: the version could not be opened.
    """
    name = names.manifest_name(manifest.version, naming)
    parsed = _parse(location.store, name, memoryview(data), len(data)).snapshot(
        location, naming, name, None
    )
    return replace(parsed, manifest=replace(parsed.manifest, fragments=manifest.fragments))


@dataclass(frozen=True, slots=True)
class _Content:
    """The cached content of a manifest file; it has no place and credentials, so all share it."""

    manifest: Manifest
    size: int
    sections: memoryview | None

    def memory_bytes(self) -> int:
        """Return about how much memory the content takes, once all fragments are parsed."""
        return 4 * self.size + _FRAGMENT_BYTES * len(self.manifest.fragments)

    def snapshot(
        self, location: BranchLocation, naming: ManifestNaming, name: str, mark: str | None
    ) -> Snapshot:
        return Snapshot(
            location=location.anchored(self.manifest.branch),
            manifest=self.manifest,
            naming=naming,
            manifest_size=self.size,
            manifest_name=name,
            sections=self.sections,
            mark=mark,
        )


def _tail_with_manifest(store: Store, path: str) -> tuple[pa.Buffer, int, Hashable | None]:
    """Return the end of a manifest's file, the file's size, and the identity of the file read."""
    tail, size, identity = store.identified_tail(path, _TAIL_BYTES)
    where = f"{store.uri}/{path}"
    if size > METADATA_BYTES:
        raise too_large(where, size, METADATA_BYTES)
    if 0 <= manifest_position(bytes(memoryview(tail)[-FOOTER_BYTES:]), where) < size - len(tail):
        # the whole file in one read, because the name may refer to another file by now
        return store.identified_tail(path, METADATA_BYTES)
    return tail, size, identity


def _parse(store: Store, name: str, tail: memoryview, size: int) -> _Content:
    path = f"{names.VERSIONS}/{name}"
    where = f"{store.uri}/{path}"
    position = manifest_position(bytes(tail[-FOOTER_BYTES:]), where)
    start = size - len(tail)

    def whole() -> memoryview:
        return tail if start == 0 else memoryview(store.read(path))

    manifest = parse_manifest(read_section(tail, position - start, where), where, whole)
    named = names.parse_manifest_name(name)
    if named is not None and named[0] != manifest.version:
        raise CorruptFileError(
            f"Manifest {where} is damaged: it is version {manifest.version}, not {named[0]}.",
            hint="The file is damaged or was renamed; open an earlier version.",
            file=where,
        )
    # a copy, so that the manifest, which may be large, is not in memory twice
    return _Content(manifest, size, memoryview(bytes(tail[:position])) if start == 0 else None)
