"""Stable row ids: rows keep them, and the versions that made them, whoever writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.fragment import FragmentList
from lancekit._format.manifest import encode_manifest_file
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.row_ids_encode import encode_row_ids
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import latest_snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError, RowOutOfRangeError
from tests.support.patience import HANG_SECONDS

HIDDEN = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
COLUMNS = ["k", "v", "_rowaddr", *HIDDEN]
Run = Callable[..., Any]


def rows(keys: list[int], text: str) -> pa.Table:
    return pa.table(
        {"k": pa.array(keys, pa.int64()), "v": pa.array([text] * len(keys), pa.string())}
    )


def create(side: Any, path: str, count: int = 20) -> Any:
    return side.write_dataset(
        rows(list(range(count)), "x"), path, enable_stable_row_ids=True, max_rows_per_file=7
    )


def state(path: str, side: Any = lance) -> list[tuple[Any, ...]]:
    """Return the rows with their identity, whatever fragments they are in."""
    table = side.dataset(path).to_table(columns=["k", "v", *HIDDEN])
    return sorted(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


CHANGES = (
    "append", "delete", "upsert", "upsert", "some", "insert", "update", "compact", "restore",
    "overwrite", "empty",
)  # fmt: skip


class Change:
    """One random change, made to several datasets alike."""

    def __init__(self, rng: random.Random, step: int, newest: int) -> None:
        self.name = rng.choice(CHANGES)
        self.keys = rng.sample(range(60), 8)
        self.limit = rng.randrange(40)
        self.version = rng.randrange(1, newest + 1)
        self.text = f"{self.name} {step}"

    def apply(self, side: Any, path: str) -> None:
        ds = side.dataset(path)
        source = rows(self.keys, self.text)
        match self.name:
            case "append":
                fresh = rows([k + 1000 * ds.version for k in self.keys], self.text)
                side.write_dataset(fresh, path, mode="append")
            case "delete":
                ds.delete(f"k < {self.limit} AND k % 3 = 0")
            case "empty":
                ds.delete("true")
            case "upsert":
                merge = ds.merge_insert("k").when_matched_update_all()
                merge.when_not_matched_insert_all().execute(source)
            case "some":
                merge = ds.merge_insert("k").when_matched_update_all(f"target.k > {self.limit}")
                merge.when_not_matched_by_source_delete("k % 7 = 0").execute(source)
            case "insert":
                ds.merge_insert("k").when_not_matched_insert_all().execute(source)
            case "update":
                ds.update({"v": f"'{self.text}'"}, where=f"k > {self.limit}")
            case "compact":
                ds.optimize.compact_files(target_rows_per_fragment=15)
            case "restore":
                ds.checkout_version(self.version).restore()
            case "overwrite":
                side.write_dataset(source, path, mode="overwrite")


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(10))
def test_a_history_of_both_is_that_of_the_reference(tmp_path: Path, seed: int) -> None:
    """Ids and versions of rows are those that pylance alone would have given them."""
    rng = random.Random(seed)
    mixed, reference = str(tmp_path / "mixed"), str(tmp_path / "reference")
    create(lk, mixed)
    create(lance, reference)
    log = []
    for step in range(12):
        change = Change(rng, step, lance.dataset(mixed).version)
        side = rng.choice([lk, lance])
        log.append(f"{change.name} by {side.__name__}")
        change.apply(side, mixed)
        change.apply(lance, reference)
        ours, theirs = (s.dataset(mixed).to_table(columns=COLUMNS) for s in (lk, lance))
        assert ours.equals(theirs), log
        assert state(mixed) == state(reference), log
        assert lance.dataset(mixed).version == lance.dataset(reference).version
    _check_deltas(mixed, rng)


def _check_deltas(path: str, rng: random.Random) -> None:
    newest = lance.dataset(path).version
    for _ in range(6):
        begin, end = sorted(rng.sample(range(1, newest + 1), 2))
        # the reference reads the rows at its handle's version, whatever the end is
        theirs = lance.dataset(path, version=end).delta(compared_against=begin)
        ours = lk.dataset(path).delta(begin_version=begin, end_version=end)
        for method in ("get_inserted_rows", "get_updated_rows", "get_deleted_row_ids"):
            found, expected = (getattr(delta, method)().read_all() for delta in (ours, theirs))
            assert set(found.column_names) == set(expected.column_names)
            assert _sorted(found) == _sorted(expected), (method, begin, end)
        names = [type(t.operation).__name__ for t in ours.list_transactions()]
        assert len(names) == end - begin
        assert [t.uuid for t in ours.list_transactions()] == [
            t.uuid for t in theirs.list_transactions()
        ]


def _sorted(table: pa.Table) -> list[tuple[Any, ...]]:
    names = sorted(table.column_names)
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_a_row_that_changed_again_is_still_found(tmp_path: Path) -> None:
    ds = create(lk, str(tmp_path / "d"))
    ds.update({"v": "'a'"}, where="k = 3")
    ds.update({"v": "'b'"}, where="k = 3")
    updated = ds.delta(begin_version=1, end_version=2).get_updated_rows().read_all()
    assert updated.select(["k", "v"]).to_pylist() == [{"k": 3, "v": "a"}]
    with pytest.raises(InvalidArgumentError, match="compared_against"):
        ds.delta(begin_version=1)
    plain = lk.write_dataset(rows([1], "x"), tmp_path / "plain")
    plain.delete("k = 9")
    with pytest.raises(InvalidArgumentError, match="no stable row ids"):
        plain.delta(compared_against=1).get_inserted_rows()


def test_the_feature_is_one_of_the_dataset(tmp_path: Path) -> None:
    """It is there from the first version on, or never; empty tables have it too."""
    empty, plain = str(tmp_path / "empty"), str(tmp_path / "plain")
    for side in (lk, lance):
        ds = side.write_dataset(
            rows([], "x"), f"{empty}-{side.__name__}", enable_stable_row_ids=True
        )
        assert lk.dataset(ds.uri).has_stable_row_ids
        assert lance.dataset(ds.uri).has_stable_row_ids
        ds.insert(rows([4, 5], "y"))
        ds.insert(rows([6], "y"))
        assert [row[2] for row in state(ds.uri)] == [0, 1, 2]
        side.write_dataset(rows([1], "x"), f"{plain}-{side.__name__}")
        for mode in ("append", "overwrite"):
            later = side.write_dataset(
                rows([2], "x"), f"{plain}-{side.__name__}", mode=mode, enable_stable_row_ids=True
            )
            assert not later.has_stable_row_ids
    overwritten = lk.write_dataset(rows([8], "z"), f"{empty}-lancekit", mode="overwrite")
    assert state(overwritten.uri) == [(8, "z", 3, 4, 4)]


def test_branches_and_clones_go_on_with_the_ids(tmp_path: Path) -> None:
    ds = create(lk, str(tmp_path / "d"))
    branch = ds.create_branch("b")
    clone = ds.shallow_clone(tmp_path / "clone", 1)
    for copy in (branch, clone):
        merge = copy.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows([3, 99], "new"))
        found = copy.to_table(columns=COLUMNS, filter="v = 'new'").to_pylist()
        assert [(row["k"], *(row[name] for name in HIDDEN)) for row in found] == [
            (3, 3, 1, 2),
            (99, 20, 2, 2),
        ]
    for reference in (
        lance.dataset(str(tmp_path / "d")).checkout_version(("b", None)),
        lance.dataset(str(tmp_path / "clone")),
    ):
        assert reference.to_table(columns=COLUMNS).num_rows == 21
    assert ds.to_table(columns=HIDDEN).num_rows == 20


def test_ids_are_given_anew_after_a_lost_race(tmp_path: Path) -> None:
    ds = create(lk, str(tmp_path / "d"))
    stale = lk.dataset(ds.uri)
    ds.insert(rows([100, 101], "first"))
    stale.insert(rows([200], "second"))
    lance.dataset(ds.uri, version=2).insert(rows([300], "third"))
    assert [(row[0], row[2], row[3]) for row in state(ds.uri)[20:]] == [
        (100, 20, 2), (101, 21, 2), (200, 22, 3), (300, 23, 4),
    ]  # fmt: skip


def test_retries_of_a_merge_keep_the_ids_of_moved_rows(tmp_path: Path) -> None:
    ds = create(lk, str(tmp_path / "d"))
    stale = lk.dataset(ds.uri)
    for handle, text in ((ds, "first"), (stale, "second")):
        merge = handle.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        merge.retry_timeout(timedelta(seconds=HANG_SECONDS)).execute(rows([5, 70, 6], text))
    found = {row[0]: row[2:] for row in state(ds.uri)}
    assert (found[5], found[6]) == ((5, 1, 3), (6, 1, 3))
    assert found[70] == (20, 2, 3)
    assert len(found) == 21


@pytest.mark.parametrize("stable", [False, True])
def test_rows_by_id_are_those_of_the_reference(tmp_path: Path, stable: bool) -> None:
    path, rng = str(tmp_path / "d"), random.Random(3)
    theirs = lance.write_dataset(
        rows(list(range(100)), "x"), path, max_rows_per_file=9, enable_stable_row_ids=stable
    )
    theirs.delete("k % 7 = 3 OR k BETWEEN 16 AND 19")
    theirs.update({"v": "'moved'"}, where="k BETWEEN 50 AND 70")
    ours = lk.dataset(path)
    live = theirs.to_table(with_row_id=True)["_rowid"].to_pylist()
    dead = [3, 10, 5000] if stable else [3]
    for _ in range(40):
        ids = [*rng.choices(live, k=rng.randrange(6)), rng.choice(dead)]
        rng.shuffle(ids)
        found = ours._take_rows(ids, with_row_id=True, with_row_address=True)
        assert found.select(["k", "v"]).equals(theirs._take_rows(ids))
        assert found["_rowid"].to_pylist() == [id_ for id_ in ids if id_ in live]
        for columns in (["v"], {"z": "k + 1"}):
            both = (ds._take_rows(pa.array(ids), columns=columns) for ds in (ours, theirs))
            assert next(both).equals(next(both))
    assert ours._take_rows([]).num_rows == 0
    if not stable:
        for address in (9, 40 << 32):
            with pytest.raises(RowOutOfRangeError, match="address"):
                ours._take_rows([address])


def test_the_oldest_reference_takes_turns(tmp_path: Path, pylance4: Run) -> None:
    path = str(tmp_path / "d")
    ds = create(lk, path)
    ds.merge_insert("k").when_matched_update_all().execute(rows([3, 8], "ours"))
    program = """
ds = lance.dataset(arguments["path"])
ds.insert(pa.table({"k": pa.array([50], pa.int64()), "v": ["theirs"]}))
ds.update({"v": "'theirs'"}, where="k IN (3, 12)")
ds.delete("k = 0")
names = ["k", "v", "_rowid", "_row_last_updated_at_version"]
table = ds.to_table(columns=names)
result = sorted(map(list, zip(*(table[n].to_pylist() for n in names))))
"""
    known = pylance4(program, path=path)
    assert (
        known
        == [[k, v, id_, at] for k, v, id_, _, at in state(path, lk)]
        == [[k, v, id_, at] for k, v, id_, _, at in state(path)]
    )
    ds.checkout_latest()
    ds.merge_insert("k").when_matched_update_all().execute(rows([3, 50], "last"))
    assert [row[2] for row in state(path) if row[1] == "last"] == [3, 20]
    assert state(path, lk) == state(path)


@pytest.mark.spark
def test_both_engines_move_the_same_ids(tmp_path: Path, spark: Any) -> None:
    source = rows([*range(5, 60, 3)], "new")
    found = []
    for name, data in (("local", source), ("spark", spark.createDataFrame(source.to_pandas()))):
        ds = create(lk, str(tmp_path / name), count=40)
        ds.delete("k % 9 = 2")
        merge = ds.merge_insert("k").when_matched_update_all("target.k < 33")
        result = merge.when_not_matched_insert_all().execute(data)
        assert result.engine == name
        table = lance.dataset(ds.uri).to_table(columns=["k", "v", *HIDDEN])
        old = [row for row in table.to_pylist() if row["_row_created_at_version"] == 1]
        assert [row["_rowid"] for row in old] == [row["k"] for row in old]
        assert "new" in {row["v"] for row in old}
        versions = table.select(["k", "v", *HIDDEN[1:]]).to_pylist()
        found.append(sorted(versions, key=lambda row: row["k"]))
        fresh = sorted(set(table["_rowid"].to_pylist()) - {row["_rowid"] for row in old})
        assert fresh == list(range(40, 40 + len(fresh)))
        fragments = latest_snapshot(open_location(ds.uri)).manifest.fragments
        assert all(f.row_ids is not None for f in fragments)
    assert found[0] == found[1]


def test_ids_in_a_file_beside_the_manifest(tmp_path: Path, pylance4: Run) -> None:
    """No release writes such a file; the oldest reference reads its row ids, as lancekit does."""
    ds = create(lk, str(tmp_path / "d"), count=4)
    ds.insert(rows([9], "y"))
    path = next((tmp_path / "d" / "_versions").glob("*613.manifest"))
    snapshot = latest_snapshot(open_location(ds.uri))
    first, *rest = snapshot.manifest.fragments
    ids = encode_row_ids(range(100, 104))
    (tmp_path / "d" / "_ids.bin").write_bytes(b"head" + ids + b"tail")
    place = {"path": "_ids.bin", "offset": 4, "size": len(ids)}
    outside = pb.DataFragment(external_row_ids=place).SerializeToString()

    def write(unknown: bytes) -> None:
        moved = replace(first, row_ids=None, unknown=unknown)
        manifest = replace(snapshot.manifest, fragments=FragmentList.of((moved, *rest)))
        path.write_bytes(encode_manifest_file(manifest))

    write(outside)
    found = lk.dataset(ds.uri)
    assert found.to_table(columns=["_rowid"])["_rowid"].to_pylist() == [100, 101, 102, 103, 4]
    program = 'result = lance.dataset(arguments["path"]).to_table(with_row_id=True)["_rowid"]'
    assert pylance4(program + ".to_pylist()", path=ds.uri) == [100, 101, 102, 103, 4]
    assert found._take_rows([4, 102])["k"].to_pylist() == [9, 2]
    for damage in ({"path": "../x"}, {"path": "/etc/passwd"}, {"size": 99}, {"path": "none"}):
        bad = pb.DataFragment(external_row_ids={**place, **damage})
        write(bad.SerializeToString())
        with pytest.raises(CorruptFileError):
            lk.dataset(ds.uri).to_table(columns=["_rowid"])
