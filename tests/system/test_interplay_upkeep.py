"""What restores, cleanups, compactions and writers do to other features (docs/interplay.md)."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.details import merged_generations
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit.errors import (
    IncompatibleConflictError,
    InvalidArgumentError,
    LancekitError,
    VersionNotFoundError,
)
from tests.support.interplay import (
    BLOBS,
    IDS,
    KEY,
    NOW,
    SCHEMA,
    blob_rows,
    blobs,
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

# ---- restore


def test_a_restore_over_a_compaction_brings_row_ids_back(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = module.write_dataset(
            rows(*range(12)), str(home / "t"), max_rows_per_file=3, enable_stable_row_ids=True
        )
        ds.update({"v": "'u'"}, where="k = 5")
        ds.delete("k < 2")
        second = read(home / "t", 2, ["k", "v", *IDS])
        ds.optimize.compact_files()
        ds.checkout_version(2).restore()
        assert read(home / "t", None, ["k", "v", *IDS]) == second
        ds.checkout_latest()
        ds.insert(rows(50))
        return read(home / "t", None, ["k", "v", *IDS])

    (*_, newest) = told(tmp_path, story)
    assert newest[2] == 12  # no id is given twice


def test_a_restored_version_outlives_its_cleanup(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = module.write_dataset(rows(1, 2), str(home / "t"))
        ds.add_columns({"n": "k + 1"})
        ds = module.write_dataset(rows(3), ds, mode="overwrite")
        ds.checkout_version(2).restore()
        ds = module.dataset(str(home / "t"))
        ds.cleanup_old_versions(NOW, delete_unverified=True)
        with pytest.raises(Exception, match=r"(?i)version|not found"):
            ds.checkout_version(2).restore()
        return read(home / "t"), files(home), [v["version"] for v in ds.versions()]

    found, _, versions = told(tmp_path, story)
    assert found == [(1, "x1", 2), (2, "x2", 3)]
    assert versions == [4]
    with pytest.raises(VersionNotFoundError):
        lk.dataset(tmp_path / "lancekit" / "t").checkout_version(2)


def test_a_restore_to_before_a_base_path(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = module.write_dataset(rows(1, 2), str(home / "t"))
        (home / "p").mkdir()
        base = module.DatasetBasePath(str(home / "p"), "p")
        ds.add_bases([base])
        module.write_dataset(rows(3), str(home / "t"), mode="append", target_bases=["p"])
        with_base = keys(home / "t")
        module.dataset(str(home / "t")).checkout_version(1).restore()
        ds = module.dataset(str(home / "t"))
        gone = [b.name for b in ds.base_paths().values()], keys(home / "t")
        ds.checkout_version(3).restore()
        ds = module.dataset(str(home / "t"))
        return with_base, gone, [b.name for b in ds.base_paths().values()], keys(home / "t")

    _, (_, before), names, after = told(tmp_path, story)
    assert (before, names, after) == ([1, 2], ["p"], [1, 2, 3])


def test_a_restore_brings_blobs_back(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = blob_rows(module, home / "t")
        ds.delete("k > 2")
        ds.optimize.compact_files()
        ds.drop_columns(["b"])
        ds.checkout_version(1).restore()
        module.dataset(str(home / "t")).cleanup_old_versions(NOW, delete_unverified=True)
        return blobs(home / "t"), files(home)

    found, _ = told(tmp_path, story)
    assert found == dict(enumerate(BLOBS))


def test_a_merge_meets_a_restore(tmp_path: Path) -> None:
    """Keys that a restore brought back are found, or the merge is refused: none is there twice."""
    ds = lk.write_dataset(rows(1, 2), tmp_path / "t", primary_key="k")
    ds.delete("k = 2")
    late = lk.dataset(tmp_path / "t")
    lance.dataset(ds.uri).checkout_version(1).restore()
    with pytest.raises(IncompatibleConflictError, match="restored"):
        upsert(late).execute(rows(2, 3, text="m"))
    fresh = lk.dataset(tmp_path / "t")
    upsert(fresh).execute(rows(2, 3, text="m"))
    assert read(ds.uri) == [(1, "x1"), (2, "m2"), (3, "m3")]


def test_a_restore_brings_an_index_and_its_column_back(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        indexed(home / "t")
        ds = module.dataset(str(home / "t"))
        ds.drop_columns(["k"])
        ds.add_columns({"k": "1"})
        ds.checkout_version(2).restore()
        return [looked_up(ds.uri, key) for key in (1, 5, 50)], keys(home / "t")

    assert told(tmp_path, story) == ([1, 1, 0], [*range(12)])


# ---- cleanup


def test_a_cleanup_and_files_in_base_paths(tmp_path: Path) -> None:
    """They stay, needed or not: another dataset may have them, too."""

    def story(module: Any, home: Path) -> Any:
        ds = with_bases(module, home)
        ds.create_branch("b")
        ds = module.write_dataset(rows(20), ds, mode="overwrite", target_bases=["p"])
        ds = module.write_dataset(rows(21), ds, mode="overwrite", target_bases=["q"])
        ds.cleanup_old_versions(NOW, delete_unverified=True)
        held = keys(home / "t", ("b", None))
        ds.branches.delete("b")
        ds.cleanup_old_versions(NOW, delete_unverified=True)
        return held, keys(home / "t"), files(home)

    held, newest, left = told(tmp_path, story)
    assert (held, newest) == ([*range(12)], [21])
    assert (left["p .lance"], left["q/data .lance"]) == (2, 2)  # all that was ever there


def test_a_cleanup_takes_the_files_of_old_columns(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = module.write_dataset(
            rows(*range(6)), str(home / "t"), max_rows_per_file=3, enable_stable_row_ids=True
        )
        ds.add_columns({"n": "k + 1"})
        ds.alter_columns({"path": "n", "data_type": pa.int32()})
        ds.alter_columns({"path": "v", "name": "w"})
        ds.update({"w": "'u'"}, where="k = 1")
        ds.drop_columns(["n"])
        before = read(home / "t", None, ["k", "w", *IDS[:2]])
        assert ds.cleanup_old_versions(NOW, delete_unverified=True).data_files_removed > 0
        assert read(home / "t", None, ["k", "w", *IDS[:2]]) == before
        return before, files(home)

    told(tmp_path, story)


def test_a_cleanup_takes_blobs_that_lie_beside(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = blob_rows(module, home / "t")
        before = files(home)[" .blob"]
        ds.delete("k > 2")
        ds.optimize.compact_files()
        ds.cleanup_old_versions(NOW, delete_unverified=True)
        return before > 0, blobs(home / "t"), files(home)[" .blob"]

    assert told(tmp_path, story)[2] == 0


# ---- compaction, columns, row ids


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_are_compacted(tmp_path: Path, version: str) -> None:
    """Whatever the format keeps them as: in the data file, or beside it."""

    def story(module: Any, home: Path) -> Any:
        if version == "2.2":
            ds = blob_rows(module, home / "t", enable_stable_row_ids=True)
        else:
            field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
            schema = pa.schema([pa.field("k", pa.int64()), field])
            table = pa.table({"k": range(6), "b": BLOBS}, schema=schema)
            options = {"max_rows_per_file": 3, "enable_stable_row_ids": True}
            ds = module.write_dataset(table, str(home / "t"), data_storage_version="2.1", **options)
        ds.delete("k IN (1, 5)")
        ds.optimize.compact_files()
        assert len(ds.get_fragments()) == 1
        taken = [file.readall() for file in ds.take_blobs("b", ids=[0, 3, 4])]
        return blobs(home / "t"), taken

    found, taken = told(tmp_path, story)
    assert found == {k: v for k, v in enumerate(BLOBS) if k not in (1, 5)}
    assert taken == [BLOBS[0], BLOBS[3], BLOBS[4]]


def test_columns_beside_blobs_change(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = blob_rows(module, home / "t")
        ds.add_columns({"n": "k + 1"})
        ds.alter_columns({"path": "k", "name": "key"}, {"path": "n", "name": "k"})
        ds.drop_columns(["key"])
        found = blobs(home / "t")
        with pytest.raises((LancekitError, OSError, ValueError, RuntimeError)):
            ds.alter_columns({"path": "b", "data_type": pa.large_string()})
        ds.drop_columns(["b"])
        return found, read(home / "t")

    found, _ = told(tmp_path, story)
    assert found == dict(enumerate(BLOBS, 1))


def test_a_key_column_is_renamed(tmp_path: Path) -> None:
    """It stays the key, whatever it is called, and is guarded."""

    def story(module: Any, home: Path) -> Any:
        table = rows(1, 2).cast(pa.schema([SCHEMA.field(0).with_metadata(KEY), SCHEMA[1]]))
        ds = module.write_dataset(table, str(home / "t"))
        ds.alter_columns({"path": "k", "name": "id"})
        late = module.dataset(str(home / "t"))
        for handle, text in ((ds, "first"), (late, "second")):
            merge = handle.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(
                pa.table({"id": [2, 9], "v": [text] * 2}, schema=handle.schema)
            )
        return read(home / "t")

    assert told(tmp_path, story) == [(1, "x1"), (2, "second"), (9, "second")]


def test_a_key_column_is_dropped(tmp_path: Path) -> None:
    """Then there is no key, and a merge has to be told what to match by."""
    ds = lk.write_dataset(rows(1, 2), tmp_path / "t", primary_key="k")
    with pytest.raises(InvalidArgumentError, match="primary key"):
        ds.alter_columns({"path": "k", "nullable": True})
    ds.drop_columns(["k"])
    with pytest.raises(InvalidArgumentError, match="primary key"):
        ds.merge_insert()
    result = ds.merge_insert("v").when_not_matched_insert_all().execute({"v": ["x2", "new"]})
    assert (result.num_inserted_rows, result.key_guard) == (1, None)
    assert read(ds.uri) == [("new",), ("x1",), ("x2",)]


@pytest.mark.parametrize("place", ["bases", "branch", "clone"])
def test_whole_columns_are_replaced(tmp_path: Path, place: str) -> None:
    ds = with_bases(lk, tmp_path, enable_stable_row_ids=True)
    ds.delete("k = 1")
    handle, uri, at = ds, ds.uri, None
    if place == "branch":
        handle, at = ds.create_branch("b"), ("b", None)
    elif place == "clone":
        handle, uri = ds.shallow_clone(tmp_path / "c", 2), str(tmp_path / "c")
    handle.replace_columns({"v": "concat(v, '!')"})
    handle.replace_columns({"v": "concat(v, '?')"})
    if place == "bases":
        places = [[file.base_id for file in f.data_files()] for f in handle.get_fragments()]
        assert places == [[1, None], [2, None]]
    handle.optimize.compact_files()
    handle.cleanup_old_versions(NOW, delete_unverified=True)
    expected = [(k, f"x{k}!?", k) for k in range(12) if k != 1]
    assert read(uri, at, ["k", "v", "_rowid"]) == expected
    if place != "bases":
        assert (0, "x0") in read(ds.uri)


def test_row_ids_of_rows_in_base_paths(tmp_path: Path) -> None:
    def story(module: Any, home: Path) -> Any:
        ds = with_bases(module, home, enable_stable_row_ids=True)
        ds.update({"v": "'u'"}, where="k = 4")
        upsert(ds).target_bases(["q"]).execute(rows(5, 20, text="m"))
        ds.delete("k IN (6, 20)")
        assert list((home / "t" / "_deletions").iterdir())
        assert not list(home.glob("[pq]/**/*.arrow"))
        ds.optimize.compact_files()
        assert [f.data_files()[0].base_id for f in ds.get_fragments()] == [None]
        ds.insert(rows(30))
        return read(home / "t", None, ["k", "v", *IDS])

    found = told(tmp_path, story)
    assert [row[2] for row in found] == [row[0] for row in found[:-1]] + [13]


def test_a_table_with_blobs_and_an_index(tmp_path: Path) -> None:
    ds = blob_rows(lk, tmp_path / "t")
    theirs: Any = lance.dataset(ds.uri)
    theirs.create_scalar_index("k", "BTREE")
    ds.checkout_latest()
    ds.delete("k = 1")
    ds.update({"k": "k + 100"}, where="k = 3")
    assert [looked_up(ds.uri, key) for key in (0, 1, 3, 4, 103)] == [1, 0, 0, 1, 1]
    assert blobs(ds.uri)[103] == BLOBS[3]


def test_blobs_in_base_paths(tmp_path: Path) -> None:
    """Those beside a data file are in its folder, wherever that is."""

    def story(module: Any, home: Path) -> Any:
        (home / "p").mkdir()
        base = lance.DatasetBasePath(str(home / "p"), "p")
        options: Any = {"initial_bases": [base], "target_bases": ["p"]}
        ds = blob_rows(module, home / "t", **options)
        before = blobs(home / "t"), files(home)[" .blob"], len(list((home / "p").rglob("*.blob")))
        ds.delete("k = 1")
        ds.optimize.compact_files()
        ds.deep_clone(str(home / "d"), ds.version)
        found = blobs(home / "t")
        shutil.rmtree(home / "t")
        shutil.rmtree(home / "p")
        return before, found, blobs(home / "d")

    (whole, beside, there), found, cloned = told(tmp_path, story)
    assert whole == dict(enumerate(BLOBS))
    assert beside == there > 0
    assert found == cloned == {k: v for k, v in whole.items() if k != 1}


# ---- writers


def test_writers_of_a_clone_meet(tmp_path: Path) -> None:
    """They meet each other, and nobody who writes to the source."""
    ds = lk.write_dataset(rows(1), tmp_path / "t", primary_key="k")
    late = lk.dataset(tmp_path / "t")
    ds.shallow_clone(tmp_path / "c", 1)
    first, second = lk.dataset(tmp_path / "c"), lk.dataset(tmp_path / "c")
    upsert(ds).execute(rows(5, text="source"))
    assert upsert(first).execute(rows(5, text="first")).attempts == 1
    assert upsert(second).execute(rows(5, text="second")).attempts == 2
    assert upsert(late).execute(rows(5, text="late")).attempts == 2
    assert read(tmp_path / "c") == [(1, "x1"), (5, "second5")]
    assert read(tmp_path / "t") == [(1, "x1"), (5, "late5")]


def test_writers_of_a_branch_meet(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows(1), tmp_path / "t", primary_key="k")
    first = ds.create_branch("b")
    second = lk.dataset(tmp_path / "t").checkout_version(("b", None))
    assert upsert(ds).execute(rows(5, text="main")).attempts == 1
    assert upsert(first).execute(rows(5, text="first")).attempts == 1
    assert upsert(second).execute(rows(5, text="second")).attempts == 2
    assert read(tmp_path / "t", ("b", None)) == [(1, "x1"), (5, "second5")]
    assert read(tmp_path / "t") == [(1, "x1"), (5, "main5")]


def test_writers_of_blobs_meet(tmp_path: Path) -> None:
    ds = blob_rows(lk, tmp_path / "t")
    appends, updates, compacts = (lk.dataset(tmp_path / "t") for _ in range(3))
    ds.delete("k = 1")
    more = pa.table([pa.array([9]), lk.blob_array([b"nine"])], schema=ds.schema)
    appends.insert(more)
    assert updates.update({"k": "k + 100"}, where="k = 4").attempts == 1
    compacts.optimize.compact_files()
    wanted = {k: v for k, v in enumerate(BLOBS) if k not in (1, 4)} | {9: b"nine", 104: BLOBS[4]}
    assert blobs(ds.uri) == wanted


# ---- Spark


@pytest.mark.spark
@pytest.mark.parametrize("place", ["branch", "clone"])
def test_work_on_spark_on_a_branch_or_a_clone(tmp_path: Path, spark: Any, place: str) -> None:
    """The index of the source stays right, and the source as it is."""
    found = []
    for engine in ("local", "spark"):
        ds = indexed(tmp_path / engine / "t")
        there = tmp_path / engine / "c"
        if place == "branch":
            handle, uri, at = ds.create_branch("b"), ds.uri, ("b", None)
        else:
            handle, uri, at = ds.shallow_clone(there, ds.version), str(there), None
        with lk.options(engine=engine):
            handle.delete("k = 0")
            handle.update({"v": "'u'"}, where="k = 5")
            assert upsert(handle).execute(rows(6, 60, text="m")).engine == engine
            handle.optimize.compact_files()
        assert [looked_up(uri, key, at) for key in (0, 2, 5, 6, 60)] == [0, 1, 1, 1, 1]
        assert keys(ds.uri) == [*range(12)]
        found.append(read(uri, at))
    assert found[0] == found[1]


# ---- progress of write-ahead logs


@pytest.mark.parametrize("stable", [False, True])
def test_the_progress_of_a_log_goes_with_the_version(tmp_path: Path, stable: bool) -> None:
    shard = uuid.UUID(int=7)

    def progress(ds: lk.LanceDataset) -> Any:
        found = [index for index in ds._snapshot.indices if index.name == MEM_WAL]
        return merged_generations(found[0].index_details)[shard] if found else None

    def merged(ds: lk.LanceDataset, generation: int) -> lk.LanceDataset:
        made = lk.LanceOperation.CompactedSsTable(shard, generation)
        operation = lk.LanceOperation.UpdateMemWalState([made])
        return lk.LanceDataset.commit(ds, operation, read_version=ds.version)

    path = tmp_path / "t"
    options: Any = {"max_rows_per_file": 2, "enable_stable_row_ids": stable}
    ds = lk.write_dataset(rows(*range(6)), path, **options)
    ds.initialize_mem_wal()
    ds = merged(ds, 3)
    ds.tags.create("three", ds.version)
    steps: dict[str, Callable[[], Any]] = {
        "delete": lambda: ds.delete("k = 1"),
        "add": lambda: ds.add_columns(pa.schema({"n": pa.int64()})),
        "drop": lambda: ds.drop_columns(["v"]),
        "base": lambda: ds.add_bases([lk.DatasetBasePath(str(tmp_path / "p"), "p")]),
        "merge": lambda: upsert(ds).execute({"k": [2, 9], "n": [0, 0]}),
        "compact": ds.optimize.compact_files,
        "cleanup": lambda: ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False),
    }
    for name, step in steps.items():
        step()
        assert progress(ds) == 3, name
    branch = ds.create_branch("b")
    shallow = ds.shallow_clone(tmp_path / "c", ds.version)
    deep = ds.deep_clone(tmp_path / "d", ds.version)
    assert [progress(handle) for handle in (branch, shallow, deep)] == [3, 3, 3]
    branch, ds = merged(branch, 4), merged(ds, 5)
    assert [progress(handle) for handle in (branch, ds, shallow)] == [4, 5, 3]
    ds.checkout_version("three").restore()
    ds = lk.dataset(path)
    assert (progress(ds), keys(path)) == (3, [*range(6)])  # rows and progress go back together
    ds = lk.write_dataset(rows(1), ds, mode="overwrite")
    assert (progress(ds), keys(path)) == (None, [1])
