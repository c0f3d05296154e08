"""Kernels of Arrow that are not right for every array are called by one module only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "lancekit"
OWNER = PACKAGE / "_arrow_kernels.py"

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
OF_FILES = ("_file/kernels/", "_file/layouts/", "_pylance/bfloat16.py")
#: other objects with methods of these names, by module: NumPy's arrays, datasets, readers of text
NOT_ARROW = {
    "_api/exports.py": {"frame"},
    "_api/_fragment_reading.py": {"self._fragment"},
    "_api/items.py": {"ds"},
    "_pylance/samplers.py": {"ds"},
    "_file/encodings/decode.py": {"flat"},
    "_file/kernels/bitpacking.py": {"known.view(_LANES)", "np"},
    "_file/kernels/fsst_decode.py": {"borders", "index", "self._firsts"},
    "_file/kernels/fsst_encode.py": {
        *("_LOW", "left", "self._long", "self._long_step", "self._mask", "self._short"),
    },
    "_file/kernels/values.py": {"data"},
    "_format/batch_parse.py": {"self"},
    "_format/fragment.py": {"facts"},
    "_format/row_id_bounds.py": {"kinds"},
    "_index/ivf/codes.py": {"numbers"},
    "_notebook/magics.py": {"ds.explain"},
    "_pipeline/find_values.py": {"np"},
    "_pipeline/write_rows.py": {"rest"},
    "_scan/expressions/kernels/regex.py": {"self"},
    "_scan/expressions/kernels/regex_reader.py": {"self"},
}


#: all of the last part that is looked for
NAMES = METHODS | ATTRIBUTES | {"cast"} | {function.partition(".")[2] for function in FUNCTIONS}


@dataclass(frozen=True)
class Use:
    """A use of one of the names: of what, as which call if it is called, and where."""

    module: str
    line: int
    owner: str
    name: str
    arguments: tuple[str, ...] | None

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.owner}.{self.name}"


@cache
def _uses() -> list[Use]:
    """Return the uses in all modules but the owner's: to parse these takes most of the time."""
    return [use for path in set(PACKAGE.rglob("*.py")) - {OWNER} for use in _uses_in(path)]


def _uses_in(path: Path) -> Iterator[Use]:
    module, calls = str(path.relative_to(PACKAGE)), {}
    for node in ast.walk(ast.parse(path.read_text())):  # a call comes before what is called
        if isinstance(node, ast.Call):
            calls[node.func] = node.args
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            given = calls.get(node)
            arguments = None if given is None else tuple(map(ast.unparse, given))
            yield Use(module, node.lineno, ast.unparse(node.value), node.attr, arguments)


def _is_kernel(use: Use) -> bool:
    if use.owner in ("pa", "pc"):  # functions are passed on, too
        return f"{use.owner}.{use.name}" in FUNCTIONS
    return use.name in METHODS and use.arguments is not None


def test_only_one_module_calls_them() -> None:
    found = {
        str(use)
        for use in _uses()
        if _is_kernel(use) and use.owner not in {"ak", *NOT_ARROW.get(use.module, ())}
    }
    assert found == set(), "call these by lancekit._arrow_kernels"


def test_only_one_module_counts_nulls() -> None:
    found = {
        str(use)
        for use in _uses()
        if use.name in ATTRIBUTES and use.owner != "ak" and not use.module.startswith(OF_FILES)
    }
    assert found == set(), "count these by lancekit._arrow_kernels"


def test_only_one_module_casts_whole_rows() -> None:
    found = {
        str(use)
        for use in _uses()
        if use.name == "cast" and use.owner != "ak" and use.arguments
        if len(use.arguments) == 1 and use.arguments[0].endswith("schema")
    }
    assert found == set(), "cast these by lancekit._arrow_kernels"


def test_the_other_objects_are_there() -> None:
    there = {
        (use.module, use.owner)
        for use in _uses()
        if use.name in METHODS and use.arguments is not None
    }
    for module, owners in NOT_ARROW.items():
        assert {(module, owner) for owner in owners} <= there, module
