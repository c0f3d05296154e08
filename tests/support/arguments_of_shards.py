"""Checks of the arguments of tables with shards."""

from __future__ import annotations

from typing import Any

import lancekit as lk
from tests.support.argument_checks import ROWS, Method, Refused, Value, fresh
from tests.support.shards import SHARD

__all__ = ["SHARDS"]


def _with_shards() -> Any:
    ds = fresh()
    ds.initialize_mem_wal(unsharded=True)
    return ds


def _initialized(**arguments: Any) -> Any:
    ds = fresh()
    ds.create_scalar_index("id", "BTREE", name="one")
    ds.initialize_mem_wal(**arguments)
    return ds.mem_wal_index_details()


def _evaluated(**arguments: Any) -> Any:
    ds = fresh()
    ds.initialize_mem_wal(bucket_column="id", num_buckets=8)
    (spec,) = ds.mem_wal_index_details()["sharding_specs"]  # type: ignore[index]
    given = {"batch": ds.to_table().to_batches()[0], "spec": spec, "schema": ds.lance_schema}
    return lk.evaluate_sharding_spec(**{**given, **arguments})


def _opened(**arguments: Any) -> Any:
    ds = fresh()
    ds.initialize_mem_wal()
    writer = ds.mem_wal_writer(**{"shard_id": SHARD, **arguments})
    return writer.shard_id, writer._writer.settings


def _opened_writer() -> lk.ShardWriter:
    ds = fresh(primary_key="id")
    ds.initialize_mem_wal()
    return ds.mem_wal_writer(SHARD)


def _written(delete: bool = False, **arguments: Any) -> Any:
    writer = _opened_writer()
    (writer.delete if delete else writer.put)(**arguments)
    return writer._writer.memtables()


def _upserted(**arguments: Any) -> Any:
    ds = fresh(primary_key="id")
    ds.initialize_mem_wal(unsharded=True)
    done = ds.mem_wal_upsert(**{"data": ROWS, **arguments})
    return done, [shard.generations[0].rows for shard in ds.mem_wal_shards() if shard.generations]


def _sink(**arguments: Any) -> Any:
    ds = fresh(primary_key="id")
    ds.initialize_mem_wal(unsharded=True)
    sink = lk.mem_wal_sink(**{"uri": ds.uri, "query": "q", **arguments})
    return sink.query, sink.branch


SHARDS = {
    "mem_wal_sink": Method(
        _sink,
        {
            "uri": Refused("memory://none", "none"),
            "query": Value("r"),
            "branch": Refused("none", "none"),
            "storage_options": Refused("text"),
            "timeout": Refused(3),
            "claim_timeout": Refused(3),
        },
    ),
    "LanceDataset.initialize_mem_wal": Method(
        _initialized,
        {
            "maintained_indexes": Value(["one"]),
            "bucket_column": Value("id", {"num_buckets": 2}),
            "num_buckets": Value(2, {"bucket_column": "id"}),
            "identity_column": Value("s"),
            "unsharded": Value(True),
            "durable_write": Value(False),
            "max_wal_buffer_size": Value(7),
            "max_wal_flush_interval_ms": Value(7),
            "max_memtable_size": Value(7),
            "max_memtable_rows": Value(7),
            "max_memtable_batches": Value(7),
            "max_unflushed_memtable_bytes": Value(7),
            "manifest_scan_batch_size": Value(7),
            "backpressure_log_interval_ms": Value(7),
            "stats_log_interval_ms": Value(7),
            "hnsw_params": Value({"one": {"num_edges": 7}}),
        },
    ),
    "LanceDataset.merge_mem_wal": Method(
        lambda **arguments: _with_shards().merge_mem_wal(**arguments),
        {
            "shards": Refused(["one"]),
            "flush": Refused("yes"),
            "rows_per_commit": Refused(0),
            "on_error": Refused("ignore"),
            "progress": Refused(1),
            "conflict_retries": Refused(-1),
            "retry_timeout": Refused(1),
        },
    ),
    "LanceDataset.cleanup_mem_wal": Method(
        lambda **arguments: _with_shards().cleanup_mem_wal(**arguments),
        {"shards": Refused(["one"]), "grace": Refused(1)},
    ),
    "LanceDataset.repair_mem_wal": Method(
        lambda **arguments: _with_shards().repair_mem_wal(**arguments),
        {"shards": Refused(["one"])},
    ),
    "LanceDataset.mem_wal_set_aside": Method(
        lambda **arguments: _with_shards().mem_wal_set_aside(**arguments).to_table(),
        {"shards": Refused(["one"])},
    ),
    "LanceDataset.mem_wal_writer": Method(
        _opened,
        {
            "shard_id": Value("00000000-0000-0000-0000-000000000008"),
            "durable_write": Value(False),
            "max_wal_buffer_size": Value(7),
            "max_wal_flush_interval_ms": Value(7),
            "max_memtable_size": Value(7),
            "max_memtable_rows": Value(7),
            "max_memtable_batches": Value(7),
            "max_unflushed_memtable_bytes": Value(7),
            "manifest_scan_batch_size": Value(7),
            "backpressure_log_interval_ms": Value(7),
            "stats_log_interval_ms": Value(7),
            "hnsw_params": Value({"one": {"num_edges": 7}}),
        },
    ),
    "LanceDataset.mem_wal_upsert": Method(
        _upserted,
        {
            "data": Value(ROWS.slice(1)),
            "schema": Refused(ROWS.schema.remove(0)),
            "flush": Value(True),
            "timeout": Refused(3),
            "claim_timeout": Refused(3),
        },
    ),
    "ShardWriter.put": Method(
        _written,
        {
            "data": Value(ROWS.slice(1)),
            "schema": Refused(ROWS.schema.remove(0)),
            "timeout": Refused(3),
        },
        base={"data": ROWS},
    ),
    "ShardWriter.lsm_scanner": Method(
        lambda **arguments: _opened_writer().lsm_scanner(**arguments).to_table(),
        {"shard_snapshots": Refused([1])},
    ),
    "ShardWriter.delete": Method(
        lambda **arguments: _written(delete=True, **arguments),
        {
            "keys": Value(ROWS.slice(1)),
            "schema": Refused(ROWS.schema.remove(0)),
            "timeout": Refused(3),
        },
        base={"keys": ROWS},
    ),
    "evaluate_sharding_spec": Method(
        _evaluated,
        {"batch": Refused(1), "spec": Refused(1), "schema": Refused(1)},
    ),
}
