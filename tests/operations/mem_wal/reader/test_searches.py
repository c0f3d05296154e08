"""Searches of a table and its shards: for words and for vectors, with and without indices."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api.planned_scan import planned
from lancekit._arguments.scan import ScanArguments
from lancekit._operations.mem_wal.reader.merge_on_read import merged_scan
from lancekit._operations.mem_wal.reader.newest import IsNewest
from lancekit._operations.mem_wal.reader.sources import newest_read_set
from lancekit._scan.search.text_column import TextColumn
from tests.support.shard_model import Row, ShardedTable
from tests.support.shards import SHARD, keyed


def words(row: Row) -> list[str]:
    return (row["text"] or "").split()


def found(table: ShardedTable, query: Any, **more: Any) -> list[tuple[Any, float]]:
    """Return keys and scores of what a search finds."""
    ds = lk.dataset(str(table.path))
    rows = ds.to_table(full_text_query=query, include_mem_wal=True, **more).to_pylist()
    wanted = table.rows()
    for row in rows:
        assert {**row, "_score": None} == {**wanted[table.key(row)], "_score": None}
    scores = [row["_score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    return [(table.key(row), row["_score"]) for row in rows]


def check_words(table: ShardedTable) -> None:
    wanted, low = table.rows(), table.random.randrange(50)
    for word in ("snow", "frost"):
        asked = {"query": word, "columns": ["text"]}
        every = found(table, asked)
        keys = {key for key, row in wanted.items() if word in words(row)}
        assert sorted(key for key, _ in every) == sorted(keys)
        assert [score for _, score in found(table, asked, limit=4)] == [s for _, s in every[:4]]
        early = found(table, asked, filter=f"id >= {low}", prefilter=True, limit=5)
        few = [score for key, score in every if wanted[key]["id"] >= low][:5]
        assert len(early) == len(few)
        assert all(wanted[key]["id"] >= low for key, _ in early)
        late = found(table, asked, filter=f"id >= {low}")
        assert {key for key, _ in late} == {key for key in keys if wanted[key]["id"] >= low}
    both = lk.query.BooleanQuery(
        [
            (lk.query.Occur.MUST, lk.query.MatchQuery("rain", "text")),
            (lk.query.Occur.MUST_NOT, lk.query.MatchQuery("snow", "text")),
        ]
    )
    keys = {key for key, row in wanted.items() if {"rain", "snow"} & {*words(row)} == {"rain"}}
    assert {key for key, _ in found(table, both)} == keys


def check_vectors(table: ShardedTable) -> None:
    ds, wanted, random = lk.dataset(str(table.path)), table.rows(), table.random
    query = np.array([random.randrange(60), random.randrange(50)], np.float32)
    nearest = {"column": "vec", "q": query, "k": 5, "minimum_nprobes": 2}
    low = random.randrange(60)
    near = ds.to_table(nearest=nearest, include_mem_wal=True)
    far = {key: float(((np.array(row["vec"]) - query) ** 2).sum()) for key, row in wanted.items()}
    assert near["_distance"].to_pylist() == sorted(far.values())[:5]
    some = {"filter": f"v < {low / 4}", "prefilter": True}
    near = ds.to_table(nearest=nearest, include_mem_wal=True, **some)
    values = {key: row["v"] for key, row in wanted.items() if row["v"] is not None}
    chosen = [far[key] for key, value in values.items() if value < low / 4]
    assert near["_distance"].to_pylist() == sorted(chosen)[:5]


@pytest.mark.torture
@pytest.mark.parametrize(
    ("seed", "pairs", "indexed"),
    [(1, False, True), (2, True, True), (3, False, True), (4, False, False)],
)
def test_random_changes_are_searched_as_a_plain_model_says(
    tmp_path: Path, seed: int, pairs: bool, indexed: bool, whole: Any
) -> None:
    table = ShardedTable(
        tmp_path / "d", Random(seed), pairs=pairs, stable_row_ids=seed == 3, indexed=indexed
    )
    for number in range(400 if whole else 8):
        table.step()
        if number % 8 == 7:
            check_words(table)
            check_vectors(table)


SCHEMA = keyed(pa.schema({"id": pa.int64(), "text": pa.string(), "v": pa.int32()}), "id")


def texts(by_id: dict[int, str | None]) -> pa.Table:
    return pa.table([[*by_id], [*by_id.values()], [*by_id]], schema=SCHEMA)


def table_of_texts(path: Path, **initial: Any) -> lk.LanceDataset:
    rows = texts({1: "snow rain", 2: "snow", 3: "sun", 4: "rain rain snow"})
    ds = lk.write_dataset(rows, path)
    ds.create_scalar_index("text", "INVERTED")
    ds.create_scalar_index("v", "BTREE")
    ds.insert(texts({5: "snow snow", 6: "frost"}))
    ds.initialize_mem_wal(**initial)
    return ds


def put(ds: lk.LanceDataset, rows: dict[int, str | None], *gone: int) -> None:
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(texts(rows))
        if gone:
            writer.delete({"id": list(gone)})


def test_scores_are_those_that_rows_have_after_a_merge(tmp_path: Path) -> None:
    ds = table_of_texts(tmp_path / "d", maintained_indexes=[])
    put(ds, {2: "sun and snow", 5: None, 7: "snow"}, 1)
    writer = ds.mem_wal_writer(SHARD)
    writer.put(texts({8: "much snow and rain", 7: "rain snow snow"}))  # in the log alone
    queries = ["snow", "rain snow", lk.query.MatchQuery("sno", "text", fuzziness=1)]

    def answers(**more: Any) -> list[dict[int, float]]:
        found = [ds.to_table(full_text_query=query, **more) for query in queries]
        return [{row["id"]: row["_score"] for row in rows.to_pylist()} for rows in found]

    before = answers(include_mem_wal=True)
    assert before[0].keys() == {2, 4, 7, 8}
    writer.close()
    ds.merge_mem_wal()
    assert before == answers()


def test_indices_of_generations_are_asked(tmp_path: Path) -> None:
    ds = table_of_texts(tmp_path / "d")
    put(ds, {2: "sun and snow", 5: None, 7: "frost", 9: "frost"}, 6)
    put(ds, {7: "snow"})
    of = newest_read_set(ds._snapshot.location)
    scan = merged_scan(planned(of.base, ScanArguments(filter="v = 7")), of)
    assert scan.read.num_rows == 4  # two of shards, two that no index has
    assert scan.to_table()["text"].to_pylist() == ["snow"]
    asked = ScanArguments(full_text_query={"query": "frost"})
    scan = merged_scan(planned(of.base, asked), of)
    column = TextColumn(of.base, "text", tuple(scan.sources), ("frost",), tables=scan.read.tables)
    assert len(column._table_segments) == 2
    assert {source.fragment.id for source in column._uncovered} == {1}
    assert ds.to_table(full_text_query="frost", include_mem_wal=True)["id"].to_pylist() == [9]
    for file in (tmp_path / "d" / "_mem_wal" / SHARD).glob("*/_indices/*/*.lance"):
        file.unlink()  # rows are found without
    with pytest.warns(UserWarning, match="text_idx.*is not used"):
        found = ds.to_table(full_text_query="frost", include_mem_wal=True)
    assert found["id"].to_pylist() == [9]
    with pytest.warns(UserWarning, match="v_idx.*is not used"):
        found = ds.to_table(filter="v = 7", include_mem_wal=True)
    assert found["text"].to_pylist() == ["snow"]


def test_an_index_with_other_words_is_not_asked(tmp_path: Path) -> None:
    ds = table_of_texts(tmp_path / "d")
    put(ds, {7: "The Snow"})
    as_written = {"lower_case": False, "stem": False, "remove_stop_words": False}
    ds.create_scalar_index("text", "INVERTED", **as_written)
    for word in ("Snow", "The"):
        found = ds.to_table(full_text_query=word, include_mem_wal=True)
        assert found["id"].to_pylist() == [7]


def test_phrases_and_several_columns(tmp_path: Path) -> None:
    ds = lk.write_dataset(texts({1: "late snow", 2: "snow"}), tmp_path / "d")
    ds.create_scalar_index("text", "INVERTED", with_position=True)
    ds.initialize_mem_wal()
    put(ds, {1: "snow late", 3: "late snow falls"})
    query = lk.query.PhraseQuery("late snow", "text")
    found = ds.to_table(full_text_query=query, include_mem_wal=True)
    assert found["id"].to_pylist() == [3]
    several = lk.query.MultiMatchQuery("late", ["text"])
    found = ds.to_table(full_text_query=several, include_mem_wal=True)
    assert sorted(found["id"].to_pylist()) == [1, 3]


def test_many_rows_that_newer_ones_replace_leave_no_better_one_out(tmp_path: Path) -> None:
    ds = lk.write_dataset(texts(dict.fromkeys(range(200), "snow")), tmp_path / "d")
    ds.create_scalar_index("text", "INVERTED")
    ds.initialize_mem_wal()
    put(ds, dict.fromkeys(range(190), "a long text about rain and snow"))
    found = ds.to_table(full_text_query="snow", limit=10, include_mem_wal=True)
    assert sorted(found["id"].to_pylist()) == [*range(190, 200)]


@pytest.mark.parametrize("kind", [None, "IVF_FLAT", "IVF_SQ"])
def test_newer_rows_are_looked_for_only_of_those_that_would_be_the_nearest(
    tmp_path: Path, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = keyed(
        pa.schema({"id": pa.int64(), "vec": pa.list_(pa.float32(), 2), "v": pa.int32()}), "id"
    )

    def rows(ids: range, shift: float) -> pa.Table:
        vectors = [[number + shift, 0.0] for number in ids]
        return pa.table([[*ids], vectors, [n % 7 for n in ids]], schema=schema)

    ds = lk.write_dataset(rows(range(4000), 0), tmp_path / "d", max_rows_per_file=1500)
    if kind is not None:
        ds.create_index("vec", kind, num_partitions=4)
    ds.initialize_mem_wal(unsharded=True)
    with ds.mem_wal_writer(SHARD) as writer:  # of the nearest rows most are elsewhere now
        writer.put(rows(range(100, 140), 9000))
    asked: list[int] = []
    tell = IsNewest.__call__

    def counted(self: IsNewest, *columns: Any) -> Any:
        asked.append(len(columns[0]))
        return tell(self, *columns)

    monkeypatch.setattr(IsNewest, "__call__", counted)
    nearest = {"column": "vec", "q": [120.0, 0.0], "k": 12, "minimum_nprobes": 4}
    most = {"refine_factor": 20} if kind == "IVF_SQ" else {}
    found = ds.to_table(["id"], nearest=nearest | most, include_mem_wal=True)
    expected = [99, 140, 141, 98, 97, 142, 96, 143, 144, 95, 94, 145]
    distances = [(number - 120) ** 2 for number in expected]
    assert found["_distance"].to_pylist() == sorted(distances)
    assert sorted(found["id"].to_pylist()) == sorted(expected)
    few = ds.to_table(["id"], "v = 3", nearest=nearest | most, prefilter=True, include_mem_wal=True)
    with_three = [number for number in (*range(100), *range(140, 4000)) if number % 7 == 3]
    by_distance = sorted((number - 120) ** 2 for number in with_three)
    assert few["_distance"].to_pylist() == by_distance[:12]
    assert sum(asked) < 4000
