"""Updates: pylance's rows for the same expressions, all of them seeing the old row."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
    PredicateError,
    RetriesExhaustedError,
    SchemaMismatchError,
)

Run = Callable[..., Any]

TABLE = pa.table(
    {
        "i": pa.array([1, 2, None], pa.int32()),
        "l": pa.array([10, 20, 30]),
        "u": pa.array([1, 2, 3], pa.uint8()),
        "f": pa.array([1.5, 2.5, None], pa.float32()),
        "d": pa.array([1.25, 2.75, 9.0]),
        "s": ["a", "b", None],
        "b": [True, False, None],
        "day": pa.array([date(2020, 1, 1)] * 3),
        "ts": pa.array([datetime(2020, 1, 1, 3)] * 3, pa.timestamp("us")),
        "dec": pa.array([Decimal("1.10")] * 3, pa.decimal128(8, 2)),
        "li": pa.array([[1, 2], [3], None]),
        "st": pa.array([{"x": 1, "y": "q"}, {"x": 2, "y": "r"}, None]),
        "bin": pa.array([b"q", b"r", b""]),
    }
)

# what pylance accepts, by column
VALUES = {
    "i": "5; 1.5; '5'; NULL; f; d; l; b; cast('7' as int); i = 1; coalesce(i, 0) + 1; -i",
    "u": "i; 200; l",
    "f": "1; l; '1.5'; d*2; d; i",
    "d": "i; i/2; f; l/3; abs(-d); NULL; 1.5",
    "s": "1; i; f; b; day; ts; s||'x'; concat(s,'-',i); upper(s); NULL; dec; 'it''s'; \"q\"; bin",
    "b": "i > 1; 1; 'true'; i; s IS NULL; NOT b",
    "day": "'2021-02-03'; ts; DATE '2021-02-03'; 5",
    "ts": "'2021-02-03 04:05:06'; day; TIMESTAMP '2021-02-03 04:05:06'",
    "dec": "1.5; 2; dec*2; 1.555; -1.555; 1.545; i; d; '3.25'",
    "li": "make_array(5,6); [7,8]; NULL",
    "st": "NULL",
    "bin": "X'00ff'; 'abc'; s",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("update")
    made = {}
    for side in (lk, lance):
        uri = str(root / side.__name__)
        cast(Any, side).write_dataset(TABLE, uri)
        made[side.__name__] = uri
    return made


@pytest.mark.filterwarnings("ignore:Column 'i' of type int32 cannot hold")
@pytest.mark.parametrize("column", VALUES)
def test_expressions_give_what_they_give_in_pylance(both: dict[str, Any], column: str) -> None:
    for sql in VALUES[column].split("; "):
        found = []
        for side in (lk, lance):
            ds = cast(Any, side).dataset(both[side.__name__], version=1)
            ds.restore()
            assert ds.update({column: sql}) == {"num_rows_updated": 3}
            found.append(ds.to_table())
        assert found[0].schema == found[1].schema
        assert found[0].to_pylist() == found[1].to_pylist(), sql


def test_fractions_for_an_integer_column_are_no_secret() -> None:
    """SQL text cuts them off, as in pylance, with a warning; of ``lk.col`` they are an error."""
    ds = lk.write_dataset({"i": [7, 8], "f": [1.5, 2.0]}, "memory://fractions-of-updates")
    for text in ("f", "1.5"):
        with pytest.raises(PredicateError, match=r"1\.5 would become 1"):
            ds.update({"i": 1.5})  # the same text, and no cast
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            ds.update({"i": text})
        assert f"cannot hold 1.5 of {text}, and keeps 1" in str(given[0].message)
        assert len(given) == 1
    ds.update({"i": "CAST(f AS bigint)"})
    ds.update({"i": "f"}, where="f = 2")
    assert ds.to_table()["i"].to_pylist() == [1, 2]
    for value in (lk.col("i") / 2, lk.col("f")):
        with pytest.raises(PredicateError, match=r"'i' of type int64 cannot hold .*\.floor\(\)"):
            ds.update({"i": value})
    ds.update({"i": (lk.col("f") * 3).floor()})
    ds.update({"i": lk.col("i") / 2}, where=lk.col("f") == 2)
    assert dict(zip(*ds.to_table(["f", "i"]).to_pydict().values(), strict=True)) == {1.5: 4, 2: 3}


@pytest.mark.parametrize("value", [1e300, lk.lit(-1e300), "1e300", lk.col("d") * 1e300, 1 << 130])
def test_a_finite_number_is_not_stored_as_infinite(value: object) -> None:
    one = {"h": pa.array([1.0], pa.float16()), "f": pa.array([1.0], pa.float32()), "d": [1.0]}
    ds = lk.write_dataset(pa.table(one), "memory://infinite-values", mode="overwrite")
    for column in ("h", "f"):
        for call in (ds.update, ds.replace_columns):
            with pytest.raises(PredicateError, match=r"beyond the range of .*float would become"):
                call({column: value})
        ds.update({column: float("inf")})
    assert ds.to_table(["h", "f"]).to_pylist() == [{"h": float("inf"), "f": float("inf")}]
    with pytest.raises(PredicateError, match="beyond the range of halffloat"):
        ds.update({"h": 100_000})


@pytest.mark.parametrize(
    ("column", "sql", "reason"),
    [
        ("i", "'x'", "'x'"),
        ("i", "3000000000", "int32"),
        ("u", "-1", "uint8"),
        ("u", "300", "uint8"),
        ("u", "l * 20", "uint8"),
        ("i", "l * 1000000000", "int32"),
        ("i", "s", "int32: Failed to parse string"),
        ("dec", "99999999", "decimal"),
        ("day", "'zz'", "date"),
        ("i", "nope", "nope"),
        ("i", "1 +", "parse"),
        ("i", "", "empty"),
        ("i", "li", "int32"),
    ],
)
def test_values_that_do_not_fit(both: dict[str, Any], column: str, sql: str, reason: str) -> None:
    ds = lk.dataset(both["lancekit"], version=1)
    ds.restore()
    version = ds.version
    with pytest.raises(PredicateError, match=reason):
        ds.update({column: sql})
    assert lk.dataset(both["lancekit"]).version == ds.version == version
    theirs = cast(Any, lance.dataset(both["lance"], version=1))
    theirs.restore()
    with pytest.raises((ValueError, OSError)):
        theirs.update({column: sql})


def test_assignments_see_the_old_row(tmp_path: Path) -> None:
    ds = lk.write_dataset({"a": [1, 2, 3], "b": [10, 20, 30]}, tmp_path / "d")
    done = ds.update({"a": "b", "b": "a"}, where="a < 3")
    assert (done["num_rows_updated"], done.columns) == (2, ("a", "b"))
    expected = [{"a": 3, "b": 30}, {"a": 10, "b": 1}, {"a": 20, "b": 2}]
    assert ds.to_table().to_pylist() == expected
    assert lance.dataset(str(tmp_path / "d")).to_table().to_pylist() == expected


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_rows_of_many_fragments(tmp_path: Path, pylance4: Run, version: str) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"k": range(100), "x": rng.integers(0, 9, 100), "s": ["t"] * 100})
    uris = [str(tmp_path / name) for name in ("ours", "theirs")]
    handles: list[Any] = []
    for side, uri in zip((lk, lance), uris, strict=True):
        made = cast(Any, side).write_dataset(
            table, uri, max_rows_per_file=13, data_storage_version=version
        )
        made.delete("k % 10 = 3")
        for where in ("x > 5", "k < 13", pc.field("k") > 90, "x > 100"):
            made.update({"x": "x + k", "s": "'changed'"}, where=where)
        handles.append(made)
    ours, theirs = handles
    assert ours.version == theirs.version == 6
    opened = lance.dataset(uris[0])
    cast(Any, opened).validate()
    assert ours.to_table() == theirs.to_table() == opened.to_table()
    layout = [[(f.fragment_id, f.num_deletions) for f in ds.get_fragments()] for ds in handles]
    assert layout[0] == layout[1]
    text = "result = lance.dataset(arguments['path']).to_table().to_pylist()"
    if version != "2.2":
        assert pylance4(text, path=uris[0]) == theirs.to_table().to_pylist()
    operation = cast(Any, opened.read_transaction(3)).operation
    other = cast(Any, theirs.read_transaction(3)).operation
    kept = [sorted(op.fields_for_preserving_frag_bitmap) for op in (operation, other)]
    assert kept[0] == kept[1] == [1, 2]
    assert operation.update_mode == other.update_mode
    assert operation.fields_modified == other.fields_modified == []


def test_row_ids_and_versions_move_along(tmp_path: Path) -> None:
    columns = ["k", "x", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found = []
    for name in ("ours", "theirs"):
        uri = str(tmp_path / name)
        table = pa.table({"k": range(20), "x": range(20)})
        lance.write_dataset(table, uri, max_rows_per_file=6, enable_stable_row_ids=True)
        lance.write_dataset(table.slice(0, 3), uri, mode="append")
        ds = cast(Any, lk if name == "ours" else lance).dataset(uri)
        ds.update({"x": "x * 10"}, where="k % 4 = 1")
        ds.update({"x": "x + 1"}, where="k > 12")
        found.append(lance.dataset(uri).to_table(columns=columns))
        assert lk.dataset(uri).to_table(columns=columns) == found[-1]
    assert found[0] == found[1]


def test_arguments(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("x", pa.int64())])
    ds = lk.write_dataset(pa.table({"k": [1], "x": [None]}, schema=schema), tmp_path / "d")
    for wrong in ({1: "2"}, [("x", "1")], None):
        with pytest.raises(InvalidTypeError, match="updates"):
            ds.update(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="column 'x'"):
        ds.update({"x": object()})
    with pytest.raises(InvalidArgumentError, match="No updates"):
        ds.update({})
    with pytest.raises(ColumnNotFoundError, match="X"):
        ds.update({"X": "1"})
    with pytest.raises(InvalidTypeError, match="condition"):
        ds.update({"x": "1"}, where=5)
    with pytest.raises(PredicateError, match="true or false"):
        ds.update({"x": "1"}, where="k")
    with pytest.raises(InvalidArgumentError, match="data_storage_version"):
        ds.update({"x": "1"}, data_storage_version="0.1")
    for sql in ("x", "NULL"):
        with pytest.raises(SchemaMismatchError, match="is not nullable"):
            ds.update({"k": sql})
    assert ds.version == 1
    assert ds.update({"x": "_rowaddr + 7"})["num_rows_updated"] == 1
    assert ds.to_table()["x"].to_pylist() == [7]


@pytest.mark.filterwarnings("ignore:This handle is at")
def test_concurrent_writers(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    lk.write_dataset({"k": range(6), "x": [0] * 6}, uri)
    ours, other = lk.dataset(uri), lance.dataset(uri)
    other.delete("k = 0")
    assert ours.update({"x": "1"}, where="k = 5").attempts == 1  # other rows of one fragment
    stale = lk.dataset(uri, version=1)
    lance.dataset(uri).update({"x": "x + 100"}, where="k = 5")
    assert stale.update({"x": "x + 1"}, where="k = 5").attempts == 2
    assert stale.to_table(filter="k = 5")["x"].to_pylist() == [102]
    stale = lk.dataset(uri, version=1)
    before = {path.name for path in (tmp_path / "d" / "data").iterdir()}
    with pytest.raises(RetriesExhaustedError):
        stale.update({"x": "9"}, conflict_retries=0, retry_timeout=timedelta(seconds=9))
    assert {path.name for path in (tmp_path / "d" / "data").iterdir()} == before


def test_truncate(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    ds = lk.write_dataset({"k": range(6)}, uri, max_rows_per_file=2)
    ds.truncate_table()
    assert (ds.count_rows(), ds.version, ds.schema.names) == (0, 2, ["k"])
    theirs = lance.dataset(uri)
    assert theirs.count_rows() == 0
    operation = cast(Any, theirs.read_transaction(2)).operation
    assert (operation.predicate, operation.deleted_fragment_ids) == ("true", [0, 1, 2])


def test_blobs_stay(tmp_path: Path) -> None:
    rows = pa.table(
        {"k": [1, 2], "b": lk.blob_array([b"one", b"two"])},
        schema=pa.schema([pa.field("k", pa.int64()), lk.blob_field("b")]),
    )
    ds = lk.write_dataset(rows, tmp_path / "d")
    ds.update({"k": "k + 10"}, where="k = 2")
    read = ds.to_table(blob_handling="all_binary").to_pylist()
    assert read == [{"k": 1, "b": b"one"}, {"k": 12, "b": b"two"}]
    with pytest.raises(InvalidArgumentError, match="blobs"):
        ds.update({"b": "X'00'"})


def test_changed_keys_are_compared(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2, 3], "x": [0, 0, 0]}, tmp_path / "d", primary_key="id")
    with pytest.warns(UserWarning, match=r"2 of 3 rows share their primary key .* id = 1"):
        ds.update({"id": "id % 2"})
    assert ds.duplicates().to_table().num_rows == 2
    ds.update({"x": "1"})  # reads no keys
