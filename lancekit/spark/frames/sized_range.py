"""Numbers that start tasks, and by which Spark knows the size of what the tasks give.

Spark takes what `mapInArrow` gives to have as many bytes as what it gets.  One number for each task
would make a table of any size a few bytes, which every join would send to all machines.  So there
are as many numbers as have the bytes of the table, and a filter keeps the first one of each task:
Spark takes a filter to keep all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sized_range"]

_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_BYTES = re.compile(r"(-?\d+)\s*([kmgtp]?)i?b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
#: what a number of a range has
_NUMBER_BYTES = 8


def sized_range(session: SparkSession, tasks: int, size: int) -> tuple[DataFrame, int]:
    """Return a range whose tasks have one number each, by which Spark knows a size.

    To count takes a task some milliseconds at most: what is far above the size up to which Spark
    sends a table to all machines is as good as twice that size.

    Parameters
    ----------
    session
        Where it is made.
    tasks
        The number of tasks.
    size
        The bytes of what they give.

    Returns
    -------
    tuple
        The range, and what its numbers are multiples of.
    """
    most = 2 * max(_bytes_of(str(session.conf.get(_THRESHOLD, "10m"))), 0)
    each = max(min(size, most) // _NUMBER_BYTES // max(tasks, 1), 1)
    numbers = session.range(0, tasks * each, 1, max(tasks, 1))
    return (numbers if each == 1 else numbers.where(f"id % {each} = 0")), each


def _bytes_of(text: str) -> int:
    """Return a size as Spark's settings have it; a size that is not understood is none.

    Examples
    --------
    >>> _bytes_of("10485760b"), _bytes_of("10MB"), _bytes_of("-1")
    (10485760, 10485760, -1)
    """
    found = _BYTES.fullmatch(text.strip())
    return int(found[1]) << _UNITS[found[2].lower()] if found and found[1] != "-1" else -1
