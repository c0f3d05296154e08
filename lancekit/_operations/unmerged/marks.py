"""The generations of shards that a version contains, by the marks in its MemWAL entry."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from lancekit._format.mem_wal.details import MemWalDetails, details_of
from lancekit._format.mem_wal.names import LOGS, QUARANTINE, is_quarantine, mem_wal_entry
from lancekit._format.operations import Overwrite, Restore
from lancekit._lazy import cached_property
from lancekit._shards.manifests import latest, lost_manifests
from lancekit._shards.schema import Shard, shard_of
from lancekit._versions.ancestor import clone_of, source_of
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import at_once, list_versions, timed
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    FormatError,
    LancekitError,
    VersionNotFoundError,
)


@dataclass(frozen=True, eq=False)
class Marks:
    """The marks of a version: which generations of its branch's shards are merged."""

    snapshot: Snapshot

    @cached_property
    def merged(self) -> Mapping[UUID, int]:
        """The last merged generation of each shard."""
        return (details_of(self.snapshot.indices) or MemWalDetails()).merged

    @cached_property
    def inherited(self) -> Mapping[UUID, int]:
        """The marks that a branch or clone inherited: of shards that are not its own."""
        source = source_of(self.snapshot.location)
        return {} if source is None else Marks(source).merged

    def has(self, shard: UUID, generation: int) -> bool:
        """Return True if the version has the rows of a generation.

        A writer that ignores marks starts the shards of branches at generation 1 again.  An
        inherited mark does not refer to these generations.
        """
        return self.merged.get(shard, 0) >= generation > self.inherited.get(shard, 0)


# ---- shards with merged generations whose manifests are gone


def lost_shards(snapshot: Snapshot, there: Collection[UUID] = ()) -> list[Shard]:
    """Return the shards with merged generations that have no manifest.

    Branches and clones start with marks of shards that they do not have.  So a mark counts only if
    it is higher than in the oldest version.  Without a folder of logs, no shard counts as lost: the
    folder was moved, or the marks come from a program that keeps its logs elsewhere.

    snapshot: a version.
    there: the ids of shards that are known to have a manifest.
    """
    merged = Marks(snapshot).merged
    marked = sorted(id_ for id_ in merged.keys() - set(there) if not is_quarantine(id_))
    if not marked or LOGS not in snapshot.store.list_folders(""):
        return []
    try:
        oldest = min(list_versions(snapshot.location).versions)
        before = Marks(load_snapshot(snapshot.location, oldest)).merged
    except (LancekitError, ValueError):  # no versions, or the oldest cannot be read
        return []
    own = (shard_of(snapshot.store, id_) for id_ in marked if merged[id_] > before.get(id_, 0))
    return [shard for shard in own if _is_gone(shard)]


def _is_gone(shard: Shard) -> bool:
    """Return True if a shard has no manifest and no log entries."""
    try:
        return latest(shard) is None
    except CorruptFileError:
        return False


def check_shards(snapshot: Snapshot, there: Collection[UUID] = ()) -> None:
    """Raise if a shard with merged generations is gone.

    Raises CorruptFileError: the rows in the log of the shard are lost.
    """
    for shard in lost_shards(snapshot, there):
        raise lost_manifests(shard)


# ---- the quarantine: tables of rows that a merge set aside (docs/format/memwal.md, 10)
#
# The MemWAL entry of a version marks each of these tables like a generation of a shard: 1 while its
# rows wait, 2 once they were put back or discarded.  So the commit that merges the generation lands
# the mark, and an overwrite drops it.  Two commits that empty the same table conflict.


#: the mark of a table whose rows wait, and of one whose rows were put back or discarded
WAITING, EMPTIED = 1, 2


class _QuarantineTable(NamedTuple):
    """A table of rows in quarantine."""

    id: UUID
    table: Snapshot


def quarantine_ids(snapshot: Snapshot) -> set[UUID]:
    """Return the ids of the quarantine tables whose rows wait, by the marks of a version."""
    marks = Marks(snapshot)
    found = {one for one, mark in marks.merged.items() if mark == WAITING and is_quarantine(one)}
    return found - marks.inherited.keys() if found else found


def quarantined(snapshot: Snapshot) -> list[_QuarantineTable]:
    """Return the quarantine tables of a version whose rows wait, oldest first.

    Raises CorruptFileError: a table is missing or damaged.
    """
    return sorted(_opened(snapshot), key=lambda one: (one.table.manifest.timestamp, one.id))


def quarantined_rows(snapshot: Snapshot) -> int:
    """Count the rows that wait in the quarantine of a version; no file is read if none do.

    Raises CorruptFileError: a table is missing or damaged.
    """
    return sum(one.table.manifest.num_rows for one in _opened(snapshot))


def _opened(snapshot: Snapshot) -> Iterator[_QuarantineTable]:
    for id_ in quarantine_ids(snapshot):
        try:
            yield _QuarantineTable(id_, quarantine_table(snapshot, id_))
        except CorruptFileError as error:
            is_own = snapshot.location.branch is None and clone_of(snapshot.location) is None
            if is_own or not error.context.get("missing"):
                raise
            # the mark is inherited, and the source can no longer be read


def quarantine_table(snapshot: Snapshot, id_: UUID) -> Snapshot:
    """Open a quarantine table of a version.

    Raises CorruptFileError: the table is missing or damaged.
    """
    store = snapshot.store.child(f"{QUARANTINE}/{id_}")
    kept = f"it has the quarantined rows of {snapshot.called}"
    try:
        return load_snapshot(BranchLocation(root=store), 1)
    except (VersionNotFoundError, DatasetNotFoundError, FileNotFoundError) as error:
        raise CorruptFileError(
            f"{store.uri} is missing: {kept}.",
            hint="Restore the folder from a copy.",
            file=store.uri,
            missing=True,
        ) from error
    except (FormatError, ArithmeticError, LookupError, TypeError) as error:
        raise CorruptFileError(
            f"{store.uri} is damaged: {error}",
            hint=f"Restore the folder from a copy: {kept}.",
            file=store.uri,
        ) from error


# ---- the MemWAL that a table had before it was dropped (docs/format/memwal.md, 6)
#
# The reference drops the entry even while rows wait in shards or in quarantine.  The previous
# version's entry has the marks and the sharding of these rows.

#: number of versions that are read at the same time
_GROUP = 16


class _EndOfLogs(NamedTuple):
    """The reason why a version has no MemWAL.

    before: the newest version that had a MemWAL, if the MemWAL was dropped after it.
    ended_by: the other reason, for a message; empty if the MemWAL was dropped.
    """

    before: Snapshot | None
    ended_by: str = ""


def end_of_logs(snapshot: Snapshot, most: int | None = None) -> _EndOfLogs:
    """Return why a version has no MemWAL, from the versions before it.

    snapshot: the version.
    most: the number of versions to read, all by default.
    """
    later = snapshot
    for older in _older(snapshot, most):
        if ended := _ended_by(later):
            return _EndOfLogs(None, ended)
        if mem_wal_entry(older.indices) is not None:
            return _EndOfLogs(older)
        later = older
    none = f"no version with these logs exists before version {later.version}"
    return _EndOfLogs(None, _ended_by(later) or none)


def _ended_by(snapshot: Snapshot) -> str:
    operation = snapshot.transaction.operation if snapshot.transaction else None
    if not isinstance(operation, Overwrite | Restore):
        return ""
    return f"version {snapshot.version} was created by {type(operation).__name__.lower()!r}"


def _older(snapshot: Snapshot, most: int | None) -> Iterator[Snapshot]:
    """Yield the versions before a version, newest first, up to the first missing version.

    There may be thousands: if a single read is slow, several versions are read at the same time.
    """

    def read(version: int) -> Snapshot | None:
        try:
            found = load_snapshot(snapshot.location, version)
        except VersionNotFoundError:
            return None
        _ = found.indices, found.transaction  # read in the thread, and cached
        return found

    first = 1 if most is None else max(1, snapshot.version - most)
    newest, group = snapshot.version - 1, 1
    while newest >= first:
        last = max(first, newest - group + 1)
        found, is_slow = timed(partial(at_once, read), range(newest, last - 1, -1))
        for one in found:
            if one is None:
                return
            yield one
        newest, group = last - 1, _GROUP if is_slow else 1


def dropped_quarantine(snapshot: Snapshot) -> int:
    """Count the rows that waited in quarantine when the MemWAL of a version was dropped.

    Raises CorruptFileError: a table of the quarantine is missing or damaged.
    """
    if mem_wal_entry(snapshot.indices) or not snapshot.store.list_folders(QUARANTINE):
        return 0
    before, _ = end_of_logs(snapshot)
    return 0 if before is None else quarantined_rows(before)
