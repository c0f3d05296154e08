"""Branches, tags and clones with other features (docs/interplay.md): as in pylance."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import CorruptFileError, RefConflictError
from tests.support.interplay import (
    BLOBS,
    IDS,
    KEY,
    NOW,
    SCHEMA,
    blob_rows,
    blobs,
    contents,
    files,
    indexed,
    keys,
    looked_up,
    read,
    rows,
    told,
    upsert,
    with_bases,
)

# ---- branches and tags


def test_a_branch_of_a_dataset_with_base_paths(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        branch = with_bases(module, home).create_branch("b")
        branch = module.write_dataset(rows(20, 21), branch, mode="append", target_bases=["q"])
        branch.delete("k = 3")
        upsert(branch).target_bases(["p"]).execute(rows(4, 22, text="new"))
        before = files(home)
        branch.optimize.compact_files()
        branch.cleanup_old_versions(NOW, delete_unverified=True)
        return before, files(home), read(home / "t", ("b", None)), keys(home / "t")

    *_, on_branch, on_main = told(tmp_path, story)
    assert [k for k, _ in on_branch] == [0, 1, 2, *range(4, 12), 20, 21, 22]
    assert (4, "new4") in on_branch
    assert on_main == [*range(12)]


def test_columns_change_on_a_branch_with_an_index(tmp_path: Path) -> None:
    ds = indexed(tmp_path / "t")
    branch = ds.create_branch("b")
    branch.alter_columns({"path": "k", "name": "key"})
    branch.add_columns({"n": "key * 2"})
    branch.drop_columns(["v"])
    branch.insert({"key": [50], "n": [1]})
    branch.delete("key = 3")
    at = ("b", None)
    assert [looked_up(ds.uri, key, at, "key") for key in (2, 3, 50)] == [1, 0, 1]
    assert [looked_up(ds.uri, key) for key in (2, 3, 50)] == [1, 1, 0]
    branch.drop_columns(["key"])
    theirs: Any = lance.dataset(ds.uri)
    assert list(theirs.checkout_version(at).describe_indices()) == []
    assert [index.name for index in theirs.describe_indices()] == ["k_idx"]


def test_blobs_on_a_branch(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = blob_rows(module, home / "t")
        branch = ds.create_branch("b")
        branch.delete("k = 0")
        ds.delete("k = 5")
        ds.optimize.compact_files(target_rows_per_fragment=100)
        ds.cleanup_old_versions(NOW, delete_unverified=True)
        read_there = blobs(home / "t", ("b", None))
        branch.optimize.compact_files(target_rows_per_fragment=100)
        return read_there, blobs(home / "t", ("b", None)), blobs(home / "t")

    read_there, copied, on_main = told(tmp_path, story)
    assert read_there == copied == {k: v for k, v in enumerate(BLOBS) if k != 0}
    assert on_main == {k: v for k, v in enumerate(BLOBS) if k != 5}


@pytest.mark.parametrize("holder", ["tag", "branch"])
def test_what_a_name_holds_stays_whole(tmp_path: Path, holder: str) -> None:
    """A cleanup leaves files in base paths, deletions, an index and row ids that a name needs."""

    def story(module: Any, home: Path) -> Any:
        theirs = with_bases(lance, home, enable_stable_row_ids=True)
        theirs.create_scalar_index("k", "BTREE")
        theirs.delete("k = 3")
        ds = module.dataset(theirs.uri)
        if holder == "tag":
            ds.tags.create("held", 3)
        else:
            ds.create_branch("held", 3)
        held: Any = "held" if holder == "tag" else ("held", None)
        before = read(ds.uri, held, ["k", "v", *IDS])
        ds = module.write_dataset(rows(1), ds, mode="overwrite")
        ds.optimize.compact_files()
        ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False, delete_unverified=True)
        assert read(ds.uri, held, ["k", "v", *IDS]) == before
        assert [looked_up(ds.uri, key, held) for key in (2, 3, 11)] == [1, 0, 1]
        ds.checkout_version(held).restore()
        return files(home), read(ds.uri, held, ["k", "v", *IDS])

    told(tmp_path, story)


def test_a_tag_holds_blobs_and_columns(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = blob_rows(module, home / "t")
        ds.tags.create("held", 1)
        ds.drop_columns(["b"])
        ds.optimize.compact_files(target_rows_per_fragment=100)
        ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False, delete_unverified=True)
        held = blobs(home / "t", "held")
        ds.tags.delete("held")
        ds.cleanup_old_versions(NOW, delete_unverified=True)
        return held, files(home), keys(home / "t")

    held, left, _ = told(tmp_path, story)
    assert held == dict(enumerate(BLOBS))
    assert left[" .blob"] == 0


def test_a_branch_that_a_tag_names_stays(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = module.write_dataset(rows(1), str(home / "t"))
        module.write_dataset(rows(2), ds.create_branch("b"), mode="append")
        ds.tags.create("on-b", ("b", 2))
        with pytest.raises(OSError, match="on-b"):
            ds.branches.delete("b")
        tagged = keys(home / "t", "on-b")
        ds.tags.delete("on-b")
        ds.branches.delete("b")
        return tagged, list(ds.branches.list())

    assert told(tmp_path, story) == ([1, 2], [])


# ---- clones


@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_a_clone_has_names_of_its_own(tmp_path: Path, deep: bool) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = module.write_dataset(rows(1, 2), str(home / "t"))
        ds.tags.create("a", 1)
        branch = ds.create_branch("b", "a")
        module.write_dataset(rows(3), branch, mode="append")
        clone = (ds.deep_clone if deep else ds.shallow_clone)(str(home / "c"), ("b", None))
        names = [list(clone.tags.list()), list(clone.branches.list())]
        clone.tags.create("mine", clone.version)
        module.write_dataset(rows(4), clone.create_branch("side"), mode="append")
        mine = [keys(home / "c", at) for at in (None, "mine", ("side", None))]
        return names, mine, list(ds.tags.list()), list(ds.branches.list()), keys(home / "t")

    names, mine, *_ = told(tmp_path, story)
    assert names == [[], []]
    assert mine == [[1, 2, 3], [1, 2, 3], [1, 2, 3, 4]]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "append": lambda ds: ds.insert(rows(50)),
    "delete": lambda ds: ds.delete("k = 6"),
    "update": lambda ds: ds.update({"v": "'u'"}, where="k > 7"),
    "merge": lambda ds: upsert(ds).execute(rows(6, 60, text="m")),
    "add": lambda ds: ds.add_columns({"n": "k + 1"}),
    "cast": lambda ds: ds.alter_columns({"path": "v", "data_type": pa.large_string()}),
    "rename": lambda ds: ds.alter_columns({"path": "v", "name": "w"}),
    "drop": lambda ds: ds.drop_columns(["v"]),
    "compact": lambda ds: ds.optimize.compact_files(),
    "overwrite": lambda ds: ds.insert(rows(70), mode="overwrite"),
    "restore": lambda ds: (ds.delete("k = 7"), ds.checkout_version(2).restore()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_shallow_clone_changes_alone(tmp_path: Path, change: str) -> None:
    """With the source's deletions and key; not a byte of the source changes."""

    def story(module: Any, home: Path) -> Any:
        table = rows(*range(10)).cast(pa.schema([SCHEMA.field(0).with_metadata(KEY), SCHEMA[1]]))
        ds = module.write_dataset(table, str(home / "t"), max_rows_per_file=4)
        ds.delete("k < 3")
        clone = ds.shallow_clone(str(home / "c"), 2)
        before = contents(home / "t")
        CHANGES[change](clone)
        clone.cleanup_old_versions(NOW, delete_unverified=True)
        assert contents(home / "t") == before
        found: Any = lance.dataset(str(home / "c"))
        # an overwrite by lancekit keeps the key, one by pylance drops it
        has_key = bool(found.schema.field("k").metadata) or (module, change) == (lance, "overwrite")
        return read(home / "c"), found.schema.names, files(home / "c"), has_key, found.version

    *_, has_key, _ = told(tmp_path, story)
    assert has_key


def test_a_clone_needs_what_it_was_made_of(tmp_path: Path) -> None:
    """A cleanup knows nothing of shallow clones: a tag holds what one needs."""

    def story(module: Any, home: Path) -> Any:
        ds = module.write_dataset(rows(1, 2), str(home / "t"))
        ds.shallow_clone(str(home / "c"), 1)
        ds.deep_clone(str(home / "d"), 1)
        ds.tags.create("of-c", 1)
        ds = module.write_dataset(rows(3), ds, mode="overwrite")
        ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
        held = keys(home / "c")
        ds.tags.delete("of-c")
        ds.cleanup_old_versions(NOW)
        for side, error in ((lance, (OSError, ValueError)), (lk, CorruptFileError)):
            with pytest.raises(error):
                side.dataset(str(home / "c")).to_table()
        return held, keys(home / "d"), keys(home / "t")

    held, deep, _ = told(tmp_path, story)
    assert held == deep == [1, 2]


def test_a_merge_into_a_clone_of_a_dataset_with_base_paths(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = with_bases(module, home)
        clone = ds.shallow_clone(str(home / "c"), 1)
        before = files(home)
        upsert(clone).execute(rows(4, 20, text="new"))
        own = files(home) - before
        upsert(clone).target_bases(["p"]).execute(rows(5, 21, text="new"))
        bases = sorted(b.name or "" for b in clone.base_paths().values())
        clone.optimize.compact_files()
        clone.deep_clone(str(home / "d"), clone.version)
        found = read(home / "c")
        for gone in ("t", "p", "q", "c"):
            shutil.rmtree(home / gone)
        return own, bases, found, read(home / "d") == found

    *_, found, same = told(tmp_path, story)
    assert same
    assert [k for k, _ in found] == [*range(12), 20, 21]


def test_a_shallow_clone_has_the_index_of_its_source(tmp_path: Path) -> None:
    ds = indexed(tmp_path / "t")
    clone = ds.shallow_clone(tmp_path / "c", ds.version)
    assert looked_up(clone.uri, 5) == 1
    clone.delete("k = 5")
    clone.insert(rows(50))
    upsert(clone).execute(rows(6, 60))
    clone.optimize.compact_files()
    assert [looked_up(clone.uri, key) for key in (4, 5, 6, 50, 60)] == [1, 0, 1, 1, 1]
    assert [looked_up(ds.uri, key) for key in (5, 50)] == [1, 0]


def test_a_clone_of_a_branch_of_a_restored_clone(tmp_path: Path) -> None:
    """Files are in five folders then; whoever was there before is as it was."""

    def story(module: Any, home: Path) -> Any:
        ds = with_bases(module, home)
        ds.delete("k < 3")
        ds = module.write_dataset(rows(30), ds, mode="append", target_bases=["q"])
        clone = ds.shallow_clone(str(home / "c"), 2)
        clone.delete("k = 4")
        with pytest.raises((OSError, ValueError), match=r"(?i)version|not found"):
            clone.checkout_version(1)  # the versions before are the source's
        clone.checkout_version(2).restore()
        clone = module.dataset(str(home / "c"))
        module.write_dataset(rows(40), clone.create_branch("b"), mode="append")
        other = clone.shallow_clone(str(home / "cc"), ("b", None))
        other.optimize.compact_files()
        read_all = [keys(home / name, at) for name, at in (("c", None), ("c", ("b", None)))]
        return [*read_all, keys(home / "cc"), keys(home / "t")], files(home)

    (clone, branch, other, source), _ = told(tmp_path, story)
    assert clone == [*range(3, 12)]
    assert branch == other == [*range(3, 12), 40]
    assert source == [*range(3, 12), 30]


def test_a_clone_asks_anew_for_its_cleanup(tmp_path: Path) -> None:
    """It has the settings of its source: they are for versions of another folder."""
    options = {"interval": 1, "older_than_seconds": 0}
    ds = lk.write_dataset(rows(1), tmp_path / "t", auto_cleanup_options=options)
    ds.insert(rows(2))
    for clone in (
        ds.shallow_clone(tmp_path / "c", ds.version),
        ds.deep_clone(tmp_path / "d", ds.version),
    ):
        with pytest.warns(UserWarning, match="removed nothing"):
            clone.insert(rows(3))
        with lk.options(trusted_cleanup=[clone.uri]):
            clone.insert(rows(4))
        assert clone.versions().numbers == (3, 4)
    assert keys(tmp_path / "t") == [1, 2]
    theirs = lance.dataset(ds.uri).shallow_clone(str(tmp_path / "e"), ds.version)
    for key in (3, 4):
        theirs = lance.write_dataset(rows(key), theirs, mode="append")
    assert [version["version"] for version in theirs.versions()] == [3, 4]  # nobody was asked


def test_a_tag_that_many_make_at_once_is_made_once(tmp_path):
    ds = lk.write_dataset(rows(1), tmp_path / "t")
    ds.insert(rows(2))

    def make(version):
        mine = lk.dataset(tmp_path / "t")
        start.wait()
        try:
            mine.tags.create("one", version)
        except RefConflictError:
            return None
        return version

    start = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        made = [version for version in pool.map(make, [1, 2, 1, 2]) if version is not None]
    assert made == [lance.dataset(str(tmp_path / "t")).tags.list()["one"]["version"]]
