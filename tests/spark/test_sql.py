"""``ds.sql(...).build().to_spark()``."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._spark.frames.sql import _with_table
from lancekit.errors import PredicateError

QUERIES = [
    "SELECT id FROM dataset WHERE v = 'b'",
    "select count(*) as n, sum(id) as s from dataset",
    "SELECT count(1) AS n FROM dataset",
    "WITH big AS (SELECT id FROM dataset WHERE id > 1) SELECT id FROM big ORDER BY id DESC",
    "-- a note\n/* and\nanother */ select id from dataset order by id limit 2",
    "SELECT a.id FROM dataset a JOIN dataset b ON a.id = b.id + 1 ORDER BY a.id",
    "SELECT v, '{x}' AS braces FROM dataset ORDER BY v",
    "SELECT id FROM dataset a NATURAL JOIN dataset b ORDER BY id",
    "SELECT id FROM dataset UNION ALL SELECT id + 10 FROM dataset ORDER BY id",
    "SELECT ID, V FROM DATASET ORDER BY ID",
]


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    rows = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"], "unused": [0, 0, 0]})
    return lk.write_dataset(rows, tmp_path_factory.mktemp("sql") / "d")


@pytest.mark.spark
@pytest.mark.parametrize("sql", QUERIES)
def test_spark_and_datafusion_agree(spark, ds, sql):
    ours = ds.sql(sql).build()
    table = pa.Table.from_batches(ours.to_batch_records())
    got = ours.to_spark().toArrow()
    assert [n.lower() for n in got.column_names] == [n.lower() for n in table.column_names]
    assert [[*row.values()] for row in got.to_pylist()] == [
        [*row.values()] for row in table.to_pylist()
    ]


@pytest.mark.spark
def test_only_the_columns_named_are_read(spark, ds, capsys):
    frame = ds.sql("select v from dataset where id > 1").build().to_spark()
    frame.explain(extended=True)
    plan = capsys.readouterr().out
    assert "Analyzed Logical Plan" in plan
    assert "unused" not in plan
    with pytest.raises(Exception, match="unused"):
        ds.sql("select other from dataset where 1 = unused").build().to_spark().collect()


@pytest.mark.spark
def test_two_versions_and_other_names(spark, tmp_path):
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d")
    first = ds.sql("select count(*) n, max(_rowid) m from `the table`")
    old = first.table_name("the table").with_row_id().build().to_spark()
    ds.insert({"id": [2]})
    new = ds.sql("select count(*) n, max(_rowid) m from t").table_name("t").with_row_id().build()
    assert [row.n for row in old.union(new.to_spark()).collect()] == [1, 2]
    assert not spark.catalog.tableExists("t")


def test_the_text():
    table = _with_table("with recursive a as (select 1) select {1}", "d`x", "{p}")
    assert table == ("with recursive `d``x` as (select * from {p}), a as (select 1) select {{1}}")
    assert _with_table("select 1", "d", "{p}") == "with `d` as (select * from {p}) select 1"
    assert _with_table("withered", "d", "{p}") == "with `d` as (select * from {p}) withered"


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ('select "q""t" from dataset', ['q"t']),
        ("select ID from dataset", ["id"]),
        ("select * from dataset", ["id", 'q"t', "other"]),
        ("describe dataset", ["id", 'q"t', "other"]),
        ("select 1 from dataset d natural join dataset x", ["id", 'q"t', "other"]),
    ],
)
def test_columns_that_a_query_may_read(tmp_path, sql, columns):
    ds = lk.write_dataset({"id": [1], 'q"t': [1], "other": [1]}, tmp_path / "d")
    assert ds.sql(sql).build()._columns(ds._snapshot) == columns


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT nope FROM dataset", "`nope` cannot be resolved"),
        ("SELEC id FROM dataset", "Syntax error"),
        ("SELECT id FROM other", "`other` cannot be found"),
    ],
)
def test_a_query_that_spark_cannot_read(spark, ds, sql, said):
    with pytest.raises(PredicateError) as caught:
        ds.sql(sql).build().to_spark()
    assert said in str(caught.value)
    assert sql in str(caught.value)
    assert "_pyspark_" not in str(caught.value)
    assert "pos " not in str(caught.value)
