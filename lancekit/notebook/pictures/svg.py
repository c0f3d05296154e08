"""SVG as text: elements whose strings are escaped, and what all drawings have in common."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

__all__ = ["Markup", "element", "picture", "width_of"]

#: nothing is narrower on a small screen: beyond it a drawing is scrolled, not shrunk
_LEAST = 420


class Markup(str):
    """A string that is SVG already."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element; underscores of attributes' names are dashes, a trailing one is dropped."""
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_said(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(c if isinstance(c, Markup) else escape(c, quote=False) for c in children)
    return Markup(f"<{name}{pairs}>{inside}</{name}>" if inside else f"<{name}{pairs}/>")


def _said(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@cache
def style() -> str:
    """Return the rules for both themes, which are scoped to the root's class."""
    css = (files("lancekit.notebook.pictures") / "style.css").read_text(encoding="utf-8")
    return " ".join(css.split())


def picture(title: str, alt: str, size: tuple[float, float], *inside: Markup) -> str:
    """Return a whole drawing: its title and description first, for who does not see it."""
    width, height = size
    return element(
        "svg",
        element("title", title),
        element("desc", alt),
        element("style", Markup(style())),
        element("rect", class_="ground", width=width, height=height),
        *inside,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        class_="lancekit-picture",
        role="img",
        aria_label=f"{title}. {alt}",
        style=f"max-width:100%;min-width:{min(width, _LEAST):g}px;height:auto",
    )


def width_of(text: str, size: float = 12) -> float:
    """Return about how wide a text is, a little more rather than less; wide letters count twice."""
    return size * sum(0.6 if ord(letter) < 0x2E80 else 1.1 for letter in text)
