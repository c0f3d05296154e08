"""Make an old version the newest one, or the one before the newest."""

from __future__ import annotations

import uuid

from lancekit._commit.protocol import check_writable
from lancekit._commit.rules.pending import Pending
from lancekit._format.transaction import Restore
from lancekit._operations.cleanup.auto import commit
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    InvalidArgumentError,
    RetriesExhaustedError,
    RetryableConflictError,
    VersionNotFoundError,
)

__all__ = ["restore_version", "undo_version"]


def restore_version(snapshot: Snapshot) -> Snapshot:
    """Commit the state of ``snapshot`` as a new version; nothing in between is lost."""
    check_writable(snapshot)
    pending = Pending(operation=Restore(version=snapshot.version), uuid=str(uuid.uuid4()))
    return commit(latest_snapshot(snapshot.line), pending)


def undo_version(snapshot: Snapshot) -> Snapshot:
    """Commit the state before ``snapshot``, which has to be the newest version, as a new one."""
    check_writable(snapshot)
    if snapshot.version == 1:
        raise InvalidArgumentError(
            f"Version 1 of {snapshot.line.uri} is the first: there is nothing before it.",
            hint="LanceDataset.drop() removes a dataset.",
            version=1,
        )
    before = snapshot.version - 1
    pending = Pending(operation=Restore(version=before), uuid=str(uuid.uuid4()), doing="undo")
    try:
        return commit(snapshot, pending, strict=True)
    except RetriesExhaustedError as error:
        raise _not_newest(snapshot, latest_snapshot(snapshot.line).version) from error
    except VersionNotFoundError as error:
        raise VersionNotFoundError(
            f"Version {before} of {snapshot.line.uri} is gone, so that version {snapshot.version} "
            "cannot be taken back to it.",
            hint="It was cleaned up. ds.versions() lists what checkout_version(...).restore() can "
            "go back to.",
            version=before,
        ) from error


def _not_newest(snapshot: Snapshot, newest: int) -> RetryableConflictError:
    return RetryableConflictError(
        f"Version {snapshot.version} of {snapshot.line.uri} is not the newest any more: to go back "
        f"to the one before would take back what came up to version {newest}, too.",
        hint=f"Look at ds.changes({snapshot.version}); ds.checkout_latest(), then undo() takes "
        "back the newest.",
        read_version=snapshot.version,
        newest=newest,
    )
