"""The Spark session: attach to an active session, or start a session that suits a notebook."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lancekit._legible import warn
from lancekit._own_files import new_file, new_folder, sweep
from lancekit._pipeline.engine import spark_engine
from lancekit._spark.jobs.client import is_connect, remote_of
from lancekit._spark.session.connect import (
    SERVER_SETTINGS,
    check_packages,
    endpoint_of,
    join_local_server,
    join_server,
    leave_connect_mode,
    parse_remote,
    release,
)
from lancekit._spark.session.java import Java, find_java, with_archive
from lancekit._spark.session.preflight import check_machine, check_workers
from lancekit._spark.session.settings import SETTINGS, default_master, local_settings, parse_config
from lancekit.errors import SessionError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

# ---- the Java process of a session: started without output, and ended for certain
#
# Its output goes to a log file.  In a notebook, all output of the kernel's process appears in a
# cell, and Spark's start alone writes a dozen lines.

_END_SECONDS = 20

REASON = re.compile(
    r'(?:Exception in thread "[^"]*" |Caused by: )?[\w.$]*(?:Exception|Error): (.+)'
)


@contextmanager
def _environment(
    java: Java, *, local: bool, python: str | None = None, token: str | None = None
) -> Iterator[None]:
    """Set environment variables for the Java process and PySpark, and restore them.

    java: the runtime to start.
    local: whether the workers run on this machine.
    python: the workers' interpreter.  By default this one, on a cluster ``PYSPARK_PYTHON``.
    token: the token that a Connect server requires.  All users could read it on the command line.
    """
    wanted: dict[str, str | None] = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Otherwise, Java would look for the server of a Connect session instead of starting.
        "SPARK_REMOTE": None,
        "SPARK_CONNECT_MODE_ENABLED": None,
        "SPARK_LOCAL_REMOTE": None,
    }
    if python is not None or local or "PYSPARK_PYTHON" not in os.environ:
        # Otherwise, PySpark would start workers with the first `python3` on PATH.
        wanted["PYSPARK_PYTHON"] = python or sys.executable
    if local:
        # A laptop's own name may resolve to an address that vanished with the network.
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    if token is not None:
        wanted["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = token
    before = {name: os.environ.get(name) for name in wanted}
    _set_variables(wanted)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _start_jvm(settings: Mapping[str, str], log_file: Path) -> JavaGateway:
    """Start the Java process and return PySpark's gateway to it."""
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with log_file.open("ab") as log:
        try:
            return launch_gateway(conf, popen_kwargs={"stdout": log, "stderr": subprocess.STDOUT})
        except (PySparkException, OSError) as error:
            raise SessionError(
                f"Spark's Java process ended at once: {_last_words(log_file) or error}.",
                hint=f"Its full output is in {log_file}.",
                log_file=str(log_file),
            ) from error


def _last_words(log_file: Path) -> str:
    """Return the most likely reason of a failure in a log, without its full stop."""
    try:
        text = log_file.read_text(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [found[1] for line in lines if (found := REASON.match(line))]
    return next(iter(reasons or reversed(lines)), "").rstrip(".")


def _end_jvm(wait: float = _END_SECONDS) -> None:
    """End the Java process that PySpark is connected to, if any, so that a new one can start.

    PySpark keeps one process permanently.  Ending it frees its memory, and lets the next session
    apply settings that only count at its start.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = None
    SparkContext._jvm = None
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with suppress(Exception):
        # The process may be gone already, which py4j reports in many ways.
        gateway.shutdown()
    if process is None:
        return
    # The process ends when its input ends.
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Owned:
    """The session that lancekit started, with its process and files."""

    session: SparkSession
    process: subprocess.Popen[bytes] | None = None
    """The Java process; None for a session on a remote server."""
    java: Java | None = None
    log_file: Path | None = None
    sockets: Path | None = None

    def alive(self) -> bool:
        """Return True if the Java process still runs."""
        return self.process is None or self.process.poll() is None

    def remove_files(self) -> None:
        """Remove the log file and the sockets."""
        if self.log_file is not None:
            self.log_file.unlink(missing_ok=True)
        if self.sockets is not None:
            shutil.rmtree(self.sockets, ignore_errors=True)


#: the sockets of Java and its workers; in the temporary folder, they would remain if Java is killed
_SOCKETS = "spark.python.unix.domain.socket.dir"

_lock = threading.RLock()
_owned: list[Owned] = []
"""The session that lancekit started: one or none."""


def spark_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    memory: str | None = None,
    config: Mapping[str, object] | None = None,
) -> SparkSession:
    """Return the active Spark session, or start a local one.

    An active session, classic or Connect, is used.  Only arguments that can change while it runs
    are applied to it, and a warning names the others.

    Parameters
    ----------
    master
        Where a classic session runs.  By default on all cores of this machine.
    remote
        Where a session over Spark Connect runs: ``"sc://host:port"``, or ``"local[2]"`` for a
        server in this process.  Without this and ``master``, the environment variable
        ``SPARK_REMOTE`` applies, as in Spark.
    memory
        Memory of the Java process, as ``"3g"``.  By default 3 GiB or half of the machine's.
    config
        Further Spark settings by name.  They override lancekit's own.

    Returns
    -------
    pyspark.sql.SparkSession
        The session.

    Raises
    ------
    JavaNotFoundError
        There is no Java that Spark can use.
    SessionError
        Spark could not be started, or the server cannot be reached.  Or the active session is of
        the other kind, is in another place, or no longer answers.

    Examples
    --------
    >>> spark = spark_session(memory="2g")  # doctest: +SKIP
    >>> spark.range(3).count()  # doctest: +SKIP
    3
    >>> stop_spark()  # doctest: +SKIP
    True
    >>> spark = spark_session(remote="sc://spark.example:15002")  # doctest: +SKIP
    """
    wanted = parse_config(master=master, memory=memory, config=config, remote=remote)
    # PySpark warns of every conversion from pandas; lancekit tests the conversions that it uses.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with _lock:
        session = active_session()
        if session is None:
            session = _start(wanted)
            try:
                check_workers(session)
            except BaseException:
                stop_spark()
                raise
        else:
            _check_kind(session, wanted)
            _apply(session, wanted)
        spark_engine().ready(session)
        return session


def stop_spark(*, wait: float = _END_SECONDS) -> bool:
    """Stop the session that lancekit started, and its Java process.

    A session that lancekit did not start is not stopped.  On a remote server, only the session
    ends.

    Parameters
    ----------
    wait
        The time in seconds that the Java process gets to end on its own.

    Returns
    -------
    bool
        True if there was a session to stop.
    """
    with _lock:
        if not _owned:
            return False
        owned = _owned.pop()
        if is_connect(owned.session):
            release(owned.session, alive=owned.alive())
        elif owned.alive() and _running(owned.session):
            owned.session.stop()
        if owned.process is not None:
            _drop_context()
            _end_jvm(wait)
        owned.remove_files()
        return True


def active_session() -> SparkSession | None:
    """Return the session that Spark itself would use here, if any."""
    if "pyspark.sql" not in sys.modules:
        # Without a session, there is no reason to load PySpark.
        return None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if _owned and not _owned[-1].alive():
        # Its Java process died (out of memory, killed), and a request would wait for a response.
        stop_spark()
    try:
        return SparkSession.active()
    except PySparkException:
        return None
    except (Py4JError, OSError) as error:
        raise SessionError(
            "The active Spark session no longer answers.",
            hint="Restart the kernel, or the session where it was started.",
        ) from error


def is_active() -> bool:
    """Return True if a session is active, without loading PySpark to find out."""
    return active_session() is not None


def owned_session() -> Owned | None:
    """Return the session that lancekit started, while it is active."""
    with _lock:
        if _owned and _owned[-1].alive() and _running(_owned[-1].session):
            return _owned[-1]
        return None


def _running(session: SparkSession) -> bool:
    """Return True if a session has not been stopped."""
    if is_connect(session):
        return not session.is_stopped
    return session.sparkContext._jsc is not None


def _start(wanted: dict[str, str]) -> SparkSession:
    # A session that was stopped by its own `stop()` leaves its Java process and its variables.
    if not stop_spark():
        _end_jvm()
    leave_connect_mode()
    remote = wanted.pop("spark.remote", None)
    if remote is None and "spark.master" not in wanted and "SPARK_REMOTE" in os.environ:
        remote = parse_remote(os.environ["SPARK_REMOTE"])
    if remote is not None:
        check_packages()
    if remote is not None and remote.startswith("sc://"):
        session = join_server(remote)
        _owned.append(Owned(session))
        _apply(session, {s.name: s.value for s in SETTINGS if s.advised and s.at_once} | wanted)
        return session
    return _start_local(wanted, remote)


def _start_local(wanted: Mapping[str, str], remote: str | None) -> SparkSession:
    """Start a Java process, with a classic session or the server of a Connect session."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    java = find_java()
    master = remote or wanted.get("spark.master") or default_master()
    local = master.startswith("local")
    settings = with_archive({**local_settings(master=master, memory=None), **wanted}, java)
    token = None
    if remote is not None:
        settings, token = {**SERVER_SETTINGS, **settings}, str(uuid.uuid4())
    check_machine(settings, local=local)
    sweep()
    log_file, sockets = new_file("spark", ".log"), None
    if local and _SOCKETS not in settings:
        sockets = new_folder("sockets")
        settings = {**settings, _SOCKETS: str(sockets)}
    try:
        with _environment(
            java, local=local, python=settings.get("spark.pyspark.python"), token=token
        ):
            gateway = _start_jvm(settings, log_file)
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            context = SparkContext(conf=conf, gateway=gateway)
            session = SparkSession(context)
        if token is not None:
            session = join_local_server(context, token)
    except (Py4JError, PySparkException, OSError) as error:
        _drop_context()
        _end_jvm()
        leave_connect_mode()
        raise SessionError(
            f"Spark could not be started: {_last_words(log_file) or error}.",
            hint=f"Check master and config; Spark's full output is in {log_file}.",
            log_file=str(log_file),
        ) from error
    _owned.append(Owned(session, gateway.proc, java, log_file, sockets))
    return session


def _drop_context() -> None:
    """Make PySpark drop a context whose Java process is gone; a stopped one is dropped already."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def _check_kind(session: SparkSession, wanted: dict[str, str]) -> None:
    """Refuse an active session of another kind or place than the requested one."""
    remote = wanted.pop("spark.remote", None)
    if is_connect(session):
        place = remote_of(session)
        active = f"A Spark Connect session is active ({place})"
        if remote is not None:
            same = (
                remote if remote.startswith("local") else "sc://{}:{}".format(*endpoint_of(remote))
            )
            wrong = not (place == same or (place == same[:5] == "local"))
        else:
            wrong = "spark.master" in wanted
    else:
        active = f"A classic Spark session is active ({session.sparkContext.master})"
        wrong = remote is not None
    if wrong:
        argument = "master" if remote is None else "remote"
        stop = "lancekit.stop_spark()" if owned_session() else "stop() of that session"
        raise SessionError(
            f"{active}, but {argument} requests another one: a process has one session at a time.",
            hint=f"Leave {argument} out to use the active session, or call {stop} first.",
            active=active,
        )


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
            else "set them when the session is started"
        )
        warn(f"the running Spark session keeps its {', '.join(fixed)}: {cure}.")


@atexit.register
def _leave() -> None:
    # The Java process ends with this process, but a session on a remote server would remain.
    for owned in _owned:
        if is_connect(owned.session):
            release(owned.session, alive=owned.process is None)
        owned.remove_files()
