"""Pictures: what a call to draw gives.

A picture knows nothing of what it shows: it is words, and how to get the drawing.
"""

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
_WITHOUT = "Install matplotlib, or print the picture: its text says the same."


def draw(kind: str, subject: object, **how: object) -> Picture:
    """Return a picture of a kind; the roof knows who draws it."""
    picture: Picture = hooks.picture(kind, subject, **how)  # type: ignore[misc]
    return picture


@contextmanager
def without_warnings() -> Iterator[None]:
    """Let matplotlib say nothing of letters that its font lacks, nor of names that take much room.

    Names are anyone's, and the browser has other fonts.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """A drawing, and the words that stand for it where it cannot be seen.

    A notebook shows it; `print` shows `text`.  In a terminal, and where matplotlib is missing, the
    text is all there is, and says the same.

    Attributes
    ----------
    alt
        One or a few sentences: what the drawing shows.
    text
        The same facts in lines for terminals, logs and screen readers.
    figure
        matplotlib's figure, to change or save; ``None`` where none was needed, or none could be
        made, and in a picture that came from another process, which has its SVG.  With ``ax=`` it
        is the figure of the axes that were given.
    mermaid
        The source of a mermaid diagram, of the graph of branches alone.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://picture-example")
    >>> print(ds.plot.graph())
    1 line, 1 version of picture-example; heads first
    ● main:1  head, this handle, create
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
        return self  # no part of it is changed but the figure, which is the user's

    def __reduce__(self) -> tuple[object, ...]:
        """Send words and the SVG: figures of matplotlib's hold functions."""
        return _sent, (self.alt, self.text, self.mermaid, self.svg)

    @property
    def svg(self) -> str | None:
        """The drawing as one SVG element, light or dark as its surroundings are.

        ``None`` where matplotlib is needed and missing.
        """
        return None if self.render is None else self.render()

    def png(self, dpi: int = 144) -> bytes:
        """Return the drawing as a PNG file, on white.

        Raises
        ------
        NotOfferedError
            There is no figure: the graph of branches is an SVG, and without matplotlib there are
            only words.
        """
        if self.figure is None:
            raise NotOfferedError("This picture has no figure to make a PNG of.", hint=_WITHOUT)
        out = BytesIO()
        # without its own version number, so that the same facts give the same bytes
        metadata = {"Software": None, "Title": self.alt}
        with without_warnings():
            self.figure.savefig(out, format="png", dpi=dpi, metadata=metadata)
        return out.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing into a file: ``.svg``, ``.png``, ``.mmd`` (mermaid) or ``.txt``.

        Raises
        ------
        InvalidArgumentError
            The name ends in something else.
        NotOfferedError
            There is no drawing of that kind.
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
                f"A picture cannot be saved as {place.name!r}.",
                hint="The name ends in .svg, .png, .mmd or .txt.",
                path=str(place),
            )
        made = kinds[place.suffix]()
        if made is None:
            raise NotOfferedError(f"This picture has no {place.suffix[1:]}.", hint=_WITHOUT)
        place.write_bytes(made if isinstance(made, bytes) else f"{made}\n".encode())

    def _repr_html_(self) -> str | None:
        return self._repr_mimebundle_().get(_HTML)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what a notebook asks for at the end of a cell: the text, and the drawing."""
        del include, exclude  # the notebook picks
        try:
            drawn = self.svg
        except Exception as error:  # a repr must neither raise nor vanish
            why = clean(f"{type(error).__name__}: {error}")
            return {_TEXT: f"{self.text}\n(it could not be drawn: {why})"}
        if drawn is None:
            return {_TEXT: self.text}
        # wide drawings may be scrolled, by the keyboard, too
        box = f'<div style="overflow-x:auto" tabindex="0">{drawn}</div>'
        return {_TEXT: self.text, _HTML: box}


def _sent(alt: str, text: str, mermaid: str | None, svg: str | None) -> Picture:
    render = None if svg is None else partial(str, svg)
    return Picture(alt=alt, text=text, mermaid=mermaid, render=render)
