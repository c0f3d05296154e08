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
from typing import Any, Protocol, TypeVar

from lancekit.errors import EngineError
from lancekit.options import options

__all__ = [
    "Engine",
    "LocalRunner",
    "Runner",
    "choose_runner",
    "make_spark_source",
    "register_spark",
    "spark_engine",
]

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


class Engine(Protocol):
    """How Spark takes part; the package's roof registers it, so that no room imports upward."""

    def is_active(self) -> bool:
        """Return whether a session is there already."""

    def runner(self) -> Runner:
        """Return a runner on the session, which is started if need be."""

    def source(self, data: Any, schema: Any) -> Any:
        """Return a Spark DataFrame, or anything that holds rows, as a source."""

    def frame(self, scan: Any) -> Any:
        """Return a scan as a Spark DataFrame."""


_spark: list[Engine] = []


def register_spark(engine: Engine) -> None:
    """Say how work gets to Spark; called once, by the package's roof."""
    _spark[:] = [engine]


def spark_engine() -> Engine:
    """Return the registered Spark engine."""
    if not _spark:
        raise EngineError("No Spark engine is registered.", hint="Import lancekit first.")
    return _spark[0]


def _wanted(rows: int, *, on_spark: bool = False) -> Engine | None:
    """Return the Spark engine if work on about ``rows`` rows belongs there.

    With ``options.engine`` on "auto" that is for a Spark DataFrame, and for work above
    ``options.spark_threshold_rows`` if a session is there already: nobody waits for one to start,
    and nothing but Spark work needs Java.
    """
    choice = options.engine
    if on_spark or choice == "spark":
        return spark_engine()
    registered = _spark[0] if _spark else None
    large = choice == "auto" and rows >= options.spark_threshold_rows
    return registered if large and registered is not None and registered.is_active() else None


def choose_runner(rows: int) -> Runner:
    """Return where to run work that reads or writes about ``rows`` rows."""
    engine = _wanted(rows)
    return LocalRunner() if engine is None else engine.runner()


def make_spark_source(data: Any, schema: Any, *, is_frame: bool) -> Any | None:
    """Return data as a source on Spark if it belongs there, else ``None``."""
    size = getattr(data, "num_rows", 0)  # Arrow tables know it; a reader is streamed anyway
    engine = _wanted(size if isinstance(size, int) else 0, on_spark=is_frame)
    return None if engine is None else engine.source(data, schema)
