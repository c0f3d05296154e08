"""Updates, new columns and compaction on Spark: the same versions as in this process."""

import pyarrow as pa
import pytest

import lancekit as lk

pytestmark = pytest.mark.spark

CHANGES = {
    "update": lambda ds: ds.update({"v": "v * 2", "name": "'x'"}, where="id % 7 = 0"),
    "sql column": lambda ds: ds.add_columns({"double": "id * 2"}),
    "cast": lambda ds: ds.alter_columns({"path": "v", "data_type": pa.int64()}),
    "compact": lambda ds: ds.optimize.compact_files(target_rows_per_fragment=500),
}


def rows():
    number = range(1000)
    return pa.table(
        {
            "id": pa.array(number, pa.int64()),
            "v": pa.array((i % 13 for i in number), pa.int32()),
            "name": [f"row {i}" for i in number],
        }
    )


@pytest.mark.parametrize("change", CHANGES)
def test_spark_makes_the_same_version(spark, tmp_path, change):
    made = {}
    for engine in ("local", "spark"):
        ds = lk.write_dataset(
            rows(), tmp_path / engine, max_rows_per_file=250, enable_stable_row_ids=True
        )
        ds.delete("id < 100")
        with lk.options(engine=engine):
            result = CHANGES[change](ds)
        assert getattr(result, "engine", engine) == engine
        names = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        made[engine] = ds.to_table(columns=[*ds.schema.names, *names])
    assert made["local"].sort_by("_rowid") == made["spark"].sort_by("_rowid")
    assert made["local"].num_rows == 900
