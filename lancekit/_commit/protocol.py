"""The commit protocol: check for conflicts, rebase, build, put if absent, retry.

See docs/format/operations.md, 0.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from lancekit._commit.clock import Clock
from lancekit._commit.manifest.build import Built, build_manifest
from lancekit._commit.put_version import StagedTransaction, is_transaction, put_version
from lancekit._commit.rebase import RowConflict, rebase
from lancekit._commit.rules.pending import Pending
from lancekit._defaults import COMMIT_TIMEOUT, MAX_RETRIES
from lancekit._format import flags, names
from lancekit._format import operations as ops
from lancekit._format.manifest import Manifest
from lancekit._format.names import ManifestNaming
from lancekit._format.transaction import Transaction
from lancekit._versions.listing import Newest, newest_version
from lancekit._versions.row_sequences import sequence_of
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import (
    CommitUnknownError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    InvalidArgumentError,
    LancekitError,
    RetriesExhaustedError,
    RetryableConflictError,
    StorageError,
    VersionNotFoundError,
)

_LONGEST_PAUSE = 5.0

#: checks an attempt: gets the newest version, the manifest to put, and the operation
Audit = Callable[[Snapshot, Manifest, ops.Operation], None]


def check_writable(snapshot: Snapshot) -> None:
    """Refuse a table that a commit of this release would damage.

    Raises UnsupportedFeatureError: a writer flag is not known.
    """
    manifest = snapshot.manifest
    flags.check_writable(manifest.writer_flags | manifest.reader_flags, snapshot.store.uri)


def commit(
    read: Snapshot,
    pending: Pending,
    *,
    max_retries: int = MAX_RETRIES,
    timeout: timedelta = COMMIT_TIMEOUT,
    storage_version: str | None = None,
    detached: bool = False,
    strict: bool = False,
    clock: Clock | None = None,
    audit: Audit | None = None,
) -> Snapshot:
    """Commit an operation that is based on ``read``; return the new version.

    If a version after ``read`` has the transaction's uuid, an earlier call committed it.  Then that
    version is returned, and nothing is committed.

    read: the version that the operation is based on.
    pending: the operation, and facts that only its writer knows.
    max_retries: the most attempts to win a version number, at least 1.  An `Overwrite` with 0 is
        strict.
    timeout: the time after which no further attempt starts.
    storage_version: the file version of an `Overwrite`'s files.
    detached: commit outside of the history: the version has a random number, is never the newest,
        and has no conflicts.
    strict: fail if any version landed after ``read``, even one without conflict.
    clock: time and randomness; the real ones by default.
    audit: checks each version before it is put, and raises to prevent the put.

    Raises InvalidArgumentError: ``read`` is detached, or the operation does not fit the version.
    Raises RetryableConflictError: a version landed meanwhile; the change must be made again on the
        newest version.
    Raises IncompatibleConflictError: a version landed meanwhile that excludes this one.
    Raises RetriesExhaustedError: other writers won every race for a version number, or the time is
        up.
    Raises CommitUnknownError: the storage failed, and it is unknown whether the version landed.
    """
    clock = clock or Clock()
    check_writable(read)
    if not detached and names.is_detached(read.version):
        raise InvalidArgumentError(
            f"Version {read.version} of {read.store.uri} is detached, so no version can follow it.",
            hint="Open the newest version and repeat the change there.",
            version=read.version,
        )
    base = _Base(read, storage_version, clock, StagedTransaction(read.store), audit)
    try:
        if detached:
            return _commit_detached(base, pending)
        if strict or (isinstance(pending.operation, ops.Overwrite) and max_retries == 0):
            return _commit_strictly(base, pending)
        return _commit_retrying(base, pending, max(max_retries, 1), timeout)
    except (CommitUnknownError, StorageError):
        raise  # the version may still land, so the transaction's file must stay
    except LancekitError:
        base.staged.remove()
        raise


@dataclass(frozen=True, slots=True)
class _Base:
    """The inputs of every attempt."""

    read: Snapshot
    storage_version: str | None
    clock: Clock
    staged: StagedTransaction
    audit: Audit | None


def _commit_strictly(base: _Base, pending: Pending) -> Snapshot:
    read = base.read
    newest = _newest(read)
    _check_same_dataset(read, newest)
    if newest.version == read.version:
        landed = _attempt(base, read, [], pending, newest.naming)
    else:  # no attempt: a cleanup may have freed the name of the next version
        landed = _landed_before(read, pending, newest.naming)
    if landed is None:
        raise _lost(read, pending, 0)
    return landed


def _landed_before(read: Snapshot, pending: Pending, naming: ManifestNaming) -> Snapshot | None:
    """Return the version after ``read`` if an earlier attempt of this commit made it."""
    try:
        found = load_snapshot(read.location, read.version + 1, naming)
    except VersionNotFoundError:
        return None
    return found if is_transaction(found, pending.uuid) else None


def _commit_retrying(base: _Base, pending: Pending, attempts: int, timeout: timedelta) -> Snapshot:
    read, clock = base.read, base.clock
    started = clock.elapsed()
    unit = 0.0
    latest = read
    theirs: list[Transaction] = []
    for attempt in range(attempts):
        newest = _newest(read)
        if attempt == 0:
            _check_same_dataset(read, newest)
        gap: list[int] = []
        for version in range(latest.version + 1, newest.version + 1):
            found = _load_theirs(read, version, newest, pending)
            if found is None:
                gap.append(version)
                continue
            latest = found
            if is_transaction(latest, pending.uuid):
                return latest
            if gap:
                _check_gap(read, latest, pending, gap)
                gap = []
            theirs.append(_check(read, latest, pending))
        if latest is not read:
            check_writable(latest)
        landed = _attempt(base, latest, theirs, pending, newest.naming)
        if landed is not None:
            return landed
        if attempt == attempts - 1:
            break
        unit = unit or 1.1 * (clock.elapsed() - started)
        # The winner now works on its next change, so the next attempt usually wins.  Pauses as long
        # as several attempts cost four writers a quarter of their rate, and twelve writers half.
        pause = min(unit * clock.random.uniform(0, 2.0 ** (attempt - 1)), _LONGEST_PAUSE)
        if clock.elapsed() - started + pause > timeout.total_seconds():
            raise _lost(read, pending, attempt + 1, timeout)
        clock.sleep(pause)
    raise _lost(read, pending, attempts)


def _lost(
    read: Snapshot, pending: Pending, attempts: int, timeout: timedelta | None = None
) -> RetriesExhaustedError:
    operation = type(pending.operation).__name__
    what = f"{operation} on version {read.version} of {read.store.uri}"
    lost = f"{what} lost {attempts} race{'s' if attempts != 1 else ''} for the next version number"
    if attempts == 0:
        lost = f"Commit conflict for version {read.version + 1}, which is taken: {what} is late"
    elif timeout is not None:
        lost += f", and {timeout.total_seconds():g} s are over"
    return RetriesExhaustedError(
        f"{lost}.",
        hint="Other writers commit faster; try again, or with more retries.",
        read_version=read.version,
        attempts=attempts,
    )


def _newest(read: Snapshot) -> Newest:
    newest = newest_version(read.location)
    if newest is None:
        raise DatasetNotFoundError(
            f"{read.location.uri} was removed after version {read.version} was read.",
            hint="To make a dataset there again, call lk.write_dataset(rows, path).",
            uri=read.location.uri,
        )
    if newest.version < read.version:
        raise _replaced(read)
    if newest.mixed:
        # a writer that knows only one naming would not see a manifest of the other
        raise RetryableConflictError(
            f"{read.store.uri}/{names.VERSIONS} mixes both manifest naming schemes: a migration "
            "is running, or was interrupted.",
            hint="Wait for it, or finish it: ds.migrate_manifest_paths_v2().",
            read_version=read.version,
            uri=read.store.uri,
        )
    return newest


def check_not_replaced(read: Snapshot) -> None:
    """Raise ``IncompatibleConflictError`` if the dataset was removed and recreated meanwhile."""
    _check_same_dataset(read, _newest(read))


def _check_same_dataset(read: Snapshot, newest: Newest) -> None:
    """Refuse to commit to a dataset that was removed and recreated since it was read."""
    name = names.manifest_name(read.version, read.naming)
    mark = newest.marks.get(name) or read.store.mark(f"{names.VERSIONS}/{name}")
    if mark is not None and mark == read.mark:
        return
    try:
        found = load_snapshot(read.location, read.version, read.naming).manifest
    except VersionNotFoundError:  # cleaned up meanwhile, which does not mean another dataset
        if newest.version == read.version:
            raise _replaced(read) from None
        return
    old = read.manifest
    if (found.timestamp_ns, found.transaction_file) != (old.timestamp_ns, old.transaction_file):
        raise _replaced(read)


def _replaced(read: Snapshot) -> IncompatibleConflictError:
    return IncompatibleConflictError(
        f"{read.location.uri} was replaced by another dataset after version {read.version} was "
        "read.",
        hint="Open it again.",
        read_version=read.version,
        uri=read.location.uri,
    )


def _load_theirs(read: Snapshot, version: int, newest: Newest, pending: Pending) -> Snapshot | None:
    """Load a version that landed meanwhile; ``None`` if it is gone and the change can pass it."""
    try:
        return load_snapshot(read.location, version, newest.naming, newest.mark_of(version))
    except VersionNotFoundError:
        from lancekit._commit.rules.conflict_error import passes_gaps

        # the newest version must exist, because the change is based on it
        if version < newest.version and passes_gaps(pending):
            return None
        # a missing version cannot be checked, and skipping it could lose its changes
        raise RetryableConflictError(
            f"The changes of version {version} of {read.store.uri} are unknown, because it was "
            f"cleaned up after version {read.version} was read.",
            hint="Open the newest version and repeat the change.",
            read_version=read.version,
            version=version,
        ) from None


def _check_gap(read: Snapshot, after: Snapshot, pending: Pending, gap: Sequence[int]) -> None:
    """Refuse a change that conflicts with missing versions, as far as ``after`` shows them."""
    from lancekit._commit.rules.conflict_error import gap_error, judge_gap

    verdict = judge_gap(pending, read.manifest, after.manifest)
    if not verdict.lands:
        raise gap_error(read, after, pending, verdict, gap)


def _check(read: Snapshot, theirs: Snapshot, pending: Pending) -> Transaction:
    """Return the transaction of ``theirs``; raise if my change cannot follow it."""
    from lancekit._commit.rules.conflict_error import conflict_error
    from lancekit._commit.rules.table import judge
    from lancekit._commit.rules.verdict import Context

    transaction = theirs.transaction or Transaction(
        read_version=0, uuid="", operation=ops.UnknownOperation()
    )
    verdict = judge(pending, transaction, Context(pending, read.manifest))
    if not verdict.lands:
        raise conflict_error(read, theirs, pending, verdict)
    return transaction


def _attempt(
    base: _Base,
    latest: Snapshot,
    theirs: list[Transaction],
    pending: Pending,
    naming: ManifestNaming,
) -> Snapshot | None:
    """Commit as the version after ``latest``; return ``None`` if another writer did so first."""
    read = base.read
    try:
        rebased = rebase(pending, read, latest, theirs)
    except RowConflict as overlap:
        from lancekit._commit.rules.conflict_error import conflict_error

        winner = load_snapshot(read.location, overlap.version, read.naming)
        raise conflict_error(read, winner, pending, overlap.verdict) from None
    moves = isinstance(rebased.operation, ops.Delete | ops.Update)
    # the rebase has merged the deletions of ``latest`` into such a change
    based_on = latest.version if moves else read.version
    if pending.mark is not None:
        pending.mark.check_first(latest.manifest.config, latest.version)
    if not pending.is_based_on(read.manifest.config, latest.manifest.config):
        raise RetryableConflictError(
            f"Another merge into {read.location.uri} was committed since version {read.version}.",
            hint="Open the newest version and repeat the merge.",
            read_version=read.version,
            version=latest.version,
        )
    built = _build(base, latest, rebased)
    if base.audit is not None:
        base.audit(latest, built.manifest, rebased.operation)
    return put_version(latest.location, built, naming, rebased.transaction(based_on), base.staged)


def _commit_detached(base: _Base, pending: Pending) -> Snapshot:
    read = base.read
    built = _build(base, read, pending)
    number = base.clock.random.getrandbits(63) | 1 << 63
    built = Built(replace(built.manifest, version=number), built.indices)
    if base.audit is not None:
        base.audit(read, built.manifest, pending.operation)
    transaction = pending.transaction(read.version)
    landed = put_version(read.location, built, read.naming, transaction, base.staged)
    if landed is None:  # happens once in 2**63 times
        raise _lost(read, pending, 1)
    return landed


def _build(base: _Base, latest: Snapshot, pending: Pending) -> Built:
    return build_manifest(
        latest.manifest,
        pending.operation,
        timestamp_ns=base.clock.now_ns(),
        indices=latest.indices,
        restored=_restored(latest, pending.operation),
        storage_version=base.storage_version,
        marks=pending.marks_upon(latest.manifest.config),
        next_row_id=pending.next_row_id,
        moves_rows=pending.moves_rows,
        covers=pending.covers,
        reuse=None if pending.reuse is None else pending.reuse.new,
        bases=pending.bases,
        sequences=partial(sequence_of, latest),
    )


def _restored(latest: Snapshot, operation: ops.Operation) -> Built | None:
    if not isinstance(operation, ops.Restore):
        return None
    old = load_snapshot(latest.location, operation.version, latest.naming)
    return Built(old.manifest, old.indices)
