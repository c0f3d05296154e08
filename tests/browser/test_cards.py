"""Cards in Chromium: in both themes, narrow and wide, by eye, by keys and for screen readers."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from lancekit._notebook.render.html import render_html
from lancekit._notebook.render.models import Card, Column, Row, Table
from lancekit._notebook.tables import table_html
from tests.browser.conftest import BARE, JUPYTER, MARIMO, asked_by, violations
from tests.notebook.conftest import NOW
from tests.support.cards import show_html
from tests.support.looks import KEPT, compare, differ, reduced
from tests.support.page_faults import faint, out_of_reach

pytestmark = pytest.mark.browser

#: boxes whose text is cut off, or that stand out of the page; what scrolls is asked to
_STANDS_OUT = """() => [...document.querySelectorAll('.lancekit, .lancekit *')]
    .filter(one => !one.closest('.scroll') && one.getBoundingClientRect().right > innerWidth + 1)
    .map(one => one.outerHTML.slice(0, 120))"""


@pytest.fixture
def cards(shown):
    """All cards as HTML, one below the other."""
    made = [show_html(value, NOW) for value in shown.values()]
    assert len(made) > 40
    return "\n<hr>\n".join(made)


@pytest.mark.cover
@pytest.mark.parametrize("around", [JUPYTER, BARE], ids=["jupyter", "bare"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_fault_in_any_card(cards, opened, theme, around):
    with opened(cards, theme, 400, around) as page:
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert violations(page) == []


@pytest.mark.parametrize("width", [400, 1400])
def test_no_card_is_wider_than_the_page(cards, opened, width):
    with opened(cards, "light", width) as page:
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert page.evaluate(_STANDS_OUT) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_short_values_keep_one_line_and_wide_tables_use_the_page(opened):
    """A timestamp that wrapped made rows of 75 px, also where it was off screen."""
    texts = ("2013-01-01T10:00:00.123456Z", "N14228", "word " * 15)
    columns = tuple(Column(f"column {at}") for at in range(9))
    wide = Table(caption="Rows", columns=columns, rows=(Row(texts[:2] * 4 + texts[:1]),))
    prose = Table(caption="Words", columns=columns[:1], rows=(Row(texts[2:]),))
    card = Card(kind="Rows", title="wide", headline=("x " * 200,), tables=(wide, prose))
    for width in (400, 1400):
        with opened(render_html(card), "light", width) as page:
            row, words = (page.locator("tbody tr").nth(at).bounding_box() for at in (0, 1))
            assert row["height"] < 25
            assert 25 < words["height"] < 80
            box = page.locator(".lancekit").bounding_box()
            assert 380 < box["width"] <= 400 if width == 400 else 1000 < box["width"] < 1390
            assert page.locator(".head").bounding_box()["width"] < 800  # prose does not stretch
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = Card(kind="Rows", title="small", headline=())
    with opened(render_html(small)) as page:
        assert 800 < page.locator(".lancekit").bounding_box()["width"] < 820


def test_what_is_faint_or_out_of_reach_is_found(opened):
    """Else the tests that find none, here and in JupyterLab, could not fail."""
    wide = '<p style="width: 900px">wide</p>'
    body = (
        '<section><p style="color: #999">pale</p><p style="color: #595959">not pale</p>'
        '<div style="background: #888"><p>on <b style="color: #777">grey</b></p></div>'
        f'<div style="overflow: auto">{wide}</div><div style="overflow: auto" tabindex="0">{wide}'
        "</div></section>"
    )
    with opened(body, "light", 400, BARE) as page:
        assert [words for words, _ in faint(page, "section")] == ["pale", "grey"]
        found = out_of_reach(page, "section")
        assert len(found) == 2  # what scrolls by the mouse alone, and what is in it
        assert "tabindex" not in "".join(found)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_cards_are_as_dark_as_marimo_whatever_the_system_is(cards, opened, theme):
    with opened(cards, theme, 400, MARIMO) as page:
        page.emulate_media(color_scheme="light" if theme == "dark" else "dark")
        grounds = "all => [...new Set(all.map(one => getComputedStyle(one).backgroundColor))]"
        shown = page.locator(".lancekit:not(.bare)").evaluate_all(grounds)
        assert shown == [{"light": "rgb(255, 255, 255)", "dark": "rgb(22, 27, 34)"}[theme]]
        assert faint(page, "main") == []


@pytest.mark.cover
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_of_each_card_is_read_by_keys_alone(cards, opened, theme, width):
    """Folds open by Enter, what is wider than its card scrolls by arrows, and nothing moves."""
    with opened(cards, theme, width) as page:
        page.emulate_media(reduced_motion="reduce")
        keys, stops = page.keyboard, []
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = false })")
        every = page.locator("summary, [tabindex='0']").count()
        while (stop := _next_stop(page)) and len(stops) <= every:
            stops.append(stop)
            if stop["folds"]:
                keys.press("Enter")
                assert page.evaluate("document.activeElement.parentElement.open"), stop
            if stop["hidden"]:
                keys.press("ArrowRight")
                page.wait_for_function("document.activeElement.scrollLeft > 0")
            assert stop["outline"] != "none", stop
        assert len(stops) == every > 30
        assert page.locator("details:not([open])").count() == 0
        assert out_of_reach(page, "main") == []
        moving = (
            "one => ['transitionDuration', 'animationName'].map(at => getComputedStyle(one)[at])"
        )
        kinds = f"all => [...new Set(all.flatMap({moving}))].sort()"
        assert page.locator(".lancekit, .lancekit *").evaluate_all(kinds) == ["0s", "none"]


_STOP = """() => {
    const one = document.activeElement;
    return one === document.body ? null : {
        html: one.outerHTML.slice(0, 120), folds: one.matches('summary'),
        hidden: one.scrollWidth > one.clientWidth + 1 && one.matches('[tabindex="0"]'),
        outline: getComputedStyle(one).outlineStyle,
    };
}"""


def _next_stop(page):
    """Return where Tab goes; ``None`` after the last."""
    page.keyboard.press("Tab")
    return page.evaluate(_STOP)


def test_cards_are_readable_where_styles_are_taken_away(cards, opened):
    """As on GitHub, and where only some elements and attributes are let through."""
    stripped = re.sub(r"<style>.*?</style>", "", cards, flags=re.DOTALL)
    stripped = re.sub(r' (class|style)="[^"]*"', "", stripped)
    with opened(stripped, "light", 400, BARE) as page:
        text = page.inner_text("main")
        for said in ("people.lance", "main:4", "Schema", "committed", "reproduce", "key"):
            assert said in text
        assert page.evaluate("document.querySelectorAll('table th').length") > 50


def test_a_card_asks_nobody(cards, opened):
    assert asked_by(cards, opened) == []
    assert "<script" not in cards


@pytest.mark.parametrize(
    ("name", "theme"),
    [
        ("dataset", "light"),
        ("dataset", "dark"),
        ("history", "light"),
        ("merge plan", "dark"),
        ("failure", "light"),
    ],
)
def test_cards_look_as_they_did(shown, opened, tmp_path, name, theme):
    with opened(show_html(shown[name], NOW), theme, 800) as page:
        compare(f"card-{name}-{theme}".replace(" ", "-"), page.locator(".lancekit"), tmp_path)


def test_a_card_that_looks_otherwise_is_told(ds, opened):
    with opened(show_html(ds, NOW), "light", 800) as page:
        card = page.locator(".lancekit")
        before, again = (np.asarray(reduced(card.screenshot())) for _ in range(2))
        assert differ(before, again) == ""
        changes = (
            "background: #eee",
            "font-size: 15px",
            "padding: 20px",
            "filter: hue-rotate(60deg)",
        )
        for change in changes:
            page.evaluate(f"document.querySelector('.lancekit').style = '{change}'")
            assert differ(before, np.asarray(reduced(card.screenshot()))), change


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.png")), ids=lambda path: path.stem)
def test_a_wrong_colour_of_what_is_kept_is_told_and_a_moved_edge_is_not(path):
    image = pytest.importorskip("PIL.Image")
    right = image.open(path).convert("RGB")
    hue, *others = right.convert("HSV").split()
    for turn in (30, 64, 128):  # of 256
        turned = image.merge("HSV", (hue.point(lambda at, by=turn: (at + by) % 256), *others))
        assert differ(np.asarray(right), np.asarray(turned.convert("RGB"))) != ""
    pixels = np.asarray(right).astype(float)
    for axis in (0, 1):  # by one of the four pixels that have become one
        moved = 0.75 * pixels + 0.25 * np.roll(pixels, 1, axis)
        assert differ(pixels, moved) == ""


@pytest.mark.cover
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("around", [JUPYTER, BARE], ids=["jupyter", "bare"])
def test_tables_of_arrow_are_read_by_eye_by_keys_and_by_screen_readers(
    opened, theme, width, around
):
    nasty = {"<b>id</b>": [1, 2], "text": ["<script>x()</script>" * 9, None], "l": [[1] * 99, []]}
    tables = [
        pa.table(nasty),
        pa.table(nasty).slice(0, 0),
        pa.table({}),
        pa.table({f"column {at}": range(30) for at in range(50)}),
    ]
    with opened("".join(map(str, map(table_html, tables))), theme, width, around) as page:
        assert violations(page) == []
        assert page.evaluate(_STANDS_OUT) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("script, table b").count() == 0
        assert "10 of 30 rows; 30 more columns" in page.inner_text("main")
        assert out_of_reach(page, "main") == []
