"""A clone that shares no files: all that a version needs is copied, its manifest put last."""

from __future__ import annotations

import os
import secrets
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from lancekit.commit.manifest.build import build_manifest
from lancekit.commit.protocol import Clock, put_first_manifest
from lancekit.commit.refs import check_free
from lancekit.errors import CommitUnknownError, CorruptFileError, LancekitError
from lancekit.file import FileReader
from lancekit.format import names
from lancekit.format import operations as ops
from lancekit.format.external_sequences import SEQUENCES, external_sequence
from lancekit.format.field_marks import is_blob_v2
from lancekit.format.fragment import DataFile, Fragment, FragmentList
from lancekit.format.index import IndexMetadata
from lancekit.format.transaction import Transaction
from lancekit.pipeline.engine.engine import LocalRunner
from lancekit.storage import Store, check_trusted_file
from lancekit.versions.line import Line, open_line
from lancekit.versions.snapshot import FileLocation, Snapshot, missing_file

__all__ = ["copy_line", "deep_clone"]

#: how much of a file is in memory at once, in each of the threads that copy
_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A file to copy.  Two clones to one place at once share no `fresh` names."""

    source: FileLocation
    name: str
    fresh: bool


def copy_line(
    source: Snapshot,
    target: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    clock: Clock,
) -> Snapshot:
    """Make a new dataset of copies of all files of one version.

    Raises
    ------
    DatasetExistsError
        There is a dataset at ``target``.
    """
    line = open_line(target, storage_options or source.line.storage_options)
    check_free(line)
    operation = ops.Clone(
        is_shallow=False,
        ref_name=source.line.branch,
        ref_version=source.version,
        ref_path=source.store.uri,
    )
    transaction = Transaction(source.version, operation, str(uuid.uuid4()))
    return deep_clone(source, line, transaction, clock)


def deep_clone(source: Snapshot, line: Line, transaction: Transaction, clock: Clock) -> Snapshot:
    """Copy all files of a version, in parts, then put the manifest of the clone.

    If that fails, what was copied is removed, as far as it can be told that nothing needs it.
    """
    fragments, copies = _fragments(source)
    copies.extend(copy for index in source.indices for copy in _index_files(source, index))
    manifest = replace(source.manifest, fragments=FragmentList.of(fragments))
    built = build_manifest(
        manifest, transaction.operation, timestamp_ns=clock.now_ns(), indices=source.indices
    )
    try:
        LocalRunner().map(lambda copy: _carry_out(copy, line.store, source.version), copies)
        return put_first_manifest(line, built, transaction)
    except CommitUnknownError:
        raise
    except LancekitError:
        _remove(line.store, copies)
        raise


# ---- what to copy


def _fragments(source: Snapshot) -> tuple[list[Fragment], list[_Copy]]:
    """Return the fragments with the names that their files get, and what to copy."""
    blobs = any(is_blob_v2(field.metadata) for field in source.manifest.schema.walk())
    listed: dict[Store, list[str]] = {}
    renamed: list[Fragment] = []
    copies: list[_Copy] = []
    external: set[str] = set()
    for fragment in source.manifest.fragments:
        files = []
        for file in fragment.files:
            new = replace(file, path=names.data_file_name(uuid.uuid4()))
            files.append(new)
            location = source.data_file(file)
            copies.append(_Copy(source=location, name=f"{names.DATA}/{new.path}", fresh=True))
            if blobs:
                copies.extend(_side_files(location, new, listed))
        deletion, old = fragment.deletion_file, source.deletion_file(fragment)
        if deletion is not None and old is not None:
            deletion = replace(deletion, id=secrets.randbits(64))
            copies.append(_Copy(source=old, name=deletion.name(fragment.id), fresh=True))
        places = (external_sequence(fragment, name) for name in SEQUENCES)
        external.update(place.path for place in places if place is not None)
        renamed.append(replace(fragment, files=tuple(files), deletion_file=deletion))
    copies.extend(
        _Copy(source=FileLocation(source.store, path), name=path, fresh=False)
        for path in sorted(external)
    )
    return renamed, copies


def _side_files(
    location: FileLocation, new: DataFile, listed: dict[Store, list[str]]
) -> Iterator[_Copy]:
    """Yield the copies of the files beside a data file, in which its blobs lie."""
    store = location.store
    if store not in listed:
        folder = location.name.rpartition("/")[0]
        listed[store] = [name for name in _names_in(store, folder) if name.endswith(".blob")]
    old = location.name.removesuffix(".lance")
    stem = f"{names.DATA}/{new.path.removesuffix('.lance')}"
    for name in listed[store]:
        if name.startswith(f"{old}/"):
            yield _Copy(
                source=FileLocation(store, name), name=stem + name.removeprefix(old), fresh=True
            )


def _index_files(source: Snapshot, index: IndexMetadata) -> Iterator[_Copy]:
    folder = f"{names.INDICES}/{index.uuid}"
    store = source.base_store(index.base_id)
    found = set(_names_in(store, folder))
    for file in index.files:
        if f"{folder}/{file.path}" not in found:
            location = FileLocation(store, f"{folder}/{file.path}")
            raise missing_file(location, source.version)
    for name in sorted(found):
        yield _Copy(source=FileLocation(store, name), name=name, fresh=False)


def _names_in(store: Store, folder: str) -> Iterator[str]:
    for file in store.list_tree(folder):
        if not file.regular:
            raise CorruptFileError(
                f"{store.uri}/{file.name} is a link or a special file, and is not copied.",
                hint="Put the file or the folder itself in its place.",
                path=f"{store.uri}/{file.name}",
            )
        yield file.name


# ---- copying


def _carry_out(copy: _Copy, target: Store, version: int) -> None:
    # nobody looks at the bytes: they must not be those of another file
    check_trusted_file(str(copy.source), copy.source.store)
    try:
        reader = copy.source.store.open(copy.source.name, copy.source.size)
        size = reader.size()
        if copy.name.endswith(".lance") and copy.name.startswith(f"{names.DATA}/"):
            FileReader.open(reader)  # a base path may lead to files of any kind
        if not copy.fresh:  # an attempt that died may have left it
            target.delete(copy.name)
        sink = target.create(copy.name)
        try:
            for start in range(0, size, _CHUNK_BYTES):
                sink.write(reader.read(start, min(_CHUNK_BYTES, size - start)))
            sink.close()
        except BaseException:
            sink.abort()
            raise
    except FileNotFoundError as error:
        raise missing_file(copy.source, version) from error


def _remove(target: Store, copies: Iterable[_Copy]) -> None:
    for copy in copies:
        if copy.fresh:
            with suppress(OSError):  # what is left over is for cleanup to find
                target.delete(copy.name)
