"""Spark: finding Java, the session, and (elsewhere nowhere) everything that imports PySpark.

``java`` finds a runtime, ``jvm`` starts and ends its process, ``warmup`` makes that quicker.
``session`` attaches to a session or starts one with ``settings``, over Spark Connect by way of
``connect``; ``preflight`` names what is in the way, ``info`` describes what is there, and
``client`` knows the two kinds of session in which the rest differs.

``jobs`` is the only way in which lancekit runs an action; ``worker`` is what runs first on the
workers, ``failures`` what an error there becomes.  On it stand ``runner`` (work on tasks),
``frame`` (a scan as a DataFrame), ``source`` (rows to be written or merged, by way of ``prepare``,
``keys`` and ``merge``) and ``sink`` (the batches of a stream); ``views`` is its SQL, and ``types``
maps types both ways.

``datasource`` is ``format("lance")``, with ``source_options`` and ``plan`` for what is asked for,
``writer`` for its writes and ``streaming`` for its changes.

PySpark is imported inside of functions only, so that this package costs nothing until it is used;
``datasource``, ``writer`` and ``streaming``, whose classes are Spark's, are imported there
themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancekit.spark.info import SessionInfo, SettingDifference, session_info
from lancekit.spark.session import spark_session, stop_spark
from lancekit.spark.warmup import warm_up
from lancekit.spark.worker import freeze_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "SessionInfo",
    "SettingDifference",
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
    from lancekit.spark import datasource

    datasource.register(spark)
