"""``spark.read.format("lance")``."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lancekit as lk
from lancekit._spark.datasource.datasource import LanceDataSource
from lancekit.errors import (
    BranchNotFoundError,
    ColumnNotFoundError,
    InvalidArgumentError,
    PredicateError,
    TagNotFoundError,
    VersionNotFoundError,
)
from lancekit.spark import register
from tests.spark.test_types import ROWS


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    """Versions 1 to 3 of main, a tag on 2, a branch from 2 with one row more."""
    ds = lk.write_dataset(
        pa.table({"id": range(10), "x": [n / 2 for n in range(10)], "a,b": ["s"] * 10}),
        tmp_path_factory.mktemp("source") / "d",
        max_rows_per_file=4,
    )
    ds.delete("id = 0")
    ds.tags.create("jan", 2)
    branch = ds.create_branch("side", 2)
    branch.insert(pa.table({"id": [100], "x": [0.0], "a,b": ["t"]}))
    ds.delete("id = 1")
    return ds


def plan(ds, **options):
    """What the options mean, without a session: Spark passes them on as they are."""
    return LanceDataSource({"path": ds.uri, **options})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"version": "1"}, [*range(10)]),
        ({"versionAsOf": "1"}, [*range(10)]),  # Delta's names
        ({"tag": "jan"}, [*range(1, 10)]),
        ({"branch": "side"}, [*range(1, 10), 100]),
        ({"branch": "side", "version": "2"}, [*range(1, 10)]),
        ({"branch": "main"}, [*range(2, 10)]),
        ({"filter": "id < 4 AND x >= 1"}, [2, 3]),
        ({"filter": "id < 0"}, []),
    ],
    ids=str,
)
def test_options(ds, options, expected):
    assert plan(ds, **options)._planned().to_table()["id"].to_pylist() == expected


def test_as_of_a_moment(ds):
    moment = ds.versions()[1]["timestamp"].astimezone()
    rows = plan(ds, asof=moment.isoformat())._planned().to_table()
    assert rows["id"].to_pylist() == [*range(1, 10)]


def test_columns(ds):
    assert plan(ds, columns="x, id").schema().names == ["x", "id"]
    listed = plan(ds, columns=json.dumps(["a,b", "_rowid"])).schema()
    assert listed.simpleString() == "struct<a,b:string,_rowid:bigint>"


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"version": "7"}, VersionNotFoundError, "7"),
        ({"version": "jan"}, InvalidArgumentError, "The version must be a number, got 'jan'"),
        ({"tag": "feb"}, TagNotFoundError, "feb"),
        ({"branch": "nope"}, BranchNotFoundError, "nope"),
        (
            {"tag": "jan", "version": "1"},
            InvalidArgumentError,
            "version and tag exclude each other",
        ),
        (
            {"tag": "jan", "branch": "side"},
            InvalidArgumentError,
            "tag and branch exclude each other",
        ),
        ({"asof": "yesterday"}, InvalidArgumentError, "asof='yesterday' is not a time"),
        ({"asof": "2024-01-01"}, InvalidArgumentError, "has no time zone"),
        ({"timestampAsOf": "2024-01-01"}, InvalidArgumentError, "asof='2024-01-01' has no time"),
        ({"columns": "nope"}, ColumnNotFoundError, "nope"),
        ({"columns": "[1"}, InvalidArgumentError, "must be a JSON list"),
        ({"filter": "id >"}, PredicateError, "id >"),
        ({"mode": "x"}, InvalidArgumentError, "has no option 'mode'"),
        ({"path": "memory://x"}, InvalidArgumentError, "in the memory of one process"),
        ({"path": ""}, InvalidArgumentError, "The dataset is missing"),
        (
            {"batch_size": "0"},
            InvalidArgumentError,
            "batch_size must be an integer of 1 or more, got '0'",
        ),
        ({"with_row_id": "yes"}, InvalidArgumentError, 'must be "true" or "false"'),
        (
            {"trusted_bases": "s3://x"},
            InvalidArgumentError,
            "trusted_bases must be a JSON list, got 's3://x'",
        ),
        ({"startingVersion": "1"}, InvalidArgumentError, "not for a read"),
    ],
    ids=str,
)
def test_bad_options_are_named(ds, options, kind, said):
    with pytest.raises(kind, match=re.escape(said)):
        plan(ds, **options).reader(plan(ds, **options).schema())


# ---- through Spark


def load(spark, ds, **options):
    return spark.read.format("lance").options(**options).load(ds.uri)


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


@pytest.mark.spark
def test_rows(spark, ds):
    frame = load(spark, ds, tag="jan", columns="x,id", filter="id > 3")
    expected = ds.checkout_version("jan").to_table(["x", "id"], "id > 3")
    assert frame.toArrow().to_pylist() == expected.to_pylist()


@pytest.mark.classic  # over Connect it is looked up at each use
@pytest.mark.spark
def test_it_stays_at_its_version(spark, tmp_path):
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d")
    frame = load(spark, ds)
    ds.insert({"id": [2]})
    assert ids(frame) == [1]
    assert ids(load(spark, ds)) == [1, 2]


@pytest.mark.spark
def test_filters_of_one_query_do_not_stay_for_the_next(spark, ds):
    frame = load(spark, ds)
    assert frame.filter("id > 8").count() == 1
    assert frame.count() == 8
    assert frame.filter("id = 2").union(frame.filter("id = 3")).count() == 2


@pytest.mark.spark
def test_sql_over_a_view(spark, ds):
    load(spark, ds, tag="jan").createOrReplaceTempView("january")
    rows = spark.sql("select id from january where x > 4 order by id").collect()
    assert [row.id for row in rows] == [9]
    rows = spark.sql("select count(*) n from january a join january b using (id)").collect()
    assert rows[0].n == 9


@pytest.mark.spark
def test_every_type(spark, tmp_path):
    ds = lk.write_dataset(pa.table({name: ROWS[name][0] for name in ROWS}), tmp_path / "d")
    assert load(spark, ds).toArrow().equals(ds.to_spark().toArrow())


@pytest.mark.spark
def test_no_rows(spark, tmp_path):
    ds = lk.write_dataset(pa.table({"id": pa.array([], pa.int8())}), tmp_path / "d")
    assert load(spark, ds).count() == 0


@pytest.mark.classic  # over Connect it is looked up at each use
@pytest.mark.spark
def test_a_bad_option_is_named_by_spark_too(spark, ds):
    with pytest.raises(AnalysisException, match="TagNotFoundError: "):
        load(spark, ds, tag="feb")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "nowhere"}, "DatasetNotFoundError: Dataset at path "),
        ({"versio": "3"}, "InvalidArgumentError: format(\"lance\") has no option 'versio'."),
        ({"columns": "nope"}, "ColumnNotFoundError: Column 'nope' does not exist."),
        ({"filter": "nope > 3"}, "PredicateError: there is no column 'nope'."),
    ],
)
def test_errors_by_spark_are_short(spark, ds, options, said):
    """No frame of our own modules stands before the reason but the one that raises it."""
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("lance").options(**{"path": ds.uri, **options}).load().collect()
    text = str(caught.value).partition("\n\nJVM stacktrace:")[0]
    assert f"\nlancekit.errors.{said}" in text
    assert text.count('File "') == 1
    assert len(text.splitlines()) <= 8, text


@pytest.mark.spark
def test_a_schema_chooses_columns(spark, ds):
    frame = spark.read.format("lance").schema("x double, id long").load(ds.uri)
    assert frame.toArrow().to_pylist() == ds.to_table(["x", "id"]).to_pylist()
    with pytest.raises(Exception, match="Leave schema"):
        spark.read.format("lance").schema("id string").load(ds.uri).count()


@pytest.mark.spark
def test_hidden_columns_and_batches(spark, ds):
    frame = load(spark, ds, with_row_id="true", with_row_address="TRUE", batchSize="3")
    assert frame.columns == ["id", "x", "a,b", "_rowid", "_rowaddr"]
    expected = ds.to_table(with_row_id=True, with_row_address=True)
    assert frame.toArrow().to_pylist() == expected.to_pylist()


def test_row_ids_leave_fragments_out(ds):
    sources = plan(ds, filter=f"_rowid = {1 << 32}")._planned().sources
    assert [source.fragment.id for source in sources] == [1]


@pytest.mark.spark
def test_trust_is_an_option(spark, s3, tmp_path):
    """The processes of a data source do not see ``lk.options`` of this one."""
    settings = s3.storage_options
    bucket = f"s3://{s3.bucket}/trusted"
    far = lk.write_dataset({"id": [1, 2]}, f"{bucket}/far", storage_options=settings)
    with lk.options(trusted_bases=(bucket,)):
        far.shallow_clone(str(tmp_path / "near"), 1)
    near = spark.read.format("lance")
    with pytest.raises(AnalysisException, match="UntrustedBaseError"):
        near.load(str(tmp_path / "near")).schema  # noqa: B018  # over Connect it is asked for now
    trusting = near.option("trusted_bases", json.dumps([bucket]))
    assert trusting.load(str(tmp_path / "near")).columns == ["id"]


@pytest.mark.spark
def test_registering_twice(spark, ds):
    register(spark)
    register(spark)
    assert load(spark, ds).count() == 8
