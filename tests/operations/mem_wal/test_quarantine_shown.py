"""Cards and hints count the rows in quarantine, and name the call that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancekit as lk
from tests.support.quarantine_table import ONE, TWO, Make, put


def test_the_cards_count_and_show_it(made: Make, tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    done = ds.merge_mem_wal(on_error="quarantine")
    quarantine = ds.mem_wal_quarantine()
    drawn = quarantine._repr_mimebundle_()
    assert "breaks the constraint 'positive' (v >= 0)" in drawn["text/plain"]
    assert f"id = 1  breaks the constraint 'positive' (v >= 0)  {ONE}" in drawn["text/plain"]
    assert "v &gt;= 0" in drawn["text/html"]
    assert "quarantined 1 row" in repr(done)
    assert "1 row in quarantine; ds.mem_wal_quarantine() reads the quarantine" in repr(ds)
    quarantine.discard({"id": [1]})
    assert repr(ds.mem_wal_quarantine()).strip() == "0 rows in quarantine"
    assert "quarantine" not in repr(ds)


def test_hints_name_the_call_that_reads_it(
    made: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ds = made(tmp_path / "t")
    ds.merge_mem_wal(on_error="quarantine")
    with caplog.at_level("INFO", "lancekit"):
        ds.count_rows()
        put(tmp_path / "t", TWO, {25: (25.0, "")})
        ds.count_rows()
    alone, beside = caplog.messages
    assert alone == "Not counted: 1 row in quarantine. ds.mem_wal_quarantine() reads them."
    assert "merge_mem_wal() merges rows of shards; ds.mem_wal_quarantine() reads" in beside
    queried = repr(lk.sql("SELECT id FROM t", t=ds))
    assert "include_mem_wal=True reads rows of shards; ds.mem_wal_quarantine() reads" in queried
