"""Rows that leave the quarantine: put back, corrected or as they are, or discarded."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.unmerged.marks import quarantined_rows
from lancekit.errors import (
    ConstraintViolationError,
    IncompatibleConflictError,
    InvalidArgumentError,
    SchemaMismatchError,
)
from tests.support.quarantine_table import (
    ONE,
    TWO,
    Make,
    put,
    rows_of,
    values,
    waiting,
)


def test_a_corrected_row_is_put_back(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    quarantine = ds.mem_wal_quarantine()
    frame = quarantine.to_pandas()
    with pytest.raises(ConstraintViolationError):
        quarantine.put_back(frame)
    assert len(ds.mem_wal_quarantine()) == 1
    frame["v"] = 5.0
    before = ds.version
    assert quarantine.put_back(frame) == 1
    assert (ds.version, values(path)[1]) == (before + 1, 5.0)
    assert (len(ds.mem_wal_quarantine()), quarantined_rows(ds._snapshot)) == (0, 0)
    with pytest.raises(IncompatibleConflictError, match="changed after it was read"):
        quarantine.put_back(frame)
    with pytest.raises(IncompatibleConflictError, match="changed after it was read"):
        quarantine.discard(frame)
    assert values(path)[1] == 5.0


def test_some_rows_leave_and_others_stay(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    put(path, TWO, {21: (-1.0, ""), 22: (-2.0, ""), 23: (-3.0, "")})
    ds.merge_mem_wal(on_error="quarantine")
    before = rows_of(ds)
    assert ds.mem_wal_quarantine().put_back({"id": [22], "v": [2.0], "s": ["x"]}) == 1
    assert ds.mem_wal_quarantine().discard({"id": [1]}) == 1
    left = rows_of(ds)
    assert [row["id"] for row in left] == [21, 23]
    kept = [{**row, "_quarantine_row": 0} for row in before if row["id"] in {21, 23}]
    assert [{**row, "_quarantine_row": 0} for row in left] == kept
    assert values(path)[22] == 2.0
    # a key that was corrected, too
    assert ds.mem_wal_quarantine().put_back(
        {"id": [99], "v": [9.0], "s": [None], "_quarantine_row": [left[1]["_quarantine_row"]]}
    )
    assert waiting(ds) == [(21, -1.0, TWO, 2)]
    assert values(path)[99] == 9.0
    with pytest.raises(InvalidArgumentError, match="no row with id = 23"):
        ds.mem_wal_quarantine().discard({"id": [21, 23]})
    with pytest.raises(InvalidArgumentError, match=r"no row .* not of an earlier one"):
        ds.mem_wal_quarantine().discard({"_quarantine_row": [left[0]["_quarantine_row"]]})
    with pytest.raises(InvalidArgumentError, match="_quarantine_row"):
        ds.mem_wal_quarantine().discard({"v": [1]})
    with pytest.raises(SchemaMismatchError):
        ds.mem_wal_quarantine().put_back({"id": [21]})
    with pytest.raises(InvalidArgumentError, match="'x', which the table does not have"):
        ds.mem_wal_quarantine().put_back({"id": [21], "v": [1.0], "s": ["x"], "x": [1]})


def test_two_rows_that_were_corrected_to_one_key_are_refused(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    put(path, TWO, {21: (-1.0, ""), 22: (-2.0, "")})
    put(path, TWO, {22: (-3.0, "")})
    ds.merge_mem_wal(on_error="quarantine")
    before = rows_of(ds)
    frame = ds.mem_wal_quarantine().to_pandas()
    frame["v"] = [float(number) for number in range(len(frame))]
    for old, new in ((21, 99), (22, 99)):
        frame.loc[frame["id"] == old, "id"] = new
    with pytest.raises(InvalidArgumentError, match="the same key, id = 99") as caught:
        ds.mem_wal_quarantine().put_back(frame)
    assert caught.value.context["key"] == {"id": 99}
    # nor to the key of another row that goes back
    frame.loc[frame["id"] == 99, "id"] = 1
    with pytest.raises(InvalidArgumentError, match="the same key, id = 1"):
        ds.mem_wal_quarantine().put_back(frame)
    assert rows_of(ds) == before
    # several rows of a key stay several rows of a key
    frame["id"] = [row["id"] + 100 for row in before]
    assert ds.mem_wal_quarantine().put_back(frame) == len(before)
    assert {101, 121, 122} <= values(path).keys()


def test_an_older_row_of_a_key_does_not_leave_without_the_newest(
    made: Make, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    ds = made(path)
    put(path, TWO, {21: (-1.0, ""), 22: (-2.0, "")})
    put(path, TWO, {22: (-3.0, "")})
    ds.merge_mem_wal(on_error="quarantine")
    before = rows_of(ds)
    frame = ds.mem_wal_quarantine().to_pandas()
    older, newest = (frame[frame["id"] == 22].iloc[[place]].assign(v=5.0) for place in (0, -1))
    for leave in (ds.mem_wal_quarantine().put_back, ds.mem_wal_quarantine().discard):
        with pytest.raises(InvalidArgumentError, match="not the newest row of id = 22") as caught:
            leave(older)
        assert caught.value.context["key"] == {"id": 22}
    assert rows_of(ds) == before
    assert ds.mem_wal_quarantine().put_back(newest) == 2
    assert values(path)[22] == 5.0


def test_the_newest_row_of_a_key_counts_in_any_order(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    put(path, TWO, {22: (-2.0, "")})
    put(path, TWO, {22: (-3.0, "")})
    ds.merge_mem_wal(on_error="quarantine")
    frame = ds.mem_wal_quarantine().to_pandas().query("id == 22").assign(v=[2.0, 3.0])
    assert ds.mem_wal_quarantine().put_back(frame[::-1]) == 2
    assert values(path)[22] == 3.0


def test_columns_that_changed_between(made: Make, tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    stale = ds.mem_wal_quarantine()
    ds.constraints.drop("positive")
    ds.alter_columns({"path": "v", "name": "w"})
    ds.add_columns(pa.field("new", pa.bool_()))  # gets an id that the quarantine has used
    ds.drop_columns(["s"])
    with pytest.raises(IncompatibleConflictError, match="columns of the table changed"):
        stale.put_back()
    (row,) = rows_of(ds)
    assert (row["id"], row["w"], row["new"], row["_quarantine_shard"]) == (1, -5.0, None, ONE)
    assert ds.mem_wal_quarantine().put_back() == 1
    table = lance.dataset(str(path)).to_table(filter="id = 1")
    assert table.to_pylist() == [{"id": 1, "w": -5.0, "new": None}]


def test_others_put_the_same_rows_back(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    ds = made(path)
    ds.merge_mem_wal(on_error="quarantine")
    from lancekit._operations.mem_wal import put_back

    prepare_merge = put_back.prepare_merge

    def late(*args: Any) -> Any:
        monkeypatch.undo()
        other = lk.dataset(str(path)).mem_wal_quarantine()
        assert other.put_back({"id": [1], "v": [7.0], "s": ["first"]}) == 1
        return prepare_merge(*args)

    monkeypatch.setattr(put_back, "prepare_merge", late)
    with pytest.raises(IncompatibleConflictError, match="changed after it was read"):
        ds.mem_wal_quarantine().put_back({"id": [1], "v": [8.0], "s": ["second"]})
    assert values(path)[1] == 7.0
    assert len(lk.dataset(str(path)).mem_wal_quarantine()) == 0


STRUCT = pa.struct([("x", pa.int8()), ("y", pa.string())])
MIDNIGHT = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


def of_many_types(ids: list[int], values: list[int]) -> pa.Table:
    rows = len(ids)
    columns = {
        "time": pa.array([MIDNIGHT] * rows, pa.timestamp("us", "UTC")),
        "decimal": pa.array([Decimal("1.50")] * rows, pa.decimal128(10, 2)),
        "category": pa.array(["a"] * rows).dictionary_encode(),
        "list": pa.array([[{"x": 1, "y": None}]] * rows, pa.list_(STRUCT)),
        "vector": pa.array([[1.0, 2.0]] * rows, pa.list_(pa.float32(), 2)),
        "uuid": pa.array([uuid.UUID(int=7).bytes] * rows, pa.uuid()),
        "json": pa.array(['{"a":1}'] * rows, pa.json_()),
    }
    return pa.table({"id": ids, "v": values, **columns})


@pytest.mark.parametrize("key", [["id"], []])
def test_values_of_many_types_come_back_as_they_were(tmp_path: Path, key: list[str]) -> None:
    path = str(tmp_path / "t")
    ds = lk.write_dataset(of_many_types([0], [0]), path, primary_key=key)
    ds.initialize_mem_wal()
    with ds.mem_wal_writer(ONE) as writer:
        writer.put(of_many_types([1, 2, 3], [-1, 2, -3]))
    ds.constraints.add("positive", "v >= 0")
    assert ds.merge_mem_wal(on_error="quarantine")["num_quarantined_rows"] == 2
    quarantine = ds.mem_wal_quarantine()
    rows = quarantine.to_table().select(ds.schema.names)
    assert rows.to_pylist() == of_many_types([1, 3], [-1, -3]).to_pylist()
    table = quarantine.to_table().slice(0, 1)
    assert quarantine.put_back(table.set_column(1, "v", pa.array([1]))) == 1
    frame = ds.mem_wal_quarantine().to_pandas()
    frame["v"] = 3
    assert ds.mem_wal_quarantine().put_back(frame) == 1
    expected = of_many_types([0, 1, 2, 3], [0, 1, 2, 3]).to_pylist()
    assert ds.to_table().sort_by("id").to_pylist() == expected
    assert lance.dataset(path).count_rows() == 4
