"""Which room may import which, and what `import lancekit` may load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "lancekit"

#: from the roof down; a room may import only what stands below it
FLOORS = [
    ["_wiring", "__init__"],
    ["notebook"],
    [
        "dataset",
        "handle",
        "versioned",
        "committing",
        "configuring",
        "operation",
        "writing",
        "changing",
        "dictionaries",
        "fragment_changes",
        "fragment_reading",
        "optimize",
        "fragment",
        "history",
        "inventory",
        "merge",
        "references",
        "scanner",
        "scanner_builder",
        "scan_options",
        "spark_frames",
        "positions",
        "schema",
        "arguments",
        "blob_reading",
        "blobs",
        "not_offered",
        "sql",
        "delta",
        "frames",
        "vector",
        "reading",
        "spark_reading",
        "streams",
        "replacing",
        "merging",
        "explained_scan",
        "explaining",
        "times",
        "udf",
    ],
    ["spark"],
    ["operations"],
    ["pipeline"],
    ["scan"],
    ["commit"],
    ["file"],
    ["format"],
    ["storage"],
    ["progress"],
    ["options"],
    ["checked"],
    ["errors", "_version"],
    ["display"],
    ["legible"],
]
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


def _room(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def _imports(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lancekit"):
            parts = (node.module or "").split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("lancekit.")}
    return rooms


def _modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "_pb2" not in path.name]


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_arrow_points_upward(path: Path) -> None:
    room = _room(path)
    for other in _imports(path) - {room}:
        assert other in LEVEL, f"{other} is on no floor"
        assert LEVEL[other] >= LEVEL[room], f"{room} imports {other}, which stands above it"


def test_generated_classes_stay_in_their_rooms() -> None:
    for path in _modules():
        if _room(path) not in {"format", "file"}:
            assert "_pb2" not in path.read_text(), path
            assert "google.protobuf" not in path.read_text(), path


def test_only_the_spark_room_imports_pyspark() -> None:
    for path in _modules():
        text = path.read_text()
        if _room(path) != "spark":
            assert "import pyspark" not in text, path
            assert "from pyspark" not in text, path


def test_import_is_light() -> None:
    heavy = ["pyspark", "ipywidgets", "matplotlib", "pandas", "pyarrow.dataset", "sqlglot"]
    program = f"import lancekit, sys; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_lancekit_never_imports_the_reference() -> None:
    for path in _modules():
        text = path.read_text()
        assert "import lance\n" not in text, path
        assert "from lance " not in text, path
