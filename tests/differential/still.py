"""A process in which the same calls give the same bytes: ids, clocks and threads hold still.

Random bytes come from a seed that each call sets anew, so that a call which draws more than before
does not disturb the next.  The clock stands in a year far ahead, where each file on the disk is old
enough to be remembered, and moves on by a second with each call.  Work for a pool of threads runs
at once, so that nothing is read ahead in one run and not in the other.  `time.monotonic` runs on,
because loops that wait for it would not end otherwise.
"""

from __future__ import annotations

import datetime as dt
import importlib
import os
import pkgutil
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["hold_still", "start_call"]

_START = dt.datetime(2040, 1, 1, tzinfo=dt.UTC)
_now = _START
_drawn = random.Random(0)
#: rooms whose import starts Java or draws pictures, and which no call here enters
_LEFT_OUT = ("lancekit._notebook", "lancekit._spark")


class _Clock(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, dt.datetime)


class _Datetime(dt.datetime, metaclass=_Clock):
    """Makes plain datetimes; only its `now` differs."""

    def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
        return dt.datetime(*arguments, **keywords)

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return _now.astimezone(tz) if tz else _now.replace(tzinfo=None)


def _bytes(count: int) -> bytes:
    return _drawn.randbytes(count)


def _seconds() -> float:
    return _now.timestamp()


def _nanoseconds() -> int:
    return int(_now.timestamp()) * 10**9


def _run(pool: ThreadPoolExecutor, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    future: Future[Any] = Future()
    try:
        future.set_result(work(*args, **kwargs))
    except BaseException as error:
        future.set_exception(error)
    return future


def hold_still() -> None:
    """Replace the sources of chance in this process; before lancekit is imported."""
    os.urandom = _bytes
    random._urandom = _bytes  # type: ignore[attr-defined]  # what `secrets` and NumPy draw from
    os.sched_getaffinity = lambda pid: {0}
    os.cpu_count = lambda: 1
    time.time, time.time_ns = _seconds, _nanoseconds
    time.perf_counter, time.perf_counter_ns = _seconds, _nanoseconds
    ThreadPoolExecutor.submit = _run  # type: ignore[method-assign, assignment]
    for module in _modules():
        if vars(module).get("datetime") is dt.datetime and _reads_clock(module):
            vars(module)["datetime"] = _Datetime


def _modules() -> Iterator[ModuleType]:
    """Import lancekit as a whole, so that no call pays for an import."""
    package = importlib.import_module("lancekit")
    for found in pkgutil.walk_packages(package.__path__, "lancekit."):
        if not found.name.startswith(_LEFT_OUT):
            importlib.import_module(found.name)
    yield from [one for name, one in sys.modules.items() if name.startswith("lancekit")]


def _reads_clock(module: ModuleType) -> bool:
    return bool(
        module.__file__ and re.search(r"\bdatetime\.now\(", Path(module.__file__).read_text())
    )


def start_call(seed: str, number: int) -> None:
    """Begin a call with draws of its own, one second after the call before."""
    global _now, _drawn  # noqa: PLW0603
    _now = _START + dt.timedelta(seconds=number)
    _drawn = random.Random(seed)
    random.seed(seed)
