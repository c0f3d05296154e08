"""Pictures, the results of plot calls: text, and functions that render the drawing."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from lancekit._hooks import hooks
from lancekit._legible import clean
from lancekit.errors import InvalidArgumentError, NotOfferedError

_TEXT, _HTML = "text/plain", "text/html"
_WITHOUT = "Install matplotlib, or print the picture as text."


def draw(kind: str, subject: object, **how: object) -> Picture:
    """Return a picture of the given kind; a hook draws it."""
    picture: Picture = hooks.picture(kind, subject, **how)  # type: ignore[misc]
    return picture


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress matplotlib's warnings about missing glyphs and long names.

    Names are arbitrary, and browsers have other fonts.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """Drawing, with an equivalent text.

    A notebook shows the drawing; `print` shows `text`.  A terminal, or an installation without
    matplotlib, has only the text, which states the same facts.

    Attributes
    ----------
    alt
        A description of the drawing, in one or a few sentences.
    text
        The same facts as lines for terminals, logs and screen readers.
    figure
        matplotlib's figure, to change or save.  ``None`` if none was needed or possible, and
        in a picture from another process, which has its SVG.  With ``ax=`` it is the figure of
        the given axes.
    mermaid
        The source of a mermaid diagram, only for the graph of branches.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://picture-example")
    >>> print(ds.plot.graph())
    1 branch, 1 version of picture-example; newest first
    ● main:1  head, open here, create
    """

    alt: str
    text: str
    figure: Any = field(default=None, repr=False)
    mermaid: str | None = None
    render: Callable[[], str] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return self.text

    def __copy__(self) -> Picture:
        return self

    def __deepcopy__(self, _: object) -> Picture:
        return self  # only the figure can change, which belongs to the user

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle texts and the SVG: matplotlib's figures contain functions."""
        return _sent, (self.alt, self.text, self.mermaid, self.svg)

    @property
    def svg(self) -> str | None:
        """Drawing as an SVG element that adapts to light and dark surroundings.

        ``None`` if matplotlib is needed but missing.
        """
        return None if self.render is None else self.render()

    def png(self, dpi: int = 144) -> bytes:
        """Return the drawing as a PNG file with white background.

        Raises
        ------
        NotOfferedError
            There is no figure: the graph of branches is an SVG, and without matplotlib there is
            only text.
        """
        if self.figure is None:
            raise NotOfferedError(
                "This picture cannot be saved as PNG.",
                hint=_WITHOUT if self.render is None else "Save it as SVG.",
            )
        out = BytesIO()
        # no version number: equal facts give equal bytes
        metadata = {"Software": None, "Title": self.alt}
        with without_warnings():
            self.figure.savefig(out, format="png", dpi=dpi, metadata=metadata)
        return out.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing to a file: ``.svg``, ``.png``, ``.mmd`` (mermaid) or ``.txt``.

        Raises
        ------
        InvalidArgumentError
            The file name has another suffix.
        NotOfferedError
            The picture has no such form.
        """
        place = Path(path)
        kinds: dict[str, Callable[[], str | bytes | None]] = {
            ".svg": lambda: self.svg,
            ".png": self.png,
            ".mmd": lambda: self.mermaid,
            ".txt": lambda: self.text,
        }
        if place.suffix not in kinds:
            raise InvalidArgumentError(
                f"{place.name!r} is not a file name for a picture.",
                hint="Use a name that ends in .svg, .png, .mmd or .txt.",
                path=str(place),
            )
        drawing = kinds[place.suffix]()
        if drawing is None:
            raise NotOfferedError(f"This picture has no {place.suffix[1:]}.", hint=_WITHOUT)
        place.write_bytes(drawing if isinstance(drawing, bytes) else f"{drawing}\n".encode())

    def _repr_html_(self) -> str | None:
        return self._repr_mimebundle_().get(_HTML)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return text and drawing, for a notebook's output."""
        del include, exclude  # the notebook selects
        try:
            drawn = self.svg
        except Exception as error:  # a repr must neither raise nor vanish
            why = clean(f"{type(error).__name__}: {error}")
            return {_TEXT: f"{self.text}\n(the picture could not be drawn: {why})"}
        if drawn is None:
            return {_TEXT: self.text}
        # wide drawings can be scrolled, also by keyboard
        box = f'<div style="overflow-x:auto" tabindex="0">{drawn}</div>'
        return {_TEXT: self.text, _HTML: box}


def _sent(alt: str, text: str, mermaid: str | None, svg: str | None) -> Picture:
    render = None if svg is None else partial(str, svg)
    return Picture(alt=alt, text=text, mermaid=mermaid, render=render)
