"""A table and its shards, read as one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.mem_wal import LsmScanner as TheirScanner
from lance.mem_wal import ShardSnapshot as TheirSnapshot

import lancekit as lk
from lancekit._api.lsm_scanner import LsmScanner, ShardSnapshot
from lancekit._operations.mem_wal.reader.merge_on_read import parts_for
from lancekit._operations.mem_wal.reader.sources import newest_read_set
from lancekit._scan.expressions.predicate import Predicate
from lancekit.errors import InvalidArgumentError
from tests.support.shard_model import ShardedTable
from tests.support.shards import LEFT_OPEN_MS, SHARD, with_shards


def by_key(table: ShardedTable, rows: pa.Table) -> dict[Any, Any]:
    found = rows.to_pylist()
    keyed = {table.key(row): row for row in found}
    assert len(keyed) == len(found), "a key is there twice"
    return keyed


def check(table: ShardedTable) -> None:
    ds, wanted, random = lk.dataset(str(table.path)), table.rows(), table.random
    assert by_key(table, ds.to_table(include_mem_wal=True)) == wanted
    assert ds.count_rows(include_mem_wal=True) == len(wanted)
    low = random.randrange(60)
    filters = {
        f"id >= {low}": lambda row: row["id"] >= low,
        f"id = {low}": lambda row: row["id"] == low,
        "v > 12 AND name != 'n1'": lambda row: (row["v"] or 0) > 12 and row["name"] != "n1",
        "v IS NULL": lambda row: row["v"] is None,
    }
    text = random.choice(list(filters))
    chosen = {key for key, row in wanted.items() if filters[text](row)}
    assert by_key(table, ds.lsm_scanner().filter(text).to_table()).keys() == chosen, text
    assert ds.lsm_scanner().filter(text).project(["v"]).count_rows() == len(chosen)
    assert ds.lsm_scanner().limit(7, 3).count_rows() == min(7, max(len(wanted) - 3, 0))
    query = np.array([random.randrange(60), random.randrange(50)], np.float32)
    nearest = {"column": "vec", "q": query, "k": 5}
    near = ds.to_table(nearest=nearest, filter=text, prefilter=True, include_mem_wal=True)
    far = {key: float(((np.array(wanted[key]["vec"]) - query) ** 2).sum()) for key in chosen}
    assert near["_distance"].to_pylist() == sorted(far.values())[:5]
    late = ds.to_table(nearest=nearest, filter=text, include_mem_wal=True)
    best = sorted(
        (float(((np.array(row["vec"]) - query) ** 2).sum()), key in chosen)
        for key, row in wanted.items()
    )
    if len({distance for distance, _ in best[:6]}) == 6:  # else it is open which are the five
        assert late["_distance"].to_pylist() == [d for d, is_chosen in best[:5] if is_chosen]


@pytest.mark.torture
@pytest.mark.parametrize(("seed", "pairs"), [(1, False), (2, True), (3, False)])
def test_random_changes_read_as_a_plain_model_says(
    tmp_path: Path, seed: int, pairs: bool, whole: Any
) -> None:
    table = ShardedTable(tmp_path / "d", Random(seed), pairs=pairs, stable_row_ids=seed == 3)
    for number in range(600 if whole else 16):
        table.step()
        if number % 3 == 2:
            check(table)
    fresh = lance.dataset(str(table.path))
    theirs = TheirScanner.from_snapshots(fresh, table.snapshots(TheirSnapshot)).to_table()
    mine = LsmScanner.from_snapshots(lk.dataset(str(table.path)), table.snapshots(ShardSnapshot))
    assert by_key(table, mine.to_table()) == by_key(table, theirs)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ShardedTable:
    made = ShardedTable(tmp_path_factory.mktemp("merged") / "d", Random(7))
    for _ in range(40):
        made.step()
    return made


def test_indices_of_the_table_do_not_show_rows_that_newer_ones_replace(tmp_path: Path) -> None:
    table = ShardedTable(tmp_path / "d", Random(9))
    for column, kind in (("v", "BTREE"), ("name", "BITMAP"), ("id", "ZONEMAP")):
        lk.dataset(table.path).create_scalar_index(column, kind)
    for number in range(30):
        table.step()
        if number % 6 == 5:
            wanted = table.rows()
            ds = lk.dataset(table.path)
            for text, holds in {
                "v < 10": lambda row: row["v"] is not None and row["v"] < 10,
                "name = 'n2'": lambda row: row["name"] == "n2",
                "id IN (3, 4, 5, 40)": lambda row: row["id"] in (3, 4, 5, 40),
            }.items():
                found = ds.to_table(filter=text, include_mem_wal=True)
                assert by_key(table, found) == {k: r for k, r in wanted.items() if holds(r)}


def test_an_index_of_vectors_proposes_no_row_that_newer_ones_replace(tmp_path: Path) -> None:
    table = ShardedTable(tmp_path / "d", Random(4))
    lk.dataset(table.path).create_index("vec", "IVF_FLAT", num_partitions=2)
    for _ in range(25):
        table.step()
    wanted, ds = table.rows(), lk.dataset(table.path)
    for text in (None, "id > 20"):
        nearest = {"column": "vec", "q": [20.0, 20.0], "k": 6, "nprobes": 2}
        found = ds.to_table(nearest=nearest, filter=text, prefilter=True, include_mem_wal=True)
        rows = [row for row in wanted.values() if text is None or row["id"] > 20]
        far = sorted((row["vec"][0] - 20) ** 2 + (row["vec"][1] - 20) ** 2 for row in rows)
        assert found["_distance"].to_pylist() == far[:6]


def test_a_filter_that_is_asked_late_leaves_no_row_out_of_the_search(tmp_path: Path) -> None:
    vectors = pa.array([[float(n), 0.0] for n in range(4)], pa.list_(pa.float32(), 2))
    rows = pa.table({"id": range(4), "vec": vectors})
    ds = lk.write_dataset(rows, tmp_path / "d", primary_key="id")
    ds.initialize_mem_wal(unsharded=True)
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(pa.table({"id": [7], "vec": vectors.slice(0, 1)}))
    nearest = {"column": "vec", "q": [0.0, 0.0], "k": 3}
    for early, wanted in ((False, [0, 1]), (True, [0, 1, 2])):
        found = ds.to_table(
            ["id"], "id < 5", nearest=nearest, prefilter=early, include_mem_wal=True
        )
        assert found["id"].to_pylist() == wanted


def test_hidden_columns_are_of_the_tables_own_rows(table: ShardedTable) -> None:
    ds = lk.dataset(table.path)
    found = ds.to_table(with_row_id=True, with_row_address=True, include_mem_wal=True).to_pylist()
    own = {row["_rowaddr"]: row for row in ds.to_table(with_row_address=True).to_pylist()}
    inside = [row for row in found if row["_rowaddr"] is not None]
    assert 0 < len(inside) < len(found)
    assert [row | {"_rowid": 0} for row in inside] == [
        own[row["_rowaddr"]] | {"_rowid": 0} for row in inside
    ]
    assert all((row["_rowid"] is None) == (row["_rowaddr"] is None) for row in found)


def test_parts_that_have_no_key_that_is_wanted_are_not_looked_at(table: ShardedTable) -> None:
    ds = lk.dataset(table.path)
    of = newest_read_set(ds._location)
    schema = ds.schema
    assert parts_for(of, None).parts == parts_for(of, Predicate.parse("v = 1", schema)).parts
    for number in range(-1, 60):
        left = parts_for(of, Predicate.parse(f"id = {number} AND v > 0", schema)).parts
        ends = [part.keys.columns[0].to_pylist() for part in of.parts]
        may = [min(keys) <= number <= max(keys) for keys in ends]
        assert list(left) == [part for part, kept in zip(of.parts, may, strict=True) if kept]
        beside = [replace(part, table=None).range_of_keys() for part in of.parts]
        assert beside == [part.range_of_keys() for part in of.parts]


def test_without_a_key_rows_are_put_together(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2]})
    ds = with_shards(tmp_path / "d", rows, unsharded=True)
    for number in range(3):
        writer = ds.mem_wal_writer(SHARD, max_wal_flush_interval_ms=LEFT_OPEN_MS)
        writer.put(pa.table({"x": [number, number]}))
        if number < 2:
            writer.close()
    ours = lk.dataset(tmp_path / "d")
    assert ours.to_table(include_mem_wal=True)["x"].to_pylist() == [2, 2, 1, 1, 0, 0, 1, 2]
    assert ours.to_table(limit=3, offset=5, include_mem_wal=True)["x"].to_pylist() == [0, 1, 2]
    assert ours.count_rows(include_mem_wal=True) == 8


def test_what_rows_of_shards_cannot_answer_is_refused_by_name(table: ShardedTable) -> None:
    ds = lk.dataset(table.path)
    for given in ({"filter": "_rowid > 3"}, {"columns": {"a": "_rowaddr + 1"}}):
        with pytest.raises(InvalidArgumentError, match="which rows of shards do not have"):
            ds.to_table(include_mem_wal=True, **given)
    with pytest.raises(InvalidArgumentError, match="fragments and include_mem_wal"):
        ds.scanner(fragments=ds.get_fragments(), include_mem_wal=True)
    with pytest.raises(InvalidArgumentError, match="pinned to version 1"):
        ds.at(1).to_table(include_mem_wal=True)


def _blobs(*rows: tuple[int, bytes | None]) -> pa.Table:
    marked = {"lance-encoding:blob": "true"}
    fields = [pa.field("id", pa.int64(), False), pa.field("b", pa.large_binary(), metadata=marked)]
    return pa.Table.from_pylist([{"id": key, "b": value} for key, value in rows], pa.schema(fields))


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_of_shards_in_each_form(tmp_path: Path, version: str) -> None:
    rows = _blobs((1, b"one"), (2, b"two"), (5, b"five"))
    ds = lk.write_dataset(rows, tmp_path, primary_key="id", data_storage_version=version)
    ds.mem_wal_upsert(_blobs((2, b"TWO"), (3, b"three")), flush=True)
    ds.mem_wal_upsert(_blobs((4, None), (5, b"FIVE!")))
    wanted = {1: b"one", 2: b"TWO", 3: b"three", 4: None, 5: b"FIVE!"}
    described = ds.to_table(include_mem_wal=True)
    assert described.schema == ds.to_table().schema
    sizes = {row["id"]: row["b"] and row["b"]["size"] for row in described.to_pylist()}
    assert sizes == {key: value and len(value) for key, value in wanted.items()}
    assert ds.head(9, include_mem_wal=True).num_rows == 5
    assert ds.lsm_scanner().filter("b IS NOT NULL").count_rows() == 4
    seen = ds.to_table(include_mem_wal=True, blob_handling="all_binary")
    assert {row["id"]: row["b"] for row in seen.to_pylist()} == wanted
    # rows of shards have no address for users, by which blobs of other rows are found
    for addressed in (False, True):
        scanner = ds.scanner(include_mem_wal=True, with_row_address=addressed)
        frame = scanner.to_pandas(blob_mode="bytes")
        assert dict(zip(frame["id"], frame["b"], strict=True)) == wanted
        lazy = scanner.to_pandas()
        assert {k: b and b.readall() for k, b in zip(lazy["id"], lazy["b"], strict=True)} == wanted
