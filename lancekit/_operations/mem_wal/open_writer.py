"""Open the writer of a shard."""

from __future__ import annotations

from uuid import UUID

from lancekit._commit.protocol import check_writable
from lancekit._operations.checks.constraint_audit import RowConstraints
from lancekit._operations.mem_wal.claim import claim
from lancekit._operations.mem_wal.flush import Flushes
from lancekit._operations.mem_wal.initialize import initialized
from lancekit._operations.mem_wal.log_writer import LogWriter
from lancekit._operations.mem_wal.settings import WriterSettings
from lancekit._operations.mem_wal.shares import ShardRows, Share, share_of, spec_of
from lancekit._operations.mem_wal.table_watch import LogWatch, TableWatch
from lancekit._operations.mem_wal.writer import Writer
from lancekit._operations.unmerged.marks import check_shards
from lancekit._shards.manifests import latest
from lancekit._shards.schema import shard_of
from lancekit._versions.snapshot import Snapshot


def open_writer(
    snapshot: Snapshot,
    shard_id: UUID,
    settings: WriterSettings,
    share: Share | None = None,
    *,
    sealed: bool = False,
    after: int | None = None,
    seen: Snapshot | None = None,
) -> tuple[Writer, ShardRows]:
    """Claim a shard; return its new writer, and the cast of user rows to the shard's log.

    snapshot: the table's newest version.  Rows must have its columns until the writer is reopened.
    shard_id: the shard, which does not have to exist yet.
    share: the sharding values of the shard's rows, if the caller knows them.
    sealed: claim a sealed shard, too: its log can have rows that are in no generation.
    after: the epoch that the caller saw, as `claim` takes it.
    seen: a later version of the same table, as `TableWatch` takes it.

    Raises InvalidArgumentError: the table has no MemWAL.
    Raises FencedError, ShardError, CorruptFileError: as `claim` raises them.
    """
    details = initialized(snapshot)
    check_writable(snapshot)
    manifest = snapshot.manifest
    shard, spec = shard_of(snapshot.store, shard_id), spec_of(details)
    newest = latest(shard)
    if newest is None and shard_id in details.merged:
        check_shards(snapshot, details.merged.keys() - {shard_id})
    share = share or share_of(shard_id, spec, newest)
    constraints, version = RowConstraints.of(snapshot), manifest.new_file_version
    rows = ShardRows(manifest.schema, shard_id, share, constraints, version)
    watch = TableWatch(snapshot, shard, seen)
    watch.check()
    claimed = claim(
        shard,
        rows.schema,
        merged=details.merged.get(shard_id, 0),
        spec_id=spec.spec_id if spec else 0,
        values=share.values if spec and share else (),
        sealed=sealed,
        after=after,
    )
    watch.log = LogWatch(shard, claimed.epoch, claimed.manifest_version, claimed.position - 1)
    log = LogWriter(
        shard,
        rows.schema,
        epoch=claimed.epoch,
        position=claimed.position,
        table=watch,
        retries=settings.max_wal_persist_retries,
        base_delay=settings.wal_persist_retry_base_delay_ms / 1000,
    )
    flushes = Flushes(
        shard=shard,
        epoch=claimed.epoch,
        schema=manifest.schema,
        # files of 2.0 cannot store null structs, and tombstones have null structs
        storage_version="2.1" if version == "2.0" else version,
        table=snapshot.location,
        watch=watch,
    )
    return Writer(log, flushes, claimed, settings), rows
