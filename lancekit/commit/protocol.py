"""Putting a version in place: check, rebase, build, put if absent, retry (operations, 0.2)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lancekit.commit.build import Built, build_manifest, first_manifest
from lancekit.commit.conflicts import judge
from lancekit.commit.evidence import Context
from lancekit.commit.explain import conflict_error
from lancekit.commit.line import Line
from lancekit.commit.pending import Pending
from lancekit.commit.rebase import Overlap, rebase
from lancekit.commit.snapshot import Snapshot, load_snapshot
from lancekit.commit.versions import list_versions
from lancekit.errors import (
    CommitUnknownError,
    DatasetExistsError,
    IncompatibleConflictError,
    LancekitError,
    RetriesExhaustedError,
    RetryableConflictError,
    StorageError,
    VersionNotFoundError,
)
from lancekit.format import flags, names
from lancekit.format import transaction as ops
from lancekit.format.index import encode_index_section
from lancekit.format.manifest import encode_manifest_file
from lancekit.format.names import ManifestNaming
from lancekit.format.transaction import Transaction, encode_transaction

__all__ = ["Clock", "check_writable", "commit", "create_first_version", "put_first_manifest"]

_DEFAULT_RETRIES = 20


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, passed in so that tests can be reproduced."""

    now_ns: Callable[[], int] = time.time_ns
    elapsed: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: random.Random = field(default_factory=random.Random)


def check_writable(snapshot: Snapshot) -> None:
    """Refuse a table that this release would damage by committing to it.

    Raises
    ------
    UnsupportedFeatureError
        A writer flag is not known.
    """
    manifest = snapshot.manifest
    flags.check_writable(manifest.writer_flags | manifest.reader_flags, snapshot.store.uri)


def commit(
    read: Snapshot,
    pending: Pending,
    *,
    max_retries: int = _DEFAULT_RETRIES,
    storage_version: str | None = None,
    clock: Clock | None = None,
) -> Snapshot:
    """Commit an operation that was worked out from ``read``; return the new version.

    Parameters
    ----------
    read
        The version that the operation is based on.
    pending
        The operation, and what only its writer knows.
    max_retries
        How often the race for a version number may be lost.
    storage_version
        The file version of an `Overwrite`'s files.
    clock
        Time and chance; the real ones by default.

    Raises
    ------
    RetryableConflictError
        A version landed since; the work has to be done again on the newest.
    IncompatibleConflictError
        A version landed since that excludes this one.
    RetriesExhaustedError
        Other writers won every race for a version number.
    CommitUnknownError
        The storage failed, and it cannot be told whether the version landed.
    """
    clock = clock or Clock()
    check_writable(read)
    _check_same_dataset(read)
    started = clock.elapsed()
    unit = 0.0
    latest = read
    theirs: list[Transaction] = []
    for attempt in range(max(max_retries, 1)):
        newer = _versions_since(read, latest)
        for version in newer:
            latest = load_snapshot(read.line, version, read.naming)
            if _is_transaction(latest, pending.uuid):
                return latest
            theirs.append(_check(read, latest, pending))
        if newer:
            check_writable(latest)
        landed = _attempt(read, latest, theirs, pending, storage_version, clock)
        if landed is not None:
            return landed
        unit = unit or 1.1 * (clock.elapsed() - started)
        clock.sleep(min(unit * clock.random.uniform(0, 2 ** (attempt + 2)), 5.0))
    raise RetriesExhaustedError(
        f"{_name(pending)} on version {read.version} of {read.store.uri} lost "
        f"{max(max_retries, 1)} races for the next version number.",
        hint="Other writers commit faster than this one; try again, or with more retries.",
        read_version=read.version,
        attempts=max(max_retries, 1),
    )


def _check_same_dataset(read: Snapshot) -> None:
    """Refuse to commit to a dataset that was removed and made anew since it was read."""
    try:
        found = load_snapshot(read.line, read.version, read.naming).manifest
    except VersionNotFoundError:  # cleaned up meanwhile, which is no other dataset's doing
        return
    if (found.timestamp_ns, found.transaction_file) != (
        read.manifest.timestamp_ns,
        read.manifest.transaction_file,
    ):
        raise IncompatibleConflictError(
            f"{read.line.uri} was replaced by another dataset since version {read.version} "
            "was read.",
            hint="Open it again.",
            read_version=read.version,
            uri=read.line.uri,
        )


def _name(pending: Pending) -> str:
    return type(pending.operation).__name__


def _is_transaction(snapshot: Snapshot, unique: str) -> bool:
    found = snapshot.transaction
    return found is not None and found.uuid == unique


def _versions_since(read: Snapshot, latest: Snapshot) -> list[int]:
    newer = [v for v in list_versions(read.line).versions if v > latest.version]
    expected = list(range(latest.version + 1, latest.version + 1 + len(newer)))
    if newer != expected:
        # a version that is gone cannot be checked: passing over it could lose its changes
        missing = sorted(set(range(latest.version + 1, newer[-1])) - set(newer))
        raise RetryableConflictError(
            f"Versions {missing[:5]} of {read.store.uri} were cleaned up since version "
            f"{read.version} was read, so it cannot be told what they changed.",
            hint="Open the newest version and do the change again.",
            read_version=read.version,
        )
    return newer


def _check(read: Snapshot, theirs: Snapshot, pending: Pending) -> Transaction:
    """Return their transaction, if mine can go on top of it."""
    transaction = theirs.transaction or Transaction(
        read_version=0, uuid="", operation=ops.UnknownOperation()
    )
    verdict = judge(pending, transaction, Context(pending, read.manifest))
    if not verdict.lands:
        raise conflict_error(read, theirs, pending, verdict)
    return transaction


def _attempt(
    read: Snapshot,
    latest: Snapshot,
    theirs: list[Transaction],
    pending: Pending,
    storage_version: str | None,
    clock: Clock,
) -> Snapshot | None:
    """Try to become the version after ``latest``; ``None`` if someone else did."""
    try:
        rebased = rebase(pending, read, latest, theirs)
    except Overlap as overlap:
        winner = load_snapshot(read.line, overlap.version, read.naming)
        raise conflict_error(read, winner, pending, overlap.verdict) from None
    operation = rebased.operation
    moves = isinstance(operation, ops.Delete | ops.Update)
    transaction = Transaction(
        # what was merged with newer deletions is based on them
        read_version=latest.version if moves else read.version,
        uuid=pending.uuid,
        operation=operation,
        transaction_properties=pending.properties,
    )
    built = build_manifest(
        latest.manifest,
        operation,
        timestamp_ns=clock.now_ns(),
        indices=latest.indices,
        restored=_restored(latest, operation),
        storage_version=storage_version,
    )
    return _put(latest.line, built, latest.naming, transaction)


def _restored(latest: Snapshot, operation: ops.Operation) -> Built | None:
    if not isinstance(operation, ops.Restore):
        return None
    old = load_snapshot(latest.line, operation.version, latest.naming)
    return Built(old.manifest, old.indices)


def create_first_version(
    line: Line,
    operation: ops.Overwrite,
    pending: Pending,
    storage_version: str,
    clock: Clock | None = None,
    *,
    stable_row_ids: bool = False,
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
        empty, operation, timestamp_ns=clock.now_ns(), storage_version=storage_version
    )
    transaction = Transaction(
        read_version=0,
        uuid=pending.uuid,
        operation=operation,
        transaction_properties=pending.properties,
    )
    return put_first_manifest(line, built, transaction)


def put_first_manifest(line: Line, built: Built, transaction: Transaction) -> Snapshot:
    """Put the first manifest of a dataset, a branch or a clone.

    Raises
    ------
    DatasetExistsError
        There is one already.
    """
    landed = _put(line, built, ManifestNaming.V2, transaction)
    if landed is None:
        raise DatasetExistsError(
            f"A dataset was created at {line.uri} at the same time.",
            hint='Open it, or write with mode="append" or mode="overwrite".',
            uri=line.uri,
        )
    return landed


def _put(
    line: Line,
    built: Built,
    naming: ManifestNaming,
    transaction: Transaction,
) -> Snapshot | None:
    store = line.store
    data = encode_transaction(transaction)
    file = names.transaction_name(transaction.read_version, transaction.uuid)
    store.put(f"{names.TRANSACTIONS}/{file}", data)
    manifest = replace(built.manifest, transaction_file=file)
    index_section = encode_index_section(built.indices) if built.indices else None
    path = f"{names.VERSIONS}/{names.manifest_name(manifest.version, naming)}"
    encoded = encode_manifest_file(manifest, index_section=index_section, transaction=data)
    try:
        won = store.put_if_absent(path, encoded)
    except StorageError as error:
        return _settle(line, manifest.version, naming, transaction, error)
    try:
        if won:
            # readers of stores that list without order start there; the reference writes it too
            hint = f'{{"version":{manifest.version}}}'.encode()
            store.put_hint(f"{names.VERSIONS}/{names.HINT}", hint)
        # a store may answer "taken" to a request that it had carried out and whose reply was lost
        landed = load_snapshot(line, manifest.version, naming)
        if _is_transaction(landed, transaction.uuid):
            return landed
    except LancekitError as error:
        raise _unknown(line, manifest.version, transaction, error) from error
    store.delete(f"{names.TRANSACTIONS}/{file}")
    return None


def _settle(
    line: Line,
    version: int,
    naming: ManifestNaming,
    transaction: Transaction,
    error: StorageError,
) -> Snapshot | None:
    """Find out whether a put that failed has landed."""
    try:
        found = load_snapshot(line, version, naming)
    except VersionNotFoundError:
        raise error from None
    except LancekitError as second:
        raise _unknown(line, version, transaction, error) from second
    return found if _is_transaction(found, transaction.uuid) else None


def _unknown(
    line: Line, version: int, transaction: Transaction, error: Exception
) -> CommitUnknownError:
    return CommitUnknownError(
        f"The storage failed while version {version} of {line.uri} was committed, and it cannot "
        f"be told whether it landed: {error}",
        hint=f"Open the dataset and look for transaction {transaction.uuid}, "
        "before you write the same change again.",
        version=version,
        uuid=transaction.uuid,
    )
