"""Progress and interruption of long operations.

A long operation runs within `tracking`.  Code that reads or writes rows calls `step` for each
batch.  `step` reports the rows, and stops the work if the operation was interrupted or has failed.
A hook draws the first bar after a second; `lancekit.options.progress` turns bars off, or is a
function to call instead.
`FragmentWriteProgress` is pylance's interface for each fragment of a write.  `IndexProgress` is the
argument of its ``progress_callback`` for an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from math import inf
from threading import Lock, get_ident
from time import monotonic
from typing import Literal, TypeAlias, TypeVar

from lancekit._fragment_progress import (
    FileSystemFragmentWriteProgress,
    FragmentWriteProgress,
    IndexProgress,
    NoopFragmentWriteProgress,
)
from lancekit._hooks import hooks
from lancekit._legible import warn
from lancekit.options import options

__all__ = [
    "POLL_SECONDS",
    "FileSystemFragmentWriteProgress",
    "FragmentWriteProgress",
    "IndexProgress",
    "NoopFragmentWriteProgress",
    "Progress",
    "Show",
    "Stopped",
    "Tracker",
    "context_of_its_own",
    "known_rows",
    "result_of",
    "step",
    "stoppable",
    "told_of_rows",
    "tracking",
    "users_code",
    "what_is",
]

T = TypeVar("T")

PATIENCE_SECONDS = 1.0
"""Seconds that an operation runs before it shows a bar."""

POLL_SECONDS = 0.2
"""Minimum seconds between two updates of a bar."""

#: seconds that a thread waits for another at a time
_WAIT_SECONDS = 0.2

#: description of the work in each module, for users
WORDS = {
    "_operations.cleanup.plan": "reading versions",
    "_operations.index.create": "indexing",
    "_operations.maintenance.deepen": "copying files",
    "_operations.maintenance.compact": "compacting",
    "_operations.maintenance.validate": "checking files",
    "_operations.mem_wal.merge": "opening generations",
    "_operations.mem_wal.newest_rows": "reading keys",
    "_operations.update": "updating",
    "_operations.write": "writing",
    "_pipeline.column_patch": "replacing columns",
    "_pipeline.write_columns": "computing columns",
    "_pipeline.diff.row_values": "comparing rows",
    "_pipeline.probe": "matching keys",
    "_pipeline.merge_plan": "merging",
    "_pipeline.merge_strategy": "matching keys",
    "_pipeline.compact_rows": "compacting",
    "_pipeline.delete_rows": "finding rows",
    "_pipeline.update_rows": "updating",
    "_pipeline.write_rows": "writing",
    "_pipeline.source": "writing",
    "_spark.columns": "computing columns",
    "_spark.merge.merge": "merging",
    "_spark.merge.merge_task": "merging",
    "_spark.source": "writing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """State of a running operation, the argument of a function in ``options.progress``."""

    what: str
    """Description of the operation, such as ``"merging"``."""
    done: int
    """Number of finished tasks."""
    total: int | None
    """Number of all tasks, or ``None`` if unknown."""
    seconds: float
    """Seconds since the operation began."""
    finished: bool = False
    """True if the operation has finished and reports no further progress."""
    rows: int = 0
    """Number of processed rows; 0 if the operation does not count rows."""
    total_rows: int | None = None
    """Number of all rows to process, or ``None`` if unknown."""
    kept_rows: int = 0
    """Number of `rows` whose results are from an earlier attempt."""
    stage: str = ""
    """Description of the part that runs, such as ``"matching keys"``; empty if it has no parts."""
    counted_seconds: float | None = None
    """Seconds since the part began whose tasks and rows are counted; ``None`` for `seconds`."""

    @property
    def rows_per_second(self) -> float | None:
        """Rows processed per second, without `kept_rows`; ``None`` before the first row."""
        made = self.rows - self.kept_rows
        seconds = self.seconds if self.counted_seconds is None else self.counted_seconds
        return made / seconds if made > 0 and seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all rows are processed at this rate; ``None`` if unknown."""
        rate = self.rows_per_second
        if rate is None or self.total_rows is None:
            return None
        return (self.total_rows - self.rows) / rate


Show: TypeAlias = Callable[[Progress], None]

_current: ContextVar[Tracker | None] = ContextVar("lancekit_progress", default=None)


class Stopped(BaseException):
    """Ends work in another thread after an interrupt or failure of its operation.

    It never leaves lancekit: the thread that waits for the work raises the cause.
    """


def what_is(work: object) -> str:
    """Return a word for the work of a function that is mapped over tasks.

    Examples
    --------
    >>> what_is(len)
    'working'
    """
    while hasattr(work, "func"):  # a partial
        work = work.func
    module = getattr(work, "__module__", None) or type(work).__module__
    return WORDS.get(module.removeprefix("lancekit."), "working")


def known_rows(tasks: Iterable[object]) -> int | None:
    """Return the sum of the tasks' ``num_rows``; ``None`` if a task does not have it.

    Examples
    --------
    >>> known_rows([]), known_rows([3])
    (0, None)
    """
    sizes = [getattr(task, "num_rows", None) for task in tasks]
    known = [size for size in sizes if isinstance(size, int)]
    return sum(known) if len(known) == len(sizes) else None


class Tracker:
    """Progress of a running operation, and its stop flag.

    An operation within another one draws nothing.  It is a stage of the outer operation, reports
    its rows to it, and stops with it.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        total_rows: int | None = None,
        parent: Tracker | None = None,
        silent: bool = False,
        counts: bool = True,
        seconds: float = inf,
    ) -> None:
        self._what = what
        self._done, self._total = 0, total
        self._rows = self._kept = 0
        self._total_rows = total_rows
        self._parent = parent
        self._outermost: Tracker = parent._outermost if parent and counts else self
        self._stages = list[Tracker]()
        self._rows_before = self._kept_before = 0
        self._thread = get_ident()
        self._started = monotonic()
        self._until = self._started + seconds
        self._drawn, self._stopped = 0.0, False
        self._lock = Lock()
        choice = "silent" if silent or parent is not None else options.progress
        self._show: Show | None = choice if callable(choice) else None
        # Choosing a display takes time, so it is delayed until there is something to draw.
        self._wanted = choice is True
        self._undecided = self._wanted or (choice == "auto" and hooks.bar is not None)

    @property
    def patient(self) -> bool:
        """True if nothing would be drawn yet, so that callers need not compute the progress."""
        if self._outermost is not self:
            return self._outermost.patient
        if self._show is not None:
            return False
        return not self._undecided or monotonic() - self._started < PATIENCE_SECONDS

    def advance(self) -> None:
        """Count one more finished task; thread-safe."""
        with self._lock:
            self._done += 1

    def set(self, done: int, total: int | None) -> None:
        """Set the number of finished tasks, and of all tasks.

        Parameters
        ----------
        done
            The number of finished tasks.
        total
            The number of all tasks; ``None`` if unknown.

        Examples
        --------
        >>> with options(progress=lambda p: print(p.done, p.total, p.finished)):
        ...     with tracking("counting") as tracker:
        ...         tracker.set(2, 4)
        2 4 True
        """
        self._done, self._total = done, total

    def stop(self) -> None:
        """End all work of this operation at its next step; thread-safe."""
        self._stopped = True

    @property
    def stopped(self) -> bool:
        """True if this operation, or an enclosing one, must stop."""
        ended = self._stopped or monotonic() > self._until
        return ended or (self._parent is not None and self._parent.stopped)

    def within(self, work: Callable[[], T]) -> T:
        """Run a function as a part of this operation."""
        token = _current.set(self)
        try:
            return work()
        finally:
            _current.reset(token)

    def step(self, rows: int, kept: int) -> None:
        """Count rows; thread-safe.

        Parameters
        ----------
        rows, kept
            As in `step` of the module.

        Raises
        ------
        Stopped
            The operation must stop.

        Examples
        --------
        >>> with options(progress=lambda p: print(p.rows, p.finished)):
        ...     with tracking("counting") as tracker:
        ...         tracker.step(3, 0)
        3 False
        3 True
        """
        if self.stopped:
            raise Stopped
        outermost = self._outermost
        if rows or kept:
            with outermost._lock:
                outermost._rows += rows
                outermost._kept += kept
        outermost.draw()

    def draw(self) -> None:
        """Show the state if an update is due; do nothing outside of the operation's own thread.

        Only the thread of a cell can write to the cell's output.
        """
        if self._outermost is not self:
            self._outermost.draw()
            return
        now = monotonic()
        if self.patient or now < self._drawn + POLL_SECONDS or get_ident() != self._thread:
            return
        if self._undecided:
            self._undecided = False
            self._show = hooks.bar(self._wanted) if hooks.bar is not None else None
        self._drawn = now
        self._tell(finished=False)

    def begin(self) -> None:
        """Become a stage of the outer operation, if there is one; thread-safe."""
        if self._outermost is not self:
            with self._outermost._lock:
                self._rows_before = self._outermost._rows
                self._kept_before = self._outermost._kept
                self._outermost._stages.append(self)
            self._outermost.draw()

    def finish(self) -> None:
        """Show the final state, or end the stage."""
        if self._outermost is not self:
            with self._outermost._lock:
                self._outermost._stages.remove(self)
        self._tell(finished=True)
        self._show = None

    def _tell(self, *, finished: bool) -> None:
        if self._show is None:
            return
        with self._lock:
            stages = list(self._stages)
        stage = stages[-1] if stages else self
        # an operation that knows no numbers of its own shows those of its newest stage
        counted = stage if self._total is None and self._total_rows is None else self
        rows, most = self._rows - counted._rows_before, counted._total_rows
        progress = Progress(
            what=self._what,
            done=counted._done,
            total=counted._total,
            seconds=monotonic() - self._started,
            finished=finished,
            # rows of a fragment that has to be read a second time count once
            rows=rows if most is None else min(rows, most),
            total_rows=most,
            kept_rows=self._kept - counted._kept_before,
            stage="" if stage._what == self._what else stage._what,
            counted_seconds=None if counted is self else monotonic() - counted._started,
        )
        try:
            self._show(progress)
        except Exception as error:  # a display error must not break the work
            self._show = None
            warn(f"progress is no longer shown: {type(error).__name__}: {error}")


@contextmanager
def tracking(
    what: str, total: int | None = None, *, total_rows: int | None = None
) -> Iterator[Tracker]:
    """Track an operation; an operation within another is a stage in the bar of the outer one.

    If the block raises, its work in other threads ends at the next `step`.

    Parameters
    ----------
    what
        Description of the operation, such as ``"merging"``.
    total, total_rows
        The number of tasks and rows, or ``None`` if unknown.

    Returns
    -------
    context manager of Tracker
        Its block is the operation.

    Raises
    ------
    BaseException
        The error of the block.

    Examples
    --------
    >>> with options(progress=lambda p: print(p.what, p.done, p.total, p.rows, p.finished)):
    ...     with tracking("counting", 2, total_rows=60) as tracker:
    ...         tracker.advance()
    ...         step(30)
    counting 1 2 30 False
    counting 1 2 30 True
    """
    tracker = Tracker(what, total, total_rows=total_rows, parent=_current.get())
    token = _current.set(tracker)
    tracker.begin()
    try:
        yield tracker
    except BaseException:
        tracker.stop()
        raise
    finally:
        _current.reset(token)
        tracker.finish()


def context_of_its_own() -> Context:
    """Return a copy of the context for work that outlives the current operation."""
    context = copy_context()
    context.run(_current.set, None)
    return context


def stoppable(seconds: float = inf) -> Tracker:
    """Return a part of the current operation, if any, that can be stopped, or stops in time."""
    return Tracker("working", parent=_current.get(), silent=True, seconds=seconds)


def users_code() -> Tracker:
    """Return a part of the current operation in which rows do not count: users read them."""
    return Tracker("working", parent=_current.get(), silent=True, counts=False)


def step(rows: int = 0, *, kept: int = 0) -> None:
    """Report processed rows; raise `Stopped` if the operation must stop.

    Code that reads or writes rows calls it between two batches, in any thread.  Outside of an
    operation it does nothing.

    Parameters
    ----------
    rows
        Rows since the last call.
    kept
        The number of `rows` with results from an earlier attempt.

    Raises
    ------
    Stopped
        The operation was interrupted, or its other work has failed.

    Examples
    --------
    >>> step(30)  # outside of an operation
    >>> with tracking("counting") as tracker:
    ...     tracker.stop()
    ...     step(30)
    Traceback (most recent call last):
    lancekit.progress.Stopped
    """
    tracker = _current.get()
    if tracker is not None:
        tracker.step(rows, kept)


def result_of(future: Future[T], meanwhile: Callable[[], object]) -> T:
    """Wait for a result, and call a function regularly meanwhile.

    A signal that arrives just before a thread waits for a lock does not wake it.  Without a timeout
    an interrupt would be raised only after the result.

    Parameters
    ----------
    future
        The future whose result is awaited.
    meanwhile
        Called about five times a second.

    Returns
    -------
    object
        The result.

    Raises
    ------
    BaseException
        The error of the future or of ``meanwhile``.

    Examples
    --------
    >>> future = Future()
    >>> future.set_result(8)
    >>> result_of(future, lambda: None)
    8
    """
    while wait([future], _WAIT_SECONDS).not_done:
        meanwhile()
    return future.result()


@contextmanager
def told_of_rows(callback: Callable[[IndexProgress], object] | None) -> Iterator[None]:
    """Call a function when indexing of rows begins and ends; its errors become warnings."""

    def tell(event: Literal["start", "complete"]) -> None:
        if callback is None:
            return
        try:
            callback(IndexProgress(event, "load_data", 0, None, "rows"))
        except Exception as error:
            warn(f"the progress callback failed: {type(error).__name__}: {error}")

    tell("start")
    yield
    tell("complete")
