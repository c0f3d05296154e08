"""The choice of the engine that runs work: this process or Spark.

A `Runner` maps a plain function over tasks; both can be pickled.  Only this module chooses between
the runners.  The room does not know Spark: the package's roof registers a factory of its runner.
"""

from __future__ import annotations

import threading
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

#: this process, or Spark
EngineName = Literal["local", "spark"]

#: tasks of at most this many rows in all start in the calling thread, and leave it when they take
#: longer than the sum of these seconds: a base, and an allowance for each finished task
_FEW_ROWS, _PATIENCE, _QUICK = 50_000, 0.01, 0.002

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """A runner of one function on many tasks."""

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
    """A pool of threads in this process: decoding and Arrow kernels release the interpreter lock.

    With a limit of one thread, tasks run one after the other in the calling thread.  So do tasks on
    few ``rows`` in all, until they turn out to be slow, as on an object store: handing a task to a
    thread takes longer than scanning 1,000 rows.
    """

    name: EngineName = "local"

    def __init__(self, threads: int = 8, *, rows: int | None = None) -> None:
        self._threads = threads
        self._few = rows is not None and rows <= _FEW_ROWS

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the results in the order of the tasks; raise the first failure.

        An interrupt or a failure stops the other tasks at their next step.
        """
        with tracking(what_is(work), len(tasks), total_rows=known_rows(tasks)) as tracker:
            if len(tasks) <= 1 or self._threads == 1:
                return [_run_task(work, task, tracker) for task in tasks]
            done = self._run_in_caller(work, tasks, tracker) if self._few else []
            rest = tasks[len(done) :]
            return done + self._in_threads(work, rest, tracker) if rest else done

    def _run_in_caller(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], tracker: Tracker
    ) -> list[Result]:
        """Run tasks in this thread until one is slow."""
        done: list[Result] = []
        began = time.perf_counter()
        for task in tasks:
            if time.perf_counter() - began > _PATIENCE + _QUICK * len(done):
                break
            done.append(_run_task(work, task, tracker))
        return done

    def _in_threads(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], tracker: Tracker
    ) -> list[Result]:
        threads = min(len(tasks), processors(), self._threads)
        running: list[Future[Result]] = []
        name = f"lancekit_{id(running):x}"
        try:
            with ThreadPoolExecutor(threads, thread_name_prefix=name) as pool:
                return self._results(pool, work, tasks, tracker, running)
        finally:
            # after an interrupt, the pool may not wait for a thread that still runs a task
            while any(thread.name.startswith(name) for thread in threading.enumerate()):
                time.sleep(0.001)

    @staticmethod
    def _results(
        pool: ThreadPoolExecutor,
        work: Callable[[Task], Result],
        tasks: Sequence[Task],
        tracker: Tracker,
        running: list[Future[Result]],
    ) -> list[Result]:
        """Run tasks in a pool; a failure or an interrupt stops the others at their next step."""
        context = copy_context()  # so that options of a `with` block apply in the threads
        try:
            for task in tasks:
                running.append(pool.submit(context.copy().run, work, task))
                running[-1].add_done_callback(partial(_stop_if_failed, tracker))
            return [_result(future, tracker) for future in running]
        except Stopped:
            failed = next(filter(None, map(_failure, running)), None)
            if failed is None:  # the enclosing operation must stop
                raise
            raise failed from None
        finally:
            tracker.stop()
            pool.shutdown(wait=False, cancel_futures=True)


def _run_task(work: Callable[[Task], Result], task: Task, tracker: Tracker) -> Result:
    """Run a task in this thread, and count it as done."""
    result = work(task)
    tracker.advance()
    tracker.draw()
    return result


def _stop_if_failed(tracker: Tracker, future: Future[object]) -> None:
    if not future.cancelled() and future.exception() is not None:
        tracker.stop()


def _failure(future: Future[Result]) -> BaseException | None:
    """Return the exception of a task, unless another task's failure stopped it."""
    failed = None if future.cancelled() or not future.done() else future.exception()
    return None if isinstance(failed, Stopped) else failed


def _result(future: Future[Result], tracker: Tracker) -> Result:
    result = result_of(future, tracker.draw)
    tracker.advance()
    tracker.draw()
    return result


class Engine(Protocol):
    """The interface to Spark; the package's roof registers it, so that no room imports upward."""

    def is_active(self) -> bool:
        """Return True if a Spark session is active."""

    def ready(self, session: object) -> None:
        """Register lancekit's extensions of Spark in a session."""

    def runner(self, store: Store | None = None) -> Runner:
        """Return a runner on the Spark session, which is started if necessary.

        Results that are too large for Spark pass through files in the store.
        """

    def source(self, data: object, schema: object) -> Any:
        """Return a Spark DataFrame, or other rows, as a source."""

    def frame(self, scan: object, condition: object = None) -> Any:
        """Return a scan as a Spark DataFrame, filtered by a Spark condition."""

    def rows(self, work: Callable[[Task], object], tasks: Sequence[Task], schema: object) -> Any:
        """Return the tables that a function makes from tasks, as a Spark DataFrame."""

    def query(self, sql: str, name: str, table: object) -> Any:
        """Return the result of a Spark SQL query over a DataFrame, named ``name`` in the text."""

    def statement(
        self, sql: str, tables: Mapping[str, object], parameters: Mapping[str, str]
    ) -> tuple[Any, Callable[[object], Any]]:
        """Return the result of Spark SQL, and a function to collect it; braces mark tables."""

    def name(self, table: object, name: str) -> None:
        """Register a DataFrame as a temporary view of its session."""


def spark_engine() -> Engine:
    """Return the registered Spark engine."""
    if hooks.spark is None:
        raise EngineError("No Spark engine is registered.", hint="Import lancekit first.")
    engine: Engine = hooks.spark
    return engine


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine for some work, and the reason, which explanations show."""

    engine: EngineName
    why: str


def choose_engine(rows: int, *, on_spark: bool = False) -> Choice:
    """Choose the engine for work on about ``rows`` rows.

    Spark always gets Spark DataFrames.  If ``options.engine`` is "auto", it also gets work on
    ``options.spark_threshold_rows`` rows or more while a session is active.  So no call waits for a
    session to start, and only Spark work needs Java.
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
    """Return the runner for work that reads or writes about ``rows`` rows.

    The dataset's ``store`` takes results that are too large for Spark.
    """
    return runner_of(choose_engine(rows), store)


def runner_of(choice: Choice, store: Store | None = None) -> Runner:
    """Return the runner of the chosen engine; ``store`` as in `choose_runner`."""
    return spark_engine().runner(store) if choice.engine == "spark" else LocalRunner()


def choose_source(data: object, *, is_frame: bool) -> Choice:
    """Choose the engine for rows from the user, by their number if it is known."""
    size = _known_rows(data)
    if size is not None:
        return choose_engine(size, on_spark=is_frame)
    choice = choose_engine(0, on_spark=is_frame)
    if choice.engine == "spark" or options.engine != "auto":
        return choice
    return Choice(choice.engine, "the number of rows is unknown before they are read")


def _known_rows(data: object) -> int | None:
    """Return the number of rows if it is known without reading them."""
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
    # pandas, Polars and other tables; a dataset counts by its metadata
    is_table = any(hasattr(data, name) for name in ("__arrow_c_stream__", "count_rows"))
    return len(data) if is_table and isinstance(data, Sized) else None
