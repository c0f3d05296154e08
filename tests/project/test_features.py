"""docs/features.md: each feature has tests that are there, and a place where it is seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.features import FEATURES, Feature, page

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_of_the_table():
    assert (ROOT / "docs/features.md").read_text(encoding="utf-8") == page()
    assert len(FEATURES) == len({one.name for one in FEATURES}) == 30


def anchors(text):
    """Return the anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?s)```.*?```", "", text))
    plain = (re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip() for heading in headings)
    found = set()
    for name in (re.sub(r"[\s-]+", "-", heading.lower()) for heading in plain):
        found.add(f"{name}_1" if name in found else name)
    return found


@pytest.mark.parametrize("feature", FEATURES, ids=lambda one: one.name)
def test_a_feature_is_shown_and_seen(feature: Feature):
    assert feature.tests
    for test in feature.tests:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {name}" in text or not name
    seen, _, anchor = feature.seen.partition("#")
    assert not anchor or anchor in anchors((ROOT / "docs" / seen).read_text(encoding="utf-8"))
