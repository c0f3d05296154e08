"""Fragments changed one by one, for commits of one's own: what pylance returns, and its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._commit.protocol import commit
from lancekit._commit.rules.pending import Pending
from lancekit._format.operation_parts import UpdateMode
from lancekit._format.operations import Delete, Merge, Update
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError, RowOutOfRangeError

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [1.0, 2.0, 3.0]})

CALLS: dict[str, Any] = {
    "delete": lambda f: f.delete("a = 1"),
    "delete the rest": lambda f: f.delete("a > 0"),
    "delete nothing": lambda f: f.delete("a > 9"),
    "delete a row": lambda f: f.delete_rows([0, 0]),
    "delete all rows": lambda f: f.delete_rows([0, 2]),
    "delete a deleted row": lambda f: f.delete_rows([1]),
    "sql": lambda f: f.merge_columns({"n": "upper(b)"}),
    "function": lambda f: f.merge_columns(
        lambda batch: pa.record_batch([batch["a"]], ["n"]), columns=["a"]
    ),
    "table": lambda f: f.merge_columns(pa.table({"n": [5, 6]})),
    "join": lambda f: f.merge(pa.table({"k": [3], "z": [1]}), "a", "k"),
    "update": lambda f: f.update_columns(
        pa.table({"_rowid": pa.array([2], pa.uint64()), "b": ["new"]})
    ),
    "update more": lambda f: f.update_columns(
        pa.table({"k": [1, 2, 3, 1], "c": [9.0, 8.0, 7.0, 6.0], "b": ["q", "r", None, "s"]}),
        "a",
        "k",
        with_offsets=True,
    ),
}


def make(side: Any, path: Path) -> Any:
    ds = lance.write_dataset(ROWS, str(path))
    ds.delete("a = 2")
    return side.dataset(str(path))


def describe(returned: Any) -> Any:
    parts = list(returned) if isinstance(returned, tuple) else [returned]
    fragment = parts[0]
    if fragment is None:
        return None
    layout = [(list(f.fields), list(f.column_indices)) for f in fragment.files]
    return fragment.id, layout, fragment.num_deletions, fragment.physical_rows


@pytest.mark.parametrize("call", CALLS)
def test_fragments_are_those_of_pylance(tmp_path: Path, call: str) -> None:
    ours, theirs = (
        CALLS[call](make(side, tmp_path / side.__name__).get_fragment(0)) for side in (lk, lance)
    )
    assert describe(ours) == describe(theirs)
    if call.startswith("update"):
        assert ours[1:] == theirs[1:]
    assert lk.dataset(str(tmp_path / "lancekit")).version == 2


def updated(fragment: Any, ids: Any, **more: Any) -> Update:
    return Update(
        updated_fragments=(fragment,),
        fields_modified=tuple(ids),
        update_mode=UpdateMode.REWRITE_COLUMNS,
        **more,
    )


def land(ds: Any, operation: Any) -> list[dict[str, Any]]:
    landed = commit(ds._snapshot, Pending(operation=operation, uuid="1" * 32))
    opened = lance.dataset(landed.store.uri)
    cast(Any, opened).validate()
    found: list[dict[str, Any]] = opened.to_table().to_pylist()
    assert lk.dataset(landed.store.uri).to_table().to_pylist() == found
    return found


def test_commits(tmp_path: Path) -> None:
    ds = make(lk, tmp_path / "deleted")
    fragment = CALLS["delete"](ds.get_fragment(0))
    assert [row["a"] for row in land(ds, Delete((fragment,), (), "a = 1"))] == [3]
    ds = make(lk, tmp_path / "merged")
    fragment, schema = CALLS["join"](ds.get_fragment(0))
    assert [row["z"] for row in land(ds, Merge((fragment,), schema))] == [None, 1]
    ds = make(lk, tmp_path / "updated")
    fragment, ids, offsets = CALLS["update more"](ds.get_fragment(0))
    operation = updated(fragment, ids, updated_fragment_offsets={0: offsets})
    found = land(ds, operation)
    assert found == [{"a": 1, "b": "s", "c": 6.0}, {"a": 3, "b": None, "c": 7.0}]


def test_columns_of_any_type_are_kept(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "k": [1, 2, 3],
            "s": pa.array([{"p": [1, 2], "q": "t"}, None, {"p": None, "q": None}]),
            "v": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
        }
    )
    ds = lk.write_dataset(rows, tmp_path / "d")
    new = rows.slice(1, 1).set_column(1, "s", pa.array([{"p": [9], "q": "new"}]))
    fragment, ids = cast(Any, ds.get_fragment(0)).update_columns(new.drop_columns(["v"]), "k")
    expected = rows.to_pylist()
    expected[1]["s"] = {"p": [9], "q": "new"}
    assert land(ds, updated(fragment, ids)) == expected


def test_what_is_refused(tmp_path: Path) -> None:
    fragment = make(lk, tmp_path / "d").get_fragment(0)
    with pytest.raises(RowOutOfRangeError, match="Row offset 7 is out of range"):
        fragment.delete_rows([7])
    with pytest.raises(ColumnNotFoundError, match="nn"):
        fragment.update_columns(pa.table({"a": [1], "nn": ["l"]}), "a")
    with pytest.raises(InvalidArgumentError, match="_rowaddr is a metadata column"):
        fragment.update_columns(pa.table({"a": [1], "_rowaddr": [5]}), "a")
    with pytest.raises(InvalidArgumentError, match="only key columns"):
        fragment.update_columns(pa.table({"a": [1]}), "a")
    with pytest.raises(InvalidArgumentError, match="fewer rows"):
        fragment.merge_columns(pa.table({"n": [1]}))
