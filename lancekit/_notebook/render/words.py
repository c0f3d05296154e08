"""Formatting of numbers, sizes, times, locations and arbitrary strings for display."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from lancekit._legible import MAX_CHARACTERS, clean, count, cut, literal, plural, without_secrets

__all__ = [
    "age",
    "cell",
    "clean",
    "count",
    "cut",
    "is_relative",
    "key_text",
    "listing",
    "moment",
    "place",
    "plural",
    "share",
    "signed",
    "size",
]

_MINUS = "\u2212"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# (seconds below which the unit is used, seconds of the unit, its name)
_AGES = (
    (60, 1, "s"),
    (3600, 60, "min"),
    (2 * 86400, 3600, "h"),
    (60 * 86400, 86400, "days"),
    (730 * 86400, 30.44 * 86400, "months"),
    (float("inf"), 365.25 * 86400, "years"),
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def signed(number: int) -> str:
    """Return a difference with its sign; ``±0`` for 0."""
    if number == 0:
        return "±0"
    return ("+" if number > 0 else _MINUS) + count(abs(number))


def share(part: float) -> str:
    """Return a share between 0 and 1 in percent."""
    return f"{part:.1%}"


def size(number: int) -> str:
    """Return a number of bytes in binary units."""
    value = float(number)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def moment(when: datetime) -> str:
    """Return an aware UTC time to the second."""
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def age(when: datetime, now: datetime) -> str:
    """Return the age of a time in its largest fitting unit, such as ``3 h ago``."""
    seconds = (now - when).total_seconds()
    if abs(seconds) < 5:
        return "just now"
    _, unit, name = next(step for step in _AGES if abs(seconds) < step[0])
    number = f"{abs(seconds) / unit:.0f} {name}"
    # the clock of another machine can be ahead
    return f"{number} ago" if seconds > 0 else f"{number} ahead of this clock"


def listing(names: Iterable[str], most: int) -> str:
    """Return at most ``most`` names separated by commas, and the number of further names."""
    shown = [clean(name) for name in names]
    more = len(shown) - most
    return ", ".join(shown[:most]) + (f", and {count(more)} more" if more > 0 else "")


def cell(value: object, most: int = MAX_CHARACTERS) -> str:
    """Return a row's value as a table cell: like in messages, but text without quotes."""
    return clean(value, most) if isinstance(value, str) else literal(value, most)


def key_text(key: Mapping[str, object]) -> str:
    """Return a row's key in words: column names and values."""
    return ", ".join(f"{clean(name)} {cell(value)}" for name, value in key.items())


def is_relative(uri: str) -> bool:
    """Return True if a path or URI is relative to the working folder."""
    return not (_SCHEME.match(uri) or uri.startswith("~") or Path(uri).is_absolute())


def place(uri: str) -> str:
    """Return a path or URI without credentials; a path below the working folder is relative."""
    if _SCHEME.match(uri):
        return without_secrets(uri)
    if not Path(uri).is_absolute():
        return uri
    here = os.path.relpath(uri)
    if here.startswith(os.pardir):
        return uri
    # without "./" the text could be read as a home folder or a scheme
    return f"./{here}" if here.startswith("~") or ":/" in here else here


def duration(seconds: float) -> str:
    """Return a time span in seconds, minutes and hours.

    Examples
    --------
    >>> [duration(seconds) for seconds in (7.4, 75, 3720)]
    ['7 s', '1 min 15 s', '1 h 2 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
