"""Checks of the arguments of functions that only read."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa

import lancekit as lk
from tests.support.argument_checks import (
    ROWS,
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

__all__ = ["GONE", "IN_PANDAS", "READS", "SCAN"]

#: refused wherever they are arguments
GONE: dict[str, Check] = {
    "namespace_client": Refused(object()),
    "table_id": Refused(["a"]),
    "session": Hint(lk.Session(), "x"),
    "base_store_params": Refused({"a": {}}),
}

#: arguments of scans, whatever is scanned
SCAN: dict[str, Check] = {
    "columns": Value(["x"]),
    "filter": Value("id > 1"),
    "limit": Value(2),
    "offset": Value(1),
    "nearest": Refused({"column": "x", "q": [1.0]}, "must be a vector column"),
    "batch_size": Value(2),
    "batch_size_bytes": Value(60),
    "batch_readahead": Hint(4, "x"),
    "fragment_readahead": Hint(4, "x"),
    "scan_in_order": Hint(False, "x"),
    "fragments": Value(Made(lambda: [fragment()])),
    "index_segments": Refused([1]),
    "full_text_query": Refused("a", "no column has a full-text index"),
    "prefilter": Hint(True, "x"),
    "with_row_id": Value(True),
    "with_row_address": Value(True),
    "use_stats": Hint(True, "x"),
    "fast_search": Hint(True, "x"),
    "io_buffer_size": Hint(1 << 20, "x"),
    "late_materialization": Hint(["x"], 5),
    "blob_handling": Value("all_binary"),
    "blob_mode": Value("bytes"),
    "use_scalar_index": Hint(False, "x"),
    "include_deleted_rows": Value(True, {"with_row_id": True}),
    "include_mem_wal": Hint(True, "x"),  # of a table without shards
    "strict_batch_size": Value(True, {"batch_size": 3}),
    "order_by": Value(["x"]),
    "disable_scoring_autoprojection": Hint(True, "x"),
    "row_addr_allowlist": Refused(b"x"),
    "row_addr_blocklist": Refused(b"x"),
}
#: of a table, which has no batches
WHOLE: dict[str, Check] = {
    "batch_size": Hint(2, 0),
    "batch_size_bytes": Hint(60, 0),
    "strict_batch_size": Hint(True, "x"),
}
#: of pyarrow's own, of tables that have neither dates nor nulls among whole numbers
IN_PANDAS: dict[str, Check] = {
    "memory_pool": Hint(pa.default_memory_pool(), "x"),
    "categories": Value(["x"]),
    "strings_to_categorical": Value(True),
    "zero_copy_only": Value(True),
    "maps_as_pydicts": Hint("strict", 5),
    "types_mapper": Value(lambda kind: pd.Int64Dtype() if kind == pa.int64() else None),
    **dict.fromkeys(
        [
            *("integer_object_nulls", "date_as_object", "timestamp_as_object", "use_threads"),
            *("deduplicate_objects", "ignore_metadata", "safe", "split_blocks", "self_destruct"),
            "coerce_temporal_nanoseconds",
        ],
        Hint(True, "x"),
    ),
}
BATCHES = Keywords("batch_size", 3)


def _scan(
    owner: Any, name: str, call: Callable[..., Any] | None = None, **others: Check
) -> tuple[str, Method]:
    """Return the checks of a method that scans."""
    function = getattr(owner, name)
    names = inspect.signature(function).parameters
    whole = name in {"to_table", "to_pandas", "to_polars"}
    if "scan_stats_callback" in names:
        others.setdefault("scan_stats_callback", Refused(5))
    checks = {n: c for n, c in (SCAN | (WHOLE if whole else {})).items() if n in names}
    if owner is lk.LanceFragment and "strict_batch_size" in checks:
        checks["strict_batch_size"] = Hint(True, "x")  # batches end with the fragment
    get: Callable[[], Any] = shared if owner is lk.LanceDataset else fragment

    def scan(**arguments: Any) -> Any:
        return getattr(get(), name)(**arguments)

    return f"{owner.__name__}.{name}", Method(call or scan, checks | others)


def _told(**arguments: Any) -> Any:
    """Scan, and show how often the callback was called."""
    calls: list[Any] = []
    if "scan_stats_callback" in arguments:
        arguments["scan_stats_callback"] = calls.append
    return list(shared().scanner(**arguments).to_batches()), len(calls)


def _heard(**arguments: Any) -> int:
    """Count rows, and the calls of a builder's callback."""
    calls: list[Any] = []
    builder = lk.ScannerBuilder(shared())
    if arguments:
        builder.scan_stats_callback(calls.append)
    builder.to_scanner().to_table()
    return len(calls)


def _built(name: str, **others: Any) -> Callable[..., Any]:
    """Return a call of one of a scanner builder's setters."""

    def call(**arguments: Any) -> Any:
        builder = lk.ScannerBuilder(shared())
        for other, value in others.items():
            getattr(builder, other)(value)
        if arguments:
            getattr(builder, name)(**arguments)
        return builder.to_scanner()

    return call


def _builder() -> dict[str, Method]:
    spellings = {
        "columns": "cols",
        "limit": "n",
        "offset": "n",
        "batch_readahead": "nbatches",
        "fragment_readahead": "nfragments",
        "with_fragments": "fragments",
        "order_by": "orderings",
        "include_deleted_rows": "flag",
        "fast_search": "flag",
        "disable_scoring_autoprojection": "disable",
    }
    beside = {"include_deleted_rows": {"with_row_id": True}, "strict_batch_size": {"batch_size": 3}}
    methods = {}
    for name in vars(lk.ScannerBuilder):
        argument = spellings.get(name, name)
        check = SCAN.get("fragments" if name == "with_fragments" else name)
        if check is None or name == "nearest":
            continue
        if isinstance(check, Value):
            check = Value(check.value)
        if isinstance(check, Hint):
            check = Hint(check.value, check.wrong, argument)
        call = _built(name, **beside.get(name, {}))
        methods[f"ScannerBuilder.{name}"] = Method(call, {argument: check})
    return methods


@cache
def _vectors() -> lk.LanceDataset:
    kind = pa.list_(pa.float32(), 2)
    rows = {name: pa.array([[n, at], [at, 1], [2, n]], kind) for name, n, at in _COLUMNS}
    return lk.write_dataset(pa.table(rows), place())


_COLUMNS = [("v", 0.0, 5.0), ("w", 3.0, 1.0)]


def _nearest(**arguments: Any) -> Any:
    return lk.ScannerBuilder(_vectors()).nearest(**arguments).to_scanner()


_NEAREST = Method(
    _nearest,
    {
        "column": Value("w"),
        "q": Value([5.0, 1.0]),
        "k": Value(1),
        "metric": Value("dot"),
        "nprobes": Hint(2, 0),
        "minimum_nprobes": Hint(1, -1),
        "maximum_nprobes": Hint(1, -1),
        "refine_factor": Hint(2, 0),
        "use_index": Hint(False, 5),
        "ef": Hint(20, 0),
        "query_parallelism": Hint(-1, -2),
        "approx_mode": Hint("fast", "slow"),
        "distance_range": Value((0.5, 2.0)),
        "search_effort": Hint(0.5, 2.0),
    },
    {"column": "v", "q": [0.0, 4.0]},
)


@cache
def _texts() -> lk.LanceDataset:
    rows = {"t": ["late snow", "rain"], "u": ["rain", "late"]}
    return lk.write_dataset(pa.table(rows), place())


def _searched(**arguments: Any) -> Any:
    return lk.ScannerBuilder(_texts()).full_text_search(**arguments).to_scanner()


_WORDS = Method(
    _searched,
    {"query": Value("rain"), "columns": Value(["u"])},
    {"query": "late", "columns": ["t"]},
)


def _opened(**arguments: Any) -> Any:
    ds = lk.dataset(**{"uri": shared().uri, **arguments})
    return ds, ds.to_table()


def _handle(**arguments: Any) -> Any:
    return lk.LanceDataset(**{"uri": shared().uri, **arguments})


def _other_place() -> str:
    return lk.write_dataset(ROWS, place()).uri


def _lock(version: int) -> Any:
    raise AssertionError(version)


OPENING: dict[str, Check] = {
    "uri": Value(Made(_other_place)),
    "version": Value(1),
    "block_size": Hint(1024, "x"),
    "index_cache_size": Hint(10, "x"),
    "metadata_cache_size": Hint(10, "x"),
    "metadata_cache_size_bytes": Hint(10, "x"),
    "index_cache_size_bytes": Hint(10, "x"),
    "commit_lock": Refused(5),
    "storage_options": Refused("text"),
    "serialized_manifest": Refused(b"x"),
    "default_scan_options": Value({"columns": ["x"]}),
    "read_params": Hint({"validate_on_decode": True}, {"a": 1}),
    "manifest_store": Refused(5),
    "namespace_client_managed_versioning": Refused(True),
    **GONE,
}


def _some(names: set[str]) -> dict[str, Check]:
    return {name: check for name, check in OPENING.items() if name in names}


# ---- files


# ---- blobs, deltas, queries


def _sampled(**arguments: Any) -> Any:
    """Sample until the rows are out of order, as they are to be."""
    ordered = "randomize_order" in arguments
    for _ in range(100):
        rows = shared().sample(**arguments)
        ids = rows["id"].to_pylist() if "id" in rows.column_names else []
        if ordered or "id" not in rows.column_names or ids != sorted(ids):
            return ids == sorted(ids), rows.num_rows, rows.column_names
    return "always in order"


def _sql(name: str) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        builder = shared().sql("SELECT * FROM dataset")
        if arguments:
            getattr(builder, name)(**arguments)
        return builder.build().to_batch_records()

    return call


def _tracked(**arguments: Any) -> Any:
    calls: list[Any] = []
    if "progress" in arguments:
        arguments["progress"] = lambda *done: calls.append(done)
    rows: pa.Table = shared().tracked_files(**arguments).read_all()
    return rows, len(calls)


NOTHING = Refused(5, "5")

READS: dict[str, Method] = dict(
    [
        _scan(lk.LanceDataset, "scanner", _told, scan_stats_callback=Value(1)),
        _scan(lk.LanceDataset, "to_table"),
        _scan(lk.LanceDataset, "to_batches"),
        _scan(lk.LanceDataset, "to_pandas", **IN_PANDAS),
        _scan(lk.LanceDataset, "to_polars", lambda **kw: shared().to_polars(**kw).to_arrow()),
        _scan(lk.LanceFragment, "scanner"),
        _scan(lk.LanceFragment, "to_table"),
        _scan(lk.LanceFragment, "to_batches"),
        _scan(lk.LanceFragment, "to_pandas", **IN_PANDAS),
    ]
) | {
    **_builder(),
    "ScannerBuilder.nearest": _NEAREST,
    "ScannerBuilder.full_text_search": _WORDS,
    "ScannerBuilder.apply_defaults": Method(
        _built("apply_defaults"), {"default_opts": Value({"limit": 1})}
    ),
    "ScannerBuilder.scan_stats_callback": Method(
        _heard,
        {"callback": Value(1)},
    ),
    "ScannerBuilder": Method(
        lambda ds: lk.ScannerBuilder(ds).to_scanner(),
        {"ds": Value(Made(lambda: lk.dataset(_other_place())))},
        {"ds": Made(shared)},
    ),
    "LanceScanner.head": Method(
        lambda num_rows: shared().scanner().head(num_rows), {"num_rows": Value(2)}, {"num_rows": 1}
    ),
    "LanceScanner.to_pandas": Method(
        lambda **kw: shared().scanner().to_pandas(**kw),
        {"blob_mode": Value("bytes"), "kwargs": Keywords("strings_to_categorical", True)},
    ),
    "LanceScanner.explain_plan": Method(
        lambda **kw: shared().scanner().explain_plan(**kw), {"verbose": Hint(True, "x")}
    ),
    "LanceScanner.analyze_plan": Method(
        lambda **kw: shared().scanner(columns=["x"]).analyze_plan(**kw).splitlines()[-1],
        {"count_rows": Value(True)},
    ),
    "LanceDataset": Method(_handle, OPENING | {"index_cache_size": OPENING["index_cache_size"]}),
    "dataset": Method(
        _opened,
        _some(set(inspect.signature(lk.dataset).parameters))
        | {
            "asof": Refused(dt.datetime(2000, 1, 1, tzinfo=dt.UTC), "2000"),
            "branch": Refused("none", "none"),
        },
    ),
    "LanceDataset.at": Method(
        lambda **kw: shared().at(**kw),
        {
            "when": Value(1),
            "asof": Refused(dt.timedelta(hours=-9999), "before the first remaining"),
        },
    ),
    "LanceDataset.explore": Method(
        lambda **kw: shared().explore(**kw).state, {"at": Value(1), "against": Value(1)}
    ),
    "LanceDataset.duplicates": Method(
        lambda **kw: (found := shared().duplicates(**kw)).rows + 10 * found.keys,
        {"on": Value("id")},
        {"on": "name"},
    ),
    "LanceDataset.row_history": Method(
        lambda **kw: [(c.kind, c.version, c.key) for c in shared().row_history(**kw)],
        {"rows": Value({"id": 3})},
        {"rows": {"id": 2}},
    ),
    "LanceDataset.blame": Method(
        lambda **kw: shared().blame(**kw),
        {"filter": Value("id > 4"), "columns": Value(["id"])},
    ),
    "LanceDataset.column_history": Method(
        lambda **kw: [(c.kind, c.name) for c in shared().column_history(**kw)],
        {"column": Value("x")},
        {"column": "id"},
    ),
    "LanceDataset.bisect": Method(
        lambda **kw: [(f.version, f.evaluations) for f in [shared().bisect(**kw)]],
        {
            "condition": Value(lambda past: past.version == 2),
            "good": Refused(2, "does not come before"),
            "bad": Refused(1, "does not come before"),
            "all": Value(True, {"condition": lambda _: True}),
        },
        {"condition": lambda past: past.version < 2},
    ),
    "LanceDataset.checkout_version": Method(
        lambda version: shared().checkout_version(version), {"version": Value(1)}, {"version": 2}
    ),
    "LanceDataset.count_rows": Method(
        lambda **kw: shared().count_rows(**kw),
        {"filter": Value("id > 4"), "kwargs": Keywords("fragments", Made(lambda: [fragment()]))},
    ),
    "LanceDataset.head": Method(
        lambda **kw: shared().head(**kw),
        {"num_rows": Value(2), "kwargs": Keywords("columns", ["x"])},
    ),
    "LanceDataset.take": Method(
        lambda **kw: shared().take(**kw),
        {"indices": Value([1]), "columns": Value(["x"])},
        {"indices": [0]},
    ),
    "LanceDataset.slice": Method(
        lambda **kw: shared().slice(**kw),
        {"start": Value(1), "end": Value(3), "columns": Value(["x"])},
        {"start": 0, "end": 2},
    ),
    "LanceDataset.sample": Method(
        _sampled,
        {
            "num_rows": Value(2),
            "columns": Value(["x"]),
            "randomize_order": Value(False),  # all rows, in one of 362,880 orders
            "kwargs": Keywords("nonsense", 1),
        },
        {"num_rows": 9},
    ),
    "LanceDataset.sql": Method(
        lambda **given: shared().sql(**given).build().to_batch_records(),
        {"sql": Value("SELECT x FROM dataset"), "include_mem_wal": Refused("x")},
        {"sql": "SELECT id FROM dataset"},
    ),
    "LanceDataset.delta": Method(
        lambda **kw: [(d.begin_version, d.end_version) for d in [shared().delta(**kw)]],
        {
            "compared_against": Value(1),
            "begin_version": Value(1),
            "end_version": Value(2),
        },
        {"begin_version": 0, "end_version": 1},
    ),
    "LanceDataset.diff": Method(
        lambda **kw: [
            (d.old, d.new, d.key, dict(d.counts), [*d.columns]) for d in [shared().diff(**kw)]
        ],
        {
            "old": Value(2),
            "new": Value(1),
            "on": Value(["id", "x"]),
            "filter": Value("id < 2"),
            "columns": Value(["x"]),
        },
        {"old": 1},
    ),
    "DatasetDelta.commits": Method(
        lambda **kw: len(shared().delta(begin_version=0, end_version=2).commits(**kw)),
        {"newest": Value(1)},
    ),
    "LanceDataset.changes": Method(
        lambda **kw: [
            (step.old, step.new, step.diff.key, dict(step.diff.counts), [*step.diff.columns])
            for step in shared().changes(**kw).steps
        ],
        {
            "since": Value(2),
            "until": Value(1),
            "on": Value(["id", "x"]),
            "filter": Value("id < 2"),
            "columns": Value(["x"]),
        },
        {"since": 1},
    ),
    "diff": Method(
        lambda **kw: [(d.old, d.new, d.key, dict(d.counts), [*d.columns]) for d in [lk.diff(**kw)]],
        {
            "old": Value(Made(lambda: shared().checkout_version(2))),
            "new": Value(Made(lambda: shared().checkout_version(1))),
            "on": Value(["id", "x"]),
            "filter": Value("id < 2"),
            "columns": Value(["x"]),
        },
        {"old": Made(lambda: shared().checkout_version(1)), "new": Made(shared)},
    ),
    "LanceDataset.get_fragment": Method(
        lambda fragment_id: shared().get_fragment(fragment_id).metadata.id,
        {"fragment_id": Value(1)},
        {"fragment_id": 0},
    ),
    "LanceDataset.get_fragments": Method(
        lambda **kw: len(shared().get_fragments(**kw)), {"filter": Refused("id > 4")}
    ),
    "LanceDataset.get_transactions": Method(
        lambda **kw: len(shared().get_transactions(**kw)), {"recent_transactions": Value(1)}
    ),
    "LanceDataset.read_transaction": Method(
        lambda version: type(shared().read_transaction(version).operation).__name__,
        {"version": Value(1)},
        {"version": 2},
    ),
    "LanceDataset.validate": Method(
        lambda **kw: shared().validate(**kw),
        {"deep": Refused("x", "deep"), "sources": Refused("x", "sources")},
    ),
    "LanceDataset.tracked_files": Method(_tracked, {"min_version": Value(2), "progress": Value(1)}),
    "LanceStats.dataset_stats": Method(
        lambda **kw: dict(shared().stats.dataset_stats(**kw)), {"max_rows_per_group": Value(1)}
    ),
    "LanceFragment.count_rows": Method(
        lambda **kw: fragment().count_rows(**kw), {"filter": Value("id > 1")}
    ),
    "LanceFragment.head": Method(
        lambda num_rows: fragment().head(num_rows), {"num_rows": Value(2)}, {"num_rows": 1}
    ),
    "LanceFragment.take": Method(
        lambda **kw: fragment().take(**kw),
        {"indices": Value([1]), "columns": Value(["x"])},
        {"indices": [0]},
    ),
    "LanceFragment.validate": Method(
        lambda **kw: fragment().validate(**kw), {"deep": Refused("x", "deep")}
    ),
    "Tags.get_version": Method(
        lambda tag: int(shared().tags.get_version(tag)), {"tag": Value("t")}, {"tag": "u"}
    ),
    "Tags.list_ordered": Method(
        lambda **kw: list(shared().tags.list_ordered(**kw)), {"order": Value("asc")}
    ),
    "Branches.list_ordered": Method(
        lambda **kw: list(shared().branches.list_ordered(**kw)), {"order": Value("asc")}
    ),
    "History.row_change": Method(
        lambda version: shared().versions().row_change(shared().versions()[version]),
        {"version": Value(1)},
        {"version": 0},
    ),
    **{
        f"SqlQueryBuilder.{name}": Method(_sql(name), {argument or name: check})
        for name, argument, check in [
            ("table_name", None, Value("other")),
            ("with_row_id", None, Value(True)),
            ("with_row_addr", None, Value(True)),
            ("batch_size", None, Refused(0)),
            ("batch_size_bytes", None, Value(60)),
            ("blob_handling", None, Value("all_binary")),
        ]
    },
}
