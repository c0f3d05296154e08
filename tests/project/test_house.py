"""The package stays small: modules, rooms, imports between rooms, lines, lines with ``Any``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tests.support.house import PACKAGE, House, counted

#: no more than these; lines have room for docstrings and for names that users guess
MOST = House(modules=665, lines=149_220, rooms=57, arrows=466, lines_with_any=326)


def test_the_package_does_not_grow() -> None:
    found, most = asdict(counted()), asdict(MOST)
    assert {name: count for name, count in found.items() if count > most[name]} == {}


def test_a_file_is_read_in_one_go() -> None:
    files = (path for path in PACKAGE.rglob("*.py") if "_pb2" not in path.name)
    assert [path.name for path in files if len(path.read_text().splitlines()) > 500] == []


def test_what_is_counted(tmp_path: Path) -> None:
    package = tmp_path / "lancekit"
    for name, text in {
        "__init__.py": "from lancekit.above.one import f\n",
        "above/__init__.py": "",
        "above/one.py": "from typing import Any\nfrom lancekit.below.two import g\nX = Any\n\n\n"
        "def f(x: X, y: Any) -> X:\n    from lancekit.below.two import g\n    return x\n",
        "below/__init__.py": "",
        "below/two.py": "def g() -> int: ...\n",
        "below/made_pb2.py": "from typing import Any\n",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    assert counted(package) == House(modules=5, lines=10, rooms=2, arrows=1, lines_with_any=2)
