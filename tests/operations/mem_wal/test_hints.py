"""The advice of errors about write-ahead logs is followed to the letter, and the call works."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import MEM_WAL, entry_name
from lancekit._shards.manifests import change
from lancekit._shards.schema import shard_of, shards_of
from lancekit.errors import LancekitError

ONE = str(uuid.UUID(int=1))


def made(path: Path, *, key: bool = True, initialized: bool = True, **how: Any) -> Any:
    ds = lk.write_dataset({"id": [1], "v": ["a"]}, path / "t", primary_key="id" if key else None)
    if initialized:
        ds.initialize_mem_wal(**how)
    return ds


def waiting(path: Path, **how: Any) -> Any:
    """Return a table with a generation, and with rows of a writer of pylance in a log."""
    ds = made(path, **how)
    ds.mem_wal_upsert({"id": [2], "v": ["b"]}, flush=True)
    theirs = lance.dataset(ds.uri).mem_wal_writer(ONE, max_wal_flush_interval_ms=50)
    theirs.put(pa.table({"id": [3], "v": ["c"]}, schema=ds.schema))
    return ds


def of_a_branch(path: Path) -> Any:
    """Return a table with a branch whose log has rows of a writer of pylance."""
    ds = made(path)
    ds.create_branch("trial")
    trial = lance.dataset(ds.uri).checkout_version(("trial", None))
    theirs = trial.mem_wal_writer(ONE, max_wal_flush_interval_ms=50)
    theirs.put(pa.table({"id": [2], "v": ["b"]}, schema=ds.schema))
    return ds


def sealed(path: Path) -> Any:
    ds = made(path)
    ds.mem_wal_upsert({"id": [2], "v": ["b"]})
    (shard,) = shards_of(ds._location.store)
    change(shard, None, lambda found: replace(found, status=1))
    return lk.dataset(ds.uri)


def damaged(path: Path) -> Any:
    ds = waiting(path)
    entry = path / "t" / "_mem_wal" / ONE / entry_name(1)
    entry.write_bytes(b"\0" * 200 + entry.read_bytes()[200:])
    return ds


def fenced(path: Path) -> Any:
    ds = made(path)
    vars(ds)["old"] = ds.mem_wal_writer(ONE)
    ds.mem_wal_writer(ONE)
    return ds


def ended(path: Path) -> Any:
    ds = made(path)
    vars(ds)["old"] = ds.mem_wal_writer(ONE)
    ds.drop_index(MEM_WAL)
    return ds


def dropped(path: Path) -> Any:
    """Return a table whose logs pylance dropped while rows waited."""
    ds = waiting(path)
    lance.dataset(ds.uri).drop_index(MEM_WAL)
    return lk.dataset(ds.uri)


def deleted(path: Path) -> Any:
    """Return a table whose folder was moved while a writer was open, and a copy of the folder."""
    ds = made(path)
    vars(ds)["old"] = ds.mem_wal_writer(ONE)
    shutil.copytree(path / "t", path / "copy")
    shutil.rmtree(path / "t")
    with pytest.raises(LancekitError) as caught:
        _put(ds)
    assert "It was deleted or moved" in str(caught.value)
    shutil.move(path / "copy", path / "t")
    return ds


def closed(path: Path) -> Any:
    ds = made(path)
    vars(ds)["old"] = ds.mem_wal_writer(ONE)
    vars(ds)["old"].close()
    return ds


ROWS = {"id": [7], "v": ["x"]}


@dataclass(frozen=True)
class Case:
    """A call that fails, the calls that its hint names, and what works then."""

    ds: Callable[[Path], Any]
    fails: Callable[[Any], Any]
    #: in the order of the hint; each has to be in it
    calls: tuple[str, ...]
    works: Callable[[Any], Any] | None = None  # the call that failed, if nothing else is said


def _put(ds: Any) -> Any:
    return vars(ds)["old"].put(ROWS)


MERGE = "ds.merge_mem_wal(flush=True)"
DROP = f"ds.drop_index({MEM_WAL!r})"
CASES = {
    "no MemWAL: writer": Case(
        lambda path: made(path, initialized=False),
        lambda ds: ds.mem_wal_writer(ONE).put(ROWS),
        ("ds.initialize_mem_wal()",),
    ),
    "no MemWAL, and rows in shards: merge": Case(
        dropped, lambda ds: ds.merge_mem_wal(flush=True), ("ds.initialize_mem_wal()",)
    ),
    "no MemWAL: sink": Case(
        lambda path: made(path, initialized=False),
        lambda ds: lk.mem_wal_sink(ds.uri, query="q")(ROWS),
        ("ds.initialize_mem_wal()",),
    ),
    "no MemWAL and no key: upsert": Case(
        lambda path: made(path, key=False, initialized=False),
        lambda ds: ds.mem_wal_upsert(ROWS),
        ("ds.initialize_mem_wal()",),
    ),
    "initialized twice: upsert": Case(
        made,
        lambda ds: ds.initialize_mem_wal(unsharded=True),
        ("ds.mem_wal_upsert(rows)",),
        lambda ds: ds.count_rows(include_mem_wal=True) == 2,
    ),
    "initialized twice: another way": Case(
        waiting,
        lambda ds: ds.initialize_mem_wal(bucket_column="id", num_buckets=2),
        (MERGE, DROP),
    ),
    "overwrite": Case(waiting, lambda ds: lk.write_dataset(ROWS, ds, mode="overwrite"), (MERGE,)),
    "restore": Case(waiting, lambda ds: ds.checkout_version(1).restore(), (MERGE,)),
    "drop the index": Case(waiting, lambda ds: ds.drop_index(MEM_WAL), (MERGE,)),
    "a column with values": Case(
        waiting, lambda ds: ds.add_columns({"w": "id + 1"}), (MERGE, DROP)
    ),
    "a cast": Case(
        waiting,
        lambda ds: ds.alter_columns({"path": "v", "data_type": pa.large_string()}),
        (MERGE, DROP),
    ),
    "merge a branch": Case(
        of_a_branch,
        lambda ds: ds.branches.merge("trial"),
        ("ds.branches['trial'].merge_mem_wal(",),
    ),
    "a sealed shard: another one": Case(
        sealed,
        lambda ds: ds.mem_wal_upsert(ROWS),
        ("ds.mem_wal_writer(str(uuid.uuid4()))", MERGE),
        lambda ds: ds.count_rows() == 2,
    ),
    "a damaged log: merge": Case(
        damaged, lambda ds: ds.merge_mem_wal(flush=True), ("ds.repair_mem_wal()",)
    ),
    "a damaged log: read": Case(
        damaged, lambda ds: ds.to_table(include_mem_wal=True), ("ds.repair_mem_wal()",)
    ),
    "a damaged log: writer": Case(
        damaged, lambda ds: ds.mem_wal_writer(ONE), ("ds.repair_mem_wal()",)
    ),
    "a fenced writer": Case(fenced, _put, (), lambda ds: ds.mem_wal_writer(ONE).put(ROWS)),
    "a writer whose table was deleted, and restored": Case(
        deleted,
        _put,
        (),
        lambda ds: lk.dataset(ds.uri).mem_wal_upsert(ROWS),
    ),
    "a writer whose table has no MemWAL": Case(
        ended,
        _put,
        ("ds.mem_wal_upsert(rows)",),
        lambda ds: ds.count_rows(include_mem_wal=True) == 2,
    ),
    "a closed writer": Case(
        closed, _put, ("ds.mem_wal_writer(shard)",), lambda ds: ds.mem_wal_writer(ONE).put(ROWS)
    ),
    "too many rows at once": Case(
        made,
        lambda ds: ds.mem_wal_writer(ONE, max_memtable_rows=1).put({"id": [1, 2], "v": ["a", "b"]}),
        (),
        lambda ds: ds.mem_wal_writer(ONE, max_memtable_rows=2).put({"id": [1, 2], "v": ["a", "b"]}),
    ),
    "no such shard": Case(
        waiting,
        lambda ds: ds.merge_mem_wal([str(uuid.UUID(int=99))]),
        ("ds.mem_wal_shards()",),
        lambda ds: ds.merge_mem_wal([ds.mem_wal_shards()[0].shard_id]),
    ),
    "a pinned handle": Case(
        waiting,
        lambda ds: ds.at(1).to_table(include_mem_wal=True),
        (),
        lambda ds: lk.dataset(ds.uri).to_table(include_mem_wal=True),
    ),
    "an id that is none": Case(
        made,
        lambda ds: ds.mem_wal_writer("x"),
        ("str(uuid.uuid4())",),
        lambda ds: ds.mem_wal_writer(str(uuid.uuid4())),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_advice_works(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    ds = case.ds(tmp_path)
    with pytest.raises(LancekitError) as caught:
        case.fails(ds)
    said = str(caught.value)
    assert caught.value.hint
    known = {"ds": ds, "rows": ROWS, "uuid": uuid, "shard": ONE}
    places = []
    for call in case.calls:
        found = re.search(re.escape(call) + (r"[^)]*\)" if call.endswith("(") else ""), said)
        assert found, said
        places.append(found.start())
        eval(found[0], known)
    assert places == sorted(places)
    done = (case.works or case.fails)(ds)
    assert done is not False


def test_every_row_is_there_after_the_advice(tmp_path: Path) -> None:
    """What waited is in the version that the advice leads to."""
    ds = waiting(tmp_path, bucket_column="id", num_buckets=2)
    with pytest.raises(LancekitError):
        ds.add_columns({"w": "id + 1"})
    ds.merge_mem_wal(flush=True)
    ds.drop_index(MEM_WAL)
    ds.add_columns({"w": "id + 1"})
    ds.initialize_mem_wal(bucket_column="id", num_buckets=2)
    ds.mem_wal_upsert({"id": [4], "v": ["d"], "w": [5]})
    found = ds.to_table(include_mem_wal=True, order_by=["id"])
    assert found["w"].to_pylist() == [2, 3, 4, 5]
    assert shard_of(ds._location.store, uuid.UUID(ONE)) in shards_of(ds._location.store)


def fact(of: Any) -> str:
    """Return what the card of a table or a result says of rows that wait."""
    (found,) = re.findall(r"(?:unmerged rows|next) +(.*)", str(of)) or [""]
    return str(found)


def test_a_card_after_a_refused_merge_names_the_quarantine(tmp_path: Path) -> None:
    ds = made(tmp_path)
    ds.mem_wal_upsert({"id": [2], "v": ["b"]}, flush=True)
    ds.constraints.add("short", "v = 'a'")
    assert "; ds.merge_mem_wal() merges them" in fact(ds)
    with pytest.raises(LancekitError) as caught:
        ds.merge_mem_wal()
    for of in (ds, caught.value.context["merged"]):
        assert 'ds.merge_mem_wal(on_error="quarantine") merges them, and quarantines rows' in fact(
            of
        )
    assert fact(ds.mem_wal_shards()) == 'ds.merge_mem_wal(on_error="quarantine")'
    ds.merge_mem_wal(on_error="quarantine")
    assert fact(ds) == "1 row in quarantine; ds.mem_wal_quarantine() reads the quarantine"


def test_the_card_of_a_table_with_a_damaged_log_names_the_repair(tmp_path: Path) -> None:
    ds = damaged(tmp_path)
    assert "ds.repair_mem_wal(), which moves damaged files aside" in fact(ds)
    ds.repair_mem_wal()
    assert fact(ds) == "1 row of 1 shard; ds.merge_mem_wal() merges them"


def test_a_card_finds_damage_behind_sound_entries(tmp_path: Path) -> None:
    ds = made(tmp_path)
    writer = ds.mem_wal_writer(ONE)
    for key in (2, 3, 4):
        writer.put({"id": [key], "v": ["b"]})
    entry = tmp_path / "t" / "_mem_wal" / ONE / entry_name(2)
    entry.write_bytes(b"\0" * 200 + entry.read_bytes()[200:])
    assert "at least 2 rows" in fact(ds)
    assert "ds.repair_mem_wal()" in fact(ds)


def _generation(path: Path) -> Path:
    (found,) = (path / "t" / "_mem_wal").glob("*/*_gen_1/data/*")
    return found


#: what is damaged of a table that `waiting` makes
CARD_DAMAGES: dict[str, Callable[[Path], object]] = {
    "generation deleted": lambda path: _generation(path).unlink(),
    "generation cut": lambda path: _generation(path).write_bytes(b"x"),
    "checksum": lambda path: _flip_end(path / "t" / "_mem_wal" / ONE / entry_name(2)),
    "gap": lambda path: (path / "t" / "_mem_wal" / ONE / entry_name(2)).unlink(),
}


def _flip_end(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("damage", CARD_DAMAGES.values(), ids=CARD_DAMAGES)
def test_cards_name_the_repair_where_files_are_damaged(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    ds = made(tmp_path)
    ds.mem_wal_upsert({"id": [2], "v": ["b"]}, flush=True)
    writer = ds.mem_wal_writer(ONE)
    for key in (3, 4, 5):
        writer.put({"id": [key], "v": ["b"]})
    damage(tmp_path)
    for of in (ds, ds.mem_wal_shards()):
        assert "ds.repair_mem_wal()" in fact(of)
        assert "merge_mem_wal" not in fact(of)
    ds.repair_mem_wal()
    assert "ds.merge_mem_wal(flush=True)" in fact(ds)
    ds.merge_mem_wal(flush=True)


@pytest.mark.parametrize("files", ["_versions", "data"])
def test_a_card_says_that_the_quarantine_is_damaged(tmp_path: Path, files: str) -> None:
    ds = made(tmp_path)
    ds.mem_wal_upsert({"id": [2], "v": ["b"]}, flush=True)
    ds.constraints.add("short", "v = 'a'")
    ds.merge_mem_wal(on_error="quarantine")
    (table,) = (tmp_path / "t" / "_mem_wal" / "quarantine").iterdir()
    shutil.rmtree(table / files)
    assert "the quarantine is damaged; files are damaged or missing" in fact(ds)
    assert "ds.repair_mem_wal()" in fact(ds)
    ds.repair_mem_wal()
    assert "damaged" not in fact(ds)


def test_rows_are_named_that_wait_where_the_reference_dropped_the_mem_wal(tmp_path: Path) -> None:
    ds = dropped(tmp_path)
    assert "2 rows of 2 shards, 1 in logs; the table has no MemWAL" in fact(ds)
    with pytest.warns(UserWarning, match=r"_mem_wal but no MemWAL.*ds\.initialize_mem_wal\(\)"):
        assert ds.count_rows(include_mem_wal=True) == 1
    ds.initialize_mem_wal()
    assert ds.count_rows(include_mem_wal=True) == 3


def test_a_handle_of_a_table_that_was_replaced_names_the_call_that_opens_the_new_one(
    tmp_path: Path,
) -> None:
    ds = made(tmp_path)
    ds.mem_wal_upsert(ROWS)
    shutil.rmtree(ds.uri)
    with pytest.raises(LancekitError, match="deleted or moved"):
        ds.mem_wal_upsert(ROWS)
    made(tmp_path, initialized=False)
    with pytest.raises(LancekitError, match="was replaced by another table") as caught:
        ds.mem_wal_upsert(ROWS)
    (call,) = re.findall(r"lancekit\.dataset\('[^']*'\)", str(caught.value))
    assert eval(call, {"lancekit": lk}).mem_wal_upsert(ROWS)


@pytest.mark.parametrize("branch", [None, "trial"])
def test_a_pinned_handle_names_the_call_that_opens_the_newest_version(
    tmp_path: Path, branch: str | None
) -> None:
    ds = made(tmp_path)
    ds = ds.create_branch(branch) if branch else ds
    with pytest.raises(LancekitError, match="pinned to version") as caught:
        ds.at(2).mem_wal_upsert(ROWS)
    call = str(caught.value).split("write to it: ")[1].rstrip(".")
    assert eval(call, {"lancekit": lk}).branch == ds.branch


def test_a_torn_entry_is_no_damage(tmp_path: Path) -> None:
    ds = waiting(tmp_path)
    entry = tmp_path / "t" / "_mem_wal" / ONE / entry_name(1)
    entry.write_bytes(entry.read_bytes()[:-40])
    assert "ds.merge_mem_wal(flush=True) merges them" in fact(ds)


def test_sentinels_alone_do_not_wait(tmp_path: Path) -> None:
    ds = made(tmp_path)
    ds.mem_wal_upsert({"id": [2], "v": ["b"]}, flush=True)
    ds.merge_mem_wal()
    shard = ds.mem_wal_shards()[0].shard_id
    ds.mem_wal_writer(shard)  # which puts a sentinel, and no rows
    (found,) = ds.mem_wal_shards()
    assert found.log_entries == 0
    assert fact(ds.mem_wal_shards()) == ""
    assert fact(ds) == ""
