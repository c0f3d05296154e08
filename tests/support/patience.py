"""How long a test waits for what must come, and how much work a step may cost.

A test waits for a thing: an answer, a file, the end of a process.  The clock only ends what hangs,
so it is set far beyond what a machine that does ten things at once needs.  What is about effort,
not about waiting, is measured in seconds of the processor, which a busy machine does not stretch.
"""

from __future__ import annotations

import faulthandler
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

__all__ = ["HANG_SECONDS", "WHOLE_SECONDS", "at_most", "run_to_its_end", "started", "until"]

HANG_SECONDS = 1800
"""What takes longer hangs."""

WHOLE_SECONDS = 6 * 3600
"""The same for one test that runs at its full length."""


def until(there: Callable[[], bool]) -> None:
    """Wait for a thing.

    Raises
    ------
    TimeoutError
        If it does not come within `HANG_SECONDS`.
    """
    end = time.monotonic() + HANG_SECONDS
    while not there():
        if time.monotonic() > end:
            raise TimeoutError("what is waited for does not come")
        time.sleep(0.01)


def started(stream: DataStreamWriter) -> StreamingQuery:
    """Start a streaming query.

    Over Spark Connect its functions run in a Python that the server starts, for which it waits ten
    seconds, whatever else the machine does.  Nothing of the query has begun by then.
    """
    from pyspark.errors import PySparkException

    end = time.monotonic() + HANG_SECONDS
    while True:
        try:
            return stream.start()
        except PySparkException as error:
            if "failed to connect back" not in str(error) or time.monotonic() > end:
                raise


def run_to_its_end(stream: DataStreamWriter) -> StreamingQuery:
    """Run a streaming query over what is available.

    Spark waits ten seconds for each Python that it starts, whatever else the machine does: then the
    query ends, and goes on from its checkpoint when it is begun again.
    """
    from pyspark.errors import StreamingQueryException

    end = time.monotonic() + HANG_SECONDS
    while True:
        running = started(stream)
        try:
            assert running.awaitTermination(HANG_SECONDS)
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error) or time.monotonic() > end:
                raise
        else:
            return running


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """End this process, with its stack printed, if the block works for so long, or hangs."""
    faulthandler.register(signal.SIGPROF, chain=True)  # and dies of it, as without a handler
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    # no limit on the process: its ticks, by which that goes, run ahead of its time for hours
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        faulthandler.unregister(signal.SIGPROF)
