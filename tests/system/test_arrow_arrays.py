"""Rows of arrays that Arrow's kernels get wrong are written and read as they are.

pylance reads what was written, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import CorruptFileError, NullKeyError, SchemaMismatchError
from tests.support.remembering import all_remembered

PATCH = pa.list_(pa.list_(pa.int16(), 2), 3)
COUNT = 40


def _ids(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def _patches(count: int = COUNT) -> pa.Array:
    return pa.array([[[at] * 2] * 3 for at in range(count)], PATCH)


def _within_struct(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values], names=["x"])


COLUMNS = {"column": _patches(), "field of a struct": _within_struct(_patches())}
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda rows: rows,
    "batch": lambda rows: rows.to_batches()[0],
    "reader": lambda rows: rows.to_reader(),
}


def _rows(values: pa.Array) -> pa.Table:
    return pa.table({"id": _ids(len(values)), "g": _ids(len(values)), "v": values})


def _by_id(rows: pa.Table) -> dict[int, Any]:
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def _agree(uri: str, wanted: dict[int, Any]) -> None:
    assert _by_id(lk.dataset(uri).to_table()) == wanted
    assert _by_id(lance.dataset(uri).to_table()) == wanted


def _merge(ds: lk.LanceDataset, rows: Any) -> None:
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _update_columns(ds: lk.LanceDataset, rows: Any) -> None:
    fragment, fields = ds.get_fragments()[0].update_columns(pa.table(rows), "id")
    change = lk.LanceOperation.Update(
        updated_fragments=[fragment], fields_modified=fields, update_mode="rewrite_columns"
    )
    lk.LanceDataset.commit(ds.uri, change, read_version=ds.version)


def _sql_merge(ds: lk.LanceDataset, rows: Any) -> None:
    lk.sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *", t=ds, s=rows)


def _upsert_to_shard(ds: lk.LanceDataset, rows: Any) -> None:
    ds.initialize_mem_wal(bucket_column="id", num_buckets=2)
    ds.mem_wal_upsert(rows, flush=True)
    ds.merge_mem_wal()


UPDATES: dict[str, Callable[[lk.LanceDataset, Any], Any]] = {
    "merge_insert": _merge,
    "update_columns": _update_columns,
    "sql": _sql_merge,
    "mem_wal_upsert": _upsert_to_shard,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.cover(2)
def test_slices_of_nested_fixed_size_lists_update_the_right_rows(
    tmp_path: Path, update: str, column: str, form: str
) -> None:
    uri, rows = str(tmp_path / "d"), _rows(COLUMNS[column])
    ds = lk.write_dataset(rows, uri, primary_key="id")
    UPDATES[update](ds, FORMS[form](rows.slice(10, 20)))
    _agree(uri, _by_id(rows))


@pytest.mark.parametrize("column", COLUMNS)
def test_slices_of_nested_fixed_size_lists_are_inserted_and_joined(
    tmp_path: Path, column: str
) -> None:
    uri, rows = str(tmp_path / "d"), _rows(COLUMNS[column])
    ds = lk.write_dataset(rows.slice(0, 5), uri)
    ds.merge_insert("id").when_not_matched_insert_all().execute(rows.slice(3, 30))
    _agree(uri, _by_id(rows.slice(0, 33)))
    ds.drop_columns(["v"])
    ds.merge(rows.select(["id", "v"]).slice(3, 20), "id")
    wanted = _by_id(rows)
    _agree(uri, {at: wanted[at] if 3 <= at < 23 else None for at in range(33)})


@pytest.fixture
def remembered() -> Iterator[None]:
    with all_remembered():
        lk.clear_cache()
        yield
        lk.clear_cache()


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_slices_of_remembered_blocks_stay_with_their_rows(
    tmp_path: Path, column: str, version: str
) -> None:
    uri, rows = str(tmp_path / "d"), _rows(COLUMNS[column])
    ds = lk.write_dataset(rows, uri, data_storage_version=version)
    wanted = _by_id(rows)
    time.sleep(0.05)
    for _ in range(3):
        ds.to_table()
        assert _by_id(ds.to_table(filter="id % 7 = 3")) == {
            at: value for at, value in wanted.items() if at % 7 == 3
        }
    assert _by_id(ds.take([30, 3])) == {30: wanted[30], 3: wanted[3]}
    limited = ds.to_table(filter="v IS NOT NULL AND g > 2", limit=10, offset=20)
    assert _by_id(limited) == {at: wanted[at] for at in range(23, 33)}
    ordered = ds.scanner(filter="id > 9", order_by=["g"]).to_table()
    assert _by_id(ordered) == {at: wanted[at] for at in range(10, COUNT)}
    ds.update({"g": "g + 1"}, where="id % 3 = 1")
    _agree(uri, wanted)


@pytest.fixture(params=["2.0", "2.1"])
def null_lists(request: pytest.FixtureRequest, tmp_path: Path) -> lk.LanceDataset:
    """Rows null, [5], [1, 5], [9], where the null list has items below it, as 2.0 stores them."""
    offsets = pa.array([0, 2, 3, 5, 6], pa.int32())
    items, mask = pa.array([7, 7, 5, 1, 5, 9], pa.int64()), pa.array([True, False, False, False])
    lists = pa.ListArray.from_arrays(offsets, items, mask=mask)
    rows = pa.table({"id": _ids(4), "l": lists, "p": pa.nulls(4, pa.int64())})
    lance.write_dataset(rows, tmp_path / "d", data_storage_version=request.param)
    return lk.dataset(str(tmp_path / "d"))


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("array_position(l, 5)", [None, 1, 2, None]),
        ("array_position(l, id + 4)", [None, 1, None, None]),
        ("array_has(l, 5)", [None, True, True, False]),
        ("array_has(l, id + 4)", [None, True, False, False]),
        ("array_has_any(l, [1, 9])", [None, False, True, True]),
        ("array_has_all(l, [1, 5])", [None, False, True, False]),
        ("array_min(l)", [None, 5, 1, 9]),
        ("array_max(l)", [None, 5, 5, 9]),
        ("array_to_string(l, '-')", [None, "5", "1-5", "9"]),
        ("array_length(l)", [None, 1, 2, 1]),
        ("l[1]", [None, 5, 1, 9]),
    ],
)
def test_list_functions_leave_out_the_items_of_null_lists(
    null_lists: lk.LanceDataset, expression: str, values: list[Any]
) -> None:
    found = null_lists.to_table(columns={"x": expression})["x"].to_pylist()
    assert found == values


def test_a_delete_by_a_list_function_takes_the_right_rows(null_lists: lk.LanceDataset) -> None:
    null_lists.update({"p": "array_position(l, 5)"})
    assert null_lists.to_table()["p"].to_pylist() == [None, 1, 2, None]
    null_lists.delete("array_position(l, 5) = 1")
    assert null_lists.to_table()["id"].to_pylist() == [0, 2, 3]


def test_a_merge_looks_into_lists_of_null_structs(tmp_path: Path) -> None:
    offsets = pa.array([0, 2, 4], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array([1, 2, 1, 2], pa.int64()))
    structs = pa.StructArray.from_arrays([lists], names=["l"], mask=pa.array([True, False]))
    target = {"id": _ids(2), "g": _ids(2), "s": pa.nulls(2, structs.type)}
    ds = lk.write_dataset(target, str(tmp_path / "d"))
    source = pa.table({"id": _ids(2), "g": pa.array([7, 7], pa.int64()), "s": structs})
    merge = ds.merge_insert("id").when_matched_update_all("array_position(source.s.l, 2) = 2")
    merge.execute(source)
    assert ds.to_table()["g"].to_pylist() == [0, 7]


NAN = float("nan")


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_the_greatest_item_of_a_list_is_nan(tmp_path: Path, kind: pa.DataType) -> None:
    lists = [[NAN, 2.0], [NAN], [None], [None, NAN], [1.0, 3.0], [], None]
    rows = pa.table({"id": _ids(7), "l": pa.array(lists, pa.list_(pa.float64()))})
    rows = rows.set_column(1, "l", rows["l"].cast(pa.list_(kind)))
    ds = lk.write_dataset(rows, str(tmp_path / "d"))
    wanted = {
        "most": [NAN, NAN, None, NAN, 3.0, None, None],
        "least": [2.0, NAN, None, NAN, 1.0, None, None],
    }
    columns = {"most": "array_max(l)", "least": "array_min(l)"}
    assert str(ds.to_table(columns=columns).to_pydict()) == str(wanted)
    if kind != pa.float16():
        assert str(lance.dataset(ds.uri).to_table(columns=columns).to_pydict()) == str(wanted)


def test_case_is_changed_of_texts_of_small_pages(tmp_path: Path) -> None:
    uri, words = str(tmp_path / "d"), [f"K{at % 9}" for at in range(300)]
    rows = pa.table({"id": _ids(300), "k": words})
    lance.write_dataset(rows, uri, data_storage_version="2.0", max_rows_per_file=3)
    ds = lk.dataset(uri)
    wanted = [at for at, word in enumerate(words) if word == "K3"]
    assert ds.to_table(filter="lower(k) = 'k3'")["id"].to_pylist() == wanted
    assert ds.to_table(columns={"k": "upper(lower(k))"})["k"].to_pylist() == words
    ds.delete("lower(k) = 'k3'")
    assert ds.to_table()["id"].to_pylist() == sorted(set(range(300)) - set(wanted))


# ---- nulls among the values of dictionaries

HIDDEN = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None]))
REQUIRED = pa.field("d", HIDDEN.type, nullable=False)
#: by name: a type that takes no nulls, an array with a hidden null, and Python's values without
NESTED: dict[str, tuple[pa.Field, pa.Array, list[Any]]] = {
    "column": (REQUIRED, HIDDEN, ["b", "c"]),
    "struct": (
        pa.field("d", pa.struct([REQUIRED])),
        pa.StructArray.from_arrays([HIDDEN], names=["d"]),
        [{"d": "b"}, {"d": "c"}],
    ),
    "list": (
        pa.field("d", pa.list_(REQUIRED)),
        pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), HIDDEN),
        [["b"], ["c"]],
    ),
}


def _replace(ds: lk.LanceDataset, rows: pa.Table) -> None:
    ds.replace_columns(rows.select(["d"]))


WRITES: dict[str, Callable[[lk.LanceDataset, pa.Table], Any]] = {
    "append": lambda ds, rows: ds.insert(rows),
    "merge_insert": _merge,
    "update_columns": _update_columns,
    "replace_columns": _replace,
    "sql": _sql_merge,
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("write", WRITES)
def test_nulls_of_dictionaries_do_not_enter_what_takes_none(
    tmp_path: Path, write: str, name: str
) -> None:
    field, hidden, values = NESTED[name]
    schema = pa.schema([pa.field("id", pa.int64()), field])
    before = pa.table([_ids(2), pa.array(values, field.type)], schema)
    ds = lk.write_dataset(before, str(tmp_path / "d"))
    with pytest.raises(SchemaMismatchError, match="null"):
        WRITES[write](ds, pa.table([_ids(2), hidden], ["id", "d"]))
    assert lk.dataset(ds.uri).to_table().to_pydict() == before.to_pydict()
    lk.dataset(ds.uri).validate(deep=True)


@pytest.mark.parametrize("name", NESTED)
def test_nulls_of_dictionaries_begin_no_table_that_takes_none(tmp_path: Path, name: str) -> None:
    field, hidden, _ = NESTED[name]
    schema = pa.schema([pa.field("id", pa.int64()), field])
    with pytest.raises(SchemaMismatchError, match="null"):
        lk.write_dataset(pa.table([_ids(2), hidden], ["id", "d"]), str(tmp_path / "d"), schema)
    assert not (tmp_path / "d").exists()


def test_nulls_of_dictionaries_enter_no_primary_key(tmp_path: Path) -> None:
    rows = pa.table([_ids(2), HIDDEN], ["id", "d"])
    with pytest.raises(NullKeyError, match="'d' holds 1 nulls, the first in row 1"):
        lk.write_dataset(rows, str(tmp_path / "d"), primary_key="d")


@pytest.mark.parametrize("name", NESTED)
def test_a_deep_validation_finds_nulls_where_none_may_be(tmp_path: Path, name: str) -> None:
    field, hidden, _ = NESTED[name]
    ds = lk.write_dataset(pa.table([_ids(2), hidden], ["id", "d"]), str(tmp_path / "d"))
    ds.validate(deep=True)
    change = lk.LanceOperation.Project(pa.schema([pa.field("id", pa.int64()), field]))
    lk.LanceDataset.commit(ds.uri, change, read_version=1)
    with pytest.raises(CorruptFileError, match=r"'d'.*is not nullable, but has"):
        lk.dataset(ds.uri).validate(deep=True)


# ---- half floats, lists of nulls, dictionaries with nulls, empty chunks


def test_half_floats_and_dictionaries_order_rows(tmp_path: Path) -> None:
    halves = pa.array([2, NAN, None, 1]).cast(pa.float16())
    texts = pa.array(["b", "c", None, "a"]).dictionary_encode()
    ds = lk.write_dataset({"id": _ids(4), "h": halves, "t": texts}, str(tmp_path / "d"))
    for name in ("h", "t"):
        assert ds.to_table(order_by=[name])["id"].to_pylist() == [3, 0, 1, 2]
        backwards = lk.ColumnOrdering(name, ascending=False, nulls_first=True)
        assert ds.to_table(order_by=[backwards])["id"].to_pylist() == [2, 1, 0, 3]


@pytest.mark.parametrize("name", ["h", "t"])
def test_half_floats_and_dictionaries_choose_the_newest_row(tmp_path: Path, name: str) -> None:
    orders = {"h": pa.array([2, 1]).cast(pa.float16()), "t": pa.array(["b", "a"])}
    orders["t"] = orders["t"].dictionary_encode()
    rows = pa.table({"id": pa.array([0, 0], pa.int64()), "g": _ids(2), "o": orders[name]})
    ds = lk.write_dataset(rows.slice(1), str(tmp_path / "d"))
    merge = ds.merge_insert("id").when_matched_update_all()
    merge.dedupe(by="o").execute(rows)
    assert ds.to_table()["g"].to_pylist() == [0]


def test_lists_of_nulls_come_from_queries_and_functions(tmp_path: Path) -> None:
    kind = pa.list_(pa.null())
    lists = pa.array([[None, None], None, [None]], kind)
    ds = lk.write_dataset({"id": _ids(3), "n": lists}, str(tmp_path / "d"))
    some = pa.table({"id": [0, 2]})
    found = lk.sql("SELECT t.* FROM t JOIN s ON t.id = s.id ORDER BY t.id", t=ds, s=some)
    assert found.to_table()["n"].to_pylist() == [[None, None], [None]]

    def made(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([pa.concat_arrays([lists, lists]).slice(3, 3)], names=["m"])

    ds.add_columns(made, read_columns=["id"])
    assert ds.to_table()["m"].to_pylist() == lists.to_pylist()
    assert lance.dataset(ds.uri).to_table()["m"].to_pylist() == lists.to_pylist()


def _two_dictionaries() -> pa.ChunkedArray:
    codes = pa.array([0, 1], pa.int8())
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(codes, pa.array([text, None])) for text in "ab"]
    )


@pytest.mark.parametrize("form", ["column", "struct", "list"])
@pytest.mark.parametrize("update", UPDATES)
def test_dictionaries_with_nulls_in_two_chunks_are_merged(
    tmp_path: Path, update: str, form: str
) -> None:
    column = _two_dictionaries()
    if form == "struct":
        column = pa.chunked_array(map(_within_struct, column.chunks))
    if form == "list":
        offsets = pa.array([0, 1, 2], pa.int32())
        column = pa.chunked_array(
            [pa.ListArray.from_arrays(offsets, chunk) for chunk in column.chunks]
        )
    rows = pa.table({"id": _ids(4), "v": column})
    before = pa.table({"id": _ids(4), "v": pa.nulls(4, column.type)})
    ds = lk.write_dataset(before, str(tmp_path / "d"), primary_key="id")
    UPDATES[update](ds, rows)
    _agree(ds.uri, _by_id(rows))


def test_dictionaries_with_nulls_are_keys(tmp_path: Path) -> None:
    codes = pa.array(["a", "b"], pa.string()).dictionary_encode()
    before = pa.table({"id": _ids(2), "d": codes.cast(pa.dictionary(pa.int8(), pa.string()))})
    ds = lk.write_dataset(before, str(tmp_path / "d"))
    rows = pa.table({"id": pa.array([7, 8, 9], pa.int64()), "d": _two_dictionaries()[:3]})
    ds.merge_insert("d").when_matched_update_all().when_not_matched_insert_all().execute(rows)
    found = ds.to_table().sort_by("id").to_pydict()
    assert found == {"id": [7, 8, 9], "d": ["a", None, "b"]}


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("update", UPDATES)
def test_empty_chunks_of_streams_are_merged(tmp_path: Path, update: str, dictionary: bool) -> None:
    ids, values = _ids(3), pa.array(["a", "b", "c"])
    values = values.dictionary_encode() if dictionary else _ids(3)
    schema = pa.schema([("id", pa.int64()), ("v", values.type)])
    chunks = [
        pa.record_batch([ids.slice(*at), values.slice(*at)], schema=schema)
        for at in [(0, 2), (3, 0), (2, 1)]
    ]
    ds = lk.write_dataset(
        pa.table([ids, pa.nulls(3, values.type)], schema), str(tmp_path / "d"), primary_key="id"
    )
    stream = pa.RecordBatchReader.from_stream(pa.Table.from_batches(chunks))
    UPDATES[update](ds, stream.read_all())
    wanted = dict(zip(ids.to_pylist(), values.to_pylist(), strict=True))
    _agree(ds.uri, wanted)
