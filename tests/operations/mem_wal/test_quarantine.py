"""Rows that the table refuses: the merge goes on without them, and nothing is lost."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.unmerged.marks import quarantined_rows
from lancekit.errors import (
    ConstraintViolationError,
    CorruptFileError,
    InvalidArgumentError,
    PredicateError,
    SchemaMismatchError,
    UnsupportedTypeError,
)
from tests.support.mem_wal_model import table_of, write_with_pylance
from tests.support.quarantine_table import (
    ONE,
    OTHERS,
    THREE,
    TWO,
    Make,
    put,
    rows_of,
    values,
    waiting,
)

# ---- by default


def test_a_row_stops_its_shard_and_no_other(made: Make, tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    before = ds.version
    with pytest.raises(ConstraintViolationError) as caught:
        ds.merge_mem_wal()
    text = str(caught.value)
    assert f"Generation 1 of shard {ONE} cannot be merged: the table rejects 1 row." in text
    assert "the row with id = 1: breaks the constraint 'positive' (v >= 0)" in text
    assert TWO in text
    assert 'on_error="quarantine"' in text
    facts = caught.value.context
    assert (facts["shard"], facts["generation"], facts["keys"]) == (ONE, 1, [{"id": 1}])
    assert list(facts["failed"]) == [ONE]
    assert [str(shard.shard) for shard in facts["merged"].shards] == [TWO, THREE]
    assert values(tmp_path / "t") == {**OTHERS, 1: 1.0, 2: 2.0, 20: 20.0, 30: 30.0}
    assert ds.version == facts["merged"].version > before
    assert ds.count_rows("id = 20") == 1
    with pytest.raises(ConstraintViolationError):  # and once more: nothing is merged twice
        ds.merge_mem_wal()
    assert values(tmp_path / "t")[20] == 20.0


def test_earlier_generations_of_the_shard_are_merged(made: Make, tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    put(tmp_path / "t", TWO, {21: (-1.0, "bad")})
    put(tmp_path / "t", TWO, {22: (22.0, "")})
    with pytest.raises(ConstraintViolationError) as caught:
        ds.merge_mem_wal()
    assert list(caught.value.context["failed"]) == [ONE, TWO]
    assert f"Generation 2 of shard {TWO}" in caught.value.message
    assert values(tmp_path / "t").keys() == {*range(5), 20, 30}


def test_a_generation_that_is_damaged_stops_no_other_shard(made: Make, tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    ds.constraints.drop("positive")
    (manifest,) = (tmp_path / "t/_mem_wal" / ONE).glob("*_gen_1/_versions/*.manifest")
    manifest.unlink()
    for how in ("raise", "quarantine"):
        with pytest.raises(CorruptFileError, match=f"shard {ONE}"):
            ds.merge_mem_wal(on_error=how)
    assert values(tmp_path / "t").keys() == {*range(5), 20, 30}


def test_a_condition_of_the_table_names_no_row(made: Make, tmp_path: Path) -> None:
    ds = made(tmp_path / "t", constraint="min(v) >= 0")
    with pytest.raises(ConstraintViolationError, match=f"Generation 1 of shard {ONE}.*'positive'"):
        ds.merge_mem_wal(on_error="quarantine")
    assert len(ds.mem_wal_quarantine()) == 0
    assert values(tmp_path / "t").keys() == {*range(5), 20, 30}


# ---- into the quarantine


def test_the_row_goes_to_quarantine_and_all_others_into_the_table(
    made: Make, tmp_path: Path
) -> None:
    ds = made(tmp_path / "t")
    done = ds.merge_mem_wal(on_error="quarantine")
    assert (done["num_quarantined_rows"], done["num_merged_generations"]) == (1, 3)
    assert (done["num_inserted_rows"], done["num_deleted_rows"]) == (3, 1)
    assert values(tmp_path / "t") == {**OTHERS, 1: 1.0, 10: 10.0, 20: 20.0, 30: 30.0}
    (row,) = rows_of(ds)
    assert row.pop("_quarantine_row") >= 0
    assert row.pop("_quarantine_time").tzinfo is not None
    assert row == {
        "id": 1,
        "v": -5.0,
        "s": "bad",
        "_tombstone": False,
        "_quarantine_shard": ONE,
        "_quarantine_generation": 1,
        "_quarantine_reason": "breaks the constraint 'positive' (v >= 0)",
    }
    assert quarantined_rows(ds._snapshot) == 1
    assert ds.merge_mem_wal()["num_merged_generations"] == 0
    assert waiting(ds) == [(1, -5.0, ONE, 1)]
    # in no version, and in no log
    assert ds.count_rows("v < 0", include_mem_wal=True) == 0


@pytest.mark.parametrize("how", ["raise", "quarantine"])
def test_later_rows_of_the_key_follow(made: Make, tmp_path: Path, how: Any) -> None:
    ds, path = made(tmp_path / "t"), tmp_path / "t"
    ds.merge_mem_wal(on_error="quarantine")
    put(path, ONE, {1: (7.0, "good"), 11: (11.0, "")})
    put(path, ONE, {}, (1, 11))
    put(path, TWO, {1: (8.0, "elsewhere")})
    done = ds.merge_mem_wal(on_error=how, rows_per_commit=1)
    assert done["num_quarantined_rows"] == 3
    assert values(path)[1] == 1.0
    assert 11 not in values(path)
    assert [row[3] for row in waiting(ds)] == [1, 2, 2, 3]
    assert [row["_tombstone"] for row in rows_of(ds)] == [False, False, False, True]
    assert "earlier row" in rows_of(ds)[1]["_quarantine_reason"]
    assert ds.mem_wal_quarantine().put_back() == 4  # the delete is the newest
    assert values(path).keys() == {0, 3, 4, 10, 20, 30}
    put(path, ONE, {1: (9.0, "again")})
    assert ds.merge_mem_wal()["num_quarantined_rows"] == 0
    assert values(path)[1] == 9.0


def test_a_sound_row_before_the_refused_row_is_merged(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    put(path, TWO, {20: (21.0, "")})
    put(path, TWO, {20: (-22.0, "bad")})
    put(path, TWO, {20: (-23.0, "worse")})
    done = ds.merge_mem_wal(on_error="quarantine")
    assert (done.commits, done["num_quarantined_rows"]) == (1, 3)
    assert values(path)[20] == 21.0
    assert [row[1] for row in waiting(ds)] == [-5.0, -22.0, -23.0]


def test_a_refused_row_before_a_sound_row_does_not_count(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    put(path, ONE, {1: (5.0, "")})
    assert ds.merge_mem_wal()["num_quarantined_rows"] == 0
    assert values(path)[1] == 5.0


def test_a_table_without_a_key(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = lance.write_dataset(pa.table({"v": [1.0, 2.0]}), str(path))
    ds.initialize_mem_wal()
    for batch in ([3.0, -1.0, -1.0], [4.0, -1.0]):
        with ds.mem_wal_writer(ONE) as writer:
            writer.put(pa.table({"v": batch}))
    mine = lk.dataset(ds.uri)
    mine.constraints.add("positive", "v >= 0")
    with pytest.raises(ConstraintViolationError, match=r"the row with v = -1\.0"):
        mine.merge_mem_wal()
    done = mine.merge_mem_wal(on_error="quarantine")
    assert done["num_quarantined_rows"] == 3
    assert sorted(mine.to_table()["v"].to_pylist()) == [1.0, 2.0, 3.0, 4.0]
    quarantine = mine.mem_wal_quarantine()
    with pytest.raises(InvalidArgumentError, match="_quarantine_row"):
        quarantine.put_back({"v": [1.0]})
    assert quarantine.put_back({"v": [5.0], "_quarantine_row": numbers(mine, 1)}) == 1
    quarantine = mine.mem_wal_quarantine()
    assert quarantine.discard({"_quarantine_row": numbers(mine, 1)}) == 1
    assert waiting_values(mine) == [-1.0]
    assert sorted(mine.to_table()["v"].to_pylist()) == [1.0, 2.0, 3.0, 4.0, 5.0]


def numbers(ds: Any, place: int) -> list[int]:
    return [rows_of(ds)[place]["_quarantine_row"]]


def waiting_values(ds: Any) -> list[float]:
    found: list[float] = ds.mem_wal_quarantine().to_table()["v"].to_pylist()
    return found


# ---- the reasons


def reason(ds: Any) -> str:
    """Merge with a quarantine, and return the reason of the one row that is in it."""
    assert ds.merge_mem_wal(on_error="quarantine")["num_quarantined_rows"] == 1
    (row,) = rows_of(ds)
    assert row["id"] == 1
    return str(row["_quarantine_reason"])


def test_a_condition_that_cannot_be_computed(made: Make, tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    ds.constraints.drop("positive")
    ds.constraints.add("a number", "10 / (id - 1) > -100", existing="allow")
    with pytest.raises(PredicateError, match="the row with id = 1: the constraint 'a number'"):
        ds.merge_mem_wal()
    assert "cannot be computed" in reason(ds)
    assert values(tmp_path / "t") == {**OTHERS, 1: 1.0, 10: 10.0, 20: 20.0, 30: 30.0}


def test_a_column_that_takes_no_nulls_since(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = lance.write_dataset(table_of({5: (5.0, "")}), str(path))
    ds.initialize_mem_wal()
    write_with_pylance(ds, ONE, {1: (None, "bad"), 2: (2.0, "")}, [])
    lance.dataset(str(path)).drop_index("__lance_mem_wal")
    lance.dataset(str(path)).alter_columns({"path": "v", "nullable": False})
    lance.dataset(str(path)).initialize_mem_wal()
    mine = lk.dataset(str(path))
    with pytest.raises(
        SchemaMismatchError, match="the row with id = 1: column 'v' is not nullable"
    ):
        mine.merge_mem_wal()
    assert reason(mine) == "column 'v' is not nullable"
    assert values(path) == {5: 5.0, 2: 2.0}
    assert mine.mem_wal_quarantine().put_back({"id": [1], "v": [1.5], "s": ["good"]}) == 1
    assert values(path) == {5: 5.0, 2: 2.0, 1: 1.5}


def test_a_null_struct_that_files_of_2_0_do_not_hold(tmp_path: Path) -> None:
    key = {b"lance-schema:unenforced-primary-key": b"true"}
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata=key),
            pa.field("v", pa.struct([("x", pa.int64())])),
        ]
    )
    rows = pa.table({"id": [0], "v": [{"x": 1}]}, schema)
    ds = lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="2.0")
    ds.initialize_mem_wal()
    # pylance takes the rows into the log, and then cannot write the generation
    with pytest.raises(OSError, match="null value"), ds.mem_wal_writer(ONE) as writer:
        writer.put(pa.table({"id": [1, 2], "v": [None, {"x": 5}]}, schema))
    mine = lk.dataset(ds.uri)
    mine.mem_wal_writer(ONE).close()
    with pytest.raises(UnsupportedTypeError, match="the row with id = 1: Column 'v' has null"):
        mine.merge_mem_wal()
    assert "null structs" in reason(mine)
    assert mine.mem_wal_quarantine().put_back({"id": [1], "v": [{"x": 9}]}) == 1
    assert lance.dataset(ds.uri).to_table(filter="id > 0").to_pylist() == [
        {"id": 2, "v": {"x": 5}},
        {"id": 1, "v": {"x": 9}},
    ]


# ---- beside all else


def test_two_mergers(made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lancekit._operations.mem_wal import merge_step

    path = tmp_path / "t"
    ds = made(path)
    prepare_merge = merge_step.prepare_merge

    def late(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        done = lk.dataset(str(path)).merge_mem_wal(on_error="quarantine")
        assert done["num_quarantined_rows"] == 1
        return prepare_merge(*args, **more)

    monkeypatch.setattr(merge_step, "prepare_merge", late)
    done = ds.merge_mem_wal(on_error="quarantine")
    assert (done["num_merged_generations"], done["num_quarantined_rows"]) == (0, 0)
    assert done.num_skipped_generations == 3
    assert waiting(ds) == [(1, -5.0, ONE, 1)]
    assert len(list((path / "_mem_wal/quarantine").iterdir())) == 1


def test_a_constraint_that_lands_during_the_merge(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancekit._operations.mem_wal import merge_step

    path = tmp_path / "t"
    ds = made(path)
    ds.constraints.drop("positive")
    prepare_merge = merge_step.prepare_merge

    def late(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        lk.dataset(str(path)).constraints.add("positive", "v >= 0")
        return prepare_merge(*args, **more)

    monkeypatch.setattr(merge_step, "prepare_merge", late)
    assert ds.merge_mem_wal(on_error="quarantine")["num_quarantined_rows"] == 1
    assert values(path) == {**OTHERS, 1: 1.0, 10: 10.0, 20: 20.0, 30: 30.0}


def test_what_would_lose_the_quarantine_is_refused(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    for refused in (
        lambda: lk.write_dataset({"id": [1]}, str(path), mode="overwrite", primary_key="id"),
        lambda: ds.drop_index("__lance_mem_wal"),
        lambda: lk.dataset(str(path), version=2).restore(),
        ds.undo,
    ):
        with pytest.raises(InvalidArgumentError, match="1 row in quarantine"):
            refused()
    quarantine = ds.mem_wal_quarantine()
    assert quarantine.discard(quarantine.to_table()) == 1
    ds.drop_index("__lance_mem_wal")


def test_an_overwrite_of_pylance_ends_the_quarantine(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    lance.write_dataset(table_of({1: (1.0, "")}), str(path), mode="overwrite")
    lance.dataset(str(path)).initialize_mem_wal()
    put(path, ONE, {1: (2.0, "new")})
    mine = lk.dataset(str(path))
    assert mine.merge_mem_wal()["num_quarantined_rows"] == 0
    assert (len(mine.mem_wal_quarantine()), values(path)) == (0, {1: 2.0})


def test_a_version_from_before_has_its_quarantine(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    then = ds.version
    ds.mem_wal_quarantine().put_back({"id": [1], "v": [6.0], "s": [None]})
    pinned = ds.at(then)
    assert [row["v"] for row in rows_of(pinned)] == [-5.0]
    with pytest.raises(lk.errors.ReadOnlyError):
        pinned.mem_wal_quarantine().put_back()
    ds.cleanup_mem_wal(grace=timedelta(0))
    lk.dataset(str(path), version=then).restore()
    assert waiting(ds) == [(1, -5.0, ONE, 1)]
    assert values(path)[1] == 1.0


def test_a_branch_has_a_quarantine_of_its_own(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    ds.create_branch("b")
    branch = lk.dataset(str(path), version=("b", None))
    assert len(branch.mem_wal_quarantine()) == 0
    with branch.mem_wal_writer(TWO) as writer:
        writer.put(table_of({1: (11.0, ""), 40: (40.0, "")}))
    branch.constraints.add("small", "v < 20", existing="allow")
    assert branch.merge_mem_wal(on_error="quarantine")["num_quarantined_rows"] == 1
    assert waiting(branch) == [(40, 40.0, TWO, 2)]
    assert waiting(ds) == [(1, -5.0, ONE, 1)]
    folder = path / "tree/b"
    assert list(folder.glob("_mem_wal/quarantine/*"))
    ds.branches.delete("b")
    assert not folder.exists()


def test_a_clone_begins_without_a_quarantine(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    clones = [tmp_path / name for name in ("shallow", "deep", "theirs")]
    ds.shallow_clone(str(clones[0]), ds.version)
    ds.deep_clone(str(clones[1]), ds.version)
    lance.dataset(str(path)).deep_clone(str(clones[2]), ds.version)
    shutil.copytree(path, tmp_path / "copy")
    for gone in (False, True):
        if gone:
            shutil.rmtree(path)
        assert [len(lk.dataset(str(one)).mem_wal_quarantine()) for one in clones] == [0, 0, 0]
        assert len(lk.dataset(str(tmp_path / "copy")).mem_wal_quarantine()) == 1


def test_cleanup_keeps_rows_that_wait(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    (kept,) = (path / "_mem_wal/quarantine").iterdir()
    orphan = path / "_mem_wal/quarantine" / "6c6b7175-6172-4000-8000-000000000001"
    (orphan / "data").mkdir(parents=True)
    (orphan / "data/x.lance").write_bytes(b"left by a merge that was killed")
    # no version marks it yet: a merge may be about to
    assert ds.cleanup_mem_wal(grace=timedelta(0)).quarantines_removed == 0
    os.utime(orphan / "data/x.lance", (0, 0))
    assert ds.cleanup_mem_wal().quarantines_removed == 1
    assert [kept] == list((path / "_mem_wal/quarantine").iterdir())
    lance.dataset(str(path)).cleanup_old_versions(older_than=timedelta(0))
    assert waiting(ds) == [(1, -5.0, ONE, 1)]
    ds.mem_wal_quarantine().discard({"id": [1]})
    # a version before still has the row in quarantine
    assert ds.cleanup_mem_wal(grace=timedelta(0)).quarantines_removed == 0
    ds.cleanup_old_versions(older_than=timedelta(0))
    assert ds.cleanup_mem_wal().quarantines_removed == 0  # within the grace
    assert ds.cleanup_mem_wal(grace=timedelta(0)).quarantines_removed == 1


def test_a_table_of_the_quarantine_that_is_damaged(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    (manifest,) = path.glob("_mem_wal/quarantine/*/_versions/*.manifest")
    manifest.unlink()
    with pytest.raises(CorruptFileError, match="has the quarantined rows of"):
        ds.mem_wal_quarantine()


def test_pylance_goes_on_beside_it(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    theirs = lance.dataset(str(path))
    assert theirs.count_rows() == 7
    (table,) = (path / "_mem_wal/quarantine").iterdir()
    assert lance.dataset(str(table)).to_table()["id"].to_pylist() == [1]
    put(path, TWO, {25: (25.0, "")})
    rows = theirs.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    rows.mark_sstables_as_compacted([lance.mem_wal.CompactedSsTable(TWO, 2)]).execute(
        table_of({25: (25.0, "")})
    )
    lance.dataset(str(path)).optimize.compact_files()
    lance.write_dataset(table_of({50: (50.0, "")}), str(path), mode="append")
    assert waiting(ds) == [(1, -5.0, ONE, 1)]
    assert [shard.shard_id for shard in ds.mem_wal_shards()] == [ONE, TWO, THREE]
    ds.merge_mem_wal()
    assert values(path)[25] == 25.0
