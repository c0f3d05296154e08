"""Exports and packs, and cards that read rows, beside what else a table has: the last table of
docs/interplay.md."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow.parquet as pq
import pytest

import lancekit as lk
from lancekit.errors import ConstraintViolationError, CorruptFileError, VersionNotFoundError
from tests.support.cards import show_text
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
    upsert,
    with_bases,
)

packs, cards = Cells(), Cells()


# ---- exports and packs


def repacked(ds: lk.LanceDataset) -> lk.LanceDataset:
    """Unpack a pack; its rows are those of the version, and of an exported file."""
    where = Path(ds.uri.partition("/tree/")[0]).parent
    name = f"of-{ds.branch}-{ds.version}"
    out = lk.unpack(ds.pack(where / f"{name}.zip", overwrite=True), where / name)
    ds.export(where / f"{name}.parquet", overwrite=True)
    expected = ds.to_table().sort_by("k")
    theirs: Any = lance.dataset(out.uri)
    for found in (pq.read_table(where / f"{name}.parquet"), theirs.to_table(), out.to_table()):
        assert found.sort_by("k").equals(expected)
    assert (out.version, out.branch) == (ds.version, "main")
    return out


def changed(ds: lk.LanceDataset, at: int) -> None:
    """Append and merge rows by both libraries, and compact."""
    expected = {k: v for k, v, *_ in read(ds.uri)}
    for module in (lance, lk):
        opened: Any = module.dataset(ds.uri)
        module.write_dataset(rows(at), opened, mode="append")
        upsert(module.dataset(ds.uri)).execute(rows(1, at + 1, text=module.__name__))
        module.dataset(ds.uri).optimize.compact_files()
        expected |= {at: f"x{at}", 1: f"{module.__name__}1", at + 1: f"{module.__name__}{at + 1}"}
        assert {k: v for k, v, *_ in read(ds.uri)} == expected
        at += 2


@packs.shows("Branches", "Tags", "Histories", "Merges of branches")
def _(home: Path) -> None:
    ds = table(home)
    branch = ds.create_branch("b")
    branch.insert(rows(7))
    branch.tags.create("t", ("b", 2))
    branch.delete("k = 0")
    for handle, count in ((branch, 6), (lk.dataset(ds.uri, "t"), 7), (lk.dataset(ds.uri, 1), 6)):
        out = repacked(handle)
        assert out.count_rows() == count
        assert out.branches.names() == out.tags.names() == ()
        assert [version.version for version in out.versions()] == [handle.version]
        changed(out, 20)
        out.create_branch("n").insert(rows(50))
        lk.dataset(out.uri).branches.merge("n")
        assert keys(out.uri)[-1] == 50


@packs.shows("Clones", "Base paths")
def _(home: Path) -> None:
    ds = with_bases(lk, home)
    ds.shallow_clone(home / "c")
    clone = lk.dataset(home / "c")
    clone.insert(rows(30))
    clone.delete("k = 4")
    outs = [repacked(one) for one in (ds, clone)]
    for folder in ("t", "p", "q", "c"):
        shutil.rmtree(home / folder)
    for out in outs:
        assert out.base_paths() == {}
        changed(out, 40)


@packs.shows("Restore", "Cleanup", "Stable row ids", "Deletions")
def _(home: Path) -> None:
    ds = table(home)
    ds.update({"v": "'new'"}, where="k = 1")
    ds.insert(rows(7))
    ds.delete("k = 7 OR k = 3")
    ds.tags.create("t")
    ds.delete("k < 2")
    ds.restore("t")
    expected = facts(ds.uri)
    out = repacked(ds)
    assert facts(out.uri) == expected
    theirs: Any = lance.dataset(out.uri)
    lance.write_dataset(rows(20), theirs, mode="append")
    lk.dataset(out.uri).insert(rows(21))
    assert [row[1] for row in facts(out.uri)[-2:]] == [7, 8]  # 6 was the id of row 7
    with pytest.raises(VersionNotFoundError):
        out.restore(1)
    ds.optimize.compact_files()
    old = lk.dataset(ds.uri, ds.version - 1)
    ds.cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)
    ds.tags.delete("t")
    ds.cleanup_old_versions(older_than=NOW)
    for write, file in ((old.pack, "gone.zip"), (old.export, "gone.parquet")):
        with pytest.raises(CorruptFileError, match="which does not exist"):
            write(home / file)
        assert not (home / file).exists()


@packs.shows("Compaction", "Keys", "Constraints", "Diffs", "Schema changes")
def _(home: Path) -> None:
    ds = table(home)
    ds.add_columns({"n": "k"})
    ds.drop_columns(["n"])
    ds.constraints.add("small", "k < 90")
    ds.update_config({"a": "b"})
    ds.optimize.compact_files()
    out = repacked(ds)
    assert out.config() == ds.config()
    assert out.schema.equals(ds.schema, check_metadata=True)
    assert out.diff(ds).counts.unchanged == 6
    with pytest.raises(ConstraintViolationError, match="'small'"):
        out.insert(rows(91))
    changed(out, 20)
    merge = lk.dataset(out.uri).merge_insert().when_matched_update_all()
    merge.execute({"k": [1], "v": ["z"], "n": ["text"]}, schema_mode="merge")
    found = lk.dataset(out.uri).diff(ds)
    assert (found.counts.inserted, found.counts.deleted, found.counts.updated) == (4, 0, 1)


@packs.shows("Blobs")
def _(home: Path) -> None:
    ds = blob_rows(lk, home / "t")
    expected = blobs(ds.uri)
    out = lk.unpack(ds.pack(home / "x.zip"), home / "out")
    ds.export(home / "x.parquet")
    shutil.rmtree(home / "t")
    assert blobs(out.uri) == expected
    found = pq.read_table(home / "x.parquet").to_pydict()
    assert dict(zip(found["k"], found["b"], strict=True)) == expected


@packs.shows("Indices")
def _(home: Path) -> None:
    ds = indexed(home / "t")
    ds.delete("k = 2")
    out = repacked(ds)
    shutil.rmtree(home / "t")
    assert [looked_up(out.uri, key) for key in (2, 5)] == [0, 1]
    changed(out, 20)
    lk.dataset(out.uri).optimize.optimize_indices()
    assert [looked_up(out.uri, key) for key in (1, 2, 5, 20, 23)] == [1, 0, 1, 1, 1]
    ds = table(home)
    ds.create_scalar_index("k", "BTREE")
    ds.export(home / "some.parquet", columns={"key": lk.col("k")}, filter=lk.col("k") == 5)
    assert pq.read_table(home / "some.parquet").to_pydict() == {"key": [5]}


@packs.shows("MemWAL")
def _(home: Path) -> None:
    ds = table(home)
    ds.initialize_mem_wal(unsharded=True)
    ds.mem_wal_upsert(rows(7), flush=True)
    ds.merge_mem_wal(flush=True)
    ds.mem_wal_upsert(rows(8))
    newest = lk.dataset(ds.uri)
    out = repacked(newest)
    assert keys(out.uri) == [*range(6), 7]
    for found in (newest.pack(home / "x.zip"), newest.export(home / "x.csv")):
        assert "unmerged rows  1 row of 1 shard, 1 in logs" in said(found)
    every = lk.dataset(ds.uri, default_scan_options={"include_mem_wal": True})
    assert "unmerged" not in said(every.export(home / "every.parquet"))
    assert sorted(pq.read_table(home / "every.parquet")["k"].to_pylist()) == [*range(6), 7, 8]
    out.mem_wal_upsert(rows(9))
    lk.dataset(out.uri).merge_mem_wal(flush=True)
    assert keys(out.uri) == [*range(6), 7, 9]


@packs.shows("Cache", "Spark", "Concurrent writers")
def _(home: Path) -> None:
    ds = table(home)
    behind = lk.dataset(ds.uri)
    ds.insert(rows(7))
    with lk.options(engine="spark", cache_bytes=0):
        out = repacked(behind)
    assert (out.version, keys(out.uri)) == (1, list(range(6)))


# ---- cards that read rows


def shown(value: Any) -> list[list[str]]:
    """Return the rows of a card, as words."""
    lines = show_text(value).splitlines()
    start = next(at for at, line in enumerate(lines) if line.strip() in CAPTIONS)
    return [line.split() for line in lines[start + 2 : -1]]


CAPTIONS = ("Changed rows, old → new", "Conflicts", "Added columns of updated rows")


def said(value: Any) -> str:
    return show_text(value)


def change(ds: lk.LanceDataset) -> lk.LanceDataset:
    """Update row 1, delete row 2, and insert row 9."""
    ds.update({"v": "'new'"}, where="k = 1")
    ds.delete("k = 2")
    ds.insert(rows(9))
    return ds


CHANGED = [["1", "update", "x1", "→", "new"], ["9", "insert", "x9"], ["2", "delete", "x2"]]


@cards.shows("Branches", "Clones", "Tags", "Deletions")
def _(home: Path) -> None:
    for stable in (True, False):
        ds = table(home / str(stable), enable_stable_row_ids=stable)
        ds.tags.create("t", 1)
        ds.shallow_clone(home / str(stable) / "c")
        branch, clone = change(ds.create_branch("b")), change(lk.dataset(home / str(stable) / "c"))
        assert shown(branch.diff("t")) == shown(branch.diff(("main", 1))) == CHANGED
        assert shown(clone.diff(1)) == CHANGED
        ds.update({"v": "'main'"}, where="k = 2")
        for found in (ds.branches.compare("b"), ds.branches.merge("b", dry_run=True)):
            assert shown(found) == [["2", "update/delete", "v", "x2", "main", "deleted"]]


@cards.shows("Restore", "Cleanup", "Compaction")
def _(home: Path) -> None:
    ds = change(table(home))
    ds.tags.create("t", 1)
    ds.restore(1)
    assert "0 inserted · 0 deleted · 0 updated · 6 unchanged" in said(ds.diff("t"))
    back = [["1", "update", "new", "→", "x1"], ["2", "insert", "x2"], ["9", "delete", "x9"]]
    assert shown(ds.diff(4)) == back
    ds.optimize.compact_files()
    unread, compared = ds.diff(2), ds.diff("t")
    said(compared)
    ds.cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)
    assert "not compared yet" in said(unread)
    assert "which does not exist" in said(unread)
    assert "6 unchanged" in said(compared)
    assert "6 unchanged" in said(ds.diff("t"))
    with pytest.raises(VersionNotFoundError):
        ds.diff(2)


@cards.shows("Schema changes")
def _(home: Path) -> None:
    ds = table(home)
    merge = ds.merge_insert(schema_mode="merge").when_matched_update_all()
    merge.execute({"k": [1], "v": ["new"], "n": [5]})
    assert "added columns  n" in said(ds.diff(1))
    assert shown(ds.diff(1))[0] == CHANGED[0]
    assert said(ds.diff(1)).split("Added columns of updated rows")[1].split()[:6] == [
        "k", "change", "n", "1", "update", "null",
    ]  # fmt: skip
    ds.alter_columns({"path": "v", "name": "w"})
    assert shown(ds.diff(1))[0] == CHANGED[0]
    ds.drop_columns(["n"])
    assert "dropped columns  n" in said(ds.diff(ds.version - 1))


@cards.shows("Stable row ids", "Keys")
def _(home: Path) -> None:
    ids = lk.write_dataset(rows(1, 2), home / "ids", enable_stable_row_ids=True)
    none = lk.write_dataset(rows(1, 2), home / "none")
    twice = lk.write_dataset(rows(1, 2), home / "twice", primary_key="k")
    twice.insert(rows(1, text="y"))
    for ds in (ids, none):
        ds.update({"v": "'new'"}, where="k = 1")
    assert [row[1:] for row in shown(ids.diff(1))] == [["update", "x1", "→", "new"]]
    assert [row[1] for row in shown(none.diff(1))] == ["insert", "delete"]
    twice.create_branch("b").update({"v": "'b'"}, where="k = 1")
    twice.update({"v": "'m'"}, where="k = 1")
    assert "share their key (k) with other rows" in said(twice.branches.compare("b"))


@cards.shows("Base paths", "Indices", "Histories", "Cache")
def _(home: Path) -> None:
    ds = with_bases(lk, home, primary_key="k")
    ds.create_scalar_index("k", "BTREE")
    with lk.options(cache_bytes=0):
        assert shown(change(ds).diff(2)) == CHANGED
    for one in (ds, ds.shallow_clone(home / "c")):
        line = said(one.versions()[-1])
        assert ("ds.diff(4, 5)" in line) == (one is ds)  # a clone begins with its first version
    assert shown(ds.diff(4, 5)) == [CHANGED[1]]


@cards.shows("MemWAL")
def _(home: Path) -> None:
    ds = table(home)
    ds.initialize_mem_wal(unsharded=True)
    ds.mem_wal_upsert(rows(1, 9, text="y"))
    assert "0 inserted · 0 deleted · 0 updated" in said(ds.diff(1))
    ds.merge_mem_wal(flush=True)
    assert shown(lk.dataset(ds.uri).diff(1)) == [
        ["1", "update", "x1", "→", "y1"],
        ["9", "insert", "y9"],
    ]


@cards.shows("Constraints", "Concurrent writers")
def _(home: Path) -> None:
    ds = table(home)
    ds.constraints.add("small", "k < 90")
    found = change(ds).diff(1)
    other = lk.dataset(ds.uri)
    other.update({"v": "'later'"})
    assert shown(found) == CHANGED
    other.create_branch("b").update({"v": "'b'"}, where="k = 1")
    plan = other.branches.merge("b", dry_run=True)
    other.update({"v": "'main'"}, where="k = 1")
    assert "1 to update" in said(plan)
    with pytest.raises(lk.errors.LancekitError):
        plan.apply()


# ---- the cells


@pytest.mark.parametrize("feature", packs)
def test_exports_and_packs(feature: str, tmp_path: Path) -> None:
    packs[feature](tmp_path)


@pytest.mark.parametrize("feature", cards)
def test_cards_with_rows(feature: str, tmp_path: Path) -> None:
    cards[feature](tmp_path)
