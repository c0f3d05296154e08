"""Check that the table and the log of an open writer still exist.

An overwrite, a restore to before the logs began, or a drop of the MemWAL index ends the logs
without notifying their writers.  So does deleting or replacing a branch or a folder.  So a writer
checks before it acknowledges rows, which would otherwise be lost or appear in another table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from lancekit._format.mem_wal.details import MemWalDetails, details_of
from lancekit._format.mem_wal.names import LOGS, QUARANTINE, WAL, entry_name, mem_wal_entry
from lancekit._format.mem_wal.names import manifest_name as shard_manifest_name
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._format.names import VERSIONS, manifest_name
from lancekit._format.paths import paths_by_id
from lancekit._legible import cut
from lancekit._operations.checks.constraints import Constraint, stored_constraints
from lancekit._operations.unmerged.marks import end_of_logs
from lancekit._operations.unmerged.waiting import rows_in_shards
from lancekit._shards.manifests import change, fenced, latest
from lancekit._shards.schema import Shard
from lancekit._versions.listing import at_once, latest_snapshot, timed
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    FencedError,
    LancekitError,
    SchemaMismatchError,
    ShardError,
    VersionNotFoundError,
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last version that a check saw, its manifest's name, and the next manifest's name.

    `mark` identifies the manifest file, or is ``None`` if the file is missing.
    """

    snapshot: Snapshot
    file: str
    next: str
    mark: str | None


class TableWatch:
    """Follows the versions of a table for the writer of a shard and for its flushes.

    snapshot: the version of the table that the writer is opened on.
    shard: the shard of the writer.
    seen: a later version of the same table that another watch saw.  Earlier versions may be gone.
    """

    def __init__(self, snapshot: Snapshot, shard: Shard, seen: Snapshot | None = None) -> None:
        self._shard = shard
        self._columns, self._constraints = _columns(snapshot), _constraints(snapshot)
        # replaced as a whole: putting and flushing threads share the watch
        self._seen = _seen(seen or snapshot)
        #: True if a check sends no request
        self.is_cheap: bool = snapshot.store.mark(self._seen.file) is not None
        self.log: LogWatch | None = None
        self._changed = self._difference(self.seen)

    @property
    def seen(self) -> Snapshot:
        """The newest version that a check saw."""
        return self._seen.snapshot

    def check(self) -> None:
        """Raise if the logs have ended.

        A check looks up two files of the table and one of the log.  In an object store these are
        three requests, sent in parallel if they are slow.  It loads the newest version if the table
        has changed since the last check.

        Raises FencedError: the table, its branch or its MemWAL index is gone or was replaced.
        """
        seen, log, store = self._seen, self.log, self._seen.snapshot.store
        looks = [partial(store.look, seen.file), partial(store.look, seen.next)]
        if log is not None:
            looks.append(partial(self._shard.store.look, log.name))
        mark, following, *of_log = _look_all(looks)
        if mark is None or mark != seen.mark or following is not None:
            self._look(seen.snapshot)
        if log is not None and (ended := log.check(of_log[0])):
            raise self._ended(ended)

    def check_rows(self) -> None:
        """Raise if the last check found a reason to refuse rows; this reads no files.

        Rows of a writer with older columns lack the new columns, and are not checked against newer
        constraints.

        Raises SchemaMismatchError: the table's columns changed since the writer was opened, or it
            has new constraints.
        Raises CorruptFileError: the last entry of the log is missing.
        """
        if self.log is not None:
            self.log.check_whole()
        if self._changed:
            raise SchemaMismatchError(
                f"{self._changed} These rows were not written.",
                hint="Close the writer and open a new one with ds.mem_wal_writer(shard), which "
                "uses the new columns and constraints. Acknowledged rows are kept.",
                shard=str(self._shard.id),
                columns_changed=True,
                unwritten=True,
            )

    def check_written(self, remove: Callable[[], None]) -> None:
        """Check again after a write; if the logs have ended, remove the new file and raise."""
        try:
            self.check()
        except FencedError as error:
            if error.context.get("ended"):  # if fenced, a cleanup removes the file
                remove()
                self._shard.store.prune()
            raise

    def _look(self, seen: Snapshot) -> None:
        entry = mem_wal_entry(seen.indices)
        try:
            newest = latest_snapshot(seen.location)
            known = None if seen.version > newest.version else _loaded(seen, seen.version)
        except (DatasetNotFoundError, VersionNotFoundError) as error:
            raise self._ended("no longer exists", gone=True) from error
        if seen.version > newest.version or (known and _differ(known, seen)):
            raise self._ended("was replaced by another table")
        now = mem_wal_entry(newest.indices)
        if now is None or entry is None:
            raise self._ended("lost its MemWAL", left=_folder_of_left_rows(newest))
        if now.uuid != entry.uuid and now.created_at != entry.created_at:
            # recreated, perhaps by an overwrite; the reference also recreates it at each merge
            for version in range(seen.version + 1, newest.version):
                between = _loaded(seen, version)
                if between is None or mem_wal_entry(between.indices) is None:
                    raise self._ended("got another MemWAL")
        self._changed = self._difference(newest)
        self._seen = _seen(newest)

    def _difference(self, newest: Snapshot) -> str:
        """Return which columns and constraints changed, as sentences; empty if none did."""
        changes = {
            "columns": _difference(self._columns, _columns(newest)),
            "constraints": _newer(self._constraints, _constraints(newest)),
        }
        return " ".join(
            f"The {what} of {newest.location.uri} changed since the writer of shard "
            f"{self._shard.id} was opened: {how}."
            for what, how in changes.items()
            if how
        )

    def _ended(self, what: str, *, gone: bool = False, left: str = "") -> FencedError:
        location = self._seen.snapshot.location
        first = f"Move {left} to another place, or remove it: its rows are of the old table. "
        hint = (first if left else "") + (
            f"Put the rows into the current table: ds = {location.code}, then "
            "ds.mem_wal_upsert(rows), or open a writer with ds.mem_wal_writer(shard)."
        )
        if gone:
            hint = (
                "It was deleted or moved, with its logs. Restore it, then put the rows through a "
                f"new handle: ds = {location.code}. Or put them into another table or branch, "
                "created with lancekit.write_dataset or ds.create_branch."
            )
        return FencedError(
            f"{location.uri} {what} since the writer of shard {self._shard.id} was opened: the "
            "writer cannot write any more. These rows were not written.",
            hint=hint,
            shard=str(self._shard.id),
            uri=location.uri,
            ended=True,
        )


def _folder_of_left_rows(newest: Snapshot) -> str:
    """Return the folder to move before new logs are written, or an empty text.

    The reference overwrites and restores tables whose shards have rows.  If it only dropped the
    MemWAL, the shards continue.  A version with a MemWAL has no such rows.
    """
    with suppress(LancekitError):
        try:
            dropped_logs(newest)
        except ShardError:  # the rows would appear in a table that they were not written for
            return f"{newest.store.uri}/{LOGS}"
    return ""


def _seen(snapshot: Snapshot) -> _Seen:
    file = f"{VERSIONS}/{snapshot.manifest_name}"
    following = f"{VERSIONS}/{manifest_name(snapshot.version + 1, snapshot.naming)}"
    return _Seen(snapshot, file, following, snapshot.store.look(file))


def _look_all(looks: Sequence[Callable[[], str | None]]) -> list[str | None]:
    """Return the results of look-ups; if the first one is slow, the others run in parallel."""
    first, is_slow = timed(_called, looks[0])
    rest = looks[1:]
    return [first, *(at_once(_called, rest) if is_slow else map(_called, rest))]


def _called(look: Callable[[], str | None]) -> str | None:
    return look()


def _columns(snapshot: Snapshot) -> dict[int, tuple[str, str]]:
    """Return the name and type of each column and nested field, by field id."""
    schema = snapshot.manifest.schema
    kinds = {field.id: field.logical_type for field in schema.walk()}
    return {id_: (path, kinds[id_]) for id_, path in paths_by_id(schema).items()}


def _difference(before: Mapping[int, tuple[str, str]], now: Mapping[int, tuple[str, str]]) -> str:
    """Return how columns differ, as a phrase; empty if they are equal."""
    changes = [f"{now[id_][0]!r} is new" for id_ in now if id_ not in before]
    for id_, (name, kind) in before.items():
        if id_ not in now:
            changes.append(f"{name!r} was dropped")
        elif now[id_][0] != name:
            changes.append(f"{name!r} was renamed to {now[id_][0]!r}")
        elif now[id_][1] != kind:
            changes.append(f"{name!r} is {now[id_][1]}, was {kind}")
    return cut(", ".join(changes), 200)


def _constraints(snapshot: Snapshot) -> dict[str, Constraint]:
    """Return the constraints that refuse rows, by name."""
    stored = stored_constraints(snapshot.manifest.config)
    return {name: one for name, one in stored.items() if one.on_fail == "refuse"}


def _newer(before: Mapping[str, Constraint], now: Mapping[str, Constraint]) -> str:
    """Return which constraints are new or have another condition, as a phrase."""
    changes = [
        f"{name!r} is {'now' if name in before else 'new:'} {one.condition}"
        for name, one in now.items()
        if before.get(name) is None or before[name].condition != one.condition
    ]
    return cut(", ".join(changes), 200)


def _loaded(seen: Snapshot, version: int) -> Snapshot | None:
    """Return another version of a table; ``None`` if it was cleaned up."""
    try:
        return load_snapshot(seen.location, version, seen.naming)
    except VersionNotFoundError:
        return None


def _differ(one: Snapshot, other: Snapshot) -> bool:
    """Return True if two versions with the same number are of different tables."""
    return (one.manifest.timestamp, one.transaction_uuid) != (
        other.manifest.timestamp,
        other.transaction_uuid,
    )


# ---- rows of ended logs, in the folder of a table that gets new logs


class DroppedLogs(NamedTuple):
    """A dropped MemWAL of a table whose folder still has rows of shards or quarantines.

    details: the details of the last version that had the MemWAL.
    has_rows: True if shards have rows that this version lacks.
    """

    details: MemWalDetails
    has_rows: bool


def dropped_logs(snapshot: Snapshot) -> DroppedLogs | None:
    """Return the dropped MemWAL that a new one must continue, or ``None``.

    Raises ShardError: the shards have rows, and the table that they were written for has ended.
    """
    if mem_wal_entry(snapshot.indices) is not None:
        return None
    has_rows = _has_rows(snapshot)
    if not has_rows and not snapshot.store.list_folders(QUARANTINE):
        return None
    before, ended_by = end_of_logs(snapshot)
    details = None if before is None else details_of(before.indices)
    if before is not None and details is not None:
        return DroppedLogs(details, _has_rows(before))
    if not has_rows:
        return None
    raise ShardError(
        f"{snapshot.location.uri} has rows in the logs of an earlier table: {ended_by}.",
        hint=f"These rows would be added to the new table. Move {snapshot.store.uri}/{LOGS} to "
        "another place, or remove it, then repeat the call.",
        uri=snapshot.location.uri,
    )


def _has_rows(snapshot: Snapshot) -> bool:
    waiting = rows_in_shards(snapshot)
    return bool(waiting.rows) or not waiting.complete


# ---- check that the log of a writer's shard still exists
#
# The folder of a shard, or of all logs, can be removed or replaced while the table stays.  A put
# would recreate the folder, with an entry that no manifest knows.


class LogWatch:
    """Follows the log of a shard for one epoch, by its last entry, or by a manifest if it is empty.

    version: the version of the last shard manifest that the writer put.
    last: the position of the last entry, or 0 for an empty log.
    """

    def __init__(self, shard: Shard, epoch: int, version: int, last: int) -> None:
        self._shard = shard
        self._epoch = epoch
        # replaced as wholes: putting and flushing threads share the watch
        self._manifest = version, shard.store.look(shard_manifest_name(version))
        self._entry = last, shard.store.look(entry_name(last)) if last else None
        self._is_cut = False

    @property
    def name(self) -> str:
        """The file that the next check looks up."""
        last, _ = self._entry
        return entry_name(last) if last else shard_manifest_name(self._manifest[0])

    def wrote(self, position: int) -> None:
        """Follow the log by the entry that the writer has just put."""
        name = entry_name(position)
        self._entry = position, self._shard.store.mark_of_put(name) or self._shard.store.look(name)
        self._is_cut = False
        if position == 1:
            self._record_first_entry()

    def _record_first_entry(self) -> None:
        """Record the first entry in a manifest: if its entries were lost, the log would look new.

        Later writers record the entries that they find, and flushes the entries that they have.
        """

        def recorded(newest: ShardManifest) -> ShardManifest | None:
            return None if newest.last_seen else replace(newest, last_seen=1)

        with suppress(LancekitError):  # the entry was put, and the next check finds any problem
            self.flushed(change(self._shard, self._epoch, recorded).version)

    def flushed(self, version: int) -> None:
        """Follow the manifests by the manifest of a flush."""
        self._manifest = version, self._shard.store.look(shard_manifest_name(version))

    def check(self, mark: str | None) -> str:
        """Compare the mark of the file `name` with the known one; return how the log ended, or "".

        Raises FencedError: another writer has the shard.
        """
        _, known = self._entry if self._entry[0] else self._manifest
        return "" if mark == known else self._look()

    def check_whole(self) -> None:
        """Raise if the last entry was missing at the last check; this reads no files.

        Raises CorruptFileError: the entry was missing.  Its rows are in the memory of the writer,
            or in a generation.
        """
        if self._is_cut:
            where, last = f"{self._shard.store.uri}/{WAL}", self._entry[0]
            raise CorruptFileError(
                f"The end of the write-ahead log {where} is missing: entry {last} was written and "
                "is gone. These rows were not written.",
                hint="Close the writer: it still has the rows in memory and writes them as a "
                "generation. Then open another writer and put these rows again. Close it before "
                "ds.repair_mem_wal(), which would discard the lost rows.",
                file=where,
                shard=str(self._shard.id),
                position=last,
                unwritten=True,
                cut=True,
            )

    def is_sealed(self) -> bool:
        """Check whether the shard was sealed since the writer claimed it."""
        store, (version, known) = self._shard.store, self._manifest
        following = shard_manifest_name(version + 1)
        if store.look(shard_manifest_name(version)) == known and not store.exists(following):
            return False
        newest = latest(self._shard)
        return newest is not None and newest.sealed

    def _look(self) -> str:
        try:
            newest = latest(self._shard)
        except CorruptFileError as error:
            if not error.context.get("lost"):
                raise
            return "lost the manifests of the shard"
        if newest is None:
            return "no longer has the log of the shard"
        version, known = self._manifest
        mark = self._shard.store.look(shard_manifest_name(version))
        if newest.writer_epoch < self._epoch or mark not in {None, known}:
            return "has another copy of the shard's log"
        if newest.writer_epoch > self._epoch:
            raise fenced(self._shard, self._epoch, newest.writer_epoch)
        if mark is None:  # a cleanup removed the manifest
            self.flushed(newest.version)
        last, _ = self._entry
        if last:
            self._entry = last, self._shard.store.look(entry_name(last))
            self._is_cut = self._entry[1] is None
        return ""
