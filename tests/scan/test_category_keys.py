"""Categories with keys of 8 bits, of which the files together have more than 127."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._scan.fragments.rebatch import fitted, joined, taken
from lancekit.errors import SchemaMismatchError, UnsupportedTypeError

_KIND = pa.dictionary(pa.int8(), pa.string())


def _text(number: int) -> str:
    return f"n{number}"


def _columns(numbers: list[int]) -> dict[str, pa.Array]:
    codes = pa.array(range(len(numbers)), pa.int8())
    names = pa.DictionaryArray.from_arrays(codes, pa.array(map(_text, numbers), pa.string()))
    starts = pa.array(range(len(numbers) + 1), pa.int32())
    return {
        "id": pa.array(numbers, pa.int64()),
        "name": names,
        "s": pa.StructArray.from_arrays([names], names=["c"]),
        "l": pa.ListArray.from_arrays(starts, names),
    }


def _row(number: int) -> dict[str, Any]:
    text = _text(number)
    return {"name": text, "s": {"c": text}, "l": [text]}


def _shown(table: pa.Table) -> list[dict[str, Any]]:
    return table.select(["name", "s", "l"]).to_pylist()


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    """300 names in three files."""
    ds = lk.write_dataset(_columns([*range(0, 300, 3)]), str(tmp_path / "d"), primary_key="id")
    for day in (1, 2):
        ds.insert(_columns([*range(day, 300, 3)]))
    return ds


def test_rows_in_order(ds: lk.LanceDataset) -> None:
    wanted = [_row(number) for number in range(300)]
    assert _shown(ds.to_table(order_by=["id"])) == wanted
    frame = ds.to_pandas(["name"], order_by=["id"])
    assert frame["name"].tolist() == [row["name"] for row in wanted]
    by_name = ds.to_table(["name"], order_by=["name"])["name"].to_pylist()
    assert by_name == sorted(by_name)
    assert ds.to_table(order_by=["id"]).schema.field("name").type == _KIND


def test_comparisons_reverts_and_merges(ds: lk.LanceDataset) -> None:
    version = ds.version
    ds.update({"id": "id + 1000"})
    changed = ds.diff(version).to_table()
    assert sorted(changed["name"].to_pylist()) == sorted(map(_text, [*range(300)] * 2))
    assert ds.diff(version).sample()
    assert ds.changes(version).to_table().num_rows == 600
    assert sum(batch.num_rows for batch in ds.diff(version).to_batches()) == 600
    branch = ds.create_branch("b")
    branch.update({"id": "id + 1"}, where="id % 2 = 0")
    ds.delete("id = 1001")
    ds.branches.merge("b")
    ds.revert(version + 1, conflicts="theirs")
    rows = ds.to_table()
    order = np.argsort(rows["id"].to_numpy())
    result = ds.merge_insert("id").when_matched_update_all("source.name <> 'n'").execute(rows)
    assert result["num_updated_rows"] == rows.num_rows
    assert _shown(ds.to_table(order_by=["id"])) == _shown(taken(rows, order))


def test_more_texts_than_keys_in_one_batch(ds: lk.LanceDataset) -> None:
    numbers = [*range(1000, 1400)]
    texts = [*map(_text, numbers)]
    new = {"id": numbers, "name": texts, "s": [{"c": t} for t in texts], "l": [[t] for t in texts]}
    ds.insert(new)
    found = ds.to_table(filter="id >= 1000", order_by=["id"])
    assert _shown(found) == [_row(number) for number in numbers]
    ds.merge_insert("id").when_not_matched_insert_all().execute(
        {**new, "id": [number + 5000 for number in numbers]}
    )
    assert ds.count_rows() == 1100
    ds.validate(deep=True)
    with pytest.raises(SchemaMismatchError, match="200 different values are too many for int8"):
        ds.insert({"id": [9000], "l": [texts[:200]]})


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("keys", [pa.int8(), pa.uint8()])
def test_null_is_one_more_category_in_files_of_2_0(
    tmp_path: Path, keys: pa.DataType, version: Any
) -> None:
    count = 2 ** (keys.bit_width - pa.types.is_signed_integer(keys))
    texts = pa.array(map(_text, range(count)))
    names = pa.DictionaryArray.from_arrays(pa.array([*range(count), None], keys), texts)
    table = pa.table({"id": range(count + 1), "name": names})
    path = str(tmp_path / "d")
    ds = lk.write_dataset(table, path, data_storage_version=version)
    ds.insert(table.slice(count))  # a null
    ds.insert(table.slice(0, count))
    assert lance.dataset(path).to_table().to_pylist() == ds.to_table().to_pylist()
    wanted = sorted(2 * table.to_pylist(), key=itemgetter("id"))
    for _ in range(2):
        assert ds.to_table(order_by=["id"]).to_pylist() == wanted
        ds.optimize.compact_files()
        ds.validate(deep=True)


def _dictionary(texts: list[str], items: int, keys: pa.DataType) -> pa.Array:
    """Return texts by a dictionary of some number of texts, of which rows may use few."""
    known = [*map(_text, range(1000, 1000 + items))]
    codes = pa.array([known.index(text) for text in texts], keys)
    return pa.DictionaryArray.from_arrays(codes, pa.array(known, pa.large_string()))


#: a frame or table of ids and names: few of many categories, more than keys of 8 bits count, ...
_SOURCES = {
    "pandas, first of 300": lambda: pd.DataFrame(
        {"id": [1001, 1003], "name": pd.Categorical(["n1001", "n1003"], [*map(_text, _MANY)])}
    ),
    "pandas, last of 300": lambda: pd.DataFrame(
        {"id": [1298, 1299], "name": pd.Categorical(["n1298", "n1299"], [*map(_text, _MANY)])}
    ),
    "pandas, all of 300": lambda: pd.DataFrame(
        {"id": _MANY, "name": pd.Categorical([*map(_text, _MANY)])}
    ),
    "polars": lambda: pl.DataFrame(
        {"id": _MANY, "name": pl.Series([*map(_text, _MANY)], dtype=pl.Categorical)}
    ),
    "keys of 32 bits": lambda: pa.table(
        {"id": _MANY, "name": _dictionary([*map(_text, _MANY)], 300, pa.int32())}
    ),
    "keys of 8 bits": lambda: pa.table(
        {"id": [1001, 1100], "name": _dictionary(["n1001", "n1100"], 300, pa.int8())}
    ),
    "the column's type": lambda: pa.table(
        {"id": [1001], "name": _dictionary(["n1001"], 300, pa.int8()).cast(_KIND)}
    ),
}
_MANY = [*range(1000, 1300)]


@pytest.mark.parametrize("source", _SOURCES.values(), ids=_SOURCES.keys())
def test_unused_categories_do_not_count_and_others_go_to_other_files(
    ds: lk.LanceDataset, tmp_path: Path, source: Callable[[], Any]
) -> None:
    def check(ds: lk.LanceDataset, rows: int) -> None:
        new = ds.to_table(["id", "name"], filter="id >= 1000", order_by=["id"])
        assert new["name"].to_pylist() == [_text(number) for number in new["id"].to_pylist()]
        assert (new.num_rows, new.schema.field("name").type) == (rows, _KIND)
        assert lance.dataset(ds.uri).to_table().to_pylist() == ds.to_table().to_pylist()
        ds.validate(deep=True)

    given = source()
    lk.write_dataset(given, ds.uri, mode="append")
    ds.checkout_latest()
    check(ds, len(given))
    ds.delete("id >= 1000")
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(given)
    check(ds, len(given))
    ds.update({"name": "'old'"}, "id >= 1000")
    assert merge.preview(given).num_updated_rows == len(given)
    merge.execute(given)
    check(ds, len(given))
    schema = pa.schema({"id": pa.int64(), "name": _KIND})
    check(lk.write_dataset(given, str(tmp_path / "new"), schema=schema), len(given))
    # the names are the key
    by_name = lk.write_dataset(ds.to_table(["id", "name"]), str(tmp_path / "by"))
    by_name.update({"id": "id - 5000"})
    assert by_name.merge_insert("name").when_matched_update_all().execute(given)[
        "num_updated_rows"
    ] == len(given)
    check(by_name, len(given))


def test_an_update_gives_more_texts_than_keys(tmp_path: Path) -> None:
    texts = [*map(_text, range(400))]
    schema = pa.schema({"name": _KIND, "s": pa.struct({"c": _KIND}), "t": pa.struct({"c": "str"})})
    rows = [{"name": "a", "s": {"c": "a"}, "t": {"c": text}} for text in texts]
    ds = lk.write_dataset(rows, str(tmp_path / "d"), schema=schema)
    assert ds.update({"name": "t.c", "s": "t"})["num_rows_updated"] == 400
    assert sorted(ds.to_table()["name"].to_pylist()) == sorted(texts)
    assert ds.count_rows("name = t.c AND s.c = t.c") == 400
    assert ds.schema == schema
    ds.validate(deep=True)


def test_nested_categories_that_no_row_has(tmp_path: Path) -> None:
    codes = pa.array(np.arange(400) % 120, pa.int8())
    names = pa.DictionaryArray.from_arrays(codes, pa.array(map(_text, range(300))))
    lists = pa.ListArray.from_arrays(pa.array(range(0, 401, 2), pa.int32()), names)
    rows = pa.table({"l": lists, "s": pa.StructArray.from_arrays([names[:200]], names=["c"])})
    ds = lk.write_dataset(rows, str(tmp_path / "d"))
    ds.insert(rows.slice(150, 3))
    assert ds.to_table().to_pylist() == [*rows.to_pylist(), *rows.slice(150, 3).to_pylist()]
    ds.validate(deep=True)


def test_columns_count_the_categories_of_all_rows_of_a_fragment(
    ds: lk.LanceDataset, tmp_path: Path
) -> None:
    """A column's file has all rows of its fragment: there is no other file to go to."""
    ds.delete("id % 30 = 4")
    ids = [*range(300)]
    shared = [_dictionary([_text(1000 + n % 5)], 5 + n, pa.int8()) for n in range(100)]
    many = pa.table({"id": ids, "m": pa.chunked_array([*shared] * 3)})
    ds.merge(many, "id")
    assert ds.to_table(["m"], filter="id = 7")["m"].to_pylist() == ["n1002"]
    few = _dictionary(["n1201", "n1202"], 300, pa.int16())
    ds.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns").execute(
        {"id": [0, 3], "name": few}
    )
    assert ds.to_table(["name"], filter="id IN (0, 3, 6)")["name"].to_pylist() == [
        *("n1201", "n1202", "n6")
    ]

    def made(batch: pa.RecordBatch) -> pd.DataFrame:
        start = batch["id"][0].as_py()
        names = pd.Categorical(["n0"] * len(batch), [*map(_text, range(100 + start))])
        return pd.DataFrame({"made": names})

    ds.add_columns(made, read_columns=["id"], batch_size=10)
    assert set(ds.to_table(["made"])["made"].to_pylist()) == {"n0"}
    ds.validate(deep=True)
    whole = lk.write_dataset(ds.to_table(["id"]), str(tmp_path / "whole"))
    more = pa.chunked_array([_columns(ids[:100])["name"], _columns(ids[100:200])["name"]])
    with pytest.raises(UnsupportedTypeError, match="more values in one file than its keys"):
        whole.merge(pa.table({"id": ids[:200], "x": more}), "id")


def _branched(ds: lk.LanceDataset) -> lk.LanceDataset:
    """Make a branch both sides of which changed every row."""
    ds.add_columns({"n": "0"})
    branch = ds.create_branch("b")
    for line, number in ((ds, 1), (branch, 2)):
        line.update({"n": str(number), "name": f"concat('{number}', name)"})
    return branch


def test_conflicts_of_more_categories_than_keys_count(ds: lk.LanceDataset) -> None:
    _branched(ds)
    conflicts = ds.branches.merge("b", dry_run=True).conflicts
    table = conflicts.to_table()
    assert [row["name"] for row in table["theirs"].to_pylist()] == [
        f"2{_text(number)}" for number in table["id"].to_pylist()
    ]
    assert len(conflicts.sample(300)) == len(conflicts.to_pandas()) == 300
    ds.branches.merge("b", conflicts=lambda found: found.to_pandas()["theirs"].tolist())
    assert _names(ds) == [f"2{_text(number)}" for number in range(300)]


@pytest.mark.parametrize("answer", ["sides", "rows"])
def test_names_are_the_key_of_conflicts(ds: lk.LanceDataset, answer: str, tmp_path: Path) -> None:
    ds = lk.write_dataset(_by_name(ds), str(tmp_path / "by"), primary_key="name")
    branch = ds.create_branch("b")
    for line, number in ((ds, 1), (branch, 2)):
        line.update({"id": f"id + {number}000"})
    wanted = {_text(number): number + (2000 if number < 200 else 1000) for number in range(300)}
    sides: Any = lk.Sides(rows={n: "theirs" if wanted[n] >= 2000 else "ours" for n in wanted})
    if answer == "rows":
        sides = lambda _: [{"id": wanted[name], "name": name} for name in wanted]  # noqa: E731
    ds.branches.merge("b", conflicts=sides)
    found = ds.to_table()
    assert dict(zip(found["name"].to_pylist(), found["id"].to_pylist(), strict=True)) == wanted


@pytest.mark.parametrize("casts", ["ours", "theirs"])
def test_a_side_makes_texts_of_the_names_that_another_one_adds(
    ds: lk.LanceDataset, casts: str
) -> None:
    branch = ds.create_branch("b")
    casting, adding = (ds, branch) if casts == "ours" else (branch, ds)
    adding.update({"name": "concat('new', name)"}, "id % 2 = 0")
    adding.insert(ds.to_table(filter="id < 100").set_column(0, "id", pa.array(range(300, 400))))
    casting.alter_columns({"path": "name", "data_type": pa.string()})
    ds.branches.merge("b")
    assert _names(ds)[:300] == [f"new{_text(n)}" if n % 2 == 0 else _text(n) for n in range(300)]
    assert (ds.count_rows(), ds.schema.field("name").type) == (400, pa.string())


def _by_name(ds: lk.LanceDataset) -> pa.Table:
    """Return ids and names, without the mark of the key."""
    rows = ds.to_table()
    return pa.table({"id": rows["id"], "name": rows["name"]})


def _names(ds: lk.LanceDataset) -> list[str | None]:
    return ds.to_table(["id", "name"], order_by=["id"])["name"].to_pylist()


def test_what_is_told_of_columns_and_rows(ds: lk.LanceDataset, tmp_path: Path) -> None:
    for name in ("name", "s", "l"):
        assert ds[name].statistics().distinct == 300
    first = ds.to_table(columns={"id": "id", "x": "l[1]", "y": "coalesce(s.c, name)"})
    assert first["x"].to_pylist() == first["y"].to_pylist()
    assert set(first["x"].to_pylist()) == {*map(_text, range(300))}
    drawn = [*lk.sampler.maybe_sample(ds, 250, ["name"], batch_size=250)]
    assert len({name for batch in drawn for name in batch["name"].to_pylist()}) == 250
    rows = _by_name(ds)
    by = lk.write_dataset(pa.concat_tables([rows, rows]), str(tmp_path / "by"))
    assert by.duplicates(["name"]).to_table().num_rows == 600


def test_histories_of_rows_by_their_names(ds: lk.LanceDataset, tmp_path: Path) -> None:
    by = lk.write_dataset(_by_name(ds), str(tmp_path / "by"), primary_key="name")
    by.update({"id": "id + 1000"})
    told = by.row_history("id < 1100")
    assert {change.key["name"] for change in told} == {*map(_text, range(100))}
    assert len(told) == 200


def test_arrays_are_joined_and_cut() -> None:
    parts = [_columns([*range(start, start + 100)]) for start in (0, 100, 200)]
    for name in ("name", "s", "l"):
        arrays = [part[name] for part in parts]
        whole = joined(arrays, arrays[0].type)
        assert whole.to_pylist() == [value for array in arrays for value in array.to_pylist()]
        mixed = whole.take(pa.array(np.arange(299, -1, -1)))
        column = fitted(mixed, arrays[0].type)
        assert column.type == arrays[0].type
        assert column.to_pylist() == mixed.to_pylist()
    assert joined([], _KIND).type == _KIND
    nulls = pa.array([None, "a"]).dictionary_encode()
    assert fitted(nulls, _KIND).to_pylist() == [None, "a"]
    keys = pa.array(
        [[("k", "a")], None], pa.map_(pa.string(), pa.dictionary(pa.int64(), pa.string()))
    )
    assert fitted(keys, pa.map_(pa.string(), _KIND)).to_pylist() == keys.to_pylist()
