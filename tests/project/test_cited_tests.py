"""Pages that name a test for what they say: the test is there."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CITED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
#: pages that stand on their tests, and how many they name at least
LEAST = {
    "docs/reference/security-details.md": 20,
    "docs/interplay.md": 200,
    "docs/reference/mem-wal-details.md": 30,
}
PAGES = [
    page
    for page in [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    if CITED.search(page.read_text(encoding="utf-8"))
]


def test_the_pages_that_stand_on_tests_are_looked_at() -> None:
    assert LEAST.keys() <= {str(page.relative_to(ROOT)) for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_test_that_a_page_names_is_there(page: Path) -> None:
    tests = CITED.findall(page.read_text(encoding="utf-8"))
    assert len(tests) >= LEAST.get(str(page.relative_to(ROOT)), 1)
    for path, name in tests:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, f"{path} has no {name}"


# ---- docs/interplay.md


def test_each_pair_of_features_stands_once() -> None:
    page = (ROOT / "docs/interplay.md").read_text(encoding="utf-8")
    *sections, doors, forms, stops, hands = re.split(r"(?m)^## ", page)[1:]
    features = [section.partition("\n")[0] for section in sections] + ["Concurrent writers"]
    assert len(features) == 21
    pairs = []
    for section in sections:
        first = section.partition("\n")[0]
        for line in re.findall(r"(?m)^\| [A-Z].*$", section):
            other, what, tests = line.strip("| ").split(" | ")
            pairs.append((first, other))
            untested = what == "Independent."
            assert CITED.search(tests) or untested, line
    assert pairs == list(combinations(features, 2))
    for table, columns in ((doors, 5), (forms, 5), (stops, 5), (hands, 6)):
        rows = [line.strip("| ").split(" | ") for line in re.findall(r"(?m)^\| [A-Z].*$", table)]
        assert [feature for feature, *_ in rows] == features
        assert all(len(told) == columns and CITED.search(told[-1]) for told in rows)
