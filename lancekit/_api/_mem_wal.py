"""The part of a handle that makes a table one with shards, and tells of these."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lancekit._api._handle import Handle
from lancekit._api.pylance.arguments import check_items
from lancekit._checked import checked_methods

if TYPE_CHECKING:
    from lancekit._format.mem_wal.details import ShardingSpec
    from lancekit._operations.mem_wal.shards import Shards

__all__ = ["MemWal"]


@checked_methods
class MemWal(Handle):
    """Write-ahead logs: how rows are given to shards, and which shards there are."""

    def initialize_mem_wal(
        self,
        *,
        maintained_indexes: list[str] | None = None,
        bucket_column: str | None = None,
        num_buckets: int | None = None,
        identity_column: str | None = None,
        unsharded: bool = False,
        durable_write: bool | None = None,
        max_wal_buffer_size: int | None = None,
        max_wal_flush_interval_ms: int | None = None,
        max_memtable_size: int | None = None,
        max_memtable_rows: int | None = None,
        max_memtable_batches: int | None = None,
        max_unflushed_memtable_bytes: int | None = None,
        manifest_scan_batch_size: int | None = None,
        backpressure_log_interval_ms: int | None = None,
        stats_log_interval_ms: int | None = None,
        hnsw_params: dict[str, dict[str, int]] | None = None,
    ) -> None:
        """Let the table have write-ahead logs, once; the handle moves.

        Rows are given to shards by their bucket, by the value of a column, or all to one; without
        any of these by whoever opens a writer. A primary key is needed for rows to take the place
        of others; its columns are of integers, bool, text or binary.

        Parameters
        ----------
        maintained_indexes
            The names of the indices that generations are to have, all of them if nothing is said.
            Writers of both libraries make them when they write a generation.
        bucket_column, num_buckets
            A column, and into how many buckets its values are divided: 1 to 1024.
        identity_column
            A column of whose values each has a shard.
        unsharded
            Whether there is one shard.
        durable_write, max_wal_buffer_size, max_wal_flush_interval_ms
            Whether writers wait for the log, and how many bytes and milliseconds are gathered for
            it. These and the following are the defaults of writers.
        max_memtable_size, max_memtable_rows, max_memtable_batches
            With how many bytes, rows or batches a generation is written.
        max_unflushed_memtable_bytes
            With how many bytes in memory writers wait.
        manifest_scan_batch_size, backpressure_log_interval_ms, stats_log_interval_ms
            As in pylance: how it looks for manifests, and how often writers tell of themselves.
        hnsw_params
            How graphs of indices of vectors are made, by the names of the indices: ``num_edges``,
            ``ef_construction``, ``max_level``.

        Raises
        ------
        IndexExistsError
            The table may have logs already.
        IndexNotFoundError, ColumnNotFoundError
            There is no index, or no column, of a name.
        InvalidArgumentError, UnsupportedTypeError
            More than one way to shards was given, or a number, a column or an index that cannot
            be used.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-example", primary_key="id")
        >>> ds.initialize_mem_wal(bucket_column="id", num_buckets=4)
        >>> ds.mem_wal_index_details()["num_shards"]
        4
        """
        from lancekit._operations.mem_wal.initialize import Sharding, initialize
        from lancekit._operations.mem_wal.settings import given_settings

        settings = given_settings(locals())
        sharding = Sharding(
            bucket_column=bucket_column,
            num_buckets=num_buckets,
            identity_column=identity_column,
            unsharded=unsharded,
        )
        maintained = maintained_indexes
        if maintained is not None:
            maintained = check_items("maintained_indexes", maintained, str, "names")
        self._move(lambda read: (initialize(read, sharding, maintained, settings), None))

    def mem_wal_index_details(self) -> dict[str, Any] | None:
        """Return what the table says of its write-ahead logs, ``None`` if it may not have any.

        Returns
        -------
        dict or None
            ``num_shards``, ``maintained_indexes``, ``maintain_all_indexes``,
            ``writer_config_defaults`` and ``sharding_specs``.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-details-example")
        >>> ds.mem_wal_index_details() is None
        True
        """
        from lancekit._format.mem_wal.details import details_of

        details = details_of(self._snapshot.indices)
        if details is None:
            return None
        return {
            "num_shards": details.num_shards,
            "maintained_indexes": [*details.maintained],
            "maintain_all_indexes": bool(details.maintain_all),
            "writer_config_defaults": dict(details.defaults),
            "sharding_specs": [*map(_told, details.specs)],
        }

    def mem_wal_shards(self) -> Shards:
        """Return which shards there are, and how far each is; pylance has nothing of the kind.

        They are those that there are now, whatever the handle's version; what is merged is told of
        that version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-shards-example")
        >>> len(ds.mem_wal_shards())
        0
        """
        from lancekit._operations.mem_wal.shards import shard_infos
        from lancekit._operations.unmerged.counts import waiting_rows

        found = shard_infos(self._snapshot)
        found.waiting = replace(waiting_rows(self._snapshot), refused=self._merge_refused)
        return found


def _told(spec: ShardingSpec) -> dict[str, Any]:
    return {
        "spec_id": spec.spec_id,
        "fields": [
            {
                "field_id": field.field_id,
                "source_ids": [*field.source_ids],
                "transform": field.transform,
                "expression": field.expression,
                "result_type": field.result_type,
                "parameters": dict(field.parameters),
            }
            for field in spec.fields
        ],
    }
