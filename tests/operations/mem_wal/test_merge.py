"""Merging what pylance flushed into the table: once, whole, and in order."""

from __future__ import annotations

import random
import shutil
import threading
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.details import details_of
from lancekit._operations.mem_wal import merge as merging
from lancekit._operations.mem_wal import merge_step
from lancekit._operations.mem_wal.claim import claim
from lancekit._shards.manifests import latest
from lancekit._shards.schema import shard_of, shards_of, wal_schema
from lancekit.errors import (
    ConstraintViolationError,
    CorruptFileError,
    InvalidArgumentError,
    ShardError,
)
from tests.support.mem_wal_model import KEYS, SCHEMA, History, table_of, write_with_pylance
from tests.support.s3 import S3Server

ONE, TWO = (str(uuid.UUID(int=number)) for number in (1, 2))


def made(path: Path, rows: int = 10, **how: Any) -> Any:
    """Return a table of some rows that may have shards."""
    table = table_of({key: (float(key), str(key)) for key in range(rows)})
    ds = lance.write_dataset(table, str(path), **how)
    ds.initialize_mem_wal(unsharded=True)
    return ds


def values(path: Path) -> dict[int, float | None]:
    """Return the values of a table by key, as pylance reads it."""
    table = lance.dataset(str(path)).to_table()
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def merged(path: Path) -> dict[str, int]:
    """Return the marks of a table."""
    details = details_of(lk.dataset(str(path))._snapshot.indices)
    assert details is not None
    return {str(shard): number for shard, number in details.merged.items()}


def listed(path: Path) -> list[list[int]]:
    """Return the generations that the manifests of the shards list."""
    found = [latest(shard) for shard in shards_of(lk.dataset(str(path))._snapshot.store)]
    return [[t.generation for t in manifest.sstables] for manifest in found if manifest]


def test_rows_deletes_and_mark_are_one_version(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    write_with_pylance(ds, ONE, {1: (100.0, None), 20: (200.0, "b"), 21: (210.0, "c")}, [2])
    write_with_pylance(ds, ONE, {2: (22.0, "b"), 3: (300.0, "a")}, [20, 5, 77])
    mine = lk.dataset(ds.uri)
    told: list[tuple[int, int]] = []
    done = mine.merge_mem_wal(progress=lambda *at: told.append(at))
    assert dict(done) == {
        "num_inserted_rows": 1,
        "num_updated_rows": 3,
        "num_deleted_rows": 1,
        "num_merged_generations": 2,
        "num_quarantined_rows": 0,
    }
    assert [(str(s.shard), s.generations) for s in done.shards] == [(ONE, (1, 2))]
    assert (done.commits, done.version, told) == (1, done.read_version + 1, [(2, 2)])
    assert mine.version == done.version
    expected = {0: 0.0, 1: 100.0, 2: 22.0, 3: 300.0, 4: 4.0, 6: 6.0, 7: 7.0, 8: 8.0, 9: 9.0}
    assert values(tmp_path / "t") == {**expected, 21: 210.0}
    assert merged(tmp_path / "t") == {ONE: 2}
    assert listed(tmp_path / "t") == [[]]
    again = mine.merge_mem_wal()
    assert (again["num_merged_generations"], again.version) == (0, done.version)


@pytest.mark.cover
@pytest.mark.torture
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_histories(tmp_path: Path, seed: int, stable: bool, whole: bool) -> None:
    for number in range(20 if whole else 1):
        chance = random.Random(100 * seed + number)
        history = History(tmp_path / f"t{number}", chance, stable)
        history.begin()
        for _ in range(14):
            act = chance.choice([history.write] * 3 + [history.change_base, history.merge])
            if act == history.merge:
                history.merge(rows_per_commit=chance.choice([1, 8, 1000]))
            else:
                act()
        history.merge()


@pytest.mark.parametrize("stable", [False, True])
def test_case_15_killed_between_merge_and_drain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    ds = made(tmp_path / "t", enable_stable_row_ids=stable)
    write_with_pylance(ds, ONE, {1: (100.0, None), 20: (200.0, "b")}, [2])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(merging, "drain", killed)
        with pytest.raises(KeyboardInterrupt):
            lk.dataset(ds.uri).merge_mem_wal()
    once = values(tmp_path / "t")
    assert once[1], once[20] == (100.0, 200.0)
    assert 2 not in once
    assert listed(tmp_path / "t") == [[1]]
    lance.dataset(ds.uri).update({"v": "77.0"}, where="id = 1")
    done = lk.dataset(ds.uri).merge_mem_wal()
    assert (done["num_merged_generations"], done.commits) == (0, 0)
    assert values(tmp_path / "t") == {**once, 1: 77.0}
    assert listed(tmp_path / "t") == [[]]


def test_case_16_two_mergers_of_the_same_generations(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    for number in range(4):
        write_with_pylance(ds, ONE, {number: (100.0 + number, None), 30 + number: (1.0, "")}, [9])
    expected = {key: float(key) for key in range(4, 9)}
    expected |= {key: 100.0 + key for key in range(4)} | dict.fromkeys(range(30, 34), 1.0)
    together = threading.Barrier(3)
    done: list[Any] = []

    def merge(rows_per_commit: int) -> None:
        handle = lk.dataset(ds.uri)
        together.wait()
        done.append(handle.merge_mem_wal(rows_per_commit=rows_per_commit))

    threads = [threading.Thread(target=merge, args=(rows,)) for rows in (1, 3, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one["num_merged_generations"] for one in done) == 4
    assert sum(one["num_inserted_rows"] for one in done) == 4
    assert values(tmp_path / "t") == expected
    assert merged(tmp_path / "t") == {ONE: 4}
    assert listed(tmp_path / "t") == [[]]


def test_case_16_the_other_merger_lands_while_this_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = made(tmp_path / "t")
    write_with_pylance(ds, ONE, {40: (1.0, None)}, [])
    write_with_pylance(ds, ONE, {}, [40, 3])
    first = lk.dataset(ds.uri)
    prepare_merge = merge_step.prepare_merge

    def late(*args: Any, **more: Any) -> Any:
        found = prepare_merge(*args, **more)
        monkeypatch.undo()
        # the first of the two generations alone: what was worked out of both is wrong by now
        other = lk.dataset(ds.uri).merge_mem_wal(rows_per_commit=1)
        assert other["num_merged_generations"] == 2
        return found

    monkeypatch.setattr(merge_step, "prepare_merge", late)
    done = first.merge_mem_wal()
    assert (done["num_merged_generations"], done.num_skipped_generations) == (0, 2)
    assert values(tmp_path / "t").keys() == set(range(10)) - {3}


def test_case_17_mergers_of_different_shards_both_land(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    write_with_pylance(ds, ONE, {1: (100.0, None), 21: (1.0, "")}, [3])
    write_with_pylance(ds, TWO, {2: (200.0, None), 22: (2.0, "")}, [4])
    handles = [lk.dataset(ds.uri) for _ in range(2)]
    done = [
        handle.merge_mem_wal([shard]) for handle, shard in zip(handles, (ONE, TWO), strict=True)
    ]
    assert [one.commits for one in done] == [1, 1]
    assert merged(tmp_path / "t") == {ONE: 1, TWO: 1}
    found = values(tmp_path / "t")
    assert [found[key] for key in (1, 2, 21, 22)] == [100.0, 200.0, 1.0, 2.0]
    assert found.keys().isdisjoint({3, 4})


def test_case_21_a_key_through_base_and_generations(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    steps: list[tuple[dict[int, Any], list[int], float | None]] = [
        ({7: (70.0, None)}, [], 70.0),
        ({}, [7], None),
        ({7: (71.0, "x")}, [], 71.0),
    ]
    for rows, gone, expected in steps:
        write_with_pylance(lance.dataset(ds.uri), ONE, rows, gone)
        lk.dataset(ds.uri).merge_mem_wal()
        assert values(path).get(7) == expected
    for rows, gone, _ in steps:
        write_with_pylance(lance.dataset(ds.uri), ONE, rows, gone)
    lk.dataset(ds.uri).merge_mem_wal()  # all three at once
    assert values(path)[7] == 71.0
    assert lance.dataset(ds.uri).count_rows("id = 7") == 1


def test_row_ids_stay_with_their_keys(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", enable_stable_row_ids=True)
    write_with_pylance(ds, ONE, {3: (1.0, None), 50: (2.0, None), 1: (3.0, None)}, [5])
    lk.dataset(ds.uri).merge_mem_wal()
    table = lance.dataset(ds.uri).to_table(with_row_id=True)
    ids = dict(zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))
    assert ids == {key: key for key in range(10) if key != 5} | {50: 10}


def test_rows_without_a_key_are_appended(tmp_path: Path) -> None:
    ds = lance.write_dataset(pa.table({"x": [1, 2]}), str(tmp_path / "t"))
    ds.initialize_mem_wal(unsharded=True)
    for number in (3, 1):
        with ds.mem_wal_writer(ONE) as writer:
            writer.put(pa.table({"x": [number, number]}))
    done = lk.dataset(ds.uri).merge_mem_wal()
    assert done["num_inserted_rows"] == 4
    assert sorted(lance.dataset(ds.uri).to_table()["x"].to_pylist()) == [1, 1, 1, 2, 3, 3]


def test_columns_that_changed_since(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    write_with_pylance(ds, ONE, {1: (100.0, "a")}, [2])
    mine = lk.dataset(ds.uri)
    mine.alter_columns({"path": "v", "name": "w"})
    # it gets the id that marks deleted rows in the generation
    mine.add_columns(pa.field("new", pa.bool_()))
    mine.drop_columns(["s"])
    mine.merge_mem_wal()
    table = lance.dataset(ds.uri).to_table(filter="id in (0, 1, 2)").sort_by("id")
    assert table.to_pydict() == {"id": [0, 1], "w": [0.0, 100.0], "new": [None, None]}


def test_a_generation_that_is_gone(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    write_with_pylance(ds, ONE, {1: (100.0, "a")}, [])
    (folder,) = (tmp_path / "t/_mem_wal" / ONE).glob("*_gen_1")
    shutil.rmtree(folder)
    with pytest.raises((CorruptFileError, FileNotFoundError), match="gen_1"):
        lk.dataset(ds.uri).merge_mem_wal()
    assert merged(tmp_path / "t") == {}


def test_others_change_the_table_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = made(tmp_path / "t")
    write_with_pylance(ds, ONE, {1: (100.0, "a"), 60: (6.0, "")}, [4])
    prepare_merge = merge_step.prepare_merge

    def compact() -> None:
        lk.dataset(ds.uri).optimize.compact_files()

    changes = [
        lambda: lance.dataset(ds.uri).update({"v": "-1.0"}, where="id <= 1"),
        lambda: (
            lance.dataset(ds.uri)
            .merge_insert("id")
            .when_not_matched_insert_all()
            .execute(table_of({60: (0.5, "other"), 61: (0.5, "other")}))
        ),
        compact,
        lambda: lance.write_dataset(table_of({70: (7.0, "")}), ds.uri, mode="append"),
    ]

    def late(*args: Any, **more: Any) -> Any:
        found = prepare_merge(*args, **more)
        if changes:
            changes.pop()()
        return found

    monkeypatch.setattr(merge_step, "prepare_merge", late)
    done = lk.dataset(ds.uri).merge_mem_wal()
    assert done.attempts == 5
    expected = {0: -1.0, 1: 100.0, 2: 2.0, 3: 3.0, **{key: float(key) for key in range(5, 10)}}
    assert values(tmp_path / "t") == {**expected, 60: 6.0, 61: 0.5, 70: 7.0}


def test_a_merge_on_a_branch_leaves_main_alone(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    write_with_pylance(ds, ONE, {1: (100.0, "a")}, [])
    branch = ds.create_branch("b")
    write_with_pylance(branch, TWO, {2: (200.0, "a")}, [3])
    mine = lk.dataset(ds.uri).checkout_version(("b", None))
    assert [str(s.shard) for s in mine.merge_mem_wal().shards] == [TWO]
    assert mine.to_table(filter="id < 4").sort_by("id")["v"].to_pylist() == [0.0, 1.0, 200.0]
    assert values(tmp_path / "t") == {key: float(key) for key in range(10)}
    lk.dataset(ds.uri).merge_mem_wal()
    assert values(tmp_path / "t")[1] == 100.0
    assert merged(tmp_path / "t") == {ONE: 1}


def test_pylance_goes_on_writing(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    with ds.mem_wal_writer(ONE, max_memtable_rows=2) as writer:
        for key in range(12):
            writer.put(table_of({key: (1000.0 + key, None)}))
            if key % 3 == 2:
                lk.dataset(ds.uri).merge_mem_wal()
        writer.delete(pa.table({"id": [0]}, schema=KEYS))
    lk.dataset(ds.uri).merge_mem_wal()
    assert values(tmp_path / "t") == {key: 1000.0 + key for key in range(1, 12)}
    assert listed(tmp_path / "t") == [[]]


@pytest.mark.parametrize("flush", [False, True])
def test_a_table_without_logs_has_nothing_to_merge(tmp_path: Path, flush: bool) -> None:
    """`mem_wal_upsert` makes the logs: what comes before it is no fault."""
    plain = lk.write_dataset({"id": [1]}, tmp_path / "t", primary_key="id")
    done = plain.merge_mem_wal(flush=flush)
    assert (done.commits, bool(done.waiting), plain.version) == (0, False, 1)
    assert plain.explain.merge_mem_wal(flush=flush).commits == ()
    assert plain.cleanup_mem_wal().files_removed == 0
    assert plain.repair_mem_wal() == []
    plain.mem_wal_upsert({"id": [2]})
    assert plain.merge_mem_wal(flush=flush).num_inserted_rows == 1


def test_what_is_refused(tmp_path: Path) -> None:
    plain = lk.write_dataset(table_of({}), tmp_path / "plain", schema=SCHEMA)
    plain.initialize_mem_wal()
    plain.mem_wal_writer(ONE).put(table_of({1: (1.0, "")}))
    lance.dataset(plain.uri).drop_index("__lance_mem_wal")
    plain.checkout_latest()
    for call in (plain.merge_mem_wal, plain.cleanup_mem_wal, plain.repair_mem_wal):
        with pytest.raises(InvalidArgumentError, match="has no MemWAL"):
            call()
    ds = lk.dataset(made(tmp_path / "t").uri)
    with pytest.raises(InvalidArgumentError, match="no shard"):
        ds.merge_mem_wal([ONE])
    with pytest.raises(InvalidArgumentError, match="shards must be UUIDs"):
        ds.merge_mem_wal(["one"])


@pytest.mark.parametrize("stable", [False, True])
def test_a_key_that_the_table_has_twice_is_there_once(tmp_path: Path, stable: bool) -> None:
    """An append does not look for keys; what shards say of one takes the place of all its rows."""
    ds = made(tmp_path / "t", 4, enable_stable_row_ids=stable)
    ds = lance.write_dataset(table_of({1: (-1.0, ""), 2: (-2.0, "")}), ds.uri, mode="append")
    write_with_pylance(ds, ONE, {1: (100.0, None)}, [2])
    lk.dataset(ds.uri).merge_mem_wal()
    table = lance.dataset(ds.uri).to_table(with_row_id=stable).sort_by("id")
    assert table["id"].to_pylist() == [0, 1, 3]
    assert table["v"].to_pylist() == [0.0, 100.0, 3.0]
    if stable:
        assert table["_rowid"].to_pylist() == [0, 1, 3]


def test_case_18_a_generation_before_an_earlier_one(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    for key in (1, 2, 3):
        write_with_pylance(ds, ONE, {key: (100.0, None)}, [])

    def merge(key: int) -> object:
        clauses = lk.dataset(ds.uri).merge_insert("id").when_matched_update_all()
        clauses = clauses.mark_sstables_as_compacted([lk.CompactedSsTable(ONE, key)])
        return clauses.execute(table_of({key: (100.0, None)}))

    merge(1)
    before = lk.dataset(ds.uri).version
    with pytest.raises(InvalidArgumentError, match=r"3 of shard .* cannot be merged before 2"):
        merge(3)
    assert lk.dataset(ds.uri).version == before
    merge(2)
    assert lk.dataset(ds.uri).merge_mem_wal()["num_merged_generations"] == 1
    assert [value for _, value in sorted(values(tmp_path / "t").items())][:5] == [
        0.0,
        100.0,
        100.0,
        100.0,
        4.0,
    ]
    assert listed(tmp_path / "t") == [[]]


def test_a_shard_that_pylance_began_below_an_inherited_mark(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    for key in (1, 2):
        write_with_pylance(ds, ONE, {key: (100.0, None)}, [])
    lk.dataset(ds.uri).merge_mem_wal()
    branch = lance.dataset(ds.uri).create_branch("b")
    write_with_pylance(branch, ONE, {5: (500.0, None)}, [])
    mine = lk.dataset(ds.uri).checkout_version(("b", None))
    with pytest.raises(ShardError, match=r"Generation 2 of .* records all up to 2"):
        mine.merge_mem_wal()
    # past the mark, too
    for key in (6, 7):
        write_with_pylance(branch, ONE, {key: (100.0 * key, None)}, [])
    with pytest.raises(ShardError, match=r"Generation 1 of .* records all up to 2"):
        mine.merge_mem_wal()
    assert [len(shard.unmerged_generations) for shard in mine.mem_wal_shards()] == [3]
    read = mine.to_table(include_mem_wal=True, filter="id >= 5 AND id <= 7").sort_by("id")
    assert read["v"].to_pylist() == [500.0, 600.0, 700.0]
    with pytest.raises(InvalidArgumentError, match="unmerged generations 1, 2, 3"):
        mine.drop_index("__lance_mem_wal")
    assert len(list((tmp_path / "t/tree/b/_mem_wal" / ONE).glob("*_gen_1"))) == 1


def test_a_shard_that_lancekit_began_goes_on_above_it(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    for key in (1, 2):
        write_with_pylance(ds, ONE, {key: (100.0, None)}, [])
    lk.dataset(ds.uri).merge_mem_wal()
    branch = lk.dataset(ds.uri).create_branch("b")
    schema = wal_schema(branch._snapshot.manifest.schema)
    claim(shard_of(branch._snapshot.store, uuid.UUID(ONE)), schema, merged=2)
    write_with_pylance(lance.dataset(branch._location.uri), ONE, {5: (500.0, None)}, [])
    done = branch.merge_mem_wal()
    assert [shard.generations for shard in done.shards] == [(3,)]
    assert branch.to_table(filter="id = 5")["v"].to_pylist() == [500.0]
    assert values(tmp_path / "t")[5] == 5.0


def test_rows_that_break_a_constraint_stay_in_their_shard(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    write_with_pylance(ds, ONE, {1: (-5.0, "")}, [2])
    mine = lk.dataset(ds.uri)
    mine.constraints.add("positive", "v >= 0")
    files = sorted(path.name for path in (tmp_path / "t/data").iterdir())
    with pytest.raises(ConstraintViolationError, match="positive"):
        mine.merge_mem_wal()
    assert sorted(path.name for path in (tmp_path / "t/data").iterdir()) == files
    assert (listed(tmp_path / "t"), merged(tmp_path / "t")) == ([[1]], {})
    write_with_pylance(ds, ONE, {1: (5.0, "")}, [])
    assert mine.merge_mem_wal()["num_merged_generations"] == 2  # of each key the newest row counts
    assert values(tmp_path / "t")[1] == 5.0


def test_on_an_object_store(s3: S3Server) -> None:
    options = s3.storage_options
    uri = f"s3://{s3.bucket}/merge-mem-wal"
    table = table_of({key: (float(key), "") for key in range(4)})
    lance.write_dataset(table, uri, storage_options=options).initialize_mem_wal(unsharded=True)
    for number in (1, 2):
        shards = lance.dataset(uri, storage_options=options)
        write_with_pylance(shards, ONE, {0: (10.0 * number, ""), 9: (9.0, "")}, [number])
    ds = lk.dataset(uri, storage_options=options)
    ds.merge_mem_wal()
    assert ds.to_table().sort_by("id")["v"].to_pylist() == [20.0, 3.0, 9.0]
    done = ds.cleanup_mem_wal(grace=timedelta(0))
    assert (done.generations_removed, done.log_entries_removed) == (2, 3)
    write_with_pylance(lance.dataset(uri, storage_options=options), ONE, {3: (30.0, "")}, [])
    assert ds.merge_mem_wal()["num_updated_rows"] == 1
    assert ds.to_table().sort_by("id")["v"].to_pylist() == [20.0, 30.0, 9.0]


def test_a_manifest_that_is_older_than_what_was_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifests are read before the version: others may flush and merge in between."""
    ds = made(tmp_path / "t")
    write_with_pylance(ds, ONE, {1: (100.0, None)}, [])
    newest = merging.latest_snapshot

    def late(line: Any) -> Any:
        monkeypatch.undo()
        write_with_pylance(lance.dataset(ds.uri), ONE, {2: (200.0, None)}, [])
        lk.dataset(ds.uri).merge_mem_wal()
        return newest(line)

    monkeypatch.setattr(merging, "latest_snapshot", late)
    assert lk.dataset(ds.uri).merge_mem_wal()["num_merged_generations"] == 0
    assert [value for _, value in sorted(values(tmp_path / "t").items())][1:3] == [100.0, 200.0]
