"""Deepen and deep clone: copy all files that a table reads from other places.

Files keep their names, so that a later attempt finds the copies of an interrupted one by name and
size.  Rows stay in their fragments at their offsets, so indices remain valid.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lancekit._commit.clock import Clock
from lancekit._commit.manifest.build import build_manifest
from lancekit._commit.put_version import put_first_manifest
from lancekit._commit.refs import new_clone_location
from lancekit._commit.rules.pending import Pending
from lancekit._display import Displayed
from lancekit._format import names
from lancekit._format import operations as ops
from lancekit._format.field_marks import is_blob_v2
from lancekit._format.fragment import DataFile, Fragment, FragmentList
from lancekit._format.index import IndexMetadata
from lancekit._format.operation_parts import UpdateMode
from lancekit._format.operations import CreateIndex, Operation, Update
from lancekit._format.transaction import Transaction
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.common.staged_files import undone_unless_landed
from lancekit._operations.maintenance.copies import (
    Copy,
    carried_fragments,
    carry_out,
    index_files,
    managed_files,
    remove_copies,
    side_files,
)
from lancekit._pipeline.engine import LocalRunner
from lancekit._scan.fragments.managed_blobs import managed_blobs
from lancekit._scan.fragments.source import fragment_sources
from lancekit._storage.base import ObjectInfo, Store
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import FileLocation, Snapshot, missing_file
from lancekit.errors import CorruptFileError, NotOfferedError, StorageError

#: age in seconds of an unreferenced copy to make again, because a cleanup may soon remove it
_LONGEST_WAIT = 3 * 86400.0


@dataclass(frozen=True, kw_only=True, repr=False)
class DeepenResult(Displayed):
    """Result of `deepen`: the copied files, and the new version.

    Attributes
    ----------
    files_copied, bytes_copied
        Files from other places, and their bytes; files on the same disk are linked.
    files_found
        Files that an earlier, unfinished attempt had copied.
    version, read_version
        The new version and the version that was read; equal if there was nothing to do.
    branch
        The branch, ``None`` for main.
    attempts
        More than one if the commit was retried after a conflict.
    duration
        In seconds.
    """

    files_copied: int
    bytes_copied: int
    files_found: int
    version: int
    read_version: int
    branch: str | None = None
    attempts: int = 1
    duration: float = 0.0

    def _plain(self) -> str:
        return (
            f"DeepenResult(files_copied={self.files_copied}, bytes_copied={self.bytes_copied}, "
            f"files_found={self.files_found}, version={self.version})"
        )


@dataclass(slots=True)
class _Copied:
    """Counts of the files and bytes that all attempts copied, and of files found."""

    files: int = 0
    bytes: int = 0
    found: int = 0


def deepen(snapshot: Snapshot, policy: RetryPolicy) -> tuple[Snapshot, DeepenResult]:
    """Copy a version's files from other places, and commit; without such files, make no version.

    Raises CorruptFileError: a file is missing, or its size differs from the manifest's.
    """
    started = time.monotonic()
    copied = _Copied()

    def attempt(current: Snapshot) -> Snapshot:
        fragments, copies = _fragments(current)
        indices = [index for index in current.indices if index.base_id is not None]
        copies.extend(copy for index in indices for copy in index_files(current, index))
        _copy(current, copies, copied)
        if indices:
            current = _commit(current, _moved(indices))
        if fragments:
            current = _commit(
                current, Update(updated_fragments=fragments, update_mode=UpdateMode.REWRITE_COLUMNS)
            )
        return current

    landed, attempts = retried_writing(snapshot, attempt, policy)
    return landed, DeepenResult(
        files_copied=copied.files,
        bytes_copied=copied.bytes,
        files_found=copied.found,
        version=landed.version,
        read_version=snapshot.version,
        branch=landed.branch,
        attempts=attempts,
        duration=time.monotonic() - started,
    )


def _commit(current: Snapshot, operation: Operation) -> Snapshot:
    return commit(current, Pending(operation=operation, doing="deepen()"))


def _moved(indices: Iterable[IndexMetadata]) -> CreateIndex:
    before = tuple(indices)
    return CreateIndex(
        new_indices=tuple(replace(index, base_id=None) for index in before), removed_indices=before
    )


def _fragments(current: Snapshot) -> tuple[tuple[Fragment, ...], list[Copy]]:
    """Return the new states of fragments with files elsewhere, and the copies to make."""
    manifest = current.manifest
    blobs = any(is_blob_v2(field.metadata) for field in manifest.schema.walk())
    listed: dict[Store, list[str]] = {}
    own = {f.path for one in manifest.fragments for f in one.files if f.base_id is None}
    taken: dict[str, FileLocation] = {}
    changed: list[Fragment] = []
    copies: list[Copy] = []
    copied: dict[int, list[int]] = {}
    _check_managed(current)
    for fragment in manifest.fragments:
        files = []
        for place, file in enumerate(fragment.files):
            if file.base_id is None:
                files.append(file)
                continue
            location = current.data_file(file)
            new = _named(file, location, own, taken)
            files.append(new)
            copied.setdefault(fragment.id, []).append(place)
            copies.append(Copy(source=location, name=f"{names.DATA}/{new.path}"))
            if blobs:
                beside = side_files(location, new.path, listed)
                copies.extend(replace(copy, fresh=False) for copy in beside)
        deletion, old = fragment.deletion_file, current.deletion_file(fragment)
        if deletion is not None and deletion.base_id is not None and old is not None:
            deletion = replace(deletion, base_id=None)
            copies.append(Copy(source=old, name=deletion.name(fragment.id)))
        whole = replace(fragment, files=tuple(files), deletion_file=deletion)
        if whole != fragment:
            changed.append(whole)
    copies.extend(replace(copy, fresh=False) for copy in managed_files(current, copied))
    return tuple(changed), copies


def _check_managed(current: Snapshot) -> None:
    """Raise ``NotOfferedError`` if data files name blobs in base paths, as their copies would."""
    if not current.manifest.has_managed_blobs:
        return
    for source in fragment_sources(current):
        for blob in managed_blobs(source):
            if blob.base_id is not None:
                base = current.manifest.base_path(blob.base_id)
                raise NotOfferedError(
                    f"The data files of {source.where} refer to a blob outside of the dataset: "
                    f"{blob.path} in {base.path}.",
                    hint="Rewrite the rows first, which copies their blobs: update() can set a "
                    "column to itself.",
                    fragment=source.fragment.id,
                )


def _named(
    file: DataFile, location: FileLocation, own: set[str], taken: dict[str, FileLocation]
) -> DataFile:
    """Return the entry of a file's copy: under its old name, unless another file has it."""
    holder = taken.setdefault(file.path, location)
    path = file.path
    if path in own or str(holder) != str(location):  # folders copied by hand share names
        path = names.data_file_name(uuid.uuid4())
    return replace(file, path=path, base_id=None)


def _copy(current: Snapshot, copies: Iterable[Copy], copied: _Copied) -> None:
    """Make the copies that do not exist yet, and add to the counts."""
    target = current.store
    existing = {
        info.name: info
        for folder in (names.DATA, names.BLOBS, names.DELETIONS, names.INDICES)
        for info in target.list_tree(folder)
    }
    now = time.time()

    def one(copy: Copy) -> int | None:
        before = existing.get(copy.name)
        if _is_copied(copy, before, now, current.version):
            return None
        try:
            size = carry_out(copy, target, current.version, link=before is None)
        except StorageError:
            if before is not None or not target.exists(copy.name):
                raise
            # a concurrent deepen has written the file
            size = carry_out(copy, target, current.version)
        if copy.source.size is not None and size != copy.source.size:
            raise CorruptFileError(
                f"{copy.source} has {size} bytes, but version {current.version} records "
                f"{copy.source.size}.",
                hint="The file was changed: ds.validate(sources=True) finds more of these.",
                file=str(copy.source),
            )
        return size

    # copy a file once that several fragments share, such as packed blobs
    wanted = {copy.name: copy for copy in copies}
    sizes = LocalRunner().map(one, list(wanted.values()))
    done = [size for size in sizes if size is not None]
    copied.files += len(done)
    copied.bytes += sum(done)
    copied.found += len(sizes) - len(done)


def _is_copied(copy: Copy, found: ObjectInfo | None, now: float, version: int) -> bool:
    """Return True if an earlier copy can be used: not too old, and of the source's size."""
    if found is None or not found.regular or now - found.modified > _LONGEST_WAIT:
        return False
    try:
        size = copy.source.store.open(copy.source.name, copy.source.size).size()
    except FileNotFoundError as error:
        raise missing_file(copy.source, version) from error
    return found.size == size


# ---- deep clones: copy all files of a version, and write the manifest last


def copy_version(
    source: Snapshot,
    target: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    clock: Clock,
) -> Snapshot:
    """Create a dataset from copies of all files of one version.

    Raises DatasetExistsError: there is a dataset at ``target``.
    """
    location = new_clone_location(source, target, storage_options)
    operation = ops.Clone(
        is_shallow=False,
        ref_name=source.location.branch,
        ref_version=source.version,
        ref_path=source.store.uri,
    )
    return deep_clone(source, location, Transaction(source.version, operation), clock)


def deep_clone(
    source: Snapshot,
    location: BranchLocation,
    transaction: Transaction,
    clock: Clock,
    *,
    link: bool = False,
) -> Snapshot:
    """Copy all files of a version, in parts, then write the manifest of the clone.

    If the clone fails, its copies are removed, unless the commit may have landed.

    link: link the files if they are on the same disk; the location must have none.
    """
    fragments, copies = carried_fragments(source, source.manifest.fragments)
    copies.extend(copy for index in source.indices for copy in index_files(source, index))
    manifest = replace(source.manifest, fragments=FragmentList.of(fragments))
    built = build_manifest(
        manifest, transaction.operation, timestamp_ns=clock.now_ns(), indices=source.indices
    )
    with undone_unless_landed(lambda: remove_copies(location.store, copies)):
        LocalRunner().map(
            lambda copy: carry_out(copy, location.store, source.version, link=link), copies
        )
        return put_first_manifest(location, built, transaction)
