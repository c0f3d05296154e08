"""The last step of a commit: put a transaction and a manifest, and find out the result."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from lancekit._commit.clock import Clock
from lancekit._commit.manifest.build import Built, build_manifest, first_manifest
from lancekit._commit.rules.pending import Pending
from lancekit._format import names
from lancekit._format import operations as ops
from lancekit._format.index import encode_index_section
from lancekit._format.manifest import encode_manifest_file
from lancekit._format.names import ManifestNaming
from lancekit._format.transaction import Transaction, encode_transaction
from lancekit._interrupts import Describe, attempted
from lancekit._legible import clean
from lancekit._provenance import recorded
from lancekit._storage.base import Store
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot, remember_put, snapshot_of
from lancekit.errors import (
    CommitUnknownError,
    DatasetExistsError,
    LancekitError,
    StorageError,
    VersionNotFoundError,
)


class StagedTransaction:
    """The transaction's file of a commit, written before the manifest and kept between attempts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._put: tuple[str, bytes] | None = None

    def put(self, file: str, data: bytes) -> None:
        """Write the file, unless the last attempt wrote the same; remove an earlier one."""
        if self._put != (file, data):
            self.remove()
            self._store.put(f"{names.TRANSACTIONS}/{file}", data)
            self._put = file, data

    def remove(self) -> None:
        """Remove the file if possible; otherwise a cleanup removes it later."""
        if self._put is not None:
            with suppress(StorageError):
                self._store.delete(f"{names.TRANSACTIONS}/{self._put[0]}")
            self._put = None


def is_transaction(snapshot: Snapshot, unique: str) -> bool:
    """Return True if the transaction with the uuid ``unique`` made a version."""
    found = snapshot.transaction
    return found is not None and found.uuid == unique


def put_version(
    location: BranchLocation,
    built: Built,
    naming: ManifestNaming,
    transaction: Transaction,
    staged: StagedTransaction,
) -> Snapshot | None:
    """Put a version in place, and return it; ``None`` if its number is taken.

    The transaction's file is kept in both cases.

    Raises CorruptFileError: the version could not be opened; nothing was written.
    Raises StorageError: the storage failed, and the version did not land.
    Raises CommitUnknownError: the storage failed, and it is unknown whether the version landed.
    """
    transaction = replace(
        transaction, transaction_properties=recorded(transaction.transaction_properties)
    )
    data = encode_transaction(transaction)
    file = names.transaction_name(transaction.read_version, transaction.uuid)
    manifest = replace(built.manifest, transaction_file=file)
    version = manifest.version
    encoded = encode_manifest_file(
        manifest,
        index_section=encode_index_section(built.indices) if built.indices else None,
        transaction=data,
    )
    # an unreadable version must be detected before others can read it
    ready = snapshot_of(location, manifest, naming, encoded)
    staged.put(file, data)
    attempt = attempted(
        _interrupt_text(version, clean(location.uri), transaction.uuid),
        lambda: _settled(location, version, naming, transaction, None) is not None,
        key=location.uri,
    )
    try:
        landed = _put(ready, encoded, transaction)
    except Exception:
        attempt.settle(None)  # the error itself says if it is known whether the version landed
        raise
    attempt.settle(landed is not None)
    return landed


def _interrupt_text(version: int, uri: str, uuid: str) -> Describe:
    """Return the function that tells an interrupted user if a version was committed."""

    def text(landed: bool | None) -> str:
        if landed is None:
            return (
                f"version {version} of {uri} was sent, but it is unknown whether it was committed "
                f"(look for transaction {uuid})"
            )
        return f"version {version} of {uri} was committed" if landed else ""

    return text


def _put(ready: Snapshot, encoded: bytes, transaction: Transaction) -> Snapshot | None:
    location, version, naming = ready.location, ready.manifest.version, ready.naming
    store = location.store
    path = f"{names.VERSIONS}/{names.manifest_name(version, naming)}"
    try:
        won = location.committer.put(store, path, version, encoded)
    except StorageError as error:
        landed = _settled(location, version, naming, transaction, error)
    else:
        if won and not _is_forked(location, version, naming):
            if not names.is_detached(version):
                # for readers of stores that list without order; the reference also writes it
                hint = f'{{"version":{version}}}'.encode()
                store.put_hint(f"{names.VERSIONS}/{names.HINT}", hint)
            landed = replace(ready, mark=store.mark_of_put(path))
            remember_put(landed)
            return landed
        if won:
            store.delete(path)
            landed = None
        else:
            # a store may answer "taken" to a request that it has executed, if a response was lost
            landed = _settled(location, version, naming, transaction, None)
    return landed


def _is_forked(location: BranchLocation, version: int, naming: ManifestNaming) -> bool:
    """Return True if a migration put the version under its newer name at the same time."""
    if naming is ManifestNaming.V2 or names.is_detached(version):
        return False
    newer = names.manifest_name(version, ManifestNaming.V2)
    return location.store.exists(f"{names.VERSIONS}/{newer}")


def _settled(
    location: BranchLocation,
    version: int,
    naming: ManifestNaming,
    transaction: Transaction,
    error: StorageError | None,
) -> Snapshot | None:
    """Return the version if this commit made it, after a put that failed or was refused."""
    try:
        found = load_snapshot(location, version, naming)
        return found if is_transaction(found, transaction.uuid) else None
    except VersionNotFoundError:
        if error is None:  # the name was taken, and the version removed since
            return None
        raise error from None
    except LancekitError as second:
        reason = error or second
        raise CommitUnknownError(
            f"The storage failed during the commit of version {version} of {location.uri}, so it "
            f"is unknown whether it was committed: {reason}",
            hint=f"Open the dataset and look for transaction {transaction.uuid}, before you "
            "repeat the change.",
            version=version,
            uuid=transaction.uuid,
        ) from second


# ---- the first version of a dataset, a branch or a clone, which has no conflicts
#
# See docs/format/operations.md, 0.2.


def create_first_version(
    location: BranchLocation,
    operation: ops.Overwrite,
    pending: Pending,
    storage_version: str,
    clock: Clock | None = None,
    *,
    stable_row_ids: bool = False,
    naming: ManifestNaming = ManifestNaming.V2,
) -> Snapshot:
    """Create a dataset: version 1.

    Raises DatasetExistsError: another writer created it first.
    """
    clock = clock or Clock()
    built = build_manifest(
        first_manifest(operation, storage_version, stable_row_ids=stable_row_ids),
        operation,
        timestamp_ns=clock.now_ns(),
        storage_version=storage_version,
        marks=pending.marks_upon({}),
    )
    return put_first_manifest(location, built, pending.transaction(0), naming)


def put_first_manifest(
    location: BranchLocation,
    built: Built,
    transaction: Transaction,
    naming: ManifestNaming = ManifestNaming.V2,
) -> Snapshot:
    """Put the first manifest of a dataset, a branch or a clone.

    Raises DatasetExistsError: the dataset, branch or clone exists already.
    """
    staged = StagedTransaction(location.store)
    landed = put_version(location, built, naming, transaction, staged)
    if landed is None:
        staged.remove()
        raise DatasetExistsError(
            f"A dataset was created at {location.uri} at the same time.",
            hint='Open it, or write with mode="append" or mode="overwrite".',
            uri=location.uri,
        )
    return landed
