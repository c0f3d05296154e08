"""``safe=False`` of Arrow's casts wraps values around: one module has it, with the checks."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "lancekit"
CHECKED = PACKAGE / "_casts.py"


def _is_false(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _is_unchecked(call: ast.Call) -> bool:
    """Return True for a cast whose values Arrow does not check."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if any(word.arg == "options" for word in call.keywords) and name == "cast":
        return True
    if any(word.arg == "safe" and not _is_true(word.value) for word in call.keywords):
        return name != "from_arrays"  # of dictionaries, whose numbers were checked before
    return name == "cast" and any(map(_is_false, call.args))


def _is_true(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def test_no_cast_is_unchecked_but_beside_its_check() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if path != CHECKED
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _is_unchecked(node)
    }
    assert found == set(), "use cut or nearest of lancekit._casts"


def test_the_module_of_checked_casts_is_looked_at() -> None:
    calls = [
        node for node in ast.walk(ast.parse(CHECKED.read_text())) if isinstance(node, ast.Call)
    ]
    assert any(map(_is_unchecked, calls))
