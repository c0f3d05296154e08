"""Which readers take `include_mem_wal`: all others refuse it by name, and say what to use."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit.errors import InvalidTypeError, LancekitError, PredicateError
from tests.support.shells import ipython

#: those that take it: a call, and the number of rows that it gives
TAKEN: dict[str, Callable[[Any], int]] = {
    "count_rows": lambda ds: ds.count_rows(include_mem_wal=True),
    "head": lambda ds: ds.head(9, include_mem_wal=True).num_rows,
    "lsm_scanner": lambda ds: ds.lsm_scanner().count_rows(),
    "scanner": lambda ds: ds.scanner(include_mem_wal=True).count_rows(),
    "sql": lambda ds: sum(
        len(batch)
        for batch in ds.sql("SELECT * FROM dataset", include_mem_wal=True)
        .build()
        .to_batch_records()
    ),
    "to_batches": lambda ds: sum(map(len, ds.to_batches(include_mem_wal=True))),
    "to_pandas": lambda ds: len(ds.to_pandas(include_mem_wal=True)),
    "to_polars": lambda ds: ds.to_polars(include_mem_wal=True).height,
    "to_table": lambda ds: ds.to_table(include_mem_wal=True).num_rows,
}
#: of Spark, in tests of its own
ON_SPARK = {"to_spark"}
#: of no reader: these take further keywords
MORE = {"create_index", "create_index_uncommitted", "create_scalar_index", "insert"}
MORE |= {"deep_clone", "drop", "shallow_clone"}


@pytest.fixture
def ds(tmp_path: Path) -> Iterator[lk.LanceDataset]:
    """Three rows in the table, one of each library in logs."""
    made = lk.write_dataset({"id": [1, 2, 3]}, tmp_path / "t", primary_key="id")
    made.mem_wal_upsert({"id": [4]})
    theirs = lance.dataset(made.uri).mem_wal_writer(
        "00000000-0000-0000-0000-000000000001", max_wal_flush_interval_ms=50
    )
    theirs.put(made.schema.empty_table().to_pandas().reindex([0]).assign(id=5).astype("int64"))
    yield made
    del theirs


@pytest.mark.parametrize("name", TAKEN)
def test_a_reader_takes_it(ds: lk.LanceDataset, name: str) -> None:
    assert TAKEN[name](ds) == 5
    assert lk.sql("SELECT * FROM ds", ds=ds, include_mem_wal=True).num_rows == 5


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name, member in inspect.getmembers(kind, callable):
        if not name.startswith("_") and not isinstance(member, type):
            yield name, member


def _refuses(call: Callable[..., Any]) -> bool:
    with pytest.raises(LancekitError) as caught:
        call(include_mem_wal=True)
    assert isinstance(caught.value, InvalidTypeError), caught.value
    assert "does not take include_mem_wal" in caught.value.message
    return "ds.merge_mem_wal(flush=True)" in (caught.value.hint or "")


def test_every_other_method_refuses_it_by_name(ds: lk.LanceDataset) -> None:
    refusing = set()
    for name, _ in _methods(type(ds)):
        if name not in TAKEN.keys() | ON_SPARK | MORE or name == "lsm_scanner":
            call = getattr(ds, name)
            assert _refuses(partial(call, 1) if name == "sample" else call), name
            refusing.add(name)
    assert {"take", "sample", "slice", "take_blobs", "diff", "duplicates", "explore"} <= refusing
    for companion in (ds["id"], ds.plot, ds.get_fragments()[0]):
        for name, _ in _methods(type(companion)):
            assert _refuses(getattr(companion, name)), (companion, name)


def test_the_hint_of_a_refusal_works(ds: lk.LanceDataset) -> None:
    with pytest.raises(InvalidTypeError) as caught:
        ds.sample(2, include_mem_wal=True)
    assert "ds.merge_mem_wal(flush=True)" in str(caught.value)
    ds.merge_mem_wal(flush=True)
    assert ds.sample(5).num_rows == 5


def test_count_rows_hints_at_rows_that_wait(
    ds: lk.LanceDataset, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "lancekit")
    assert ds.count_rows() == len(ds) == 3
    said = "Not counted: 2 rows of 2 shards, 2 in logs. "
    calls = "ds.count_rows(include_mem_wal=True) counts them, and ds.merge_mem_wal(flush=True) "
    assert caplog.messages == [f"{said}{calls}merges them."] * 2
    assert ds.at(1).count_rows() == 3  # which no row of shards belongs to
    assert ds.count_rows(include_mem_wal=True) == 5
    assert len(caplog.messages) == 2
    assert ds.count_rows("id > 2") == 1
    assert len(caplog.messages) == 3
    with ipython() as shell:
        shell.user_ns["ds"] = ds
        shell.run_cell("for _ in range(3): ds.count_rows()")
    assert capsys.readouterr().out == f"{said}{calls}merges them.\n"
    assert len(caplog.messages) == 3
    ds.merge_mem_wal(flush=True)
    assert ds.count_rows() == 5
    assert len(caplog.messages) == 3


@pytest.mark.cover
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM dataset WHERE id > 0",
        "-- by hand\nupdate dataset set id = 1",
        "/* all */ EXPLAIN delete from dataset",
        "INSERT INTO dataset SELECT * FROM dataset",
        "; DELETE FROM dataset",
        "MERGE INTO dataset USING dataset AS s ON s.id = dataset.id WHEN MATCHED THEN DELETE",
        "CREATE VIEW x AS SELECT * FROM dataset",
    ],
)
def test_sql_of_a_handle_changes_nothing_and_says_so(text: str, include: bool) -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://sql-changes-nothing", primary_key="id")
    ds.mem_wal_upsert({"id": [2]})
    with pytest.raises(PredicateError, match=r"Nothing was changed|DML not supported"):
        ds.sql(text, include_mem_wal=include).build().to_batch_records()
    assert ds.count_rows(include_mem_wal=True) == 2
