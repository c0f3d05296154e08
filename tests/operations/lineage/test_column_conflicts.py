"""Structs whose parts one side changed, and casts of lists, in merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import SchemaMismatchError
from tests.operations.lineage.test_column_metadata import structs


def test_a_struct_of_which_no_part_is_left_is_refused_before_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = structs(tmp_path / "t", key="id")
    exp = ds.create_branch("exp")
    ds.drop_columns(["s.x"])
    exp.drop_columns(["s.y"])
    exp.update({"n": "9"}, where="id = 1")
    version = ds.version
    from lancekit.operations.lineage import three_way

    def read(*_: Any) -> None:
        pytest.fail("rows were read")

    with monkeypatch.context() as patched:
        patched.setattr(three_way, "find_changes", read)
        with pytest.raises(SchemaMismatchError, match="column 's' was") as raised:
            ds.branches.merge("exp")
    (conflict,) = raised.value.context["conflicts"]
    assert (conflict.ours, conflict.theirs) == (
        "given the type struct<y: string>",
        "given the type struct<x: int32>",
    )
    assert ds.latest_version == version
    # the way out that the hint names: the same change on the other side
    exp.drop_columns(["s"])
    ds.drop_columns(["s"])
    ds.branches.merge("exp")
    for library in (lk, lance):
        found = library.dataset(ds.uri).to_table().sort_by("id").to_pylist()
        assert found == [{"id": 1, "n": 9}, {"id": 2, "n": 2}, {"id": 3, "n": 3}]


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_cast_of_lists_beside_changed_rows(tmp_path: Path, side: str) -> None:
    kind = pa.list_(pa.int64())
    rows = pa.table({"id": [1, 2, 3], "n": pa.array([[1], [2], None], kind)})
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    one.alter_columns({"path": "n", "data_type": pa.list_(pa.int32())})
    other.insert({"id": [4], "n": [[4, None]]}, mode="append")
    ds.update({"id": "id"}, where="id = 1")
    ds.branches.merge("exp")
    assert ds.schema.field("n").type == pa.list_(pa.int32())
    for library in (lk, lance):
        found = library.dataset(ds.uri).to_table().sort_by("id")["n"].to_pylist()
        assert found == [[1], [2], None, [4, None]]
    # an item that does not fit is no null, but a conflict
    exp.checkout_latest()
    ds.branches.merge("main", into="exp")
    exp.checkout_latest()
    one.alter_columns({"path": "n", "data_type": pa.list_(pa.int8())})
    other.insert({"id": [5], "n": [[5, 1000]]}, mode="append")
    with pytest.raises(SchemaMismatchError, match="1 value that list<item: int8> cannot hold"):
        ds.branches.merge("exp")


@pytest.mark.parametrize("change", ["values", "name"])
def test_a_pick_says_that_a_column_is_missing(tmp_path: Path, change: str) -> None:
    """The target never had it, so that nobody dropped it there."""
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.add_columns({"n": "id + 1"})
    if change == "values":
        exp.update({"n": "7"})
    else:
        exp.alter_columns({"path": "n", "name": "m"})
    done = "changed in 1 value" if change == "values" else "renamed to m"
    for call in (
        lambda: ds.branches.cherry_pick("exp", 3),
        lambda: exp.diff(2, 3).apply(ds),
    ):
        with pytest.raises(SchemaMismatchError, match=f"'n' was missing here and {done} there"):
            call()
    assert ds.latest_version == 1
    ds.branches.cherry_pick("exp", 3, conflicts="theirs")
    assert ds.to_table()["n" if change == "values" else "m"].to_pylist() == [
        7 if change == "values" else 2
    ]
