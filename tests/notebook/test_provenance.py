"""Which cell of which notebook a version comes from, as a shell of IPython says."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit._notebook.provenance import find
from tests.support.shells import ipython


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Any]:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    with ipython() as shell, lk.options(provenance="source"):
        shell.user_ns |= {"ds": ds, "lk": lk}
        yield shell


def test_the_cell_that_runs(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "work/cleaning.ipynb")
    code = ["def add():\n    ds.insert({'x': [2]})", "add()\n# a note", "%time add()"]
    for cell in code:
        shell.run_cell(cell, store_history=True)
    versions = shell.user_ns["ds"].versions()
    found = [version.provenance for version in versions[1:]]
    assert [(f.notebook, f.cell) for f in found] == [("cleaning.ipynb", n) for n in ("2", "3")]
    assert [version.source() for version in versions] == [None, *code[1:]]


def test_vs_code_tells_the_file(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    shell.run_cell("ds.insert({'x': [2]})", store_history=True)
    shell.user_ns["__vsc_ipynb_file__"] = "c:\\ana\\late.ipynb"
    shell.run_cell("ds.insert({'x': [2]})", store_history=True)
    found = [version.provenance for version in shell.user_ns["ds"].versions()[1:]]
    # of the places alone: a Spark session of other tests in this process is told, too
    assert [(f.notebook, f.cell) for f in found] == [("", "1"), ("late.ipynb", "2")]
    assert str(found[0]).startswith("cell 1 of a notebook")


def test_outside_of_cells_nothing_is_found(shell: Any) -> None:
    assert find() is None


def test_in_a_thread_of_a_kernel_the_notebook_is_known(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "cleaning.ipynb")
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    with ThreadPoolExecutor(1) as pool:
        assert str(pool.submit(find).result()) == "cleaning.ipynb"
        shell.user_ns |= {"pool": pool, "run": copy_context().run}  # options are of a block
        shell.run_cell("pool.submit(run, ds.insert, {'x': [2]}).result()", store_history=True)
    (made,) = [version.provenance for version in shell.user_ns["ds"].versions()[1:]]
    assert (made.notebook, made.cell, made.script) == ("cleaning.ipynb", "", "")
