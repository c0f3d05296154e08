"""``python -m tests.support.house [PACKAGE ...]``: how large the package is, and who imports whom.

PACKAGE are folders of the package ``lancekit``, such as those of other checkouts.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["PACKAGE", "House", "counted"]

PACKAGE = Path(__file__).parents[2] / "lancekit"


@dataclass(frozen=True, slots=True)
class House:
    """Counts of a package, without generated modules.

    Attributes
    ----------
    modules, lines
        Its files, and their lines.
    rooms
        Folders that have modules, below the package's own.
    arrows
        Pairs of rooms of which one imports the other.
    lines_with_any
        Lines that say ``Any``, or an alias of it, outside of imports.
    """

    modules: int
    lines: int
    rooms: int
    arrows: int
    lines_with_any: int


def counted(package: Path = PACKAGE) -> House:
    """Count the modules of a package."""
    texts = {
        path.relative_to(package).with_suffix("").parts: path.read_text(encoding="utf-8")
        for path in sorted(package.rglob("*.py"))
        if "_pb2" not in path.name
    }
    rooms = {parts[:-1] for parts in texts} - {()}
    arrows, lines_with_any = set(), 0
    for parts, text in texts.items():  # one tree at a time: Python looks for garbage among many
        tree = ast.parse(text)
        lines_with_any += _lines_with_any(tree)
        if parts[:-1]:
            arrows |= {(parts[:-1], room) for room in _imported(tree, rooms)}
    return House(
        modules=len(texts),
        lines=sum(len(text.splitlines()) for text in texts.values()),
        rooms=len(rooms),
        arrows=sum(home != room for home, room in arrows),
        lines_with_any=lines_with_any,
    )


def _imported(tree: ast.AST, rooms: set[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield the rooms of what a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lancekit."):
            parts = tuple((node.module or "").split(".")[1:])
            room = parts if parts in rooms else parts[:-1]
            if room:
                yield room


def _lines_with_any(tree: ast.Module) -> int:
    """Return how many lines of a module name ``Any`` or an alias of it."""
    aliases = {"Any"} | {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Any"
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    return len({n.lineno for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in aliases})


if __name__ == "__main__":
    for place in sys.argv[1:] or [str(PACKAGE)]:
        counts = asdict(counted(Path(place)))
        print(place, *(f"{name} {number:,}" for name, number in counts.items()))
