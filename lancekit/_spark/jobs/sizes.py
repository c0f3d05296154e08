"""Sizes as Spark's settings have them: a number, and perhaps a unit."""

from __future__ import annotations

import re

__all__ = ["spark_bytes"]

_SIZE = re.compile(r"(-?\d+)(?:([kmgtp])i?b?|(b))?")
_UNITS = {unit: 10 * place for place, unit in enumerate("bkmgtp")}


def spark_bytes(text: str, bare: str = "b") -> int | None:
    """Return a size in bytes; ``None`` if the text is not a size.

    Parameters
    ----------
    text
        The value of a setting.
    bare
        The unit of a number without one.

    Examples
    --------
    >>> spark_bytes("10485760b"), spark_bytes("10MB"), spark_bytes("-1"), spark_bytes("much")
    (10485760, 10485760, -1, None)
    >>> spark_bytes("512", bare="m")
    536870912
    """
    found = _SIZE.fullmatch(text.strip().lower())
    return None if found is None else int(found[1]) << _UNITS[found[2] or found[3] or bare]
