"""pylance 4.0.0, the oldest release that datasets are exchanged with, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["interpreter", "run"]

ROOT = Path(__file__).parents[2]
PREAMBLE = """\
import json, sys
import lance
import pyarrow as pa
arguments = json.loads(sys.argv[1])
"""
CLOSING = "\nprint(json.dumps(result))"


def interpreter() -> Path | None:
    """Return the Python that has pylance 4.0.0: `make test` sets it up."""
    found = Path(os.environ.get("LANCEKIT_PYLANCE4", ROOT / ".venv-pylance4/bin/python"))
    return found if found.exists() else None


def run(program: str, **arguments: Any) -> Any:
    """Run a program there; it finds ``arguments``, ``lance`` and ``pa``, and sets ``result``."""
    done = subprocess.run(
        [str(interpreter()), "-c", PREAMBLE + program + CLOSING, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"pylance 4.0.0 failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
