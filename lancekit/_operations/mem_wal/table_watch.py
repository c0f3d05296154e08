"""Whether the table and the log that a writer was opened for are still there.

An overwrite, a restore to before the logs began, a drop of the MemWAL index, and whoever deletes or
replaces a branch or a folder ends the logs without a word to their writers.  A writer looks before
it acknowledges rows: nobody would read them, or they would come up in another table.
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
    """The last version that was looked at, its manifest's name, and the next manifest's name.

    `mark` tells the manifest from all other files.
    """

    snapshot: Snapshot
    file: str
    next: str
    mark: str | None


class TableWatch:
    """Follows the versions of a table for the writer of a shard and for its flushes.

    snapshot: the version of the table for which the writer is opened.
    shard: the shard of the writer.
    seen: a later version of the same table, that another watch saw: versions before it may be gone.
    """

    def __init__(self, snapshot: Snapshot, shard: Shard, seen: Snapshot | None = None) -> None:
        self._shard = shard
        self._columns, self._constraints = _columns(snapshot), _constraints(snapshot)
        # replaced as a whole: the threads that put and that flush share the watch
        self._seen = _seen(seen or snapshot)
        #: whether a check takes no request
        self.is_cheap: bool = snapshot.store.mark(self._seen.file) is not None
        self.log: LogWatch | None = None
        self._changed = self._difference(self.seen)

    @property
    def seen(self) -> Snapshot:
        """The newest version that was looked at."""
        return self._seen.snapshot

    def check(self) -> None:
        """Raise if the logs have ended.

        These are two looks at the table and one at the log, in an object store a request each, at
        the same time where they take long.  This reads the newest version if the table has another
        one than at the last check.

        Raises FencedError: the table, its branch or its MemWAL index is gone, or is another one.
        """
        seen, log, store = self._seen, self.log, self._seen.snapshot.store
        looks = [partial(store.look, seen.file), partial(store.look, seen.next)]
        if log is not None:
            looks.append(partial(self._shard.store.look, log.name))
        mark, following, *of_log = _looked(looks)
        if mark is None or mark != seen.mark or following is not None:
            self._look(seen.snapshot)
        if log is not None and (ended := log.check(of_log[0])):
            raise self._ended(ended)

    def check_rows(self) -> None:
        """Raise if rows could not be put at the last check; this reads nothing.

        Rows of a writer with older columns lack the new ones, and were not tried by constraints
        that came later.

        Raises SchemaMismatchError: the table has other columns than when the writer was opened, or
            new constraints.
        Raises CorruptFileError: the last entry of the log is missing.
        """
        if self.log is not None:
            self.log.check_whole()
        if self._changed:
            raise SchemaMismatchError(
                f"{self._changed} These rows were not written.",
                hint="Close the writer, and open another with ds.mem_wal_writer(shard): it takes "
                "rows as the table has them now. What was acknowledged is kept.",
                shard=str(self._shard.id),
                columns_changed=True,
                unwritten=True,
            )

    def check_written(self, remove: Callable[[], None]) -> None:
        """Check again when a file was written; if the logs have ended, remove it and raise."""
        try:
            self.check()
        except FencedError as error:
            if error.context.get("ended"):  # a writer that took the shard may have read the file
                remove()
                self._shard.store.prune()
            raise

    def _look(self, seen: Snapshot) -> None:
        entry = mem_wal_entry(seen.indices)
        try:
            newest = latest_snapshot(seen.location)
            known = None if seen.version > newest.version else _loaded(seen, seen.version)
        except (DatasetNotFoundError, VersionNotFoundError) as error:
            raise self._ended("is not there any more", gone=True) from error
        if seen.version > newest.version or (known and _differ(known, seen)):
            raise self._ended("is another one")
        now = mem_wal_entry(newest.indices)
        if now is None or entry is None:
            raise self._ended("has no MemWAL any more", left=_folder_of_left_rows(newest))
        if now.uuid != entry.uuid and now.created_at != entry.created_at:
            # made anew, perhaps by an overwrite; the reference makes it anew at each merge, too
            for version in range(seen.version + 1, newest.version):
                between = _loaded(seen, version)
                if between is None or mem_wal_entry(between.indices) is None:
                    raise self._ended("got another MemWAL")
        self._changed = self._difference(newest)
        self._seen = _seen(newest)

    def _difference(self, newest: Snapshot) -> str:
        """Return which columns and constraints changed, as a sentence; empty if none did."""
        said = {
            "columns": _difference(self._columns, _columns(newest)),
            "constraints": _newer(self._constraints, _constraints(newest)),
        }
        return " ".join(
            f"The {what} of {newest.location.uri} changed since the writer of shard "
            f"{self._shard.id} was opened: {how}."
            for what, how in said.items()
            if how
        )

    def _ended(self, what: str, *, gone: bool = False, left: str = "") -> FencedError:
        location = self._seen.snapshot.location
        first = f"Move {left} to another place, or remove it: its rows are of the table before. "
        hint = (first if left else "") + (
            f"Put the rows into the table that is there now: ds = {location.code}, then "
            "ds.mem_wal_upsert(rows), or open a writer with ds.mem_wal_writer(shard)."
        )
        if gone:
            hint = (
                "It was deleted or moved, with its logs. Restore it, then put the rows by a new "
                f"handle: ds = {location.code}. Or put them into another table or branch, which "
                "lancekit.write_dataset or ds.create_branch makes."
            )
        return FencedError(
            f"{location.uri} {what} since the writer of shard {self._shard.id} was opened: "
            "the writer cannot write any more. These rows were not written.",
            hint=hint,
            shard=str(self._shard.id),
            uri=location.uri,
            ended=True,
        )


def _folder_of_left_rows(newest: Snapshot) -> str:
    """Return the folder that nobody may write logs into before it is moved; empty if none is.

    The reference overwrites and restores tables whose shards have rows.  Where it only dropped the
    MemWAL, the shards go on.  A version with a MemWAL has no rows left.
    """
    with suppress(LancekitError):
        try:
            dropped_logs(newest)
        except ShardError:  # the rows would come up in a table that they were not written for
            return f"{newest.store.uri}/{LOGS}"
    return ""


def _seen(snapshot: Snapshot) -> _Seen:
    file = f"{VERSIONS}/{snapshot.manifest_name}"
    following = f"{VERSIONS}/{manifest_name(snapshot.version + 1, snapshot.naming)}"
    return _Seen(snapshot, file, following, snapshot.store.look(file))


def _looked(looks: Sequence[Callable[[], str | None]]) -> list[str | None]:
    """Return what each look finds; where the first one takes long, the others share their time."""
    first, is_slow = timed(_called, looks[0])
    rest = looks[1:]
    return [first, *(at_once(_called, rest) if is_slow else map(_called, rest))]


def _called(look: Callable[[], str | None]) -> str | None:
    return look()


def _columns(snapshot: Snapshot) -> dict[int, tuple[str, str]]:
    """Return the name and type of each column and part of a column, by the ids of fields."""
    schema = snapshot.manifest.schema
    kinds = {field.id: field.logical_type for field in schema.walk()}
    return {id_: (path, kinds[id_]) for id_, path in paths_by_id(schema).items()}


def _difference(before: Mapping[int, tuple[str, str]], now: Mapping[int, tuple[str, str]]) -> str:
    """Return how columns differ, as a phrase; empty if they are the same."""
    said = [f"{now[id_][0]!r} is new" for id_ in now if id_ not in before]
    for id_, (name, kind) in before.items():
        if id_ not in now:
            said.append(f"{name!r} is gone")
        elif now[id_][0] != name:
            said.append(f"{name!r} is called {now[id_][0]!r}")
        elif now[id_][1] != kind:
            said.append(f"{name!r} is {now[id_][1]}, was {kind}")
    return cut(", ".join(said), 200)


def _constraints(snapshot: Snapshot) -> dict[str, Constraint]:
    """Return the constraints that refuse rows, by their names."""
    stored = stored_constraints(snapshot.manifest.config)
    return {name: one for name, one in stored.items() if one.on_fail == "refuse"}


def _newer(before: Mapping[str, Constraint], now: Mapping[str, Constraint]) -> str:
    """Return which constraints are new or have another condition, as a phrase."""
    said = [
        f"{name!r} is {'now' if name in before else 'new:'} {one.condition}"
        for name, one in now.items()
        if before.get(name) is None or before[name].condition != one.condition
    ]
    return cut(", ".join(said), 200)


def _loaded(seen: Snapshot, version: int) -> Snapshot | None:
    """Return another version of a table; ``None`` if it was cleaned up."""
    try:
        return load_snapshot(seen.location, version, seen.naming)
    except VersionNotFoundError:
        return None


def _differ(one: Snapshot, other: Snapshot) -> bool:
    """Tell whether two versions of one number are of different tables."""
    return (one.manifest.timestamp, one.transaction_uuid) != (
        other.manifest.timestamp,
        other.transaction_uuid,
    )


# ---- rows of logs that have ended, in the folder of a table that begins to have logs again


class DroppedLogs(NamedTuple):
    """The MemWAL that was dropped from a table whose folder has rows of shards or quarantines.

    details: those of the last version that had the MemWAL.
    has_rows: whether shards have rows that this version lacks.
    """

    details: MemWalDetails
    has_rows: bool


def dropped_logs(snapshot: Snapshot) -> DroppedLogs | None:
    """Return the MemWAL that has to be taken up again with its rows; ``None`` if there is none.

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
        f"{snapshot.location.uri} has rows in the logs of a table that has ended: {ended_by}.",
        hint=f"The rows of this folder would come into the new table: {snapshot.store.uri}/"
        f"{LOGS}. Move the folder to another place, or remove it, then do this again.",
        uri=snapshot.location.uri,
    )


def _has_rows(snapshot: Snapshot) -> bool:
    waiting = rows_in_shards(snapshot)
    return bool(waiting.rows) or not waiting.complete


# ---- whether the log of a shard, to which a writer adds entries, is still there
#
# The folder of a shard, or of all logs, can be removed or replaced while the table stays.  A put
# would make a folder again, with an entry that no manifest knows.


class LogWatch:
    """Follows the log of a shard for one epoch: by its last entry, or by a manifest if it has none.

    shard: the shard.
    epoch: the epoch of its writer.
    version: the version of the shard's manifest that the writer put last.
    last: the position of the last entry; 0 if there is none.
    """

    def __init__(self, shard: Shard, epoch: int, version: int, last: int) -> None:
        self._shard = shard
        self._epoch = epoch
        # replaced as wholes: the threads that put and that flush share the watch
        self._manifest = version, shard.store.look(shard_manifest_name(version))
        self._entry = last, shard.store.look(entry_name(last)) if last else None
        self._is_cut = False

    @property
    def name(self) -> str:
        """The file that the next check looks at."""
        last, _ = self._entry
        return entry_name(last) if last else shard_manifest_name(self._manifest[0])

    def wrote(self, position: int) -> None:
        """Follow the log by an entry that the writer put just now."""
        name = entry_name(position)
        self._entry = position, self._shard.store.mark_of_put(name) or self._shard.store.look(name)
        self._is_cut = False
        if position == 1:
            self._tell_of_first()

    def _tell_of_first(self) -> None:
        """Have a manifest tell of the first entry: without its entries the log would look new.

        Later writers tell of the entries that they find, and flushes of those that they have.
        """

        def told(newest: ShardManifest) -> ShardManifest | None:
            return None if newest.last_seen else replace(newest, last_seen=1)

        with suppress(LancekitError):  # the entry is there: a writer that took the shard tells more
            self.flushed(change(self._shard, self._epoch, told).version)

    def flushed(self, version: int) -> None:
        """Follow the manifests by one that a flush put."""
        self._manifest = version, self._shard.store.look(shard_manifest_name(version))

    def check(self, mark: str | None) -> str:
        """Compare the mark that the file `name` has now; return how the log ended, empty if not.

        Raises FencedError: another writer has the shard.
        """
        _, known = self._entry if self._entry[0] else self._manifest
        return "" if mark == known else self._look()

    def check_whole(self) -> None:
        """Raise if the last entry was missing at the last check; this reads nothing.

        Raises CorruptFileError: it was; the rows are in the memory of the writer, or in a
            generation.
        """
        if self._is_cut:
            where, last = f"{self._shard.store.uri}/{WAL}", self._entry[0]
            raise CorruptFileError(
                f"The end of the write-ahead log {where} is missing: its writer put entry {last}, "
                "and it is gone. These rows were not written.",
                hint="Close the writer: it has the rows of the log in memory, and makes a "
                "generation of them. Then open another writer, and put these rows again. Close it "
                "before ds.repair_mem_wal(), which would give the lost rows up.",
                file=where,
                shard=str(self._shard.id),
                position=last,
                unwritten=True,
                cut=True,
            )

    def is_sealed(self) -> bool:
        """Look whether the shard was sealed since the writer claimed it."""
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
            return "has lost the log of the shard"
        if newest is None:
            return "has no log of the shard any more"
        version, known = self._manifest
        mark = self._shard.store.look(shard_manifest_name(version))
        if newest.writer_epoch < self._epoch or mark not in {None, known}:
            return "has another copy of the shard's log"
        if newest.writer_epoch > self._epoch:
            raise fenced(self._shard, self._epoch, newest.writer_epoch)
        if mark is None:  # old manifests are collected
            self.flushed(newest.version)
        last, _ = self._entry
        if last:
            self._entry = last, self._shard.store.look(entry_name(last))
            self._is_cut = self._entry[1] is None
        return ""
