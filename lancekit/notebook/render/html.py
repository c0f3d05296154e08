"""Cards as HTML: no script, no network, no identifiers; folding by ``<details>``.

Markup is built by `_element`, which escapes every string that is not markup already.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

from lancekit.notebook.render.models import Card, Column, Fact, Row, Table
from lancekit.notebook.render.words import cut

__all__ = ["MAX_BYTES", "render_code", "render_html", "render_note", "render_table"]

#: no output is larger, whatever the names in it are
MAX_BYTES = 50_000
# how long cells may be, and whether hovering shows cut ones whole: the first that is small enough
_SIZES = ((80, True), (80, False), (20, False))


class _Markup(str):
    """A string that is HTML already."""

    __slots__ = ()


def _element(name: str, *children: str, **attributes: str) -> _Markup:
    """Return an element; a trailing underscore of an attribute's name is dropped."""
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value
    )
    return _Markup(f"<{name}{pairs}>{_inside(*children)}</{name}>")


def _inside(*children: str) -> _Markup:
    return _Markup("".join(c if isinstance(c, _Markup) else escape(c) for c in children))


@cache
def _style() -> _Markup:
    css = (files("lancekit.notebook.render") / "style.css").read_text(encoding="utf-8")
    return _element("style", _Markup(" ".join(css.split())))


def render_html(card: Card) -> str:
    """Render a card as one ``<div>`` that brings its style along."""
    for most, hover in _SIZES:
        html = _card(card, most, hover)
        if len(html.encode()) <= MAX_BYTES:
            break
    return html


def render_note(text: str, role: str = "") -> str:
    """Render a line; ``role`` is ``"status"`` or ``"alert"`` where it is to be read aloud."""
    return _bare(_element("p", text, class_="note", role=role))


def render_code(text: str) -> str:
    """Render code to be copied: one click marks all of it."""
    return _bare(_element("pre", _element("code", text)))


def render_table(table: Table) -> str:
    """Render a table alone, for what is put together of several."""
    return _bare(_section(table, *_SIZES[0]))


def _bare(*children: str) -> _Markup:
    return _element("div", _style(), *children, class_="lancekit bare")


def _card(card: Card, most: int, hover: bool) -> _Markup:
    return _element(
        "div",
        _style(),
        _element(
            "p",
            _element("span", card.kind, class_="kind"),
            " ",
            _element("b", card.title),
            *(f" · {part}" for part in card.headline),
            class_="head",
        ),
        _facts(card.facts),
        *(_section(table, most, hover) for table in card.tables),
        class_="lancekit",
        role="group",
        aria_label=f"{card.kind} {card.title}",
    )


def _facts(facts: tuple[Fact, ...]) -> _Markup:
    if not facts:
        return _Markup()
    pairs = (
        _inside(
            _element("dt", fact.label),
            _element("dd", _element("code", fact.value) if fact.code else fact.value),
        )
        for fact in facts
    )
    return _element("dl", *pairs)


def _section(table: Table, most: int, hover: bool) -> _Markup:
    note = _element("p", table.note, class_="note") if table.note else _Markup()
    if not table.rows:
        return _inside(_element("p", table.caption, class_="note"), note)
    if not table.folded:
        return _inside(_table(table, most, hover), note)
    return _element("details", _element("summary", table.caption), _table(table, most, hover), note)


def _table(table: Table, most: int, hover: bool) -> _Markup:
    head = (_element("th", c.title, scope="col", class_=_class(c)) for c in table.columns)
    body = (_row(row, table.columns, most, hover) for row in table.rows)
    grid = _element(
        "table",
        _element("caption", table.caption),
        _element("thead", _element("tr", *head)),
        _element("tbody", *body),
    )
    # whoever has no mouse scrolls it by keys, and so has to reach it
    named = {"role": "group", "aria-label": cut(table.caption, 80)}
    return _element("div", grid, class_="scroll", tabindex="0", **named)


def _row(row: Row, columns: tuple[Column, ...], most: int, hover: bool) -> _Markup:
    cells = (
        _cell(text, _class(column, place in row.marked), place == 0, most, hover)
        for place, (text, column) in enumerate(zip(row.cells, columns, strict=True))
    )
    return _element("tr", *cells, class_="quiet" if row.quiet else "")


def _cell(text: str, class_: str, first: bool, most: int, hover: bool) -> _Markup:
    shown = cut(text, most)
    return _element(
        "th" if first else "td",
        shown,
        scope="row" if first else "",
        class_=class_,
        title=text if hover and shown != text else "",
    )


def _class(column: Column, marked: bool = False) -> str:
    return " ".join(["number"] * column.numeric + ["marked"] * marked)
