"""Rows in a branch's shards that its versions lack: checks and counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from lancekit._format.mem_wal.details import details_of
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._legible import cut, plural
from lancekit._operations.unmerged.marks import (
    Marks,
    check_shards,
    lost_shards,
    quarantined,
    quarantined_rows,
)
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._scan.fragments.source import fragment_sources
from lancekit._shards.entry import count_entry_rows
from lancekit._shards.log import check_log, positions, replayable
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard, shard_of, shards_of
from lancekit._storage.base import Store
from lancekit._storage.local import LocalStore
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError, LancekitError


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingShard:
    """A shard that is not fully merged and drained.

    shard: the id of the shard.
    unmerged: generations whose rows no version has.
    undrained: merged generations that the manifest of the shard still lists.
    in_log: whether the log has rows that no generation has.
    """

    shard: UUID
    unmerged: tuple[int, ...] = ()
    undrained: tuple[int, ...] = ()
    in_log: bool = False

    @property
    def has_rows(self) -> bool:
        """True if the shard has rows that no version has."""
        return bool(self.unmerged) or self.in_log

    @property
    def words(self) -> str:
        """The state of the shard as a phrase for messages."""
        parts = [
            f"unmerged generations {_listed(self.unmerged)}" if self.unmerged else "",
            "rows in its log" if self.in_log else "",
            f"merged generations {_listed(self.undrained)} to drain" if self.undrained else "",
        ]
        return f"shard {self.shard} has {' and '.join(filter(None, parts))}"


def _listed(numbers: Sequence[int]) -> str:
    return cut(", ".join(map(str, numbers)), 60)


def waiting_shards(newest: Snapshot) -> Iterator[WaitingShard]:
    """Yield the shards of a branch that are not merged and drained, by its newest version.

    A version without a MemWAL entry has no shards.

    Raises CorruptFileError: a shard is damaged or gone.
    """
    if details_of(newest.indices) is None:
        return
    marks = Marks(newest)
    manifests = {s: m for s in shards_of(newest.store) if (m := latest(s)) is not None}
    check_shards(newest, {shard.id for shard in manifests})
    for shard, manifest in manifests.items():
        numbers = sorted(table.generation for table in manifest.sstables)
        done = {number for number in numbers if marks.has(shard.id, number)}
        found = WaitingShard(
            shard=shard.id,
            unmerged=tuple(number for number in numbers if number not in done),
            undrained=tuple(sorted(done)),
            in_log=has_rows_in_log(shard, manifest),
        )
        if found.has_rows or found.undrained:
            yield found


def has_rows_in_log(shard: Shard, manifest: ShardManifest) -> bool:
    """Return True if the log has rows that no generation has; a torn entry counts as rows."""
    return any(entry.torn or entry.batches for entry in replayable(shard, manifest))


def check_in_order(newest: Snapshot, marks: Iterable[CompactedSsTable]) -> None:
    """Raise ``InvalidArgumentError`` if a mark would skip an unmerged earlier generation.

    Once a later generation is marked, the earlier one could never be merged.
    """
    done = Marks(newest).merged
    for mark in marks:
        manifest = latest(shard_of(newest.store, mark.shard_id))
        listed = () if manifest is None else manifest.sstables
        numbers = sorted(table.generation for table in listed)
        lost = [n for n in numbers if done.get(mark.shard_id, 0) < n < mark.generation]
        if lost:
            raise InvalidArgumentError(
                f"Generation {mark.generation} of shard {mark.shard_id} cannot be merged before "
                f"{_listed(lost)}, which could not be merged afterwards.",
                hint=f"Merge generation {lost[0]} first, or all generations in order with "
                "ds.merge_mem_wal().",
                shard=str(mark.shard_id),
                generation=mark.generation,
            )


def check_merged(newest: Snapshot, doing: str, *, drained: bool = True) -> None:
    """Raise ``InvalidArgumentError`` if a branch has rows in shards that its versions lack.

    newest: the newest version of the branch.
    doing: the operation that would lose the rows, as the start of a sentence.
    drained: whether to refuse undrained generations and rows in quarantine, too.
    """
    for found in waiting_shards(newest):
        if not (found.has_rows or drained):
            continue
        # the user's handle may be on the target branch of the merge
        handle = "ds" if newest.branch is None else f"ds.branches[{newest.branch!r}]"
        call = f"{handle}.merge_mem_wal({'flush=True' if found.in_log else ''})"
        fences = ", which takes the shard from its writer" if found.in_log else ""
        raise InvalidArgumentError(
            f"{doing} would lose rows that are in no version yet: {found.words}.",
            hint=f"Merge them first: {call}{fences}.",
            shard=str(found.shard),
            uri=newest.location.uri,
        )
    if drained and (rows := quarantined_rows(newest)):
        raise InvalidArgumentError(
            f"{doing} would lose rows that are in no version: {plural(rows, 'row')} in quarantine.",
            hint="Put these rows back or discard them first: ds.mem_wal_quarantine().",
            rows=rows,
            uri=newest.location.uri,
        )


# ---- counts of the rows in a branch's shards that a version lacks
#
# A count reads the newest manifest of each shard, lists each log, and reads as many log entries as
# `_MOST_ENTRIES` and `_MOST_REQUESTS` allow.  A count that leaves rows out is not `complete`.

T = TypeVar("T")
R = TypeVar("R")

#: log entries that a count reads from a local disk: about 30 ms of CPU time
_MOST_ENTRIES = 1000
#: shards, and log entries, that a count reads from an object store, and how many at a time
_MOST_REQUESTS, _THREADS = 32, 16


@dataclass(frozen=True, slots=True)
class _ShardRows:
    """The number of rows in a shard's unmerged generations, and its log entries to read."""

    shard: Shard
    rows: int
    entries: tuple[int, ...]
    complete: bool = True
    is_there: bool = True
    damaged: bool = False


def rows_in_shards(snapshot: Snapshot) -> WaitingRows:
    """Count the rows in a branch's shards that a version lacks, with or without a MemWAL entry."""
    local = isinstance(snapshot.store, LocalStore)
    marks = Marks(snapshot)
    every = shards_of(snapshot.store)
    shards = every if local else every[:_MOST_REQUESTS]
    counted = _each(lambda shard: _shard_rows(shard, marks, local=local), shards, local=local)
    entries = [(one.shard, number) for one in counted for number in one.entries]
    read = entries[: _MOST_ENTRIES if local else _MOST_REQUESTS]
    counts = _each(_entry_rows, read, local=local)
    in_log: dict[UUID, int] = {}
    for (shard, _), rows in zip(read, counts, strict=True):
        in_log[shard.id] = in_log.get(shard.id, 0) + (rows or 0)
    suspects = [shard for (shard, _), rows in zip(read, counts, strict=True) if rows is None]
    suspects += [one.shard for one in counted if not one.complete]
    in_quarantine, quarantine_damaged = _quarantined(snapshot, local=local)
    lost = _is_any_lost(snapshot, {one.shard.id for one in counted if one.is_there})
    return WaitingRows(
        in_generations=sum(one.rows for one in counted),
        in_logs=sum(in_log.values()),
        shards=sum(bool(one.rows or in_log.get(one.shard.id)) for one in counted),
        quarantined=in_quarantine or 0,
        complete=(
            in_quarantine is not None
            and not lost
            and len(shards) == len(every)
            and len(read) == len(entries)
            and None not in counts
            and all(one.complete for one in counted)
        ),
        damaged=(
            lost
            or quarantine_damaged
            or any(one.damaged for one in counted)
            or any(map(_is_damaged, dict.fromkeys(suspects)))
        ),
        quarantine_damaged=quarantine_damaged,
    )


def _shard_rows(shard: Shard, marks: Marks, *, local: bool) -> _ShardRows:
    try:
        manifest = latest(shard)
        if manifest is None:
            return _ShardRows(shard, 0, (), is_there=False)
        numbers = positions(shard)
        check_log(shard, manifest, numbers)
        entries = tuple(n for n in numbers if n > manifest.replay_after)
    except (LancekitError, OSError):
        return _ShardRows(shard, 0, (), complete=False)
    unmerged = [one for one in manifest.sstables if not marks.has(shard.id, one.generation)]
    rows = [one.physical_rows for one in unmerged]  # early releases of the reference wrote none
    first = manifest.replay_after + 1
    gapless = entries == tuple(range(first, first + len(entries)))
    damaged = local and not all(_has_files(shard.store.child(one.path)) for one in unmerged)
    complete = gapless and not damaged and None not in rows
    return _ShardRows(shard, sum(filter(None, rows)), entries, complete=complete, damaged=damaged)


def _has_files(store: Store) -> bool:
    """Return True if the files of a generation or quarantine table have their recorded sizes.

    Damage inside of files is not checked here: it raises when they are read.
    """
    try:
        for source in fragment_sources(load_snapshot(BranchLocation(root=store), 1)):
            deletion = [] if source.deletion is None else [source.deletion]
            for file in (*source.files, *deletion):
                _, size = file.store.tail(file.name, 1)
                if file.size not in (None, size):
                    return False
    except (LancekitError, OSError):
        return False
    return True


def _quarantined(snapshot: Snapshot, *, local: bool) -> tuple[int | None, bool]:
    """Return the number of rows in quarantine (``None`` if unknown), and True if it is damaged."""
    try:
        found = quarantined(snapshot)
    except CorruptFileError:
        return None, True
    except (LancekitError, OSError):
        return None, False
    if local and not all(_has_files(one.table.store) for one in found):
        return None, True
    return sum(one.table.manifest.num_rows for one in found), False


def _is_any_lost(snapshot: Snapshot, there: Collection[UUID]) -> bool:
    try:
        return bool(lost_shards(snapshot, there))
    except (LancekitError, OSError):
        return True


def _is_damaged(shard: Shard) -> bool:
    """Return True if the manifest or the log is damaged; a torn entry is no damage."""
    try:
        manifest = latest(shard)
        if manifest is not None:
            deque(replayable(shard, manifest), maxlen=0)
    except CorruptFileError:
        return True
    except (LancekitError, OSError):
        return False
    return False


def _entry_rows(entry: tuple[Shard, int]) -> int | None:
    try:
        return count_entry_rows(*entry)
    except (LancekitError, OSError):
        return None


def _each(work: Callable[[T], R], of: Iterable[T], *, local: bool) -> Sequence[R]:
    """Apply a function to each item; for an object store, several at a time."""
    items = list(of)
    if local or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _THREADS)) as pool:
        return list(pool.map(work, items))
