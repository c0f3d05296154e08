"""Structs whose parts one side changed, and casts of lists, in merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import SchemaMismatchError
from tests.operations.lineage.test_column_merges import Change
from tests.operations.lineage.test_column_metadata import structs

#: a change of a part of a struct
PARTS: dict[str, Change] = {
    "renamed": lambda ds: ds.alter_columns({"path": "s.x", "name": "z"}),
    "cast": lambda ds: ds.alter_columns({"path": "s.x", "data_type": pa.int64()}),
    "dropped": lambda ds: ds.drop_columns(["s.x"]),
    "not nullable": lambda ds: ds.alter_columns({"path": "s.x", "nullable": False}),
}


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("part", PARTS)
def test_a_struct_of_other_parts_is_refused_before_rows_are_read(
    tmp_path: Path, part: str, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = structs(tmp_path / "t", key="id")
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    PARTS[part](one)
    other.update({"n": "9"}, where="id = 1")
    version = ds.version
    from lancekit.operations.lineage import three_way

    def read(*_: Any) -> None:
        pytest.fail("rows were read")

    with monkeypatch.context() as patched:
        patched.setattr(three_way, "find_changes", read)
        with pytest.raises(SchemaMismatchError, match="column 's' was") as raised:
            ds.branches.merge("exp")
    (conflict,) = raised.value.context["conflicts"]
    given, kept = (conflict.ours, conflict.theirs)[:: 1 if side == "ours" else -1]
    assert given.startswith("given the type struct<")
    assert kept == "kept while rows changed"
    assert ds.latest_version == version
    # the way out that the hint names: the same change on the other side
    PARTS[part](other)
    ds.update({"n": "8"}, where="id = 2")
    ds.branches.merge("exp")
    wanted = [9, 8, 3]
    for library in (lk, lance):
        assert library.dataset(ds.uri).to_table().sort_by("id")["n"].to_pylist() == wanted
    ds.validate(deep=True)


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
