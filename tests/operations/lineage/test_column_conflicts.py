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
from tests.support.faults import Faults, injected


def test_a_struct_of_which_no_part_is_left_is_refused_before_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = structs(tmp_path / "t", key="id")
    exp = ds.create_branch("exp")
    ds.drop_columns(["s.x"])
    exp.drop_columns(["s.y"])
    exp.update({"n": "9"}, where="id = 1")
    version = ds.version
    from lancekit._operations.lineage import three_way

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


def altered(**change: Any) -> Change:
    return lambda ds: ds.alter_columns({"path": "n", **change})


def told(unit: str) -> Change:
    return lambda ds: ds.update_field_metadata({"n": {"unit": unit}})


def dropped(ds: lk.LanceDataset) -> None:
    ds.drop_columns(["n"])


def keyed(column: str) -> Change:
    return lambda ds: ds.update_field_metadata(
        {column: {"lance-schema:unenforced-primary-key": "true"}}
    )


#: what each side does to columns: the schemas alone tell that it is a conflict
OF_SCHEMAS: dict[str, tuple[Change, Change]] = {
    "two names": (altered(name="a"), altered(name="b")),
    "two types": (altered(data_type=pa.int32()), altered(data_type=pa.int16())),
    "dropped, renamed": (dropped, altered(name="b")),
    "dropped, cast": (dropped, altered(data_type=pa.int32())),
    "dropped, made the key": (dropped, keyed("n")),
    "two keys": (keyed("k"), keyed("n")),
    "added with two types": (
        lambda ds: ds.add_columns({"x": "1"}),
        lambda ds: ds.add_columns({"x": "'a'"}),
    ),
    "one name": (altered(name="x"), lambda ds: ds.add_columns({"x": "1"})),
    "metadata": (told("m"), told("km")),
    "metadata of the schema": (
        lambda ds: ds.update_schema_metadata({"owner": "a"}),
        lambda ds: ds.update_schema_metadata({"owner": "b"}),
    ),
}


@pytest.mark.cover
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("case", OF_SCHEMAS)
def test_a_conflict_of_schemas_is_found_before_a_row_is_read(
    tmp_path: Path, case: str, turned: bool
) -> None:
    """Both sides changed rows, too; the refused merge opens no data file, and writes nothing."""
    kinds = [pa.field(name, pa.int64(), name == "m") for name in ("id", "n", "k", "m")]
    rows = pa.table({field.name: [1, 2] for field in kinds}, schema=pa.schema(kinds))
    ds = lk.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True)
    exp = ds.create_branch("exp")
    for line, change in zip((exp, ds) if turned else (ds, exp), OF_SCHEMAS[case], strict=True):
        change(line)
    ds.update({"m": "8"}, where="id = 1")
    exp.update({"m": "9"}, where="id = 2")
    files = sorted((tmp_path / "t").rglob("*"))
    lk.clear_cache()
    for doing in (
        lambda now: now.branches.merge("exp"),
        lambda now: now.branches.merge("exp", conflicts=lambda found: []),
        lambda now: now.branches.rebase("exp"),
    ):
        faults = Faults()
        with injected(faults):
            now = lk.dataset(ds.uri)
            with pytest.raises(SchemaMismatchError) as raised:
                doing(now)
        (conflict,) = raised.value.context["conflicts"]
        assert all((conflict.ours, conflict.theirs))
        assert not [call for call in faults.calls if ".lance" in call.name]
        assert sorted((tmp_path / "t").rglob("*")) == files
    # the counter sees rows that are read
    with injected(faults := Faults()):
        lk.dataset(ds.uri).branches.merge("exp", dry_run=True, conflicts="ours")
    assert [call for call in faults.calls if ".lance" in call.name]


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
