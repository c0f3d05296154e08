import struct

import pytest

import lancekit as lk
from lancekit.notebook.html import MAX_BYTES
from lancekit.notebook.plots import _LOOKS
from tests.notebook.conftest import rows
from tests.notebook.test_html import contrast


def test_the_picture_says_in_words_what_it_shows(ds):
    picture = lk.plot_history(ds)
    assert repr(picture) == picture.alt
    assert picture.alt == (
        "History of people.lance. main: 4 versions, 3 to 5 rows; tag five at 2. "
        "trial/one: 1 version, forked from main:2, 5 to 5 rows."
    )


def test_the_picture_is_a_figure(ds):
    picture = lk.plot_history(ds)
    png = picture.png()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">2I", png[16:24])[0] == 880
    assert lk.plot_history(ds).png() == png
    rows_axes, lines_axes = picture.figure.axes
    assert rows_axes.get_ylabel() == "rows"
    assert [t.get_text() for t in lines_axes.get_yticklabels()] == ["main", "trial/one"]
    assert "▸five" in [t.get_text() for t in lines_axes.texts]


def test_the_picture_has_an_alternative_text(ds):
    markup = lk.plot_history(ds)._repr_html_()
    assert f'alt="{lk.plot_history(ds).alt}"' in markup
    assert len(markup) < MAX_BYTES


def test_every_handle_gives_the_same_picture(ds):
    alt = lk.plot_history(ds).alt
    assert lk.plot_history(ds.checkout_version(1)).alt == alt
    assert lk.plot_history(ds.checkout_version(("trial/one", None))).alt == alt


def test_the_newest_versions_of_the_first_branches_are_drawn(ds):
    for i in range(8):
        ds.create_branch(f"b{i}", 4)
    alt = lk.plot_history(ds, limit=2).alt
    assert "main: 2 versions, 4 to 5 rows." in alt
    assert alt.endswith("4 more branches.")
    assert "tag five" not in alt


def test_names_are_not_formulas(ds):
    ds = lk.write_dataset(rows(1), "cost$x^2$ $.lance")
    assert lk.plot_history(ds).png()


@pytest.mark.parametrize("color", [look[0] for look in _LOOKS])
def test_colours_are_dark_enough(color):
    assert contrast(color, "#ffffff") >= 4.5


def test_lines_differ_without_colour():
    assert len({marker for _, marker, _ in _LOOKS}) == len(_LOOKS)
