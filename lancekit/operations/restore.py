"""Make an old version the newest one."""

from __future__ import annotations

import uuid

from lancekit.commit.pending import Pending
from lancekit.commit.protocol import check_writable
from lancekit.commit.snapshot import Snapshot
from lancekit.commit.versions import latest_snapshot
from lancekit.format.transaction import Restore
from lancekit.operations.auto_cleanup import commit

__all__ = ["restore_version"]


def restore_version(snapshot: Snapshot) -> Snapshot:
    """Commit the state of ``snapshot`` as a new version; nothing in between is lost."""
    check_writable(snapshot)
    pending = Pending(operation=Restore(version=snapshot.version), uuid=str(uuid.uuid4()))
    return commit(latest_snapshot(snapshot.line), pending)
