"""Deletes, updates and merges change the same rows with scalar indices as without them."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.index import FRAGMENT_REUSE
from lancekit._pipeline import merge_strategy as strategy
from lancekit.errors import CorruptFileError, LancekitError
from tests.system.test_index_histories import condition, rows, step

#: histories of a whole run, and of a short one
HISTORIES, FEW = 400, 3
KEYS = [["k"], ["i"], ["u"], ["s"], ["d"], ["b"], ["f"], ["i", "s"], ["k", "u"], ["k", "f"]]
UPDATES = [{"i": "i + 1"}, {"s": "'new'"}, {"f": "f * 2"}, {"k": "k + 1", "u": "7"}]

Change = Callable[[lk.LanceDataset], Any]


@pytest.fixture(autouse=True)
def _always_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "_LOOK_UP_BYTES", 0)
    monkeypatch.setattr(strategy, "_INDEX_BYTES", -1)


def drawn(rng: random.Random, first: int) -> tuple[str, Change]:
    """Return a change, and what to call it."""
    asked = condition(rng)
    what = rng.choice(["delete", "fragments", "update", "merge", "merge"])
    if what == "delete":
        return f"delete {asked}", lambda ds: ds.delete(asked)
    if what == "fragments":
        return f"delete {asked} by fragment", lambda ds: deleted_by_fragment(ds, asked)
    if what == "update":
        new = rng.choice(UPDATES)
        return f"update {new} where {asked}", lambda ds: ds.update(new, where=asked)
    on, source = rng.choice(KEYS), rows(rng, rng.choice([1, 5, 40]), rng.randint(0, first))
    mode = rng.choice(["upsert", "update", "delete", "insert", "by source", "columns"])

    def merge(ds: lk.LanceDataset) -> Any:
        asked = ds.merge_insert(on).dedupe("first")
        if mode == "columns":
            others = "u" if "f" in on else "f"
            part = source.select([*on, others])
            return asked.when_matched_update_all().write_mode("rewrite_columns").execute(part)
        if mode in {"upsert", "update"}:
            asked.when_matched_update_all()
        if mode == "delete":
            asked.when_matched_delete()
        if mode in {"upsert", "insert", "by source"}:
            asked.when_not_matched_insert_all()
        if mode == "by source":
            asked.when_not_matched_by_source_delete(going)
        return asked.execute(source)

    going = rng.choice(["k % 2 = 0", asked])
    return f"merge on {on}: {mode}, {going}", merge


def deleted_by_fragment(ds: lk.LanceDataset, condition: str) -> Any:
    """Delete rows of one fragment after the other, and commit all of it at once."""
    found = [(one.fragment_id, one.delete(condition)) for one in ds.get_fragments()]
    change = lk.LanceOperation.Delete(
        [fragment for _, fragment in found if fragment is not None],
        [id_ for id_, fragment in found if fragment is None],
        condition,
    )
    return lk.LanceDataset.commit(ds, change, read_version=ds.version)


def changed(uri: str, change: Change) -> tuple[str, Any]:
    """Return the rows after a change, or its error's class, and its result."""
    try:
        result = change(lk.dataset(uri))
    except LancekitError as error:
        return type(error).__name__, None
    return str(lk.dataset(uri).to_table(with_row_id=True).to_pylist()), result


@pytest.mark.torture
def test_any_change_is_the_same_without_indices(tmp_path: Path, whole: bool) -> None:
    asked = sum(compare(tmp_path / str(seed), seed) for seed in range(HISTORIES if whole else FEW))
    assert asked


def compare(folder: Path, seed: int) -> int:
    """Change copies after each step of a history; return how many merges asked an index."""
    rng, uri, done, asked = random.Random(seed), str(folder / "d"), list[str](), 0
    with lk.options(oldest_reader="14.0.2"), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        lk.write_dataset(
            rows(rng, rng.choice([60, 400]), 0),
            uri,
            max_rows_per_file=rng.choice([20, 150, 1000]),
            enable_stable_row_ids=seed % 2 == 0,
            data_storage_version=rng.choice(["2.0", "2.1", "2.2"]),
        )
        for column in rng.sample(["k", "i", "u", "s", "d"], 2):
            kind = rng.choice(["BTREE", "BITMAP"])
            lk.dataset(uri).create_scalar_index(column, kind, name=f"{column}_{kind}")
        for number in range(rng.randint(4, 8)):
            done.append(step(rng, uri, 1000 * (number + 1)))
            name, change = drawn(rng, 1000 * (number + 2))
            with_indices, without = (str(folder / f"{side}{number}") for side in "ab")
            for copy in (with_indices, without):
                shutil.copytree(uri, copy)
            for index in lk.dataset(without).describe_indices():
                if index.name != FRAGMENT_REUSE:
                    lk.dataset(without).drop_index(index.name)
            found, result = changed(with_indices, change)
            assert found == changed(without, change)[0], (seed, name, done)
            if result is not None:
                match = getattr(result, "match", None)
                asked += match is not None and match.strategy == "index"
                theirs = lance.dataset(with_indices).to_table(with_row_id=True)
                assert str(theirs.to_pylist()) == found, (seed, name, done)
    return asked


def indexed(path: Path, *, stable: bool) -> lk.LanceDataset:
    """A table with an index of its key, and rows that came later, were updated or deleted."""
    table = pa.table({"id": range(3000), "v": range(3000), "s": [f"t{n}" for n in range(3000)]})
    ds = lk.write_dataset(table, path, max_rows_per_file=700, enable_stable_row_ids=stable)
    ds.create_scalar_index("id", "BTREE")
    ds.insert(pa.table({"id": [3000, 3001], "v": [0, 1], "s": ["x", "y"]}))
    ds.update({"v": "-1"}, where="id % 100 = 7")
    ds.delete("id = 8")
    return lk.dataset(path)


@pytest.mark.parametrize("stable", [False, True])
def test_what_indices_answer_is_not_read(stable: bool, tmp_path: Path) -> None:
    ds = indexed(tmp_path / "d", stable=stable)
    files = [f.files[0].path for f in ds._snapshot.manifest.fragments][:4]
    for name in files:  # of the rows that are covered nothing is read to delete some
        (tmp_path / "d" / "data" / name).rename(tmp_path / name)
    # where ids lead to rows, their values are looked at again
    if stable:
        with pytest.raises(CorruptFileError, match="does not exist"):
            ds.delete("id IN (5, 8, 3001)")
    else:
        assert ds.delete("id IN (5, 8, 3001)").num_deleted_rows == 2
    for name in files:
        (tmp_path / name).rename(tmp_path / "d" / "data" / name)
    assert lk.dataset(tmp_path / "d").count_rows("id IN (5, 3001)") == (2 if stable else 0)


def test_fragments_and_merges_ask_which_rows_go(tmp_path: Path) -> None:
    ds = indexed(tmp_path / "d", stable=False)
    first, second, *_ = ds.get_fragments()
    path = first.metadata.files[0].path
    (tmp_path / "d" / "data" / path).rename(tmp_path / path)
    deleted = first.delete("id IN (5, 8)")
    assert deleted is not None
    assert deleted.num_deletions == first.num_deletions + 1
    assert second.delete("id IN (5, 8)") == second.metadata

    merge = ds.merge_insert("v").when_not_matched_by_source_delete("id IN (5, 8, 3000)")
    with pytest.raises(CorruptFileError, match="does not exist"):
        merge.use_index(False).execute({"id": [1], "v": [-2], "s": ["a"]})
    (tmp_path / path).rename(tmp_path / "d" / "data" / path)
    result = merge.use_index(True).execute({"id": [1], "v": [-2], "s": ["a"]})
    assert dict(result)["num_deleted_rows"] == 2
    (tmp_path / "d" / "data" / path).unlink()
    with pytest.raises(CorruptFileError, match="does not exist"):  # the handle has moved on
        first.delete("id IN (5, 8)")


@pytest.mark.parametrize("stable", [False, True])
def test_a_merge_says_whether_an_index_is_asked(stable: bool, tmp_path: Path) -> None:
    ds = indexed(tmp_path / "d", stable=stable)
    new = pa.table({"id": [3, 8, 107, 3001, 9999], "v": [1] * 5, "s": ["new"] * 5})
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    told = "5 keys are looked up in id_idx, which covers"
    explained = merge.explain(new)
    assert told in explained.why
    assert explained.reads is not None
    assert explained.plan is not None
    lookup = next(node for node in explained.plan.walk() if node.name == "IndexLookup")
    assert f"{explained.reads.rows:,} of {ds.count_rows():,} rows remain" in lookup.does
    assert 3 <= explained.reads.rows < ds.count_rows() / 2
    every = merge.use_index(False).explain(new).reads
    assert every is not None
    assert explained.reads.bytes < every.bytes
    merge.use_index(True)
    with merge.preview(new) as plan:
        assert (plan.match.strategy, plan.num_updated_rows, plan.num_inserted_rows) == (
            "index",
            3,
            2,
        )
    assert merge.use_index(False).preview(new).match.strategy == "driver"
    result = merge.use_index(True).execute(new)
    assert dict(result)["num_updated_rows"] == 3
    assert result.match is not None
    assert result.match.strategy == "index"
    assert sorted(ds.to_table(["id"], "s = 'new'")["id"].to_pylist()) == new["id"].to_pylist()


def test_many_keys_are_not_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "_LOOK_UP_BYTES", 40_000)
    ds = indexed(tmp_path / "d", stable=False)
    merge = ds.merge_insert("id").when_matched_update_all()
    assert "costs less than to query id_idx" in merge.explain({"id": [1], "v": [1], "s": ["a"]}).why


def test_a_damaged_index_is_a_warning_and_changes_nothing(tmp_path: Path) -> None:
    ds = indexed(tmp_path / "d", stable=False)
    (folder,) = (tmp_path / "d" / "_indices").iterdir()
    shutil.rmtree(folder)
    new = {"id": [3, 8], "v": [1, 1], "s": ["new", "new"]}
    with pytest.warns(UserWarning, match="'id_idx' is not used"):
        result = ds.merge_insert("id").when_matched_update_all().execute(new)
    assert dict(result)["num_updated_rows"] == 1
    assert ds.delete("id = 4").num_deleted_rows == 1
