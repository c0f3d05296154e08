"""Pictures in Chromium: readable in both themes, narrow and wide, and where drawings are not."""

from __future__ import annotations

import re

import pytest

import lancekit as lk
from tests.browser.conftest import BARE, JUPYTER, VSCODE, asked_by, violations
from tests.notebook.pictures.support import keyed, merged
from tests.support.looks import compare
from tests.support.page_faults import faint

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Every picture by its name, of data that has something to be drawn for each."""
    folder = tmp_path_factory.mktemp("pictures")
    ds = merged(folder / f"{'long ' * 10}.lance")
    ds.tags.create("two", 2)
    ds.delete("id = 12")
    ds.update({"v": "v + 7"}, where="id < 13")
    ds.create_scalar_index("v", "BTREE")
    for start, number in ((100, 30), (120, 400)):
        keyed(ds, range(start, start + number))
    logs = lk.write_dataset({"id": [0], "v": [0]}, folder / "logs.lance", primary_key="id")
    logs.initialize_mem_wal(unsharded=True)
    for shard, number in enumerate((40, 3)):
        with logs.mem_wal_writer(f"0000000{shard}-0000-0000-0000-000000000007") as writer:
            writer.put({"id": range(number), "v": [1] * number})
    made = {
        "history": ds.plot.history(),
        "graph": ds.plot.graph(clones=[lk.dataset(folder / "clone.lance")]),
        "fragments": ds.plot.fragments(),
        "columns": ds.plot.columns("two"),
        "diff": ds.diff("two").plot(),
        "key filters": ds.plot.key_filters(),
        "mem wal": logs.plot.mem_wal(),
    }
    assert set(made) == {name.replace("_", " ") for name in dir(ds.plot) if name[0] != "_"} | {
        "diff"
    }
    return made


@pytest.fixture(scope="module")
def page_of(drawn):
    """All of them as HTML, one below the other."""
    return "\n<hr>\n".join(picture._repr_html_() for picture in drawn.values())


@pytest.mark.cover
@pytest.mark.parametrize("around", [JUPYTER, VSCODE, BARE], ids=["jupyter", "vscode", "bare"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_have_no_fault_and_their_text_stands_out(page_of, opened, theme, around):
    with opened(page_of, theme, 400, around) as page:
        assert violations(page, inside="main") == []
        assert faint(page, "main") == []
        assert page.evaluate("document.querySelectorAll('svg text').length") > 60


def test_a_picture_is_as_its_page_is_where_the_system_is_not(page_of, opened):
    with opened(page_of, "dark") as page:
        page.emulate_media(color_scheme="light")
        assert faint(page, "main") == []


@pytest.mark.parametrize("width", [400, 1400])
def test_no_picture_is_wider_than_the_page(page_of, opened, width):
    with opened(page_of, "light", width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = page.locator("main > div")
        for place in range(boxes.count()):
            box = boxes.nth(place)
            box.focus()  # what does not fit is scrolled by keys
            page.keyboard.press("ArrowRight")
            hidden = box.evaluate("one => one.scrollWidth - one.clientWidth")
            assert hidden == 0 if width == 1400 else hidden < 60
            if hidden > 1:
                page.wait_for_function(
                    "place => document.querySelectorAll('main > div')[place].scrollLeft > 0",
                    arg=place,
                )


def test_who_does_not_see_a_picture_is_told(drawn, page_of, opened):
    with opened(page_of) as page:
        for picture in drawn.values():
            assert page.get_by_role("img", name=picture.alt, exact=True).count() == 1


def test_no_text_of_a_picture_is_cut_off(page_of, opened):
    """By the font that is there, which is not the one that was measured with."""
    with opened(page_of) as page:
        outside = """() => [...document.querySelectorAll('.lancekit-picture text')].filter(one => {
            const box = one.getBoundingClientRect();
            const all = one.ownerSVGElement.getBoundingClientRect();
            return box.left < all.left - 1 || box.right > all.right + 1
                || box.top < all.top - 1 || box.bottom > all.bottom + 1;
        }).map(one => one.textContent)"""
        assert page.evaluate(outside) == []


def test_pictures_say_what_they_show_where_drawings_are_taken_away(drawn, page_of, opened):
    """As on GitHub: what is not let in goes, and the words in it stay."""
    stripped = re.sub(r"<style>.*?</style>", "", page_of, flags=re.DOTALL)
    stripped = re.sub(r"</?(?!div|hr)[a-zA-Z]+[^>]*>", " ", stripped)
    stripped = re.sub(r"<(div|hr)[^>]*>", r"<\1>", stripped)
    with opened(stripped, "light", 400, BARE) as page:
        text = " ".join(page.inner_text("main").split())
    for picture in drawn.values():
        title, _, shows = picture.alt.partition(". ")
        assert title in text
        assert shows in text


def test_a_picture_asks_nobody(page_of, opened):
    assert asked_by(page_of, opened) == []
    assert "<script" not in page_of


@pytest.mark.parametrize(
    ("name", "theme"),
    [("history", "light"), ("graph", "dark"), ("fragments", "light"), ("columns", "dark")],
)
def test_pictures_look_as_they_did(drawn, opened, tmp_path, name, theme):
    with opened(drawn[name]._repr_html_(), theme, 800) as page:
        compare(f"picture-{name}-{theme}", page.locator("svg"), tmp_path)
