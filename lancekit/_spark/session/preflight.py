"""Checks before and after the start of a session, for clear errors.

Spark itself reports most of these faults after 30 s, within two pages of Java frames.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit._machine import total_memory
from lancekit._spark.jobs.client import client_of, is_connect, remote_of
from lancekit._spark.jobs.collect import run_action
from lancekit._spark.jobs.failures import other_package
from lancekit._spark.jobs.shipment import spark_bytes
from lancekit._version import __version__
from lancekit.errors import EngineError, LancekitError, SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_MEMORY = 512 << 20
"""Spark refuses to start with less."""

_VERSIONS = re.compile(r"different version: ([\d.]+) than that in driver: ([\d.]+)")
_NO_PYARROW = re.compile(
    r"No module named 'pyarrow'|PyArrow >= [\d.]+ must be installed; however, \w+ (.+)"
)
#: as in lancekit's own requirements
_OLDEST_PYARROW = 26
#: applications and servers whose workers have been checked
_checked: set[str] = set()
_CONNECT_PORT = "spark.connect.grpc.binding.port"


def check_machine(settings: Mapping[str, str], *, local: bool) -> None:
    """Check this machine before the Java process of a session is started.

    Raises SessionError: too much or too little memory is requested, or an address or port is not
        available.
    """
    _check_memory(settings.get("spark.driver.memory", ""))
    address = (
        settings.get("spark.driver.bindAddress")
        or settings.get("spark.driver.host")
        or ("127.0.0.1" if local else os.environ.get("SPARK_LOCAL_IP") or socket.gethostname())
    )
    _check_bindable(
        address,
        0,
        hint="Set SPARK_LOCAL_IP, or spark.driver.bindAddress in config, to an address of this "
        "machine.",
    )
    if port := int(settings.get(_CONNECT_PORT, "0")):
        _check_bindable(
            "127.0.0.1", port, hint=f"Leave {_CONNECT_PORT} out of config: any free port will do."
        )


def check_workers(session: SparkSession) -> None:
    """Check the Python of the workers with one small task, unless it is known to be this one.

    The check runs once for each application or server, even if others started it.

    Raises SessionError: the workers' Python is another version than this one, lancekit is missing
        or of another version, or pyarrow is too old.
    """
    place = remote_of(session) if is_connect(session) else session.sparkContext.applicationId
    if place in _checked:
        return
    if not _are_of_this_python(session):
        found = _found_on(session)
        where = [f"  the worker's Python is {found['python']} on {found['host']}"]
        if _major(found["pyarrow"]) < _OLDEST_PYARROW:
            raise other_package("pyarrow", found["pyarrow"], pa.__version__, where)
        if found["lancekit"] != __version__:
            raise other_package("lancekit", found["lancekit"], __version__, where, found["why"])
    _checked.add(place)


def _are_of_this_python(session: SparkSession) -> bool:
    """Return True if the tasks run on this machine, in the Python of this process."""
    if is_connect(session):
        named = session.conf.get("spark.pyspark.python", None)
        return remote_of(session) == "local" and named is None
    if client_of(session).elsewhere() is not None:
        return False
    return bool(shutil.which(session.sparkContext.pythonExec) == sys.executable)


def _found_on(session: SparkSession) -> dict[str, str]:
    """Return the versions of packages on a worker (empty for none), its Python, and its host."""

    def inspect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import platform
        import sys

        import pyarrow as pa

        found, why = "", ""
        try:
            # tasks use what an import finds first, whatever else is installed
            import obstore  # noqa: F401  # tasks import it where a store needs it

            from lancekit._spark.jobs import worker  # noqa: F401  # each task needs it
            from lancekit._version import __version__

            found = __version__
        except ModuleNotFoundError as error:
            why = "" if error.name == "lancekit" else str(error)
        except ImportError as error:
            why = str(error)
        for _ in batches:
            yield pa.record_batch(
                {
                    "lancekit": [found],
                    "why": [why],
                    "pyarrow": [pa.__version__],
                    "python": [sys.executable],
                    "host": [platform.node()],
                }
            )

    columns = "lancekit string, why string, pyarrow string, python string, host string"
    task = session.range(0, 1, 1, 1).mapInArrow(inspect, columns)
    try:
        (found,) = run_action(session, task.toArrow, what="checking the workers").to_pylist()
    except EngineError as error:
        raise _worker_failure(error) from error
    return dict(found)


def _major(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _check_memory(requested: str) -> None:
    size = spark_bytes(requested, bare="m")
    if size is None:
        return  # Spark accepts further formats
    machine = total_memory()
    if size > machine:
        raise SessionError(
            f"memory {requested} exceeds this machine's memory ({machine / (1 << 30):.1f} GiB).",
            hint=f'Request at most half of it: memory="{max(1, machine >> 31)}g".',
            asked=size,
            machine=machine,
        )
    if size < LEAST_MEMORY:
        raise SessionError(
            f"memory {requested} is too small for Spark.",
            hint='Request at least memory="512m".',
            asked=size,
        )


def _check_bindable(host: str, port: int, *, hint: str) -> None:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        place = f"port {port}" if port else f"the address {host}"
        raise SessionError(
            f"Spark cannot listen at {place}: {error.strerror or error}.",
            hint=hint,
            host=host,
            port=port,
        ) from error


def _worker_failure(error: EngineError) -> LancekitError:
    missing = _NO_PYARROW.search(str(error))
    if missing is not None:
        old = re.search(r"\d[\d.]*\d", missing[1] or "")
        return other_package("pyarrow", old[0] if old else "", pa.__version__)
    found = _VERSIONS.search(str(error))
    if found is None:
        return error
    return SessionError(
        f"Spark's workers run Python {found[1]}, but this is Python {found[2]}.",
        hint="Set PYSPARK_PYTHON to an interpreter of this version, at its path on the workers, "
        "before the session starts.",
        worker=found[1],
        driver=found[2],
        executable=sys.executable,
    )
