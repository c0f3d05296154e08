"""Nothing that a dataset gives away shows as ``<... object at 0x...>``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._display import TEXT, Displayed
from tests.support.cards import classes_with_cards, show_text
from tests.support.faults import Faults, injected
from tests.support.number_texts import ungrouped

#: what a person makes no object of, or writes a class of
NOT_OBJECTS = {"FragmentWriteProgress", "LanceOperation", "ExecutionPlan"}
#: what changes the table, or starts Spark
NOT_CALLED = {
    *("truncate_table", "drop", "undo", "restore", "revert", "deepen", "checkout_latest"),
    *("cleanup_old_versions", "migrate_manifest_paths_v2", "initialize_mem_wal", "to_spark"),
    *("merge_mem_wal", "cleanup_mem_wal", "repair_mem_wal"),
}
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@pytest.fixture
def ds(tmp_path: Path) -> Any:
    rows = pa.table({"id": [1, 2, 3], "v": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2))})
    made = lk.write_dataset(rows, tmp_path / "d", primary_key="id", enable_stable_row_ids=True)
    made.create_scalar_index("id", "BTREE")
    made.tags.create("t", 1)
    made.insert(rows.set_column(0, "id", pa.array([4, 5, 6])))
    return made


def reachable(ds: Any) -> Iterator[tuple[str, Any]]:
    """Yield what attributes and calls without arguments give, and what takes arguments."""
    for name in dir(type(ds)):
        if name.startswith("_") or name in NOT_CALLED:
            continue
        if not callable(getattr(type(ds), name)):
            yield name, getattr(ds, name)
            continue
        parameters = inspect.signature(getattr(ds, name)).parameters.values()
        if all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in parameters):
            with suppress(lk.errors.InvalidArgumentError):  # it needs one of several
                yield name, getattr(ds, name)()
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    yield "merge", merge
    yield "delta", ds.delta(compared_against=1)
    yield "column", ds["id"]
    yield "query builder", ds.sql("SELECT 1")
    yield "query", ds.sql("SELECT 1").build()
    yield "scanner", ds.scanner(["id"], filter="id > 1", limit=1, order_by=["id"])
    yield "nearest", ds.scanner(nearest={"column": "v", "q": [1.0, 2.0], "k": 1})
    yield "scanner builder", lk.ScannerBuilder(ds).filter("id > 1").limit(2)
    yield "lsm scanner", ds.lsm_scanner().filter("id > 1").limit(1)
    yield "look-ups", lk.LsmPointLookupPlanner(ds, [])
    yield "searches", lk.LsmVectorSearchPlanner(ds, [], "v")
    yield "coverage", ds.indices["id_idx"]
    yield "statistics", ds.stats.data_stats()
    yield "fields", ds.stats.data_stats().fields
    yield "of a fragment", ds.get_fragments()[0].scanner()
    yield "metadata", ds.get_fragments()[0].metadata
    yield "blobs", lk.blob.BlobColumn(pa.array([b"1"]))
    yield "options", lk.options
    read: list[Any] = []
    ds.scanner(scan_stats_callback=read.append).to_table()
    yield "read", read
    yield "values", ds.column_history("id")[0].statistics


def test_every_public_class_says_what_it_is() -> None:
    kinds = [getattr(lk, name) for name in lk.__all__ if isinstance(getattr(lk, name), type)]
    silent = {kind.__name__ for kind in kinds if kind.__repr__ is object.__repr__}
    assert silent <= NOT_OBJECTS


def test_nothing_shows_its_address(ds: Any) -> None:
    seen = set()
    for name, value in reachable(ds):
        one = value[0] if isinstance(value, list | tuple) and value else value
        ours = type(one).__module__.startswith("lancekit")
        if ours:
            assert not ADDRESS.search(repr(one)), name
            assert "could not be drawn" not in repr(one), name
        if isinstance(one, Displayed):
            assert one._repr_html_(), name
            assert "could not be drawn" not in one._repr_mimebundle_()[TEXT], name
            seen.add(type(one))
    for kind in (lk.LanceScanner, lk.ScannerBuilder, lk.MergeInsertBuilder, lk.ScanStatistics):
        assert kind in seen
        assert kind in classes_with_cards()


def test_showing_reads_nothing(ds: Any) -> None:
    with injected(Faults()) as faults:
        opened = lk.dataset(ds.uri)
        values = [
            opened.scanner(filter="id > 1"),
            lk.ScannerBuilder(opened).limit(1),
            opened.merge_insert("id").when_matched_delete(),
            opened.sql("SELECT 1"),
            opened.stats,
            opened.get_fragments()[0],
            opened.session(),
            opened.lsm_scanner(),
        ]
        faults.calls.clear()
        for value in values:
            show_text(value)
        assert not faults.calls


def test_what_they_say(ds: Any) -> None:
    def lines(value: Any) -> str:
        return ungrouped(show_text(value))

    scan = lines(ds.scanner(["id"], filter="id > 1", limit=7, order_by=["id"]))
    assert scan.startswith("scan of main:3 · 1 column · some rows")
    assert "where       id > 1" in scan
    assert "limit       7" in scan
    assert lines(ds.scanner()).startswith("scan of main:3 · 2 columns · all rows")
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert lines(merge).startswith("merge into main:3 · on id · not run yet")
    assert "key filter  of inserted keys" in lines(merge)
    assert lines(ds.stats).startswith("statistics of main:3 · 2 fragments · 2 small · 0 deleted")
    index = lines(ds.indices["id_idx"])
    assert index.startswith("id_idx · BTree · on id · 3 of 6 rows covered")
    assert "3 rows in 1 fragment since version 3" in index
    assert "optimize_indices(index_names=['id_idx'])" in index
    assert lines(ds.describe_indices()[0]).startswith("id_idx · BTree · on id · 3 rows covered · ")
    assert lines(ds.get_fragments()[1]).startswith("fragment 1 · 3 rows · 1 data file")
    assert repr(ds.describe_indices()[0]).startswith("IndexDescription(name='id_idx'")
    for listed, first in (
        (ds.get_fragments(), "fragment_id  physical_rows  num_deletions"),
        (ds.list_indices(), "name    type   uuid"),
        (ds.describe_indices(), "name    index_type  field_names  num_rows_indexed"),
    ):
        assert repr(listed) == repr([*listed])
        assert lines(listed).startswith(f"{len(listed)} item")
        assert first in lines(listed)
        assert '<th scope="row"' in listed._repr_html_()
    with lk.options(display_rows=1):
        assert "first 1 of 2; all: .to_pandas()" in lines(ds.get_fragments())
    ds.delete("id = 4")
    assert "deleted  1 row" in lines(ds.get_fragments()[1])
