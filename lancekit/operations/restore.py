"""Make an old version the newest one."""

from __future__ import annotations

import uuid

from lancekit.commit.protocol import check_writable
from lancekit.commit.rules.pending import Pending
from lancekit.format.transaction import Restore
from lancekit.operations.cleanup.auto import commit
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.snapshot import Snapshot

__all__ = ["restore_version"]


def restore_version(snapshot: Snapshot) -> Snapshot:
    """Commit the state of ``snapshot`` as a new version; nothing in between is lost."""
    check_writable(snapshot)
    pending = Pending(operation=Restore(version=snapshot.version), uuid=str(uuid.uuid4()))
    return commit(latest_snapshot(snapshot.line), pending)
