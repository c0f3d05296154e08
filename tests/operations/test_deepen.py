"""Tables that read files of other places, made whole."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import ConstraintViolationError, CorruptFileError
from tests.operations.test_deep_clones import nearest, rich
from tests.support.faults import Crash, Faults, Mode, injected
from tests.support.forked import at_once
from tests.support.s3 import S3Server

IDS = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def all_of(ds) -> list[dict]:
    """Return rows in order, with ids and versions."""
    return ds.to_table([*ds.schema.names, *IDS]).to_pylist()


def theirs_of(path) -> list[dict]:
    opened = lance.dataset(str(path))
    return opened.to_table([*opened.schema.names, *IDS]).to_pylist()


def bases_of(ds: lk.LanceDataset) -> set[int]:
    manifest = ds._snapshot.manifest
    found = {file.base_id for one in manifest.fragments for file in one.files}
    found |= {one.deletion_file.base_id for one in manifest.fragments if one.deletion_file}
    return {base for base in found | {i.base_id for i in ds._snapshot.indices} if base is not None}


def test_a_shallow_clone_becomes_whole(tmp_path: Path) -> None:
    source = rich(tmp_path / "d")
    near, version = nearest(source), source.version
    clone = lk.dataset(tmp_path / "d").shallow_clone(tmp_path / "c", version)
    clone.delete("k = 7")
    clone.insert(source.to_table().slice(0, 3))
    assert bases_of(clone)
    wanted, before = all_of(clone), clone.version
    result = clone.deepen()
    # indices come in a version of their own
    assert (result.read_version, result.version) == (before, before + 2)
    assert clone.version == clone.latest_version == result.version
    assert result.files_copied > 3
    assert bases_of(clone) == set()
    old = clone.checkout_version(before)
    assert all_of(old) == wanted
    shutil.rmtree(tmp_path / "d")

    assert all_of(clone) == all_of(lk.dataset(tmp_path / "c")) == wanted
    assert theirs_of(tmp_path / "c") == wanted
    clone.validate(deep=True)
    opened = lance.dataset(str(tmp_path / "c"))
    assert set(nearest(opened)) == set(near)
    assert opened.to_table(full_text_query="word4").num_rows > 0
    assert opened.to_table(filter="k = 9").num_rows == 1
    assert opened.delta(compared_against=before).get_updated_rows().read_all().num_rows == 0
    assert "copied" in repr(result)
    # both go on
    opened.delete("k = 11")
    opened.optimize.compact_files()
    ds = lk.dataset(tmp_path / "c")
    ds.update({"s": "'new'"}, where="k = 12")
    assert ds.count_rows() == len(wanted) - 1
    assert ds.deepen().version == ds.latest_version
    assert ds.deepen().files_copied == 0
    opened.cleanup_old_versions(timedelta(0), delete_unverified=True)
    ds.validate(deep=True)


@pytest.mark.parametrize("maker", ["lancekit", "pylance"])
def test_branches(tmp_path: Path, maker: str) -> None:
    ds = lk.write_dataset({"x": range(10)}, tmp_path / "d", enable_stable_row_ids=True)
    ds.delete("x = 3")
    if maker == "pylance":
        lance.dataset(ds.uri).create_branch("b")
        branch = ds.checkout_version(("b", None))
    else:
        branch = ds.create_branch("b")
    branch.insert({"x": [77]})
    wanted = all_of(branch)
    below = branch.create_branch("b/c", branch.version)
    for handle in (branch, below):
        # a data file and a deletion file of main, and one of the branch above
        assert handle.deepen().files_copied == (2 if handle is branch else 3)
        assert bases_of(handle) == set()
        assert all_of(handle) == wanted
    opened = lance.dataset(ds.uri).checkout_version(("b/c", None))
    assert opened.to_table()["x"].to_pylist() == [row["x"] for row in wanted]
    for file in (tmp_path / "d/data").iterdir():
        file.unlink()
    assert all_of(ds.checkout_version(("b", None))) == wanted
    assert below.diff(("b", None)).counts.unchanged == len(wanted)


def test_base_paths_and_blobs(tmp_path: Path) -> None:
    blobs = [b"small", None, b"p" * 100_000, b"d" * 5_000_000]
    schema = pa.schema([pa.field("k", pa.int64()), lk.blob_field("b")])
    table = pa.table([pa.array(range(4)), lk.blob_array(blobs)], schema)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    bases = [lk.DatasetBasePath(str(tmp_path / name), name=name) for name in ("one", "two")]
    ds = lk.write_dataset(
        table, tmp_path / "d", initial_bases=bases, target_bases=["one"], primary_key="k"
    )
    ds.insert(table.slice(0, 1), target_bases=["two"])
    assert ds.deepen().files_copied == 2
    assert bases_of(ds) == set()
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "two")
    opened = lance.dataset(ds.uri)
    assert ds.read_blobs("b", indices=range(5)) == opened.read_blobs("b", indices=range(5))
    found = ds.read_blobs("b", indices=range(5))
    assert [blob for _, blob in found] == [*blobs, blobs[0]]


def test_blobs_beside_their_files(tmp_path: Path) -> None:
    blobs = [b"small", None, b"p" * 100_000, b"d" * 5_000_000]
    table = pa.table(
        [pa.array(range(4)), lk.blob_array(blobs)],
        pa.schema([pa.field("k", pa.int64()), lk.blob_field("b")]),
    )
    source = lance.write_dataset(table, str(tmp_path / "d"), data_storage_version="2.2")
    wanted = source.read_blobs("b", indices=range(4))
    beside = list((tmp_path / "d/data").glob("*/*.blob"))
    assert beside
    clone = lk.dataset(tmp_path / "d").shallow_clone(tmp_path / "c", 1)
    assert clone.deepen().files_copied == 1 + len(beside)
    shutil.rmtree(tmp_path / "d")
    assert clone.read_blobs("b", indices=range(4)) == wanted
    assert lance.dataset(clone.uri).read_blobs("b", indices=range(4)) == wanted


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Two base paths, and the table itself, have files of one name, put there by hand."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    bases = [lk.DatasetBasePath(str(tmp_path / name), name=name) for name in ("one", "two")]
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d", initial_bases=bases)
    (own,) = ds._snapshot.manifest.fragments
    name = own.files[0].path
    ids = {base.name: id_ for id_, base in ds.base_paths().items()}
    for place, values in (("one", [3, 4]), ("two", [5, 6])):
        other = lk.write_dataset({"x": values}, tmp_path / f"source of {place}")
        (made,) = other._snapshot.manifest.fragments
        shutil.copy(
            tmp_path / f"source of {place}/data" / made.files[0].path, tmp_path / place / name
        )
        moved = replace(made.files[0], path=name, base_id=ids[place])
        operation = lk.LanceOperation.Append([replace(made, files=(moved,))])
        ds = lk.LanceDataset.commit(ds, operation, read_version=ds.version)
    assert ds.to_table()["x"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert ds.deepen().files_copied == 2
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "two")
    ds.validate(deep=True)
    assert ds.to_table()["x"].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(40)}, tmp_path / "d", max_rows_per_file=10)
    clone = ds.shallow_clone(tmp_path / "c", 1)
    wanted = all_of(clone)
    (tmp_path / "c/data").mkdir()
    names = [one.files[0].path for one in clone._snapshot.manifest.fragments]
    shutil.copy(tmp_path / "d/data" / names[0], tmp_path / "c/data")
    whole = (tmp_path / "d/data" / names[1]).read_bytes()
    (tmp_path / "c/data" / names[1]).write_bytes(whole[:-1])
    shutil.copy(tmp_path / "d/data" / names[2], tmp_path / "c/data")
    os.utime(tmp_path / "c/data" / names[2], (0, 0))  # a cleanup may be about to take it
    result = clone.deepen()
    assert (result.files_found, result.files_copied) == (1, 3)
    shutil.rmtree(tmp_path / "d")
    assert all_of(clone) == theirs_of(tmp_path / "c") == wanted
    assert lance.dataset(str(tmp_path / "c")).to_table()["x"].to_pylist() == list(range(40))


@pytest.mark.torture
@pytest.mark.parametrize("mode", [Mode.REFUSED, Mode.LOST, Mode.TORN, Mode.CRASH])
def test_killed_at_each_call(tmp_path: Path, mode: Mode, whole: bool) -> None:
    """The table is as it was, or whole; the next call makes it whole."""
    with lk.options(fsync=False, cache_bytes=0):
        ds = lk.write_dataset({"x": range(6)}, tmp_path / "d", max_rows_per_file=3)
        ds.delete("x = 1")
        wanted = ds.to_table()
        first = Faults()
        clone = ds.shallow_clone(tmp_path / "first", ds.version)
        with injected(first):
            lk.dataset(clone.uri).deepen()
        step = 1 if whole else 3
        for number in range(1 + list(Mode).index(mode) % step, len(first.calls) + 1, step):
            path = tmp_path / f"c{number}"
            ds.shallow_clone(path, ds.version)
            failing = injected(Faults(fail_at=number, mode=mode))
            with failing, suppress(Crash, OSError, lk.errors.LancekitError):
                lk.dataset(path).deepen()
            found = lk.dataset(path)
            assert found.to_table() == lance.dataset(str(path)).to_table() == wanted
            assert found.version in (ds.version, ds.version + 1)
            found.deepen()
            assert bases_of(found) == set()
            assert found.to_table() == lance.dataset(str(path)).to_table() == wanted
            found.validate(deep=True)


def test_others_write_meanwhile(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(6)}, tmp_path / "d", max_rows_per_file=3)
    clone = ds.shallow_clone(tmp_path / "c", 1)
    stale = lk.dataset(clone.uri)
    lk.dataset(clone.uri).delete("x = 1")
    lance.write_dataset(pa.table({"x": [9]}), clone.uri, mode="append")
    result = stale.deepen()
    assert result.attempts == 2
    assert result.files_found == 2
    assert bases_of(stale) == set()
    assert stale.to_table()["x"].to_pylist() == [0, 2, 3, 4, 5, 9]
    clone.checkout_latest()
    with pytest.raises(lk.errors.ReadOnlyError):
        clone.at(1).deepen()


def test_two_at_once(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(300)}, tmp_path / "d", max_rows_per_file=5)
    clones = [ds.shallow_clone(tmp_path / f"c{n}", 1) for n in range(4)]
    program = "import sys, lancekit as lk\nfor uri in sys.argv[1:]:\n    lk.dataset(uri).deepen()"
    ended = at_once([(program, *(clone.uri for clone in clones))] * 2)
    assert ended == [("", "")] * 2
    assert {lk.dataset(clone.uri).version for clone in clones} == {2}
    shutil.rmtree(tmp_path / "d")
    for clone in clones:
        clone.checkout_latest()
        assert bases_of(clone) == set()
        assert lance.dataset(clone.uri).to_table()["x"].to_pylist() == list(range(300))


def test_what_is_missing_or_changed_is_named(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(6)}, tmp_path / "d", max_rows_per_file=3)
    clone = ds.shallow_clone(tmp_path / "c", 1)
    first, second = (one.files[0].path for one in clone._snapshot.manifest.fragments)
    data = (tmp_path / "d/data" / first).read_bytes()
    (tmp_path / "d/data" / first).unlink()
    with pytest.raises(CorruptFileError, match=first):
        clone.deepen()
    (tmp_path / "d/data" / first).write_bytes(data + b"x")
    with pytest.raises(CorruptFileError, match=first):
        clone.deepen()
    assert clone.version == clone.latest_version == 1
    (tmp_path / "d/data" / first).write_bytes(data)
    assert clone.deepen().files_found <= 1
    assert second


def test_constraints_do_not_mind(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(6)}, tmp_path / "d")
    ds.constraints.add("positive", "x > 0", existing="allow")
    ds.constraints.add("few", "count(*) < 3", existing="allow")
    clone = ds.shallow_clone(tmp_path / "c", ds.version)
    clone.deepen()
    assert bases_of(clone) == set()
    with pytest.raises(ConstraintViolationError):
        clone.update({"x": "x + 1"})


def test_in_one_bucket_the_server_copies(tmp_path: Path, s3: S3Server) -> None:
    root, options = f"s3://{s3.bucket}/{tmp_path.name}", s3.storage_options
    rows = pa.table({"x": pa.array(range(200_000))})
    ds = lk.write_dataset(rows, f"{root}/d", storage_options=options)
    ds.delete("x < 5")
    ds.create_branch("b")
    for clone, name in (
        (ds.shallow_clone(f"{root}/deep/c", ds.version, storage_options=options), "deep/c"),
        (ds.checkout_version(("b", None)), "d/tree/b"),
    ):
        s3.log.clear()
        assert clone.deepen().files_copied == 2
        puts = [path for method, path in s3.log if method == "PUT" and "/data/" in path]
        assert len(puts) == 1
        # of the data file no more was read than its end
        asked = [path for method, path in s3.log if method == "GET" and "/data/" in path]
        assert len(asked) < 3
        assert bases_of(clone) == set()
        assert clone.count_rows("x < 10") == 5
        assert f"/{name}/data/" in puts[0]
    lk.LanceDataset.drop(f"{root}/d", storage_options=options)
    found = lance.dataset(f"{root}/deep/c", storage_options=options)
    assert found.to_table()["x"].to_pylist() == list(range(5, 200_000))


def test_from_store_to_store(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(6)}, f"memory://{tmp_path.name}/d", max_rows_per_file=3)
    near = ds.shallow_clone(f"memory://{tmp_path.name}/c", 1)
    assert near.deepen().files_copied == 2
    lk.LanceDataset.drop(f"memory://{tmp_path.name}/d")
    assert near.to_table()["x"].to_pylist() == list(range(6))
