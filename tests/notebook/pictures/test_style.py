"""The one style: both themes can be read, marks besides colours, text where nothing is drawn."""

import re
import subprocess
import sys
from importlib.resources import files

import pytest

import lancekit as lk
from lancekit._notebook.pictures.style import DARK, DASHES, HATCHES, LIGHT, MARKS, drawn
from tests.notebook.pictures.support import NAMES, parsed, words
from tests.notebook.render.test_html import contrast

CSS = (files("lancekit._notebook.pictures") / "style.css").read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_everything_stands_out(theme):
    for colour in (theme.text, theme.quiet, *theme.series):
        assert contrast(colour, theme.ground) >= 4.5
    assert len(set(theme.series)) == 6


def test_the_style_sheet_has_the_same_colours():
    blocks = re.findall(r"\{([^{}]*--c0: [^{}]*)\}", CSS)
    assert len(blocks) == 4
    for block, theme in zip(blocks, (LIGHT, DARK, LIGHT, DARK), strict=True):
        given = dict(re.findall(r"--(own-\w+|c\d): (#[0-9a-f]{6})", block))
        assert [given[f"c{i}"] for i in range(6)] == list(theme.series)
        own = ("text", "quiet", "line", "ground")
        assert [given[f"own-{name}"] for name in own] == [getattr(theme, name) for name in own]


def test_lines_differ_without_colour():
    assert len(set(MARKS)) == len(set(DASHES)) == len(set(HATCHES)) == len(LIGHT.series)


def test_text_that_looks_like_markup_or_colours_stays_text():
    hostile = [*NAMES[:3], "#0a58ca", ' id="axes_1"', "<!-- x -->", "font-family: x;", "]]>"]

    def paint(canvas):
        for at, text in enumerate(hostile):
            canvas.axes[0].text(0, at, text, parse_math=False, color=LIGHT.series[0])

    picture = drawn("<b>&", 'a "title"', "text", paint)
    said = words(parsed(picture))
    assert set(hostile) <= set(said)
    assert picture.alt == '<b>&. a "title"'


def test_without_matplotlib_there_is_the_text():
    program = """
import sys
sys.modules["matplotlib"] = None
import lancekit as lk
ds = lk.write_dataset({"id": [1, 2], "v": [1, 2]}, "memory://bare", primary_key="id")
ds.update({"v": "v + 1"})
for picture in (ds.plot.history(), ds.plot.fragments(), ds.plot.key_filters(), ds.plot.mem_wal(),
                ds.plot.columns(1), ds.diff(1).plot()):
    assert picture.svg is picture.figure is picture._repr_html_() is None
    assert list(picture._repr_mimebundle_()) == ["text/plain"] and picture.text and picture.alt
assert ds.plot.graph().svg
try:
    ds.plot.history().png()
except lk.errors.NotOfferedError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "Install matplotlib" in done.stdout, done.stderr


def test_pictures_read_no_data_file(tmp_path, monkeypatch):
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "x.lance")
    ds.insert({"x": [3]})
    for file in (tmp_path / "x.lance" / "data").iterdir():
        file.unlink()
    ds = lk.dataset(tmp_path / "x.lance")
    for kind in ("history", "graph", "fragments", "key_filters", "mem_wal"):
        assert getattr(ds.plot, kind)().svg


def test_axes_of_a_part_of_a_figure_are_drawn_into(tmp_path):
    ds = lk.write_dataset({"id": [1, 2]}, tmp_path / "t")
    from matplotlib.figure import Figure

    axes = Figure().subfigures(1, 2)[0].subplots()
    picture = ds.plot.fragments(ax=axes)
    assert picture.figure is axes.figure
    assert picture.svg.startswith("<svg")
