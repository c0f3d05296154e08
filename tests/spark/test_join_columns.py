"""Columns of other rows, found by a key: Spark makes of them what this process makes."""

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    ColumnNotFoundError,
    DuplicateKeysError,
    InvalidArgumentError,
    InvalidTypeError,
    SchemaMismatchError,
)

pytestmark = pytest.mark.spark

ROWS = 1000


def dataset(path, **options):
    rows = pa.table(
        {
            "id": pa.array(np.random.default_rng(1).permutation(ROWS)),
            "name": [f"n{i}" if i % 10 else None for i in range(ROWS)],
        }
    )
    ds = lk.write_dataset(rows, path, max_rows_per_file=150, **options)
    ds.delete("id % 50 = 0")
    return ds


def others(keys, start=0):
    keys = np.asarray(keys, np.int64)
    return pa.table(
        {
            "id": keys,
            "score": pa.array(keys * 0.5, mask=keys % 3 == 0),
            "tags": [[f"t{k}", None] if k % 2 else None for k in keys.tolist()],
            "point": [{"x": k, "y": str(k)} for k in keys.tolist()],
        }
    )


def shown(ds):
    names = [*ds.schema.names, "_rowid", "_row_last_updated_at_version"]
    return ds.to_table(columns=names).sort_by("_rowid")


@pytest.mark.parametrize("stable", [False, True])
def test_a_frame_is_joined_as_a_table_is(spark, tmp_path, stable):
    keys = np.random.default_rng(2).choice(2 * ROWS, ROWS // 2, replace=False)
    table = others(keys)
    made = {}
    for name in ("arrow", "frame", "arrow on spark"):
        ds = dataset(tmp_path / name, enable_stable_row_ids=stable)
        if name == "frame":
            ds.add_columns(spark.createDataFrame(table), on="id")
        else:
            with lk.options(engine="spark" if "spark" in name else "auto"):
                ds.merge(table, "id")
        ds.validate(deep=True)
        assert ds.version == 3
        made[name] = shown(ds)
    assert made["arrow"]["score"].null_count > ROWS // 2
    assert made["frame"].equals(made["arrow"])
    assert made["arrow on spark"].equals(made["arrow"])


def test_keys_of_other_names_and_row_ids(spark, tmp_path):
    table = pa.table({"who": ["n7", "n8", None], "v": [1, 2, 3]})
    ds = dataset(tmp_path / "t")
    ds.merge(spark.createDataFrame(table), "name", "who")
    assert sorted(ds.to_table(filter="v is not null")["name"].to_pylist()) == ["n7", "n8"]
    ids = ds.to_table(columns=["_rowid"])["_rowid"].cast(pa.int64())
    ds.merge(spark.createDataFrame(pa.table({"r": ids, "w": ids})), "_rowid", "r")
    found = ds.to_table(columns=["w", "_rowid"])
    assert found["w"].to_pylist() == found["_rowid"].to_pylist()


def test_a_fragment_without_a_match_gets_no_file(spark, tmp_path):
    ds = dataset(tmp_path / "t")
    first = ds.get_fragments()[0].to_table()["id"][:5].to_pylist()
    ds.merge(spark.createDataFrame(others(first)), "id")
    assert [len(f.data_files()) for f in ds.get_fragments()] == [2] + [1] * 6
    assert ds.count_rows("point is not null") == 5
    ds.merge(spark.createDataFrame(pa.table({"id": [-1], "none": [1]})), "id")
    assert ds.count_rows("none is not null") == 0


def test_what_cannot_be_joined_leaves_nothing(spark, tmp_path):
    ds = dataset(tmp_path / "t")
    files = sorted((tmp_path / "t" / "data").iterdir())
    key = ds.to_table()["id"][700].as_py()
    twice = spark.createDataFrame(others([key, 5, 6, key]))
    with pytest.raises(DuplicateKeysError, match=f"id = {key}"):
        ds.merge(twice, "id")
    for frame, error in [
        (pa.table({"other": [1]}), ColumnNotFoundError),
        (pa.table({"id": [1], "name": ["x"]}), InvalidArgumentError),
        (pa.table({"id": ["x"], "v": [1]}), SchemaMismatchError),
    ]:
        with pytest.raises(error):
            ds.add_columns(spark.createDataFrame(frame), on="id")
    with pytest.raises(InvalidTypeError, match="no order"):
        ds.add_columns(spark.createDataFrame(pa.table({"v": [1]})))
    assert ds.version == 2
    assert sorted((tmp_path / "t" / "data").iterdir()) == files


def test_the_last_of_several_rows_counts_where_there_is_one(spark, tmp_path):
    table = pa.table({"id": [7, 8, 7, 7], "v": [1, 2, 3, 4]})
    for engine in ("local", "spark"):
        ds = dataset(tmp_path / engine)
        with lk.options(engine=engine):
            ds.merge(table, "id")
        found = ds.to_table(filter="v is not null").select(["id", "v"]).sort_by("id")
        assert found.to_pydict() == {"id": [7, 8], "v": [4, 2]}
