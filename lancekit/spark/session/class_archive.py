"""A quicker start: Java's own archive of the classes that Spark loads, made once.

Half of a session's start is Java reading and checking some ten thousand classes.  Java can write
them out as they lie in memory and map that file the next time.  The file fits one Java and one
Spark, so it is named after both; Java itself looks whether it fits, and does without if not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from lancekit.errors import SessionError
from lancekit.spark.session.java import Java, find_java
from lancekit.user_cache import cache_folder

__all__ = ["archive_of", "make_archive", "with_archive"]

OPTIONS = "spark.driver.extraJavaOptions"
MAKE_SECONDS = 300

# What the first minutes of a session load: a scan by Python tasks, Arrow both ways, SQL, a join.
PROGRAM = """
import sys
from lancekit.spark import spark_session, stop_spark
spark = spark_session(
    master="local[2]",
    memory="1g",
    config={
        "spark.driver.extraJavaOptions":
            f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={sys.argv[1]} -Xlog:disable"
    },
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
        The session did not start, or this Java makes no such archive.
    """
    archive = archive_of(find_java())
    if archive.is_file() and not again:
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    aside = archive.with_name(f".{os.getpid()}-{time.monotonic_ns()}.jsa")
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(aside)],
            capture_output=True,
            text=True,
            timeout=MAKE_SECONDS,
            check=False,
            # A session elsewhere has no Java process here.
            env={name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"},
        )
        if done.returncode or not aside.is_file():
            said = done.stderr.strip().splitlines() or ["this Java wrote no archive"]
            raise SessionError(
                f"Spark could not be warmed up: {said[-1].rstrip('.')}.",
                hint="Sessions start as they did before.",
            )
        aside.replace(archive)
    except subprocess.TimeoutExpired as error:
        raise SessionError(
            f"Spark could not be warmed up within {MAKE_SECONDS} seconds.",
            hint="Try again when the machine is less busy.",
        ) from error
    finally:
        aside.unlink(missing_ok=True)
    return archive


def archive_of(java: Java) -> Path:
    """Return where the archive for a Java and the installed PySpark is, or would be."""
    import pyspark

    which = f"{java.home}\n{java.version}\n{Path(pyspark.__file__).parent}"
    name = f"spark-{pyspark.__version__}-java-{java.version}"
    return cache_folder() / f"{name}-{sha256(which.encode()).hexdigest()[:8]}.jsa"


def with_archive(settings: Mapping[str, str], java: Java) -> dict[str, str]:
    """Return the settings of a session, with the archive if there is one to use."""
    archive = archive_of(java)
    given = settings.get(OPTIONS, "")
    unusable = any(
        sign in given for sign in ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
    )
    if unusable or not archive.is_file() or " " in str(archive):
        return dict(settings)
    # What Java has to say about an archive that does not fit is of no interest.
    return {**settings, OPTIONS: f"{given} -XX:SharedArchiveFile={archive} -Xlog:disable".strip()}
