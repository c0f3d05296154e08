"""The notebook and the cell that are running."""

from __future__ import annotations

import os
import re
import sys
from pathlib import PurePath

from lancekit._interrupts import Shell, active_shell
from lancekit._provenance import Provenance

_NUMBER = re.compile(r"In\[(\d+)\]")


def find() -> Provenance | None:
    """Return the running cell with its source text; in threads of a kernel only the notebook."""
    shell = active_shell()
    number = None if shell is None else _running(shell)
    if shell is None or number is None:
        named = _notebook(shell) if shell is not None and hasattr(shell, "kernel") else ""
        return Provenance(notebook=named) if named else None
    return Provenance(notebook=_notebook(shell), cell=str(number), source=_text(shell, number))


def _running(shell: Shell) -> int | None:
    """Return the number of the outermost cell on the stack: it calls functions of other cells."""
    frame, found = sys._getframe(), None
    while frame.f_back:
        frame = frame.f_back
        name = shell.compile.format_code_name(frame.f_code.co_filename)
        if name and (number := _NUMBER.search(name[1])):
            found = int(number[1])
    return found


def _notebook(shell: Shell) -> str:
    # VS Code sets a variable in the kernel, Jupyter servers set one in the process environment
    path = shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME") or ""
    return PurePath(str(path).replace("\\", "/")).name


def _text(shell: Shell, number: int) -> str:
    cells = shell.history_manager.input_hist_raw
    return str(cells[number]) if 0 < number < len(cells) else ""
