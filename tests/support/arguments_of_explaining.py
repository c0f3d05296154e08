"""Checks of the arguments of `LanceDataset.explain`, whose methods are those of the operations.

What an argument changes of an operation it changes of what is told of it, or it only says how the
operation is run: then a value that the operation refuses is refused here, too.
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa

import lancekit as lk
from tests.support.argument_checks import (
    Check,
    Hint,
    Keywords,
    Made,
    Method,
    Refused,
    Value,
    fragment,
    place,
    shared,
)
from tests.support.arguments_of_reads import IN_PANDAS, SCAN
from tests.support.arguments_of_writes import OPTIONS, WRITING

__all__ = ["EXPLAINED"]


@cache
def _vectors() -> lk.LanceDataset:
    column = pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 64, pa.float32()), 4)
    return lk.write_dataset({"v": column}, place())


def _explained(name: str) -> Callable[..., Any]:
    def call(**arguments: Any) -> str:
        # alterations are positional
        given = arguments.pop("alterations", None)
        ds = _vectors() if name == "create_index" else shared()
        return str(getattr(ds.explain, name)(*([] if given is None else [given]), **arguments))

    return call


NOT_ONE = Refused("x")
SHOWN = {"columns", "filter", "limit", "fragments", "order_by"}
#: values that cannot be
WRONG: dict[str, Check] = {
    "batch_size": Refused(0),
    "batch_size_bytes": Refused(0),
    "blob_handling": NOT_ONE,
    "blob_mode": NOT_ONE,
    "conflict_retries": Refused(-1),
    "data_storage_version": Refused("9.9", "9.9"),
    "delete_concurrency": Refused(0),
    "delete_rate_limit": Refused(0),
    "delete_unverified": NOT_ONE,
    "include_deleted_rows": NOT_ONE,
    "materialize_deletions_threshold": NOT_ONE,
    "num_threads": NOT_ONE,
    "offset": Refused(-1),
    "retry_timeout": Refused(5),
    "scan_stats_callback": Refused(5),
    "storage_options": Refused("text"),
    "strict_batch_size": NOT_ONE,
    "with_row_address": NOT_ONE,
    "with_row_id": NOT_ONE,
} | {name: check for name, check in SCAN.items() if not isinstance(check, Value)}

KEYED = pa.table({"id": [1], "y": [2]})
#: by operation: arguments that it needs, and checks of others than the ones above
OPERATIONS: dict[str, tuple[dict[str, Any], dict[str, Check]]] = {
    **dict.fromkeys(["scanner", "to_table", "to_batches"], ({}, {})),
    "to_pandas": ({}, dict.fromkeys(IN_PANDAS, NOT_ONE)),
    "head": ({}, {"num_rows": Value(1), "kwargs": Keywords("columns", ["x"])}),
    "count_rows": (
        {},
        {"filter": Value("id > 4"), "kwargs": Keywords("fragments", Made(lambda: [fragment()]))},
    ),
    "insert": (
        {"data": pa.table({"id": [1]})},
        {
            "data": Value(pa.table({"id": [1, 2]})),
            "mode": Value("overwrite"),
            **{name: Refused(check.value) for name, check in (WRITING | OPTIONS).items()},
            "schema": Value(pa.schema({"none": pa.int8()})),
        },
    ),
    "delete": ({"predicate": "id = 1"}, {"predicate": Value("x = 1")}),
    "filter": ({"condition": "x = 1"}, {"condition": Value("id = 1")}),
    "truncate_table": ({}, {}),
    "merge_mem_wal": (
        {},
        {
            "shards": NOT_ONE,
            "flush": Refused("yes"),
            "rows_per_commit": Refused(0),
            "on_error": Refused("ignore"),
            "progress": Refused(1),
        },
    ),
    "create_scalar_index": (
        {"column": "id", "index_type": "BTREE"},
        {
            "column": Refused("nothing"),
            "index_type": Value("BITMAP"),
            "name": Value("mine"),
            "replace": NOT_ONE,
            "train": Value(False),
            "fragment_ids": Refused([0]),
            "index_uuid": Refused("x"),
            "progress_callback": Refused(3),
            "format_version": Refused(3),
            "document_granularity": Refused("list_element"),
            "kwargs": Keywords("nonsense", 1),
        },
    ),
    "create_index": (
        {"column": "v", "index_type": "IVF_PQ", "num_sub_vectors": 2},
        {
            "column": Refused("nothing"),
            "index_type": Refused("IVF_RQ", "IVF_RQ"),
            "name": Value("mine"),
            "metric": Refused("nonsense"),
            "replace": NOT_ONE,
            "num_partitions": Refused(0),
            "ivf_centroids": Refused("x"),
            "pq_codebook": Refused("x"),
            "num_sub_vectors": Refused(0),
            "accelerator": Refused("cuda"),
            "index_cache_size": Hint(1, "x"),
            "shuffle_partition_batches": Hint(1, "x"),
            "shuffle_partition_concurrency": Hint(1, "x"),
            "filter_nan": Hint(True, "x"),
            "streaming_sample_rate": Hint(1, "x"),
            "streaming_coreset_rate": Hint(1, "x"),
            "streaming_refine_passes": Hint(1, "x"),
            "skip_transpose": Hint(False, "x"),
            "ivf_centroids_file": Refused("file"),
            "precomputed_partition_dataset": Refused("file"),
            "train": Value(False),
            "fragment_ids": Refused([0]),
            "index_uuid": Refused("x"),
            "target_partition_size": Refused(0),
            "progress_callback": Refused(3),
            "num_bits": Refused(3),
            "max_iters": Hint(1, "x"),
            "sample_rate": Hint(1, "x"),
            "index_file_version": Hint("V3", "x"),
            "rabitq_model": Refused("model"),
        },
    ),
    "optimize_indices": (
        {},
        {
            "num_indices_to_merge": Refused(-1),
            "index_names": Refused(["nothing"], "nothing"),
            "retrain": NOT_ONE,
            "kwargs": Keywords("nonsense", 1),
        },
    ),
    "validate": ({}, {"deep": Value(True), "sources": NOT_ONE}),
    "restore": ({}, {"version": Value(1)}),
    "update": (
        {"updates": {"x": "1"}},
        {"updates": Refused({"none": "1"}, "none"), "where": Value("id = 1")},
    ),
    "add_columns": (
        {"transforms": {"y": "1"}},
        {
            "transforms": Value({"y": "x"}),
            "read_columns": Value(["x"], {"transforms": lambda batch: {"y": batch["x"]}}),
            "reader_schema": Value(pa.schema({"x": pa.int8()}), {"transforms": KEYED}),
            "on": Value("id", {"transforms": KEYED}),
            "num_threads": Refused(0),
        },
    ),
    "replace_columns": (
        {"transforms": {"x": "1"}},
        {
            "transforms": Value({"x": "id"}),
            "read_columns": Value(["id"], {"transforms": lambda batch: {"x": batch["id"]}}),
            "reader_schema": Value(pa.schema({"none": pa.int8()}), {"transforms": KEYED}),
            "num_threads": Refused(0),
        },
    ),
    "merge": (
        {"data_obj": KEYED, "left_on": "id"},
        {
            "data_obj": Value(pa.table({"y": [1]})),
            "left_on": Refused("none", "none"),
            "right_on": Refused("none", "none"),
            "schema": Refused(pa.schema({"y": pa.int8()}), "id"),
        },
    ),
    "alter_columns": (
        {"alterations": {"path": "x", "name": "y"}},
        {"alterations": Value({"path": "x", "data_type": pa.float32()})},
    ),
    "drop_columns": ({"columns": ["x"]}, {"columns": Refused(["none"], "none")}),
    "compact_files": (
        {},
        {
            "target_rows_per_fragment": Value(1),
            "max_rows_per_group": NOT_ONE,
            "max_bytes_per_file": Refused(0),
            "materialize_deletions": Value(False, {"target_rows_per_fragment": 1}),
            "defer_index_remap": NOT_ONE,
            "compaction_mode": NOT_ONE,
            "binary_copy_read_batch_bytes": Refused(0),
            "max_source_fragments": Value(1),
            "max_source_rows": Value(5),
            "max_source_bytes": Value(1),
            "excluded_fragment_ids": Value([0]),
            "drop_index_coverage": NOT_ONE,
        },
    ),
    "cleanup_old_versions": (
        {"older_than": dt.timedelta(0), "error_if_tagged_old_versions": False},
        {
            "older_than": Refused(5),
            "retain_versions": Refused(0),
            "error_if_tagged_old_versions": Value(True),
            "versions": Refused([]),
        },
    ),
    "create_branch": ({"branch": "d"}, {"branch": Value("e"), "reference": Value(1)}),
    **dict.fromkeys(
        ["shallow_clone", "deep_clone"],
        (
            {"target_path": "memory://clone", "reference": 2},
            {
                "target_path": Value("memory://other"),
                "reference": Value(1),
                "kwargs": Keywords("nonsense", 1),
            },
        ),
    ),
}


def _method(name: str) -> Method:
    base, checks = OPERATIONS[name]
    names = inspect.signature(getattr(shared().explain, name)).parameters
    shown = {
        n: SCAN[n] for n in SHOWN if name in {"scanner", "to_table", "to_batches", "to_pandas"}
    }
    every = WRONG | shown | checks
    return Method(_explained(name), {n: every[n] for n in names if n in every}, base)


EXPLAINED = {f"explain.{name}": _method(name) for name in OPERATIONS}
