"""Checks of the arguments of what is neither a read nor a write, and of what needs Spark."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import lancekit as lk
from lancekit._api.vectors import vec_to_table
from tests.support.argument_checks import (
    ROWS,
    Check,
    Keywords,
    Made,
    Method,
    Refused,
    Value,
    fresh,
    shared,
)
from tests.support.arguments_of_reads import SCAN

__all__ = ["ON_SPARK", "OTHERS", "SHOWN_IN"]


def _manifests(name: str) -> Callable[..., Any]:
    """Return a call of one of a manifest store's methods, and what the store has then."""

    def call(**arguments: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            store = lk.SqliteManifestStore(Path(folder, "commits.sqlite"))
            store.put_if_not_exists("a", 1, "one")
            store.put_if_not_exists("a", 2, "two")
            store.put_if_not_exists("b", 2, "three")
            found = getattr(store, name)(**arguments)
            return found, [store.get(uri, at) for uri in ("a", "b", "c") for at in (1, 2, 3, 4)]

    return call


AT: dict[str, Check] = {"base_uri": Value("b"), "version": Value(3)}


def _udf(**arguments: Any) -> Any:
    """Add columns by a function, and show what became of the file that keeps results."""
    with tempfile.TemporaryDirectory() as folder:
        if "checkpoint_file" in arguments:
            arguments["checkpoint_file"] = Path(folder, arguments["checkpoint_file"])
        seen = []

        @lk.batch_udf(**arguments)
        def ones(batch: pa.RecordBatch) -> Any:
            seen.append([path.name for path in Path(folder).iterdir()])
            return {"y": pa.array([1] * batch.num_rows, pa.int64())}

        ds = fresh()
        ds.add_columns(ones)
        return seen, ds


def _sink(**arguments: Any) -> Any:
    sink = lk.stream_sink(**arguments)
    return sink.uri, sink.query, sink.settings, sink.merge, sink.on, sink.branch


def _encoded(at: int) -> bytes:
    return shared().get_fragments()[at].metadata.to_bytes()


def _options(**values: Any) -> Any:
    with lk.options(**values):
        return str(lk.options)


FRAGMENT = {"id": 1, "files": [], "physical_rows": 2}
RANGE = {"uri": "memory://a", "position": 0, "size": 1}

OTHERS: dict[str, Method] = {
    "Blob.from_bytes": Method(lk.Blob.from_bytes, {"data": Value(b"b")}, {"data": b"a"}),
    "Blob.from_uri": Method(
        lk.Blob.from_uri,
        {"uri": Value("memory://b"), "position": Value(1), "size": Value(2)},
        RANGE,
    ),
    "BlobType": Method(
        lambda **kw: str(lk.BlobType(**kw).storage_type),
        {"storage": Value(pa.struct([("data", pa.large_binary()), ("uri", pa.string())]))},
    ),
    "blob_array": Method(
        lambda values: lk.blob_array(values).to_pylist(),
        {"values": Value([b"b"])},
        {"values": [b"a"]},
    ),
    "blob_field": Method(
        lambda **kw: (str(lk.blob_field(**kw)), lk.blob_field(**kw).metadata),
        {
            "name": Value("c"),
            "nullable": Value(False),
            "inline_size_threshold": Value(1),
            "dedicated_size_threshold": Value(1),
            "pack_file_size_threshold": Value(1),
        },
        {"name": "b"},
    ),
    "Fragment.from_dict": Method(
        lk.FragmentMetadata.from_dict,
        {"values": Value({**FRAGMENT, "id": 2})},
        {"values": FRAGMENT},
    ),
    "Fragment.from_json": Method(
        lk.FragmentMetadata.from_json,
        {"json_data": Value(json.dumps({**FRAGMENT, "id": 2}))},
        {"json_data": json.dumps(FRAGMENT)},
    ),
    "Fragment.from_bytes": Method(
        lk.FragmentMetadata.from_bytes,
        {"data": Value(Made(partial(_encoded, 1)))},
        {"data": Made(partial(_encoded, 0))},
    ),
    "LanceFragment": Method(
        lambda **kw: lk.LanceFragment(**kw).to_table(),
        {
            "dataset": Value(Made(fresh)),
            "fragment_id": Value(0),
            "fragment": Value(Made(lambda: shared().get_fragments()[0])),
        },
        {"dataset": Made(shared), "fragment_id": 1},
    ),
    "schema_to_json": Method(
        lk.schema_to_json, {"schema": Value(pa.schema({"b": pa.int8()}))}, {"schema": ROWS.schema}
    ),
    "tokenize": Method(
        lambda **kw: [(token.text, token.position) for token in lk.tokenize(**kw)],
        {
            "query": Value("Other words"),
            "analyzer": Refused("code"),
            "base_tokenizer": Value("whitespace"),
            "language": Value("German"),
            "max_token_length": Value(4),
            "lower_case": Value(False),
            "stem": Value(False),
            "remove_stop_words": Value(False),
            "custom_stop_words": Value(["late"]),
            "ascii_folding": Value(False),
            "min_ngram_length": Value(2, {"base_tokenizer": "ngram"}),
            "max_ngram_length": Value(4, {"base_tokenizer": "ngram"}),
            "prefix_only": Value(True, {"base_tokenizer": "ngram"}),
            "split_identifiers": Refused(True),
            "split_on_numerics": Refused(True),
            "preserve_original": Refused(True),
            "index_operators": Refused(True),
        },
        {"query": "the late-running Trains, ohne caf\N{LATIN SMALL LETTER E WITH ACUTE}"},
    ),
    "json_to_schema": Method(
        lambda schema_json: str(lk.json_to_schema(schema_json)),
        {"schema_json": Value({"fields": []})},
        {"schema_json": lk.schema_to_json(ROWS.schema)},
    ),
    "vec_to_table": Method(
        vec_to_table,
        {
            "data": Value([[5.0, 6.0]]),
            "names": Value("v"),
            "ndim": Value(4),
            "check_ndim": Value(False, {"data": [[1.0], [2.0, 3.0, 4.0]], "ndim": 2}),
        },
        {"data": [[1.0, 2.0], [3.0, 4.0]]},
    ),
    "LanceSchema.from_pyarrow": Method(
        lambda schema: str(lk.schema.LanceSchema.from_pyarrow(schema)),
        {"schema": Value(pa.schema({"b": pa.int8()}))},
        {"schema": pa.schema({"a": pa.int8()})},
    ),
    "LanceSchema.field": Method(
        lambda name: str(shared().lance_schema.field(name)), {"name": Value("x")}, {"name": "id"}
    ),
    "LanceSchema.field_case_insensitive": Method(
        lambda name: str(shared().lance_schema.field_case_insensitive(name)),
        {"name": Value("X")},
        {"name": "ID"},
    ),
    "RewriteResult.from_json": Method(
        lambda json: len(lk.optimize.RewriteResult.from_json(json).json()),
        {"json": Refused("x", "RewriteResult")},
        {"json": "{}"},
    ),
    "SqliteManifestStore.get": Method(_manifests("get"), AT, {"base_uri": "a", "version": 2}),
    "SqliteManifestStore.get_latest_version": Method(
        _manifests("get_latest_version"), {"base_uri": Value("b")}, {"base_uri": "a"}
    ),
    "SqliteManifestStore.delete": Method(
        _manifests("delete"), {"base_uri": Value("b")}, {"base_uri": "a"}
    ),
    **{
        f"SqliteManifestStore.{name}": Method(
            _manifests(name),
            AT | {"path": Value("other")},
            {"base_uri": "a", "version": version, "path": "four"},
        )
        for name, version in (("put_if_exists", 2), ("put_if_not_exists", 4))
    },
    "batch_udf": Method(
        _udf,
        {
            "output_schema": Value(pa.schema({"y": pa.int8()})),
            "checkpoint_file": Value("kept"),
            "version": Refused(2),
        },
    ),
    "options": Method(_options, {"values": Keywords("threads", 1)}),
    "plot_history": Method(
        lambda **kw: str(lk.plot_history(**kw)),
        {"dataset": Value(Made(lambda: lk.dataset(fresh().uri))), "limit": Value(1)},
        {"dataset": Made(shared)},
    ),
    "stream_sink": Method(
        _sink,
        {
            "uri": Value("memory://other"),
            "query": Value("r"),
            "mode": Value("merge"),
            "on": Value("id", {"mode": "merge"}),
            "branch": Value("b"),
            "max_rows_per_file": Value(1),
            "max_bytes_per_file": Value(1),
            "max_page_bytes": Value(1),
            "optimize_for": Refused("speed", "speed"),
            "storage_options": Refused("text"),
            "data_storage_version": Value("2.1"),
            "enable_stable_row_ids": Value(True),
            "commit_message": Value("a"),
            "transaction_properties": Value({"a": "b"}),
        },
        {"uri": "memory://sink", "query": "q"},
    ),
}


# ---- on Spark


@cache
def _on_disk() -> lk.LanceDataset:
    """Return a dataset that Spark's tasks see, with a blob."""
    schema = pa.schema([*ROWS.schema, lk.blob_field("b")])
    rows = pa.table([*ROWS.columns, lk.blob_array([b"a"] * ROWS.num_rows)], schema=schema)
    folder = tempfile.mkdtemp(prefix="every-argument-")
    ds = lk.write_dataset(rows, Path(folder, "d"), max_rows_per_file=5)
    ds.delete("id = 3")
    return ds


def _collected(frame: Any) -> Any:
    return frame.columns, sorted(map(str, frame.collect()))


def _to_spark(**arguments: Any) -> Any:
    return _collected(_on_disk().to_spark(**arguments))


def _viewed(**arguments: Any) -> Any:
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    try:
        _on_disk().create_temp_view(**arguments)
        there = [name for name in ("one", "two") if spark.catalog.tableExists(name)]
        return there, [_collected(spark.table(name)) for name in there]
    finally:
        for name in ("one", "two"):
            spark.catalog.dropTempView(name)


def _of_scans(*names: str) -> dict[str, Check]:
    return {name: SCAN[name] for name in names}


_SOME = ("columns", "filter", "with_row_id", "with_row_address")

ON_SPARK: dict[str, Method] = {
    "LanceDataset.to_spark": Method(
        _to_spark,
        _of_scans(*_SOME, "limit", "offset", "blob_handling")
        | {
            "batch_size": Refused(0),
            "fragments": Value(Made(lambda: _on_disk().get_fragments()[:1])),
            "include_mem_wal": Refused("x"),
        },
    ),
    "LanceDataset.create_temp_view": Method(
        _viewed,
        _of_scans(*_SOME) | {"name": Value("two"), "version": Value(1)},
        {"name": "one"},
    ),
}

_SESSIONS, _LOGS = "tests/api/test_session.py", "tests/api/test_log.py"
_TAKES = "test_a_fragments_session_takes_its_columns"

#: what starts and ends sessions, of which one process has one; what draws at random; loggers
_EXPORTS, _FILES = "tests/api/test_exports.py", "tests/operations"
SHOWN_IN: dict[tuple[str, str], str] = {
    **{
        (call, name): "tests/scan/test_objects.py::test_each_operator_and_method_has_a_text"
        for call, function in {
            **{one: getattr(lk, one) for one in ("col", "lit", "source", "target")},
            **{f"Expression.{one}": made for one, made in vars(lk.Expression).items()},
        }.items()
        if "._" not in call and callable(function)
        for name in inspect.signature(function).parameters
        if name != "self"
    },
    ("spark_session", "master"): "tests/spark/test_session.py::test_what_a_caller_asks_for",
    ("spark_session", "remote"): "tests/spark/test_session.py::test_bad_arguments_start_nothing",
    ("spark_session", "memory"): "tests/spark/test_session.py::test_what_a_caller_asks_for",
    ("spark_session", "config"): "tests/spark/test_session.py::test_what_a_caller_asks_for",
    ("stop_spark", "wait"): "tests/spark/test_session.py::test_a_life_of_sessions_prints_nothing",
    ("read_csv", "path"): f"{_EXPORTS}::test_columns_of_all_files",
    ("read_csv", "schema"): f"{_EXPORTS}::test_columns_of_all_files",
    ("read_csv", "column_types"): "tests/pipeline/test_csv_rows.py::test_mistakes",
    ("read_parquet", "path"): f"{_EXPORTS}::test_a_parquet_file_a_folder_and_a_pattern",
    ("read_parquet", "schema"): f"{_EXPORTS}::test_columns_of_all_files",
    **{
        ("LanceDataset.export", name): f"{_FILES}/test_export.py::{test}"
        for name, test in (
            ("path", "test_one_file"),
            ("columns", "test_one_file"),
            ("filter", "test_one_file"),
            ("overwrite", "test_files_that_exist"),
            ("max_rows_per_file", "test_a_folder"),
        )
    },
    ("LanceDataset.pack", "path"): f"{_FILES}/test_packed.py::test_existing_files_stay",
    ("LanceDataset.pack", "overwrite"): f"{_FILES}/test_packed.py::test_existing_files_stay",
    **{
        ("unpack", name): f"{_FILES}/test_packed.py::test_existing_files_stay"
        for name in ("path", "uri", "storage_options", "max_bytes")
    },
    ("scan_polars", "source"): f"{_EXPORTS}::test_what_polars_passes_to_the_scan",
    **{
        ("LanceDataset.to_duckdb", name): f"{_EXPORTS}::test_a_duckdb_relation"
        for name in ("columns", "connection", "filter")
    },
    ("BlobColumn", "blob_column"): f"{_SESSIONS}::test_bytes_are_gone_through_as_files",
    ("LanceFragment.open_session", "columns"): f"{_SESSIONS}::{_TAKES}",
    ("LanceFragment.open_session", "with_row_address"): f"{_SESSIONS}::{_TAKES}",
    **{
        ("Session", name): f"{_SESSIONS}::test_every_session_is_the_same"
        for name in (
            "index_cache_size_bytes",
            "metadata_cache_size_bytes",
            "store_registry",
            "index_cache_backend",
            "metadata_cache_backend",
        )
    },
    ("Session.is_same_as", "other"): f"{_SESSIONS}::test_every_session_is_the_same",
    ("set_logger", "file_path"): f"{_LOGS}::test_a_sample_is_logged_to_a_file",
    ("set_logger", "format_string"): f"{_LOGS}::test_a_sample_is_logged_to_a_file",
    ("set_logger", "level"): f"{_LOGS}::test_a_handler_comes_instead_of_the_file",
    ("set_logger", "log_handler"): f"{_LOGS}::test_a_handler_comes_instead_of_the_file",
    ("set_logger", "name"): f"{_LOGS}::test_a_handler_comes_instead_of_the_file",
    ("warm_up", "again"): "tests/compiled/test_store.py::test_kernels_are_compiled_once",
    ("warm_up", "kernels"): "tests/compiled/test_store.py::test_kernels_are_compiled_once",
    ("warm_up", "spark"): "tests/spark/test_warmup.py::test_it_is_made_once",
}
