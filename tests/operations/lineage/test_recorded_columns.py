"""The config key of a merge tells which columns are the same after cleanups by pylance."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._versions.merge_edges import MERGE_KEYS
from lancekit.errors import SchemaMismatchError

NOW = timedelta(0)
BRANCHES = ("main", "exp")


def handle(library: Any, uri: str, branch: str) -> Any:
    ds = library.dataset(uri)
    return ds if branch == "main" else ds.checkout_version((branch, None))


def clean(uri: str) -> None:
    clean_all(uri, BRANCHES)


def clean_all(uri: str, branches: Iterable[str]) -> None:
    for branch in branches:
        ds = handle(lance, uri, branch)
        ds.optimize.compact_files()
        ds.cleanup_old_versions(NOW, delete_unverified=True, error_if_tagged_old_versions=False)


def merged(tmp_path: Path, change: str, into: str) -> str:
    """Return a table whose branches have one column under two names, and met by a merge."""
    ds = lk.write_dataset({"id": [1, 2], "n": [0, 0]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "n", "name": "m"})
    if change == "cast":
        ds.alter_columns({"path": "n", "data_type": pa.int32()})
        ds.alter_columns({"path": "n", "data_type": pa.int64()})
    else:
        ds.alter_columns({"path": "n", "name": "k"})
    ds.update({ds.schema.names[1]: "1"}, where="id = 1")
    source = BRANCHES[into == "main"]
    # the version from which the next merge counts
    version = handle(lk, ds.uri, source).version
    ds.tags.create("base", (None if source == "main" else source, version))
    handle(lk, ds.uri, into).branches.merge(source, into=into, conflicts="ours")
    exp.checkout_latest()
    exp.update({"m": "5"}, where="id = 2")
    return ds.uri


def rows(uri: str, branch: str) -> list[tuple[int, int]]:
    found = handle(lance, uri, branch).to_table()
    assert found.num_columns == 2
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def insert(uri: str) -> None:
    ds = lk.dataset(uri)
    ds.insert({"id": [3], ds.schema.names[1]: [7]}, mode="append")


@pytest.mark.parametrize("into", BRANCHES)
@pytest.mark.parametrize("change", ["cast", "rename"])
def test_the_next_merges_know_the_columns(tmp_path: Path, change: str, into: str) -> None:
    uri = merged(tmp_path, change, into)
    clean(uri)
    insert(uri)
    for target, source in (("exp", "main"), ("main", "exp")):
        handle(lk, uri, target).branches.merge(source, into=target, conflicts="theirs")
        assert rows(uri, target) == [(1, 1), (2, 5), (3, 7)]


def test_a_name_that_another_column_got_does_not_tell(tmp_path: Path) -> None:
    """Main renamed the column that came by a fast-forward, and gave its name to a new one."""
    ds = lk.write_dataset({"id": [1, 2], "n": [0, 0]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.add_columns({"x": "id * 10"})
    exp.drop_columns(["n"])
    ds.tags.create("base", ("exp", exp.version))
    assert ds.branches.merge("exp").how == "fast-forward"
    ds.add_columns({"y": "id"})
    ds.alter_columns({"path": "x", "name": "z"}, {"path": "y", "name": "x"})
    clean(ds.uri)
    exp = handle(lk, ds.uri, "exp")
    exp.update({"x": "5"}, where="id = 1")
    with pytest.raises(SchemaMismatchError, match=r"Column 'z' of .* may or may not be column"):
        lk.dataset(ds.uri).branches.merge("exp")
    assert lk.dataset(ds.uri).to_table().to_pylist()[0] == {"id": 1, "z": 10, "x": 1}


def forget_columns(uri: str) -> None:
    """Leave in the keys what the first lancekit wrote: which versions came."""
    for branch in BRANCHES:
        ds = handle(lk, uri, branch)
        keys = [key for key in ds.config() if key.startswith(MERGE_KEYS)]
        if keys:
            ds.update_config({key: ds.config()[key].partition(" columns ")[0] for key in keys})


@pytest.mark.parametrize(
    ("change", "lost"), [("cast", "record"), ("cast", "witnesses"), ("rename", "witnesses")]
)
def test_nothing_is_written_where_nothing_tells(tmp_path: Path, change: str, lost: str) -> None:
    """pylance's cleanup keeps the renamed column's own history, and not that of the other side."""
    uri = merged(tmp_path, change, "exp")
    exp = handle(lk, uri, "exp")
    if lost == "record":
        forget_columns(uri)
    else:
        exp.alter_columns({"path": "m", "name": "q"}, {"path": "id", "name": "number"})
    # told by the branch's own versions: its column is that of the version where both part
    lk.dataset(uri).tags.create("renamed", ("exp", 2))
    clean(uri)
    insert(uri)
    before = {branch: rows(uri, branch) for branch in BRANCHES}
    for target, source in (("exp", "main"), ("main", "exp")):
        with pytest.raises(SchemaMismatchError, match="may or may not be column") as caught:
            handle(lk, uri, target).branches.merge(source, into=target, conflicts="theirs")
        names = {"m"} if lost == "record" else {"number", "q"}
        assert caught.value.context["column"] in names
        assert "drop" in str(caught.value.hint)
    assert {branch: rows(uri, branch) for branch in BRANCHES} == before


@pytest.mark.parametrize("into", BRANCHES)
@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_branch_that_came_by_way_of_another(
    tmp_path: Path, is_taken: bool, is_deleted: bool, into: str
) -> None:
    """The merge of `via` records which columns are those of `exp`, which `via` had merged."""
    ds = lk.write_dataset({"id": [1, 2], "n": [0, 0]}, tmp_path / "t", primary_key="id")
    exp, via = ds.create_branch("exp"), ds.create_branch("via")
    exp.alter_columns({"path": "n", "name": "m"})
    exp.add_columns({"x": "id * 10"})
    ds.tags.create("base", ("exp", exp.version))
    via.add_columns({"y": "id"})
    via.branches.merge("exp", into="via")
    via.alter_columns({"path": "x", "name": "z"}, {"path": "m", "name": "k"})
    if not is_taken:
        ds.update({"n": "1"}, where="id = 1")
    how = ds.branches.merge("via").how
    assert how == ("fast-forward" if is_taken else "three-way")
    assert ds.schema.names == via.schema.names == ["id", "k", "y", "z"]
    clean_all(ds.uri, [*BRANCHES, "via"])
    if is_deleted:
        ds.branches.delete("via")
    exp = handle(lk, ds.uri, "exp")
    exp.update({"m": "5", "x": "7"}, where="id = 2")
    lk.dataset(ds.uri).insert({"id": [3], "k": [7], "y": [3], "z": [30]}, mode="append")
    target, source = (into, BRANCHES[into == "main"])
    handle(lk, ds.uri, target).branches.merge(source, into=target)
    found = handle(lance, ds.uri, target).to_table(columns=["id", "k", "z", "y"]).to_pylist()
    first = 0 if is_taken else 1
    assert sorted(tuple(row.values()) for row in found) == [
        (1, first, 10, 1), (2, 5, 7, 2), (3, 7, 30, 3)
    ]  # fmt: skip
