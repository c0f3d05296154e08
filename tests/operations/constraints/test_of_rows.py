"""Rows that are put into shards are held against the table's constraints."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit._operations.checks.constraints import PREFIX
from lancekit.errors import ConstraintViolationError, UnsupportedFeatureError
from tests.support.shards import SHARD


def test_rows_that_break_a_constraint_are_not_put(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "x": [1.0]}, tmp_path, primary_key="id")
    ds.constraints.add("small", "x < 10")
    ds.constraints.add("tidy", "x > 0", on_fail="warn")
    ds.constraints.add("few", "count(*) < 3")
    ds.initialize_mem_wal(unsharded=True)
    with ds.mem_wal_writer(SHARD) as writer:
        with pytest.raises(ConstraintViolationError, match="1 row breaks 'small'") as caught:
            writer.put({"id": [2, 3], "x": [5.0, 50.0]})
        assert caught.value.context["sample"] == [{"id": 3, "x": 50.0}]
        writer.put({"id": [2, 3, 4], "x": [5.0, None, -1.0]})
        writer.delete({"id": [1]})
    with pytest.raises(ConstraintViolationError, match="small"):
        ds.mem_wal_upsert({"id": [7], "x": [11.0]})
    assert sorted(ds.to_table(include_mem_wal=True)["id"].to_pylist()) == [2, 3, 4]


def test_one_that_cannot_be_read_lets_nothing_in(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path, primary_key="id")
    ds.initialize_mem_wal()
    lance.dataset(str(tmp_path)).update_config({f"{PREFIX}new": '{"version": 9}'})
    with pytest.raises(UnsupportedFeatureError, match="has version 9"):
        ds.mem_wal_writer(SHARD)
