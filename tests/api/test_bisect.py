"""Since which version something is no longer so."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.cards import card
from lancekit.dataset import Evaluation
from lancekit.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    PredicateError,
    VersionNotFoundError,
)
from tests.notebook.conftest import NOW
from tests.support.cards import show_html, show_text
from tests.support.number_texts import ungrouped


def loads(path: Path, *values: int) -> lk.LanceDataset:
    """Return a table to which each version adds one row."""
    ds = lk.write_dataset({"v": [values[0]]}, path, commit_message=f"load {values[0]}")
    for value in values[1:]:
        ds.insert({"v": [value]}, commit_message=f"load {value}")
    return ds


def plausible(past: lk.LanceDataset) -> bool:
    return past.count_rows("v < 0") == 0


def fact(value: Any, label: str) -> str:
    return {f.label: ungrouped(f.value) for f in card(value, NOW).facts}[label]


def test_the_load_that_broke_it(tmp_path: Path) -> None:
    ds = loads(tmp_path / "t", *range(10), -5, *range(20))
    asked: list[int] = []

    def condition(past: lk.LanceDataset) -> bool:
        with pytest.raises(lk.errors.ReadOnlyError):
            past.insert({"v": [1]})
        asked.append(past.version)
        return plausible(past)

    found = ds.bisect(condition)
    assert (found.version, found.operation, found.message) == (11, "Append", "load -5")
    assert found.timestamp == ds.versions()[10].timestamp
    assert found.diff.to_table().to_pylist() == [{"_change": "insert", "v": -5}]
    assert [e.version for e in found.evaluations] == asked
    assert len(asked) == len(set(asked)) <= 2 + 5
    assert found.first_bad is not None
    assert found.first_bad.is_certain
    assert (found.first_bad.before, found.first_bad.gone, found.first_bad.untested) == (10, (), ())
    assert ds.version == 31
    exec(found.undo, {"ds": ds})
    assert plausible(lk.dataset(tmp_path / "t"))
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.diff.counts.inserted == 1


@pytest.mark.parametrize("how", [{"primary_key": "id"}, {"enable_stable_row_ids": True}])
def test_the_line_that_takes_it_back_and_nothing_else(tmp_path: Path, how: dict[str, Any]) -> None:
    ds = lk.write_dataset({"id": [1], "v": [1]}, tmp_path / "t", **how)
    ds.insert({"id": [2], "v": [-5]})
    ds.insert({"id": [3], "v": [3]})
    found = ds.bisect(plausible)
    assert found.undo == "ds.revert(2)"
    exec(found.undo, {"ds": ds})
    assert sorted(ds.to_table()["v"].to_pylist()) == [1, 3]
    ds.add_columns({"w": "-1"})
    added = ds.bisect(lambda past: "w" not in past.schema.names)
    assert added.undo == f"ds.checkout_version({ds.version - 1}).restore()"


def test_what_a_person_sees(tmp_path: Path) -> None:
    found = loads(tmp_path / "t", 1, 2, -5, 4).bisect(plausible)
    text = show_text(found, NOW)
    assert text.startswith("bad since main:3 · 4 versions tested")
    assert fact(found, "last good") == "main:2"
    assert fact(found, "message") == "load -5"
    assert fact(found, "undo") == found.undo
    assert "load -5" in show_html(found, NOW)
    assert "Changes of the result" not in text
    assert repr(found) == show_text(found)


def test_where_to_look(tmp_path: Path) -> None:
    ds = loads(tmp_path / "t", *range(5), -5, *range(5))
    ds.tags.create("well", 4)
    assert ds.bisect(plausible, "well", 8).version == 6
    assert ds.bisect(plausible, 5, 6).version == 6
    assert ds.bisect(plausible, ds.at(3), timedelta(0)).version == 6
    assert ds.at(7).bisect(plausible).version == 6


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        (7, None, "No version is good at the start: the condition is False for version 7, the"),
        (1, 3, "No version turned bad: the condition is True for version 3, the bad end"),
        (8, 4, "good version 8 of main does not come before the bad version 4"),
        (6, 6, "does not come before"),
        (("b", None), None, "good version 4 of b does not come before"),
    ],
)
def test_ends_that_cannot_be(tmp_path: Path, good: Any, bad: Any, said: str) -> None:
    ds = loads(tmp_path / "t", *range(5), -5, *range(3))
    ds.create_branch("b", 4)
    with pytest.raises(InvalidArgumentError, match=said):
        ds.bisect(plausible, good, bad)


def test_only_one_version(tmp_path: Path) -> None:
    ds = loads(tmp_path / "t", 1)
    with pytest.raises(InvalidArgumentError, match="does not come before"):
        ds.bisect(plausible)
    assert ds.bisect(plausible, all=True).version is None
    with pytest.raises(VersionNotFoundError):
        ds.bisect(plausible, 9)


def test_on_a_branch(tmp_path: Path) -> None:
    main = loads(tmp_path / "t", 1, 2, 3)
    branch = main.create_branch("b", 2)
    for value in (3, -4, 5):
        branch.insert({"v": [value]})
    found = branch.bisect(plausible)
    assert (found.branch, found.version) == ("b", 4)
    assert found.undo == "ds.checkout_version(('b', 3)).restore()"
    exec(found.undo, {"ds": main})
    assert main.checkout_version(("b", None)).to_table()["v"].to_pylist() == [1, 2, 3]
    assert show_text(found, NOW).startswith("bad since b:4")


def raising_at(*versions: int) -> Callable[[lk.LanceDataset], bool]:
    def condition(past: lk.LanceDataset) -> bool:
        if past.version in versions:
            raise KeyError(f"nothing at {past.version}")
        return plausible(past)

    return condition


def test_a_condition_that_raises(tmp_path: Path) -> None:
    ds = loads(tmp_path / "t", 1, 1, 1, 1, -5, 1, 1, 1, 1)
    beside = ds.bisect(raising_at(3, 7))
    assert beside.version == 5
    assert beside.first_bad is not None
    assert beside.first_bad.is_certain
    doubt = ds.bisect(raising_at(4, 5))
    assert doubt.first_bad is not None
    assert (doubt.version, doubt.first_bad.before, doubt.first_bad.untested) == (6, 3, (4, 5))
    assert not doubt.first_bad.is_certain
    raised = [e for e in doubt.evaluations if e.good is None]
    assert Evaluation(4, None, "KeyError: 'nothing at 4'") in raised
    assert doubt.diff.counts.inserted == 3
    text = show_text(doubt, NOW)
    assert "uncertain" in text
    assert fact(doubt, "also possible") == "main:4 (untested), main:5 (untested)"
    assert "nothing at 4" in fact(doubt, "errors")
    for condition, version in ((raising_at(1), 1), (raising_at(9), 9)):
        with pytest.raises(
            InvalidArgumentError, match=f"failed for version {version}: KeyErr"
        ) as e:
            ds.bisect(condition)
        assert isinstance(e.value.__cause__, KeyError)


def test_a_condition_as_text(tmp_path: Path) -> None:
    ds = loads(tmp_path / "t", 1, 2, 3, 3, 4, -5, 6)
    assert ds.bisect("v >= 0").version == 6
    assert ds.bisect("count(DISTINCT v) = count(*)").version == 4
    ds.add_columns({"w": "v + 1"})
    ds.insert({"v": [7], "w": [0]})
    assert ds.bisect("w > v", 8).version == 9
    with pytest.raises(InvalidArgumentError, match="failed for version 1: PredicateError"):
        ds.bisect("w > -9")
    with pytest.raises(PredicateError, match="something is missing after '>'"):
        ds.bisect("v >")


def test_what_a_condition_may_say(tmp_path: Path) -> None:
    ds = loads(tmp_path / "t", 1, 1, -5)
    assert ds.bisect(lambda past: np.bool_(plausible(past))).version == 3
    for said in (None, "no", pa.scalar(True), 2):
        with pytest.raises(InvalidTypeError, match=r"The condition must return .* at 1"):
            ds.bisect(lambda _, said=said: said)  # type: ignore[misc]
    with pytest.raises(InvalidTypeError, match=r"condition must be .* got 7"):
        ds.bisect(7)  # type: ignore[arg-type]


def test_versions_that_are_gone(tmp_path: Path) -> None:
    ds = loads(tmp_path / "t", 1, 1, 1, 1, -5, 1, 1, 1)
    for version in (2, 7):
        ds.tags.create(f"v{version}", version)
    ds.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    found = ds.bisect(plausible)
    assert found.first_bad is not None
    assert (found.first_bad.before, found.version, found.first_bad.gone) == (2, 7, (3, 4, 5, 6))
    assert not found.first_bad.is_certain
    gone = ", ".join(f"main:{number} (cleaned up)" for number in (3, 4, 5, 6))
    assert fact(found, "also possible") == gone
    with pytest.raises(VersionNotFoundError):
        ds.bisect(plausible, 1)


def test_an_answer_that_turns_more_than_once(tmp_path: Path) -> None:
    ds = loads(tmp_path / "t", 1, -1, 1)
    ds.delete("v < 0")
    ds.insert({"v": [-2]})
    ds.delete("v < 0")
    found = ds.bisect(plausible, all=True)
    assert [(f.before, f.version, f.good) for f in found.flips] == [
        (1, 2, False),
        (3, 4, True),
        (4, 5, False),
        (5, 6, True),
    ]
    assert [e.version for e in found.evaluations] == [1, 2, 3, 4, 5, 6]
    assert found.version == 2
    assert [f.operation for f in found.flips] == ["Append", "Delete", "Append", "Delete"]
    text = show_text(found, NOW)
    assert "Changes of the result" in text
    # an end may be anything
    part = ds.bisect(plausible, 2, 4, all=True)
    assert [(f.version, f.good) for f in part.flips] == [(4, True)]
    assert part.version is part.timestamp is part.operation is part.message is None
    with pytest.raises(InvalidArgumentError, match="No version turned bad"):
        _ = part.diff
    assert show_text(part, NOW).startswith("no bad version · 3 versions tested")
    silent = ds.bisect(raising_at(2, 3, 5), all=True)
    assert silent.flips == ()
    assert sum(e.good is None for e in silent.evaluations) == 3


def test_progress_is_told(tmp_path: Path) -> None:
    ds = loads(tmp_path / "t", 1, 1, 1, -5)
    told: list[lk.Progress] = []
    with lk.options(progress=told.append):
        ds.bisect(plausible)
    assert {p.what for p in told} == {"bisecting"}
    assert told[-1].finished
    assert told[-1].done == told[-1].total == 4
