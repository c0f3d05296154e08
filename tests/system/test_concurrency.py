"""Several writers at once: real processes, and every conflict rule with two handles in turn."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._commit import protocol
from lancekit._format import operations as ops
from tests.support.forked import at_once

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), False, KEY), pa.field("v", pa.string())])


def rows(*keys: int, v: str = "x") -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}, schema=SCHEMA)


def upsert(ds: Any, table: pa.Table) -> Any:
    return (
        ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(table)
    )


WRITER = """
import sys, pyarrow as pa
import {module} as m
who, path = int(sys.argv[1]), sys.argv[2]
key = {{"lance-schema:unenforced-primary-key": "true"}}
schema = pa.schema([pa.field("k", pa.int64(), False, key), pa.field("v", pa.string())])
for number in range({count}):
    keys = sorted({{number, number + 1, 1000 * who + number}})
    table = pa.table({{"k": keys, "v": [f"{{who}}-{{number}}"] * len(keys)}}, schema=schema)
    builder = m.dataset(path).merge_insert("k").when_matched_update_all()
    builder.when_not_matched_insert_all().conflict_retries(60).execute(table)
"""


def run_writers(programs: list[str], path: Path) -> None:
    for _, error in at_once([(text, str(who), str(path)) for who, text in enumerate(programs, 1)]):
        assert not error, error


def test_concurrent_merges_leave_each_key_once(tmp_path) -> None:
    path = tmp_path / "d"
    lk.write_dataset(rows(1), path)
    modules, count = ("lancekit", "lance", "lancekit"), 6
    run_writers([WRITER.format(module=m, count=count) for m in modules], path)
    for side in (lk, lance):
        keys = side.dataset(str(path)).to_table()["k"].to_pylist()
        assert len(keys) == len(set(keys))
        own = {1000 * who + n for who in range(1, len(modules) + 1) for n in range(count)}
        assert set(keys) == set(range(count + 1)) | own


def test_concurrent_appends_all_land(tmp_path) -> None:
    path = tmp_path / "d"
    lk.write_dataset(pa.table({"x": [0]}), path)
    program = """
import sys, pyarrow as pa, {module} as m
for number in range(8):
    table = pa.table({{"x": [int(sys.argv[1]) * 100 + number]}})
    m.write_dataset(table, sys.argv[2], mode="append")
"""
    run_writers([program.format(module=m) for m in ("lancekit", "lancekit", "lance")], path)
    found = sorted(lk.dataset(path).to_table()["x"].to_pylist())
    assert found == sorted([0, *(who * 100 + n for who in (1, 2, 3) for n in range(8))])
    assert len(lk.dataset(path).versions()) == 25
    assert not list(path.glob("_versions/.tmp*"))


def test_concurrent_creates_make_one_dataset(tmp_path) -> None:
    program = """
import sys, pyarrow as pa, lancekit as lk
try:
    lk.write_dataset(pa.table({"x": [int(sys.argv[1])]}), sys.argv[2])
    print("made")
except lk.errors.DatasetExistsError:
    print("exists")
"""
    ended = at_once([(program, str(n), str(tmp_path / "d")) for n in range(3)])
    assert sorted(ended) == [("exists\n", ""), ("exists\n", ""), ("made\n", "")]
    assert lk.dataset(tmp_path / "d").count_rows() == 1
    assert len(list((tmp_path / "d" / "data").iterdir())) == 1


# ---- two handles, one after the other: what the later one meets

Change = Callable[[Any], Any]

CHANGES: dict[str, Change] = {
    "append": lambda ds: ds.insert(rows(50)),
    "delete one row": lambda ds: ds.delete("k = 1"),
    "delete another row": lambda ds: ds.delete("k = 2"),
    "delete in the other fragment": lambda ds: ds.delete("k = 11"),
    "delete a fragment": lambda ds: ds.delete("k < 10"),
    "overwrite": lambda ds: ds.insert(rows(7), mode="overwrite"),
    "restore": lambda ds: ds.restore(),
    "merge an old key": lambda ds: upsert(ds, rows(1, v="merged")),
    "merge a new key": lambda ds: upsert(ds, rows(99, v="merged")),
}


def _outcome(first: Any, second: Any, change: str, later: str) -> str:
    CHANGES[change](first)
    before = second.version
    try:
        CHANGES[later](second)
    except errors.IncompatibleConflictError:
        return "incompatible"
    except errors.RetryableConflictError:
        return "retryable"
    except OSError as error:
        text = str(error)
        return "incompatible" if "incompatible" in text.lower() else "retryable"
    return "landed" if second.version > before else "nothing"


@pytest.mark.cover
@pytest.mark.parametrize("later", CHANGES)
@pytest.mark.parametrize("change", CHANGES)
def test_two_handles_meet_as_in_the_reference(tmp_path, change: str, later: str) -> None:
    """Whoever commits second meets the same outcome and leaves the same rows."""
    results = {}
    for name, sides in {
        "reference": (lance, lance),
        "ours": (lk, lk),
        "ours second": (lance, lk),
        "ours first": (lk, lance),
    }.items():
        path = str(tmp_path / name)
        lance.write_dataset(rows(1, 2, 3), path)
        lance.write_dataset(rows(11, 12), path, mode="append")
        first, second = (side.dataset(path) for side in sides)
        outcome = _outcome(first, second, change, later)
        final = sorted(lance.dataset(path).to_table().to_pylist(), key=lambda row: row["k"])
        assert final == sorted(lk.dataset(path).to_table().to_pylist(), key=lambda row: row["k"])
        results[name] = (outcome, final)
    assert (
        results["ours"] == results["ours second"] == results["ours first"] == results["reference"]
    )


def test_a_conflict_says_who_and_what(tmp_path) -> None:
    lk.write_dataset(rows(1), tmp_path / "d")
    late = lk.dataset(tmp_path / "d")
    lk.write_dataset(rows(2), tmp_path / "d", mode="overwrite")
    with pytest.raises(
        errors.IncompatibleConflictError, match=r"Append.*version 1.*Overwrite.*2"
    ) as e:
        late.insert(rows(3))
    context = e.value.context
    assert (context["mine"], context["theirs"], context["version"]) == ("Append", "Overwrite", 2)
    assert len(list((tmp_path / "d" / "data").iterdir())) == 2, "the lost file was removed"


def test_versions_that_were_cleaned_up_are_not_passed_over(tmp_path) -> None:
    lk.write_dataset(rows(1), tmp_path / "d")
    late = lk.dataset(tmp_path / "d")
    for key in (2, 3):
        lk.write_dataset(rows(key), tmp_path / "d", mode="append")
    names = sorted((tmp_path / "d" / "_versions").glob("*.manifest"))
    names[1].unlink()  # version 2
    with pytest.raises(errors.RetryableConflictError, match="cleaned up"):
        late.insert(rows(4))


def test_a_dataset_made_anew_is_another_one(tmp_path) -> None:
    stale = lk.write_dataset(rows(1), tmp_path / "d")
    shutil.rmtree(tmp_path / "d")
    lk.write_dataset(rows(2), tmp_path / "d")
    with pytest.raises(errors.IncompatibleConflictError, match="replaced by another dataset"):
        stale.insert(rows(3))
    assert lk.dataset(tmp_path / "d").to_table()["k"].to_pylist() == [2]


def test_a_lost_answer_is_recognised(tmp_path, monkeypatch) -> None:
    """The put lands, the store says it did not: the writer finds its own uuid."""
    ds = lk.write_dataset(rows(1), tmp_path / "d")
    store = type(ds._location.store)
    put = store.put_if_absent

    def lose_the_answer(self: Any, name: str, data: bytes) -> bool:
        put(self, name, data)
        return False

    monkeypatch.setattr(store, "put_if_absent", lose_the_answer)
    ds.insert(rows(2))
    monkeypatch.undo()
    assert ds.version == 2
    assert lk.dataset(tmp_path / "d").to_table()["k"].to_pylist() == [1, 2]


def test_an_interrupt_after_the_put_loses_nothing(tmp_path, monkeypatch) -> None:
    """The version landed before the interrupt: its files must stay."""
    ds = lk.write_dataset(rows(1), tmp_path / "d", primary_key="k")
    store = type(ds._location.store)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    for change in (lambda: ds.insert(rows(2)), lambda: upsert(ds, rows(1, 3, v="new"))):
        ds.checkout_latest()
        with monkeypatch.context() as patch:
            patch.setattr(store, "put_hint", interrupt)
            with pytest.raises(KeyboardInterrupt):
                change()
    for side in (lk, lance):
        found = side.dataset(str(tmp_path / "d")).to_table().to_pylist()
        assert {row["k"]: row["v"] for row in found} == {1: "new", 2: "x", 3: "new"}


def test_an_unknown_outcome_deletes_nothing(tmp_path, monkeypatch) -> None:
    ds = lk.write_dataset(rows(1), tmp_path / "d")
    store = type(ds._location.store)

    def fail(*_: Any) -> bool:
        monkeypatch.setattr(store, "identified_tail", fail)
        raise errors.StorageError("the network is gone")

    monkeypatch.setattr(store, "put_if_absent", fail)
    with pytest.raises(errors.CommitUnknownError, match="look for transaction"):
        ds.insert(rows(2))
    monkeypatch.undo()
    assert len(list((tmp_path / "d" / "data").iterdir())) == 2


@pytest.mark.parametrize("kind", ["date", "timestamp", "string", "int32", "binary", "decimal"])
def test_new_keys_of_every_type_are_guarded(tmp_path, kind: str) -> None:
    """Two stale handles insert one new key: it is there once, whoever comes second."""
    arrow = {
        "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "string": pa.string(),
        "int32": pa.int32(), "binary": pa.binary(), "decimal": pa.decimal128(25, 2),
    }[kind]  # fmt: skip
    schema = pa.schema([pa.field("k", arrow, False, KEY), pa.field("v", pa.string())])

    def table(number: int, v: str) -> pa.Table:
        as_text = arrow in (pa.string(), pa.binary())
        value = pa.array([str(number)] if as_text else [number])
        if pa.types.is_date32(arrow):
            value = value.cast(pa.int32())
        return pa.table([value.cast(arrow), [v]], schema=schema)

    for name, sides in {"ours": (lk, lk), "ours second": (lance, lk), "first": (lk, lance)}.items():
        path = str(tmp_path / name)
        lk.write_dataset(table(1, "a"), path)
        first, second = (side.dataset(path) for side in sides)
        upsert(first, table(2, "b"))
        upsert(second, table(2, "c"))
        found = lk.dataset(path).to_table()
        assert (
            found["k"].to_pylist()
            == pa.concat_tables([table(1, ""), table(2, "")])["k"].to_pylist()
        ), name
        assert found["v"].to_pylist() == ["a", "c"]


def test_races_for_a_version_are_limited(tmp_path, monkeypatch) -> None:
    ds = lk.write_dataset(rows(1), tmp_path / "d")
    other = lk.dataset(tmp_path / "d")
    attempt = protocol._attempt

    def lose(*arguments: Any) -> None:
        monkeypatch.setattr(protocol, "_attempt", attempt)
        other.insert(rows(2))
        monkeypatch.setattr(protocol, "_attempt", lose)

    monkeypatch.setattr(protocol, "_attempt", lose)
    pending = protocol.Pending(operation=ops.Append(), uuid="u")
    quick = protocol.Clock(sleep=lambda _: None)
    with pytest.raises(errors.RetriesExhaustedError, match="lost 3 races"):
        protocol.commit(ds._snapshot, pending, max_retries=3, clock=quick)
