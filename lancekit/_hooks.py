"""Hooks: functions of upper rooms that lower rooms call; set when lancekit is imported.

A lower room depends on the name and the signature, but not on the implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hooks:
    """Functions of upper rooms; ``None`` until they are set."""

    #: ``card(value, *kinds)`` returns the card of a value by MIME type
    card: Callable[..., dict[str, str]] | None = None
    #: ``missing(owner, name, of)`` returns the error for an unknown name, with the line to use
    missing: Callable[[str, str, object], AttributeError] | None = None
    #: ``failure(error)`` returns the lines that IPython prints for an error
    failure: Callable[[BaseException], list[str]] | None = None
    #: ``interactive(kind, ...)`` returns a widget; `lancekit._wiring` lists the kinds
    interactive: Callable[..., Any] | None = None
    #: ``picture(kind, subject, **how)`` returns a picture of the subject
    picture: Callable[..., Any] | None = None
    #: ``bar(wanted)`` returns a function that draws progress, or ``None``; ``wanted`` is True to
    #: draw a bar even where nobody may be watching
    bar: Callable[[bool], Callable[[Any], None] | None] | None = None
    #: each returns a `Provenance` with its facts on where the code runs, or ``None``
    finders: tuple[Callable[[], Any], ...] = ()
    #: the Spark engine: a `lancekit._pipeline.engine.Engine`
    spark: Any = None
    #: modules with kernels that can be compiled
    kernels: tuple[str, ...] = ()


hooks = Hooks()
