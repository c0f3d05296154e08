"""Nested fields in scans: by path, in filters and expressions, in several files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit._format.paths import parse_path, show_path
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError, PredicateError

VERSIONS = ["2.1", "2.2"]


def rows() -> pa.Table:
    return pa.table(
        {
            "id": [1, 2, 3],
            "s": pa.array(
                [{"x": 1, "y": {"z": "a", "w": 1.5}}, None, {"x": 3, "y": None}],
            ),
            "l": pa.array([[{"a": 1, "b": 2}, {"a": 5, "b": None}], [], None]),
            "li": pa.array([[1, 2], None, [3]]),
            "v": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
            "a b": pa.array([{"c.d": 1, "e`f": 2}, None, {"c.d": None, "e`f": 4}]),
        }
    )


@pytest.fixture(scope="module", params=VERSIONS)
def both(request, tmp_path_factory) -> tuple[Any, Any]:
    path = tmp_path_factory.mktemp("nested") / "d"
    theirs = lance.write_dataset(rows(), path, data_storage_version=request.param)
    return theirs, lk.dataset(path)


def same(both: tuple[Any, Any], read: Any) -> None:
    wanted, found = read(both[0]), read(both[1])
    assert found.schema.equals(wanted.schema)
    assert found.equals(wanted)


PATHS = [
    ["s.x"], ["s.y.z"], ["s.x", "s.y.w"], ["s.y.w", "id", "s.x"], ["s", "s.x"], ["s.y"],
    ["`s`.`x`"], ["`a b`.`c.d`"], ["a b.`c.d`", "`a b`.`e``f`"], ["l", "v"],
]  # fmt: skip


@pytest.mark.parametrize("columns", PATHS, ids=",".join)
def test_projection(both, columns: list[str]) -> None:
    same(both, lambda ds: ds.to_table(columns=columns))
    same(both, lambda ds: ds.take([2, 0, 2], columns=columns))
    same(both, lambda ds: ds.to_table(columns=columns, filter="s.x = 3", with_row_id=True))
    same(both, lambda ds: ds.head(2, columns=columns))
    same(both, lambda ds: pa.Table.from_batches(ds.to_batches(columns=columns)))


def test_take_looks_into_lists(both) -> None:
    same(both, lambda ds: ds.take([0, 2, 1], columns=["l.item.b", "s.x"]))


EXPRESSIONS = [
    "s.x + 1", "s.y", "s['x']", "get_field(s, 'x')", "li", "l[1]", "l[1].a", "l[2].b", "li[1]",
    "li[2]", "li[-1]", "li[0]", "li[7]", "v[2]", "array_element(li, 2)", "array_length(li)",
    "cardinality(l)", "empty(li)", "array_has(li, 3)", "array_has(li, s.x)",
    "array_has_any(li, [3, 4])", "array_has_any(li, make_array(3, 4))", "array_has_all(li, [1, 2])",
    "`a b`.`c.d` + `a b`.`e``f`",
]  # fmt: skip


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_expressions(both, sql: str) -> None:
    same(both, lambda ds: ds.to_table(columns={"found": sql, "id": "id"}))
    same(both, lambda ds: ds.take([2, 1], columns={"found": sql}))


FILTERS = [
    "s.x > 1", "s.y.z = 'a'", "`s`.`x` IN (1, 3)", "s['x'] = 3", "s IS NULL", "s IS NOT NULL",
    "s.y IS NULL", "s.x IS NULL", "l IS NULL", "array_contains(li, 3)", "array_length(li) = 1",
    "array_length(l) = 0", "li[1] = 1", "l[1].a = 1", "array_has_any(li, [3])", "empty(l)",
    "`a b`.`c.d` = 1", "v IS NULL",
]  # fmt: skip


@pytest.mark.parametrize("condition", FILTERS)
def test_filters(both, condition: str) -> None:
    same(both, lambda ds: ds.to_table(filter=condition))
    same(both, lambda ds: ds.to_table(columns=["s.y.w", "id"], filter=condition))
    assert both[1].count_rows(condition) == both[0].count_rows(condition)


def test_pyarrow_filters(both) -> None:  # the reference fails here
    assert both[1].to_table(columns=["id"], filter=pc.field("s", "x") > 1)["id"].to_pylist() == [3]


def test_order(both) -> None:
    _, ours = both
    orderings = [lk.ColumnOrdering("s.x", ascending=False, nulls_first=True)]
    assert ours.to_table(columns=["id"], order_by=orderings)["id"].to_pylist() == [2, 3, 1]
    same(both, lambda ds: ds.to_table(order_by=["s.x"]))


@pytest.mark.parametrize("path", ["s.nope", "nope.x", "l.item.a", "l.a", "s.x.y"])
def test_paths_that_lead_nowhere(both, path: str) -> None:
    with pytest.raises(ColumnNotFoundError, match="does not exist"):
        both[1].to_table(columns=[path])


def test_take_of_a_part_looks_at_no_other_fragment(tmp_path) -> None:
    rows = [{"s": {"x": i, "y": str(i)}} for i in range(30)]
    lk.write_dataset(rows, tmp_path, max_rows_per_file=1)
    ds = lk.dataset(tmp_path)
    assert ds.take([5, 7], columns=["s.x"]).to_pylist() == [{"s": {"x": 5}}, {"s": {"x": 7}}]
    fragments: Any = ds._snapshot.manifest.fragments
    assert set(fragments._decoded) == {5, 7}


def test_mistakes_are_named(both) -> None:
    _, ours = both
    with pytest.raises(ColumnNotFoundError, match=r"Did you mean .s\.x."):
        ours.to_table(columns=["s.X"])
    with pytest.raises(ColumnNotFoundError):
        ours.take([0], columns=["s.nope"])
    with pytest.raises(InvalidArgumentError, match="twice"):
        ours.to_table(columns=["s.x", "s.x"])
    with pytest.raises(PredicateError, match="no field of 's' 'nope'"):
        ours.to_table(filter="s.nope = 1")
    with pytest.raises(PredicateError, match="not part of the filter language"):
        ours.to_table(filter="s[1] = 1")


@pytest.mark.parametrize("names", [("s", "x"), ("a b",), ("a.b", "c`d", "e")])
def test_paths_round_trip(names: tuple[str, ...]) -> None:
    assert parse_path(show_path(names)) == names


def test_only_the_leaves_asked_for_are_read(tmp_path: Path) -> None:
    count = 20_000
    wide = pa.array([{"x": n, "big": "z" * 100 + str(n * 7919)} for n in range(count)])
    ds = lk.write_dataset({"s": wide}, tmp_path / "d")
    (file,) = (tmp_path / "d" / "data").iterdir()
    whole = bytearray(file.read_bytes())
    big = slice(len(whole) // 2, len(whole) * 3 // 4)  # inside of the strings' pages
    whole[big] = bytes(len(whole[big]))
    file.write_bytes(whole)
    assert ds.to_table(columns=["s.x"])["s.x"].to_pylist() == list(range(count))
    assert ds.count_rows("s.x < 5") == 5
    assert ds.take([3], columns=["s.x"]).to_pylist() == [{"s": {"x": 3}}]
    with pytest.raises(Exception):  # noqa: B017, PT011
        assert ds.to_table()["s"].combine_chunks().equals(wide)


def test_parts_in_several_files(tmp_path: Path) -> None:
    """The reference writes a part that changes to a file of its own, and adds parts to none."""
    whole = {"x": 1, "y": "a", "in": {"p": 1, "q": 2}}
    table = pa.table(
        {
            "id": [1, 2, 3],
            "s": pa.array([whole, None, {**whole, "y": None, "in": None}]),
            "l": pa.array([[{"a": 1, "b": 2}, {"a": 3, "b": None}], [], None]),
            "n": pa.array([[[{"a": 1, "b": 2}], None], [[]], None]),
        }
    )
    lance.write_dataset(table, tmp_path / "d", data_storage_version="2.2")
    more = pa.schema([pa.field("s", pa.struct([("new", pa.int64())]))])
    for change in (
        lambda ds: ds.alter_columns({"path": "s.x", "data_type": pa.int32()}),
        lambda ds: ds.alter_columns({"path": "s.in.q", "data_type": pa.int32()}),
        lambda ds: ds.drop_columns(["s.y"]),
        lambda ds: ds.alter_columns({"path": "s.in.p", "name": "r"}),
        lambda ds: ds.add_columns(more),
        lambda ds: ds.alter_columns({"path": "l.item.a", "data_type": pa.int32()}),
        lambda ds: ds.alter_columns({"path": "n.item.item.b", "data_type": pa.int32()}),
        lambda ds: lance.write_dataset(ds.to_table(), tmp_path / "d", mode="append"),
        lambda ds: ds.drop_columns(["n.item.item.a"]),
    ):
        change(lance.dataset(tmp_path / "d"))
        ours, theirs = lk.dataset(tmp_path / "d"), lance.dataset(tmp_path / "d")
        wanted = theirs.to_table()
        assert ours.schema == theirs.schema
        assert ours.to_table().equals(wanted)
        assert ours.take([2, 0]).equals(wanted.take([2, 0]))
    ours.validate(deep=True)
    assert len(ours.get_fragments()[0].data_files()) > 4
    ours.insert(wanted)
    assert lance.dataset(tmp_path / "d").count_rows() == 12
