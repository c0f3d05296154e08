"""Releases of the reference implementation: which there are, and one in a process of its own.

``python -m tests.support.releases`` makes a virtual environment for each, as far as its wheels
install here; `make torture` does that.  `LANCEKIT_RELEASES` names another folder for them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support import pylance4

__all__ = ["NEWEST", "OLDEST_KEPT", "RELEASES", "Release", "ReleaseError", "interpreter"]

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("release_worker.py")

NEWEST = "14.0.2"
OLDEST_KEPT = "4.0.0"

#: Release -> the storage versions that it does not call unstable.  For each of them this is the
#: oldest (0.16.0, 0.38.1, 3.0.0), the first whose ``"stable"`` it is (0.16.0, 6.0.0, 12.0.0), and
#: some from between.
RELEASES: dict[str, tuple[str, ...]] = {
    "0.16.0": ("2.0",),
    "0.30.0": ("2.0",),
    "0.38.1": ("2.0", "2.1"),
    "1.0.4": ("2.0", "2.1"),
    "2.0.1": ("2.0", "2.1"),
    "3.0.0": ("2.0", "2.1", "2.2"),
    OLDEST_KEPT: ("2.0", "2.1", "2.2"),
    "6.0.0": ("2.0", "2.1", "2.2"),
    "9.0.1": ("2.0", "2.1", "2.2"),
    "12.0.0": ("2.0", "2.1", "2.2"),
    NEWEST: ("2.0", "2.1", "2.2"),
}

#: what pip needs to be told beside the release
_OLD_PACKAGES = {"0.16.0": ["numpy<2", "pyarrow<18"]}


class ReleaseError(Exception):
    """What a release answered instead of a result; ``died`` if its process ended."""

    def __init__(self, text: str, *, died: bool = False) -> None:
        super().__init__(text)
        self.died = died


def _folder(release: str) -> Path:
    return Path(os.environ.get("LANCEKIT_RELEASES", ROOT)) / f".venv-pylance-{release}"


def interpreter(release: str) -> Path | None:
    """Return the Python that has a release; ``None`` if it is not set up."""
    if release == NEWEST:
        return Path(sys.executable)
    if release == OLDEST_KEPT:
        return pylance4.interpreter()
    found = _folder(release) / "bin/python"
    return found if found.exists() else None


class Release:
    """A process that has one release, and does one job after another.

    A job that ends the process (releases abort on some files) is a `ReleaseError`; the next one
    starts another process.
    """

    def __init__(self, release: str) -> None:
        self.release = release
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.stdin.close()  # type: ignore[union-attr]
            self._process.wait()
            self._process.stdout.close()  # type: ignore[union-attr]
            self._process = None

    def __call__(self, job: str, **arguments: Any) -> Any:
        """Do a job of `release_worker`, and return what it answers."""
        if self._process is None:
            self._process = subprocess.Popen(
                [str(interpreter(self.release)), str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps({"job": job} | arguments) + "\n")
        asked.flush()
        line = answers.readline()
        if not line:
            code = self._process.wait()
            asked.close()
            answers.close()
            self._process = None
            raise ReleaseError(f"the process ended with {code}", died=True)
        answer = json.loads(line)
        if "error" in answer:
            raise ReleaseError(answer["error"])
        return answer["result"]


def set_up() -> None:
    """Make the virtual environments that are missing; say which cannot be made."""
    for release in RELEASES:
        if interpreter(release) is not None:
            continue
        folder = _folder(release)
        wanted = [f"pylance=={release}", *_OLD_PACKAGES.get(release, [])]
        print(f"Setting up pylance {release} (some minutes the first time)")
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
        for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, *wanted]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"pylance {release} is left out: {done.stderr.strip()[-300:]}")
                shutil.rmtree(folder, ignore_errors=True)
                break


if __name__ == "__main__":
    set_up()
