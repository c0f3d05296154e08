"""Spark: finding Java, the session, and (elsewhere nowhere) everything that imports PySpark.

``java`` finds a runtime, ``jvm`` starts and ends its process, ``session`` attaches to a session or
starts one with ``settings``, ``info`` describes it, ``worker`` is what runs first on the workers.
PySpark is imported inside of functions only, so that this package costs nothing until it is used.
"""

from lancekit.spark.info import SessionInfo, SettingDifference, session_info
from lancekit.spark.session import spark_session, stop_spark
from lancekit.spark.worker import freeze_worker

__all__ = [
    "SessionInfo",
    "SettingDifference",
    "freeze_worker",
    "session_info",
    "spark_session",
    "stop_spark",
]
