"""The page of keys lists each key that the sources have."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import lancekit as lk

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/format/keys.md"
#: how keys begin that are stored in tables
KEY = re.compile(
    r"(lancekit[.:]|lance-schema:|lance-encoding:|lance:|lance\.(auto_cleanup|compaction|blob\.man)"
    r"|__lance_commit|ARROW:)[\w.:<>-]*"
)


def listed() -> set[str]:
    """Return the keys of the page, up to what differs from table to table."""
    keys = re.findall(r"`([^`]+)`", PAGE.read_text())
    return {key.partition("<")[0] for key in keys if KEY.match(key)}


def is_a_name(text: str) -> bool:
    """Return True for a module or a public name, which is no key."""
    home, _, rest = text.partition(".")
    if home != "lancekit" or (rest and text.endswith(".")):
        return False
    name = rest.split(".")[0].split(":")[0]
    return not name or hasattr(lk, name) or importlib.util.find_spec(f"lancekit.{name}") is not None


def keys_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = KEY.fullmatch(node.value)
            if found and not is_a_name(node.value):
                yield node.value


def test_each_key_of_the_sources_is_listed() -> None:
    known, found = listed(), set[str]()
    for path in (ROOT / "lancekit").rglob("*.py"):
        for key in keys_of(path):
            found.add(key)
            assert any(key.startswith(one) or one.startswith(key) for one in known), (path, key)
    for key in known:
        if key.startswith(("lancekit.", "lancekit:")):
            assert any(key.startswith(one) for one in found), f"nothing writes or reads {key}"


def test_a_key_that_is_not_listed_is_found(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text('KEY = "lancekit.unheard."\nHOME = "lancekit.errors"\nTEXT = "lancekit"\n')
    assert list(keys_of(source)) == ["lancekit.unheard."]
