"""Exact search for the nearest vectors: as pylance's without an index."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
    LancekitError,
    PredicateError,
)

ROWS = [[0, 0], [1, 0], [0, 1], None, [3, 3], [1, 0], [float("nan"), 1], [2, 0], [1, 0], [0, 0]]


def vectors(rows: Any, kind: Any = None, size: int = 2) -> pa.Array:
    return pa.array(rows, pa.list_(pa.float32() if kind is None else kind, size))


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("nearest") / "t")
    rows = pa.table({"id": range(10), "v": vectors(ROWS), "s": list("abcdefghij")})
    ds = lk.write_dataset(rows, place, max_rows_per_file=4)
    ds.delete("id = 9")
    return place


def both(uri: str, nearest: dict[str, Any], **scan: Any) -> tuple[pa.Table, pa.Table]:
    """Return what lancekit and pylance find."""
    ours = lk.dataset(uri).to_table(nearest=nearest, **scan)
    theirs = lance.dataset(uri).to_table(nearest={**nearest, "use_index": False}, **scan)
    return ours, theirs


def exactly(uri: str, nearest: dict[str, Any], **scan: Any) -> dict[str, list[Any]]:
    ours, theirs = both(uri, nearest, **scan)
    assert ours.schema == theirs.schema
    assert repr(ours.to_pydict()) == repr(theirs.to_pydict())  # NaN is itself
    return ours.to_pydict()


AT = {"column": "v", "q": [1, 0]}


@pytest.mark.parametrize(
    "scan",
    [
        {},
        {"limit": 2},
        {"limit": 0},
        {"offset": 2},
        {"limit": 2, "offset": 1},
        {"offset": 99},
        {"filter": "id > 4"},
        {"filter": "id > 4", "prefilter": True},
        {"filter": "id > 4", "prefilter": True, "limit": 1, "offset": 1},
        {"filter": "id > 4", "limit": 1},
        {"filter": "id > 99"},
        {"filter": "id > 99", "prefilter": True},
        {"filter": "_distance < 1.5 and s <> 'b'"},
        {"with_row_id": True},
        {"with_row_address": True, "with_row_id": True},
        {"columns": ["id"]},
        {"columns": ["_distance", "id"]},
        {"columns": ["_distance"]},
        {"columns": []},
        {"columns": [], "with_row_id": True},
        {"columns": ["_rowid", "id"]},
        {"columns": ["id", "_rowid", "_distance", "s"]},
        {"columns": {"a": "id * 2", "near": "_distance * 2"}},
        {"columns": ["id"], "disable_scoring_autoprojection": True},
        {"columns": ["_distance", "id"], "disable_scoring_autoprojection": True},
        {"disable_scoring_autoprojection": True},
        {"order_by": ["id"]},
        {"order_by": ["id"], "limit": 2},
    ],
    ids=str,
)
def test_what_is_asked_beside(uri: str, scan: dict[str, Any]) -> None:
    for k in (1, 3, 100):
        exactly(uri, {**AT, "k": k}, **scan)
        exactly(uri, {**AT, "k": k, "q": [[3, 3], [1, 0]]}, **scan)


def _said(more: dict[str, Any]) -> str:
    """Return what a case is called: Arrow shows arrays with their places in memory."""
    return re.sub(r" object at 0x[0-9a-f]+", "", str(more))


@pytest.mark.parametrize(
    "more",
    [
        {"k": None},
        {"metric": "L2"},
        {"metric": "Euclidean"},
        {"metric": "cosine"},
        {"metric": "dot"},
        {"distance_range": (0.5, 1.0)},
        {"distance_range": (1, None)},
        {"distance_range": (None, 1.0)},
        {"distance_range": (1, 5), "k": 2},
        {"distance_range": (5, 1)},
        {"distance_range": (float("nan"), None)},
        {"distance_range": (None, None)},
        {"refine_factor": 3, "nprobes": 2, "ef": 1, "search_effort": 0.5},
        {"minimum_nprobes": 1, "maximum_nprobes": 3, "query_parallelism": -1},
        {"approx_mode": "accurate"},
        {"q": [float("nan"), 0]},
        {"q": [float("inf"), 0]},
        {"q": [1e300, 0]},
        {"q": [None, 1.0]},
        {"q": (1, 0)},
        {"q": range(2)},
        {"q": [True, False]},
        {"q": np.array([1, 0])},
        {"q": np.array([1, 0], np.float16)},
        {"q": np.array([[1, 0]])},
        {"q": np.array([[1, 0], [3, 3.0]])},
        {"q": [np.array([1, 0]), pa.array([3.0, 3.0], pa.float32())]},
        {"q": pa.array([1, 0])},
        {"q": pa.array([1, 0], pa.uint8())},
        {"q": pa.scalar([1.0, 0.0], pa.list_(pa.float32(), 2))},
        {"q": b"ab"},
    ],
    ids=_said,
)
def test_what_is_asked_for(uri: str, more: dict[str, Any]) -> None:
    exactly(uri, {**AT, **more}, columns=["id", "_distance"])


def test_queries_that_only_lancekit_takes(uri: str) -> None:
    ds = lk.dataset(uri)
    for q in (
        pa.array([1.0, 0.0]),  # doubles: a panic in pylance
        pa.chunked_array([[1.0], [0.0]]),
        pa.scalar([1.0, 0.0]),
    ):
        found = ds.to_table(nearest={"column": "v", "q": q}, columns=["id"])
        assert found["id"].to_pylist() == [1, 5, 8, 0, 7, 2, 4]
    pairs = ds.to_table(nearest={"column": "v", "q": vectors([[1, 0], [3, 3]]), "k": 1})
    assert pairs["query_index"].to_pylist() == [0, 1]
    assert pairs["id"].to_pylist() == [1, 4]


def test_every_way_to_ask(uri: str) -> None:
    ds, nearest = lk.dataset(uri), {**AT, "k": 5}
    table = ds.to_table(nearest=nearest)
    assert ds.to_pandas(nearest=nearest)["_distance"].tolist() == table["_distance"].to_pylist()
    built = lk.ScannerBuilder(ds).nearest("v", [1, 0], k=5).to_scanner()
    for scanner in (ds.scanner(nearest=nearest), built):
        assert scanner.to_table() == table
        assert scanner.projected_schema == table.schema
        assert scanner.count_rows() == 5
        assert scanner.head(2) == table.slice(0, 2)
        assert scanner.to_reader().read_all() == table
    batches = list(ds.to_batches(nearest=nearest, batch_size=2))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert pa.Table.from_batches(batches) == table
    assert ds.count_rows("id > 4", nearest=nearest) == 3
    told: list[Any] = []
    assert ds.scanner(nearest=nearest, scan_stats_callback=told.append).to_table() == table
    assert told[0].bytes_read
    copy = lk.write_dataset(ds.scanner(nearest=nearest), "memory://nearest-copy")
    assert copy.to_table() == table
    by_distance = ds.to_table(
        nearest=nearest,
        columns=["id"],
        order_by=[lk.ColumnOrdering("_distance", ascending=False), "id"],
        disable_scoring_autoprojection=True,
    )
    assert by_distance.to_pydict() == {"id": [0, 7, 1, 5, 8]}


def test_some_fragments(uri: str) -> None:
    ds = lk.dataset(uri)
    first, second, third = ds.get_fragments()
    for asked, ids in (([second], [5, 7, 4]), ([third, first], [1, 8, 0, 2]), ([], [])):
        found = ds.scanner(nearest=AT, fragments=asked).to_table()
        assert found["id"].to_pylist() == ids
        assert "_distance" in found.column_names


def test_it_is_explained(uri: str) -> None:
    told = str(lk.dataset(uri).scanner(nearest={**AT, "k": 2}, filter="id > 1").explain())
    assert "exact search over 9 rows by l2" in told
    assert "the 2 nearest rows" in told
    counted = lk.dataset(uri).explain.count_rows("id > 1", nearest=AT)
    assert counted.operation == "count_rows"
    assert counted.reads is not None
    assert counted.reads.columns == ("v", "id")


@pytest.mark.parametrize("kind", ["halffloat", "float", "double", "uint8"])
def test_types_and_metrics(tmp_path: Path, kind: str) -> None:
    value = pa.type_for_alias(kind)
    rows = vectors([[3, 2], [1, 5], [100, 7], None, [0, 0]], value)
    lk.write_dataset({"id": range(5), "v": rows}, tmp_path / "t")
    uri = str(tmp_path / "t")
    metrics = [None, "hamming"] if kind == "uint8" else [None, "l2", "cosine", "dot"]
    for metric in metrics:
        for q in ([1, 5], [0, 0], [7, 2]):
            ours, theirs = both(uri, {"column": "v", "q": q, "metric": metric}, columns=["id"])
            assert ours["id"] == theirs["id"]
            np.testing.assert_allclose(ours["_distance"], theirs["_distance"], 1e-6, 1e-6)


def test_infinite_and_undefined_distances(tmp_path: Path) -> None:
    inf, nan = float("inf"), float("nan")
    rows = vectors([[0, 0], [1e30, 0], [inf, 0], [-1, -0.0], [-inf, 0], [nan, 0]])
    lk.write_dataset({"id": range(6), "v": rows}, tmp_path / "t")
    for metric in ("l2", "cosine", "dot"):
        for q in ([1, 0], [0, 0], [1e30, 0]):
            nearest = {"column": "v", "q": q, "metric": metric}
            exactly(str(tmp_path / "t"), nearest, columns=["id", "_distance"])


def test_nulls_within_vectors_and_nested_columns(tmp_path: Path) -> None:
    inner = vectors([[1, None], [1, 5], None])
    rows = pa.table({"id": range(3), "s": pa.StructArray.from_arrays([inner, inner], ["v", "a.b"])})
    uri = str(tmp_path / "t")
    lk.write_dataset(rows, uri)
    exactly(uri, {"column": "s.v", "q": [1, 0]})
    exactly(uri, {"column": "s.v", "q": [1, 0]}, columns=["s.v", "id"])
    exactly(uri, {"column": "`s`.`v`", "q": [1, 0]}, columns=["id"])
    found = lk.dataset(uri).to_table(nearest={"column": "s.`a.b`", "q": [1, 0]})
    assert found["id"].to_pylist() == [0, 1]


def test_lists_of_vectors(tmp_path: Path) -> None:
    kind = pa.list_(pa.list_(pa.float32(), 2))
    rows = [[], [[3, 1]], [[float("nan"), 1], [1, 2]], [[0, 0]], None, [[1, 2], [5, 5], [4, 4]]]
    uri = str(tmp_path / "t")
    table = pa.table({"id": range(6), "m": pa.array(rows, kind)})
    lk.write_dataset(pa.concat_tables([table.slice(1, 3), table]), uri, max_rows_per_file=5)
    for metric in ("l2", "dot", "cosine"):
        for q in ([1, 2], [[1, 2]], [[1, 2], [3, 4]]):
            ours, theirs = both(uri, {"column": "m", "q": q, "metric": metric}, columns=["id"])
            assert ours["id"] == theirs["id"]
            np.testing.assert_allclose(ours["_distance"], theirs["_distance"], 1e-6, 1e-6)
    exactly(uri, {"column": "m", "q": [1, 2], "distance_range": (0.5, None)}, columns=["id"])


def test_tensors_and_tables_without_rows_or_vectors(tmp_path: Path) -> None:
    tensors = pa.fixed_shape_tensor(pa.float32(), (2,))
    stored = vectors([[3, 2], [1, 5], [0, 0]])
    for name, column in (
        ("tensors", pa.ExtensionArray.from_storage(tensors, stored)),
        ("empty", vectors([])),
        ("nulls", vectors([None, None])),
    ):
        uri = str(tmp_path / name)
        lk.write_dataset(pa.table({"id": range(len(column)), "v": column}), uri)
        exactly(uri, {"column": "v", "q": [1, 0]})
        exactly(uri, {"column": "v", "q": [[1, 0], [0, 0]]})


def test_blobs_beside(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("v", pa.list_(pa.float32(), 2)), lk.blob_field("b")])
    rows = pa.table([vectors([[3, 0], [1, 0]]), lk.blob_array([b"far", b"near"])], schema=schema)
    ds = lk.write_dataset(rows, tmp_path / "t", data_storage_version="2.2")
    nearest = {"column": "v", "q": [0, 0]}
    assert ds.to_pandas(nearest=nearest, blob_mode="bytes")["b"].tolist() == [b"near", b"far"]
    shown = ds.to_table(nearest=nearest, blob_handling="all_binary", filter="_distance < 2")
    assert shown["b"].to_pylist() == [b"near"]


# ---- random tables


def random_table(seed: int) -> tuple[pa.Table, dict[str, Any], Any]:
    """Return rows, how to write them, and a query."""
    chosen = random.Random(seed)
    numbers = np.random.default_rng(seed)
    kind = chosen.choice(["halffloat", "float", "double", "uint8"])
    count, size = chosen.choice([1, 50, 700]), chosen.choice([2, 3, 8, 33])
    if kind == "uint8":
        values: Any = numbers.integers(0, 256, (count, size))
        q: Any = numbers.integers(0, 256, size)
    elif chosen.random() < 0.5:  # many at the same distance
        values, q = numbers.integers(-2, 3, (count, size)), numbers.integers(-2, 3, size)
    else:
        values, q = numbers.standard_normal((count, size)), numbers.standard_normal(size)
    rows = values.astype(np.dtype(pa.type_for_alias(kind).to_pandas_dtype())).tolist()
    nulls = numbers.random(count) < chosen.choice([0, 0.2])
    column = [None if null else row for null, row in zip(nulls, rows, strict=True)]
    table = pa.table(
        {"id": range(count), "v": vectors(column, pa.type_for_alias(kind), size), "n": nulls}
    )
    options = {
        "max_rows_per_file": chosen.choice([20, 300, 1000]),
        "data_storage_version": chosen.choice(["2.0", "2.1", "2.2"]),
        "enable_stable_row_ids": chosen.random() < 0.5,
    }
    return table, options, q


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(40))
def test_random_tables(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    table, options, q = random_table(seed)
    uri = str(tmp_path / "t")
    (lk if chosen.random() < 0.5 else lance).write_dataset(table, uri, **options)
    if chosen.random() < 0.6:
        lk.dataset(uri).delete(f"id % {chosen.choice([2, 7])} = 1")
    if chosen.random() < 0.3:  # with stable ids, rows that come late may have early ones
        lk.dataset(uri).update({"n": "true"}, where="id % 3 = 0")
    kind = table["v"].type.value_type
    exact = q.dtype.kind in "iu"
    # pylance rounds all but Arrow's doubles to float32
    q = pa.array(q.astype(np.float64)) if kind == pa.float64() else q
    of_query = np.asarray(q).astype(kind.to_pandas_dtype()).astype(np.float64)
    scale = 1.0 + float(np.abs(of_query).sum()) * 4
    for metric in [None] if kind == pa.uint8() else ["l2", "cosine", "dot"]:
        nearest = {"column": "v", "q": q, "k": chosen.choice([1, 10, 2000]), "metric": metric}
        scan: dict[str, Any] = {"columns": ["id", "_distance"], "with_row_id": True}
        if chosen.random() < 0.6:
            scan |= {"filter": "id % 4 <> 2", "prefilter": chosen.random() < 0.5}
        ours, theirs = both(uri, nearest, **scan)
        assert ours.schema == theirs.schema
        assert ours.num_rows == theirs.num_rows
        found, expected = (t["_distance"].to_numpy() for t in (ours, theirs))
        np.testing.assert_allclose(found, expected, 1e-6, 0 if metric == "l2" else 1e-6 * scale)
        if exact and metric != "cosine":  # where nothing is rounded, the same rows are nearest
            assert ours["id"] == theirs["id"]
        # in any case they are as far as is told
        right = table.take(ours["id"])["v"].combine_chunks().values.to_numpy()
        told = _DISTANCES[metric](right.astype(np.float64).reshape(-1, len(of_query)), of_query)
        np.testing.assert_allclose(found, told, 1e-6, 1e-6 * scale)


_DISTANCES: dict[str | None, Any] = {
    "l2": lambda x, q: ((x - q) ** 2).sum(1),
    "dot": lambda x, q: 1 - x @ q,
    "cosine": lambda x, q: 1 - x @ q / np.linalg.norm(x, axis=1) / np.linalg.norm(q),
    None: lambda x, q: np.bitwise_count(x.astype(np.uint8) ^ q.astype(np.uint8)).sum(1),
}


# ---- errors


@pytest.mark.parametrize(
    ("nearest", "says"),
    [
        ([1], "nearest must be"),
        ("v", "nearest must be"),
        ({}, "lacks 'column'"),
        ({"column": "v"}, "lacks 'q'"),
        ({"q": [1, 0]}, "lacks 'column'"),
        ({**AT, "foo": 1}, "no argument 'foo'"),
        ({**AT, "column": "z"}, "Column 'z' does not exist"),
        ({**AT, "column": "V"}, "Column 'V' does not exist"),
        ({**AT, "column": "id"}, "must be a vector column, got int64"),
        ({**AT, "column": "s"}, "must be a vector column, got string"),
        ({**AT, "column": 5}, "column must be .* got 5"),
        (
            {**AT, "q": [1, 0, 0]},
            "q has 3 values, which does not match index column size: .* 'v' have 2",
        ),
        ({**AT, "q": [[1, 0], [3]]}, "q must be a vector"),
        ({**AT, "q": []}, "q must be a vector"),
        ({**AT, "q": np.zeros((0, 2))}, "q must be a vector"),
        ({**AT, "q": 5}, "q must be a vector"),
        ({**AT, "q": "ab"}, "q must be a vector"),
        ({**AT, "q": ["a", "b"]}, "q must be a vector"),
        ({**AT, "q": {"a": 1}}, "q must be a vector"),
        ({**AT, "q": [[[1, 0]]]}, "q must be a vector"),
        ({**AT, "metric": "hamming"}, "metric 'hamming' does not support"),
        ({**AT, "metric": "manhattan"}, "l2, cosine, dot"),
        ({**AT, "metric": 5}, "metric must be a name, got 5"),
        ({**AT, "metric": ""}, "metric '' does not support"),
        ({**AT, "k": 0}, "k must be .* got 0"),
        ({**AT, "k": 2.5}, "k must be .* got 2.5"),
        ({**AT, "nprobes": 0}, "nprobes must be .* got 0"),
        ({**AT, "minimum_nprobes": 5, "maximum_nprobes": 3}, "minimum_nprobes 5 is larger"),
        ({**AT, "refine_factor": 0}, "refine_factor must be .* got 0"),
        ({**AT, "distance_range": (1,)}, "distance_range must be"),
        ({**AT, "distance_range": ("a", 1)}, "distance_range must be"),
    ],
    ids=str,
)
def test_errors(uri: str, nearest: Any, says: str) -> None:
    with pytest.raises(LancekitError, match=says):
        lk.dataset(uri).scanner(nearest=nearest)
    with pytest.raises((TypeError, ValueError, KeyError, IndexError)):  # each is one there, too
        lance.dataset(uri).scanner(nearest=nearest).to_table()


def test_errors_of_what_is_asked_beside(uri: str) -> None:
    ds = lk.dataset(uri)
    with pytest.raises(InvalidArgumentError, match="include_deleted_rows"):
        ds.to_table(nearest=AT, include_deleted_rows=True, with_row_id=True)
    with pytest.raises(InvalidTypeError, match="q must be a vector"):  # there a warning
        ds.to_table(nearest={**AT, "q": [1j, 0]})
    with pytest.raises(PredicateError, match="_distance"):
        ds.to_table(nearest=AT, filter="_distance < 1", prefilter=True)
    with pytest.raises(ColumnNotFoundError, match="_distance"):
        ds.to_table(columns=["_distance"])
    with pytest.raises(InvalidTypeError, match="prefilter"):
        ds.to_table(nearest=AT, prefilter=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="nearest"):
        ds.to_spark(nearest=AT)  # type: ignore[call-arg]


def test_types_that_are_not_compared(tmp_path: Path) -> None:
    for kind in (pa.int8(), pa.int32(), pa.bool_()):
        ds = lk.write_dataset(
            {"v": vectors([[0, 1]]).cast(pa.list_(kind, 2))}, tmp_path / str(kind)
        )
        with pytest.raises(InvalidArgumentError, match=f"vectors of {kind}"):
            ds.scanner(nearest=AT)
    ds = lk.write_dataset({"v": vectors([[0, 1]], pa.uint8())}, tmp_path / "bytes")
    for q in ([300, 5], [1.5, 2], [-1, 0]):
        with pytest.raises(InvalidArgumentError, match="from 0 to 255"):
            ds.scanner(nearest={"column": "v", "q": q})


def test_columns_that_are_called_like_those_of_a_search(tmp_path: Path) -> None:
    for name, q in (("_distance", [1, 0]), ("query_index", [[1, 0], [0, 0]])):
        uri = str(tmp_path / name)
        ds = lk.write_dataset(pa.table({name: [1], "v": vectors([[0, 0]])}), uri)
        with pytest.raises(InvalidArgumentError, match=f"Column '{name}' clashes"):
            ds.scanner(nearest={"column": "v", "q": q})
        with pytest.raises(ValueError, match=name):
            lance.dataset(uri).to_table(nearest={"column": "v", "q": q, "use_index": False})


@pytest.mark.parametrize("q", [[0, 0], [[0, 0], [1, 1]]])
def test_a_fast_search_finds_nothing_without_an_index(tmp_path: Path, q: Any) -> None:
    rows = pa.table({"n": range(30), "v": vectors([[n, 1] for n in range(30)])})
    ds = lk.write_dataset(rows, str(tmp_path / "d"))
    ask = {"column": "v", "q": q, "k": 3}
    ours, theirs = both(ds.uri, ask, fast_search=True)
    assert ours.num_rows == theirs.num_rows == 0
    assert ours.schema.names == theirs.schema.names
    assert "no rows are found" in ds.scanner(nearest=ask, fast_search=True).explain_plan()
    ds.create_index("v", "IVF_FLAT", num_partitions=1)
    for more in ({}, {"use_index": False}):
        found = [
            one.to_table(nearest=ask | more, fast_search=True)["n"].to_pylist()
            for one in (ds, lance.dataset(ds.uri))
        ]
        assert found[0] == found[1]
        assert len(found[0]) == (0 if more else 3 * (len(q) if isinstance(q[0], list) else 1))
