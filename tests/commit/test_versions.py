"""Finding versions by their names, in both namings, on every kind of store."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit import errors
from lancekit._api.history import Version
from lancekit._format import names
from lancekit._format.names import ManifestNaming
from lancekit._storage.local import LocalStore
from lancekit._storage.objects import ObstoreStore
from lancekit._versions import listing as versions
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import Newest, list_versions, newest_version
from lancekit.errors import (
    BranchNotFoundError,
    CorruptFileError,
    DatasetNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
    RetryableConflictError,
    TagNotFoundError,
)
from tests.support.faults import Call, Faults, injected
from tests.support.patience import HANG_SECONDS

ROWS = pa.table({"x": [1]})
V1, V2 = ManifestNaming


def settle(path: Path) -> None:
    """Make a dataset look as if nobody had written to it for a minute."""
    old = time.time() - 60
    os.utime(path / "_versions", (old, old))


JUNK = st.sampled_from(
    [
        "latest_version_hint.json",
        ".tmp-8a",
        "18446744073709551614.manifest-5f",
        "3.manifest#1",
        "d9223372036854775999.manifest",
        "d18446744073709551000.manifest",
        "!",
        "~",
        "a" * 29,
        "1" * 28 + "x",
        ".manifest",
        "00000000000000000001.manifesto",
        "0000000000000000000².manifest",
    ]
)


@given(
    st.lists(st.integers(1, 2**40), min_size=1, max_size=8),
    st.lists(st.integers(1, 2**40), max_size=8),
    st.lists(JUNK, max_size=6),
    st.randoms(),
)
def test_names_tell_the_newest(newer: list[int], older: list[int], junk: list[str], random) -> None:
    for v2, v1 in ((newer, older), (older, newer)):
        found = [names.manifest_name(v, V2) for v in v2] + [names.manifest_name(v, V1) for v in v1]
        found += junk
        random.shuffle(found)
        newest = versions._newest(found)
        assert newest is not None
        assert newest.version == max(v2 + v1)
        assert newest.naming is (V2 if newest.version in v2 else V1)
        assert newest.mixed == bool(v2 and v1)
        assert sorted(names.manifest_versions(found)) == sorted(v2 + v1)
    assert versions._newest(junk) is None


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2500])
@pytest.mark.parametrize("naming", ManifestNaming)
def test_a_page_of_names_is_enough(count: int, naming: ManifestNaming) -> None:
    """An object store lists in order: the newest of the newer names is on the first page."""
    uri = f"memory://pages-{count}-{naming.value}"
    store = ObstoreStore(uri)
    store.put("_versions/latest_version_hint.json", b'{"version":3}')
    for version in range(1, count + 1):
        store.put(f"_versions/{names.manifest_name(version, naming)}", b"")
    faults = Faults()
    with injected(faults):
        line = open_location(uri)
        newest = newest_version(line)
    assert newest is not None
    assert (newest.version, newest.naming, newest.mixed) == (count, naming, False)
    # with the hint there is one name more
    assert len(faults.calls) == (2 if naming is V1 and count + 1 >= 1000 else 1)
    assert newest.mark_of(count) or len(faults.calls) == 2
    assert list_versions(open_location(uri)).versions == tuple(range(1, count + 1))


def test_a_page_is_one_request(s3) -> None:
    import obstore

    client = s3.client("first-page")
    for version in range(1, 1102):
        obstore.put(client, f"_versions/{names.manifest_name(version, V2)}", b"")
    store = ObstoreStore(f"s3://{s3.bucket}/first-page", s3.storage_options)
    page = store.first_names("_versions")
    assert len(page.names) == 1000
    assert not page.whole
    assert min(page.names) == names.manifest_name(1101, V2)
    assert page.marks.keys() == set(page.names)
    newest = newest_version(open_location(f"s3://{s3.bucket}/first-page", s3.storage_options))
    assert newest is not None
    assert newest.version == 1101


def test_a_folder_at_rest_is_not_listed_again(tmp_path, monkeypatch) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    listed: list[str] = []
    first_names = LocalStore.first_names

    def counted(self: Any, folder: str) -> Any:
        listed.append(folder)
        return first_names(self, folder)

    monkeypatch.setattr(LocalStore, "first_names", counted)
    for _ in range(2):  # just written: the next commit may come within the same tick
        assert lk.dataset(tmp_path / "d").version == 1
    assert len(listed) == 2
    settle(tmp_path / "d")
    for _ in range(5):
        assert lk.dataset(tmp_path / "d").version == 1
    assert len(listed) == 3
    lance.write_dataset(ROWS, tmp_path / "d", mode="append")
    assert lk.dataset(tmp_path / "d").version == 2
    settle(tmp_path / "d")
    ds.insert(ROWS)
    assert ds.version == 3
    assert lk.dataset(tmp_path / "d").version == 3


def test_two_commits_within_one_tick_are_told_apart(tmp_path, monkeypatch) -> None:
    """Whatever the clock of the disk: a folder that was just changed is not remembered."""
    lk.write_dataset(ROWS, tmp_path / "d")
    store = LocalStore(tmp_path / "d")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    for age, known in ((0, False), (1.0, False), (3, True), (-5, False)):
        os.utime(tmp_path / "d/_versions", (now - age, now - age))
        assert (store.stamp("_versions") is not None) == known, age
    assert store.stamp("nothing") is None


def test_a_removed_dataset_is_not_remembered(tmp_path) -> None:
    import shutil

    for version in (1, 2):
        lk.write_dataset(ROWS, tmp_path / "d")
        for _ in range(1, version):
            lk.write_dataset(ROWS, tmp_path / "d", mode="append")
        settle(tmp_path / "d")
        assert lk.dataset(tmp_path / "d").version == version
        shutil.rmtree(tmp_path / "d")
        with pytest.raises(errors.DatasetNotFoundError):
            lk.dataset(tmp_path / "d")


def test_a_hint_before_a_gap_is_not_followed(tmp_path) -> None:
    """A release that writes no hint went on; a cleanup kept only the tagged version."""
    path = tmp_path / "d"
    ds = lk.write_dataset(ROWS, path)
    ds.insert(ROWS)
    ds.tags.create("kept", 2)
    hint = path / "_versions/latest_version_hint.json"
    left = hint.read_bytes()
    assert left == b'{"version":2}'
    stale = lk.dataset(path)
    for _ in range(3):
        lance.write_dataset(ROWS, path, mode="append")
    lance.dataset(str(path)).cleanup_old_versions(
        retain_versions=1, error_if_tagged_old_versions=False
    )
    hint.write_bytes(left)
    found = sorted(v["version"] for v in lance.dataset(str(path)).versions())
    assert found == [2, 5], "a gap follows the version of the hint"
    assert lk.dataset(path).version == 5
    assert lk.dataset(path).latest_version == 5
    with pytest.raises(errors.RetryableConflictError, match=r"version 3 .* it was cleaned up"):
        stale.insert(ROWS)
    assert not (path / "_versions" / names.manifest_name(3, V2)).exists(), "history was forked"
    lk.write_dataset(ROWS, path, mode="append")
    assert lance.dataset(str(path)).version == 6


@pytest.mark.parametrize("hint", [b"", b"garbage", b'{"version":99}', b'{"version":1}', None])
def test_a_hint_is_only_a_hint(tmp_path, hint: bytes | None) -> None:
    path = tmp_path / "d"
    lk.write_dataset(ROWS, path).insert(ROWS)
    file = path / "_versions/latest_version_hint.json"
    file.unlink()
    if hint is not None:
        file.write_bytes(hint)
    lk.dataset(path).insert(ROWS)
    assert lk.dataset(path).version == lance.dataset(str(path)).version == 3
    assert file.read_bytes() == b'{"version":3}'


def test_the_first_page_of_a_history_reads_few_manifests(tmp_path) -> None:
    from benchmarks.commits import with_versions

    path = with_versions(tmp_path / "d", 400)
    faults = Faults()
    with injected(faults):
        history = lk.dataset(path).versions()
        assert len(history) == 400
        before = len(faults.calls)
        history._repr_html_()
        [history[i] for i in range(-1, -11, -1)]
    assert sum(call.kind in ("read", "tail", "open") for call in faults.calls[before:]) <= 25


def test_a_history_is_read_ahead_where_a_manifest_takes_long_to_come(tmp_path) -> None:
    from benchmarks.commits import with_versions

    path = with_versions(tmp_path / "d", 60)
    together = threading.Barrier(4, timeout=HANG_SECONDS)  # only calls at the same time get past it
    met = set[str]()

    def slow(call: Call) -> None:
        time.sleep(0.01)
        if call.kind == "tail" and threading.current_thread() is not threading.main_thread():
            met.add(call.name)
            if len(met) <= 24:
                together.wait()

    with injected(Faults(before=slow)) as faults:
        history = lk.dataset(path).versions()
        faults.calls.clear()
        assert [version["version"] for version in history] == list(range(1, 61))
        assert not faults.calls
        found = iter(history)
        assert next(found).num_rows > 0
        assert sum(call.kind == "tail" for call in faults.calls) == 25
        assert len([version["timestamp"] for version in found]) == 59
        assert sum(call.kind == "tail" for call in faults.calls) == 60
    quick = lk.dataset(path).versions()
    assert next(iter(quick)).metadata == history[0].metadata


def test_tags_are_read_at_the_same_time_where_one_takes_long_to_come(tmp_path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    for number in range(9):
        ds.tags.create(f"t{number}", 1)
    (tmp_path / "d/_refs/tags/t3.json").write_bytes(b"{")
    together = threading.Barrier(8, timeout=HANG_SECONDS)

    def slow(call: Call) -> None:
        time.sleep(0.01)
        if call.kind == "read" and threading.current_thread() is not threading.main_thread():
            together.wait()

    with injected(Faults(before=slow)), pytest.warns(UserWarning, match="'t3' is skipped"):
        found = lk.dataset(tmp_path / "d").tags.list()
    assert list(found) == [f"t{number}" for number in range(9) if number != 3]


# ---- the older naming


@pytest.mark.parametrize("side", [lk, lance])
def test_a_branch_of_a_dataset_with_the_older_naming_has_the_newer(tmp_path, side: Any) -> None:
    path = str(tmp_path / "d")
    side.write_dataset(ROWS, path, enable_v2_manifest_paths=False)
    side.dataset(path).create_branch("b")
    for module in (lk, lance):
        module.dataset(path).checkout_version(("b", None)).insert(ROWS)
        module.dataset(path).insert(ROWS)
    for folder, naming in (("d", V1), ("d/tree/b", V2)):
        found = {file.name for file in (tmp_path / folder / "_versions").glob("*.manifest")}
        assert found == {names.manifest_name(version, naming) for version in (1, 2, 3)}
    assert lk.dataset(path).count_rows() == lance.dataset(path).count_rows() == 3


def test_the_older_naming_is_kept(tmp_path, pylance4) -> None:
    path = tmp_path / "d"
    ds = lk.write_dataset(ROWS, path, enable_v2_manifest_paths=False)
    lance.write_dataset(ROWS, path, mode="append")
    program = "lance.write_dataset(pa.table({'x': [1]}), arguments['path'], mode='append')"
    pylance4(f"{program}; result = 0", path=str(path))
    assert ds.latest_version == 3
    ds.checkout_latest()
    ds.insert(ROWS)
    ds.delete("x = 7")
    assert sorted(p.name for p in path.glob("_versions/*.manifest")) == [
        f"{v}.manifest" for v in range(1, 6)
    ]
    assert lance.dataset(str(path)).count_rows() == 4
    assert pylance4("result = lance.dataset(arguments['path']).version", path=str(path)) == 5
    assert [v["version"] for v in ds.versions()] == [1, 2, 3, 4, 5]
    assert lk.dataset(path, version=2).count_rows() == 2


def old_dataset(path: Path, count: int = 12) -> lk.LanceDataset:
    lance.write_dataset(ROWS, path, enable_v2_manifest_paths=False)
    for _ in range(count - 1):
        lance.write_dataset(ROWS, path, mode="append")
    return lk.dataset(path)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process cannot be set")
@pytest.mark.parametrize("moment", [datetime.min, datetime.max])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_no_time_zone_leads_out_of_the_calendar(monkeypatch, moment: datetime, zone: str) -> None:
    ds = lk.write_dataset({"x": [1]}, "memory://years", mode="overwrite")
    version = ds.versions()[0]
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        then = replace(version._facts, timestamp=moment.replace(tzinfo=UTC))
        found = Version(version.version, version.branch, lambda: then)["timestamp"]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert abs(found - moment) < timedelta(days=1)


@pytest.mark.filterwarnings("ignore:This handle is at")
def test_migration(tmp_path, pylance4) -> None:
    path = tmp_path / "d"
    ds = old_dataset(path)
    stale = lk.dataset(path, version=11)
    times = [v["timestamp"] for v in ds.versions()]
    ds.migrate_manifest_paths_v2()
    ds.migrate_manifest_paths_v2()
    found = sorted(p.name for p in path.glob("_versions/*.manifest"))
    assert found == sorted(names.manifest_name(v, V2) for v in range(1, 13))
    assert [v["timestamp"] for v in ds.versions()] == times
    ds.insert(ROWS)
    stale.insert(ROWS)
    lance.write_dataset(ROWS, path, mode="append")
    assert lance.dataset(str(path)).version == 15
    assert pylance4("result = lance.dataset(arguments['path']).count_rows()", path=str(path)) == 15
    assert newest_version(open_location(path)) == Newest(15, V2)


@pytest.mark.parametrize("store", ["local", "memory"])
def test_a_migration_may_stop_anywhere(tmp_path, store: str) -> None:
    """After any call: every version opens, nobody can commit, the next run finishes it."""
    from tests.support.faults import Crash, Mode

    for at in range(1, 200):
        uri = str(tmp_path / f"d{at}") if store == "local" else f"memory://migrated-{at}"
        ds = lk.write_dataset(ROWS, uri, enable_v2_manifest_paths=False)
        ds.insert(ROWS)
        ds.insert(ROWS)
        faults = Faults()
        with injected(faults):
            opened = lk.dataset(uri)
            faults.fail_at, faults.mode = len(faults.calls) + at, Mode.CRASH
            try:
                opened.migrate_manifest_paths_v2()
                done = True
            except Crash:
                done = False
        assert [lk.dataset(uri, version=v).count_rows() for v in (1, 2, 3)] == [1, 2, 3]
        now = lk.dataset(uri)
        assert now.version == 3
        assert [v["version"] for v in now.versions()] == [1, 2, 3]
        newest = newest_version(open_location(uri))
        assert newest is not None
        if newest.mixed:
            with pytest.raises(errors.RetryableConflictError, match="migrate_manifest_paths_v2"):
                now.insert(ROWS)
        now.migrate_manifest_paths_v2()
        now.insert(ROWS)
        assert newest_version(open_location(uri)).version == 4
        assert not newest_version(open_location(uri)).mixed
        if store == "local":
            assert lance.dataset(uri).version == 4
        if done:
            break
    assert at > 6


def test_a_fork_by_migration_is_noticed(tmp_path) -> None:
    """Somebody migrates, and commits, between my listing and my put under the older name."""
    path = tmp_path / "d"
    old_dataset(path, 2)

    def meanwhile(call: Any) -> None:
        if call.kind == "put_if_absent" and call.name.endswith("/3.manifest"):
            faults.before = None
            other = lk.dataset(path)
            other.migrate_manifest_paths_v2()
            other.insert(ROWS)

    faults = Faults(before=meanwhile)
    with injected(faults):
        lk.dataset(path).insert(ROWS)
    assert not list(path.glob("_versions/?.manifest"))
    assert lk.dataset(path).version == lance.dataset(str(path)).version == 4
    assert lk.dataset(path).count_rows() == 4


def test_two_versions_of_one_number_are_named(tmp_path) -> None:
    path = tmp_path / "d"
    ds = old_dataset(path, 2)
    (path / "_versions" / names.manifest_name(2, V2)).write_bytes(
        (path / "_versions/1.manifest").read_bytes()
    )
    with pytest.raises(errors.CorruptFileError, match="two different manifests for version 2"):
        ds.migrate_manifest_paths_v2()


def test_tags_and_branches_are_containers(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    ds.insert({"x": [2]})
    ds.tags.create("first", 1)
    trial = ds.branches.create("trial")
    trial.insert({"x": [3]})
    assert (list(ds.tags), len(ds.tags), "first" in ds.tags, "x" in ds.tags) == (
        ["first"],
        1,
        True,
        False,
    )
    assert (list(ds.branches), len(ds.branches), "trial" in ds.branches) == (["trial"], 1, True)
    assert bool(lk.write_dataset({"x": [1]}, "memory://no-tags").tags)
    assert ds.tags["first"].version == 1
    assert (ds.branches["trial"].branch, ds.branches["trial"].count_rows()) == ("trial", 3)
    assert trial.branches["main"].version == 2
    with pytest.raises(TagNotFoundError):
        ds.tags["none"]
    with pytest.raises(BranchNotFoundError):
        ds.branches["none"]
    with pytest.raises(InvalidTypeError):
        ds.tags[1]  # type: ignore[index]


def test_a_branch_is_opened_by_name(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    trial = ds.create_branch("trial")
    trial.insert({"x": [2]})
    opened = lk.dataset(tmp_path / "d", branch="trial")
    assert (opened.branch, opened.count_rows()) == ("trial", 2)
    assert lk.dataset(tmp_path / "d", 1, branch="trial").count_rows() == 1
    assert lk.dataset(tmp_path / "d", asof=timedelta(0), branch="trial").count_rows() == 2
    assert lk.dataset(tmp_path / "d", branch="main").branch == "main"
    with pytest.raises(InvalidArgumentError, match="leave branch= out"):
        lk.dataset(tmp_path / "d", "tag", branch="trial")
    with pytest.raises(BranchNotFoundError):
        lk.dataset(tmp_path / "d", branch="none")
    with pytest.raises(TagNotFoundError, match=r"It is a branch. Use ds.branches\['trial'\]"):
        ds.checkout_version("trial")


def test_latest_is_another_handle(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    old = ds.at(1)
    ds.insert({"x": [2]})
    newest = old.latest()
    assert (old.version, newest.version) == (1, 2)
    newest.insert({"x": [3]})
    assert newest.count_rows() == 3


def test_a_diff_is_against_the_version_before(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    with pytest.raises(InvalidArgumentError, match="main:1 is the first version"):
        ds.diff()
    ds.insert({"x": [3]})
    assert ds.diff().counts.inserted == 1
    ds.delete("x < 3")
    assert ds.diff().counts.deleted == 2
    assert ds.diff(new=2).counts.inserted == 1
    trial = ds.create_branch("trial")
    assert repr(trial.diff()).startswith("diff main:3 → trial:3 · 0 inserted · 0 deleted")
    trial.insert({"x": [9]})
    assert trial.diff().counts.inserted == 1
    lance.dataset(tmp_path / "d").create_branch("theirs", 1)
    assert repr(ds.branches["theirs"].diff()).startswith("diff main:1 → theirs:1 · 0 inserted")


def test_nothing_to_undo_on_a_fresh_branch(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    ds.insert({"x": [3]})
    trial = ds.create_branch("trial")
    with pytest.raises(InvalidArgumentError, match="nothing to undo on trial since its fork from"):
        trial.undo()
    other = ds.branches["trial"]
    trial.insert({"x": [9]})
    trial.undo()
    assert trial.count_rows() == 3
    with pytest.raises(RetryableConflictError, match="no longer the newest"):
        other.undo()


def test_a_removed_dataset_is_named(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    trial = ds.create_branch("trial")
    ds.branches.delete("trial")
    with pytest.raises(DatasetNotFoundError, match=r"/trial was removed after version 1 was read"):
        trial.insert({"x": [3]})
    shutil.rmtree(tmp_path / "d")
    for call in (lambda: ds.insert({"x": [3]}), lambda: ds.delete("x = 1")):
        with pytest.raises(DatasetNotFoundError, match=r"/d was removed after version 1 was read"):
            call()
        assert not (tmp_path / "d").exists()  # no empty folder of new files is left


def test_a_moved_dataset_is_named(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "a")
    ds.create_branch("trial")
    ds.shallow_clone(tmp_path / "clone")
    (tmp_path / "a").rename(tmp_path / "b")
    for place, branch in (("b", "trial"), ("clone", None)):
        with pytest.raises(CorruptFileError, match=r"/a has no files\. If that dataset was moved"):
            lk.dataset(tmp_path / place, branch=branch).to_table()
    (tmp_path / "a").symlink_to("b")
    clone = lk.dataset(tmp_path / "clone")
    clone.deepen()
    (tmp_path / "a").unlink()
    assert clone.to_table().num_rows == 2


def test_a_merge_has_a_message(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d", primary_key="id")
    merge = ds.merge_insert().when_not_matched_insert_all()
    merge.execute({"id": [2]}, commit_message="late rows")
    assert ds.versions()[-1].message == "late rows"
    assert lance.dataset(str(tmp_path / "d")).count_rows() == 2


def test_one_column_is_dropped_by_its_name(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "late": [2]}, tmp_path / "d")
    ds.drop_columns("late")
    assert ds.columns == ["id"]
