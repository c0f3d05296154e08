"""Options of scans, and a handle's defaults for them: as in pylance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._scan.statistics import ScanStatistics
from lancekit.errors import InvalidArgumentError, RowOutOfRangeError


@pytest.fixture
def uri(tmp_path: Path) -> str:
    rows = pa.table({"x": list(range(10)), "s": list("abcdefghij")})
    ds = lk.write_dataset(rows, str(tmp_path / "t"), max_rows_per_file=4)
    ds.delete("x in (1, 5, 6)")
    return str(tmp_path / "t")


def same(uri: str, read: Callable[[Any], Any], **options: Any) -> Any:
    """Return what both libraries read."""
    theirs = read(cast(Any, lance).dataset(uri, **options))
    ours = read(lk.dataset(uri, **options))
    assert ours == theirs
    return ours


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"with_row_address": True},
        {"columns": ["x"], "limit": 3, "offset": 1},
        {"columns": ["s", "x"], "order_by": ["s"]},
        {"columns": ["x"], "filter": "_rowid is null"},
        {"columns": ["x", "s"], "filter": "x > 4 and s <> 'f'"},
        {"columns": {"y": "x * 2"}},
    ],
    ids=str,
)
def test_deleted_rows(uri: str, arguments: dict[str, Any]) -> None:
    def read(ds: Any) -> Any:
        return ds.to_table(include_deleted_rows=True, with_row_id=True, **arguments).to_pydict()

    assert None in same(uri, read)["_rowid"]


def test_deleted_rows_of_a_fragment_and_stable_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = lk.write_dataset({"x": [1, 2, 3, 4]}, uri, enable_stable_row_ids=True, max_rows_per_file=2)
    ds.delete("x = 3")

    def read(ds: Any) -> Any:
        fragments = [
            f.scanner(include_deleted_rows=True, with_row_id=True).to_table().to_pydict()
            for f in ds.get_fragments()
        ]
        scan = ds.scanner(include_deleted_rows=True, with_row_id=True, columns=[])
        return fragments, scan.count_rows()

    fragments, rows = same(uri, read)
    assert rows == 4
    assert fragments[1] == {"x": [3, 4], "_rowid": [None, 3]}


def test_deleted_rows_need_their_mark(uri: str) -> None:
    for module in (lance, lk):
        with pytest.raises(ValueError, match="with_row_id"):
            cast(Any, module).dataset(uri).to_table(include_deleted_rows=True)
    ds = lk.dataset(uri)
    assert ds.to_table(columns=["_rowid", "x"], include_deleted_rows=True).num_rows == 10
    # pylance cannot filter by a column that is not read
    found = ds.to_table(["s"], "x in (0, 1)", with_row_id=True, include_deleted_rows=True)
    assert found.to_pydict() == {"s": ["a", "b"], "_rowid": [0, None]}


@pytest.mark.parametrize("arguments", [{}, {"filter": "x <> 4"}, {"limit": 5}, {"order_by": ["s"]}])
def test_batches_of_exactly_so_many_rows(uri: str, arguments: dict[str, Any]) -> None:
    def read(ds: Any) -> Any:
        batches = list(ds.to_batches(batch_size=3, strict_batch_size=True, **arguments))
        return [batch.num_rows for batch in batches], pa.Table.from_batches(batches).to_pydict()

    sizes, _ = same(uri, read)
    assert set(sizes[:-1]) <= {3}


def test_batches_that_are_cut_more_than_once() -> None:
    ds = lk.write_dataset({"x": range(100)}, "memory://exact-batches", max_rows_per_file=41)
    batches = list(ds.to_batches(batch_size=7, strict_batch_size=True))
    assert [b.num_rows for b in batches] == [7] * 14 + [2]
    assert pa.Table.from_batches(batches)["x"].to_pylist() == list(range(100))
    builder = lk.ScannerBuilder(ds).batch_size(30).strict_batch_size(True)
    assert [b.num_rows for b in builder.to_scanner().to_batches()] == [30, 30, 30, 10]
    with pytest.raises(InvalidArgumentError, match="batch_size_bytes"):
        ds.scanner(strict_batch_size=True, batch_size_bytes=100)


def test_statistics_of_a_scan(uri: str) -> None:
    found: list[Any] = []

    def read(ds: Any) -> Any:
        return ds.scanner(columns=["x"], scan_stats_callback=found.append).to_table().num_rows

    assert same(uri, read) == 7
    theirs, ours = found
    assert isinstance(ours, ScanStatistics)
    names = ("indices_loaded", "parts_loaded", "index_comparisons")
    assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]
    assert ours.iops >= 3
    assert ours.requests >= 3
    assert 7 <= ours.bytes_read <= 3000
    assert ours.all_counts == {"rows_returned": 7, "fragments_scanned": 3}


def test_statistics_of_every_way_to_run_a_scan(uri: str) -> None:
    found: list[ScanStatistics] = []
    ds = lk.dataset(uri)
    scanner = lk.ScannerBuilder(ds).scan_stats_callback(found.append).filter("x > 2").to_scanner()
    assert scanner.count_rows() == len(list(scanner.to_pandas()["x"])) == 5
    assert sum(b.num_rows for b in scanner.to_batches()) == 5
    assert scanner.head(2).num_rows == 2
    assert [s.all_counts["rows_returned"] for s in found] == [5, 5, 5, 2]
    ordered = ds.scanner(order_by=["s"], limit=2, scan_stats_callback=found.append)
    assert ordered.to_table()["x"].to_pylist() == [0, 2]
    assert len(found) == 5


def test_a_callback_that_fails_is_a_warning(uri: str) -> None:
    def fail(_: ScanStatistics) -> None:
        raise RuntimeError("no")

    with pytest.warns(UserWarning, match="scan_stats_callback failed: RuntimeError"):
        assert lk.dataset(uri).scanner(scan_stats_callback=fail).to_table().num_rows == 7


@pytest.mark.parametrize(
    "defaults",
    [
        {"with_row_id": True, "columns": ["x"]},
        {"with_row_address": True, "limit": 2},
        {"filter": "x > 3", "batch_size": 2},
        {"columns": ["s"], "offset": 3},
        {},
    ],
    ids=str,
)
def test_defaults_of_a_handle(uri: str, defaults: dict[str, Any]) -> None:
    def read(ds: Any) -> Any:
        return [
            ds.schema,
            ds.scanner().projected_schema,
            ds.to_table().to_pydict(),
            ds.to_table(columns=["s"]).to_pydict(),
            ds.to_table(limit=1).to_pydict(),
            ds.scanner(offset=1).to_table().to_pydict(),
            ds.scanner(filter="x = 7").to_table().to_pydict(),
            ds.head(4).to_pydict(),
            ds.take([1, 0]).to_pydict(),
            ds.count_rows(),
            ds.count_rows("x > 7"),
            ds.get_fragments()[0].to_table().to_pydict(),
            [b.num_rows for b in ds.to_batches()] if "batch_size" in defaults else None,
        ]

    same(uri, read, default_scan_options=defaults)


def test_a_query_sees_all_rows_whatever_the_defaults(uri: str) -> None:
    ds = lk.dataset(uri, default_scan_options={"limit": 1, "columns": ["x"], "with_row_id": True})
    records = ds.sql("SELECT count(s) AS n FROM dataset").build().to_batch_records()
    assert records[0].to_pydict() == {"n": [7]}


def test_a_column_taken_twice_is_taken_once(uri: str) -> None:
    for columns in (["_rowid", "_rowid"], ["x", "s", "x"]):
        theirs, ours = (cast(Any, module).dataset(uri) for module in (lance, lk))
        taken = ours.take([0, 2], columns=columns).to_pydict()
        assert taken == theirs.take([0, 2], columns=columns).to_pydict()
        for ds in (theirs, ours):
            with pytest.raises(ValueError, match=r"(?i)duplicate|twice"):
                ds.to_table(columns=columns)


HIDDEN_FLAGS = [{"with_row_id": True}, {"with_row_address": True}]
HIDDEN_FLAGS += [{}, {"with_row_id": True, "with_row_address": True}]


@pytest.mark.cover
@pytest.mark.parametrize("flags", HIDDEN_FLAGS, ids=str)
@pytest.mark.parametrize(
    "columns",
    [
        None,
        ["_rowid", "x"],
        ["x", "_rowid", "y"],
        ["_rowaddr", "x", "_rowid"],
        ["_rowid"],
        {"r": "_rowid", "x": "x"},
        {"_rowid": "_rowid", "x": "x"},
        {"_rowid": "x + 7", "_rowaddr": "y", "x": "x"},
    ],
    ids=str,
)
def test_hidden_columns_that_are_asked_for_come_last(
    tmp_path: Path, columns: Any, flags: dict[str, bool]
) -> None:
    """Also those that are named: as in pylance."""
    lk.write_dataset({"x": [1, 2], "y": [3, 4]}, tmp_path / "t")
    ours, theirs = lk.dataset(tmp_path / "t"), cast(Any, lance).dataset(tmp_path / "t")
    expected = theirs.to_table(columns=columns, **flags)
    for found in (
        ours.to_table(columns=columns, **flags),
        ours.get_fragments()[0].to_table(columns=columns, **flags),
    ):
        assert found.column_names == expected.column_names
        assert found.to_pylist() == expected.to_pylist()


def test_a_row_id_that_is_named_is_not_appended_again(uri: str) -> None:
    rows = lk.dataset(uri)._take_rows([2], columns=["_rowid", "x"], with_row_id=True)
    assert rows.to_pylist() == [{"_rowid": 2, "x": 2}]


def test_a_negative_row_id_is_not_called_a_position(uri: str) -> None:
    with pytest.raises(
        RowOutOfRangeError, match=r"ids and addresses must be from 0 .* got -1"
    ) as no:
        lk.dataset(uri)._take_rows([-1])
    assert no.value.context == {"row": -1}
