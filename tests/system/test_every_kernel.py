"""Every kernel and array method of Arrow that lancekit calls answers by values, not by layouts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancekit import _arrow_kernels as ak
from lancekit._pipeline.casts.values import first
from tests.support.called_kernels import (
    ACCESSORS,
    COLUMNS,
    FUNCTIONS,
    METHODS,
    NOT_REACHED,
    UNORDERED,
)
from tests.support.odd_layouts import chunked, odd, rebuilt
from tests.support.recorded_kernels import called

PACKAGE = Path(__file__).parents[2] / "lancekit"
CALLS = {**{f"pc.{name}": call for name, call in FUNCTIONS.items()}, **METHODS}
_MASK = pa.array([True, False, None, True, True, False, True, False])
_NUMBERS = pa.array([3, 0, 1, None, 2, 2, 5, 4], pa.int64())


def _plain(name: str, found: Any) -> str:
    """Return a result as text, which NaN equals, too."""
    if isinstance(found, pa.Scalar):
        return repr(found.as_py())
    if isinstance(found, list):  # the fields of structs
        return repr([part.to_pylist() for part in found])
    values = found.to_pylist()
    return repr(sorted(map(repr, values)) if name.removeprefix("pc.") in UNORDERED else values)


def _answer(name: str, *arrays: Any) -> str | None:
    """Return the answer of a kernel, ``None`` if it takes no values of the type."""
    try:
        found = CALLS[name](*arrays)
    except (NotImplementedError, AttributeError, TypeError):
        return None
    except (pa.ArrowException, ValueError, IndexError) as error:
        return type(error).__name__
    if isinstance(found, pa.Array | pa.ChunkedArray | pa.Table):
        found.validate(full=True)
    return _plain(name, found)


def _forms(column: pa.Array, random: np.random.Generator) -> Iterator[tuple[Any, Any, Any]]:
    """Yield values, a mask and numbers in odd layouts: as arrays, and in chunks."""
    for layout in (odd, odd, chunked):
        values = layout(column, random)
        assert values.to_pylist() == column.to_pylist()
        values.validate(full=True)
        yield values, layout(_MASK[: len(column)], random), layout(_NUMBERS[: len(column)], random)


@pytest.mark.torture
@pytest.mark.parametrize("kind", COLUMNS)
def test_layouts_make_no_difference(kind: str, whole: bool) -> None:
    random = np.random.default_rng(list(kind.encode()))
    wrong = {}
    for count in (8, 0, *([3, 1, 8, 8, 5] if whole else [])):
        column = COLUMNS[kind][:count]
        plain = (rebuilt(column), rebuilt(_MASK[:count]), rebuilt(_NUMBERS[:count]))
        wanted = {name: _answer(name, *plain) for name in CALLS}
        for arrays in _forms(column, random):
            chunks = isinstance(arrays[0], pa.ChunkedArray)
            for name in CALLS:
                if wanted[name] is None or (name, kind) in NOT_REACHED:
                    continue
                found = _answer(name, *arrays)
                if found is None and chunks:
                    continue  # no chunks are taken
                if found != wanted[name]:
                    wrong[name] = (count, arrays[0], found, wanted[name])
    assert wrong == {}


def test_what_is_not_reached_is_still_wrong() -> None:
    assert {name for name, _ in NOT_REACHED} <= set(CALLS)
    assert {kind for _, kind in NOT_REACHED} <= set(COLUMNS)


# ---- the list is whole; what the tests call is compared with it by tests/conftest.py


def test_calls_are_recorded() -> None:
    called.discard("index")
    pc.index(pa.array([True]), True)
    assert "index" not in called
    first(pa.array([True]))
    assert "index" in called
    called.discard("is_valid")
    ak.drop_null(pa.array([None, "a"]).dictionary_encode("encode"))
    assert "is_valid" in called


def _names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield whose attribute is used, and its name; of methods those that are called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pc":
            yield "pc", node.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func.value), node.func.attr


_CLASSES = [
    value
    for value in vars(pa).values()
    if isinstance(value, type)
    and issubclass(value, pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table)
]
_METHODS = {
    name
    for owner in _CLASSES
    for name in dir(owner)
    if not name.startswith("_") and callable(getattr(owner, name))
}


def test_every_kernel_in_the_code_is_listed() -> None:
    functions, methods = set(), set()
    for path in PACKAGE.rglob("*.py"):
        for owner, name in _names(ast.parse(path.read_text())):
            if owner == "pc":
                functions.add(name)
            elif owner not in ("pa", "np", "ak") and name in _METHODS:
                methods.add(name)
    others = {"Expression", "field", "scalar", "call_function", *vars(ak)}
    assert functions - others - set(FUNCTIONS) == set()
    assert methods - set(METHODS) - ACCESSORS == set()
