"""A clone that shares no files: all that a version needs is copied, its manifest put last."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import replace

from lancekit._commit.clock import Clock
from lancekit._commit.manifest.build import build_manifest
from lancekit._commit.put_version import put_first_manifest
from lancekit._commit.refs import check_free
from lancekit._format import operations as ops
from lancekit._format.fragment import FragmentList
from lancekit._format.transaction import Transaction
from lancekit._operations.maintenance.carried_fragments import carried_fragments, remove_copies
from lancekit._operations.maintenance.copies import carry_out, index_files
from lancekit._pipeline.engine.engine import LocalRunner
from lancekit._versions.line import Line, open_line
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CommitUnknownError, LancekitError

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
    fragments, copies = carried_fragments(source, source.manifest.fragments)
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
        remove_copies(line.store, copies)
        raise
