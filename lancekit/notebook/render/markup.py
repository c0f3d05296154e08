"""Elements of HTML and SVG: every string in them is escaped that is not markup already."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

__all__ = ["Markup", "element", "joined", "sheet"]


class Markup(str):
    """A string that is markup already."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element.

    Attributes that are ``None`` or empty are left out; underscores of their names are dashes, and a
    trailing one is dropped.

    Examples
    --------
    >>> element("p", "a < b", element("b", "c"), class_="note", role="")
    '<p class="note">a &lt; b<b>c</b></p>'
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_said(value))}"'
        for key, value in attributes.items()
        if value not in {None, ""}
    )
    return Markup(f"<{name}{pairs}>{joined(*children)}</{name}>")


def joined(*children: str) -> Markup:
    """Return what stands one after the other."""
    return Markup("".join(c if isinstance(c, Markup) else escape(c, quote=False) for c in children))


def _said(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@cache
def sheet(package: str) -> str:
    """Return the rules of a package's ``style.css``, in one line."""
    return " ".join((files(package) / "style.css").read_text(encoding="utf-8").split())
