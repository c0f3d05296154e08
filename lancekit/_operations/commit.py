"""Commit of an operation that a user built: check it, then commit it like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from lancekit._commit.clock import Clock
from lancekit._commit.manifest.build import build_manifest
from lancekit._commit.put_version import put_first_manifest
from lancekit._commit.rules.pending import Pending
from lancekit._defaults import COMMIT_TIMEOUT, MAX_RETRIES
from lancekit._format import operations as ops
from lancekit._format.data_file import DEFAULT_VERSION
from lancekit._format.fragment import DataFile
from lancekit._format.names import DATA, ManifestNaming
from lancekit._format.transaction import Transaction
from lancekit._operations.checks.operation import check_operation
from lancekit._operations.cleanup.auto import commit, create
from lancekit._operations.index.staged import with_files
from lancekit._operations.maintenance.deepen import deep_clone
from lancekit._provenance import PREFIX
from lancekit._versions.branch_location import BranchLocation, check_new_place, open_location
from lancekit._versions.listing import dataset_exists, latest_snapshot
from lancekit._versions.references import Reference, resolve
from lancekit._versions.snapshot import FileLocation, Snapshot, load_snapshot
from lancekit.errors import DatasetNotFoundError, InvalidArgumentError

#: operations that need no read version
_READ_NOTHING = (ops.Overwrite, ops.Restore)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSettings:
    """Settings of a commit; the defaults are pylance's.

    timeout: ``None`` for no limit.
    stable_row_ids, naming: apply to a new dataset only.
    may_have_landed: the transaction was stored, and may have been committed before.
    """

    max_retries: int = MAX_RETRIES
    timeout: timedelta | None = COMMIT_TIMEOUT
    detached: bool = False
    stable_row_ids: bool = False
    naming: ManifestNaming = ManifestNaming.V2
    may_have_landed: bool = False


def commit_operation(
    target: BranchLocation | Snapshot,
    transaction: Transaction,
    read_version: int | None,
    settings: CommitSettings,
) -> Snapshot:
    """Commit a transaction; return the new version.

    target: the location of a dataset that may not exist yet, or the snapshot of a handle.
    read_version: the version that the operation was computed from.  An overwrite or a restore can
        pass ``None``: the newest version, or the handle's.

    Raises InvalidArgumentError: the operation does not fit that version, or the version is missing.
    Raises DatasetNotFoundError: there is no dataset, and the operation creates none.
    Raises CommitConflictError: a version that landed since conflicts with the operation.
    """
    operation = transaction.operation
    if isinstance(operation, ops.UnknownOperation) or transaction.blobs_op is not None:
        raise InvalidArgumentError(
            f"{_name(transaction)} cannot be committed: this release does not support it.",
            hint="Commit it with the library that made it.",
        )
    if read_version is None and not isinstance(operation, _READ_NOTHING):
        raise InvalidArgumentError(
            f"read_version is required for {_name(transaction)}: all operations need it except "
            "Overwrite and Restore.",
            hint="Pass the version that the operation is based on.",
        )
    pending = Pending(
        operation=operation, uuid=transaction.uuid, properties=transaction.transaction_properties
    )
    location = target.location if isinstance(target, Snapshot) else target
    if isinstance(target, BranchLocation) and not dataset_exists(target):
        if settings.detached:
            raise DatasetNotFoundError(
                f"A detached version needs a dataset, but there is none at {location.uri}.",
                hint="Create it first: commit the overwrite without `detached`.",
                uri=location.uri,
            )
        check_new_place(location)
        return _create(location, pending, settings)
    if isinstance(operation, ops.Clone):
        raise InvalidArgumentError(
            f"A clone creates a dataset, but {location.uri} already exists.",
            hint="Clone to another place, or remove the dataset first.",
        )
    read = _read(target, operation, read_version)
    if pending.uuid and read.manifest.transaction_file.endswith(f"-{pending.uuid}.txn"):
        return read  # this transaction has landed as the read version
    check_operation(operation, read, may_have_landed=settings.may_have_landed)
    return commit(
        read,
        replace(pending, operation=with_files(operation, read)),
        owns_deletions=False,  # the caller may commit its files again
        max_retries=settings.max_retries,
        timeout=timedelta.max if settings.timeout is None else settings.timeout,
        detached=settings.detached,
    )


def _name(transaction: Transaction) -> str:
    if transaction.blobs_op is not None:
        return f"blob_{transaction.blobs_op.arm}"
    operation = transaction.operation
    if isinstance(operation, ops.UnknownOperation):
        return operation.name or f"Operation {operation.number}"
    return type(operation).__name__


def _read(
    target: BranchLocation | Snapshot, operation: ops.Operation, read_version: int | None
) -> Snapshot:
    if read_version is None or (read_version == 0 and isinstance(operation, _READ_NOTHING)):
        return target if isinstance(target, Snapshot) else latest_snapshot(target)
    if isinstance(target, Snapshot) and target.version == read_version:
        return target
    location = target.location if isinstance(target, Snapshot) else target
    return load_snapshot(location, read_version)


def _create(location: BranchLocation, pending: Pending, settings: CommitSettings) -> Snapshot:
    operation = pending.operation
    if isinstance(operation, ops.Clone):
        return _clone(location, operation, pending)
    if not isinstance(operation, ops.Overwrite):
        raise DatasetNotFoundError(
            f"{type(operation).__name__} needs a dataset, but there is none at {location.uri}.",
            hint="Create it with an Overwrite, or with write_dataset().",
            uri=location.uri,
        )
    bases = {base.id: base for base in operation.initial_bases}

    def locate(file: DataFile) -> FileLocation:
        base = bases.get(file.base_id) if file.base_id is not None else None
        store = location.base(base.path) if base else location.store
        bare = base is not None and not base.is_dataset_root
        return FileLocation(store, file.path if bare else f"{DATA}/{file.path}")

    check_operation(operation, None, locate)
    file = next((file for fragment in operation.fragments for file in fragment.files), None)
    version = DEFAULT_VERSION if file is None else file.storage_version
    return create(
        location,
        operation,
        pending,
        version,
        stable_row_ids=settings.stable_row_ids,
        naming=settings.naming,
    )


def _clone(location: BranchLocation, operation: ops.Clone, pending: Pending) -> Snapshot:
    start = open_location(operation.ref_path, location.storage_options)
    source = resolve(start, Reference(version=operation.ref_version, branch=start.branch))
    transaction = Transaction(
        source.version, operation, pending.uuid, transaction_properties=pending.properties
    )
    if not operation.is_shallow:
        return deep_clone(source, location, transaction, Clock())
    built = build_manifest(
        source.manifest, operation, timestamp_ns=Clock().now_ns(), indices=source.indices
    )
    return put_first_manifest(location, built, transaction)


def merged_appends(transactions: Sequence[Transaction]) -> Transaction:
    """Return one append of the fragments of several append transactions.

    Raises InvalidArgumentError: there is no transaction, or one of them is not an append.
    """
    if not transactions:
        raise InvalidArgumentError("There are no transactions to commit.")
    appends: list[ops.Append] = []
    for transaction in transactions:
        if not isinstance(transaction.operation, ops.Append):
            raise InvalidArgumentError(
                "Only append transactions are supported in batch commits; got one of kind "
                f"{_name(transaction)}.",
                hint="Commit it on its own, with LanceDataset.commit().",
            )
        appends.append(transaction.operation)
    fragments = tuple(fragment for append in appends for fragment in append.fragments)
    properties = {
        key: value for one in transactions for key, value in one.transaction_properties.items()
    }
    if len({one.provenance for one in transactions}) > 1:  # else two provenances would mix
        properties = {k: v for k, v in properties.items() if not k.startswith(PREFIX)}
    return Transaction(
        min(transaction.read_version for transaction in transactions),
        replace(appends[0], fragments=fragments),
        transaction_properties=properties,
    )
