"""Scanners of shards, beside pylance's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.mem_wal import LsmScanner as Theirs
from lance.mem_wal import ShardSnapshot as TheirSnapshot

import lancekit as lk
from lancekit._api.lsm_scanner import LsmScanner, ShardSnapshot
from lancekit.errors import InvalidArgumentError
from tests.support.shard_model import ShardedTable


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ShardedTable:
    made = ShardedTable(tmp_path_factory.mktemp("scanners") / "d", Random(21))
    for _ in range(40):
        made.step()
    return made


def both(table: ShardedTable) -> tuple[Any, Any]:
    ours = lk.dataset(table.path)
    return (
        LsmScanner.from_snapshots(ours, table.snapshots(ShardSnapshot)),
        Theirs.from_snapshots(lance.dataset(str(table.path)), table.snapshots(TheirSnapshot)),
    )


CHAINS: dict[str, Callable[[Any], Any]] = {
    "all": lambda scan: scan,
    "column": lambda scan: scan.project(["v"]),
    "no columns": lambda scan: scan.project([]),
    "hidden": lambda scan: scan.project(["v"]).with_row_address().with_memtable_gen(),
    "filter": lambda scan: scan.filter("v > 5").project(["name", "id"]),
    "none": lambda scan: scan.filter("id > 1000"),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_rows_and_schema_are_those_of_pylance(table: ShardedTable, chain: str) -> None:
    ours, theirs = map(CHAINS[chain], both(table))
    assert ours.count_rows() == theirs.count_rows()
    mine, wanted = ours.to_table(), theirs.to_table()
    assert mine.schema == wanted.schema == ours.schema
    assert sorted(mine.to_pylist(), key=str) == sorted(wanted.to_pylist(), key=str)
    assert ours.to_batch().schema == wanted.schema
    assert sum(batch.num_rows for batch in ours.to_batches()) == wanted.num_rows
    assert ours.to_reader().read_all().num_rows == wanted.num_rows


def test_limits_count_what_is_left(table: ShardedTable) -> None:
    for limit in ((2, None), (None, 3), (4, 1), (0, None), (1000, 0)):
        ours, theirs = both(table)
        assert ours.limit(*limit).count_rows() == theirs.limit(*limit).count_rows()


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda scan: scan.filter("nope > 1").to_table(), ValueError),
        (lambda scan: scan.filter("id >").to_table(), ValueError),
        (lambda scan: scan.project(["nope"]).to_table(), OSError),
        (lambda scan: scan.filter("_rowid > 1").to_table(), ValueError),
    ],
)
def test_what_pylance_refuses_is_refused_alike(
    table: ShardedTable, wrong: Callable[[Any], Any], kind: type[Exception]
) -> None:
    for one in both(table):
        with pytest.raises(kind):
            wrong(one)
    with pytest.raises(InvalidArgumentError, match=r"n must be .* got -1"):
        both(table)[0].limit(-1)


def test_a_dataset_without_a_key_has_no_snapshots(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    with pytest.raises(InvalidArgumentError, match="no primary key"):
        LsmScanner.from_snapshots(ds, [])
    assert ds.lsm_scanner().to_table()["x"].to_pylist() == [1]


def test_a_handle_reads_the_newest_version_and_the_logs(table: ShardedTable) -> None:
    ds = lk.dataset(table.path, version=1)
    found = ds.lsm_scanner().to_table().to_pylist()
    assert {table.key(row): row for row in found} == table.rows()
    assert ds.lsm_scanner().explain().reads.rows >= len(found)
    assert "only the newest row of each key" in str(ds.lsm_scanner().explain())
    with pytest.raises(InvalidArgumentError, match="pinned to version 1"):
        ds.at(1).lsm_scanner()


def test_each_way_to_read_a_dataset_has_the_rows_of_shards(table: ShardedTable) -> None:
    ds, wanted = lk.dataset(table.path), table.rows()
    rows = sorted(wanted.values(), key=lambda row: row["id"])
    order = {"include_mem_wal": True, "order_by": ["id"]}
    assert ds.to_table(**order).to_pylist() == rows
    assert ds.scanner(**order).to_table().to_pylist() == rows
    assert pa.Table.from_batches(ds.to_batches(**order)).to_pylist() == rows
    assert ds.to_pandas(["id"], **order)["id"].tolist() == [row["id"] for row in rows]
    assert ds.head(1000, include_mem_wal=True).num_rows == len(rows)
    assert ds.count_rows("v > 5", include_mem_wal=True) == sum((r["v"] or 0) > 5 for r in rows)
    assert ds.scanner(["v"], include_mem_wal=True).head(2).num_rows == 2
    told = ds.scanner(filter="v > 5", include_mem_wal=True).explain()
    assert "the newest of its key" in str(told)


@pytest.mark.spark
def test_spark_reads_generations_and_logs(table: ShardedTable, spark: Any) -> None:
    ds, wanted = lk.dataset(table.path), table.rows()
    assert any(part.table is None for part in ds.lsm_scanner()._read().parts)
    frame = ds.to_spark(["id", "v"], include_mem_wal=True)
    rows = {row.id: row.v for row in frame.collect()}
    assert rows == {row["id"]: row["v"] for row in wanted.values()}
    chosen = ds.lsm_scanner().filter("v > 5").project(["id"]).to_spark()
    assert chosen.count() == sum((row["v"] or 0) > 5 for row in wanted.values())


def test_searches_of_chosen_generations_and_of_all(table: ShardedTable) -> None:
    ds, wanted = lk.dataset(table.path), table.rows()
    low = sorted(row["id"] for row in wanted.values())[len(wanted) // 2]
    found = ds.lsm_scanner().full_text_search("rain", ["text"]).filter(f"id > {low}").to_table()
    has_rain = [row for row in wanted.values() if "rain" in (row["text"] or "")]
    assert {*found["id"].to_pylist()} == {row["id"] for row in has_rain if row["id"] > low}
    near = ds.lsm_scanner().nearest("vec", [9.0, 9.0], k=4).project(["v"]).to_table()
    assert near.column_names == ["v", "id", "_distance"]
    far = sorted(sum((x - 9) ** 2 for x in row["vec"]) for row in wanted.values())
    assert near["_distance"].to_pylist() == far[:4]
    some = LsmScanner.from_snapshots(ds, []).full_text_search("rain", ["text"]).to_table()
    base = ds.to_table(full_text_query={"query": "rain", "columns": ["text"]})
    assert some.equals(base)
    with pytest.raises(InvalidArgumentError, match="no column has a full-text index"):
        ds.lsm_scanner().full_text_search("rain")
