"""Renderers of cards: HTML without scripts or network access, and complete plain text."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import cut

#: the largest size of a card's HTML, whatever names it has
MAX_BYTES = 50_000
# (characters of a cell, whether its tooltip has the whole text); the first pair that fits is used
_SIZES = ((80, True), (80, False), (20, False))
#: longer cell texts are wrapped; times, identifiers and names are shorter
_WRAPPED = 40


def _style() -> Markup:
    return element("style", Markup(sheet("lancekit._notebook.render")))


def render_html(card: Card) -> str:
    """Render a card as one ``<div>`` that includes its style."""
    for most, hover in _SIZES:
        html = _card(card, most, hover)
        if len(html.encode()) <= MAX_BYTES:
            break
    return str(html)  # marimo sends texts of no other type


def render_note(text: str, role: str = "") -> str:
    """Render a line; ``role`` ``"status"`` or ``"alert"`` makes screen readers read it aloud."""
    return _bare(element("p", text, class_="note", role=role))


def render_code(text: str) -> str:
    """Render code for copying: one click selects the whole text."""
    return _bare(element("pre", element("code", text)))


def render_table(table: Table) -> str:
    """Render a single table outside of a card."""
    return _bare(_section(table, *_SIZES[0]))


def _bare(*children: str) -> str:
    return str(element("div", _style(), *children, class_="lancekit bare"))


def _card(card: Card, most: int, hover: bool) -> Markup:
    # "tag january created" needs no "Tag" before it
    kind = "" if card.title.lower().startswith(f"{card.kind.lower()} ") else card.kind
    head = (element("span", kind, class_="kind"), " ") if kind else ()
    return element(
        "div",
        _style(),
        element(
            "p",
            *head,
            element("b", card.title),
            *(f" · {part}" for part in card.headline),
            class_="head",
        ),
        _facts(card.facts),
        *(_section(table, most, hover) for table in card.tables),
        class_="lancekit",
        role="group",
        aria_label=f"{kind} {card.title}".strip(),
    )


def _facts(facts: tuple[Fact, ...]) -> Markup:
    if not facts:
        return Markup()
    pairs = (
        joined(
            element("dt", fact.label),
            element("dd", element("code", fact.value) if fact.code else fact.value),
        )
        for fact in facts
    )
    return element("dl", *pairs)


def _section(table: Table, most: int, hover: bool) -> Markup:
    note = element("p", table.note, class_="note") if table.note else Markup()
    if not (table.rows or any(column.detail for column in table.columns)):
        return joined(element("p", table.caption, class_="note"), note)
    if not table.folded:
        return joined(_table(table, most, hover), note)
    return element("details", element("summary", table.caption), _table(table, most, hover), note)


def _table(table: Table, most: int, hover: bool) -> Markup:
    head = (
        element("th", cut(c.title, most), _detail(c), scope="col", class_=_class(c))
        for c in table.columns
    )
    body = (_row(row, table.columns, most, hover) for row in table.rows)
    grid = element(
        "table",
        element("caption", table.caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    # users without a mouse scroll it by keys, so it must be focusable
    named = {"role": "group", "aria-label": cut(table.caption, 80)}
    return element("div", grid, class_="scroll", tabindex="0", **named)


def _row(row: Row, columns: tuple[Column, ...], most: int, hover: bool) -> Markup:
    # an empty first cell continues the row above and is no row header
    cells = (
        _cell(text, _class(column, place in row.marked), place == 0 and text != "", most, hover)
        for place, (text, column) in enumerate(zip(row.cells, columns, strict=True))
    )
    return element("tr", *cells, class_="quiet" if row.quiet else "")


def _cell(text: str, class_: str, first: bool, most: int, hover: bool) -> Markup:
    shown = cut(text, most)
    return element(
        "th" if first else "td",
        shown,
        scope="row" if first else "",
        class_=" ".join(filter(None, (class_, "long" if len(shown) > _WRAPPED else ""))),
        title=text if hover and shown != text else "",
    )


def _detail(column: Column) -> Markup:
    return element("small", column.detail) if column.detail else Markup()


def _class(column: Column, marked: bool = False) -> str:
    return " ".join(["number"] * column.numeric + ["marked"] * marked)


# ---- elements of HTML and SVG; every string that is not Markup is escaped


class Markup(str):
    """A string of markup that needs no escaping."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element with escaped children and attributes.

    Attributes that are ``None`` or empty are left out.  Underscores in names become dashes, and a
    trailing underscore is dropped.

    Examples
    --------
    >>> element("p", "a < b", element("b", "c"), class_="note", role="")
    '<p class="note">a &lt; b<b>c</b></p>'
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute_text(value))}"'
        for key, value in attributes.items()
        if value not in {None, ""}
    )
    return Markup(f"<{name}{pairs}>{joined(*children)}</{name}>")


def joined(*children: str) -> Markup:
    """Return the concatenated children; strings that are not `Markup` are escaped."""
    return Markup("".join(c if isinstance(c, Markup) else escape(c, quote=False) for c in children))


def _attribute_text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@cache
def sheet(package: str) -> str:
    """Return the content of a package's ``style.css`` in one line."""
    return " ".join((files(package) / "style.css").read_text(encoding="utf-8").split())


# ---- cards as text for terminals, logs and screen readers

_CELL = 48


def render_text(card: Card) -> str:
    """Render a card as text; the first line has the title and the headline."""
    lines = [" · ".join((card.title, *card.headline))]
    width = max((len(fact.label) for fact in card.facts), default=0)
    lines += [f"  {fact.label:<{width}}  {fact.value}" for fact in card.facts]
    for table in card.tables:
        lines += _text_table(table)
    return "\n".join(lines)


def render_line(card: Card) -> str:
    """Render a card as one line: its first line, important facts, and how to take it back."""
    facts = [f"{fact.label} {fact.value}" for fact in card.facts if fact.label in _IN_LINE]
    back = [f"{f.value} {_BACK[f.label]}" for f in card.facts if f.code and f.label in _BACK]
    return "; ".join((" · ".join((card.title, *card.headline)), *facts, *back))


#: by label of a fact: what its call does, in a line
_BACK = {"undo": "takes it back", "redo": "brings it back"}
#: the labels of facts that a line has, too
_IN_LINE = {
    *("unmerged rows", "quarantined", "merged earlier"),
    *("skipped", "kept", "not removed", "conflicts", "changed cells", "note"),
    *("added columns", "dropped columns", "renamed columns", "cast columns", "altered columns"),
}


def text_widths(table: Table) -> list[int]:
    """Return the widths of a table's columns in text."""
    return [max(map(len, cells)) for cells in zip(*_text_rows(table), strict=True)]


def _text_rows(table: Table) -> list[tuple[str, ...]]:
    details = tuple(column.detail for column in table.columns)
    head = [tuple(cut(column.title, _CELL) for column in table.columns)]
    head += [details] if any(details) else []
    return head + [tuple(cut(cell, _CELL) for cell in row.cells) for row in table.rows]


def _text_table(table: Table) -> list[str]:
    lines = [f"  {table.caption}"]
    if table.rows or any(column.detail for column in table.columns):
        widths = text_widths(table)
        lines += [_line(cells, widths, table.columns) for cells in _text_rows(table)]
    if table.note:
        lines.append(f"    {table.note}")
    return lines


def _line(cells: tuple[str, ...], widths: list[int], columns: tuple[Column, ...]) -> str:
    padded = (
        cell.rjust(width) if column.numeric else cell.ljust(width)
        for cell, width, column in zip(cells, widths, columns, strict=True)
    )
    return ("    " + "  ".join(padded)).rstrip()
