"""What all drawings in SVG have in common."""

from __future__ import annotations

from lancekit.notebook.render.markup import Markup, element, sheet

__all__ = ["picture", "width_of"]

#: nothing is narrower on a small screen: beyond it a drawing is scrolled, not shrunk
_LEAST = 420


def picture(title: str, alt: str, size: tuple[float, float], *inside: Markup) -> str:
    """Return a whole drawing: its title and description first, for who does not see it."""
    width, height = size
    return element(
        "svg",
        element("title", title),
        element("desc", alt),
        element("style", Markup(sheet("lancekit.notebook.pictures"))),
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
