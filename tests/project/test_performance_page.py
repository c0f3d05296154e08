"""The page of performance is that of the saved numbers, and can be made anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth
from benchmarks.children import Child, Job
from benchmarks.markdown import ms, ratios
from benchmarks.page import PAGE, SAVED, document, main


def well_formed(page: str) -> list[str]:
    """Return the page's headings; each table has as many cells in each line as in its heading."""
    tables = re.findall(r"(?m)(?:^\|.*\n)+", page)
    assert tables
    for lines in tables:
        assert len({line.count("|") for line in lines.splitlines()}) == 1
        assert len(lines.splitlines()) > 2
    assert not re.search(r"\$|\bnan\b|\binf\b|None", page)
    return re.findall(r"(?m)^## (.+)", page)


def measured(tmp_path: Path, part: str, *words: str) -> dict[str, Any]:
    """Return what is found of a part's cases that hold a word, in a trial with next to no rows."""
    numbers = tmp_path / "numbers.json"
    only = [f"--only={word}" for word in words]
    main([part, "--quick", *only, "--json", str(numbers)])
    found: dict[str, Any] = json.loads(numbers.read_text())[part]["found"]
    return found


def only_whole(whole: bool) -> None:
    """Skip what starts many processes to time them; requests show that the page is made."""
    if not whole:
        pytest.skip("only in a whole run")


def test_the_page_is_of_the_saved_numbers() -> None:
    assert PAGE.read_text() == document(json.loads(SAVED.read_text()))
    well_formed(PAGE.read_text())


def test_the_page_names_no_place() -> None:
    assert not re.search(r"/tmp|/home|/work|/root|https?://(?!pypi\.org)", PAGE.read_text())


@pytest.mark.torture
def test_requests_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    for word in ("open version", "append") if whole else ("append",):
        found = measured(tmp_path, "requests", word)
    assert "Requests to an object store" in well_formed(capsys.readouterr().out)
    assert len(found) == 3 or not whole  # the second run is added to the first
    for sides in found.values():
        assert all(sum(count.values()) > 0 for counts in sides.values() for count in counts)
        assert sides["lancekit"][0]["GET"] > 0  # nothing is remembered yet
    assert found["append 100 rows"]["pylance"][0]["PUT"] == 3


def test_a_part_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "no part speed" in capsys.readouterr().err


@pytest.mark.torture
def test_what_is_felt_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    only_whole(whole)
    found = measured(tmp_path, "felt", "scan all", "merge 10 rows")
    page = capsys.readouterr().out
    assert {"Common calls", "With fsync", "Memory"} <= set(well_formed(page))
    assert found.keys() == {"scan all", "merge 10 rows"}
    assert {"lancekit", "pylance", "NumPy", "its files"} <= found["scan all"].keys()
    assert "fsync" in found["merge 10 rows"]
    first, second, _ = found["scan all"]["profile"]["where"]
    assert any(name.startswith("lancekit.") for name in first)
    assert 0 < sum(second.values()) <= 1.001  # each share is rounded
    for case in found.values():
        for taken in case.values():
            assert min(taken["wall"]) > 0
            assert min(taken["cpu"]) > 0


@pytest.mark.torture
def test_growth_is_measured_and_drawn(tmp_path: Path, whole: bool) -> None:
    only_whole(whole)
    numbers, page = tmp_path / "numbers.json", tmp_path / "page.md"
    main(["growth", "--quick", "--only=rows", "--json", str(numbers), "--page", str(page)])
    curves = json.loads(numbers.read_text())["growth"]["found"]
    assert [*curves["rows"]] == ["10000", "30000"]
    assert "Measured with" in well_formed(page.read_text())
    picture = (tmp_path / "images/growth.svg").read_text()
    assert "30k" in picture
    assert len(picture) < 60_000
    tables = growth.document(curves)["of_rows"]
    assert len(tables.splitlines()) == 5


def test_growth_beyond_linear_is_bold() -> None:
    def of(milliseconds: float) -> dict[str, dict[str, dict[str, list[float]]]]:
        taken = {"wall": [milliseconds, milliseconds]}
        return {case: {"lancekit": taken, "pylance": taken} for case in ("open", "count", "take")}

    *_, last = growth.document({"rows": {"10": of(1), "100": of(100)}})["of_rows"].splitlines()
    assert last.startswith("| power | **2.00** |")
    *_, last = growth.document({"rows": {"10": of(1), "100": of(10)}})["of_rows"].splitlines()
    assert last.startswith("| power | 1.00 |")


@pytest.mark.torture
def test_imports_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    only_whole(whole)
    found = measured(tmp_path, "imports", "lancekit")
    assert "Imports" in well_formed(capsys.readouterr().out)
    assert [*found] == [
        "lancekit",
        "lancekit, up to `lk.dataset`",
        "lancekit, first count",
        "lancekit, first filter",
    ]
    assert min(found.values()) > 0


@pytest.mark.torture
def test_writers_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    only_whole(whole)
    found = measured(tmp_path, "writers", "append")
    assert "Four writers" in well_formed(capsys.readouterr().out)
    assert found.keys() == {"append 10 rows, fsync off", "append 10 rows, fsync on"}
    assert all(side["rate"] > 0 for sides in found.values() for side in sides.values())


@pytest.mark.torture
def test_operations_and_files_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    only_whole(whole)
    (taken,) = measured(tmp_path, "operations", "1M, SQL").values()
    assert min(taken["ours"], taken["theirs"]) > 0
    (case,) = measured(tmp_path, "files", "vectors, nulls").values()
    for code in ("compiled", "NumPy"):
        assert case[code].keys() == {"encode", "scan", "take"}
        assert all(min(sides.values()) > 0 for sides in case[code].values())
    page = well_formed(capsys.readouterr().out)
    assert {"Changes of rows, columns and files", "Data files by type"} <= set(page)


@pytest.mark.torture
def test_shards_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    only_whole(whole)
    found = measured(tmp_path, "shards")
    assert "Small writes, by shards" in well_formed(capsys.readouterr().out)
    assert found["puts: 64 threads, 1 rows a put"]["lancekit, fsync on"][0] > 0
    assert found["reads: 1 generations, a look-up"].keys() == {"lancekit", "pylance"}


@pytest.mark.torture
def test_a_case_that_fails_says_where(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], whole: bool
) -> None:
    only_whole(whole)
    child = Child("lancekit")
    with pytest.raises(RuntimeError, match="'scan'"):
        child.run(Job("scan", 1, [str(tmp_path / "nothing")]))
    assert "DatasetNotFoundError" in capfd.readouterr().err
    child.close()


def test_what_misses_its_goal_is_bold() -> None:
    assert ratios([1.0, 3.0], [2.0, 2.0], (0.5, 1.4)) == ["0.50", "**1.50**"]
    assert ratios([1.0, 3.0], [2.0, 2.0]) == ["0.50", "1.50"]
    assert ms([0.1234, 12.34, 1234.5]) == "0.123, 12.3, 1,234"
