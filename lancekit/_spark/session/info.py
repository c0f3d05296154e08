"""A description of the Spark session for users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancekit._display import Displayed
from lancekit._spark.jobs.client import is_connect, remote_of
from lancekit._spark.session.session import active_session, owned_session
from lancekit._spark.session.settings import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting with another value than lancekit advises, in a session of another owner."""

    name: str
    advised: str
    actual: str | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SessionInfo(Displayed):
    """The state of the Spark session; values that would need a job are ``None``."""

    state: str
    """``"active"``, or ``"none"`` without a session."""
    owned: bool = False
    """True if lancekit started the session (and ``stop_spark`` would stop it)."""
    connect: bool = False
    """True for a Spark Connect client."""
    remote: str | None = None
    """The server's address, without credentials; ``"local"`` for a server in this process."""
    spark_version: str | None = None
    master: str | None = None
    cores: int | None = None
    """The number of tasks that run at the same time."""
    driver_memory: str | None = None
    java_version: str | None = None
    java_home: str | None = None
    python: str | None = None
    """The Python interpreter of the workers."""
    differences: tuple[SettingDifference, ...] = ()
    log_file: str | None = None
    """The log of the Java process, for a session that lancekit started."""


def session_info() -> SessionInfo:
    """Describe the active session; start no session and run no job.

    Examples
    --------
    >>> session_info().state  # doctest: +SKIP
    'active'
    """
    session = active_session()
    if session is None:
        return SessionInfo(state="none")
    owned = owned_session()
    info = SessionInfo(
        state="active",
        owned=owned is not None,
        spark_version=session.version,
        differences=_differences(session),
        log_file=str(owned.log_file) if owned and owned.log_file else None,
    )
    if is_connect(session):
        return replace(info, connect=True, remote=remote_of(session))
    context = session.sparkContext
    properties = context._jvm.java.lang.System.getProperty
    return replace(
        info,
        master=context.master,
        cores=context.defaultParallelism,
        driver_memory=context.getConf().get("spark.driver.memory"),
        java_version=properties("java.version"),
        java_home=properties("java.home"),
        python=context.pythonExec,
    )


def _differences(session: SparkSession) -> tuple[SettingDifference, ...]:
    pairs = [(setting, session.conf.get(setting.name, None)) for setting in SETTINGS]
    return tuple(
        SettingDifference(setting.name, setting.value, actual, setting.why)
        for setting, actual in pairs
        if setting.advised and actual != setting.value
    )
