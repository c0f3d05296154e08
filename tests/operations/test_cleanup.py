"""Cleanup: what pylance removes, and never what a tag, a branch or a kept version needs."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.cleanup.plan import CleanupFile
from lancekit._operations.cleanup.run import _remove_empty
from lancekit._storage.local import LocalStore
from lancekit.errors import InvalidArgumentError, InvalidTypeError, RefConflictError, StorageError

NOW = timedelta(0)
LONG_AGO = (1, 1)


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def make(path: Path, *, refs: bool = True) -> Any:
    """Write eight versions: fragments come and go, and so do an index and deletions."""
    uri = str(path)
    ds = cast(Any, lance.write_dataset(rows(*range(10)), uri, max_rows_per_file=5))
    ds.create_scalar_index("x", "BTREE")
    ds.delete("x = 1")
    ds.delete("x = 2")
    lance.write_dataset(rows(1, 2, 3), uri, mode="overwrite")
    lance.write_dataset(rows(4), uri, mode="append")
    ds = cast(Any, lance.dataset(uri))
    ds.delete("x = 3")
    ds.optimize.compact_files()
    if refs:
        ds.tags.create("kept", 3)
        ds.create_branch("side", 6)
        branch = ds.checkout_version(("side", None))
        lance.write_dataset(rows(50), branch, mode="append")
    return lk.dataset(uri)


def files(path: Path) -> set[str]:
    return {str(f.relative_to(path)) for f in path.rglob("*") if f.is_file()}


def left(path: Path) -> Counter[str]:
    """Count files: manifests by name, others, whose names are random, by kind."""
    return Counter(
        name if name.endswith(".manifest") else name.split("/")[0] + Path(name).suffix
        for name in files(path)
        # the reference removes the transaction of the version that a branch forked from
        if not name.endswith(".txn")
    )


def versions(path: Path) -> dict[Any, list[int]]:
    """Read every version, tag and branch by pylance; compare with what lancekit reads."""
    found: dict[Any, list[int]] = {}
    for side in (lance, lk):
        root = cast(Any, side).dataset(str(path))
        at: dict[Any, Any] = {v["version"]: root.checkout_version(v["version"])
                              for v in root.versions()}  # fmt: skip
        at |= {tag: root.checkout_version(tag) for tag in root.tags.list()}
        at |= {name: root.checkout_version((name, None)) for name in root.branches.list()}
        read = {key: ds.to_table()["x"].to_pylist() for key, ds in at.items()}
        assert found in ({}, read)
        found = read
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        {"older_than": NOW},
        {"retain_versions": 1},
        {"retain_versions": 4},
        {"versions": [1, 5]},
        {"versions": [1, 2, 3], "retain_versions": 9},
        {"older_than": timedelta(days=1)},
        {},
        {"older_than": NOW, "delete_unverified": True},
    ],
    ids=str,
)
def test_what_stays_is_what_pylance_leaves(tmp_path: Path, arguments: dict[str, Any]) -> None:
    for place in (tmp_path / "lancekit", tmp_path / "lance"):
        make(place)
        for name in ("data/old.lance", "_transactions/9-x.txn", "_versions/.tmp_1.manifest"):
            (place / name).write_bytes(b"left over")
            os.utime(place / name, LONG_AGO)
    before = versions(tmp_path / "lancekit")
    stats = []
    for side in (lk, lance):
        ds = cast(Any, side).dataset(str(tmp_path / side.__name__))
        told = ds.explain_cleanup_old_versions(
            **arguments, error_if_tagged_old_versions=False, include_files=True
        )
        done = ds.cleanup_old_versions(**arguments, error_if_tagged_old_versions=False)
        assert told.stats.bytes_removed == done.bytes_removed
        assert len(told.candidate_files) >= done.old_versions
        stats.append(done)
    assert left(tmp_path / "lancekit") == left(tmp_path / "lance")
    for name in ("old_versions", "data_files_removed", "deletion_files_removed"):
        assert getattr(stats[0], name) == getattr(stats[1], name)
    after = versions(tmp_path / "lancekit")
    assert after == {key: values for key, values in before.items() if key in after}
    assert {"kept", "side", max(key for key in before if isinstance(key, int))} <= set(after)
    for version in (key for key in after if isinstance(key, int)):
        assert lk.dataset(str(tmp_path / "lancekit")).read_transaction(version) is not None


def test_files_that_killed_writers_had_not_finished(tmp_path: Path) -> None:
    """Those of pylance have names of their own; pylance itself never removes them."""
    ds = make(tmp_path / "d")
    left_over = ["data/.tmpAXFF3u", "data/.tmp-ab", "_deletions/1-2-3.arrow#1", "data/x.lance#12"]
    for name in left_over:
        (tmp_path / "d" / name).write_bytes(b"half")
    before = versions(tmp_path / "d")
    ds.cleanup_old_versions(retain_versions=99)
    assert {*left_over} <= files(tmp_path / "d")
    done = ds.cleanup_old_versions(retain_versions=99, delete_unverified=True)
    assert done.temporary_files_removed == len(left_over)
    assert not {*left_over} & files(tmp_path / "d")
    assert versions(tmp_path / "d") == before
    (tmp_path / "d/data/.tmpAXFF3u").write_bytes(b"half")
    lk.LanceDataset.drop(str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()


def test_tagged_versions(tmp_path: Path) -> None:
    ds = make(tmp_path / "d")
    before = files(tmp_path / "d")
    with pytest.raises(RefConflictError, match=r"'kept' \(version 3\)"):
        ds.cleanup_old_versions(NOW)
    assert files(tmp_path / "d") == before
    told = ds.explain_cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert [(b.name, b.referenced_version) for b in told.referenced_branches] == [("side", 6)]
    assert "'kept' keeps version 3" in told.warnings
    assert files(tmp_path / "d") == before
    assert "old versions to remove" in repr(told)
    assert "old version" in repr(ds.cleanup_old_versions(retain_versions=100))


def test_a_plan_shows_what_tags_keep(tmp_path: Path) -> None:
    ds = make(tmp_path / "d")
    plan = ds.explain.cleanup_old_versions(NOW)
    assert "'kept' keeps version 3" in plan.warnings
    assert any("refuses to start because of these tags" in text for text in plan.warnings)
    assert plan.stats.old_versions > 0
    with pytest.raises(
        RefConflictError, match=r"have 1 tag: 'kept' \(version 3\)"
    ):  # as in pylance
        ds.explain_cleanup_old_versions(NOW)
    with pytest.raises(RefConflictError, match=r"'kept' \(version 3\)"):
        plan.apply()


def test_an_older_handle_protects_what_is_newer(tmp_path: Path) -> None:
    make(tmp_path / "d", refs=False)
    at = lk.dataset(str(tmp_path / "d"), version=5)
    assert at.cleanup_old_versions(NOW).old_versions == 4
    assert sorted(versions(tmp_path / "d")) == list(range(5, at.latest_version + 1))


def test_branches_are_cleaned_on_their_own(tmp_path: Path) -> None:
    ds = make(tmp_path / "d")
    branch = ds.checkout_version(("side", None))
    branch.insert(rows(51), mode="overwrite")
    main = {name for name in files(tmp_path / "d") if not name.startswith("tree/")}
    done = branch.cleanup_old_versions(NOW)
    assert (done.old_versions, done.data_files_removed) == (2, 1)
    assert {name for name in files(tmp_path / "d") if not name.startswith("tree/")} == main
    assert versions(tmp_path / "d")["side"] == [51]


def test_a_branch_that_is_being_made_protects_its_start(tmp_path: Path) -> None:
    ds = make(tmp_path / "d")
    ds.tags.delete("kept")
    (tmp_path / "d" / "_refs" / "branches" / "side.json").unlink()
    ds.cleanup_old_versions(NOW)
    assert 6 in versions(tmp_path / "d")


def test_a_clone_leaves_the_other_dataset_alone(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", refs=False)
    clone = ds.shallow_clone(tmp_path / "clone", ds.version)
    before = files(tmp_path / "d")
    clone.insert(rows(7))
    clone.insert(rows(8), mode="overwrite")
    done = clone.cleanup_old_versions(NOW, delete_unverified=True)
    assert (done.old_versions, done.data_files_removed) == (2, 1)
    assert files(tmp_path / "d") == before


def test_left_overs(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", refs=False)
    ds.cleanup_old_versions(NOW)
    before = files(tmp_path / "d")
    left = {
        "data/a.lance": "data",
        "data/a/01.blob": "data",
        "data/.tmp-1-a.lance": "temporary",
        "_deletions/0-1-2.bin": "deletion",
        "_transactions/1-a.txn": "transaction",
        "_transactions/.tmp-a": "temporary",
        "_indices/0b7e/page.lance": "index",
        "_versions/.tmp-a.manifest": "temporary_manifest",
        "_versions/18446744073709551000.manifest-5f1c": "temporary_manifest",
        "_refs/tags/.tmp-a": "temporary",
    }
    others = {"data/notes.txt", "README", "_versions/notes", "_refs/tags/x"}
    for name in (*left, *others):
        place = tmp_path / "d" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"123")
    assert ds.cleanup_old_versions(NOW).bytes_removed == 0  # they may be of a commit under way
    told = ds.explain_cleanup_old_versions(NOW, delete_unverified=True, include_files=True)
    assert {f.path: f.kind for f in told.candidate_files} == left
    assert all(f.unverified and f.size_bytes == 3 for f in told.candidate_files)
    cut = ds.explain_cleanup_old_versions(
        NOW, delete_unverified=True, include_files=True, max_files=2
    )
    assert (len(cut.candidate_files), cut.candidate_files_truncated) == (2, True)
    for name in list(left)[:5]:
        os.utime(tmp_path / "d" / name, LONG_AGO)
    assert ds.cleanup_old_versions(NOW).bytes_removed == 15
    assert ds.cleanup_old_versions(NOW, delete_unverified=True).bytes_removed == 15
    assert files(tmp_path / "d") == before | others


def test_detached_versions_stay(tmp_path: Path) -> None:
    make(tmp_path / "d", refs=False)
    uri = str(tmp_path / "d")
    new = lance.fragment.write_fragments(rows(77), uri)
    detached = cast(Any, lance.LanceDataset).commit(
        uri,
        lance.LanceOperation.Append(new),
        read_version=lance.dataset(uri).version,
        detached=True,
    )
    lk.dataset(uri).cleanup_old_versions(NOW, delete_unverified=True)
    again = lance.dataset(uri, version=detached.version)
    assert again.to_table() == detached.to_table()


def test_a_file_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = make(tmp_path / "d", refs=False)
    newest = ds.to_table()
    remove = LocalStore.delete

    def refuse(self: LocalStore, name: str) -> None:
        if name.endswith((".arrow", "18446744073709551612.manifest")):
            raise StorageError("no")
        remove(self, name)

    monkeypatch.setattr(LocalStore, "delete", refuse)
    done = ds.cleanup_old_versions(NOW)
    assert done.failed_deletes == 1
    assert done.data_files_removed == 0  # the version is still there, and needs its files
    assert versions(tmp_path / "d")[3] == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    monkeypatch.undo()
    assert ds.cleanup_old_versions(NOW, delete_unverified=True).failed_deletes == 0
    assert ds.to_table() == newest


def test_arguments(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", refs=False)
    with pytest.raises(InvalidTypeError, match="timedelta"):
        ds.cleanup_old_versions(5)
    wrong: dict[str, Any]
    for wrong in ({"retain_versions": 0}, {"versions": []}, {"delete_rate_limit": 0}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            ds.cleanup_old_versions(**wrong)
    with pytest.raises(InvalidArgumentError, match="max_files"):
        ds.explain_cleanup_old_versions(max_files=0)
    assert ds.cleanup_old_versions(NOW, delete_rate_limit=1000, delete_concurrency=2).old_versions


@pytest.mark.parametrize("place", ["memory://parts-that-wait", "d"])
def test_folders_of_indices_go_if_nothing_is_below_them(place: str, tmp_path: Path) -> None:
    uri = place if ":" in place else str(tmp_path / place)
    line = lk.write_dataset(rows(1), uri)._snapshot.location
    waiting = "_indices/0b7e/staging/part.lance"
    sink = line.store.create(waiting)
    sink.write(b"123")
    sink.close()
    gone = [
        CleanupFile(path=f"_indices/0b7e/{name}", kind="index", unverified=False, size_bytes=1)
        for name in ("page.lance", "staging/other.lance")
    ]
    _remove_empty(line, gone)
    assert [found.name for found in line.store.list_tree("_indices")] == [waiting]
    line.store.delete(waiting)
    _remove_empty(line, gone)
    assert place != "d" or not (tmp_path / "d/_indices/0b7e").exists()


def test_an_age_is_not_negative(tmp_path: Path) -> None:
    """``asof=`` takes negative ages; here one would remove all versions but the newest."""
    ds = make(tmp_path / "d")
    before = len(ds.versions())
    for call in (ds.cleanup_old_versions, ds.explain_cleanup_old_versions):
        with pytest.raises(InvalidArgumentError, match="older_than must be an age of 0 or more"):
            call(timedelta(days=-14))
    assert len(ds.versions()) == before
