"""pylance 4.0.0, the oldest release that datasets are exchanged with, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["interpreter", "started"]

ROOT = Path(__file__).parents[2]
# A line each: the program and its arguments; what came of it.
SERVER = """\
import contextlib, json, sys, traceback
import lance
import pyarrow as pa
answers = sys.stdout
for line in sys.stdin:
    program, arguments = json.loads(line)
    names = {"json": json, "sys": sys, "lance": lance, "pa": pa, "arguments": arguments}
    with contextlib.redirect_stdout(sys.stderr):
        try:
            exec(program, names)
            answer = json.dumps({"result": names["result"]})
        except BaseException:
            answer = json.dumps({"error": traceback.format_exc()})
    print(answer, file=answers, flush=True)
"""


def interpreter() -> Path | None:
    """Return the Python that has pylance 4.0.0: `make test` sets it up."""
    found = Path(os.environ.get("LANCEKIT_PYLANCE4", ROOT / ".venv-pylance4/bin/python"))
    return found if found.exists() else None


@contextmanager
def started() -> Iterator[Callable[..., Any]]:
    """Start it, which takes longer than most programs; give what runs a program there.

    The program finds ``arguments``, ``lance`` and ``pa``, and sets ``result``.
    """
    with (
        # written at its end by one process, read by the other
        tempfile.TemporaryFile("a+", encoding="utf-8") as said,
        subprocess.Popen(
            [str(interpreter()), "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None

        def run(program: str, **arguments: Any) -> Any:
            process.stdin.write(json.dumps([program, arguments]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            answer = json.loads(line) if line else {"error": "Its process ended."}
            if "error" in answer:
                said.seek(0)
                raise AssertionError(f"pylance 4.0.0 failed:\n{answer['error']}\n{said.read()}")
            return answer["result"]

        yield run
