"""Commits to a store that cannot put an object only if its name is free."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._versions.manifest_writers import ManifestStore
from tests.support.faults import Crash, Faults, Mode, injected
from tests.support.forked import at_once

ROWS = pa.table({"x": [0]})

WRITER = """
import contextlib, fcntl, sys
import lancekit as lk
from lancekit._storage.local import LocalStore

def forbidden(self, name, data):
    raise AssertionError("this store has no conditional put")

LocalStore.put_if_absent = forbidden
who, path, kind, decided = sys.argv[1:]

@contextlib.contextmanager
def lock(version):
    with open(decided, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

how = {"commit_lock": lock} if kind == "lock" else {
    "manifest_store": lk.SqliteManifestStore(decided)}
for number in range(8):
    rows = {"x": [100 * int(who) + number]}
    lk.write_dataset(rows, path, mode="append", **how)
"""


@pytest.mark.parametrize("kind", ["lock", "sqlite"])
def test_processes_race_without_conditional_put(tmp_path, kind: str) -> None:
    path, decided = tmp_path / "d", tmp_path / "decided"
    ended = at_once([(WRITER, str(who), str(path), kind, str(decided)) for who in (1, 2)])
    for _, error in ended:
        assert not error or "DatasetExistsError" in error, (
            error
        )  # of two that create it one is told
    found = sorted(lance.dataset(str(path)).to_table()["x"].to_pylist())
    assert len(found) == len(set(found)) == lk.dataset(path).version
    wrote_all = [error for _, error in ended if not error]
    assert len(found) >= 8 * len(wrote_all)
    assert [v["version"] for v in lk.dataset(path).versions()] == list(range(1, len(found) + 1))
    assert not list(path.glob("_versions/*.manifest-*"))


def table(tmp_path: Path, place: str) -> tuple[str, lk.SqliteManifestStore]:
    uri = {"local": str(tmp_path / "d"), "memory": f"memory://store-{tmp_path.name}"}[place]
    return uri, lk.SqliteManifestStore(tmp_path / "decided.sqlite")


@pytest.mark.parametrize("place", ["local", "memory"])
def test_a_writer_may_die_at_every_call(tmp_path, place: str) -> None:
    """Once the record is there the version is: whoever comes next finishes it."""
    uri, decided = table(tmp_path, place)
    lk.write_dataset(ROWS, uri, manifest_store=decided)
    version, seen = 1, set()
    for at in range(1, 100):
        faults = Faults()
        with injected(faults):
            ds = lk.dataset(uri, manifest_store=decided)
            faults.fail_at, faults.mode = len(faults.calls) + at, Mode.CRASH
            try:
                ds.insert(ROWS)
                died = False
            except Crash:
                died = True
        recorded = decided.get_latest_version(lk.dataset(uri)._location.store.uri)
        assert recorded is not None
        now = lk.dataset(uri, manifest_store=decided)
        assert now.version == recorded[0]
        assert now.version in (version, version + 1)
        seen.add((died, now.version - version))
        version = now.version
        assert now.count_rows() == version
        assert lk.dataset(uri).version == version, "finished for those without the store, too"
        if place == "local":
            assert lance.dataset(uri).version == version
        if not died:
            break
    assert seen == {(True, 0), (True, 1), (False, 1)}
    now.insert(ROWS)
    assert lk.dataset(uri).version == version + 1


@pytest.mark.parametrize("mode", [Mode.REFUSED, Mode.LOST])
def test_each_call_may_fail(tmp_path, mode: Mode) -> None:
    """What was decided is found out: an error only where nothing landed, or nobody can tell."""
    uri, decided = table(tmp_path, "local")
    lk.write_dataset(ROWS, uri, manifest_store=decided)
    for at in range(1, 100):
        before = lk.dataset(uri).version
        faults = Faults()
        with injected(faults):
            ds = lk.dataset(uri, manifest_store=decided)
            faults.fail_at, faults.mode = len(faults.calls) + at, mode
            call_failed = ""
            try:
                ds.insert(ROWS)
            except errors.CommitUnknownError:
                call_failed = "unknown"
            except errors.StorageError:
                call_failed = "failed"
        after = lk.dataset(uri, manifest_store=decided).version
        if call_failed != "unknown":
            assert after == before + (not call_failed), faults.calls[-3:]
        assert lk.dataset(uri).count_rows() == after
        if len(faults.calls) < faults.fail_at:
            break
    assert at > 5


def test_a_reader_finishes_any_version(tmp_path) -> None:
    """Also when it asks for the version by its number."""
    uri, decided = table(tmp_path, "local")
    ds = lk.write_dataset(ROWS, uri, manifest_store=decided)
    ds.insert(ROWS)
    (final,) = Path(uri).glob("_versions/*613.manifest")
    staged = final.with_name(final.name + "-3f2a")
    final.rename(staged)
    assert decided.put_if_exists(ds._location.store.uri, 2, f"_versions/{staged.name}")
    assert lk.dataset(uri, version=2, manifest_store=decided).count_rows() == 2
    assert final.exists()
    assert not staged.exists()
    assert decided.get(ds._location.store.uri, 2) == f"_versions/{final.name}"


def test_cleanup_finds_what_was_staged_and_never_recorded(tmp_path) -> None:
    uri, decided = table(tmp_path, "local")
    ds = lk.write_dataset(ROWS, uri, manifest_store=decided)
    ds.insert(ROWS)
    old, newest = (Path(uri) / "_versions" / f"1844674407370955161{n}.manifest" for n in (4, 3))
    lost = newest.with_name("18446744073709551612.manifest-1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed")
    lost.write_bytes(newest.read_bytes())
    # a version that was recorded under such a name is one, and is finished first
    staged = newest.rename(newest.with_name(newest.name + "-3f2a"))
    assert decided.put_if_exists(ds._location.store.uri, 2, f"_versions/{staged.name}")
    opened = lk.dataset(uri, manifest_store=decided)
    opened.cleanup_old_versions()
    assert lost.exists()  # it is young: its writer may be about to record it
    opened.cleanup_old_versions(delete_unverified=True)
    assert {file.name for file in old.parent.glob("*.manifest*")} == {old.name, newest.name}
    assert lk.dataset(uri, manifest_store=decided).count_rows() == 2


def test_records_of_a_removed_dataset_are_named(tmp_path) -> None:
    uri, decided = table(tmp_path, "local")
    ds = lk.write_dataset(ROWS, uri, manifest_store=decided)
    decided.put_if_exists(ds._location.store.uri, 1, "_versions/gone.manifest-1")
    with pytest.raises(errors.CorruptFileError, match="remove its records"):
        lk.dataset(uri, manifest_store=decided)
    decided.delete(ds._location.store.uri)
    assert lk.dataset(uri, manifest_store=decided).version == 1


def test_branches_are_decided_apart(tmp_path) -> None:
    uri, decided = table(tmp_path, "local")
    ds = lk.write_dataset(ROWS, uri, manifest_store=decided)
    branch = ds.create_branch("b")
    branch.insert(ROWS)
    ds.insert(ROWS)
    assert (ds.version, branch.version) == (2, 2)
    assert decided.get(f"{uri}/tree/b", 2) == decided.get(uri, 2) is not None
    assert lance.dataset(uri).checkout_version(("b", 2)).count_rows() == 2


def test_a_dataset_from_before_it_had_a_manifest_store(tmp_path) -> None:
    uri, decided = table(tmp_path, "local")
    lance.write_dataset(ROWS, uri)
    lance.write_dataset(ROWS, uri, mode="append")
    lk.dataset(uri, manifest_store=decided).insert(ROWS)
    assert lance.dataset(uri).count_rows() == 3
    assert decided.get_latest_version(uri)[0] == 3


def test_sqlite_decides_once(tmp_path) -> None:
    decided = lk.SqliteManifestStore(tmp_path / "decided.sqlite")
    assert isinstance(decided, ManifestStore)
    won: list[int] = []

    def write(me: int) -> None:
        won.extend(v for v in range(20) if decided.put_if_not_exists("d", v, f"{me}"))

    threads = [threading.Thread(target=write, args=(me,)) for me in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(20))
    assert decided.get_latest_version("d")[0] == 19
    assert decided.get("d", 20) is decided.get_latest_version("other") is None
    assert not decided.put_if_exists("d", 20, "x")


def test_arguments_are_checked(tmp_path) -> None:
    decided: Any = lk.SqliteManifestStore(tmp_path / "nowhere" / "decided.sqlite")
    lk.write_dataset(ROWS, tmp_path / "d")
    with pytest.raises(errors.StorageError, match=r"nowhere.decided\.sqlite"):
        lk.dataset(tmp_path / "d", manifest_store=decided)
    with pytest.raises(errors.InvalidTypeError, match="SqliteManifestStore"):
        lk.dataset(tmp_path / "d", manifest_store="decided.sqlite")
    with pytest.raises(errors.InvalidTypeError, match="context manager"):
        lk.dataset(tmp_path / "d", commit_lock=3)
    with pytest.raises(errors.InvalidArgumentError, match="one of the two"):
        lk.dataset(tmp_path / "d", commit_lock=lambda _: None, manifest_store=decided)
