"""Items of lists that are half floats or categories: filters beside the reference."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk

_CODE = pa.dictionary(pa.int8(), pa.string())
_ROWS = {
    "h": pa.array([[1.5, 2.5], None, [None]], pa.list_(pa.float16())),
    "f": pa.array([[1.5, 2.5], None, [None, 1]], pa.list_(pa.float16(), 2)),
    "c": pa.array([["a", "b"], None, [None]], pa.list_(_CODE)),
    "s": pa.array([{"x": ["a"]}, None, {"x": ["b"]}], pa.struct([("x", pa.list_(_CODE))])),
    "p": pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.float16())])),
}

_FILTERS = """
h[1] = 1.5
h[1] > 1.5
h[1] BETWEEN 1 AND 2
h[1] IN (1.5, 2)
h[1] = h[1]
h[1] < f[2]
h = [1.5, 2.5]
-h[1] = -1.5
h[1] + 1 = 2.5
h[1] IS NOT NULL
f[2] > 1.5
coalesce(h[1], 3.0) = 1.5
greatest(h[1], 2.0) = 2
abs(h[1]) = 1.5
array_has(h, 1.5)
array_has_all(h, [1.5])
array_position(h, 2.5) = 2
array_max(h) = 2.5
array_to_string(h, ',') = '1.5,2.5'
c[1] = 'a'
c[1] < 'b'
c[1] IN ('a', 'x')
c[1] IS DISTINCT FROM 'a'
c[1] LIKE 'a%'
c = ['a', 'b']
upper(c[1]) = 'A'
starts_with(c[1], 'a')
nullif(c[1], 'a') IS NULL
array_has(c, 'a')
array_has_any(c, ['b'])
array_max(c) = 'b'
s.x[1] = 'a'
p.x = 1
""".strip().splitlines()


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lk.LanceDataset:
    place: Path = tmp_path_factory.mktemp("items") / "d.lance"
    return lk.write_dataset(pa.table(_ROWS), str(place))


@pytest.mark.parametrize("text", _FILTERS)
def test_items_compare_as_columns_do(ds: lk.LanceDataset, text: str) -> None:
    reference = lance.dataset(ds.uri)
    wanted = reference.to_table(columns=[], filter=text, with_row_id=True)["_rowid"]
    assert ds.to_table([], filter=text, with_row_id=True)["_rowid"].to_pylist() == (
        wanted.to_pylist()
    )


@pytest.mark.parametrize("text", ["h[1]", "f[2]", "c[1]", "list_element(h, 2)", "(c[2])"])
def test_an_item_keeps_its_type(ds: lk.LanceDataset, text: str) -> None:
    wanted = lance.dataset(ds.uri).to_table(columns={"x": text})["x"]
    found = ds.to_table(columns={"x": text})["x"]
    assert (found.type, found.to_pylist()) == (wanted.type, wanted.to_pylist())


def test_items_of_slices_and_of_large_lists() -> None:
    lists = pa.array([["x"], None, ["a", "b"]], pa.large_list(_CODE)).slice(1)
    ds = lk.write_dataset({"l": lists}, "memory://slices")
    assert ds.count_rows("l[2] = 'b'") == 1
    assert ds.count_rows("array_has(l, 'x')") == 0
