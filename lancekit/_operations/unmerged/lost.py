"""Shards of which a version has merged rows, and which are gone."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from lancekit._format.mem_wal.names import LOGS, is_quarantine
from lancekit._operations.unmerged.marks import Marks
from lancekit._shards.manifests import latest, lost_manifests
from lancekit._shards.shard import Shard, shard_of
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import CorruptFileError, LancekitError

__all__ = ["check_shards", "lost_shards"]


def lost_shards(snapshot: Snapshot, there: Collection[UUID] = ()) -> list[Shard]:
    """Return the shards whose generations a version has merged, and which have no manifest.

    Branches and clones begin with marks of shards that they do not have.  So a mark counts that is
    higher than the mark of the oldest version.  Where no folder of logs is, nothing is missed: the
    folder was moved, or a program put the marks that has its logs elsewhere.

    Parameters
    ----------
    snapshot
        A version.
    there
        The ids of shards that are known to have a manifest.
    """
    merged = Marks(snapshot).merged
    marked = sorted(id_ for id_ in merged.keys() - set(there) if not is_quarantine(id_))
    if not marked or LOGS not in snapshot.store.list_folders(""):
        return []
    try:
        oldest = min(list_versions(snapshot.line).versions)
        before = Marks(load_snapshot(snapshot.line, oldest)).merged
    except (LancekitError, ValueError):  # the table ends, or cannot tell
        return []
    own = (shard_of(snapshot.store, id_) for id_ in marked if merged[id_] > before.get(id_, 0))
    return [shard for shard in own if _is_gone(shard)]


def _is_gone(shard: Shard) -> bool:
    """Return whether nothing is left of a shard; what has entries without manifests is there."""
    try:
        return latest(shard) is None
    except CorruptFileError:
        return False


def check_shards(snapshot: Snapshot, there: Collection[UUID] = ()) -> None:
    """Raise if a shard is gone of which a version has merged generations.

    Raises
    ------
    CorruptFileError
        The rows that the log of the shard had are lost.
    """
    for shard in lost_shards(snapshot, there):
        raise lost_manifests(shard)
