"""The first version of a dataset, a branch or a clone: nothing landed before it, so nobody judges.

See docs/format/operations.md, 0.2.
"""

from __future__ import annotations

from lancekit.commit.clock import Clock
from lancekit.commit.manifest.build import Built, build_manifest, first_manifest
from lancekit.commit.put_version import StagedTransaction, put_version
from lancekit.commit.rules.pending import Pending
from lancekit.errors import DatasetExistsError
from lancekit.format import transaction as ops
from lancekit.format.names import ManifestNaming
from lancekit.format.transaction import Transaction
from lancekit.versions.line import Line
from lancekit.versions.snapshot import Snapshot

__all__ = ["create_first_version", "put_first_manifest"]


def create_first_version(
    line: Line,
    operation: ops.Overwrite,
    pending: Pending,
    storage_version: str,
    clock: Clock | None = None,
    *,
    stable_row_ids: bool = False,
    naming: ManifestNaming = ManifestNaming.V2,
) -> Snapshot:
    """Create a dataset: version 1.

    Raises
    ------
    DatasetExistsError
        Another writer created it first.
    """
    clock = clock or Clock()
    empty = first_manifest(operation, storage_version, stable_row_ids=stable_row_ids)
    built = build_manifest(
        empty,
        operation,
        timestamp_ns=clock.now_ns(),
        storage_version=storage_version,
        marks=pending.marks_upon({}),
    )
    return put_first_manifest(line, built, pending.transaction(0), naming)


def put_first_manifest(
    line: Line,
    built: Built,
    transaction: Transaction,
    naming: ManifestNaming = ManifestNaming.V2,
) -> Snapshot:
    """Put the first manifest of a dataset, a branch or a clone.

    Raises
    ------
    DatasetExistsError
        There is one already.
    """
    staged = StagedTransaction(line.store)
    landed = put_version(line, built, naming, transaction, staged)
    if landed is None:
        staged.remove()
        raise DatasetExistsError(
            f"A dataset was created at {line.uri} at the same time.",
            hint='Open it, or write with mode="append" or mode="overwrite".',
            uri=line.uri,
        )
    return landed
