"""Where work runs: in this process, or on Spark.

A `Runner` maps a plain function over tasks; both can be pickled.  The choice between the two is
made here and nowhere else.  This room does not know Spark: the package's roof registers how to
make its runner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from lancekit._hooks import hooks
from lancekit._machine import processors
from lancekit.errors import EngineError
from lancekit.options import options
from lancekit.progress import Stopped, Tracker, known_rows, result_of, tracking, what_is

if TYPE_CHECKING:
    from lancekit._storage.base import Store

#: in this process, or on Spark
EngineName = Literal["local", "spark"]

#: on how many rows in all tasks are begun where they are asked for, and how many seconds they may
#: take there, in all and each
_FEW_ROWS, _PATIENCE, _QUICK = 50_000, 0.01, 0.002

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs the same function on each of many tasks."""

    @property
    def name(self) -> EngineName:
        """``local`` or ``spark``, as results show it."""

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the results in the order of the tasks; the first failure is raised."""


class MapTasks(Protocol):
    """The `map` of a runner."""

    def __call__(self, work: Callable[[Task], Result], tasks: Sequence[Task], /) -> list[Result]:
        """Return the results in the order of the tasks; the first failure is raised."""


class LocalRunner:
    """Threads of this process: decoding and Arrow kernels release the interpreter lock.

    With one thread at most, tasks run one after the other where `map` is called.  So do those on
    few ``rows`` in all, until they turn out to take long, as they do on an object store: to hand
    a task over and back takes longer than to look through a thousand rows.
    """

    name: EngineName = "local"

    def __init__(self, threads: int = 8, *, rows: int | None = None) -> None:
        self._threads = threads
        self._few = rows is not None and rows <= _FEW_ROWS

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the results in the order of the tasks; the first failure is raised.

        An interrupt or a failure ends the other tasks at their next step.
        """
        with tracking(what_is(work), len(tasks), total_rows=known_rows(tasks)) as tracker:
            if len(tasks) <= 1 or self._threads == 1:
                return [_done(work, task, tracker) for task in tasks]
            done = self._done_here(work, tasks, tracker) if self._few else []
            rest = tasks[len(done) :]
            return done + self._in_threads(work, rest, tracker) if rest else done

    def _done_here(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], tracker: Tracker
    ) -> list[Result]:
        """Do tasks as long as they are quick."""
        done: list[Result] = []
        began = time.perf_counter()
        for task in tasks:
            if time.perf_counter() - began > _PATIENCE + _QUICK * len(done):
                break
            done.append(_done(work, task, tracker))
        return done

    def _in_threads(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], tracker: Tracker
    ) -> list[Result]:
        threads = min(len(tasks), processors(), self._threads)
        with ThreadPoolExecutor(threads, thread_name_prefix="lancekit") as pool:
            context = copy_context()  # options of a `with` block hold in the threads too
            running: list[Future[Result]] = []
            try:
                for task in tasks:
                    running.append(pool.submit(context.copy().run, work, task))
                    running[-1].add_done_callback(partial(_stop_if_failed, tracker))
                return [_result(future, tracker) for future in running]
            except Stopped:
                failed = next(filter(None, map(_failure, running)), None)
                if failed is None:  # the operation around this one has to stop
                    raise
                raise failed from None
            finally:
                tracker.stop()  # the rest, after a failure or an interrupt
                for future in running:
                    future.cancel()


def _done(work: Callable[[Task], Result], task: Task, tracker: Tracker) -> Result:
    """Do a task in this thread, and count it."""
    result = work(task)
    tracker.advance()
    tracker.draw()
    return result


def _stop_if_failed(tracker: Tracker, future: Future[object]) -> None:
    if not future.cancelled() and future.exception() is not None:
        tracker.stop()


def _failure(future: Future[Result]) -> BaseException | None:
    """Return what a task has failed with, unless it was stopped because of another one."""
    failed = None if future.cancelled() or not future.done() else future.exception()
    return None if isinstance(failed, Stopped) else failed


def _result(future: Future[Result], tracker: Tracker) -> Result:
    result = result_of(future, tracker.draw)
    tracker.advance()
    tracker.draw()
    return result


class Engine(Protocol):
    """How Spark takes part; the package's roof registers it, so that no room imports upward."""

    def is_active(self) -> bool:
        """Return whether a session is there already."""

    def ready(self, session: object) -> None:
        """Make what lancekit adds to Spark known to a session."""

    def runner(self, store: Store | None = None) -> Runner:
        """Return a runner on the session, which is started if need be.

        Results that are too large for Spark go through files in a store.
        """

    def source(self, data: object, schema: object) -> Any:
        """Return a Spark DataFrame, or anything that holds rows, as a source."""

    def frame(self, scan: object, condition: object = None) -> Any:
        """Return a scan as a Spark DataFrame, filtered by a condition of Spark's."""

    def rows(self, work: Callable[[Task], object], tasks: Sequence[Task], schema: object) -> Any:
        """Return the tables that a function makes of tasks, as a Spark DataFrame."""

    def query(self, sql: str, name: str, table: object) -> Any:
        """Return what Spark's SQL makes of a DataFrame, which the text knows by a name."""

    def statement(
        self, sql: str, tables: Mapping[str, object], parameters: Mapping[str, str]
    ) -> tuple[Any, Callable[[object], Any]]:
        """Return what Spark makes of a text with tables in braces, and what collects rows of it."""

    def name(self, table: object, name: str) -> None:
        """Make a DataFrame a temporary view of its session."""


def spark_engine() -> Engine:
    """Return the registered Spark engine."""
    if hooks.spark is None:
        raise EngineError("No Spark engine is registered.", hint="Import lancekit first.")
    engine: Engine = hooks.spark
    return engine


@dataclass(frozen=True, slots=True)
class Choice:
    """Where work runs, and why: what is done, and what an explanation of it shows."""

    engine: EngineName
    why: str


def choose_engine(rows: int, *, on_spark: bool = False) -> Choice:
    """Say where work on about ``rows`` rows belongs.

    With ``options.engine`` on "auto" Spark gets a Spark DataFrame, and work above
    ``options.spark_threshold_rows`` if a session is there already: nobody waits for one to start,
    and nothing but Spark work needs Java.
    """
    wanted, threshold = options.engine, options.spark_threshold_rows
    if on_spark:
        return Choice("spark", "the rows are a Spark DataFrame")
    if wanted != "auto":
        return Choice(wanted, f"options.engine is {wanted!r}")
    limit = f"options.spark_threshold_rows ({threshold:,})"
    if rows < threshold:
        return Choice("local", f"{rows:,} rows are fewer than {limit}")
    if hooks.spark is None or not hooks.spark.is_active():
        return Choice("local", f"{rows:,} rows reach {limit}, but no Spark session is active")
    return Choice("spark", f"{rows:,} rows reach {limit}, and a Spark session is active")


def choose_runner(rows: int, store: Store | None = None) -> Runner:
    """Return where to run work that reads or writes about ``rows`` rows.

    The dataset's ``store`` takes results that are too large for Spark.
    """
    return runner_of(choose_engine(rows), store)


def runner_of(choice: Choice, store: Store | None = None) -> Runner:
    """Return what runs work where it was chosen to run; ``store`` as `choose_runner` takes it."""
    return spark_engine().runner(store) if choice.engine == "spark" else LocalRunner()


def choose_source(data: object, *, is_frame: bool) -> Choice:
    """Say where rows of the user's are worked on: tables and frames know how many they are."""
    size = _known_rows(data)
    if size is not None:
        return choose_engine(size, on_spark=is_frame)
    choice = choose_engine(0, on_spark=is_frame)
    if choice.engine == "spark" or options.engine != "auto":
        return choice
    return Choice(choice.engine, "how many rows there are is not known before they are read")


def _known_rows(data: object) -> int | None:
    """Return how many rows there are if that takes no reading."""
    size = getattr(data, "num_rows", None)
    if isinstance(size, int):
        return size
    if isinstance(data, Mapping):
        column = next(iter(data.values()), ())
        # an array without dimensions has no length, and is refused later
        is_one = getattr(column, "shape", None) == ()
        return len(column) if isinstance(column, Sized) and not is_one else None
    if isinstance(data, list):
        sizes = [1 if isinstance(row, Mapping) else getattr(row, "num_rows", None) for row in data]
        known = [size for size in sizes if isinstance(size, int)]
        return sum(known) if len(known) == len(sizes) else None
    # pandas, Polars and whatever else is a table; a dataset counts by its metadata
    is_table = any(hasattr(data, name) for name in ("__arrow_c_stream__", "count_rows"))
    return len(data) if is_table and isinstance(data, Sized) else None
