"""``ds["name"]``: what a column is, and what its values are like."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api import column as sampled_rows
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError, InvalidTypeError
from tests.support.cards import show_html, show_text
from tests.support.faults import Faults, injected
from tests.support.number_texts import ungrouped


def test_what_a_column_is(tmp_path: Path) -> None:
    ids, cities = pa.array(range(1000)), ["Ulm", "Linz"] * 500
    rows = pa.table({"id": ids, "s": [{"city": c} for c in cities]})
    ds = lk.write_dataset(rows, tmp_path / "d", primary_key="id")
    ds.create_scalar_index("id", "BTREE")
    ds.constraints.add("positive", "id >= 0")
    ds.insert(rows.set_column(0, "id", pa.array(range(1000, 2000))))
    column = ds["id"]
    assert (column.type, column.nullable, column.key_position) == (pa.int64(), False, 1)
    assert [one.name for one in column.indices] == ["id_idx"]
    assert [one.name for one in column.constraints] == ["positive"]
    sizes = {s.id: s.bytes_on_disk for s in ds.stats.data_stats().fields}
    assert column.storage.bytes == sizes[column.field_id]
    assert (column.storage.files, column.storage.files_read) == (2, 2)
    text = ungrouped(show_text(column))
    assert "id · int64 · not nullable · key 1 · " in text
    assert "id_idx (BTree, 1000 of 2000 rows)" in text
    assert "positive: id >= 0" in text
    assert "unenforced" not in text  # the key is said in words
    city = ds["s.city"]
    assert (city.type, city.key_position, city.indices) == (pa.string(), None, [])
    assert ds["s"].storage.bytes == city.storage.bytes + sizes[ds["s"].field_id]
    assert ds["`s`.city"].type == pa.string()
    assert ds._ipython_key_completions_() == ["id", "s"]


def test_what_is_no_column(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d")
    with pytest.raises(ColumnNotFoundError):
        ds["nosuch"]
    for other in (0, [0.5], [[0]], ("id", "id"), None, []):
        with pytest.raises(InvalidTypeError):
            ds[other]  # type: ignore[call-overload]
    # a handle is neither a sequence nor a mapping of its columns
    assert not isinstance(ds, Iterable)
    with pytest.raises(TypeError, match=r"ds.to_batches\(\)"):
        list(ds)
    with pytest.raises(TypeError, match="in looks for the name of a column"):
        3 in ds  # noqa: B015
    assert pa.table(ds) == ds.to_table()


def test_statistics_are_those_of_the_values(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    day = datetime(2013, 1, 1, tzinfo=UTC)
    number = chance.integers(-50, 50, 4000)
    rows = pa.table(
        {
            "n": pa.array(number, mask=chance.random(4000) < 0.1),
            "f": pa.array(np.where(number == 3, np.nan, number / 7)),
            "t": pa.array(
                [day + timedelta(hours=int(i)) for i in number], pa.timestamp("us", "UTC")
            ),
            "d": pa.array([(day + timedelta(days=int(i))).date() for i in number]),
            "m": pa.array([Decimal(int(i)) for i in number]),
            "c": pa.array([f"c{i % 3}" for i in number]).dictionary_encode(),
            "b": pa.array(number > 0),
            "l": pa.array([[int(i)] for i in number]),
            "e": pa.nulls(4000, pa.int32()),
        }
    )
    ds = lk.write_dataset(rows, tmp_path / "d", max_rows_per_file=1500)
    for name in rows.column_names:
        found, column = ds[name].statistics(), rows[name]
        assert (found.rows, found.rows_read, found.nulls) == (4000, 4000, column.null_count)
        there = column.drop_null().to_pylist()
        if name not in "le":
            assert sum(n for _, n in found.top) <= len(there)
            value, most = found.top[0]
            if value == value:
                assert there.count(value) == most
        if name in "ntdm":
            assert (found.min, found.max) == (min(there), max(there))
            assert (found.histogram[0].low, found.histogram[-1].high) == (found.min, found.max)
            assert sum(one.rows for one in found.histogram) == len(there)
        assert bool(found.histogram) == (name in "nftdm")
        assert show_text(found).startswith(f"{name} · all 4,000 rows · ")
        assert "could not be drawn" not in repr(found) + repr(ds[name])


@pytest.mark.parametrize(
    "how",
    [
        *({name: value} for name in ("rows", "top", "bins") for value in (-1, True, 1.5)),
        {"top": None},
        {"bins": None},
        {"rows": 0},
        {"bins": 10_001},
    ],
    ids=str,
)
def test_limits_that_are_none(how: dict[str, Any]) -> None:
    ds = lk.write_dataset({"f": [0.5, 1e9]}, "memory://column-limits", mode="overwrite")
    with pytest.raises(ValueError, match=rf"^{next(iter(how))} must be ") as caught:
        ds["f"].statistics(**how)
    assert isinstance(caught.value, InvalidArgumentError)


def test_limits_of_nothing_and_of_all() -> None:
    ds = lk.write_dataset({"f": [0.5, 1e9]}, "memory://column-limits", mode="overwrite")
    found = ds["f"].statistics(rows=10**30, top=0, bins=0)
    assert (found.rows_read, found.top, found.histogram) == (2, (), ())
    found = ds["f"].statistics(top=10**30, bins=10_000)
    assert (len(found.top), len(found.histogram)) == (2, 10_000)
    assert len(show_html(found)) < 50_000


def test_a_long_column_is_sampled(tmp_path: Path) -> None:
    ds = lk.write_dataset({"n": range(10_000)}, tmp_path / "d")
    found = ds["n"].statistics(rows=1600, bins=4, top=3)
    assert (found.rows, found.rows_read, found.distinct) == (10_000, 1600, 1600)
    assert not found.exact
    assert found.min < 500
    assert found.max > 9500
    assert all(300 < one.rows < 500 for one in found.histogram)
    text = ungrouped(show_text(found))
    assert text.startswith("n · estimated from 1600 of 10000 rows · ≈ 0.0% null · ≥ 1600 distinct")
    assert f"min     ≤ {found.min}" in text
    assert "value  rows read  share" in text
    assert "sample  evenly spread blocks of rows; .statistics(rows=...) reads more" in text


def test_what_a_second_reads_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled_rows, "_PATIENCE", 100)  # on a busy machine a second is short
    # a load per value: runs of rows in a few places are no sample
    numbers = np.repeat(np.arange(100), 2000)
    mask = numbers >= 97
    rows = pa.table({"n": pa.array(numbers, mask=mask)})
    ds = lk.write_dataset(rows, tmp_path / "d", max_rows_per_file=20_000)
    found = ds["n"].statistics()
    assert found.exact
    assert (found.nulls, found.min, found.max, found.distinct) == (6000, 0, 96, 97)
    drawn = ds["n"].statistics(rows=20_000)
    assert drawn.rows_read == 20_000
    assert 0.01 < drawn.null_share < 0.06
    assert drawn == ds["n"].statistics(rows=20_000)


def test_few_files_are_looked_at_and_none_for_the_card(tmp_path: Path) -> None:
    ds = lk.write_dataset({"n": range(200)}, tmp_path / "d", max_rows_per_file=10)
    with injected(Faults()) as faults:
        column = lk.dataset(ds.uri)["n"]
        opened = {call.name for call in faults.calls if call.name.startswith("data/")}
        assert len(opened) <= 8
        faults.calls.clear()
        show_html(column)
        assert not faults.calls
    assert " in 8 of 20 files" in show_text(column)


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    ds = lk.write_dataset({"n": [1]}, tmp_path / "d")
    (file,) = (tmp_path / "d" / "data").iterdir()
    file.write_bytes(b"no file" * 100)
    text = show_text(lk.dataset(ds.uri)["n"])
    assert "0 B in 0 of 1 file" in text
    assert "files read" in text


def test_odd_types(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "blob": lk.blob_array([b"never shown", None]),
        "uuid": pa.array([b"0" * 16, None], pa.uuid()),
        "vector": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
        "bytes": [b"a", None],
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None])),
        "time": pa.array([1, None], pa.time32("s")),
        "span": pa.array([1, None], pa.duration("ns")),
        "none": pa.nulls(2),
    }
    ds = lk.write_dataset(pa.table(columns), tmp_path / "d", data_storage_version="2.2")
    for name in columns:
        found = ds[name].statistics()
        assert found.nulls in {1, 2}, name
        assert ds[name].statistics(rows=1).rows_read == 1  # rows are taken, not scanned
        for shown in (repr(found), repr(ds[name]), show_html(found)):
            assert "could not be drawn" not in shown
            assert "never shown" not in shown
    empty = lk.write_dataset(pa.table({"n": pa.array([], pa.int64())}), tmp_path / "e")
    assert empty["n"].statistics().null_share == 0
    assert "files read  none: all values are null" in repr(empty["n"])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([-(10**6), None, 0], pa.date32()),
        pa.array([-(2**60), None, 2**60], pa.timestamp("us")),
        pa.array([-(2**60), None, 2**60], pa.timestamp("s")),
        pa.array([-(2**63), None, 2**63 - 1], pa.timestamp("ms", "UTC")),
        pa.array([-1.7e308, None, 1.7e308]),
        pa.array([0.3, None, 0.1 + 0.2]),
        pa.array([2**60, None, 2**60]),
    ],
    ids=range(7),
)
def test_values_beyond_python_and_histograms_are_told(values: pa.Array, tmp_path: Path) -> None:
    turned = values.take(pa.array([2, 1, 0]))
    rows = {"id": [1, 2, 3], "x": values, "s": pa.StructArray.from_arrays([values], ["x"])}
    ds = lk.write_dataset(rows, tmp_path / "d", primary_key="id")
    found = ds["x"].statistics()
    assert sum(part.rows for part in found.histogram) == 2
    assert "could not be drawn" not in show_html(found)
    merge = ds.merge_insert("id").when_matched_update_all()
    plan = merge.preview({**rows, "x": turned})
    assert "could not be drawn" not in show_html(plan)
    plan.apply()
    changed = 0 if values[0] == values[2] else 2
    assert len(ds.diff(1).sample()) == changed
    assert len(ds.row_history({"id": 1})) == 1 + bool(changed)
    assert "x" in ds.plot.columns(1).text


def test_tables_without_rows_are_left_out() -> None:
    ds = lk.write_dataset({"s": ["a", "b"], "l": [[1], [2]]}, "memory://left-out", mode="overwrite")
    texts = {name: show_text(ds[name].statistics()) for name in ("s", "l")}
    assert "Most frequent" in texts["s"]
    assert "Histogram" not in texts["s"]
    assert "Most frequent" not in texts["l"]
    assert "Histogram" not in show_html(ds["s"].statistics())


def test_rows_and_columns_by_item() -> None:
    rows = {"id": list(range(20)), "x": [float(i) for i in range(20)]}
    ds = lk.write_dataset(rows, "memory://items", max_rows_per_file=6)
    ds.delete("id IN (3, 11)")
    live = [i for i in range(20) if i not in (3, 11)]
    assert ds.shape == (18, 2)
    assert ds.columns == ["id", "x"]
    assert ds.dtypes == {"id": pa.int64(), "x": pa.float64()}
    for part in (
        *(slice(a, b) for a in (None, 0, 5, -3, 30) for b in (None, 2, 9, -1, 50)),
        slice(None, None, 3),
        slice(None, None, -1),
        slice(15, 2, -4),
        slice(4, 4),
    ):
        assert ds[part]["id"].to_pylist() == live[part], part
    assert ds[["x"]] == ds.to_table(columns=["x"])
    assert "x" in ds
    assert "y" not in ds
    with pytest.raises(InvalidTypeError, match=r"Use ds\[10:20\]"):
        ds["a":"b"]  # type: ignore[misc]
