"""Rows with new columns, and writes by old handles, beside what else a table has: the last table
of docs/interplay.md."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    CommitConflictError,
    ConstraintViolationError,
    CorruptFileError,
    InvalidArgumentError,
    MergeConflictError,
    SchemaMismatchError,
)
from tests.support.interplay import (
    NOW,
    Cells,
    blob_rows,
    blobs,
    facts,
    indexed,
    keys,
    looked_up,
    read,
    rows,
    table,
    told,
    upsert,
    with_bases,
)

new, old = Cells(), Cells()


# ---- rows with new columns


def widen(ds: lk.LanceDataset, keys: list[int], **columns: list[Any]) -> Any:
    """Update rows 0 to 5 and insert other rows, with new columns."""
    merge = ds.merge_insert("k", schema_mode="merge")
    merge = merge.when_matched_update_all().when_not_matched_insert_all()
    return merge.execute({"k": keys, **columns})


def values(uri: str, column: str, at: Any = None) -> dict[int, Any]:
    """Return the values of a column by key, without nulls."""
    return {k: value for k, value in read(uri, at, ["k", column]) if value is not None}


@new.shows("Branches", "Tags", "Clones")
def _(home: Path) -> None:
    ds = table(home)
    ds.tags.create("t")
    ds.shallow_clone(home / "c")
    branch, clone = ds.create_branch("b"), lk.dataset(home / "c")
    widen(branch, [0, 9], n=[5, 6])
    widen(clone, [0, 9], n=[5, 6])
    assert values(ds.uri, "n", ("b", None)) == values(clone.uri, "n") == {0: 5, 9: 6}
    assert lk.dataset(ds.uri).columns == ["k", "v"]
    widen(ds, [1], n=["text"])
    assert values(ds.uri, "n") == {1: "text"}
    assert [len(row) for row in read(ds.uri, "t")] == [2] * 6


@new.shows("Restore", "Cleanup")
def _(home: Path) -> None:
    ds = table(home)
    before = facts(ds.uri)
    widen(ds, [0, 9], n=[5, 6])
    ds.tags.create("wide")
    ds.undo()
    assert facts(ds.uri) == before
    widen(ds, [1, 8], n=["text", None])
    assert facts(ds.uri)[-1][1] == 7  # the row id of row 9 is not used again
    ds.cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)
    assert values(ds.uri, "n") == {1: "text"}
    lk.dataset(ds.uri, "wide").restore()
    assert values(ds.uri, "n") == {0: 5, 9: 6}


@new.shows("Compaction", "Deletions", "Cache")
def _(home: Path) -> None:
    ds = table(home)
    ds.delete("k = 2")
    with lk.options(cache_bytes=0):
        widen(ds, [0, 9], n=[5, 6])
        assert keys(ds.uri) == [0, 1, 3, 4, 5, 9]
    expected = read(ds.uri)
    for module in (lance, lk):
        opened: Any = module.dataset(ds.uri)
        opened.optimize.compact_files()
        widen(lk.dataset(ds.uri), [0], n=[5])
        assert read(ds.uri) == expected


@new.shows("Schema changes")
def _(home: Path) -> None:
    ds = table(home)
    widen(ds, [0], n=[5])
    ds.alter_columns({"path": "n", "name": "m"})
    ds.insert({"k": [9], "n": [1.5]}, schema_mode="merge")
    assert (values(ds.uri, "m"), values(ds.uri, "n")) == ({0: 5}, {9: 1.5})
    ds.drop_columns(["m"])
    widen(ds, [1], m=["text"])
    assert (values(ds.uri, "m"), values(ds.uri, "n")) == ({1: "text"}, {9: 1.5})


@new.shows("Stable row ids", "Diffs", "Histories")
def _(home: Path) -> None:
    ds = table(home)
    before = facts(ds.uri)
    widen(ds, [0, 9], n=[5, 6])
    assert facts(ds.uri) == [(0, 0, 1, 2), *before[1:], (9, 6, 2, 2)]
    found = ds.diff(1)
    assert (found.counts.inserted, found.counts.updated) == (1, 1)
    assert "1 updated (1 only in added columns)" in repr(found)
    assert ds.column_history("n")[0].version == 2
    assert ds.versions()[-1].operation == "Merge"
    lance.write_dataset(
        pa.table({"k": [20], "v": ["x"], "n": [1]}, ds.schema), ds.uri, mode="append"
    )
    assert facts(ds.uri)[-1] == (20, 7, 3, 3)


@new.shows("Base paths")
def _(home: Path) -> None:
    ds = with_bases(lk, home)
    count = len(list((home / "p").iterdir()))
    added = {"k": [98], "n": [1]}
    lk.write_dataset(added, ds, mode="append", schema_mode="merge", target_bases=["p"])
    assert len(list((home / "p").iterdir())) == count + 1
    assert len(keys(ds.uri)) == 13
    assert values(ds.uri, "n") == {98: 1}


@new.shows("Keys")
def _(home: Path) -> None:
    ds = table(home)
    stale = lk.dataset(ds.uri)
    theirs: Any = lance.dataset(ds.uri)
    widen(ds, [9], n=[1])
    upsert(stale).execute(rows(9, text="y"))
    upsert(theirs).execute(rows(9, text="z"))
    assert read(ds.uri)[-1] == (9, "z9", 1)
    assert keys(ds.uri) == [0, 1, 2, 3, 4, 5, 9]


@new.shows("Blobs")
def _(home: Path) -> None:
    ds = blob_rows(lk, home / "t")
    expected = blobs(ds.uri)
    schema = pa.schema([pa.field("k", pa.int64()), lk.blob_field("c")])
    ds.insert(pa.table([[10], lk.blob_array([b"new"])], schema), schema_mode="merge")
    assert blobs(ds.uri) == {**expected, 10: None}
    for module in (lance, lk):
        opened: Any = module.dataset(ds.uri)
        found = opened.to_table(columns=["c"], blob_handling="all_binary")
        assert found["c"].to_pylist() == [None] * 6 + [b"new"]
    widen(ds, [0], n=[5])
    assert blobs(ds.uri) == {**expected, 10: None}


@new.shows("Indices")
def _(home: Path) -> None:
    ds = indexed(home / "t")
    theirs: Any = lance.dataset(ds.uri)
    theirs.create_scalar_index("v", "BTREE")
    ds = lk.dataset(ds.uri)
    widen(ds, [0, 60], n=[5, 6])
    merge = ds.merge_insert("k", schema_mode="merge").write_mode("rewrite_columns")
    merge.when_matched_update_all().execute({"k": [3], "v": ["new"], "a": [1]})
    assert [looked_up(ds.uri, key) for key in (0, 3, 5, 60, 61)] == [1, 1, 1, 1, 0]
    assert [looked_up(ds.uri, f"'{v}'", column="v") for v in ("x0", "new", "x3")] == [1, 1, 0]
    assert ds.count_rows("v = 'new'") == 1


@new.shows("Merges of branches")
def _(home: Path) -> None:
    ds = table(home)
    branch = ds.create_branch("b")
    widen(branch, [0, 9], n=[5, 6])
    widen(ds, [1, 8], n=[7, 8])
    ds.branches.merge("b")
    assert values(ds.uri, "n") == {0: 5, 1: 7, 8: 8, 9: 6}
    assert keys(ds.uri) == [0, 1, 2, 3, 4, 5, 8, 9]
    assert [updated for *_, updated in facts(ds.uri)] == [3, 2, 1, 1, 1, 1, 2, 3]
    branch = ds.create_branch("c")
    widen(branch, [2], n=[1], m=["text"])
    widen(ds, [2], n=[2], m=[9])
    with pytest.raises(SchemaMismatchError, match="'m' was added as int64 here and added as str"):
        ds.branches.merge("c")
    ds.branches.merge("c", conflicts="ours")
    assert (values(ds.uri, "n")[2], values(ds.uri, "m")) == (2, {2: 9})
    branch = ds.create_branch("e")
    widen(branch, [4], q=[1])
    widen(ds, [5], n=[1])
    before = facts(ds.uri)
    ds.branches.merge("e")
    assert (values(ds.uri, "q"), facts(ds.uri)) == ({4: 1}, before)
    branch = ds.create_branch("d")
    widen(branch, [3], n=[1])
    widen(ds, [3], n=[2])
    with pytest.raises(MergeConflictError, match="k = 3: n null / 2 / 1"):
        ds.branches.merge("d")


@new.shows("Constraints")
def _(home: Path) -> None:
    ds = table(home)
    with pytest.raises(lk.errors.PredicateError, match="no column 'n'"):
        ds.constraints.add("positive", "n > 0")
    widen(ds, [0], n=[5])
    ds.constraints.add("positive", lk.col("n") > 0)
    for write in (
        lambda: widen(ds, [9], n=[-1], m=[1]),
        lambda: ds.insert({"k": [9], "n": [-1], "m": [1]}, schema_mode="merge"),
    ):
        with pytest.raises(ConstraintViolationError, match="'positive'"):
            write()
    assert ds.columns == ["k", "v", "n"]
    widen(ds, [9], m=[1])
    assert values(ds.uri, "m") == {9: 1}


@new.shows("Concurrent writers")
def _(home: Path) -> None:
    ds = table(home)
    stale, again, adder = (lk.dataset(ds.uri) for _ in range(3))
    theirs: list[Any] = [lance.dataset(ds.uri) for _ in range(4)]
    widen(ds, [0], n=[5])
    with pytest.raises(CommitConflictError, match="changed the columns"):
        stale.insert({"k": [10], "n": [1]}, schema_mode="merge")
    widen(again, [1, 11], n=[6, 7])
    with pytest.raises(InvalidArgumentError, match="'n' already exists"):
        adder.add_columns({"n": "k"})
    lance.write_dataset(rows(12), theirs[0], mode="append")
    theirs[1].update({"v": "'new'"}, where="k = 3")
    theirs[2].delete("k = 4")
    with pytest.raises(OSError, match="preempted"):
        theirs[3].optimize.compact_files()
    assert keys(ds.uri) == [0, 1, 2, 3, 5, 11, 12]
    assert values(ds.uri, "v")[3] == "new"
    assert values(ds.uri, "n") == {0: 5, 1: 6, 11: 7}


# ---- writes by handles at old versions


@contextmanager
def warned(place: str = "main") -> Iterator[None]:
    with pytest.warns(UserWarning, match=f"This handle is at {place}"):
        yield


@contextmanager
def silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def first(ds: lk.LanceDataset) -> lk.LanceDataset:
    return lk.dataset(ds.uri, 1)


@old.shows("Branches", "Tags")
def _(home: Path) -> None:
    ds = table(home)
    branch = ds.create_branch("b")
    branch.insert(rows(7))
    branch.tags.create("t", ("b", branch.version))
    branch.insert(rows(8))
    with warned("b"):
        lk.dataset(ds.uri, "t").insert(rows(9))
    assert keys(ds.uri, ("b", None))[-3:] == [7, 8, 9]
    with silent():
        lk.dataset(ds.uri, "t").create_branch("c").insert(rows(10))
        lk.dataset(ds.uri).branches["b"].insert(rows(11))
        first(ds).insert(rows(12))  # main has one version
    assert keys(ds.uri, ("c", None))[-2:] == [7, 10]


@old.shows("Clones", "Restore", "Diffs", "Histories")
def _(home: Path) -> None:
    ds = table(home)
    ds.insert(rows(7))
    ds.delete("k = 0")
    with silent():
        first(ds).shallow_clone(home / "c")
        assert len(first(ds).versions()) == 3
        assert lk.dataset(ds.uri, 2).diff().counts.inserted == 1
        first(ds).restore()
    assert keys(home / "c") == keys(ds.uri) == list(range(6))


@old.shows("Cleanup", "Cache")
def _(home: Path) -> None:
    ds = table(home)
    stale = first(ds)
    ds.update({"v": "'new'"})
    with silent(), lk.options(cache_bytes=0):
        assert first(ds).cleanup_old_versions(older_than=NOW).old_versions == 0
        ds.cleanup_old_versions(older_than=NOW)
    with warned(), pytest.raises(CorruptFileError, match="Version 1 lists the file"):
        stale.update({"v": "'lost'"})
    assert {v for _, v in read(ds.uri)} == {"new"}


@old.shows("Compaction", "Keys", "Deletions", "Indices", "Stable row ids")
def _(home: Path) -> None:
    def story(module: Any, path: Path) -> Any:
        uri = str(path / "t")
        module.write_dataset(rows(*range(6)), uri, max_rows_per_file=3, enable_stable_row_ids=True)
        module.dataset(uri).update({"v": "'two'"}, where="k = 2")
        module.dataset(uri).delete("k = 0")
        module.write_dataset(rows(7), uri, mode="append")
        seen = []
        for write in (
            lambda ds: ds.update({"v": "v || '!'"}, where="k < 3"),
            lambda ds: ds.delete("v = 'x2'"),  # row 2 has another value since
            lambda ds: upsert(ds).execute(rows(0, 1, 7, text="up")),
            lambda ds: module.write_dataset(rows(8), ds, mode="append"),
            lambda ds: ds.create_scalar_index("k", "BTREE"),
        ):
            write(module.dataset(uri, version=1))
            seen.append((read(uri), facts(uri)))
        seen.append([looked_up(uri, key) for key in (0, 1, 2, 7, 8, 9)])
        return seen

    with warned():
        found = told(home, story)
    assert found[-1] == [1, 1, 1, 1, 1, 0]
    assert found[-2][0][:3] == [(0, "up0"), (1, "up1"), (2, "two!")]
    uri = home / "lancekit" / "t"
    with warned():
        lk.dataset(uri, 1).optimize.compact_files()
    assert read(uri) == found[-2][0]


@old.shows("Schema changes")
def _(home: Path) -> None:
    def story(module: Any, path: Path) -> Any:
        uri = str(path / "t")
        module.write_dataset(rows(1, 2), uri)
        module.dataset(uri).alter_columns({"path": "v", "name": "w"})
        module.write_dataset(rows(3), module.dataset(uri, version=1), mode="append")
        seen = [read(uri)]
        module.dataset(uri).drop_columns(["w"])
        module.write_dataset(rows(4), module.dataset(uri, version=1), mode="append")
        return [*seen, read(uri)]

    with warned():
        assert told(home, story) == [[(1, "x1"), (2, "x2"), (3, "x3")], [(1,), (2,), (3,), (4,)]]
    uri = home / "lancekit" / "t"
    ds = lk.write_dataset(rows(1), home / "u")
    ds.alter_columns({"path": "v", "name": "w"})
    with warned():
        assert "null" not in repr(first(ds).insert(rows(2)))
    with warned(), pytest.raises(CommitConflictError, match="'v'"):
        lk.dataset(uri, 1).add_columns({"n": "k * 2"})
    with warned():
        lk.dataset(uri, 4).add_columns({"n": "k * 2"})  # in pylance a conflict
    assert read(uri)[-1] == (4, 8)


@old.shows("Base paths")
def _(home: Path) -> None:
    ds = with_bases(lk, home)
    lk.write_dataset(rows(20), ds, mode="append", target_bases=["q"])
    count = len(list((home / "p").iterdir()))
    with warned():
        lk.write_dataset(rows(21), first(ds), mode="append", target_bases=["p"])
    assert len(list((home / "p").iterdir())) == count + 1
    assert keys(ds.uri) == [*range(12), 20, 21]


@old.shows("Blobs")
def _(home: Path) -> None:
    ds = blob_rows(lk, home / "t")
    ds.delete("k = 0")
    expected = {key + 10: blob for key, blob in blobs(ds.uri).items()}
    with warned():
        first(ds).update({"k": "k + 10"})
    assert blobs(ds.uri) == expected


@old.shows("MemWAL")
def _(home: Path) -> None:
    ds = table(home)
    ds.initialize_mem_wal(unsharded=True)
    ds.insert(rows(7))
    stale = first(ds)
    with warned():
        stale.mem_wal_upsert(rows(0, 8, text="y"))
    found = stale.to_table(include_mem_wal=True).sort_by("k").to_pylist()
    assert [row["k"] for row in found] == [0, 1, 2, 3, 4, 5, 7, 8]
    with warned():
        first(ds).merge_mem_wal(flush=True)
    assert read(ds.uri) == [tuple(row.values()) for row in found]


@old.shows("Merges of branches", "Constraints")
def _(home: Path) -> None:
    ds = table(home)
    ds.create_branch("b").insert(rows(8))
    ds.insert(rows(7))
    ds.constraints.add("small", "k < 10")
    with warned():
        first(ds).branches.merge("b")
    assert keys(ds.uri)[-2:] == [7, 8]
    with warned(), pytest.raises(ConstraintViolationError, match="'small'"):
        first(ds).insert(rows(11))
    assert keys(ds.uri)[-2:] == [7, 8]


@old.shows("Concurrent writers")
def _(home: Path) -> None:
    ds = table(home)
    stale = first(ds)
    ds.insert(rows(7))
    other = lk.dataset(ds.uri)
    other.insert(rows(8))
    with warned("main:1, and the write goes on top of main:3"):
        stale.insert(rows(9))
    other.insert(rows(10))
    with silent():
        stale.insert(rows(11))  # an open handle that lags behind is no old one
    assert keys(ds.uri)[-5:] == [7, 8, 9, 10, 11]


# ---- the cells


@pytest.mark.parametrize("feature", new)
def test_new_columns(feature: str, tmp_path: Path) -> None:
    new[feature](tmp_path)


@pytest.mark.parametrize("feature", old)
def test_old_handles(feature: str, tmp_path: Path) -> None:
    old[feature](tmp_path)


@pytest.mark.spark
def test_old_handles_on_spark(tmp_path: Path, spark: Any) -> None:
    ds = table(tmp_path)
    ds.insert(rows(7))
    with warned():
        first(ds).insert(spark.createDataFrame([(8, "y8")], "k bigint, v string"))
    with warned(), lk.options(engine="spark"):
        upsert(first(ds)).execute(rows(0, 9, text="y"))
    assert read(ds.uri)[-3:] == [(7, "x7"), (8, "y8"), (9, "y9")]
    assert read(ds.uri)[0] == (0, "y0")
