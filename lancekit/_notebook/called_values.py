"""Notes for `TypeError` of calls of values, as ``ds.version()``, and of methods without their call.

delta-rs and pyiceberg have methods where pylance has values, and Python's error names a type alone.
"""

from __future__ import annotations

import ast
import linecache
from types import FrameType, MethodType, ModuleType, TracebackType

from lancekit._notebook.completion import is_own


def add_note(error: TypeError, trace: TracebackType) -> None:
    """Add the right line to an error whose innermost expression uses an attribute of lancekit."""
    while trace.tb_next is not None:
        trace = trace.tb_next
    positions = list(trace.tb_frame.f_code.co_positions())[trace.tb_lasti // 2]
    found = _expression(trace.tb_frame.f_code.co_filename, *positions)
    used = getattr(found, "func", getattr(found, "value", None))
    if not isinstance(found, ast.Call | ast.Subscript) or not isinstance(used, ast.Attribute):
        return
    owner, text = _owner(used, trace.tb_frame), ast.unparse(used)
    if owner is None:
        return
    value = getattr(owner, used.attr)
    if isinstance(found, ast.Subscript) and isinstance(value, MethodType):
        error.add_note(f"{text} is a method. Use {text}(){ast.unparse(found)[len(text) :]}.")
    elif isinstance(found, ast.Call) and isinstance(value, ModuleType):
        error.add_note(f"{text} is a module. It has {', '.join(dir(value)[:9])}.")
    elif isinstance(found, ast.Call) and not callable(value):
        error.add_note(f"{text} is a value of type {type(value).__name__}. Use {text}.")


def _expression(
    file: str, line: int | None, end: int | None, start: int | None, stop: int | None
) -> ast.expr | None:
    """Return the expression at a position of a file, if it has one line."""
    if line is None or line != end:
        return None
    text = linecache.getline(file, line).encode()[start:stop].decode()
    return ast.parse(text.strip(), mode="eval").body


def _owner(used: ast.Attribute, frame: FrameType) -> object:
    """Return lancekit's object or module whose attribute is used; ``None`` if it is another's."""
    owner: object = None
    if isinstance(used.value, ast.Name):
        owner = {**frame.f_globals, **frame.f_locals}.get(used.value.id)
    elif isinstance(used.value, ast.Attribute) and (outer := _owner(used.value, frame)) is not None:
        owner = getattr(outer, used.value.attr)
    return owner if is_own(owner) else None
