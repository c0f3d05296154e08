"""What scanners and planners of shards read: a table, and what it is read with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lancekit._api._handle import Handle
from lancekit._api.shard_snapshot import ShardSnapshot
from lancekit._arguments.checks import check_items
from lancekit._operations.mem_wal.reader.parts import ShardState
from lancekit._operations.mem_wal.reader.sources import ReadSet, again_if_gone, read_set
from lancekit._shards.shard import shard_of
from lancekit._versions.line import Line
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = ["Read", "check_has_key", "of_snapshots"]

#: reads which generations there are, and what the table has merged; anew each time
Read = Callable[[], ReadSet]


def of_snapshots(dataset: Handle, snapshots: Sequence[ShardSnapshot]) -> Read:
    """Return what reads a dataset with some generations of shards, and nothing of their logs.

    The newest version is read, and generations that it has merged are left out; of a handle that
    is pinned to a version, that one.
    """
    line, pinned = dataset._line, dataset._snapshot if dataset._read_only else None
    of = "ShardSnapshot objects"
    states = [
        ShardState(shard=shard_of(line.store, one._id), sstables=tuple(one._sstables.values()))
        for one in check_items("shard_snapshots", snapshots, ShardSnapshot, of)
    ]

    return partial(_read, line, pinned, states)


def _read(line: Line, pinned: Snapshot | None, states: list[ShardState]) -> ReadSet:
    return again_if_gone(lambda: read_set(pinned or latest_snapshot(line), states))


def check_has_key(dataset: Handle, columns: Sequence[str] | None = None) -> None:
    """Raise ``InvalidArgumentError`` if a dataset has no primary key, or another one."""
    key = [field.name for field in dataset._snapshot.manifest.schema.primary_key]
    if not key:
        raise InvalidArgumentError(
            f"{dataset.uri} has no primary key, by which rows of shards replace others.",
            hint="Write it with primary_key=.",
            uri=dataset.uri,
        )
    if columns is not None and list(columns) != key:
        raise InvalidArgumentError(
            f"pk_columns is {list(columns)}, but the primary key is {key}.",
            hint="Leave it out.",
            argument="pk_columns",
        )
