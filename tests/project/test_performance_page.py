"""The page of performance is that of the saved numbers, and can be made anew."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

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


def test_the_page_is_of_the_saved_numbers() -> None:
    assert PAGE.read_text() == document(json.loads(SAVED.read_text()))
    well_formed(PAGE.read_text())


def test_the_page_names_no_place() -> None:
    assert not re.search(r"/tmp|/home|/work|/root|https?://(?!pypi\.org)", PAGE.read_text())


def test_requests_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = tmp_path / "numbers.json"
    for word in ("open version", "append"):
        main(["requests", "--quick", "--only", word, "--json", str(numbers)])
    page = capsys.readouterr().out
    assert "Requests to an object store" in well_formed(page)
    found = json.loads(numbers.read_text())["requests"]["found"]
    assert len(found) == 3  # the second run is added to the first
    for sides in found.values():
        assert all(count["GET"] > 0 for counts in sides.values() for count in counts)
    assert found["append 100 rows"]["pylance"][0]["PUT"] == 3


def test_a_part_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "no part speed" in capsys.readouterr().err
