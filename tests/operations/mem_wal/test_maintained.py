"""Generations have indices as their table has them, by which pylance finds their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.mem_wal import LsmVectorSearchPlanner, ShardSnapshot

import lancekit as lk
from tests.support.shards import SHARD, keyed

VECTOR = pa.list_(pa.float32(), 4)
KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ")
SCHEMA = keyed(
    pa.schema(
        [
            ("id", pa.int64()),
            ("v", pa.int32()),
            ("text", pa.string()),
            ("nested", pa.struct([("a", pa.int32())])),
            *((kind, VECTOR) for kind in KINDS),
        ]
    ),
    "id",
)


def made(*ids: int, seed: int = 0) -> pa.Table:
    vectors = np.random.default_rng(seed).random((len(ids), 4), np.float32)
    row = [[*ids], [n % 5 for n in ids], [f"word{n} snow" for n in ids], [{"a": n} for n in ids]]
    return pa.table(
        [*row, *([vector.tolist() for vector in vectors] for _ in KINDS)], schema=SCHEMA
    )


def with_indices(path: Path) -> Any:
    ds = lance.write_dataset(made(*range(300)), str(path))
    for column, kind in (("v", "BTREE"), ("id", "BITMAP"), ("nested.a", "BTREE")):
        ds.create_scalar_index(column, kind)
    ds.create_scalar_index("text", "INVERTED", with_position=True)
    for kind in KINDS:
        more = {"num_sub_vectors": 2} if kind == "IVF_PQ" else {}
        ds.create_index(kind, kind, metric="cosine", num_partitions=2, **more)
    return ds


def generations(path: Path) -> list[Any]:
    ((info),) = lk.dataset(path).mem_wal_shards()
    return [lance.dataset(f"{path}/_mem_wal/{SHARD}/{one.path}") for one in info.generations]


def test_pylance_finds_rows_of_generations_by_their_indices(tmp_path: Path) -> None:
    ds = with_indices(tmp_path)
    ds.initialize_mem_wal()
    with lk.dataset(tmp_path).mem_wal_writer(SHARD) as writer:
        writer.put(made(*range(280, 320), seed=1))
        writer.put(made(301, 302, seed=2))
        writer.delete({"id": [3]})
    with lk.dataset(tmp_path).mem_wal_writer(SHARD) as writer:
        writer.delete({"id": [4]})  # a generation without any value
    first, second = generations(tmp_path)
    told = {index.name: index for index in first.describe_indices()}
    assert told.keys() == {"v_idx", "text_idx", *(f"{kind}_idx" for kind in KINDS)}
    assert {index.num_rows_indexed for index in told.values()} == {41}
    assert told["IVF_PQ_idx"].index_type == "IVF_PQ"
    assert told["IVF_HNSW_SQ_idx"].index_type == "IVF_FLAT"
    theirs, mine = (
        one.stats.index_stats("IVF_PQ_idx")["indices"][0]["centroids"] for one in (ds, first)
    )
    assert mine == theirs
    assert first.count_rows(filter="v = 1") == len({1, 6} & {n % 5 for n in range(280, 320)}) * 8
    for one in (first, second):
        assert one.count_rows(filter="v IS NULL") == 1
        assert "ScalarIndexQuery" in one.scanner(filter="v = 1").explain_plan()
    found = first.to_table(full_text_query="word302")
    assert found["id"].to_pylist() == [302]
    assert second.to_table(full_text_query="snow").num_rows == 0
    snapshot = ShardSnapshot(SHARD)
    for number, one in enumerate((first, second), start=1):
        snapshot.with_sstable(number, one.uri.rpartition("/")[2]).with_current_generation(
            number + 1
        )
    for kind in KINDS:
        query = pa.array(made(301, seed=2)[kind][0].as_py(), pa.float32())
        planner = LsmVectorSearchPlanner(ds, [snapshot], kind, distance_type="cosine")
        near = planner.plan_search(query, k=3, nprobes=2, refine_base_table=True).to_table()
        assert near["id"][0].as_py() == 301
        nearest = {"column": kind, "q": query, "k": 3, "nprobes": 2, "refine_factor": 20}
        ours = lk.dataset(tmp_path).to_table(nearest=nearest, include_mem_wal=True)
        assert ours["id"][0].as_py() == 301


def test_only_those_that_the_table_names_and_has(tmp_path: Path) -> None:
    ds = with_indices(tmp_path)
    ds.initialize_mem_wal(maintained_indexes=["v_idx", "text_idx"])
    ours = lk.dataset(tmp_path)
    with ours.mem_wal_writer(SHARD, max_memtable_rows=2) as writer:
        writer.put(made(1, 2))
        ours.drop_index("v_idx")
        writer.put(made(3, 4))
        writer.put(made(5))
    names = [{index.name for index in one.describe_indices()} for one in generations(tmp_path)]
    assert names[-1] == {"text_idx"}
    assert names[0] >= {"text_idx"}


def test_an_index_that_cannot_be_made_costs_no_row(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ds = with_indices(tmp_path)
    ds.initialize_mem_wal(maintained_indexes=["text_idx", "IVF_FLAT_idx", "v_idx"])
    (index,) = (one for one in ds.describe_indices() if one.name == "text_idx")
    (tmp_path / "_indices" / index.segments[0].uuid / "metadata.lance").write_bytes(b"damaged")
    writer = lk.dataset(tmp_path).mem_wal_writer(SHARD)
    writer.put(made(301))
    with caplog.at_level("WARNING"):
        writer.close()
    assert "without the index text_idx" in caplog.text
    (one,) = generations(tmp_path)
    assert {index.name for index in one.describe_indices()} == {"IVF_FLAT_idx", "v_idx"}
    assert one.count_rows() == 1
