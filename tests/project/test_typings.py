"""What `typings/` says of Arrow: that Arrow has it, with arguments of these names."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TYPINGS = Path(__file__).parents[2] / "typings"
STUBS = sorted(TYPINGS.rglob("*.pyi"))


def _module(path: Path) -> str:
    parts = path.relative_to(TYPINGS).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _told(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the public names of a stub, or of a class of it."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            name = statement.name
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
        else:
            continue
        if not name.startswith("_") or name.startswith("__"):
            yield name, statement


def _arguments(stub: ast.FunctionDef) -> set[str]:
    """Return the arguments that may be given by name."""
    return {argument.arg for argument in [*stub.args.args, *stub.args.kwonlyargs]} - {"self", "cls"}


def _problems(owner: Any, where: str, body: list[ast.stmt]) -> Iterator[str]:
    for name, stub in _told(body):
        if name == "__buffer__" and sys.version_info < (3, 12):
            continue  # from then on Python shows it of compiled classes
        if not hasattr(owner, name):
            yield f"{where}.{name} is not there"
        elif isinstance(stub, ast.ClassDef):
            yield from _problems(getattr(owner, name), f"{where}.{name}", stub.body)
        elif isinstance(stub, ast.FunctionDef) and not name.startswith("__"):
            yield from _unknown_arguments(getattr(owner, name), f"{where}.{name}", stub)


def _unknown_arguments(function: Any, where: str, stub: ast.FunctionDef) -> Iterator[str]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return  # a property, or compiled without its signature
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for argument in sorted(_arguments(stub) - parameters.keys()):
        yield f"{where}({argument}=) is not there"


@pytest.mark.parametrize("path", STUBS, ids=_module)
def test_arrow_has_what_is_said_of_it(path: Path) -> None:
    name = _module(path)
    body = ast.parse(path.read_text()).body
    assert [*_told(body)]
    assert [*_problems(importlib.import_module(name), name, body)] == []


def test_what_arrow_lacks_is_found() -> None:
    import pyarrow as pa

    said = """
class Array:
    def slice(self, offset: int, size: int) -> Array: ...
    def sliced(self) -> Array: ...
def nulls(size: int, kind: DataType) -> Array: ...
nothing: int
"""
    assert [*_problems(pa, "pa", ast.parse(said).body)] == [
        "pa.Array.slice(size=) is not there",
        "pa.Array.sliced is not there",
        "pa.nulls(kind=) is not there",
        "pa.nothing is not there",
    ]
