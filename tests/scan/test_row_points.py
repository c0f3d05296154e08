"""Filters that name rows by id or address read the fragments that may have them, and no other."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

import lancekit as lk

FILTERS = {
    "_rowid = 17": 1,
    "31 = _rowid AND k > 0": 1,
    "_rowid IN (2, 17, 99999)": 2,
    "_rowid IN (2, 17) AND _rowid = 17": 1,
    "(_rowid = 2 OR _rowid = 55) AND v = 'x'": 2,
    "_rowid = 2 AND k = 3": 1,
    "_rowid = 12345678": 0,
    "_rowaddr = 8589934593": 1,
    "_rowid = 17 OR k = 3": 10,
    "NOT _rowid = 17": 10,
    "_rowid < 2": 10,
    "_rowid = k": 10,
}  # fmt: skip


@pytest.mark.cover
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("text", FILTERS)
def test_what_a_filter_selects_is_the_references(tmp_path, text: str, stable: bool) -> None:
    path = str(tmp_path / "d")
    table = pa.table({"k": pa.array(range(60), pa.int64()), "v": ["x"] * 60})
    theirs = lance.write_dataset(table, path, max_rows_per_file=6, enable_stable_row_ids=stable)
    ours = lk.dataset(path)
    found = ours.to_table(filter=text)
    assert found.equals(theirs.to_table(filter=text))
    if stable:
        assert len(ours.scanner(filter=text)._scan.sources) == FILTERS[text]
    assert ours.count_rows(filter=text) == found.num_rows


def test_a_moved_row_is_found_by_its_id(tmp_path) -> None:
    ds = lk.write_dataset(
        {"k": list(range(60))}, tmp_path / "d", max_rows_per_file=6, enable_stable_row_ids=True
    )
    ds.update({"k": "k + 1000"}, where="k IN (5, 40)")
    assert ds.to_table(filter="_rowid IN (5, 6)")["k"].to_pylist() == [6, 1005]
    assert len(ds.scanner(filter="_rowid = 6")._scan.sources) < 4
