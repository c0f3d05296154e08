"""`ds.constraints`: names, what is refused, and what is shown."""

from __future__ import annotations

import json
import pickle

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.checks.constraints import PREFIX
from lancekit.errors import (
    IncompatibleConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    LancekitError,
    NotFoundError,
    PredicateError,
    ReadOnlyError,
)


@pytest.fixture
def ds(tmp_path):
    return lk.write_dataset({"id": [1, 2, 2], "x": [5, -1, None]}, tmp_path / "d")


def test_they_come_and_go(ds) -> None:
    assert ds.constraints.list() == ()
    assert ds.constraints.run().holds
    ds.constraints.add("small", "x < 10")
    ds.constraints.add("a 'name' of any letters: é", "count(*) > 0", on_fail="warn")
    assert ds.version == 3
    first, second = ds.constraints.list()
    assert (first.name, second.name) == ("a 'name' of any letters: é", "small")
    assert (second.condition, second.on_fail, second.existing) == ("x < 10", "refuse", "refuse")
    assert first.on_fail == "warn"
    assert set(ds.config()) == {PREFIX + first.name, PREFIX + second.name}
    assert ds.checkout_version(2).constraints.list() == (second,)
    ds.constraints.drop("small")
    assert ds.constraints.list() == lk.dataset(ds.uri).constraints.list() == (first,)
    assert pickle.loads(pickle.dumps(first)) == first


@pytest.mark.parametrize(
    ("arguments", "error", "what"),
    [
        (("", "x > 3"), InvalidArgumentError, "must be .* got ''"),
        ((" x", "x > 3"), InvalidArgumentError, "must be .* got ' x'"),
        (("n" * 201, "x > 3"), InvalidArgumentError, "must be .* got 'nnn"),
        (("small", "x > 3"), InvalidArgumentError, "Constraint 'small' already exists"),
        (("new", "x >"), PredicateError, "does not parse"),
        (("new", "y > 3"), PredicateError, "no column 'y'"),
        (("new", "x > 3", "ignore"), InvalidArgumentError, "on_fail"),
        (("new", "x > 3", "warn", "mend"), InvalidArgumentError, "existing"),
        ((3, "x > 3"), InvalidTypeError, "name"),
        (("new", 3), InvalidTypeError, "condition"),
    ],
)
def test_what_cannot_be_added(ds, arguments, error, what) -> None:
    ds.constraints.add("small", "x < 10")
    with pytest.raises(error, match=what):
        ds.constraints.add(*arguments)
    assert ds.version == ds.latest_version == 2


def test_what_cannot_be_dropped(ds) -> None:
    with pytest.raises(
        NotFoundError, match="Version 1 has no constraint 'none'\\. There are no constraints"
    ):
        ds.constraints.drop("none")
    ds.constraints.add("small", "x < 10")
    with pytest.raises(NotFoundError, match="The constraints are 'small'"):
        ds.constraints.drop("none")
    with pytest.raises(ReadOnlyError):
        ds.at(2).constraints.drop("small")


def test_one_of_the_name_came_meanwhile(ds) -> None:
    other = lk.dataset(ds.uri)
    other.constraints.add("small", "x < 10")
    with pytest.raises(IncompatibleConflictError, match=r"both changed config .*small"):
        ds.constraints.add("small", "x < 20")
    ds.constraints.add("smaller", "x < 9")
    assert [one.name for one in ds.constraints.list()] == ["small", "smaller"]


def test_what_is_explained(ds) -> None:
    explain = ds.explain.insert({"id": [7], "x": [7]})
    assert not any("constraint" in note for note in explain.notes)
    ds.constraints.add("small", "x < 10 AND id < 100")
    ds.constraints.add("few", "count(*) < 10")
    ds.constraints.add("sums", "sum(x) < 10 OR max(id) < 7")
    for explained in (
        ds.explain.insert({"id": [7], "x": [7]}),
        ds.explain.update({"x": "x + 1"}),
        ds.explain.delete("x > 1"),
        ds.explain.drop_columns(["x"]),
        ds.merge_insert("id").when_not_matched_insert_all().explain({"id": [7], "x": [7]}),
    ):
        few, small, sums = [note for note in explained.notes if note.startswith("constraint")]
        assert few == "constraint 'few': the row count is read from the manifest"
        assert small == "constraint 'small': id, x of new and changed rows is read again"
        assert "each commit attempt reads id, x of all rows (now 3 rows" in sums
        assert "'sums'" in repr(explained)
    assert not any("constraint" in note for note in ds.explain.compact_files().notes)
    assert not any("constraint" in note for note in ds.explain.to_table().notes)
    ds.update_config({PREFIX + "few": None})
    ds.constraints.drop("small")
    lance.dataset(ds.uri).update_config({PREFIX + "newer": "{}"})
    ds.checkout_latest()
    assert any("commits of rows will fail" in note for note in ds.explain.delete("x > 1").notes)


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 5_000 + "x" + ")" * 5_000 + " > 1",
        "NOT " * 5_000 + "x > 1",
        "+".join(["sum(x)"] * 2_000) + " > 1",
        "sum(" * 5_000,
        "length(repeat('x', 2000000000)) > x",
        "x > \ud800",
        "x IN (SELECT 1)",
        "read_csv('/etc/passwd') > x",
        "x > 1 -- \x1b[31m",
    ],
    ids=lambda condition: condition[:12],
)
def test_constraints_of_somebody_else(ds, condition) -> None:
    stored = {"version": 1, "condition": condition, "on_fail": "refuse"}
    name = "a\x1b[31m<script>"
    lance.dataset(ds.uri).update_config({PREFIX + name: json.dumps(stored)})
    ds.checkout_latest()
    found, run = ds.constraints, ds.constraints.run()
    shown = [repr(found), found._repr_html_(), repr(run), run._repr_html_()]
    with pytest.raises(LancekitError) as caught:
        ds.insert({"x": [0]})
    shown += [str(caught.value), repr(ds.explain.insert({"x": [0]}))]
    assert not any("\x1b" in text or "<script>" in text for text in (shown[1], shown[3]))
    assert not any("\x1b" in text for text in shown)
    assert all(len(text) < 10_000 for text in shown[::2])
    assert ds.count_rows() == 3
    ds.constraints.drop(name)
    ds.insert({"x": [0]})


def test_what_is_shown(ds) -> None:
    assert "0 constraints" in repr(ds.constraints)
    assert "ds.constraints.add(" in ds.constraints._repr_html_()
    ds.constraints.add("not <b>negative</b>", "x >= 0", existing="allow")
    ds.constraints.add("one row each", "count(DISTINCT id) = count(*)", existing="allow")
    ds.update_config({"owner": "ada"})
    assert "not checked" in repr(ds.constraints)
    assert "<b>neg" not in ds.constraints._repr_html_()
    run = ds.constraints.run()
    assert len(run) == 2
    text = repr(run)
    assert "checked on main:4 · 0 passed · 2 failed" in text
    assert "-1" in text
    assert "count(DISTINCT id)" in run._repr_html_()
    assert run._plain() == (
        "ConstraintRun(version 4: 'not <b>negative</b>' broken, 'one row each' broken)"
    )
    (of_rows, of_table) = run
    assert of_rows.sample.to_pylist() == [{"id": 2, "x": -1}]
    assert of_table.violations is None


def test_on_rows_that_do_not_fit(tmp_path, ds) -> None:
    ds.constraints.add("small", "x < 10")
    ds.constraints.drop("small")
    ds.drop_columns(["x"])
    old = ds.checkout_version(2)
    run = old.constraints.run(ds.version)
    assert not run.holds
    (result,) = run
    assert (result.holds, result.violations) == (None, None)
    assert "no column 'x'" in result.problem
    assert "not checked: there is no column" in repr(run)


def test_json_is_shown_as_text(tmp_path) -> None:
    rows = pa.table({"id": [1, 2], "j": pa.array(['{"a": 1}', '{"b": 2}'], pa.json_())})
    ds = lk.write_dataset(rows.slice(0, 1), tmp_path / "d")
    ds.constraints.add("aged", "json_exists(j, '$.a')")
    with pytest.raises(lk.errors.ConstraintViolationError, match=r'j = \'\{"b":2\}\', id = 2'):
        ds.insert(rows.slice(1))
    ds.constraints.drop("aged")
    ds.insert(rows.slice(1))
    ds.constraints.add("aged", "json_exists(j, '$.a')", existing="allow")
    assert ds.constraints.run().results[0].sample["j"].to_pylist() == ['{"b":2}']
