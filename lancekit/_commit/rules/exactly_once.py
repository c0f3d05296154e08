"""A change that lands once, however often it is tried.

The mark is an entry of the table's config, put by the very version that holds the change: there is
no moment at which one is there without the other, and each later version carries the entry on,
whoever writes it and whatever is cleaned up.  A restore of an older version takes both back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lancekit.errors import FormatError, IncompatibleConflictError

__all__ = ["BatchMarker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMarker:
    """One of a series of changes, which are numbered upward.

    Attributes
    ----------
    key
        The key of the config under which the newest number of the series is kept.
    number
        This change's number.
    origin
        What gives the numbers out, if it is known: another one counts anew.
    """

    key: str
    number: int
    origin: str = ""

    @property
    def text(self) -> str:
        """The entry's value."""
        return f"{self.number} {self.origin}".rstrip()

    def newest(self, config: Mapping[str, str]) -> BatchMarker | None:
        """Return the newest change of the series that a version knows of."""
        text = config.get(self.key)
        if text is None:
            return None
        number, _, origin = text.partition(" ")
        if not number.isdecimal():
            raise FormatError(
                f"The table's config has {text!r} under {self.key!r}, which is not a number.",
                hint="Set it to the number of the last change, or delete it.",
            )
        return BatchMarker(key=self.key, number=int(number), origin=origin)

    def has_landed(self, config: Mapping[str, str]) -> bool:
        """Return whether a version holds this change, or a later one of the series."""
        newest = self.newest(config)
        return newest is not None and newest.number >= self.number

    def check_first(self, config: Mapping[str, str], version: int) -> None:
        """Raise ``IncompatibleConflictError`` if a version holds the change already."""
        if self.has_landed(config):
            raise IncompatibleConflictError(
                f"Change {self.number} of {self.key!r} has landed already, by version {version}.",
                hint="Another process made it at the same time: nothing is left to do.",
                version=version,
                number=self.number,
            )
