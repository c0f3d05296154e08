"""What Spark's tasks write to other base paths: each starts with another of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk

pytestmark = pytest.mark.spark


def test_tasks_take_turns(spark: Any, tmp_path: Path) -> None:
    bases = []
    for name in ("p", "q"):
        (tmp_path / name).mkdir()
        bases.append(lk.DatasetBasePath(str(tmp_path / name), name))
    uri = str(tmp_path / "t")
    frame = spark.range(20, numPartitions=2)
    with lk.options(target_file_bytes=0):  # small files would be joined
        lk.write_dataset(frame, uri, initial_bases=bases, target_bases=["p", "q"])
    ds = lk.dataset(uri)
    assert [f.metadata.files[0].base_id for f in ds.get_fragments()] == [1, 2]
    source = spark.range(15, 35, numPartitions=2)
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert merge.target_bases(["q"]).execute(source)["num_inserted_rows"] == 15
    new = {f.metadata.files[0].base_id for f in ds.get_fragments() if f.fragment_id > 1}
    assert new == {2}
    rows = lance.dataset(uri).to_table().sort_by("id")
    assert rows == pa.table({"id": range(35)}, schema=rows.schema)
