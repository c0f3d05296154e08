"""A clone that shares no files: all that a version needs is copied, its manifest put last."""

from __future__ import annotations

import os
import secrets
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from lancekit.commit.manifest.build import build_manifest
from lancekit.commit.protocol import Clock, put_first_manifest
from lancekit.commit.refs import check_free
from lancekit.errors import CommitUnknownError, LancekitError
from lancekit.format import names
from lancekit.format import operations as ops
from lancekit.format.external_sequences import SEQUENCES, external_sequence
from lancekit.format.field_marks import is_blob_v2
from lancekit.format.fragment import Fragment, FragmentList
from lancekit.format.transaction import Transaction
from lancekit.operations.maintenance.copies import Copy, carry_out, index_files, side_files
from lancekit.pipeline.engine.engine import LocalRunner
from lancekit.storage import Store
from lancekit.versions.line import Line, open_line
from lancekit.versions.snapshot import FileLocation, Snapshot

__all__ = ["copy_line", "deep_clone"]


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
    copies.extend(copy for index in source.indices for copy in index_files(source, index))
    manifest = replace(source.manifest, fragments=FragmentList.of(fragments))
    built = build_manifest(
        manifest, transaction.operation, timestamp_ns=clock.now_ns(), indices=source.indices
    )
    try:
        LocalRunner().map(lambda copy: carry_out(copy, line.store, source.version), copies)
        return put_first_manifest(line, built, transaction)
    except CommitUnknownError:
        raise
    except LancekitError:
        _remove(line.store, copies)
        raise


# ---- what to copy


def _fragments(source: Snapshot) -> tuple[list[Fragment], list[Copy]]:
    """Return the fragments with the names that their files get, and what to copy."""
    blobs = any(is_blob_v2(field.metadata) for field in source.manifest.schema.walk())
    listed: dict[Store, list[str]] = {}
    renamed: list[Fragment] = []
    copies: list[Copy] = []
    external: set[str] = set()
    for fragment in source.manifest.fragments:
        files = []
        for file in fragment.files:
            new = replace(file, path=names.data_file_name(uuid.uuid4()))
            files.append(new)
            location = source.data_file(file)
            copies.append(Copy(source=location, name=f"{names.DATA}/{new.path}", fresh=True))
            if blobs:
                copies.extend(side_files(location, new.path, listed))
        deletion, old = fragment.deletion_file, source.deletion_file(fragment)
        if deletion is not None and old is not None:
            deletion = replace(deletion, id=secrets.randbits(64))
            copies.append(Copy(source=old, name=deletion.name(fragment.id), fresh=True))
        places = (external_sequence(fragment, name) for name in SEQUENCES)
        external.update(place.path for place in places if place is not None)
        renamed.append(replace(fragment, files=tuple(files), deletion_file=deletion))
    copies.extend(
        Copy(source=FileLocation(source.store, path), name=path) for path in sorted(external)
    )
    return renamed, copies


def _remove(target: Store, copies: Iterable[Copy]) -> None:
    for copy in copies:
        if copy.fresh:
            with suppress(OSError):  # what is left over is for cleanup to find
                target.delete(copy.name)
