"""Merge-insert through both engines: whatever the clauses, the same rows and counts."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import cycle, product
from pathlib import Path

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._spark.jobs.client import client_of
from lancekit.errors import (
    CorruptFileError,
    DuplicateKeysError,
    MatchedRowsError,
    NullKeyError,
    PredicateError,
    SchemaMismatchError,
)

pytestmark = pytest.mark.spark

CONDITION = "source.x > target.x AND target.s <> 'c'"
MATCHED = {
    "keep": lambda merge: merge,
    "update": lambda merge: merge.when_matched_update_all(),
    "some": lambda merge: merge.when_matched_update_all(CONDITION),
    "delete": lambda merge: merge.when_matched_delete(),
}
BY_SOURCE = {
    "stay": lambda merge: merge,
    "all go": lambda merge: merge.when_not_matched_by_source_delete(),
    "some go": lambda merge: merge.when_not_matched_by_source_delete("x < 20"),
}


def target():
    ids = [*range(60), None]
    return pa.table(
        {"id": ids, "x": [n or 0 for n in ids], "s": [("abcd"[(n or 0) % 4]) for n in ids]}
    )


def source():
    ids = [*range(40, 90, 3), None]
    return pa.table(
        {"id": ids, "x": [(n or 0) + n_ % 2 * 9 for n_, n in enumerate(ids)], "s": ["z"] * len(ids)}
    )


def clauses(matched, by_source, insert):
    def build(merge):
        merge = BY_SOURCE[by_source](MATCHED[matched](merge))
        return merge.when_not_matched_insert_all() if insert else merge

    return build


#: how keys are found on Spark; the first is what size would choose here
STRATEGIES = ["driver", "closure", "file", "broadcast", "shuffle"]


def run_both(folder, old, new, on, build, **options):
    """Merge through both engines into twins; check that they agree; return the one on Spark."""
    twins, results = [], []
    for engine in ("local", "spark"):
        ds = lk.write_dataset(old, folder / engine, **options)
        if ds.count_rows() > 7:
            ds.delete("id % 7 = 0")
        with lk.options(engine=engine):
            results.append(build(ds.merge_insert(on)).execute(new))
        twins.append(ds)
    local, spark = twins
    assert dict(results[0]) == dict(results[1])
    assert [r.engine for r in results] == ["local", "spark"]
    assert results[0].key_guard == results[1].key_guard
    assert rows_of(spark) == rows_of(local)
    assert spark.version == local.version
    return spark


def rows_of(ds):
    return sorted(map(repr, ds.to_table().to_pylist()))


COMBINATIONS = [
    combination
    for combination in product(MATCHED, BY_SOURCE, [True, False])
    if combination != ("keep", "stay", False)
]
#: every pair of clauses; all three together take twice as long
PAIRS = {("keep", "stay", True)} | {
    (matched, by_source, (first + second) % 2 == 1)
    for (first, matched), (second, by_source) in product(enumerate(MATCHED), enumerate(BY_SOURCE))
}


def pytest_generate_tests(metafunc):
    if "combination" in metafunc.fixturenames:
        whole = metafunc.config.getoption("--whole")
        if whole:
            chosen = list(product(COMBINATIONS, STRATEGIES))
        else:
            some = [c for c in COMBINATIONS if c in PAIRS]
            chosen = list(zip(some, cycle(STRATEGIES), strict=False))
        names = ["-".join(map(str, (*clauses, way))) for clauses, way in chosen]
        metafunc.parametrize(("combination", "way"), chosen, ids=names)


@pytest.mark.torture
def test_combinations_of_clauses(spark, tmp_path, combination, way):
    with lk.options(merge_match=way):
        run_both(tmp_path, target(), source(), "id", clauses(*combination), max_rows_per_file=25)


def upsert(merge):
    return merge.when_matched_update_all().when_not_matched_insert_all()


def test_a_key_of_a_time_and_names(spark, tmp_path):
    """As the flights have it: the key filter is exact, and pylance reads the result."""
    hours = pd.date_range("2013-01-01", periods=48, freq="h", tz="UTC")
    old = pd.DataFrame(
        {"time_hour": np.repeat(hours, 3), "carrier": ["AA", "UA", "DL"] * 48, "delay": range(144)}
    )
    new = old.sample(30, random_state=1, ignore_index=True).assign(delay=-1)
    new.loc[new.index[:5], "carrier"] = "XX"
    key = ["time_hour", "carrier"]
    twins = []
    for engine in ("local", "spark"):
        ds = lk.write_dataset(old, tmp_path / engine, primary_key=key)
        with lk.options(engine=engine):
            twins.append((ds, upsert(ds.merge_insert(key)).execute(new)))
    (local, there), (on_local, on_spark) = zip(*twins, strict=True)
    assert dict(on_local) == dict(on_spark)
    assert on_local.num_inserted_rows == 5
    assert on_spark.key_guard == on_local.key_guard == "exact"
    assert guard_of(there) == guard_of(local)
    assert rows_of(there) == rows_of(local)
    assert sorted(map(repr, lance.dataset(there.uri).to_table().to_pylist())) == rows_of(local)


def guard_of(ds):
    return ds.read_transaction(ds.version).operation.inserted_rows


#: key types, two keys of the target, and one more of the source
KEYS = {
    "int8": (pa.int8(), [1, 2, 3]),
    "uint64": (pa.uint64(), [1, 2**64 - 1, 3]),
    "string": (pa.string(), ["", "ä", "b"]),
    "binary": (pa.binary(), [b"", b"\0", b"b"]),
    "date": (pa.date32(), [dt.date(1969, 1, 1), dt.date(2024, 1, 1), dt.date(2025, 1, 1)]),
    "nanoseconds": (pa.timestamp("ns", "UTC"), [1, 2, 3]),
    "decimal": (pa.decimal128(20, 2), [Decimal("1.10"), Decimal("-1.10"), Decimal("2.00")]),
    "double": (pa.float64(), [0.0, float("nan"), -0.0]),
    "half": (pa.float16(), np.array([0.0, np.nan, -0.0], np.float16)),
    "bool": (pa.bool_(), [True, None, False]),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_equal_as_in_this_process(spark, tmp_path, name):
    kind, keys = KEYS[name]
    old = pa.table({"id": pa.array(keys[:2], kind), "v": ["old", "old"]})
    new = pa.table({"id": pa.array([keys[2], keys[1]], kind), "v": ["new", "new"]})
    ds = run_both(tmp_path, old, new, "id", upsert)
    assert ds.count_rows() == (4 if name == "bool" else 3)  # a null equals nothing


def test_a_source_without_all_columns(spark, tmp_path):
    """Matched rows keep what the source lacks; new ones have null there."""
    old = pa.table(
        {
            "id": range(10),
            "when": pa.array(range(10), pa.timestamp("ns")),
            "v": pa.array([[n, n] for n in range(10)], pa.list_(pa.float16(), 2)),
            "s": list("abcdefghij"),
        }
    )
    new = pa.table({"s": ["X", "Y", "Z"], "id": [5, 3, 99]})
    ds = run_both(tmp_path, old, new, "id", upsert)
    row = ds.to_table(filter="id = 5").to_pylist()[0]
    assert (row["s"], row["v"], row["when"].value) == ("X", [5.0, 5.0], 5)
    run_both(
        tmp_path / "where",
        old,
        new,
        "id",
        lambda m: m.when_matched_update_all("source.s > target.s AND target.id < 5"),
    )


def test_frames_of_sparks_own(spark, tmp_path):
    ds = lk.write_dataset(spark.range(1000).selectExpr("id", "'old' as s"), tmp_path / "d")
    new = spark.range(900, 1100, 1, 200).selectExpr("upper('new') as s", "cast(id as int) as id")
    result = upsert(ds.merge_insert("id")).execute(new)
    assert dict(result) == {
        "num_inserted_rows": 100,
        "num_updated_rows": 100,
        "num_deleted_rows": 0,
    }
    assert ds.count_rows() == 1100
    assert ds.count_rows("s = 'NEW'") == 200
    assert result.fragments_added <= 2 * client_of(spark).parallelism()
    assert lance.dataset(ds.uri).count_rows("s = 'NEW'") == 200


def test_no_source_rows_and_no_target_rows(spark, tmp_path):
    none = source().slice(0, 0)
    run_both(tmp_path / "a", target(), none, "id", upsert)
    run_both(tmp_path / "b", none, source(), "id", upsert)


def test_twins_in_the_target_are_both_replaced(spark, tmp_path):
    old = pa.table({"id": [1, 1, 2], "v": [1, 2, 3]})
    run_both(tmp_path, old, pa.table({"id": [1], "v": [9]}), "id", upsert)


# ---- errors


def failing(folder, old, new, on, build, kind, **options):
    """Merge through both engines; return the two errors, after checking that nothing is left."""
    errors = []
    for engine in ("local", "spark"):
        ds = lk.write_dataset(old, folder / engine, **options)
        files = sorted(Path(ds.uri).rglob("*.lance"))
        with lk.options(engine=engine), pytest.raises(kind) as caught:
            build(ds.merge_insert(on)).execute(new)
        errors.append(caught.value)
        assert ds.version == 1
        assert sorted(Path(ds.uri).rglob("*.lance")) == files
    return errors


def test_duplicate_keys(spark, tmp_path):
    new = pa.table({"id": [7, 8, None, 8, 9, None, 8, 0.0, -0.0], "x": [0] * 9})
    old = pa.table({"id": [1.0], "x": [1]})
    local, there = failing(tmp_path, old, new, "id", upsert, DuplicateKeysError)
    assert str(there) == str(local)
    assert there.context == local.context == {"keys": [(8.0,)], "on": ("id",)}


def test_matched_rows_where_none_may_be(spark, tmp_path):
    def build(merge):
        return merge.when_matched_fail().when_not_matched_insert_all()

    new = pa.table({"id": [58, 59, 61], "x": [0] * 3, "s": [""] * 3})
    local, there = failing(tmp_path, target(), new, "id", build, MatchedRowsError)
    assert sorted(there.context["keys"]) == sorted(local.context["keys"]) == [(58,), (59,)]
    assert str(there)[:20] == str(local)[:20] == "2 rows of the datase"


def test_null_in_the_primary_key(spark, tmp_path):
    old, new = pa.table({"id": [1], "x": [1]}), pa.table({"id": [2, None, 3], "x": [0, 0, 0]})
    local, there = failing(tmp_path, old, new, "id", upsert, NullKeyError, primary_key=["id"])
    assert there.context["column"] == local.context["column"] == "id"


def test_a_value_that_does_not_fit(spark, tmp_path):
    old = pa.table({"id": [1], "x": pa.array([1], pa.int8())})
    new = pa.table({"id": [1, 2], "x": [1, 1000]})
    local, there = failing(tmp_path, old, new, "id", upsert, SchemaMismatchError)
    assert there.context["value"] == local.context["value"] == 1000


def test_a_condition_that_does_not_fit(spark, tmp_path):
    def build(merge):
        return merge.when_matched_update_all("source.nope > 1")

    failing(tmp_path, target(), source(), "id", build, PredicateError)


def test_a_damaged_target(spark, tmp_path):
    ds = lk.write_dataset(target(), tmp_path / "d")
    for path in Path(ds.uri, "data").iterdir():
        path.write_bytes(path.read_bytes()[:-40])
    with lk.options(engine="spark"), pytest.raises(CorruptFileError, match=r"\.lance"):
        upsert(ds.merge_insert("id")).execute(source())


def test_a_source_that_gives_other_rows_each_time(spark, tmp_path):
    """It is read once: what is merged are the rows whose keys were checked."""
    ds = lk.write_dataset(pa.table({"id": [1, 2], "v": [0, 0]}), tmp_path / "d")
    counter = tmp_path / "counter"

    def moody(batches):
        for _ in batches:
            first = not counter.exists()
            counter.touch()
            yield pa.record_batch({"id": [2, 3] if first else [1, 1], "v": [5, 6]})

    frame = spark.range(0, 1, 1, 1).mapInArrow(moody, "id long, v long")
    upsert(ds.merge_insert("id")).execute(frame)
    assert ds.to_table().sort_by("id").to_pydict() == {"id": [1, 2, 3], "v": [0, 5, 6]}


def test_dictionary_keys(spark, tmp_path):
    old = pa.table({"k": pa.array(["a", "b", None]).dictionary_encode(), "v": [1, 2, 3]})
    new = pa.table({"k": pa.array(["c", "b"]).dictionary_encode(), "v": [30, 20]})
    ds = run_both(tmp_path, old, new, "k", clauses("update", "stay", True))
    assert ds.to_table().sort_by("v")["k"].to_pylist() == ["a", None, "b", "c"]
