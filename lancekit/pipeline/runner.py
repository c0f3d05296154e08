"""Where work runs: in this process, or on Spark.

A `Runner` maps a plain function over tasks; both can be pickled.  The choice between the two is
made here and nowhere else.  This room does not know Spark: the package's roof registers how to
make its runner.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lancekit.errors import EngineError
from lancekit.options import options

__all__ = ["LocalRunner", "Runner", "choose_runner", "register_spark"]

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs the same function on each of many tasks."""

    @property
    def name(self) -> str:
        """``local`` or ``spark``, as results show it."""

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the results in the order of the tasks; the first failure is raised."""


class LocalRunner:
    """Threads of this process: decoding and Arrow kernels release the interpreter lock."""

    name = "local"

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the results in the order of the tasks; the first failure is raised."""
        if len(tasks) <= 1:
            return [work(task) for task in tasks]
        threads = min(len(tasks), os.cpu_count() or 1, 8)
        context = copy_context()  # options of a `with` block hold in the threads too
        with ThreadPoolExecutor(threads, thread_name_prefix="lancekit") as pool:
            return list(pool.map(lambda task: context.copy().run(work, task), tasks))


@dataclass(frozen=True, slots=True)
class _Spark:
    make: Callable[[], Runner]
    is_active: Callable[[], bool]


_spark: list[_Spark] = []


def register_spark(make: Callable[[], Runner], is_active: Callable[[], bool]) -> None:
    """Say how to make the Spark runner; called once, by the package's roof."""
    _spark[:] = [_Spark(make, is_active)]


def choose_runner(rows: int, *, on_spark: bool = False) -> Runner:
    """Return where to run work that reads or writes about ``rows`` rows.

    With ``options.engine`` on "auto" that is Spark for a Spark DataFrame (``on_spark``), and for
    work above ``options.spark_threshold_rows`` if a session is there already: nobody waits for
    one to start, and nothing but Spark work needs Java.
    """
    engine = options.engine
    registered = _spark[0] if _spark else None
    large = rows >= options.spark_threshold_rows
    if on_spark or engine == "spark":
        if registered is None:
            raise EngineError("No Spark runner is registered.", hint="Import lancekit first.")
        return registered.make()
    if engine == "auto" and large and registered is not None and registered.is_active():
        return registered.make()
    return LocalRunner()
