"""Programs that run at the same time, in processes that have all of lancekit loaded at their start.

To load it takes a second; these are forked from a process that did nothing else.
"""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pyarrow as pa

import lancekit as lk
from tests.support.patience import HANG_SECONDS

LOADED = (lk.LanceDataset, lk.write_dataset, pa.array([0]))  # the last one loads pandas
_FORKED = get_context("forkserver")
_FORKED.set_forkserver_preload([__name__])
_others: Any = None


def _come(others: Any) -> None:
    global _others  # noqa: PLW0603  # a barrier is given at the start of a process alone
    _others = others


def _run(program: str, arguments: list[str]) -> tuple[str, str]:
    sys.argv, error = ["-c", *arguments], ""
    _others.wait(HANG_SECONDS)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            exec(program, {"__name__": "__main__"})
        except Exception:
            error = traceback.format_exc()
    return said.getvalue(), error


def at_once(programs: list[tuple[str, ...]]) -> list[tuple[str, str]]:
    """Run programs with their arguments; return what each printed, and the error it ended with."""
    barrier = _FORKED.Barrier(len(programs))
    with ProcessPoolExecutor(len(programs), _FORKED, _come, (barrier,)) as pool:
        done = [pool.submit(_run, program, arguments) for program, *arguments in programs]
        return [one.result() for one in done]
