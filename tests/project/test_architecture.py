"""Which folder may import which, that nothing goes in circles, what importing may load, and which
tests show what a module does."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "lancekit"
TESTS = PACKAGE.parent / "tests"
#: a module, and the test file that fails when it breaks, for those that have none of their name
SHOWN_BY = Path(__file__).with_name("shown_by.txt")

#: from the roof down; a folder, or a module at the root, may import only what stands below it
FLOORS = """
    __main__
    __init__
    _ipython  _wiring
    _notebook
    _notebook/explorer  _notebook/pictures  _notebook/workbench
    _notebook/cards
    _notebook/render
    _statements
    blob  dataset  fragment  indices  mem_wal  optimize  query  schema  udf  vector
    _dataset  arrow  commit  debug  file  lance  log  sampler  spark  util
    _pylance
    _api
    _arguments
    _spark
    _spark/datasource  _spark/merge
    _spark/frames
    _spark/session
    _spark/jobs
    _operations/lineage
    _operations/explain
    _operations/mem_wal/reader
    _operations/mem_wal
    _operations
    _operations/maintenance
    _operations/index
    _operations/cleanup  _operations/common
    _operations/checks  _operations/unmerged
    _pipeline/diff
    _pipeline
    _pipeline/casts
    _scan/search
    _scan
    _commit
    _commit/rules
    _commit/manifest
    _scan/fragments
    _scan/expressions
    _scan/expressions/kernels
    _index/build
    _index/ivf
    _index/inverted
    _index/search
    _index
    _versions
    _shards
    _file
    _file/columns
    _file/layouts
    _file/encodings
    _file/container
    _file/kernels
    _storage
    _casts
    _format/mem_wal
    _format
    _format/pb
    _compiled
    progress  _provenance
    _cache  _sampled
    options  _machine
    _call  _checked  _choice  _defaults  _picture
    errors  _guesses  _fragment_progress  _interrupts  _lazy  _version
    _display  _extras  _own_files  _guessed_names
    _guessed_parts
    _legible  _hooks
    _arrow_kernels
    _arrow_compute
    _arrow_values
"""
LEVEL = {
    folder: level
    for level, folders in enumerate(FLOORS.strip().splitlines())
    for folder in folders.split()
}
#: modules that give names away: importing their folder imports them
DOORS = (
    "_dataset/sharded_batch_iterator",
    "arrow",
    "blob",
    "commit",
    "dataset",
    "debug",
    "file",
    "fragment",
    "indices",
    "lance",
    "log",
    "mem_wal",
    "optimize",
    "query",
    "sampler",
    "schema",
    "spark",
    "udf",
    "util",
    "vector",
)
#: modules that load others, or functions of others, by a table of names; what all names begin with
TABLES = {
    "lancekit._index.search.registry": "",
    "lancekit._ipython": "lancekit.",
    "lancekit._notebook.cards": "lancekit._notebook.cards.",
    "lancekit._notebook.completion": "lancekit.",
    "lancekit._statements.statement": "lancekit._statements.",
    "lancekit._wiring": "lancekit.",
}


@cache
def _modules() -> dict[str, Path]:
    """Return every module by its dotted name; a package is its ``__init__``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "_pb2" not in path.name:
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _folder(name: str) -> str:
    relative = _modules()[name].relative_to(PACKAGE)
    return str(relative.parent) if len(relative.parts) > 1 else relative.stem


@cache
def _imports() -> dict[str, set[str]]:
    """Return what each module imports of the package, for its types or lazily too.

    A table of names of modules imports them.
    """
    return {name: set(_imported(name, path)) - {name} for name, path in _modules().items()}


def _imported(name: str, path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lancekit"):
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            whole = [alias.name for alias in node.names if alias.name.startswith("lancekit")]
        elif name in TABLES and isinstance(node, ast.Constant):
            told = f"{TABLES[name]}{node.value}" if "." in str(node.value) else ""
            whole = [told] if {told, told.rpartition(".")[0]} & _modules().keys() - {name} else []
        else:
            continue
        yield from map(_module_of, whole)


def _module_of(name: str) -> str:
    return name if name in _modules() else _module_of(name.rpartition(".")[0])


def test_every_floor_is_a_folder() -> None:
    assert set(LEVEL) == {_folder(name) for name in _modules()}


def test_no_arrow_points_upward() -> None:
    upward = [
        f"{name} imports {other}, on no lower floor"
        for name in _modules()
        for other in _imports()[name]
        if (target := _folder(other)) != (folder := _folder(name))
        if LEVEL[target] <= LEVEL[folder]
    ]
    assert upward == []


def test_no_modules_form_a_circle() -> None:
    # a package imports what it offers, and its modules import each other by their whole names
    graph = {name: to for name, to in _imports().items() if "__init__" not in _modules()[name].name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"in a circle: {' -> '.join(error.args[1])}")


def test_parts_of_the_class_do_not_know_each_other() -> None:
    parts = [name for name in _modules() if name.startswith("lancekit._api._")]
    assert len(parts) > 8
    common = {"lancekit._api._handle"}
    for name in parts:
        known = {other for other in _imports()[name] if other in parts} - common
        assert not known, f"{name} imports {known}"
        assert "lancekit._api.lance_dataset" not in _imports()[name], name


def _is_of_the_late_door(name: str, node: ast.stmt) -> bool:
    """Tell whether it names, for type checkers, what a door gives away when it is asked for."""
    if name not in {"dataset", "file", "spark"} or not isinstance(node, ast.If):
        return False
    for_types = ast.unparse(node.test) == "TYPE_CHECKING" and not node.orelse
    return for_types and all(isinstance(inner, ast.ImportFrom) for inner in node.body)


@pytest.mark.parametrize("name", DOORS)
def test_doors_hold_nothing(name: str) -> None:
    tree = ast.parse((PACKAGE / f"{name}.py").read_text())
    statements = [node for node in tree.body if not _is_of_the_late_door(name, node)]
    assert all(
        isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign | ast.AnnAssign)
        for node in statements
    )
    door = importlib.import_module(f"lancekit.{name.replace('/', '.')}")
    assert all(getattr(door, public) for public in door.__all__)


def test_generated_classes_stay_in_their_rooms() -> None:
    for name, path in _modules().items():
        if _folder(name).split("/")[0] not in {"_format", "_file"}:
            assert "_pb2" not in path.read_text(), path
            assert "google.protobuf" not in path.read_text(), path


def test_only_the_spark_room_imports_pyspark() -> None:
    for name, path in _modules().items():
        text = path.read_text()
        if _folder(name).split("/")[0] != "_spark":
            assert "import pyspark" not in text, path
            assert "from pyspark" not in text, path


#: modules whose functions import what one call needs and most do not: docs/architecture.md
GATES = """
    _api._commits  _api._exporting  _api._handle  _api._indices  _api._lineage  _api._maintenance
    _api._mem_wal  _api._mem_wal_upkeep  _api._positions  _api._reading  _api._rows
    _api._versions  _api.diff  _api.lance_dataset  _api.sinks  _api._merge_plans
    _api.history  _api.listed  _api.planned_scan  _api.scanner  _commit.protocol
    _commit.refs  _compiled.state
    _file.columns.decoders  _file.encodings.bitpacking  _file.encodings.byte_stream_split
    _file.encodings.fixed_size_list  _file.encodings.flat  _file.encodings.fsst
    _file.encodings.general  _file.encodings.packed_struct  _file.encodings.rle
    _file.encodings.variable  _file.open_files  _file.reader  _format.fragment
    _notebook.explorer  _operations.cleanup.auto  _pipeline.inputs  _pipeline.key_counter
    _operations.explain.scans  _operations.mem_wal.reader.merge_on_read
    _operations.unmerged.audit  _operations.unmerged.counts  _operations.write  _pipeline.source
    _scan.expressions.bind  _scan.expressions.columns  _scan.expressions.condition
    _scan.expressions.constants  _scan.expressions.evaluate  _scan.expressions.objects
    _scan.expressions.predicate
    _scan.fragments.joint_reader  _scan.fragments.reader  _scan.index_lookup
    _scan.index_queries  _scan.read  _spark.datasource.datasource  _spark.session.preflight
    _statements.relations  _statements.run  _storage.places  _versions.branch_location
    _versions.old_counts  _versions.references  _versions.snapshot  _wiring  lancekit
    _api.hinting  _api.not_offered  _arguments.checks  _checked  _choice  _operations.delete
    _operations.merge_insert
"""


_INDENTED_IMPORT = re.compile(r"^\s+from lancekit", re.MULTILINE)


def _imports_in_functions(path: Path) -> bool:
    text = path.read_text()
    if not _INDENTED_IMPORT.search(text):
        return False
    functions = (node for node in ast.walk(ast.parse(text)) if _is_function(node))
    return any(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lancekit")
        for function in functions
        for node in ast.walk(function)
    )


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def test_only_gates_import_inside_of_functions() -> None:
    found = {name for name, path in _modules().items() if _imports_in_functions(path)}
    assert {name.removeprefix("lancekit.") for name in found} == set(GATES.split())


def test_only_statements_import_sqlglot() -> None:
    named = {n for n, path in _modules().items() if "sqlglot" in path.read_text(encoding="utf-8")}
    assert {name.split(".")[1] for name in named} == {"_statements"}


#: what holds a condition goes by one of these names
_CONDITIONS = {"filter", "condition", "predicate", "by_source"}
_CONDITION_AS_TEXT = re.compile(rf"\b(?:{'|'.join(_CONDITIONS)})\s*:\s*str\b")
#: where conditions enter as text or are stored as text; forms and rules that only have the name
_TEXTS = {
    "_api",
    "_pylance",
    "_notebook",
    "_format.operations",
    "_operations.checks.constraints",
    "_pipeline.casts.rules",
    "_spark.datasource.options",
    "_statements.functions",
}


def test_conditions_are_no_bare_text_behind_the_edges() -> None:
    """They are bound trees, or `Unbound`: nothing joins them, cuts them or parses them twice."""
    found = []
    for name, path in _modules().items():
        short = name.removeprefix("lancekit.")
        if any(short == edge or short.startswith(f"{edge}.") for edge in _TEXTS):
            continue
        text = path.read_text(encoding="utf-8")
        if not _CONDITION_AS_TEXT.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                told, annotation = node.target.id, node.annotation
            elif isinstance(node, ast.arg) and node.annotation is not None:
                told, annotation = node.arg, node.annotation
            else:
                continue
            if told in _CONDITIONS and ast.unparse(annotation) in ("str", "str | None"):
                found.append(f"{short}:{node.lineno}: {told}")
    assert found == []


def test_lancekit_never_imports_the_reference() -> None:
    for path in _modules().values():
        text = path.read_text()
        assert "import lance\n" not in text, path
        assert "from lance " not in text, path


# ---- which tests show what a module does


def _with_code() -> dict[str, Path]:
    """Return the modules that do something; packages that only offer names do not."""
    kinds = ast.FunctionDef | ast.ClassDef
    return {
        name: path
        for name, path in _modules().items()
        if path.name != "__init__.py"
        or any(isinstance(node, kinds) for node in ast.parse(path.read_text()).body)
    }


def _mirrors(name: str) -> list[Path]:
    """Return the test files of a module's name: in its own folder of tests, or in its room's.

    One that does not reach it is about another module of the name.
    """
    _, *folders, module = name.split(".") if "." in name else ["", name]
    test = f"test_{module.strip('_')}.py"
    folders = [folder.strip("_") for folder in folders]
    places = {TESTS.joinpath(*folders, test), TESTS.joinpath(*folders[:1], test)}
    return [test for test in places if test.exists() and name in _reached_by(test)]


@cache
def _shown_by() -> dict[str, Path]:
    lines = [line.split() for line in SHOWN_BY.read_text().splitlines() if line[:1] != "#"]
    assert [module for module, _ in lines] == sorted({module for module, _ in lines})
    return {module: TESTS.parent / test for module, test in lines}


@cache
def _reached(name: str) -> frozenset[str]:
    """Return a module and all that it imports, and what these import."""
    found, left = set(), {name}
    while left:
        found.add(one := left.pop())
        left |= _imports()[one] - found
    return frozenset(found)


@cache
def _reached_by(test: Path) -> frozenset[str]:
    """Return the modules that a test file reaches, itself or with what the tests share."""
    found = frozenset().union(*map(_reached, _imported(test.stem, test)))
    if "import lancekit" in test.read_text():  # in a program for another process, perhaps
        found |= _reached("lancekit")
    for node in ast.walk(ast.parse(test.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            shared = TESTS.parent / ((node.module or "").replace(".", "/") + ".py")
            if shared.exists():
                found |= _reached_by(shared)
    return found


def test_every_module_has_a_test() -> None:
    alone = {name for name in _with_code() if not _mirrors(name)}
    assert alone - set(_shown_by()) == set(), "these need a test file of their name, or a line"
    assert set(_shown_by()) - alone == set(), "these are gone, or have a test file of their name"


def test_tests_reach_the_modules_that_they_are_listed_for() -> None:
    for name, test in _shown_by().items():
        assert test.is_file(), f"{name} is said to be shown by {test}"
        assert name in _reached_by(test), f"{test} does not reach {name}"


def test_no_property_holds_a_lock_of_all_objects() -> None:
    """`lancekit._lazy` has that which is cached without one."""
    held = ("functools import cached_property", "functools.cached_property")
    others = [
        name
        for name, path in _modules().items()
        if name != "lancekit._lazy" and any(text in path.read_text() for text in held)
    ]
    assert others == []


def test_no_module_of_the_tests_hides_one_of_python() -> None:
    """Programs in `tests/support` run as scripts, so that its modules come first."""
    names = {path.stem for path in (TESTS / "support").glob("*.py")}
    assert not names & sys.stdlib_module_names
