"""Public names come when they are first asked for, and are the same whatever came before."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import lancekit as lk
import lancekit.dataset  # so that this file is seen to reach it

SOURCE = Path(lk.__file__)


def _told_to_type_checkers() -> dict[str, set[str]]:
    """Return the names of each module that type checkers and readers are told of."""
    body = ast.parse(SOURCE.read_text()).body
    blocks = [node for node in body if isinstance(node, ast.If)]
    (block,) = (node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING")
    told = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        assert all(alias.asname is None for alias in node.names)
        told[node.module or ""] = {alias.name for alias in node.names}
    return told


def _fresh(program: str, *, given: bytes = b"") -> str:
    """Run a program where nothing has been imported."""
    done = subprocess.run(
        [sys.executable, "-c", program], input=given, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def test_type_checkers_are_told_what_python_finds() -> None:
    told = _told_to_type_checkers()
    assert told.pop("lancekit") == lk._MODULES
    homes = {f"lancekit.{home}": set(names.split()) for home, names in lk._HOMES.items()}
    assert told == homes
    for home, names in told.items():
        for name in names:
            assert getattr(lk, name) is getattr(import_module(home), name)


def test_all_names_are_listed() -> None:
    listed = {*lk._HOME, *lk._MODULES, "__version__", "errors", "options"}
    assert listed >= set(lk.__all__)
    assert listed - set(lk.__all__) == lk._MODULES - {"optimize", "schema"}


def test_names_are_those_that_are_offered() -> None:
    assert _fresh("import lancekit; print(*dir(lancekit))").split() == lk.__all__
    star = "from lancekit import *; print(*(name for name in globals() if name[:2] != '__'))"
    assert {*_fresh(star).split(), "__version__"} == set(lk.__all__)


BEFORE = [
    "import lancekit.dataset",
    "from lancekit.dataset import LanceDataset",
    "import lancekit._api.lance_dataset, lancekit.options, lancekit.schema",
    "from lancekit import *",
    "import lancekit._notebook, lancekit._spark",
]
THEN = """
import lancekit as lk
import lancekit.dataset
from lancekit import dataset
from lancekit.dataset import dataset as behind_the_door
from lancekit.options import options
from types import FunctionType, ModuleType
assert type(lk.dataset) is FunctionType, lk.dataset
assert lk.dataset is dataset is behind_the_door
assert lk.options is options
assert all(type(getattr(lk, name)) is ModuleType for name in lk._MODULES)
assert not set(lk.__all__) - set(dir(lk))
"""


def test_functions_stay_functions_whatever_was_imported() -> None:
    """Each in a process that has imported what others made, which took most of the time."""
    program = f"""
import os
import numba, numpy, pandas, pyarrow.compute, pyarrow.dataset
for before in {BEFORE!r}:
    process = os.fork()
    if not process:
        exec(before + {THEN!r}, {{}})
        os._exit(0)
    if os.waitpid(process, 0)[1]:
        print(before)
"""
    assert _fresh(program) == ""


def test_pickles_open_where_nothing_was_imported() -> None:
    ds = lk.write_dataset({"x": [1, 2]}, "memory://importing-example")
    things = [lk.dataset, lk.options, lk.BlobType(), ds.schema, lk.ScannerBuilder, lk.Tags]
    program = "import pickle, sys; print(*map(repr, pickle.load(sys.stdin.buffer)), sep='; ')"
    told = _fresh(program, given=pickle.dumps(things))
    assert told.startswith("<function dataset at ")
    assert "BlobType" in told


def test_what_is_in_no_list_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = lk.nonsense  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sys.modules["lancekit.dataset"].nonsense
    assert not hasattr(lk, "api_that_is_not_there")
