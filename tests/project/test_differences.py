"""What differs from the reference on purpose is so, in both libraries, and on the page."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import lancekit as lk
from tests.support.listed_differences import DIFFERENCES, PAGE, Difference, document


@pytest.mark.parametrize("one", DIFFERENCES, ids=lambda one: one.show.__name__.strip("_"))
def test_a_difference(one: Difference, tmp_path: Path) -> None:
    assert one.show(lk, str(tmp_path / "lancekit")) == one.shown_here
    assert one.show(lance, str(tmp_path / "pylance")) == one.shown_there


def test_the_page_lists_them() -> None:
    assert PAGE.read_text() == document()
