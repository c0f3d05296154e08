"""Moments and spans of NumPy in units that Arrow has."""

from __future__ import annotations

from typing import Any

import numpy as np

from lancekit.errors import InvalidTypeError
from lancekit.pipeline.casts.values import LossError

__all__ = ["in_arrow_units"]

#: the unit that holds another one, by the kind of the type, and how many of it at most
_UNITS: dict[str, dict[str, tuple[str, int]]] = {
    "M": {
        "Y": ("D", 366),
        "M": ("D", 31),
        "W": ("D", 7),
        "D": ("D", 1),
        "h": ("s", 3600),
        "m": ("s", 60),
    },
    "m": {"W": ("s", 604800), "D": ("s", 86400), "h": ("s", 3600), "m": ("s", 60)},
}
for _units in _UNITS.values():
    _units |= {unit: (unit, 1) for unit in ("s", "ms", "us", "ns")}

#: days since 1970, of which Arrow keeps 32 bits, and of all else 64
_MOST = {"D": 1 << 31}


def in_arrow_units(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return ``datetime64`` or ``timedelta64`` values in a unit that Arrow has, unchanged.

    Examples
    --------
    >>> in_arrow_units(np.array([5], "M8[10s]"))
    array(['1970-01-01T00:00:50'], dtype='datetime64[s]')

    Raises
    ------
    InvalidTypeError
        No unit of Arrow holds them, such as picoseconds.
    LossError
        The first value that is beyond the range of the unit.
    """
    kind = values.dtype.kind
    unit, count = np.datetime_data(values.dtype)
    if unit not in _UNITS[kind]:
        what = "moments" if kind == "M" else "spans"
        raise InvalidTypeError(
            f"Arrow has no {what} in units of {unit}.",
            hint=f"Round them to a unit that it has: values.astype('{kind}8[us]').",
        )
    new, each = _UNITS[kind][unit]
    most = _MOST.get(new, 1 << 63) // (each * count) - 1
    plain = np.ma.getdata(values)
    numbers = plain.astype(np.int64)
    beyond = np.argwhere(((numbers > most) | (numbers < -most)) & ~np.isnat(plain))
    if len(beyond):
        place = tuple(beyond[0].tolist())
        width = "days of 32 bits" if new == "D" else f"{new} of 64 bits"
        raise LossError(place[0], plain[place], f"is beyond the range of {width}")
    return values if (unit, count) == (new, 1) else values.astype(f"{kind}8[{new}]")
