"""Comparisons beside structs whose fields take no nulls, and beside columns of another type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._pipeline.diff.fragments import can_be_retyped, retyped

_PART = pa.field("a", pa.int32(), nullable=False)
_STRICT = pa.struct([_PART])
_KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "struct": (_STRICT, {"a": 1}),
    "struct in a struct": (pa.struct([pa.field("s", _STRICT)]), {"s": {"a": 1}}),
    "list of structs": (pa.list_(_STRICT), [{"a": 1}]),
    "strict items": (pa.list_(pa.field("item", pa.int32(), nullable=False)), [1]),
}


@pytest.mark.parametrize("name", _KINDS)
def test_one_row_differs_beside_a_struct_whose_field_takes_no_nulls(
    tmp_path: Path, name: str
) -> None:
    kind, value = _KINDS[name]
    rows = {"id": [0, 1, 2], "g": [0, 1, 2], "c": pa.array([value] * 3, kind)}
    ds = lk.write_dataset(rows, str(tmp_path / "d"), primary_key="id")
    branch = ds.create_branch("b")
    branch.update({"g": "8"}, where="id = 1")
    ds.update({"g": "7"}, where="id = 0")
    diff = ds.diff(1)
    assert diff.counts.updated == 1
    assert diff.to_table()["c"].to_pylist() == [value, value]
    assert ds.changes(1).to_table()["c"].to_pylist() == [value, value]
    ds.branches.merge("b")
    assert ds.to_table(["g"], order_by=["id"])["g"].to_pylist() == [7, 8, 2]
    ds.revert(ds.version)
    assert sorted(ds.to_table()["g"].to_pylist()) == [1, 2, 7]
    assert ds.to_table()["c"].to_pylist() == [value] * 3


def test_structs_are_retyped_field_by_field() -> None:
    nothing = pa.StructArray.from_arrays(
        [pa.array([None, 1], pa.int32())],
        fields=[pa.field("a", pa.int32())],
        mask=pa.array([True, False]),
    )
    wide = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    assert retyped(nothing, wide).to_pylist() == [None, {"a": 1}]
    assert retyped(nothing.slice(1), wide).to_pylist() == [{"a": 1}]
    assert retyped(nothing, wide).type == wide
    assert can_be_retyped(_STRICT, _STRICT)
    assert can_be_retyped(pa.struct([("a", pa.int32())]), wide)
    assert not can_be_retyped(_STRICT, pa.int32())
    assert not can_be_retyped(_STRICT, pa.struct([("a", pa.struct([]))]))


def test_a_type_that_is_too_wide_for_memory_is_not_tried() -> None:
    wide = pa.list_(pa.float64(), 2**31 - 1)
    assert not can_be_retyped(wide, pa.list_(pa.float32(), 2**31 - 1))
    assert not can_be_retyped(pa.int64(), wide)
