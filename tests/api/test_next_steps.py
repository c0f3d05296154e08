"""The next step that an error or a warning names works."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from lance.query import MatchQuery

import lancekit as lk
from lancekit import errors


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset({"id": [1, 2, 3], "x": [4, 5, 6]}, tmp_path / "d", primary_key="id")


def test_rows_with_other_keys(ds: lk.LanceDataset) -> None:
    rows = [{"id": 1, "x": 9}, {"id": 2}]
    merge = ds.merge_insert("id").when_matched_update_all()
    for call in (merge.execute, ds.insert):
        with pytest.warns(UserWarning, match=r"become null: 'x' in 1 .*Give every row all keys"):
            call(rows)
        merge.execute([{"id": 2, "x": 5}])
    ds.restore(1)
    merge.execute(rows, schema=ds.schema)  # the columns are named
    for row in rows:  # a row of a call of its own keeps the other columns
        merge.execute([row])
    assert ds.to_table(order_by="id")["x"].to_pylist() == [9, None, 6]


def test_an_empty_filter(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.PredicateError, match='Pass "true" as a filter for all rows'):
        ds.delete("")
    assert ds.delete("true")["num_deleted_rows"] == 3


@pytest.mark.parametrize(
    ("mark", "word"), [("x > 4 & x < 6", "AND"), ("x > 4 | x < 6", "OR"), ("~(x > 4)", "NOT")]
)
def test_the_word_for_a_mark(ds: lk.LanceDataset, mark: str, word: str) -> None:
    for call in (ds.count_rows, lambda text: lk.sql(f"SELECT * FROM ds WHERE {text}", ds=ds)):
        with pytest.raises(errors.PredicateError, match=rf"Write {word} in place of \S\."):
            call(mark)


@pytest.mark.parametrize(
    "query", [MatchQuery("a", "s"), lk.query.PhraseQuery("a b", "s"), {"query": "a"}]
)
def test_a_search_is_no_filter(ds: lk.LanceDataset, query: object) -> None:
    for call in (ds.count_rows, lambda one: ds.to_table(filter=one)):
        with pytest.raises(errors.InvalidTypeError, match=r"Use ds.to_table\(full_text_query="):
            call(query)


def test_an_empty_value(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.PredicateError, match="or \"''\" as a value for empty text"):
        ds.add_columns({"note": ""})
    ds.add_columns({"note": "''"})
    assert ds.to_table(["note"]).to_pydict() == {"note": ["", "", ""]}


def test_an_empty_list_of_rows(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.InvalidTypeError, match=r"those of a dataset are ds\.schema"):
        lk.write_dataset([], "memory://empty-rows")
    inserts = [ds.insert([]), ds.insert(iter([])), ds.insert([], schema=ds.schema)]
    assert {repr(done).partition(" · ")[0] for done in inserts} == {"inserted no rows"}
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert "no row changed" in repr(merge.execute([]))
    lk.write_dataset([], ds, mode="append")
    assert (ds.count_rows(), ds.version) == (3, 5)
    with pytest.raises(errors.InvalidArgumentError, match="No columns were given"):
        ds.merge([], "id")  # a list without rows has no new columns


def _whole(batch: pa.RecordBatch) -> pd.DataFrame:
    return batch.to_pandas().assign(double=1)


def _only_new(batch: pa.RecordBatch) -> pd.DataFrame:
    return _whole(batch)[["double"]]


def test_a_function_of_whole_rows(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="Return only the new columns"):
        ds.add_columns(_whole)
    ds.add_columns(_only_new)
    assert ds.schema.names == ["id", "x", "double"]


def test_a_function_in_a_dict(ds: lk.LanceDataset) -> None:
    with pytest.raises(errors.InvalidTypeError, match="or a function itself, not in a dict"):
        ds.add_columns({"double": _only_new})


def test_a_function_of_a_pandas_frame(ds: lk.LanceDataset) -> None:
    with pytest.raises(AttributeError) as failure:
        ds.add_columns(lambda frame: frame.assign(double=frame["x"]))
    assert failure.value.__notes__ == [
        "The function receives a pyarrow.RecordBatch, not a pandas frame."
    ]


@pytest.fixture
def texts(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset({"id": [1, 2], "x": ["10", "z"]}, tmp_path / "texts")


def _hint(call: Callable[[], object]) -> str:
    with pytest.raises(errors.LancekitError) as failure:
        call()
    return str(failure.value.hint)


def test_text_as_numbers_in_a_filter(texts: lk.LanceDataset) -> None:
    assert _hint(lambda: texts.count_rows("x > 9")).endswith("CAST(x AS bigint).")
    assert _hint(lambda: texts.count_rows("CAST(x AS bigint) > 9")).startswith("TRY_CAST")
    assert texts.count_rows("TRY_CAST(x AS bigint) > 9") == 1


@pytest.mark.parametrize("condition", ["x > 9", "TRY_CAST(x AS BIGINT) > 9"])
def test_text_as_numbers_in_sql(texts: lk.LanceDataset, condition: str) -> None:
    hint = _hint(lambda: lk.sql(f"SELECT count(*) FROM t WHERE {condition}", t=texts))
    (cast,) = re.findall(r"to_table\((\{.*\})\)", hint)
    rows = texts.to_table(eval(cast.replace("'CAST", "'TRY_CAST")))
    assert lk.sql("SELECT count(*) AS n FROM t WHERE y > 9", t=rows).to_table()["n"][0].as_py() == 1


def test_a_column_that_statements_lack(tmp_path: Path) -> None:
    rows = pa.table({"t": pa.array([1], pa.timestamp("ns"))})
    flights = lk.write_dataset(rows, tmp_path / "fine")
    hint = _hint(lambda: lk.sql("SELECT t FROM flights", flights=flights).to_table())
    assert hint == "Leave the column out, or read it by to_table() of the dataset."


def test_what_spark_frames_lack(ds: lk.LanceDataset) -> None:
    merge = ds.merge_insert("id").when_matched_update_all()
    assert "dedupe='last', which Spark DataFrames lack" in _hint(
        lambda: merge.execute({"id": [1, 1], "x": [1, 2]})
    )
    assert "cast() in Spark" in _hint(lambda: merge.execute({"id": [1], "x": ["a"]}))


def test_a_merge_explained(ds: lk.LanceDataset) -> None:
    with pytest.raises(AttributeError) as failure:
        ds.explain.merge_insert("id", {"id": [1], "x": [2]})
    call = str(failure.value).partition(": ")[2].rstrip(".")
    assert eval(call, {"ds": ds, "rows": {"id": [1], "x": [2]}}).operation == "merge_insert"


def test_a_version_by_time_or_branch(ds: lk.LanceDataset) -> None:
    ds.create_branch("exp")
    assert "asof='2026-11-30'" in _hint(lambda: lk.dataset(ds.uri, version="2026-11-30"))
    assert "a time as asof=" in _hint(lambda: lk.dataset(ds.uri, version=datetime.now(UTC)))  # type: ignore[arg-type]
    assert "('exp', None)" in _hint(lambda: ds.checkout_version("exp"))
    assert ds.checkout_version(("exp", None)).branch == "exp"


def test_a_history_in_sql(ds: lk.LanceDataset) -> None:
    ds.delete("id = 1")
    found = lk.sql("DESCRIBE HISTORY t", t=ds)
    assert found.to_table().select(["version", "operation", "num_rows"]).to_pylist() == [
        {"version": 1, "operation": "Overwrite", "num_rows": 3},
        {"version": 2, "operation": "Delete", "num_rows": 2},
    ]


def test_a_view_of_spark_in_sql(ds: lk.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", sys)
    hint = _hint(lambda: lk.sql("SELECT * FROM seen"))
    assert hint.endswith("Pass a view of Spark as a frame: seen=spark.table('seen').")


def test_a_clone_of_this_version(ds: lk.LanceDataset, tmp_path: Path) -> None:
    ds.delete("id = 1")
    assert ds.deep_clone(tmp_path / "deep").count_rows() == 2
    assert ds.checkout_version(1).shallow_clone(tmp_path / "shallow").count_rows() == 3


def test_lists_as_vectors(tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": [1, 2], "v": [[0.5, 1.0], [2.0, 3.0]]})
    ds = lk.write_dataset(rows, tmp_path / "lists")
    calls: list[Callable[[], object]] = [
        lambda: ds.create_index("v", "IVF_FLAT", num_partitions=1),
        lambda: ds.to_table(nearest={"column": "v", "q": [2.0, 3.0], "k": 1}),
    ]
    (hint,) = {_hint(call) for call in calls}
    eval(hint.partition("convert them: ")[2].rstrip("."), {"ds": ds, "pa": pa, "n": 2})
    for call in calls:
        call()


def test_text_that_is_no_number(texts: lk.LanceDataset) -> None:
    assert _hint(lambda: lk.sql("SELECT CAST('z' AS INT) AS y FROM t", t=texts)) == ""
    assert "DATE '2020-01-31'" in _hint(
        lambda: lk.sql("SELECT CAST('z' AS DATE) AS y FROM t", t=texts)
    )


def test_lists_of_several_lengths_are_no_vectors(tmp_path: Path) -> None:
    ds = lk.write_dataset({"v": [[1.0], [2.0, 3.0]]}, tmp_path / "lists")
    with pytest.raises(errors.InvalidArgumentError, match=r"the expected size\. Change these"):
        ds.alter_columns({"path": "v", "data_type": pa.list_(pa.float32(), 1)})


def test_an_undo_of_the_first_version_that_others_have_built_on(ds: lk.LanceDataset) -> None:
    first = lk.dataset(ds.uri)
    ds.insert({"id": [4], "x": [7]})
    with pytest.raises(errors.RetryableConflictError, match=r"no longer the newest.*changes"):
        first.undo()
    first.checkout_latest()
    first.undo()
    assert first.count_rows() == 3
    with pytest.raises(errors.InvalidArgumentError, match="is the first"):
        lk.write_dataset({"x": [1]}, "memory://only-one").undo()


def test_a_text_without_quotes() -> None:
    ds = lk.write_dataset({"name": ["a"]}, "memory://unquoted")
    with pytest.raises(errors.PredicateError, match="For the text itself, add quotes") as caught:
        ds.update({"name": "closed"})
    (value,) = re.findall(r"'name': \"(.*)\"", caught.value.hint)
    ds.update({"name": value})
    assert ds.to_table().to_pydict() == {"name": ["closed"]}


def test_the_plan_of_a_copy_and_of_a_version_that_is_gone(ds: lk.LanceDataset) -> None:
    plan = ds.explain.deep_clone("copy.lance")
    assert "this process copies the files" in str(plan)
    assert "only metadata" not in str(plan)
    with pytest.raises(errors.VersionNotFoundError, match="Version 9"):
        ds.explain.restore(9)
