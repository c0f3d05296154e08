"""Names that users of other tools type first: each works, or is answered by a line that runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import lancekit as lk
from lancekit._guessed_names import ARGUMENTS, NAMES, OPERATORS
from lancekit._guesses import argument_hint, fitting, line_for, meant, rows_by, similar
from tests.support.first_guesses import GUESSES, Guess, runs
from tests.support.first_lines import TASKS, Task, outcome

#: lines with names that the tables of the tests do not have: functions, branches, vectors
_NEEDS_MORE = (
    "function",
    "query",
    "vector",
    "(7)",
    "(array)",
    "bisect",
    "'words'",
    "'name'",
    "'x'",
    "schema_overrides",
    "export",
    "{'price': 0}",
)


def _all() -> list[Guess]:
    return [guess for guesses in GUESSES.values() for guess in guesses]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.line)
def test_a_first_line_works_or_is_answered(task: Task, tmp_path: Path) -> None:
    found = outcome(task, tmp_path)
    assert found in {"works", "answered"}, found


@pytest.mark.parametrize(("typed", "line"), _all(), ids=[typed for typed, _ in _all()])
def test_a_guess_works_or_is_answered(typed: str, line: str, tmp_path: Path) -> None:
    found = outcome(Task("", "", typed, "" if line else "True", line), tmp_path)
    assert found in {"works", "answered"}, found


def _whole_lines() -> list[str]:
    """Return the lines of guesses that are whole statements on the tables of the tests."""
    lines = sorted(
        {line for _, line in _all() if line.startswith(("ds.", "lk.", "d.")) and line != "lk.sql("}
    )
    return [line for line in lines if _is_whole(line) and not any(n in line for n in _NEEDS_MORE)]


def _is_whole(line: str) -> bool:
    try:
        compile(line, "<line>", "exec")
    except SyntaxError:  # the beginning of a line
        return False
    return "..." not in line


@pytest.mark.parametrize("line", _whole_lines())
def test_an_answer_runs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = lk.options.engine
    assert runs(line, tmp_path) == ""
    lk.options.engine = engine  # a line sets it for the process


@pytest.mark.parametrize("tables", [NAMES, OPERATORS])
def test_a_name_has_one_line(tables: dict[str, dict[str, str]]) -> None:
    for owner, lines in tables.items():
        counts = Counter(name for names in lines.values() for name in names.split())
        assert [name for name, count in counts.items() if count > 1] == [], owner


def _compared(ds: lk.LanceDataset) -> lk.BranchComparison:
    ds.branches.create("old")
    return ds.branches.compare("old")


def test_no_name_of_the_table_exists() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://guesses")
    of = {
        "lance": lk,
        "LanceDataset": ds,
        "DatasetColumn": ds["id"],
        "History": ds.versions(),
        "Version": ds.versions()[0],
        "Tags": ds.tags,
        "Branches": ds.branches,
        "MergeInsertBuilder": ds.merge_insert("id"),
        "DatasetOptimizer": ds.optimize,
        "SqlResult": lk.sql("SELECT 1 AS x"),
        "Expression": lk.col("id"),
        "DatasetDiff": ds.diff(1),
        "DiffCounts": ds.diff(1).counts,
        "Listed": ds.get_fragments(),
        "TableIndices": ds.indices,
        "Constraints": ds.constraints,
        "LanceFragment": ds.get_fragments()[0],
        "LanceStats": ds.stats,
        "DatasetColumn, not a number": ds["id"],
        "SqlQueryBuilder": ds.sql("SELECT 1"),
        "SqlQuery": ds.sql("SELECT 1").build(),
        "Plots": ds.plot,
        "Answer": ds.tags.create("x"),
        "UpdateResult": ds.update({"id": 2}),
        "MergeResult": ds.merge_insert("id").when_matched_delete().execute({"id": [9]}),
        "ColumnSummary": ds["id"].statistics(),
        "BranchComparison": _compared(ds),
        "DeleteResult": ds.delete("id = 2"),
    }
    assert of.keys() == NAMES.keys()
    known = {
        (owner, name)
        for owner, lines in NAMES.items()
        for names in lines.values()
        for name in names.split()
        if hasattr(of[owner], name)
    }
    assert known == set()


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"id": [1], "x": [1.5], "t": ["a"]}, "ds.to_table(filter='x > 3')"),
        ({"t": ["a"]}, "ds.to_table(filter='t IS NOT NULL')"),
        ({"a b": [1]}, "ds.to_table(filter='x IS NOT NULL')"),
    ],
)
def test_a_line_has_columns_of_the_table(columns: dict[str, list[object]], line: str) -> None:
    ds = lk.write_dataset(
        columns, "memory://fitting", primary_key=["id"] if "id" in columns else None
    )
    assert line_for("LanceDataset", "query", ds) == line
    assert (
        fitting("ds.to_table(filter='$filter')", ds.merge_insert("id") if "id" in columns else ds)
        == line
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://unknown-names")
    with pytest.raises(
        lk.errors.UnknownNameError, match=r"no attribute 'history'. Use ds.versions\(\)"
    ) as seen:
        ds.history()  # type: ignore[attr-defined]
    assert isinstance(seen.value, AttributeError)
    assert seen.value.context["attribute"] == "history"
    assert not hasattr(ds, "history")
    assert getattr(ds, "history", None) is None
    with pytest.raises(lk.errors.UnknownNameError, match=r"Did you mean ds.count_rows\?"):
        ds.countrows()  # type: ignore[attr-defined]
    with pytest.raises(lk.errors.UnknownNameError, match=r"Use ds\['id'\]"):
        ds.id  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute '_nothing'$"):
        ds._nothing  # type: ignore[attr-defined]  # noqa: B018


def test_similar_names() -> None:
    assert similar("countRows", ["count_rows", "take"]) == "count_rows"
    assert similar("zzz", ["count_rows"]) == ""
    assert meant("mode", 3, ["create"]) == ""
    assert rows_by(["a", "b"], [1]) == ""
    assert rows_by(["id"], ["x", "y"]) == "id IN ('x', 'y')"
    assert argument_hint("Shop.sell", ["rows"], {"nothing": 1}) == ""
    assert all(len(row) == 3 for row in ARGUMENTS)


def test_an_item_of_the_history_is_a_reference(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t.lance")
    ds.insert({"id": [2]})
    first = ds.versions()[0]
    trial = ds.create_branch("trial", first)
    assert (trial.branch, trial.count_rows()) == ("trial", 1)
    assert ds.checkout_version(trial.versions()[-1]).branch == "trial"
    ds.tags.create("v1", first)
    ds.tags.create("v2", trial)
    assert ds.tags["v2"].branch == "trial"
    with pytest.raises(lk.errors.InvalidTypeError, match="must be a number, a tag or a branch"):
        ds.tags.create("v3", lk.write_dataset({"x": [1]}, tmp_path / "other.lance"))
    ds.restore(first)
    assert (ds.version, ds.count_rows()) == (3, 1)
    assert [one.version for one in sorted(ds.versions(), reverse=True)] == [3, 2, 1]


def test_a_dictionary_of_tags_opens_each() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://dict-of-tags")
    ds.insert({"id": [2]})
    ds.tags.create("v1", 1)  # two letters, which dict() would otherwise take for a pair
    ds.branches.create("br")
    assert {name: one.count_rows() for name, one in dict(ds.tags).items()} == {"v1": 1}
    assert {**ds.branches}["br"].branch == "br"
    assert ds.tags.keys() == ("v1",)


def test_types_as_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("zip,n\n01234,5\n")
    rows = lk.read_csv(tmp_path / "x.csv", column_types={"zip": "string", "n": float})
    assert rows.to_table().to_pylist() == [{"zip": "01234", "n": 5.0}]
    with pytest.raises(
        lk.errors.InvalidTypeError, match=r"Use column_types=\{'zip': pa.string\(\)\}"
    ):
        lk.read_csv(tmp_path / "x.csv", column_types={"zip": "words"})
    ds = lk.write_dataset(rows, tmp_path / "t.lance")
    ds.alter_columns({"path": "n", "data_type": "float32"})
    assert str(ds.schema.field("n").type) == "float"
    with pytest.raises(lk.errors.InvalidTypeError, match="data_type of an alteration must be a"):
        ds.alter_columns({"path": "n", "data_type": "words"})


def test_an_update_that_has_run_names_its_columns() -> None:
    ds = lk.write_dataset({"id": [1], "x": [1]}, "memory://update-then-where")
    with pytest.raises(lk.errors.UnknownNameError, match=r"Use ds.undo\(\).*'x'.*where='x > 3'"):
        ds.update({"x": 0}).where("id = 1")  # type: ignore[attr-defined]
    with pytest.raises(KeyError, match="It has num_rows_updated"):
        ds.update({"x": 0})["rows"]


def test_another_dataset_is_not_restored(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "a.lance")
    other = lk.write_dataset({"y": [1, 2]}, tmp_path / "b.lance")
    with pytest.raises(lk.errors.InvalidArgumentError, match="of another dataset"):
        ds.restore(other)  # type: ignore[arg-type]
    assert (ds.uri, ds.version, other.latest().version) == (str(tmp_path / "a.lance"), 1, 1)
    ds.restore(ds.checkout_version(1))  # type: ignore[arg-type]
    assert ds.version == 2


def test_options_by_item() -> None:
    assert lk.options["display_rows"] == lk.options.display_rows
    with lk.options(display_rows=5):
        lk.options["display_rows"] = 7
        assert lk.options.display_rows == 7
    with pytest.raises(lk.errors.InvalidArgumentError, match="no option 'nosuch'"):
        lk.options["nosuch"] = 1
