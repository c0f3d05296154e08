"""Rows that a filter selects all over a fragment are read together; an error comes in its turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import current_thread, main_thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest, Workers
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read, Selection, projections
from lancekit._scan.scan import Scan
from lancekit.errors import CorruptFileError

ROWS = 6000


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lk.LanceDataset:
    rng = np.random.default_rng(5)
    rows = pa.table(
        {
            "id": np.arange(ROWS),
            "code": rng.integers(0, 100, ROWS),
            "name": [f"name {k}" for k in rng.integers(0, 9, ROWS).tolist()],
        }
    )
    folder = tmp_path_factory.mktemp("selection")
    ds = lk.write_dataset(rows, folder / "d", max_rows_per_file=ROWS // 2)
    ds.delete("id % 17 = 3")
    return ds


def _scan(ds: lk.LanceDataset, where: str, **settings: Any) -> Scan:
    schema = ds._snapshot.manifest.schema
    request = ScanRequest(
        outputs=plan_columns(schema, None),
        predicate=Predicate.parse(where, schema.to_arrow()),
        **settings,
    )
    return Scan(read=Read(tuple(fragment_sources(ds._snapshot))), request=request)


@pytest.mark.cover
@pytest.mark.parametrize("filter_bytes", [1, 1 << 12, 1 << 23])
@pytest.mark.parametrize("block_bytes", [1, 1 << 13, 1 << 26])
@pytest.mark.parametrize(
    "where", ["code = 7", "code < 60", "id >= 0", "id >= 2900 AND id < 3300", "id < 0"]
)
def test_the_same_rows_whatever_is_read_at_a_time(
    ds: lk.LanceDataset,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    block_bytes: int,
    filter_bytes: int,
) -> None:
    monkeypatch.setattr("lancekit._scan.fragment_rows._FILTER_BYTES", filter_bytes)
    found = _scan(ds, where, block_bytes=block_bytes, batch_rows=100).to_table()
    everything = ds.to_table()
    code, key = everything["code"].to_numpy(), everything["id"].to_numpy()
    wanted = {
        "code = 7": code == 7,
        "code < 60": code < 60,
        "id >= 0": key >= 0,
        "id >= 2900 AND id < 3300": (key >= 2900) & (key < 3300),
        "id < 0": key < 0,
    }[where]
    assert found.equals(everything.filter(pa.array(wanted)))
    assert len(found) == ds.count_rows(where)


def test_other_columns_are_read_once_for_few_rows(
    ds: lk.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...]] = []
    read = FragmentReader.read

    def noted(self: FragmentReader, columns: Any, rows: Any) -> pa.Table:
        seen.append(tuple(columns))
        return read(self, columns, rows)

    monkeypatch.setattr(FragmentReader, "read", noted)
    monkeypatch.setattr("lancekit._scan.fragment_rows._FILTER_BYTES", 1 << 12)
    found = _scan(ds, "code = 7", block_bytes=1 << 13, batch_rows=10).to_table()
    assert 0 < len(found) < 100
    assert seen.count(("id", "name")) == 2  # fragments
    assert seen.count(("code",)) > 10


def test_an_error_comes_behind_what_was_found_before(ds: lk.LanceDataset) -> None:
    (source, *_) = fragment_sources(ds._snapshot)
    reader = FragmentReader(replace(source))
    table = pa.table({"x": [1]})

    def found() -> Iterator[Selection | list[pa.Table]]:
        yield [table]
        yield Selection(reader, range(5), None)
        yield Selection(reader, range(5, 9), None)
        yield Selection(reader, np.array([20, 30]), None)
        raise CorruptFileError("It is broken.")

    read: list[Any] = []

    def noted(wanted: Selection) -> pa.Table:
        read.append(wanted.rows)
        return table

    work = projections(found(), 8, noted)
    with Workers() as workers:
        results = workers.results(work)
        done = [next(results) for _ in range(3)]
        assert done == [[table], [table], [table]]
        with pytest.raises(CorruptFileError, match="broken"):
            next(results)
    # in threads, of which any may be first
    assert sorted(map(list, read)) == [list(range(8)), [8, 20, 30]]


def test_one_piece_of_work_needs_no_thread() -> None:
    with Workers() as workers:
        assert list(workers.results([])) == []
        assert list(workers.results([current_thread])) == [main_thread()]
        several = list(workers.results([current_thread] * 5))
    assert main_thread() not in several
