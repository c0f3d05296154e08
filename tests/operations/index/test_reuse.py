"""Compactions that leave indices as they are, by both libraries, and what ends that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.index import fragment_reuse_of
from lancekit._index.search.reuse import reuse_of
from lancekit._operations.index import optimize as notes
from lancekit._storage import base
from lancekit._storage.local import LocalStore
from lancekit.errors import InvalidTypeError, NotOfferedError, RetryableConflictError
from lancekit.optimize import Compaction

DEFER = {"defer_index_remap": True}


def made(path: Path) -> str:
    """Write six fragments with deleted rows, and four indices, which cover five of them."""
    uri = str(path)
    vectors = np.random.default_rng(0).standard_normal((60, 4)).astype("f4")
    rows = pa.table(
        {
            "x": range(60),
            "t": [f"word{number % 7}" for number in range(60)],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4),
        }
    )
    ds = lk.write_dataset(rows.slice(0, 50), uri, max_rows_per_file=10)
    for kind in ("BTREE", "BITMAP", "ZONEMAP"):
        ds.create_scalar_index("x", kind, name=f"x_{kind}")
    ds.create_scalar_index("t", "INVERTED")
    ds.create_index("v", "IVF_FLAT", num_partitions=2)
    lk.write_dataset(rows.slice(50), uri, mode="append")
    ds = lk.dataset(uri)
    ds.delete("x % 6 = 5")
    return uri


def entry(uri: str) -> Any:
    return fragment_reuse_of(lk.dataset(uri)._snapshot.indices)


def check(uri: str) -> None:
    live = [x for x in range(60) if x % 6 != 5]
    for ds in (lk.dataset(uri), lance.dataset(uri)):
        for asked in ("x = 33", "x < 20", "x >= 45"):
            found = ds.to_table(columns=["x"], filter=asked)["x"].to_pylist()
            assert (
                found
                == ds.to_table(columns=["x"], filter=asked, use_scalar_index=False)["x"].to_pylist()
            )
        words = ds.to_table(columns=["x"], full_text_query="word3")["x"].to_pylist()
        assert sorted(words) == [x for x in live if x % 7 == 3]
        asked_ = {"column": "v", "q": [0.1, 0.2, 0.3, 0.4], "k": 50, "nprobes": 9}
        assert sorted(ds.to_table(columns=["x"], nearest=asked_)["x"].to_pylist()) == live


def test_both_libraries_note_the_same(tmp_path: Path) -> None:
    ours, theirs = made(tmp_path / "ours"), made(tmp_path / "theirs")
    lk.dataset(ours).optimize.compact_files(**DEFER, target_rows_per_fragment=20)
    lance.dataset(theirs).optimize.compact_files(**DEFER, target_rows_per_fragment=20)
    read = [reuse_of(lk.dataset(uri)._snapshot) for uri in (ours, theirs)]
    mine, known = (sorted(one.groups, key=lambda g: g.old) for one in read if one is not None)
    assert [(g.old_digests, g.new_digests, g.version) for g in mine] == [
        (g.old_digests, g.new_digests, g.version) for g in known
    ]
    addresses = pa.array([None, 0, 1, 2, None, 1 << 32, 1 << 40], pa.uint64())
    for asked in (addresses, addresses.slice(3), pa.nulls(2, pa.uint64())):
        moved = lance.dataset(ours).remap_row_addrs(asked)
        assert moved.equals(lance.dataset(theirs).remap_row_addrs(asked))
        assert moved.equals(lk.dataset(ours).remap_row_addrs(asked))
    with pytest.raises(InvalidTypeError, match="addrs must be an array of uint64"):
        lk.dataset(ours).remap_row_addrs(pa.array([1]))
    check(ours)


@pytest.mark.cover
@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("by", [lk, lance], ids=["ours", "theirs"])
def test_what_is_noted_is_let_go_of(
    tmp_path: Path, by: Any, external: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = made(tmp_path / "d")
    if external:
        monkeypatch.setattr(notes, "INLINE_BYTES", 10)
    by.dataset(uri).optimize.compact_files(**DEFER, target_rows_per_fragment=20)
    ds = lk.dataset(uri)
    done = ds.optimize.compact_files()
    assert set(done.left_to_indices) == {index.name for index in ds._snapshot.indices[:-1]}
    ds.optimize.compact_files(**DEFER)  # what moved moves again
    files = list((tmp_path / "d" / "_indices").glob("*/details.binpb"))
    assert len(files) == external * (2 if by is lk else 1)
    check(uri)
    ds.optimize.optimize_indices(index_names=["x_BTREE", "t_idx"])
    assert entry(uri) is not None  # others need it
    check(uri)
    ds.optimize.optimize_indices()
    assert entry(uri) is None
    check(uri)
    theirs = lance.dataset(uri)
    fast = theirs.to_table(full_text_query="word3", columns=["x"], fast_search=True)
    assert len(fast) == len([x for x in range(60) if x % 6 != 5 and x % 7 == 3])
    theirs.optimize.optimize_indices()
    theirs.optimize.compact_files()
    check(uri)


def test_two_who_note(tmp_path: Path) -> None:
    uri = made(tmp_path / "d")
    ds = lk.dataset(uri)
    options = {**DEFER, "target_rows_per_fragment": 20}
    first, second, *_ = Compaction.plan(ds, options).tasks
    mine = lk.dataset(uri)
    results = [first.execute(ds)], [second.execute(mine)]
    Compaction.commit(ds, results[0], options)
    with pytest.raises(RetryableConflictError, match="a single index entry"):
        Compaction.commit(mine, results[1], options)
    check(uri)
    # one that lets go, and one that notes more
    old = lk.dataset(uri)
    lk.dataset(uri).optimize.compact_files(**options)
    before = entry(uri)
    assert notes._pruned_reuse(old._snapshot).version == old.version
    assert entry(uri) == before


def test_segments_of_fragments_that_moved_stay(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    ds = lk.write_dataset({"x": range(20)}, uri, max_rows_per_file=10)
    ds.create_scalar_index("x", "BTREE")
    ds.insert({"x": range(20, 120)})
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    ds.optimize.compact_files(**DEFER, target_rows_per_fragment=30)
    ds.delete("x = 3")
    ds.add_columns({"y": "x + 1"})
    covered = [found.num_rows_indexed for found in ds.describe_indices()]
    assert covered == [20 - 1, 119]  # what the entry is of, and the index
    assert lance.dataset(uri).stats.index_stats("x_idx")["num_indexed_rows"] == 119
    for read in (ds, lance.dataset(uri)):
        assert read.to_table(columns=["y"], filter="x in (3, 4, 5, 100)")["y"].to_pylist() == [
            101,
            5,
            6,
        ]


def test_notes_in_a_file_are_read_once_and_go_if_they_do_not_land(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "SETTLED_SECONDS", -1.0)
    monkeypatch.setattr(notes, "INLINE_BYTES", 10)
    ds = lk.write_dataset({"x": range(40)}, tmp_path / "d", max_rows_per_file=10)
    ds.create_scalar_index("x", "BTREE")
    options = {**DEFER, "target_rows_per_fragment": 20}
    first, second, *_ = Compaction.plan(ds, options).tasks
    late = lk.dataset(ds.uri)
    mine, other = [first.execute(ds)], [second.execute(late)]
    Compaction.commit(ds, mine, options)
    with pytest.raises(RetryableConflictError):
        Compaction.commit(late, other, options)
    assert len(list((tmp_path / "d/_indices").glob("*/details.binpb"))) == 1
    opened: list[str] = []
    read = LocalStore.read

    def told(store: LocalStore, name: str, *more: Any) -> Any:
        opened.extend([name] if name.endswith("details.binpb") else [])
        return read(store, name, *more)

    monkeypatch.setattr(LocalStore, "read", told)
    for x in (3, 7):
        assert ds.to_table(filter=f"x = {x}")["x"].to_pylist() == [x]
    assert [found.num_rows_indexed for found in ds.describe_indices()] == [20, 40]
    assert len(opened) == 1


def test_where_nothing_is_noted(tmp_path: Path) -> None:
    rows = {"x": range(20)}
    ds = lk.write_dataset(rows, tmp_path / "a", max_rows_per_file=10)
    ds.optimize.compact_files(**DEFER)
    assert entry(ds.uri) is None
    ds = lk.write_dataset(rows, tmp_path / "b", max_rows_per_file=10, enable_stable_row_ids=True)
    with pytest.raises(NotOfferedError, match="stable row ids"):
        ds.optimize.compact_files(**DEFER)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_notes_that_cannot_be_read(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = made(tmp_path / "d")
    monkeypatch.setattr(notes, "INLINE_BYTES", 10)
    ds = lk.dataset(uri)
    ds.optimize.compact_files(**DEFER, target_rows_per_fragment=20)
    (file,) = (tmp_path / "d" / "_indices").glob("*/details.binpb")
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(b"\xff" * 30)
    ds = lk.dataset(uri)
    rows = ds.to_table()
    with pytest.warns(UserWarning, match="cannot be read. No index of this table is used"):
        assert {found.num_rows_indexed for found in ds.describe_indices()} == {0}
    with pytest.warns(UserWarning, match="optimize_indices\\(\\) rebuilds them"):
        done = ds.optimize.compact_files(target_rows_per_fragment=1000)
    assert done.fragments_removed > 1
    assert ds.to_table().equals(rows)
    assert entry(uri) is not None
    with pytest.warns(UserWarning, match="cannot be read"):
        ds.optimize.optimize_indices()
    assert entry(uri) is None
    check(uri)
    assert {found.num_rows_indexed for found in lk.dataset(uri).describe_indices()} == {len(rows)}
