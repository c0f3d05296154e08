"""Queries over tables and the rows that wait in their shards, whichever library wrote them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, PredicateError
from tests.support.shard_model import ShardedTable


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ShardedTable:
    made = ShardedTable(tmp_path_factory.mktemp("queries") / "d", Random(8))
    for _ in range(40):
        made.step()
    made.put()
    return made


@pytest.fixture
def ds(table: ShardedTable) -> lk.LanceDataset:
    return lk.dataset(table.path)


def answers(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return queries, and what each is over some rows."""
    high = [row for row in rows if (row["v"] or 0) > 5]
    least = sorted(row["id"] for row in rows)[:3]
    per_name = [(n, sum(r["name"] == n for r in rows)) for n in sorted({r["name"] for r in rows})]
    return {
        "SELECT count(*) AS n FROM t": [{"n": len(rows)}],
        "SELECT count(*) AS n FROM t WHERE v > 5": [{"n": len(high)}],
        "SELECT id FROM t ORDER BY id LIMIT 3": [{"id": key} for key in least],
        "SELECT name, count(*) AS n FROM t GROUP BY name ORDER BY name": [
            {"name": name, "n": n} for name, n in per_name
        ],
        "SELECT count(*) AS n FROM t a JOIN t b ON a.id = b.id WHERE a.v > 5": [{"n": len(high)}],
        "SELECT count(*) AS n FROM t WHERE id IN (SELECT id FROM t WHERE v > 5)": [
            {"n": len(high)}
        ],
    }


def check(table: ShardedTable, ds: lk.LanceDataset, engine: Any) -> None:
    of_base = ds.to_table().to_pylist()
    for rows, included in ((list(table.rows().values()), True), (of_base, False)):
        for text, wanted in answers(rows).items():
            with lk.options(engine=engine):
                found = lk.sql(text, t=ds, include_mem_wal=included)
            assert found.to_table().to_pylist() == wanted, (text, included)


def test_queries_see_the_newest_row_of_each_key(table: ShardedTable, ds: lk.LanceDataset) -> None:
    assert len(table.rows()) != ds.count_rows()
    check(table, ds, "local")


@pytest.mark.spark
def test_queries_on_spark_do_so_too(table: ShardedTable, ds: lk.LanceDataset, spark: Any) -> None:
    check(table, ds, "spark")


def test_a_builder_of_queries_does_so_too(table: ShardedTable, ds: lk.LanceDataset) -> None:
    text = "SELECT id FROM dataset WHERE v > 5 ORDER BY id"
    found = pa.Table.from_batches(ds.sql(text, include_mem_wal=True).build().to_batch_records())
    wanted = sorted(row["id"] for row in table.rows().values() if (row["v"] or 0) > 5)
    assert found["id"].to_pylist() == wanted
    assert ds.sql(text).build().to_stream_reader().read_all().num_rows != len(wanted)
    with pytest.raises(InvalidArgumentError, match="pinned to version 1"):
        ds.at(1).sql(text, include_mem_wal=True)


def test_the_card_says_which_rows_a_query_saw(ds: lk.LanceDataset) -> None:
    for text in ("SELECT id FROM t", "SELECT count(*) FROM t"):
        without = lk.sql(text, t=ds)
        assert f"not read: {without.reads[0].waiting.words} (include_mem_wal=True reads" in str(
            without
        )
        assert " rows of shards" in str(lk.sql(text, t=ds, include_mem_wal=True))
        assert "shard" not in str(lk.sql(text, t=ds.at(1)))


def test_chosen_tables_alone(table: ShardedTable, ds: lk.LanceDataset) -> None:
    text = "SELECT (SELECT count(*) FROM t) AS new, (SELECT count(*) FROM old VERSION AS OF 1) AS n"
    found = lk.sql(text, t=ds, old=ds, include_mem_wal=["t"]).to_table().to_pylist()
    assert found == [{"new": len(table.rows()), "n": ds.at(1).count_rows()}]
    frame = pa.table({"id": [1]})
    both = lk.sql("SELECT count(*) AS n FROM t, f", t=ds, f=frame, include_mem_wal=True)
    assert both.to_table().to_pylist() == [{"n": len(table.rows())}]


@pytest.mark.parametrize(
    ("text", "asked", "kind", "says"),
    [
        ("SELECT 1 FROM t", ["x"], InvalidArgumentError, "contains 'x'"),
        ("SELECT 1 FROM t VERSION AS OF 1", True, PredicateError, "VERSION|a version has no rows"),
        ("DELETE FROM t", True, PredicateError, "include_mem_wal is only for queries"),
        ("UPDATE t SET v = 1", ["t"], PredicateError, "include_mem_wal is only for queries"),
        ("SELECT 1 FROM t", 3, InvalidArgumentError, "include_mem_wal must be .* got 3"),
    ],
)
def test_what_is_refused(
    ds: lk.LanceDataset, text: str, asked: Any, kind: type[Exception], says: str
) -> None:
    before = ds.version
    with pytest.raises(kind, match=says):
        lk.sql(text, t=ds, include_mem_wal=asked)
    assert lk.dataset(ds.uri).version == before


def test_a_pinned_handle_has_no_rows_of_shards(ds: lk.LanceDataset) -> None:
    with pytest.raises(InvalidArgumentError, match="pinned to version 1"):
        lk.sql("SELECT id FROM t", t=ds.at(1), include_mem_wal=True)


def test_relations_of_a_statement_read_the_same_rows(tmp_path: Path) -> None:
    """A put between two scans of one statement must not come up in one of them alone."""
    made = lk.write_dataset({"id": [1]}, tmp_path / "t", primary_key="id")
    made.mem_wal_upsert({"id": [2]})
    text = "SELECT count(*) AS n FROM t a JOIN t b ON a.id = b.id"
    found = lk.sql(text, t=made, include_mem_wal=True)
    assert found.to_table().to_pylist() == [{"n": 2}]
    assert [part.from_shards for part in found.reads] == [1, 1]
    clone = lk.dataset(made.uri)  # another handle of the same table
    mixed = lk.sql(
        "SELECT count(*) AS n FROM t JOIN u ON t.id = u.id", t=made, u=clone, include_mem_wal=True
    )
    assert mixed.to_table().to_pylist() == [{"n": 2}]
