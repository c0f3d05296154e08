"""Spark sessions that lancekit finds or starts, re-exported from `lancekit._spark`.

PySpark is imported on first access to a name.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lancekit._lazy import door

if TYPE_CHECKING:
    from lancekit._spark.datasource.datasource import register
    from lancekit._spark.jobs.worker import freeze_worker
    from lancekit._spark.prepare import WarmUp, warm_up
    from lancekit._spark.session.info import SessionInfo, SettingDifference, session_info
    from lancekit._spark.session.session import spark_session, stop_spark

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

#: the same for Python at run time: the module of each name
_HOMES = {
    "_spark.datasource.datasource": "register",
    "_spark.jobs.worker": "freeze_worker",
    "_spark.prepare": "WarmUp warm_up",
    "_spark.session.info": "SessionInfo SettingDifference session_info",
    "_spark.session.session": "spark_session stop_spark",
}

__getattr__: Callable[[str], object] = door(__name__, _HOMES)
