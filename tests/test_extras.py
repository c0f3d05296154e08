"""How to install an extra: by commands that work beside a clone and a wheel, too."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import lancekit as lk
from lancekit._extras import PACKAGES, install_hint

ROOT = Path(__file__).parents[1]
TEXTS = ("lancekit/**/*.py", "docs/**/*.md", "notebooks/*.ipynb", "README.md")


def test_the_packages_are_those_of_the_project() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert {extra: tuple(extras[extra]) for extra in PACKAGES} == PACKAGES


def test_a_hint_is_a_command() -> None:
    hint = install_hint("sql")
    assert hint == 'Install the extra sql: pip install "datafusion>=45.2" "duckdb>=1.4"'


@pytest.mark.parametrize("pattern", TEXTS)
def test_no_text_looks_for_lancekit_on_an_index(pattern: str) -> None:
    found = re.compile(r"pip install [^\n]*[\"' ]lancekit(\[|==|[\"'`\s])")
    texts = {path: path.read_text() for path in ROOT.glob(pattern)}
    assert texts
    assert [str(path) for path, text in texts.items() if found.search(text)] == []


def test_pages_and_options_name_the_same_packages() -> None:
    pages = {"reference/kernels": ["fast"], "sql": ["sql"], "spark": ["connect", "java"]}
    for page, extras in pages.items():
        text = (ROOT / f"docs/{page}.md").read_text()
        for extra in extras:
            assert install_hint(extra).partition(": ")[2] in text
    assert install_hint("fast") in str(lk.options)
