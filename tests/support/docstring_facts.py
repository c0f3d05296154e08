"""``python -m tests.support.docstring_facts``: the facts that public docstrings state, as a table.

A fact is a parameter, an attribute, a type that is returned, an error that is raised, an example, a
unit, a shape, or a section of the format.  The table, `docstring_facts.txt`, was made before the
docstrings were rewritten in plain words: no fact of it may be lost.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import lancekit

__all__ = ["TABLE", "facts_of", "listed", "public_docstrings"]

TABLE = Path(__file__).parents[1] / "project" / "docstring_facts.txt"
#: a section of numpydoc, and what its entries are called in the table
_SECTIONS = {
    "Parameters": "parameter",
    "Attributes": "attribute",
    "Returns": "returns",
    "Yields": "yields",
    "Raises": "raises",
    "Warns": "warns",
}
_UNITS = re.compile(
    r"\b(seconds?|milliseconds?|microseconds?|nanoseconds?|minutes?|hours?|days?|bytes?|KiB|MiB|GiB"
    r"|percent|points|inches|pixels)\b"
)
_SHAPES = re.compile(r"shape \([^)]*\)")
_FORMAT = re.compile(r"docs/format/[\w-]+\.md(?:, \d+(?:\.\d+)*)?")


def public_docstrings() -> dict[str, str]:
    """Return the docstrings of everything public, by one of the names that it is imported by."""
    found: dict[str, str] = {}
    seen: set[int] = set()
    names = [m.name for m in pkgutil.iter_modules(lancekit.__path__) if m.name[:1] != "_"]
    for name in ("lancekit", *(f"lancekit.{one}" for one in names)):
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            member = getattr(module, public)
            if id(member) not in seen:
                seen.add(id(member))
                found.update(_of(f"{name}.{public}", member))
    return found


def _of(name: str, member: object) -> Iterator[tuple[str, str]]:
    """Yield the docstring of a function, or those of a class and of its members."""
    if not str(getattr(member, "__module__", "")).startswith("lancekit"):
        return
    if (inspect.isclass(member) or inspect.isroutine(member)) and member.__doc__:
        yield name, inspect.cleandoc(member.__doc__)
    for kind in reversed(getattr(member, "__mro__", ())):
        if kind.__module__.startswith("lancekit"):
            for own, value in vars(kind).items():
                text = getattr(value, "__doc__", None)
                if own[:1] != "_" and text and text != type(value).__doc__:
                    yield f"{name}.{own}", inspect.cleandoc(text)


def facts_of(text: str) -> set[str]:
    """Return the facts that a docstring states."""
    found = {f"unit {_unit(one)}" for one in _UNITS.findall(text)}
    found |= {f"shape {one[6:]}" for one in _SHAPES.findall(text)}
    found |= {f"format {one}" for one in _FORMAT.findall(text)}
    lines = text.split("\n")
    section = ""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and not below.strip("-") and line and line[:1] != " ":
            section = line
            if section == "Examples":
                found.add("example")
        elif section in _SECTIONS and line and line[:1] not in " -":
            kind = _SECTIONS[section]
            if kind in ("returns", "yields"):
                found.add(kind)
            else:
                found |= {f"{kind} {one.strip()}" for one in line.split(",")}
    return found


def _unit(word: str) -> str:
    return word if word in ("inches", "points", "pixels", "percent") else word.removesuffix("s")


def listed() -> dict[str, set[str]]:
    """Return the table: the facts of each public name."""
    rows = [line.split(": ", 1) for line in TABLE.read_text().splitlines() if line[:1] != "#"]
    return {name: set(facts.split("; ")) for name, facts in rows}


if __name__ == "__main__":
    head = "# The facts of public docstrings before they were rewritten; made by a program.\n"
    rows = (
        f"{name}: {'; '.join(sorted(facts))}\n"
        for name, text in sorted(public_docstrings().items())
        if (facts := facts_of(text))
    )
    TABLE.write_text(head + "".join(rows))
