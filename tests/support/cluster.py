"""A cluster of Spark's own on this machine: a standalone master and two workers, nothing of ours.

The tasks run in processes that know neither the driver's variables nor its folders, as on machines
of their own, and the session has Spark's defaults: 200 partitions of a shuffle, 1 GB an executor.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from lancekit.spark.session.java import find_java
from tests.support.patience import HANG_SECONDS, until

__all__ = ["standalone"]

_ROOT = Path(__file__).parents[2]
_SPARK = Path(pyspark.__file__).parent
_CLASSES = "org.apache.spark.deploy"


@contextmanager
def standalone(folder: Path, **variables: str) -> Iterator[str]:
    """Start a master and two workers of one core, and yield the address of the master.

    Parameters
    ----------
    folder
        For their logs and the executors' folders.
    variables
        What the workers' environment has beside the tests' own: ``PYTHONPATH``, for example.
    """
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_daemon(log, "master.Master", "--host", "127.0.0.1", "--port", "0"))
        until(lambda: "Starting Spark master at" in log.read_text())
        address = re.findall(r"Starting Spark master at (spark://\S+)", log.read_text())[0]
        for number in (1, 2):
            options = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1"]
            work = ["--work-dir", str(folder / f"worker{number}"), address]
            file = folder / f"worker{number}.log"
            stack.enter_context(_daemon(file, "worker.Worker", *options, *work, **variables))
        until(lambda: log.read_text().count("Registering worker ") == 2)
        yield address


@contextmanager
def _daemon(log: Path, name: str, *arguments: str, **variables: str) -> Iterator[None]:
    java = find_java()
    command = [str(java.home / "bin/java"), "-cp", str(_SPARK / "jars/*"), "-Xmx256m"]
    given = {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(_SPARK),
        # what Spark's own scripts would set
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(_ROOT),
    }
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, f"{_CLASSES}.{name}", "--webui-port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **given, **variables},
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(HANG_SECONDS)
