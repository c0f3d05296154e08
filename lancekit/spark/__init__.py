"""Spark: finding Java, the session, and (elsewhere nowhere) everything that imports PySpark.

``session`` finds a Java runtime, attaches to a session or starts one, classic or over Spark
Connect, and says what is in the way or what is there.  ``jobs`` is the only way in which lancekit
runs an action, and knows the two kinds of session in which the rest differs; what runs first on the
workers is there, and what an error there becomes.  On it stand ``frames`` (a scan as a DataFrame,
work on tasks, types both ways, SQL), ``merge`` and ``datasource`` (``format("lance")``: reads,
writes, streams).  At the root: `source` (rows to be written or merged), `upload`, `columns`,
`stream_sink` (the batches of a stream), and `prepare` (what is made once on a machine).

PySpark is imported inside of functions only, so that this package costs nothing until it is used;
modules whose classes are Spark's are imported there themselves.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lancekit.spark.jobs.worker import freeze_worker
    from lancekit.spark.prepare import WarmUp, warm_up
    from lancekit.spark.session.info import SessionInfo, SettingDifference, session_info
    from lancekit.spark.session.session import spark_session, stop_spark

__all__ = [
    "SessionInfo",
    "SettingDifference",
    "WarmUp",
    "freeze_worker",
    "register",
    "session_info",
    "spark_session",
    "stop_spark",
    "warm_up",
]


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("lance")`` known to a session that lancekit has not met.

    `spark_session` does so for the session that it returns.
    """
    from lancekit.spark.datasource import datasource

    datasource.register(spark)


#: where names are that come when they are asked for: a task of a worker needs none of them
_HOMES = {
    "SessionInfo": "session.info",
    "SettingDifference": "session.info",
    "WarmUp": "prepare",
    "freeze_worker": "jobs.worker",
    "session_info": "session.info",
    "spark_session": "session.session",
    "stop_spark": "session.session",
    "warm_up": "prepare",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
