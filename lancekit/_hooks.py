"""What upper rooms do for lower ones: the package's roof fills this in when lancekit is imported.

A lower room knows the name and the signature, and not who does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hooks:
    """Functions of upper rooms by what they do; ``None`` as long as nobody does it."""

    #: ``card(value, *kinds)`` returns the card of a value as each of some MIME types, by these
    card: Callable[..., dict[str, str]] | None = None
    #: ``failure(error)`` returns the lines that IPython prints of an error
    failure: Callable[[BaseException], list[str]] | None = None
    #: ``interactive(kind, ...)`` returns what is interactive; kinds are names that the roof knows
    interactive: Callable[..., Any] | None = None
    #: ``picture(kind, subject, **how)`` returns the picture of something
    picture: Callable[..., Any] | None = None
    #: ``bar(wanted)`` returns what draws progress, if anything does; ``wanted`` says whether a bar
    #: is to be drawn where nobody may be looking
    bar: Callable[[bool], Callable[[Any], None] | None] | None = None
    #: each returns what it knows of where code runs, a `Provenance`, or ``None``
    finders: tuple[Callable[[], Any], ...] = ()
    #: how work gets to Spark: a `pipeline.engine.engine.Engine`
    spark: Any = None
    #: the modules that hold kernels which can be compiled
    kernels: tuple[str, ...] = ()


hooks = Hooks()
