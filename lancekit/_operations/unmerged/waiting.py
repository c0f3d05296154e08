"""What of a branch's shards its versions lack (docs/format/memwal.md, 8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from lancekit._format.mem_wal.details import details_of
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._legible import cut, plural
from lancekit._operations.unmerged.lost import check_shards
from lancekit._operations.unmerged.marks import Marks
from lancekit._operations.unmerged.quarantined import quarantined_rows
from lancekit._shards.log import replayable
from lancekit._shards.manifests import latest
from lancekit._shards.shard import Shard, shard_of, shards_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = [
    "WaitingShard",
    "check_in_order",
    "check_merged",
    "has_rows_in_log",
    "waiting_shards",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingShard:
    """A shard with something that is not done.

    Attributes
    ----------
    shard
        Its id.
    unmerged
        Generations whose rows no version has.
    undrained
        Generations that are merged, and that its manifest still lists.
    in_log
        Whether its log has rows that no generation has.
    """

    shard: UUID
    unmerged: tuple[int, ...] = ()
    undrained: tuple[int, ...] = ()
    in_log: bool = False

    @property
    def has_rows(self) -> bool:
        """Whether it has rows that no version has."""
        return bool(self.unmerged) or self.in_log

    @property
    def words(self) -> str:
        """What there is, for a message."""
        parts = [
            f"unmerged generations {_listed(self.unmerged)}" if self.unmerged else "",
            "rows in its log" if self.in_log else "",
            f"merged generations {_listed(self.undrained)} to be drained" if self.undrained else "",
        ]
        return f"shard {self.shard} has {' and '.join(filter(None, parts))}"


def _listed(numbers: Sequence[int]) -> str:
    return cut(", ".join(map(str, numbers)), 60)


def waiting_shards(newest: Snapshot) -> Iterator[WaitingShard]:
    """Yield the shards of a branch that are not merged and drained, by its newest version.

    None of a version without the entry, which has no shards.

    Raises
    ------
    CorruptFileError
        A shard is damaged or gone.
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
    """Return whether the log has rows of its own; what is damaged may be such."""
    return any(entry.torn or entry.batches for entry in replayable(shard, manifest))


def check_in_order(newest: Snapshot, marks: Iterable[CompactedSsTable]) -> None:
    """Raise ``InvalidArgumentError`` if a generation is unmerged that comes before a mark.

    Once a later one is marked, it could never be merged.
    """
    done = Marks(newest).merged
    for mark in marks:
        manifest = latest(shard_of(newest.store, mark.shard_id))
        listed = () if manifest is None else manifest.sstables
        numbers = sorted(table.generation for table in listed)
        lost = [n for n in numbers if done.get(mark.shard_id, 0) < n < mark.generation]
        if lost:
            raise InvalidArgumentError(
                f"Generation {mark.generation} of shard {mark.shard_id} comes after "
                f"{_listed(lost)}, which is not merged yet, and then never could be.",
                hint=f"Merge generation {lost[0]} first, or all of them in order by "
                "ds.merge_mem_wal().",
                shard=str(mark.shard_id),
                generation=mark.generation,
            )


def check_merged(newest: Snapshot, doing: str, *, drained: bool = True) -> None:
    """Raise ``InvalidArgumentError`` if a branch has rows in shards that its versions lack.

    Parameters
    ----------
    newest
        The newest version of the branch.
    doing
        What would lose them, as a sentence begins.
    drained
        Whether manifests of shards that list merged generations are in the way, too, and rows in
        quarantine.
    """
    for found in waiting_shards(newest):
        if not (found.has_rows or drained):
            continue
        # the user may have a handle of the branch that is merged into
        handle = (
            "ds" if newest.branch is None else f"ds.checkout_version(({newest.branch!r}, None))"
        )
        call = f"{handle}.merge_mem_wal({'flush=True' if found.in_log else ''})"
        fences = ", which takes the shard from its writer" if found.in_log else ""
        raise InvalidArgumentError(
            f"{doing} would lose rows that are in no version yet: {found.words}.",
            hint=f"Merge them first: {call}{fences}.",
            shard=str(found.shard),
            uri=newest.line.uri,
        )
    if drained and (rows := quarantined_rows(newest)):
        raise InvalidArgumentError(
            f"{doing} would lose rows that are in no version: {plural(rows, 'row')} in quarantine.",
            hint="Put these rows back or discard them first: ds.mem_wal_quarantine().",
            rows=rows,
            uri=newest.line.uri,
        )
