"""Planners of look-ups and searches, beside pylance's."""

from __future__ import annotations

from random import Random
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.mem_wal import LsmPointLookupPlanner as TheirLookups
from lance.mem_wal import LsmVectorSearchPlanner as TheirSearches
from lance.mem_wal import ShardSnapshot as TheirSnapshot

import lancekit as lk
from lancekit._api.lsm_scanner import LsmScanner, ShardSnapshot
from lancekit._pylance.lsm_planners import LsmPointLookupPlanner, LsmVectorSearchPlanner
from lancekit.errors import InvalidArgumentError
from tests.support.shard_model import ShardedTable


@pytest.fixture(scope="module", params=[False, True])
def table(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ShardedTable:
    path = tmp_path_factory.mktemp("planners") / "d"
    made = ShardedTable(path, Random(33), pairs=request.param)
    for _ in range(40):
        made.step()
    return made


def planners(table: ShardedTable, ours: Any, theirs: Any, *given: Any, **more: Any) -> Any:
    ds = lk.dataset(table.path)
    return (
        ours(ds, table.snapshots(ShardSnapshot), *given, **more),
        theirs(lance.dataset(str(table.path)), table.snapshots(TheirSnapshot), *given, **more),
    )


def asked(table: ShardedTable, number: int) -> pa.Array:
    ids = pa.array([number])
    if table.keys == ("id",):
        return ids
    return pa.StructArray.from_arrays([pa.array([f"n{number % 3}"]), ids], table.keys)


def test_look_ups_find_what_pylance_finds(table: ShardedTable) -> None:
    ours, theirs = planners(table, LsmPointLookupPlanner, TheirLookups)
    columns: list[str] | None
    for number, columns in zip(range(0, 60, 2), [None, ["v"], ["id"]] * 10, strict=True):
        mine = ours.plan_lookup(asked(table, number), columns)
        wanted = theirs.plan_lookup(asked(table, number), columns)
        assert mine.to_table() == wanted.to_table()
        assert mine.schema == wanted.schema
        assert mine.dataset_schema == wanted.dataset_schema
    assert mine.to_reader().read_all() == mine.to_table()
    assert pa.Table.from_batches(mine.to_batches(), mine.schema) == mine.to_table()
    assert "point lookup" in mine.explain()


def test_keys_of_another_type_are_cast_or_refused(table: ShardedTable) -> None:
    planner = LsmPointLookupPlanner(lk.dataset(table.path), [], list(table.keys))
    if table.keys == ("id",):
        assert planner.plan_lookup(pa.array([1], pa.int8())).to_table().num_rows == 1
        assert planner.plan_lookup(pa.array([None], pa.int64())).to_table().num_rows == 0
        for wrong in (pa.array(["a"]), pa.array([1, 2]), pa.array([], pa.int64()), 7):
            with pytest.raises(InvalidArgumentError, match="pk_value"):
                planner.plan_lookup(wrong)
    with pytest.raises(InvalidArgumentError, match="pk_columns"):
        LsmPointLookupPlanner(lk.dataset(table.path), [], ["v"])


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot", None])
def test_searches_find_the_nearest_of_the_newest_rows(
    table: ShardedTable, metric: str | None
) -> None:
    given = {"distance_type": metric, "filter": "v > 3"}
    ours = LsmVectorSearchPlanner(
        lk.dataset(table.path), table.snapshots(ShardSnapshot), "vec", **given
    )
    plan = ours.plan_search(pa.array([9.5, 3.25], pa.float32()), k=7, columns=["v"])
    found = plan.to_table()
    assert found.schema == plan.schema
    # pylance's finds nothing without an index, so numbers are the judge
    written = LsmScanner.from_snapshots(
        lk.dataset(table.path), table.snapshots(ShardSnapshot)
    ).filter("v > 3")
    rows = written.to_table().to_pylist()
    vectors = np.array([row["vec"] for row in rows], np.float64)
    query = np.array([9.5, 3.25])
    far = {
        "dot": 1 - vectors @ query,
        "cosine": 1 - vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query),
    }.get(metric or "l2", ((vectors - query) ** 2).sum(axis=1))
    np.testing.assert_allclose(
        found["_distance"].to_numpy(), np.sort(far)[:7], rtol=1e-4, atol=1e-4
    )
    assert "exact search" in plan.explain()


def test_what_pylance_refuses_of_a_search_is_refused(table: ShardedTable) -> None:
    query = pa.array([1.0, 2.0], pa.float32())
    for given in ({"k": 0}, {"nprobes": 0}, {"overfetch_factor": 0.5}):
        for one in planners(table, LsmVectorSearchPlanner, TheirSearches, "vec"):
            with pytest.raises(ValueError, match=r"k|nprobes|overfetch_factor"):
                one.plan_search(query, **given)
    for one in planners(table, LsmVectorSearchPlanner, TheirSearches, "vec"):
        with pytest.raises(ValueError, match=r"expected 2|have 2"):
            one.plan_search(pa.array([1.0], pa.float32())).to_table()
