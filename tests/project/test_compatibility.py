"""Which releases of the reference read and write lancekit's tables: as the page says."""

from __future__ import annotations

import json
import random

import pytest

from tests.support.compatibility import ANSWERS, PAGE, TRIED, ask, document, key
from tests.support.disk_features import FEATURES
from tests.support.releases import Release, interpreter

STORED = json.loads(ANSWERS.read_text())


def test_the_page_is_what_was_measured() -> None:
    assert list(STORED) == [key(feature) for feature in FEATURES]
    assert all(list(answers) == list(TRIED) for answers in STORED.values())
    assert PAGE.read_text() == document()


@pytest.mark.torture
@pytest.mark.parametrize("name", TRIED)
def test_what_a_release_makes_of_each_feature(name: str, whole: bool) -> None:
    """Measured again; in a short run a few features, by the releases that are always there."""
    if interpreter(name) is None:
        pytest.skip(f"pylance {name} is not set up: run `make releases`")
    features = FEATURES if whole else random.Random(name).sample(FEATURES, 6)
    with Release(name) as release:
        for feature, answer in ask(release, features):
            assert answer == STORED[feature][name], f"{feature} by {name}"
