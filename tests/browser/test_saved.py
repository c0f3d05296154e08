"""Saved notebooks in Chromium: by nbconvert without a network, on GitHub, in VS Code."""

from __future__ import annotations

import copy
import re
from html import escape
from html.parser import HTMLParser

import pytest

from tests.browser.conftest import BARE, VSCODE, violations

pytestmark = pytest.mark.browser

CELLS = (
    "import lancekit as lk\n"
    "rows = {'id': [1, 2], 'name': ['one', 'two']}\n"
    "ds = lk.write_dataset(rows, 'saved.lance', primary_key='id')\n"
    "ds.insert({'id': [3], 'name': ['three']}, commit_message='<b>three</b>')\n"
    "ds",
    "ds.plot.history()",
    "ds.explore()",
    "ds.merge_insert('id').interactive({'id': [1, 9], 'name': ['new', 'nine']})",
)
#: what has to be read of each
SAID = (
    ("saved.lance", "main:2", "3 rows", "Schema"),
    ("History of saved.lance", "main: 2 versions"),
    ("Explorer", "versions", "<b>three</b>"),
    ("Merge plan", "1 to insert", "old → new"),
)
VIEW = "application/vnd.jupyter.widget-view+json"
#: what a site lets through that shows notebooks of others; of the rest, the words stay
_TAGS = {"div", "p", "span", "b", "code", "pre", "dl", "dt", "dd", "details", "summary"}
_TAGS |= {"table", "caption", "thead", "tbody", "tr", "th", "td"}


class Sanitised(HTMLParser):
    """Lets some elements through, none of their attributes, and no style."""

    def __init__(self, html):
        super().__init__()
        self.parts, self._silent = [], False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._silent |= tag in {"style", "script"}
        self.parts.append(f"<{tag}>" if tag in _TAGS else " ")

    def handle_endtag(self, tag):
        self._silent &= tag not in {"style", "script"}
        self.parts.append(f"</{tag}>" if tag in _TAGS else " ")

    def handle_data(self, data):
        if not self._silent:
            self.parts.append(escape(data))


@pytest.fixture(scope="module")
def notebooks(chromium, tmp_path_factory):
    """A notebook that was run: with its widgets' state and, as it is mostly saved, without."""
    client = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("saved"))}}
    client.NotebookClient(
        made,
        timeout=120,
        kernel_name="python3",
        resources=place,
        extra_arguments=["--log-level=ERROR"],
    ).execute()
    gone = copy.deepcopy(made)
    assert any("lancekit-panel" in str(one) for one in gone.metadata.pop("widgets").values())
    return {"kept": made, "gone": gone}


@pytest.fixture(scope="module")
def outputs(notebooks):
    """The HTML of each cell's output; widgets have it before them."""
    cells = notebooks["gone"].cells
    assert [[VIEW in one["data"] for one in cell.outputs] for cell in cells] == [
        [False], [False], [False, True], [False, True],
    ]  # fmt: skip
    assert [cell.outputs[1]["data"]["text/html"] for cell in cells[2:]] == ["", ""]
    return [cell.outputs[0]["data"]["text/html"] for cell in cells]


@pytest.mark.cover
@pytest.mark.parametrize("state", ["kept", "gone"])
@pytest.mark.parametrize("template", ["lab", "basic", "classic"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_notebook_is_converted_and_opened_without_a_network(
    notebooks, chromium, tmp_path, theme, template, state
):
    """What draws widgets is not there then, whether or not their state is."""
    export = pytest.importorskip("nbconvert").HTMLExporter(template_name=template, theme=theme)
    html, _ = export.from_notebook_node(notebooks[state])
    file = tmp_path / "saved.html"
    file.write_text(html, encoding="utf-8")
    page = chromium.new_page(viewport={"width": 1000, "height": 900})
    try:
        page.route(re.compile("^http"), lambda route: route.abort())
        page.goto(file.as_uri(), wait_until="domcontentloaded")
        read = [page.locator(".lancekit, .lancekit-picture").nth(n) for n in range(len(SAID))]
        for output, said in zip(read, SAID, strict=True):
            text = output.text_content()
            assert [word for word in said if word not in text] == []
            assert output.is_visible()
        for kind in (".lancekit", ".lancekit-picture"):
            assert violations(page, inside=kind) == []
    finally:
        page.close()


def test_what_a_site_lets_through_is_readable(outputs, opened):
    """As on GitHub: elements by a list, no attributes, no style, no drawing."""
    for output, said in zip(outputs, SAID, strict=True):
        with opened("".join(Sanitised(output).parts), "light", 400, BARE) as page:
            text = page.inner_text("main")
            assert [word for word in said if word not in text] == []
            assert "--" not in text  # no style that became words
            if "<table" in output:
                assert page.locator("th").count() > 2
            assert page.locator("b", has_text="three").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_outputs_are_readable_in_vs_code(outputs, opened, theme):
    with opened("<hr>".join(outputs), theme, 400, VSCODE) as page:
        page.emulate_media(color_scheme="light" if theme == "dark" else "dark")
        text = page.inner_text("main")
        assert [word for word in sum(SAID[2:], SAID[0]) if word not in text] == []
        assert violations(page, inside="main") == []
        colours = "one => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor]"
        shown = page.locator(".lancekit").first.evaluate(colours)
        expected = {
            "light": ["rgb(59, 59, 59)", "rgb(255, 255, 255)"],
            "dark": ["rgb(204, 204, 204)", "rgb(31, 31, 31)"],
        }
        assert shown == expected[theme]
