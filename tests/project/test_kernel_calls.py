"""Kernels of Arrow that are not right for every array are called by one module only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "lancekit"
OWNER = PACKAGE / "arrow_kernels.py"

#: methods of arrays, columns, batches and tables
METHODS = {
    "combine_chunks",
    "drop_null",
    "filter",
    "sort_by",
    "take",
    "unify_dictionaries",
    "value_parent_indices",
}
#: functions of `pa` and `pc`
FUNCTIONS = {
    *("pa.concat_arrays", "pa.concat_batches"),
    *("pc.array_filter", "pc.array_take", "pc.drop_null", "pc.filter", "pc.take"),
    *("pc.max_element_wise", "pc.min_element_wise", "pc.rank", "pc.sort_indices"),
    *("pc.ascii_lower", "pc.ascii_swapcase", "pc.ascii_upper", "pc.list_parent_indices"),
}
#: what arrays say of themselves, and where arrays are those of files, without dictionaries
ATTRIBUTES = {"null_count"}
OF_FILES = ("file/kernels/", "file/layouts/", "file/structure/", "api/bfloat16.py")
#: other objects with methods of these names, by module: NumPy's arrays, datasets, readers of text
NOT_ARROW = {
    "api/_fragment_reading.py": {"self._fragment"},
    "api/_positions.py": {"self"},
    "api/samplers.py": {"ds"},
    "file/encodings/decode.py": {"flat"},
    "file/kernels/bitpacking.py": {"known.view(_LANES)", "np"},
    "file/kernels/fsst_decode.py": {"borders", "index", "self._firsts"},
    "file/kernels/fsst_encode.py": {
        *("_LOW", "left", "self._long", "self._long_step", "self._mask", "self._short"),
    },
    "file/kernels/utf8.py": {"data"},
    "format/batch_parse.py": {"self"},
    "format/fragment.py": {"facts"},
    "format/row_id_bounds.py": {"kinds"},
    "index/ivf/codes.py": {"numbers"},
    "notebook/magics.py": {"ds.explain"},
    "notebook/pictures/columns.py": {"handle"},
    "pipeline/keys/find_values.py": {"np"},
    "pipeline/rows/write.py": {"rest"},
    "scan/expressions/kernels/regex.py": {"self"},
    "scan/expressions/kernels/regex_reader.py": {"self"},
}


def _calls(path: Path) -> Iterator[tuple[str, str, int]]:
    """Yield of what a method or function is called, its name, and the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        called = isinstance(node, ast.Call)
        name = node.func if called else node
        if isinstance(name, ast.Attribute):
            owner = ast.unparse(name.value)
            if called or owner in ("pa", "pc"):  # functions are passed on, too
                yield owner, name.attr, name.lineno


def _is_kernel(owner: str, name: str) -> bool:
    return f"{owner}.{name}" in FUNCTIONS if owner in ("pa", "pc") else name in METHODS


def test_only_one_module_calls_them() -> None:
    found = {
        f"{name}:{line}: {owner}.{called}"
        for path in set(PACKAGE.rglob("*.py")) - {OWNER}
        for name in [str(path.relative_to(PACKAGE))]
        for owner, called, line in _calls(path)
        if _is_kernel(owner, called) and owner not in {"ak", *NOT_ARROW.get(name, ())}
    }
    assert found == set(), "call these by lancekit.arrow_kernels"


def test_only_one_module_counts_nulls() -> None:
    found = {
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for path in set(PACKAGE.rglob("*.py")) - {OWNER}
        for name in [str(path.relative_to(PACKAGE))]
        if not name.startswith(OF_FILES)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES
        if ast.unparse(node.value) != "ak"
    }
    assert found == set(), "count these by lancekit.arrow_kernels"


def test_only_one_module_casts_whole_rows() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"
        for path in set(PACKAGE.rglob("*.py")) - {OWNER}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "cast" and ast.unparse(node.func.value) != "ak"
        if len(node.args) == 1 and ast.unparse(node.args[0]).endswith("schema")
    }
    assert found == set(), "cast these by lancekit.arrow_kernels"


def test_the_other_objects_are_there() -> None:
    for name, owners in NOT_ARROW.items():
        there = {owner for owner, called, _ in _calls(PACKAGE / name) if called in METHODS}
        assert owners <= there, name
