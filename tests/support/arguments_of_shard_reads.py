"""Checks of the arguments of what reads shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa

import lancekit as lk
from tests.support.argument_checks import Method, Refused, Value, place

__all__ = ["SHARD_READS"]

_SHARD = "6f9b1c0e-6f0a-4c5e-9d52-0f4d1c7a9a10"


@cache
def _keyed() -> lk.LanceDataset:
    vectors = pa.array([[float(n), 1.0] for n in range(9)], pa.list_(pa.float32(), 2))
    numbers = [n / 2 for n in range(9)]
    columns = {"id": range(9), "x": numbers, "vec": vectors, "text": list(map(str, numbers))}
    rows = pa.table(columns)
    return lk.write_dataset(rows, place(), primary_key="id")


@cache
def _without_key() -> lk.LanceDataset:
    return lk.write_dataset({"id": [1]}, place())


def _scanned(name: str) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        scanner = _keyed().lsm_scanner()
        return (getattr(scanner, name)(**arguments) if arguments else scanner).to_table()

    return call


def _searching(name: str, **given: Any) -> Callable[..., Any]:
    call = _scanned(name)
    return lambda **arguments: call(**{**given, **arguments})


def _of(**given: Any) -> pa.Table:
    given = {"dataset": _keyed(), "shard_snapshots": [], **given}
    return lk.LsmScanner.from_snapshots(**given).to_table()


def _looked_up(pk_value: Any = None, columns: Any = None, **given: Any) -> pa.Table:
    given = {"dataset": _keyed(), "shard_snapshots": [], **given}
    key = pa.array([3]) if pk_value is None else pk_value
    return lk.LsmPointLookupPlanner(**given).plan_lookup(key, columns).to_table()


def _searched(**given: Any) -> pa.Table:
    names = {"query", "k", "nprobes", "columns", "refine_base_table", "overfetch_factor"}
    search = {"query": pa.array([4.0, 1.0]), **{n: v for n, v in given.items() if n in names}}
    made = {"dataset": _keyed(), "shard_snapshots": [], "vector_column": "vec"}
    made |= {name: value for name, value in given.items() if name not in names}
    return lk.LsmVectorSearchPlanner(**made).plan_search(**search).to_table()


def _shown(name: str) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        given = {"path": "0a1b2c3d_gen_1", "generation": 1} if name == "with_sstable" else {}
        shard = lk.ShardSnapshot(arguments.pop("shard_id", _SHARD))
        done = {**given, **arguments}
        return repr(getattr(shard, name)(**done) if done else shard)

    return call


_PLANNED = {
    "dataset": Refused(_without_key, "primary key"),
    "shard_snapshots": Refused([1]),
    "pk_columns": Refused(["x"]),
}


def _planned(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make the dataset when it is needed."""

    def made(**arguments: Any) -> Any:
        return call(**{n: v() if n == "dataset" else v for n, v in arguments.items()})

    return made


SHARD_READS = {
    "LsmScanner.from_snapshots": Method(
        _planned(_of), {name: _PLANNED[name] for name in ("dataset", "shard_snapshots")}
    ),
    "LsmScanner.project": Method(_scanned("project"), {"columns": Value(["x"])}),
    "LsmScanner.filter": Method(_scanned("filter"), {"expr": Value("x > 2")}),
    "LsmScanner.full_text_search": Method(
        _searching("full_text_search", query="4.0", columns=["text"]),
        {"query": Value("2.0"), "columns": Refused(["none"], "none")},
    ),
    "LsmScanner.nearest": Method(
        _searching("nearest", column="vec", q=[4.0, 1.0]),
        {
            "column": Refused("x", "must be a vector column"),
            "q": Value([2.0, 0.0]),
            "k": Value(3),
            "more": Refused(1, "more"),
        },
    ),
    "LsmScanner.limit": Method(_scanned("limit"), {"n": Value(3), "offset": Value(4)}),
    "LsmPointLookupPlanner": Method(_planned(_looked_up), _PLANNED),
    "LsmPointLookupPlanner.plan_lookup": Method(
        _looked_up, {"pk_value": Value(pa.array([5])), "columns": Value(["x"])}
    ),
    "LsmVectorSearchPlanner": Method(
        _planned(_searched),
        {
            **_PLANNED,
            "vector_column": Refused("x", "must be a vector column"),
            "distance_type": Value("dot"),
            "filter": Value("x > 2"),
        },
    ),
    "LsmVectorSearchPlanner.plan_search": Method(
        _searched,
        {
            "query": Value(pa.array([1.0, 1.0])),
            "k": Value(3),
            "nprobes": Refused(0),
            "columns": Value(["x"]),
            "refine_base_table": Refused(3),
            "overfetch_factor": Refused(0.5),
        },
    ),
    "ShardSnapshot": Method(_shown(""), {"shard_id": Refused("x")}),
    "ShardSnapshot.with_spec_id": Method(_shown("with_spec_id"), {"spec_id": Value(3)}),
    "ShardSnapshot.with_current_generation": Method(
        _shown("with_current_generation"), {"generation": Value(3)}
    ),
    "ShardSnapshot.with_sstable": Method(
        _shown("with_sstable"), {"generation": Value(3), "path": Refused("x")}
    ),
}
