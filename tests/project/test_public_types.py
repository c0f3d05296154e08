"""What type checkers see of a package; `make lint` looks at lancekit's own."""

from __future__ import annotations

from pathlib import Path

from tests.support.public_types import verified


def test_what_is_public_and_what_is_not_known_are_found(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    (package / "_rooms").mkdir(parents=True)
    for name, text in {
        "py.typed": "",
        "__init__.py": "from shop._rooms.stock import count\n\n__all__ = ['count']\n",
        "_rooms/__init__.py": "",
        "_rooms/stock.py": "import pyarrow as pa\n\ndef count(rows: pa.Table) -> int: ...\n"
        "def forgotten(rows): ...\n",
        "errors.py": "def explain(error): ...\n\nclass Wrong(ValueError): ...\n",
    }.items():
        (package / name).write_text(text)
    found = verified("shop", tmp_path)
    assert found.modules == ("shop", "shop.errors")
    assert found.symbols > 2
    (unknown,) = found.unknown
    assert unknown.startswith("shop.errors.explain: ")
