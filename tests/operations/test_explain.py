"""Explanations: they name the engine that the operation then runs on, and change nothing."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api.explainer import Explainer
from lancekit._api.optimizer import DatasetOptimizer
from lancekit._operations.explain.explanation import Explanation
from lancekit._pipeline import delete_rows as rows_delete
from lancekit._pipeline import update_rows as update
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    LancekitError,
    NotOfferedError,
    PredicateError,
)
from tests.support.cards import show_html, show_text
from tests.support.trees import tree_hash

Change = tuple[tuple[Any, ...], dict[str, Any]]


def table(rows: int = 900) -> pa.Table:
    number = range(rows)
    return pa.table(
        {
            "id": pa.array(number, pa.int64()),
            "x": pa.array(((i * 7919) % 104729 for i in number), pa.int32()),
            "wide": [f"{i}-" * 20 for i in number],
        }
    )


def make(where: Path | str) -> lk.LanceDataset:
    return lk.write_dataset(table(), str(where), max_rows_per_file=300)


#: operations whose result says where they ran, with arguments
RUNS: dict[str, Change] = {
    "delete": (("id < 10",), {}),
    "update": (({"x": "x + 1"},), {"where": "id < 10"}),
    "replace_columns": (({"x": "x + 1"},), {}),
    "compact_files": ((), {}),
}
#: the others
TOLD: dict[str, Change] = {
    "truncate_table": ((), {}),
    "insert": ((table(10),), {}),
    "add_columns": (({"y": "x * 2"},), {}),
    "alter_columns": (({"path": "x", "data_type": pa.int64()},), {}),
    "drop_columns": ((["x"],), {}),
    "merge": ((pa.table({"id": [1], "more": ["a"]}), "id"), {}),
    "restore": ((), {}),
    "create_branch": (("b",), {}),
    "create_scalar_index": (("id", "BTREE"), {}),
    "optimize_indices": ((), {}),
    "validate": ((), {"deep": True}),
    "cleanup_old_versions": ((timedelta(0),), {}),
    "count_rows": (("id > 5",), {}),
    "to_table": ((), {"columns": ["id"]}),
    "head": ((3,), {}),
}


def operation(ds: lk.LanceDataset, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(
        ds.optimize if name in {"compact_files", "optimize_indices"} else ds, name
    )
    return found


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return make(tmp_path / "t")


@pytest.mark.parametrize("name", [*RUNS, *TOLD])
def test_an_explanation_changes_no_byte_and_foretells_the_commits(
    ds: lk.LanceDataset, tmp_path: Path, name: str
) -> None:
    args, kwargs = {**RUNS, **TOLD}[name]
    before = tree_hash(tmp_path)
    told = getattr(ds.explain, name)(*args, **kwargs)
    assert tree_hash(tmp_path) == before
    assert ds.version == 1
    with pytest.raises(NotOfferedError, match="cannot be applied"):
        pickle.loads(pickle.dumps(told)).apply()
    made = told.apply()
    with pytest.raises(InvalidArgumentError, match="already applied"):
        told.apply()
    if name == "cleanup_old_versions":
        assert isinstance(told, lk.CleanupExplanation)
        assert made == told.stats
        return
    if name in {"count_rows", "to_table", "head"}:
        assert made == operation(ds, name)(*args, **kwargs)
    at = made if name == "create_branch" else ds
    transactions = at.get_transactions(5)[: len(told.commits)]
    assert told.commits == tuple(type(t.operation).__name__ for t in reversed(transactions) if t)
    if name in RUNS:
        assert made.engine == told.engine == "local"


@pytest.mark.spark
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("threshold", [900, 901])
def test_the_engine_told_is_the_engine_used(
    spark: Any, ds: lk.LanceDataset, name: str, threshold: int
) -> None:
    args, kwargs = RUNS[name]
    with lk.options(spark_threshold_rows=threshold):
        told = getattr(ds.explain, name)(*args, **kwargs)
        assert operation(ds, name)(*args, **kwargs).engine == told.engine
    assert told.engine == ("spark" if threshold == 900 else "local")
    assert f"{threshold:,}" in told.why


@pytest.mark.spark
def test_why_is_said(spark: Any, ds: lk.LanceDataset) -> None:
    told = ds.explain.insert(ds.to_spark())
    assert (told.engine, told.why) == ("spark", "the rows are a Spark DataFrame")
    assert "unknown before" in ds.explain.insert(iter(table().to_batches())).why
    for engine in ("local", "spark"):
        with lk.options(engine=engine):
            told = ds.explain.delete("id = 1")
            assert (told.engine, told.why) == (engine, f"options.engine is {engine!r}")


NO_SESSION = """
import lancekit as lk
ds = lk.write_dataset({"x": [1, 2]}, "memory://no-session")
with lk.options(spark_threshold_rows=1):
    told = ds.explain.delete("x = 1")
    print(told.engine, ds.delete("x = 1").engine, told.why)
"""


def test_without_a_session_large_work_stays_here() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_SESSION], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("local local 2 rows reach")
    assert "no Spark session is active" in done.stdout


def test_bytes_are_those_of_the_columns(ds: lk.LanceDataset) -> None:
    whole = ds.explain.to_table().reads
    parts = [ds.explain.to_table(columns=[name]).reads.bytes for name in ds.schema.names]
    files = sum(f.file_size_bytes or 0 for g in ds.get_fragments() for f in g.data_files())
    assert whole.bytes == files
    assert sum(parts) == pytest.approx(files, rel=0.01)
    assert whole.fragments == whole.all_fragments == 3
    read: list[Any] = []
    ds.scanner(columns=["wide"], scan_stats_callback=read.append).to_table()
    # opening a file reads its end, up to 64 KiB
    assert parts[2] <= read[0].bytes_read <= parts[2] + 3 * (64 << 10)


def test_what_is_read_is_named(ds: lk.LanceDataset) -> None:
    told = ds.scanner(columns={"d": "x * 2"}, filter="id > 3", order_by=["wide"]).explain()
    assert told.reads is not None
    assert told.reads.columns == ("id", "x", "wide")
    assert ds.explain.head(7).reads.rows == 7
    first = ds.get_fragments()[0]
    one = ds.scanner(fragments=[first]).explain().reads
    assert one is not None
    assert one.fragments == 1
    assert ds.explain.count_rows().reads is None
    assert ds.explain.add_columns(pa.field("n", pa.int8())).reads is None
    assert ds.explain.compact_files(target_rows_per_fragment=10).commits == ()


def test_what_is_put_into_indices_is_told(ds: lk.LanceDataset) -> None:
    told = ds.explain.optimize_indices()
    assert (told.commits, told.reads) == ((), None)
    ds.create_scalar_index("id", "BTREE")
    ds.create_scalar_index("x", "BITMAP")
    assert ds.explain.optimize_indices().commits == ()
    ds.insert(table(50))
    told = ds.explain.optimize_indices(index_names=["x_idx"])
    assert told.reads is not None
    assert (told.reads.columns, told.reads.rows, told.reads.fragments) == (("x",), 50, 1)
    assert "index 'x_idx' gets 50 rows of 1 fragment" in told.notes
    anew = ds.explain.optimize_indices(retrain=True)
    assert anew.reads is not None
    assert (anew.reads.columns, anew.reads.rows) == (("id", "x"), 950)
    told.apply()
    (note,) = [n for n in ds.explain.optimize_indices().notes if n.startswith("index")]
    assert note == "index 'id_idx' gets 50 rows of 1 fragment"


def test_an_index_that_is_to_be_made_is_told(ds: lk.LanceDataset) -> None:
    told = ds.explain.create_scalar_index("id", "BTREE")
    assert told.reads is not None
    assert (told.reads.columns, told.reads.rows, told.commits) == (("id",), 900, ("CreateIndex",))
    assert told.writes is not None
    assert told.writes.what == "the files of index 'id_idx', of type BTree"
    ds.create_scalar_index("id", "BTREE")
    assert any(
        "replaces the existing index" in n
        for n in ds.explain.create_scalar_index("id", "BTREE").notes
    )
    assert ds.explain.create_scalar_index("x", "BITMAP", train=False).reads is None
    with lk.options(engine="spark"):
        assert ds.explain.create_scalar_index("id", "BTREE").engine == "spark"
        assert ds.explain.validate(deep=True).engine == "spark"
    with pytest.raises(lk.errors.IndexExistsError):
        ds.explain.create_scalar_index("id", "BTREE", replace=False)


def test_an_index_is_not_checked_against_constraints(ds: lk.LanceDataset) -> None:
    ds.constraints.add("whole", "id >= 0")
    assert any("'whole'" in note for note in ds.explain.delete("id = 1").notes)
    for told in (
        ds.explain.create_scalar_index("id", "BTREE"),
        ds.explain.optimize_indices(retrain=True),
    ):
        assert not any("'whole'" in note for note in told.notes)


def test_wrong_arguments_are_refused_as_the_operation_refuses_them(ds: lk.LanceDataset) -> None:
    wrong: list[tuple[str, tuple[Any, ...], type[LancekitError]]] = [
        ("delete", ("nope = 1",), PredicateError),
        ("update", ({"nope": "1"},), ColumnNotFoundError),
        ("to_table", (["nope"],), ColumnNotFoundError),
        ("drop_columns", (["nope"],), ColumnNotFoundError),
        ("alter_columns", ({"path": "nope", "name": "n"},), ColumnNotFoundError),
        ("insert", (table(),), InvalidArgumentError),
    ]
    for name, args, kind in wrong:
        more = {"mode": "nope"} if name == "insert" else {}
        for call in (getattr(ds.explain, name), getattr(ds, name)):
            with pytest.raises(kind):
                call(*args, **more)
    with pytest.raises(TypeError, match="unexpected"):
        ds.explain.delete("x = 1", nope=2)
    with pytest.raises(AttributeError, match="cannot be explained"):
        ds.explain.nope  # noqa: B018


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("alter_columns", {"path": "id", "name": "wide"}),
        ("alter_columns", {"path": "wide", "data_type": pa.int64()}),
        ("drop_columns", None),
    ],
)
def test_a_schema_that_cannot_be_is_refused(ds: lk.LanceDataset, name: str, argument: Any) -> None:
    argument = ds.schema.names if argument is None else argument
    with pytest.raises(LancekitError) as told:
        getattr(ds.explain, name)(argument)
    with pytest.raises(type(told.value), match=re.escape(str(told.value))):
        getattr(ds, name)(argument)


def test_methods_have_the_signatures_of_the_operations(ds: lk.LanceDataset) -> None:
    assert dir(ds.explain) == sorted(dir(ds.explain))
    for name in dir(ds.explain):
        if name == "filter":  # is no operation
            continue
        owner = DatasetOptimizer if hasattr(DatasetOptimizer, name) else lk.LanceDataset
        theirs = list(inspect.signature(getattr(owner, name)).parameters)[1:]
        assert list(inspect.signature(getattr(Explainer(ds), name)).parameters) == theirs


#: calls, and the nodes of their plans: each before its inputs
PLANS: dict[str, tuple[Callable[[lk.LanceDataset], Any], list[str]]] = {
    "delete": (lambda ds: ds.explain.delete("x > 3"), ["Filter", "Read"]),
    "by an index": (lambda ds: ds.explain.delete("id = 3"), ["IndexLookup"]),
    "by an index and more": (
        lambda ds: ds.explain.delete("id = 3 AND x > 1"),
        ["Filter", "Read", "IndexLookup"],
    ),
    "sorted by its own column": (
        lambda ds: ds.scanner(["id"], "x > 3", order_by=["x"]).explain(),
        ["Sort", "Fetch", "Filter", "Read"],
    ),
    "update": (
        lambda ds: ds.explain.update({"x": "0"}, where="x > 3"),
        ["Project", "Fetch", "Filter", "Read"],
    ),
    "update of all rows": (lambda ds: ds.explain.update({"x": "0"}), ["Project", "Read"]),
    "count": (lambda ds: ds.explain.count_rows("x > 3"), ["Count", "Filter", "Read"]),
    "count of all rows": (lambda ds: ds.explain.count_rows(), []),
    "all columns": (lambda ds: ds.explain.to_table(), ["Read"]),
    "its own column": (lambda ds: ds.explain.to_table(["x"], "x > 3"), ["Filter", "Read"]),
    "everything": (
        lambda ds: ds.scanner(
            columns={"d": "x * 2"}, filter="x > 3", order_by=["wide"], limit=5, offset=2
        ).explain(),
        ["Limit", "Sort", "Project", "Fetch", "Filter", "Read"],
    ),
    "head": (lambda ds: ds.explain.head(3), ["Limit", "Read"]),
    "nearest": (
        lambda ds: ds.scanner(
            ["id"], "x > 3", nearest={"column": "v", "q": [0.0, 1.0], "k": 3}
        ).explain(),
        ["Fetch", "Filter", "Search", "Read"],
    ),
    "nearest of some": (
        lambda ds: ds.scanner(
            ["id"], "x > 3", nearest={"column": "v", "q": [0.0, 1.0], "k": 3}, prefilter=True
        ).explain(),
        ["Fetch", "Search", "Filter", "Read"],
    ),
    "merge": (
        lambda ds: (
            ds.merge_insert("id")
            .when_matched_update_all("source.x > 1")
            .explain(pa.table({"id": [1], "x": pa.array([2], pa.int32())}))
        ),
        ["Filter", "Fetch", "MatchKeys", "Source", "Read"],
    ),
    "new columns": (lambda ds: ds.explain.add_columns({"y": "x + 1"}), ["Project", "Read"]),
    "of a function": (
        lambda ds: ds.explain.add_columns(lambda rows: rows.select(["x"]).rename_columns(["y"])),
        ["Call", "Read"],
    ),
    "of a stream": (
        lambda ds: ds.explain.add_columns(iter(pa.table({"y": range(900)}).to_batches())),
        ["Source"],
    ),
    "of others": (
        lambda ds: ds.explain.merge(pa.table({"id": [1], "y": [1]}), "id"),
        ["MatchKeys", "Source", "Read"],
    ),
    "new values": (lambda ds: ds.explain.replace_columns({"x": "id"}), ["Project", "Read"]),
    "cast": (
        lambda ds: ds.explain.alter_columns({"path": "x", "data_type": pa.int64()}),
        ["Cast", "Read"],
    ),
    "no nulls": (
        lambda ds: ds.explain.alter_columns({"path": "x", "nullable": False}),
        ["Read"],
    ),
    "renamed": (lambda ds: ds.explain.alter_columns({"path": "x", "name": "y"}), []),
    "compaction": (lambda ds: ds.explain.compact_files(), ["Read"]),
    "index": (lambda ds: ds.explain.create_scalar_index("x", "BTREE"), ["Read"]),
    "validation": (lambda ds: ds.explain.validate(deep=True), ["Read"]),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_nodes_of_a_plan(tmp_path: Path, name: str) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(1800), pa.float32()), 2)
    ds = lk.write_dataset(
        table().append_column("v", vectors), tmp_path / "t", max_rows_per_file=300
    )
    ds.create_scalar_index("id", "BTREE")
    explain, nodes = PLANS[name]
    told = explain(ds)
    assert [node.name for node in told.plan.walk()] == nodes if told.plan else nodes == []
    shown = str(told)
    assert [line.strip("\u00a0├└│ ").split()[0] for line in lines_of_plan(shown)] == nodes
    assert pickle.loads(pickle.dumps(told)).plan == told.plan
    html = show_html(told)
    assert all(node in html for node in nodes)


def lines_of_plan(card: str) -> list[str]:
    """Return the lines of a card that show its plan."""
    lines, found = iter(card.splitlines()), list[str]()
    for line in lines:
        if line.startswith("  plan "):
            found.append(line[7:])
            break
    for line in lines:
        if not line.startswith(" " * 8):
            break
        found.append(line)
    return found


def test_rows_that_an_index_knows_exactly_need_no_filter(ds: lk.LanceDataset) -> None:
    ds.create_scalar_index("id", "BTREE")
    told = ds.explain.delete("id = 3")
    assert "1 of 900 rows remain, in 1 of 3 fragments, and need no filter" in str(told)
    assert (told.reads.columns, told.reads.rows, told.reads.bytes) == ((), 1, 0)
    assert "need no filter" not in str(ds.explain.delete("id = 3 AND x > 1"))
    scan = ds.scanner(["id"], "id = 3").explain()
    assert [node.name for node in scan.plan.walk()] == ["Fetch", "IndexLookup"]
    every = ds.explain.update({"x": "0"}, where="id = 3").reads
    assert every.columns == ("id", "x", "wide")


def test_segments_that_become_one_are_told_without_new_rows(ds: lk.LanceDataset) -> None:
    ds.create_scalar_index("id", "BTREE")
    ds.insert(table(50))
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    assert ds.explain.optimize_indices().commits == ()
    told = ds.explain.optimize_indices(num_indices_to_merge=2)
    assert told.commits == ("CreateIndex",)
    assert "index 'id_idx': 2 of its segments are joined" in told.notes
    before = ds.version
    told.apply()
    assert ds.version == before + 1
    assert len(ds.describe_indices()[0].segments) == 1


def test_a_function_with_a_checkpoint_runs_here(ds: lk.LanceDataset, tmp_path: Path) -> None:
    @lk.batch_udf(output_schema=pa.schema({"y": pa.int64()}), checkpoint_file=tmp_path / "c")
    def made(rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"y": rows["id"]})

    with lk.options(engine="spark"):
        told = ds.explain.add_columns(made)
    assert (told.engine, told.why) == ("local", "the results are cached in a file on this machine")
    assert not (tmp_path / "c").exists()


def test_plans_are_text(ds: lk.LanceDataset) -> None:
    scanner = ds.scanner(filter="id = 3", columns=["wide"])
    text = scanner.explain_plan(verbose=True)
    assert text == str(scanner.explain()) == show_text(scanner.explain())
    assert "scan of main:1" in text
    assert "ran: 1 rows in" in scanner.analyze_plan()
    assert "ran: 1 rows in" in scanner.analyze_plan(count_rows=True)
    assert "bytes in" in scanner.analyze_plan()


def hostile() -> Iterator[Explanation]:
    ds = lk.write_dataset({"<b>&\"'": [1]}, "memory://hostile-explain")
    yield ds.explain.to_table()
    yield ds.explain.restore()


def test_cards_escape_names() -> None:
    for told in hostile():
        assert '<b>&"' not in show_html(told)


def test_indices_tell_what_is_looked_at_and_who_does_it(tmp_path: Path) -> None:
    rows = {"id": range(1000), "v": [0] * 1000}
    ds = lk.write_dataset(pa.table(rows), tmp_path / "i", max_rows_per_file=100)
    ds.create_scalar_index("id", "BTREE")
    asked = "id IN (5, 6, 950)"
    with lk.options(spark_threshold_rows=500):
        for told in (ds.explain.delete(asked), ds.explain.update({"v": "1"}, where=asked)):
            assert told.reads is not None
            assert (told.reads.rows, told.reads.fragments) == (3, 2)
            assert "3 of 1,000 rows remain, in 2 of 10 fragments" in str(told)
        everything = ds.explain.delete("v = 0").reads
        assert everything is not None
        assert everything.rows == 1000
    seen = ds.scanner(filter=asked).explain()
    assert seen.reads is not None
    assert (seen.reads.rows, seen.reads.fragments) == (3, 2)
    assert ds.version == 2


@pytest.mark.parametrize("stable", [False, True])
def test_changes_by_row_id_look_at_the_fragments_of_these_rows(
    tmp_path: Path, stable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = lk.write_dataset(
        table(), tmp_path / "d", max_rows_per_file=100, enable_stable_row_ids=stable
    )
    ds.delete("id < 50")
    found = ds.to_table(columns=["_rowid", "_rowaddr"], filter="id = 444 OR id = 777")
    ids = ", ".join(map(str, found["_rowid"].to_pylist()))
    where = f"_rowid IN ({ids})"
    for told in (ds.explain.delete(where), ds.explain.update({"x": "0"}, where=where)):
        assert told.reads is not None
        assert (told.reads.fragments, told.reads.rows) == (2, 200)
    asked = list[int]()
    for module in (update, rows_delete):
        opened = module.FragmentReader

        def noted(source: Any, opened: Any = opened) -> Any:
            asked.append(source.fragment.id)
            return opened(source)

        monkeypatch.setattr(module, "FragmentReader", noted)
    assert ds.update({"x": "0"}, where=where).num_rows_updated == 2
    assert set(asked) <= {4, 7}
    ids = ", ".join(map(str, ds.to_table(["_rowaddr"], filter="x = 0")["_rowaddr"].to_pylist()))
    assert ds.delete(f"_rowaddr IN ({ids}) OR _rowaddr = 0").num_deleted_rows == 2
    assert ds.count_rows() == 848
