"""Check of arguments that allow a few texts."""

from __future__ import annotations

from collections.abc import Iterable

from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError


def check_choice(
    argument: str, value: object, choices: Iterable[str], *, or_else: str = "", **context: str
) -> None:
    """Raise an error unless a value is among the allowed texts.

    or_else: other allowed values, to be appended to the list of choices.

    >>> check_choice("by", "row", ("cell", "row"))
    >>> check_choice("by", "table", ("cell", "row"))
    Traceback (most recent call last):
    lancekit.errors.InvalidArgumentError: by must be 'cell' or 'row', got 'table'.
    """
    known = tuple(choices)
    if isinstance(value, str) and value in known:
        return
    from lancekit._guesses import choice_hint  # large, and needed only for errors

    *most, last = map(repr, known)
    listed = f"{', '.join(most)} or {last}" if most else last
    raise InvalidArgumentError(
        f"{argument} must be {listed}{or_else}, got {shown(value)}.",
        hint=choice_hint(argument, value, known),
        argument=argument,
        value=value,
        **context,
    )
