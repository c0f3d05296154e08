"""How cards are rendered: safe, small, stable, in both themes, the same facts as the text."""

import html
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.cards import card
from lancekit._notebook.render.html import (
    MAX_BYTES,
    render_code,
    render_html,
    render_note,
    render_text,
)
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import cut
from tests.notebook.conftest import NOW
from tests.support.cards import show_html, show_text

TAGS = {"div", "style", "p", "span", "b", "dl", "dt", "dd", "pre", "code", "details", "summary"}
TAGS |= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"class", "role", "aria-label", "scope", "tabindex", "title"}
CSS = (files("lancekit._notebook.render") / "style.css").read_text(encoding="utf-8")
HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</style></div><b>&amp;",
    "\x1b[2J\x07\r\nnext",
    "a\u202egnp_exe",
    "${x} {{ y }} %s {0}",
]


class Reader(HTMLParser):
    """Reads elements, attributes and text; the style apart."""

    def __init__(self, markup):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], []
        self.feed(markup)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        assert {name for name, _ in attrs} <= ATTRIBUTES
        self.open.append(tag)
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)


def strings(shown):
    """Return every string of a model."""
    yield from (shown.title, *shown.headline)
    for fact in shown.facts:
        yield from (fact.label, fact.value)
    for table in shown.tables:
        yield from (table.caption, table.note, *(c.title for c in table.columns))
        for row in table.rows:
            yield from row.cells


def test_text_and_html_say_the_same(shown):
    for value in shown.values():
        model = card(value, NOW)
        text, reader = render_text(model), Reader(render_html(model))
        said = "".join(reader.texts)
        for string in strings(model):
            assert cut(string, 48).rstrip("…") in text
            assert cut(string, 80).rstrip("…") in said


def test_markup_is_accessible(shown):
    for value in shown.values():
        elements = Reader(show_html(value, NOW)).elements
        counts = {tag: sum(e == tag for e, _ in elements) for tag in TAGS}
        assert counts["caption"] == counts["table"]
        assert counts["style"] == 1
        assert counts["summary"] == counts["details"]
        assert all(attrs["scope"] in {"row", "col"} for tag, attrs in elements if tag == "th")
        assert elements[0][1]["aria-label"]


def test_a_row_that_goes_on_with_the_one_above_has_no_empty_header():
    rows = (Row(("4", "price")), Row(("", "name")))
    table = Table(caption="Newest first", columns=(Column("version"), Column("column")), rows=rows)
    html = render_html(Card(kind="History", title="of a row", headline=(), tables=(table,)))
    assert '<tr><th scope="row">4</th><td>price</td></tr><tr><td></td><td>name</td></tr>' in html


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_names(evil, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = re.sub(r"[/\\]", "_", evil.replace("\x00", "")) + ".lance"
    data = pa.table({evil: pa.array([1, 2]), f"{evil} key": pa.array(["a", "b"])})
    lk.write_dataset(
        data, tmp_path / "sent", primary_key=f"{evil} key", commit_message=f"{evil} message"
    )
    ds = lk.dataset((tmp_path / "sent").rename(tmp_path / folder))
    # names that lancekit would refuse, made by somebody else
    refs = tmp_path / folder / "_refs" / "tags"
    refs.mkdir(parents=True)
    tag = {"branch": None, "version": 1, "manifestSize": 1, "metadata": {}}
    (refs / (folder.removesuffix(".lance") + ".json")).write_text(json.dumps(tag))
    merge = ds.merge_insert(f"{evil} key").when_matched_update_all().execute(data)
    for value in (ds.checkout_version(1), ds.versions(), ds.versions()[0], ds.tags, merge):
        markup, text = show_html(value, NOW), show_text(value, NOW)
        Reader(markup)
        assert "<script" not in markup
        assert "<img" not in markup
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text + markup)
        assert "could not be drawn" not in repr(value)
    assert len(show_text(ds.tags, NOW).splitlines()) == 4


def test_quotes_are_escaped_in_text_and_attributes():
    evil = "\"'<&>" * 50
    row = Row((evil, evil))
    table = Table(caption=evil, columns=(Column(evil), Column(evil)), rows=(row,), note=evil)
    model = Card(
        kind=evil, title=evil, headline=(evil,), facts=(Fact(evil, evil),), tables=(table,)
    )
    markup = render_html(model)
    reader = Reader(markup)
    assert evil in "".join(reader.texts)
    titles = [attrs["title"] for _, attrs in reader.elements if "title" in attrs]
    assert titles == [evil, evil]
    assert html.unescape(html.escape(evil)) == evil


def test_no_output_is_too_large():
    evil = '"' * 400
    table = Table(
        caption="worst", columns=(Column("a"),) * 5, rows=(Row((evil,) * 5),) * 20, note=evil
    )
    model = Card(kind="x", title=evil, headline=(), facts=(Fact(evil, evil),), tables=(table,))
    assert len(render_html(model).encode()) <= MAX_BYTES
    assert "title=" not in render_html(model)


def test_cards_are_small(shown):
    for value in shown.values():
        assert len(show_html(value, NOW).encode()) < 10_000


def test_the_same_input_gives_the_same_bytes(ds):
    for value, again in ((ds, lk.dataset("people.lance")), (ds.versions(), ds.versions())):
        assert show_html(value, NOW) == show_html(again, NOW)
        assert show_text(value, NOW) == show_text(again, NOW)


def test_credentials_are_never_shown():
    options = {"aws_secret_access_key": "SECRET"}
    place = "memory://KEY@bucket/people.lance"
    ds = lk.write_dataset({"x": [1]}, place, storage_options=options)
    for shown in (show_text(ds, NOW), show_html(ds, NOW)):
        assert "SECRET" not in shown
        assert "KEY" not in shown
        assert "memory://***@bucket/people.lance" in shown


# ---- style


def test_the_style_is_small_and_stays_at_home():
    assert len(CSS) < 5500
    plain = re.sub(r"@media[^{]*\{(.*?\})\s*\}", r"\1", CSS, flags=re.DOTALL)
    selectors = re.findall(r"([^{}]+)\{", plain)
    assert len(selectors) > 10
    for selector in ",".join(selectors).split(","):
        assert selector.strip().startswith(".lancekit"), selector
    for word in ("url(", "@import", "@font-face", ":root", "position", "http", "</"):
        assert word not in CSS


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(theme):
    palette = dict(re.findall(rf"--{theme}-(\w+): (#[0-9a-f]{{6}})", CSS))
    for name in ("text", "quiet", "accent"):
        assert contrast(palette[name], palette["ground"]) >= 4.5
    # every colour comes from the host if it has one, and has a value of our own
    for name in palette:
        assert f"--own-{name}: var(--{theme}-{name})" in CSS
        assert re.search(
            rf"--{name}: var\(--jp-[a-z0-9-]+, var\(--vscode-[a-zA-Z-]+, var\(--own-{name}\)\)\);",
            CSS,
        )


def test_colour_is_not_all_that_tells_quiet_rows_apart(ds):
    import lance

    lance.dataset("people.lance").update_config({"a.b": "c"})
    markup = show_html(ds.versions(), NOW)
    (quiet,) = re.findall(r'<tr class="quiet">(.*?)</tr>', markup)
    assert ">change config<" in quiet
    assert ">±0<" in quiet
    assert re.search(r"tbody \.quiet td \{[^}]*font-style: italic", CSS)
    assert re.search(r"change config +\d+ +±0", show_text(ds.versions(), NOW))


def test_an_index_is_named(ds):
    import lance

    lance.dataset("people.lance").create_scalar_index("name", "BTREE", name="by_name")
    ds.checkout_latest()
    assert ds.index_columns == {"by_name": ("name",)}
    assert re.search(r"by_name \(name: BTree, \d+ rows\)", show_text(ds, NOW))
    assert "create index" in show_text(ds.versions(), NOW)


@pytest.mark.parametrize("text", HOSTILE)
def test_notes_and_code_are_safe(text):
    for markup in (render_note(text, role="alert"), render_code(text)):
        assert text in "".join(Reader(markup).texts)


def test_a_head_does_not_repeat_the_kind():
    tag = render_html(Card(kind="Tag", title="tag x created", headline=()))
    assert '<p class="head"><b>tag x created</b></p>' in tag
    assert 'aria-label="tag x created"' in tag
    assert 'class="kind">Tag</span>' in render_html(Card(kind="Tag", title="tagged", headline=()))
