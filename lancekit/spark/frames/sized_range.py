"""Numbers that start tasks, and by which Spark knows the size of what the tasks give.

Spark takes what `mapInArrow` gives to have as many bytes as what it gets.  One number for each task
would make a table of any size a few bytes, which every join would send to all machines.  So there
are as many numbers as have the bytes of the table, and a filter keeps the first one of each task:
Spark takes a filter to keep all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancekit.spark.jobs.sizes import spark_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sized_range"]

_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
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
    most = 2 * max(spark_bytes(str(session.conf.get(_THRESHOLD, "10m"))) or 0, 0)
    each = max(min(size, most) // _NUMBER_BYTES // max(tasks, 1), 1)
    numbers = session.range(0, tasks * each, 1, max(tasks, 1))
    return (numbers if each == 1 else numbers.where(f"id % {each} = 0")), each
