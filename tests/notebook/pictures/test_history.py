"""The picture of a history."""

import struct
from functools import partial

import pytest

import lancekit as lk
from lancekit._notebook.render.html import MAX_BYTES
from tests.notebook.conftest import rows
from tests.notebook.pictures.support import numbered, parsed, words


def test_the_picture_says_in_words_what_it_shows(ds):
    assert ds.plot.history().alt == (
        "History of people.lance. main: 4 versions, 3 to 5 rows; tag five at 2. "
        "trial/one: 1 version, forked from main:2, 5 to 5 rows."
    )
    text = ds.plot.history().text
    for part in ("4 versions", "3 to 5", "five at 2", "1 append", "1 delete"):
        assert part in text


def test_the_picture_is_a_figure(ds):
    picture = ds.plot.history()
    png = picture.png(dpi=100)
    assert struct.unpack(">2I", png[16:24])[0] == 620
    assert ds.plot.history().png(dpi=100) == png
    assert len(picture.figure.axes) == 3
    said = words(parsed(picture))
    for part in ("rows", "version", "main", "trial/one", "▸five", "append", "update"):
        assert part in said
    assert ds.plot.history().svg == ds.plot.history().svg
    assert len(picture._repr_html_()) < MAX_BYTES


def test_the_highest_marker_is_not_cut(tmp_path):
    ds = lk.write_dataset(rows(*range(30)), tmp_path / "flat.lance")
    ds.insert(rows(30))
    for axes in ds.plot.history().figure.axes[:2]:
        highest = max(max(line.get_ydata()) for line in axes.lines)
        assert highest * 1.1 < axes.get_ylim()[1] < highest * 1.2


def test_every_handle_gives_the_same_picture(ds):
    alt = ds.plot.history().alt
    assert ds.checkout_version(1).plot.history().alt == alt
    assert lk.plot_history(ds.checkout_version(("trial/one", None))).alt == alt


def test_the_newest_versions_of_the_first_branches_are_drawn(ds):
    for i in range(8):
        ds.create_branch(f"b{i}", 4)
    alt = lk.plot_history(ds, limit=2).alt
    assert "main: 2 of 4 versions, 4 to 5 rows." in alt
    assert alt.endswith("4 more branches.")
    assert "tag five" not in alt


def test_versions_are_spread_over_a_long_history(tmp_path):
    ds = numbered(tmp_path / "long.lance", 900)
    newest, spread = (ds.plot.history(limit=20, spread=s).alt for s in (False, True))
    assert "20 of 900 versions, 2 to 2 rows" in newest
    assert "20 of 900 versions, 1 to 2 rows" in spread
    with pytest.raises(lk.errors.InvalidArgumentError, match="limit"):
        ds.plot.history(limit=-1)


@pytest.mark.parametrize("over", ["version", "time"])
def test_the_users_axes(ds, over):
    from matplotlib.figure import Figure

    figure = Figure(facecolor="#111111")
    one, other = figure.subplots(2, 1, subplot_kw={"facecolor": "#222222"})
    assert ds.plot.history(ax=one, over=over).figure is figure
    picture = ds.plot.history(ax=[one, other], show=["bytes", "operations"], over=over)
    assert picture.figure is figure
    assert one.get_title(loc="left") == "size of data files"
    assert figure.get_facecolor()[0] < 0.1
    assert "fill: #111111" in picture.svg  # it is theirs: its colours stay
    assert "var(--c0)" not in picture.svg.partition("</style>")[2]
    assert one.lines[0].get_color() == "#79b8ff"  # and ours can be read on it


def test_names_are_not_formulas():
    ds = lk.write_dataset(rows(1), "memory://cost$x^2$ $")
    assert "History of cost$x^2$ $" in words(parsed(ds.plot.history()))


def test_panels_are_checked(ds):
    with pytest.raises(lk.errors.InvalidArgumentError, match="show"):
        ds.plot.history(show=["cats"])
    with pytest.raises(lk.errors.InvalidTypeError, match="show"):
        ds.plot.history(show="rows")


@pytest.mark.parametrize("limit", [0, -1, None, True, 1.5, "3"])
def test_limits_that_are_none(ds, limit):
    for draw in (ds.plot.history, partial(lk.plot_history, ds)):
        with pytest.raises(ValueError, match=r"^limit must be ") as caught:
            draw(limit=limit)
        assert isinstance(caught.value, lk.errors.InvalidArgumentError)
    assert ds.plot.history(limit=10**30).alt == ds.plot.history(limit=10).alt


def test_lists_that_are_none(ds):
    for clones in (0, True, None, "d", [1]):
        with pytest.raises(ValueError, match=r"^clones ") as caught:
            ds.plot.graph(clones=clones)
        assert isinstance(caught.value, lk.errors.InvalidTypeError)
    for columns in ("x", 3):
        with pytest.raises(lk.errors.InvalidTypeError, match=r"^columns "):
            ds.plot.columns(1, columns=columns)
