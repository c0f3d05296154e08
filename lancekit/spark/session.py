"""The Spark session: attach to the one that is there, or start one that fits a notebook."""

from __future__ import annotations

import atexit
import sys
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lancekit.errors import SessionError
from lancekit.spark.java import Java, find_java
from lancekit.spark.jvm import end_jvm, environment, last_words, new_log_file, start_jvm
from lancekit.spark.settings import default_master, local_settings, parse_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Owned",
    "active_session",
    "is_active",
    "is_connect",
    "owned_session",
    "spark_session",
    "stop_spark",
]


@dataclass(frozen=True, slots=True)
class Owned:
    """The session that lancekit started, and what it runs on."""

    session: Any
    process: Any
    java: Java
    log_file: Path

    def alive(self) -> bool:
        """Return whether the Java process still runs."""
        return self.process is None or self.process.poll() is None


_lock = threading.RLock()
_owned: list[Owned] = []
"""The session that lancekit started: one or none."""


def spark_session(
    *,
    master: str | None = None,
    memory: str | None = None,
    config: Mapping[str, object] | None = None,
) -> SparkSession:
    """Return the active Spark session, or start a local one.

    A session that is already active, classic or Connect, is used as it is; of the arguments only
    those are applied to it that may change while it runs, and a warning names the others.

    Parameters
    ----------
    master
        Where to run; by default all cores of this machine.
    memory
        Memory of the Java process, as ``"3g"``; by default 3 GiB or half of the machine's.
    config
        Further Spark settings by name; they win over lancekit's own.

    Raises
    ------
    JavaNotFoundError
        There is no Java that Spark can use.
    SessionError
        Spark could not be started, or the active session does not answer any more.

    Examples
    --------
    >>> spark = spark_session(memory="2g")  # doctest: +SKIP
    >>> spark.range(3).count()  # doctest: +SKIP
    3
    """
    wanted = parse_config(master=master, memory=memory, config=config)
    # Said by every conversion from pandas; what lancekit uses of it works, and is tested.
    from lancekit.spark.datasource import register  # loads PySpark

    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with _lock:
        session = active_session()
        if session is None:
            session = _start(wanted)
        else:
            _apply(session, wanted)
        register(session)
        return session


def stop_spark() -> bool:
    """Stop the session that lancekit started, and its Java process.

    A session that somebody else started is left alone.

    Returns
    -------
    bool
        Whether there was one to stop.
    """
    with _lock:
        if not _owned:
            return False
        owned = _owned.pop()
        if owned.alive() and _running(owned.session):
            owned.session.stop()
        _forget_context()
        end_jvm()
        owned.log_file.unlink(missing_ok=True)
        return True


def active_session() -> SparkSession | None:
    """Return the session that Spark itself would use here, if there is one."""
    if "pyspark.sql" not in sys.modules:
        # Without a session nobody should wait for PySpark to load.
        return None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if _owned and not _owned[-1].alive():
        # Its Java process died (out of memory, killed): asking it would wait for an answer.
        stop_spark()
    try:
        return SparkSession.active()
    except PySparkException:
        return None
    except (Py4JError, OSError) as error:
        raise SessionError(
            "The active Spark session does not answer any more.",
            hint="Restart the kernel, or the session where it was started.",
        ) from error


def is_active() -> bool:
    """Return whether there is a session already; loads nothing to find out."""
    return active_session() is not None


def owned_session() -> Owned | None:
    """Return the session that lancekit started, while it is active."""
    with _lock:
        if _owned and _owned[-1].alive() and _running(_owned[-1].session):
            return _owned[-1]
        return None


def is_connect(session: SparkSession) -> bool:
    """Return whether a session is a Spark Connect client, without a Java process of its own."""
    return ".connect." in type(session).__module__


def _running(session: Any) -> bool:
    """Return whether a classic session has not been stopped."""
    return session.sparkContext._jsc is not None


def _start(wanted: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    java = find_java()
    # A session that was stopped by its own `stop()` leaves its Java process behind.
    if not stop_spark():
        end_jvm()
    master = wanted.get("spark.master") or default_master()
    settings = {**local_settings(master=master, memory=None), **wanted}
    log_file = new_log_file()
    with environment(java, local=master.startswith("local")):
        gateway = start_jvm(settings, log_file)
        try:
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            context = SparkContext(conf=conf, gateway=gateway)
            session = SparkSession(context)
        except (Py4JError, PySparkException, OSError) as error:
            _forget_context()
            end_jvm()
            raise SessionError(
                f"Spark could not be started: {last_words(log_file) or error}.",
                hint=f"Check master and config; all that Spark said is in {log_file}.",
                log_file=str(log_file),
            ) from error
    _owned.append(Owned(session, gateway.proc, java, log_file))
    return session


def _forget_context() -> None:
    """Make PySpark forget a context whose Java process is gone; a stopped one already is."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def _apply(session: SparkSession, wanted: Mapping[str, str]) -> None:
    fixed = []
    for name, value in wanted.items():
        if session.conf.get(name, None) == value:
            continue
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
        else:
            fixed.append(name)
    if fixed:
        cure = (
            "call lancekit.stop_spark() first"
            if owned_session()
            else "set them where the session is started"
        )
        warnings.warn(
            f"the running Spark session keeps its {', '.join(fixed)}: {cure}.",
            UserWarning,
            stacklevel=3,
        )


@atexit.register
def _remove_log() -> None:
    # The Java process ends by itself with this one.
    for owned in _owned:
        owned.log_file.unlink(missing_ok=True)
