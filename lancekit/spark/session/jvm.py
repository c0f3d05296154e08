"""The Java process behind a session: started without a word, and really ended.

The process gets a log file as its output.  In a notebook everything that reaches the kernel's own
output lands in a cell, and Spark's start alone writes a dozen lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lancekit.errors import SessionError
from lancekit.spark.session.java import Java

__all__ = ["END_SECONDS", "end_jvm", "environment", "last_words", "start_jvm"]

END_SECONDS = 20

REASON = re.compile(
    r'(?:Exception in thread "[^"]*" |Caused by: )?[\w.$]*(?:Exception|Error): (.+)'
)


@contextmanager
def environment(
    java: Java, *, local: bool, python: str | None = None, token: str | None = None
) -> Iterator[None]:
    """Set what the Java process and PySpark read from the environment, and put it back.

    Parameters
    ----------
    java
        The runtime to start.
    local
        Whether the workers run on this machine.
    python
        The workers' interpreter; by default this one, elsewhere the one in ``PYSPARK_PYTHON``.
    token
        What a Connect server is to ask of its clients; on the command line all could read it.
    """
    wanted: dict[str, str | None] = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Java would look for the server of a Connect session instead of starting.
        "SPARK_REMOTE": None,
        "SPARK_CONNECT_MODE_ENABLED": None,
        "SPARK_LOCAL_REMOTE": None,
    }
    if python is not None or local or "PYSPARK_PYTHON" not in os.environ:
        # PySpark would start its workers with whatever `python3` comes first on PATH.
        wanted["PYSPARK_PYTHON"] = python or sys.executable
    if local:
        # A laptop's own name may resolve to an address that is gone with the network.
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


def start_jvm(settings: Mapping[str, str], log_file: Path) -> Any:
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
                f"Spark's Java process ended at once: {last_words(log_file) or error}.",
                hint=f"All that it said is in {log_file}.",
                log_file=str(log_file),
            ) from error


def last_words(log_file: Path) -> str:
    """Return what a log most likely gives as the reason of a failure, without its full stop."""
    try:
        text = log_file.read_text(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [found[1] for line in lines if (found := REASON.match(line))]
    return next(iter(reasons or reversed(lines)), "").rstrip(".")


def end_jvm(wait: float = END_SECONDS) -> None:
    """End the Java process that PySpark is connected to, if any, so that a new one can start.

    PySpark keeps one process for good.  Ending it returns its memory, and lets the next session
    have settings that count only at the start of one.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = None
    SparkContext._jvm = None
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with suppress(Exception):
        # The process may be gone already, and py4j reports that in many ways.
        gateway.shutdown()
    if process is None:
        return
    # The process ends itself when its input does.
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
