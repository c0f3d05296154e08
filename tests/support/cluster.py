"""A cluster of Spark's own on this machine: a standalone master and two workers, nothing of ours.

The tasks run in processes that know neither the driver's variables nor its folders, as on machines
of their own, and a session has Spark's defaults where its program does not say otherwise: 200
partitions of a shuffle, 1 GB an executor.
Each worker has an address of its own, so that Spark takes them for two machines.

The workers' Python can have other packages than the driver's: another lancekit, or none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyspark

from lancekit._spark.session.java import find_java
from tests.support.java import archived
from tests.support.patience import HANG_SECONDS, until

__all__ = ["driver_variables", "other_lancekit", "other_pyarrow", "python_without", "standalone"]

_ROOT = Path(__file__).parents[2]
_SPARK = Path(pyspark.__file__).parent
_CLASSES = "org.apache.spark.deploy"
#: in the order of Spark's own scripts, for the archive of classes fits no other
_CLASS_PATH = [
    f"{_SPARK}/conf/",
    *map(str, _SPARK.glob("jars/slf4j-api-*.jar")),
    f"{_SPARK}/jars/*",
]


def driver_variables() -> dict[str, str]:
    """Return what the environment of a user's session on the cluster has."""
    java = str(find_java().home)
    return {"JAVA_HOME": java, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


@contextmanager
def standalone(folder: Path, memory: str = "1g", **variables: str) -> Iterator[str]:
    """Start a master and two workers of one core, and yield the address of the master.

    Parameters
    ----------
    folder
        For their logs and the executors' folders.
    memory
        Memory of each worker, which its executors share.
    variables
        What the workers' environment has beside the tests' own: ``PYTHONPATH``, for example.
    """
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_daemon(log, "master.Master", "--host", "127.0.0.1", "--port", "0"))
        until(lambda: "Starting Spark master at" in log.read_text())
        address = re.findall(r"Starting Spark master at (spark://\S+)", log.read_text())[0]
        for number, host in enumerate(_hosts(), 1):
            options = ["--cores", "1", "--memory", memory, "--host", host]
            work = ["--work-dir", str(folder / f"worker{number}"), address]
            file = folder / f"worker{number}.log"
            place = {"SPARK_LOCAL_IP": host, **variables}
            stack.enter_context(_daemon(file, "worker.Worker", *options, *work, **place))
        until(lambda: log.read_text().count("Registering worker ") == 2)
        yield address


def _hosts() -> tuple[str, str]:
    """Return an address for each worker; only Linux has more than one of this machine's."""
    return ("127.0.0.1", "127.0.0.2" if sys.platform == "linux" else "127.0.0.1")


@contextmanager
def _daemon(log: Path, name: str, *arguments: str, **variables: str) -> Iterator[None]:
    java = find_java()
    command = [str(java.home / "bin/java"), "-cp", os.pathsep.join(_CLASS_PATH), "-Xmx256m"]
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
            env={**os.environ, **archived(), **given, **variables},
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(HANG_SECONDS)


def other_lancekit(folder: Path, version: str) -> Path:
    """Copy this lancekit as another version; return the folder for ``PYTHONPATH``."""
    for name in ("lancekit", "pyspark_lancekit"):
        shutil.copytree(_ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "lancekit" / "_version.py").write_text(f'__version__ = "{version}"\n')
    return folder


def other_pyarrow(folder: Path, version: str) -> Path:
    """Make a pyarrow that calls itself another version; return the folder for ``PYTHONPATH``."""
    place = Path(pa.__file__).parent
    made = folder / place.name
    made.mkdir(parents=True)
    for path in place.iterdir():
        if path.name not in {"_generated_version.py", "__pycache__"}:
            (made / path.name).symlink_to(path)
    (made / "_generated_version.py").write_text(f'version = "{version}"\n')
    return folder


def python_without(folder: Path, *names: str) -> Path:
    """Make an environment with all packages of this Python but some; return its interpreter."""
    venv.EnvBuilder(symlinks=True).create(folder)
    packages = next(folder.glob("lib/python*/site-packages"))
    for path in Path(pyspark.__file__).parents[1].iterdir():
        stem = path.name.removeprefix("__editable__.").partition("-")[0].partition(".")[0]
        if stem not in names:
            (packages / path.name).symlink_to(path)
    return folder / "bin" / "python"
