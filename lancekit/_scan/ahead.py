"""Work that is done ahead of those who ask for its results, in threads if there is enough of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import chain
from types import TracebackType
from typing import TypeVar

from lancekit._lazy import cached_property
from lancekit._machine import decoding_threads
from lancekit.progress import result_of, step, stoppable

__all__ = ["Workers"]

T = TypeVar("T")


class Workers:
    """Threads that begin with a second piece of work and end with the block.

    By default they are as many as decode in a process.  Work that is under way when the block
    ends stops at its next step.

    Examples
    --------
    >>> with Workers() as workers:
    ...     list(workers.results([lambda: "first", lambda: "second"]))
    ['first', 'second']
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or decoding_threads()

    def __enter__(self) -> Workers:
        self._operation = stoppable()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._operation.stop()
        if "_pool" in self.__dict__:
            self._pool.shutdown(wait=True, cancel_futures=True)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="lancekit-scan")

    def results(self, work: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Yield the results of some work in order, while the next few pieces are done."""
        rest = iter(work)
        first = next(rest, None)
        second = next(rest, None)
        if first is not None and second is None:
            yield first()
        if first is None or second is None:
            return
        running: deque[Future[T]] = deque()
        for do in chain((first, second), rest):
            running.append(self._pool.submit(copy_context().run, self._operation.within, do))
            if len(running) > self._threads:
                yield result_of(running.popleft(), step)
            step()
        while running:
            yield result_of(running.popleft(), step)
            step()
