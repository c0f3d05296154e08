"""What would be published: the source archive, the wheel made of it, and the editable install."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEPENDENCIES = list(map(Requirement, PYPROJECT["project"]["dependencies"]))
SOURCES = ("pyproject.toml", "setup.cfg", "MANIFEST.in", "README.md", "LICENSE")

BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""

#: a user's first minute, without any extra; run in a folder of its own
FIRST_MINUTE = """
import importlib, json, pkgutil
import lancekit as lk

ds = lk.write_dataset({"id": [1, 2], "name": ["ann", "ben"]}, "d.lance", primary_key="id")
merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
merge.execute({"id": [2, 3], "name": ["bob", "cyd"]})
ds.tags.create("first", 1)
refused = {}
for name, call in {
    "sql": lambda: lk.sql("SELECT * FROM 'd.lance'").to_arrow(),
    "fast": lambda: lk.warm_up(kernels=True, spark=False),
    "java": lambda: lk.spark_session(),
}.items():
    try:
        call()
    except lk.errors.LancekitError as error:
        refused[name] = str(error)
missing = {}
for module in pkgutil.walk_packages(lk.__path__, "lancekit."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        missing[module.name] = error.name
print(json.dumps({
    "file": lk.__file__,
    "rows": ds.to_table(filter="name >= 'b'").to_pylist(),
    "first": lk.dataset("d.lance", version="first").to_pandas()["name"].tolist(),
    "html": ds._repr_html_(),
    "refused": refused,
    "missing": missing,
}))
"""


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment whose Python can build: with setuptools of a release that pyproject names."""
    (needed,) = map(Requirement, PYPROJECT["build-system"]["requires"])
    try:
        if needed.specifier.contains(version(needed.name)):
            return dict(os.environ)
    except PackageNotFoundError:
        pass
    folder = tmp_path_factory.mktemp("setuptools")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    subprocess.run([*install, str(needed)], check=True)
    return {**os.environ, "PYTHONPATH": str(folder)}


def build(hook: str, source: Path, into: Path, builder: dict[str, str]) -> Path:
    """Build as pip does; return the file."""
    command = [sys.executable, "-c", BUILD, hook, str(into)]
    done = subprocess.run(
        command, cwd=source, env=builder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "experimental" not in done.stderr
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def archive(builder: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive of a copy of this checkout."""
    source = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        shutil.copy(ROOT / name, source)
    for name in ("lancekit", "tests/project"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (ROOT / "tests").glob("*.py"):
        shutil.copy(path, source / "tests")
    return build("build_sdist", source, tmp_path_factory.mktemp("archive"), builder)


@pytest.fixture(scope="module")
def wheel(archive: Path, builder: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel made of the source archive, as pip makes it."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return build("build_wheel", folder / archive.name.removesuffix(".tar.gz"), folder, builder)


def ours() -> set[str]:
    """Return the files of the package in this checkout."""
    files = (ROOT / "lancekit").rglob("*")
    paths = (path.relative_to(ROOT).as_posix() for path in files if path.is_file())
    return {path for path in paths if "__pycache__" not in path}


def test_the_source_archive_has_the_package_and_nothing_of_the_tests(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {name for name in names if name.startswith("lancekit/") and "." in name} == ours()
    assert names >= {*SOURCES, "PKG-INFO"}
    assert not [name for name in names if name.startswith("tests")]


def test_the_wheel_has_the_package_with_its_types_and_styles(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert names == ours()
    kinds = {Path(name).suffix for name in names}
    assert kinds == {".py", ".pyi", ".css", ".typed"}


def site_of(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))


def environment(folder: Path, wheel: Path) -> Path:
    """Return the Python of an environment that has the wheel, what it declares, and no more."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(site_of(folder))
    left, seen = list(DEPENDENCIES), set()
    while left:
        one = left.pop()
        if one.marker and not any(one.marker.evaluate({"extra": x}) for x in one.extras or {""}):
            continue
        if (name := canonicalize_name(one.name)) not in seen:
            seen.add(name)
            link(name, site_of(folder))
        left += [
            needed
            for needed in map(Requirement, distribution(name).requires or [])
            if needed.marker is None or "extra" not in str(needed.marker)
        ]
    return folder / "bin" / "python"


def link(name: str, site: Path) -> None:
    """Link a distribution of this environment into another; folders that several share are made."""
    for file in distribution(name).files or []:
        place = Path()
        for part in file.parts:
            place /= part
            here = Path(str(distribution(name).locate_file(place)))
            if ".." in file.parts or (site / place).is_symlink():
                break
            if here.is_file() or (here / "__init__.py").exists() or here.suffix == ".dist-info":
                (site / place).symlink_to(here)
                break
            (site / place).mkdir(exist_ok=True)


def test_the_wheel_works_where_there_is_nothing_but_what_it_declares(
    wheel: Path, tmp_path: Path
) -> None:
    python = environment(tmp_path / "empty", wheel)
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        [str(python), "-I", "-c", FIRST_MINUTE],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(work)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert Path(found["file"]).is_relative_to(tmp_path / "empty")
    assert sorted(row["id"] for row in found["rows"]) == [2, 3]
    assert found["first"] == ["ann", "ben"]
    assert "<style>" in found["html"]
    assert found["refused"].keys() == {"sql", "fast", "java"}
    for extra, text in found["refused"].items():
        assert f"Install the extra {extra}: pip install " in text
    # modules that only work with an extra, which ask before they load it
    assert set(found["missing"].values()) <= {"numba", "llvmlite", "IPython"}


def test_type_checkers_and_the_folder_above_find_an_editable_install(
    builder: dict[str, str], tmp_path: Path
) -> None:
    """The folder of a clone is named as the package, and is no package."""
    clone = tmp_path / "lancekit"
    clone.mkdir()
    for name in (*SOURCES, "lancekit"):
        (clone / name).symlink_to(ROOT / name)
    wheel = build("build_editable", clone, tmp_path, builder)
    python = environment(tmp_path / "environment", wheel)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, check=False
        )

    done = run(str(python), "-c", "import lancekit; print(lancekit.dataset)", folder=clone.parent)
    assert done.stdout.startswith("<function dataset at"), done.stderr
    options = ["--follow-imports=skip", "--cache-dir", str(tmp_path / "cache")]
    options += ["--config-file", os.devnull, "--python-executable", str(python)]
    elsewhere = python.parent  # below the clone's parent mypy would find the clone
    checked = run(sys.executable, "-m", "mypy", *options, "-c", "import lancekit", folder=elsewhere)
    assert checked.returncode == 0, checked.stdout
