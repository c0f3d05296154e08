"""The two kinds of session, classic and Connect, in the few things in which they differ."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from lancekit.spark.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Client", "client_of"]


class Client(Protocol):
    """A session as lancekit's own jobs need it."""

    def parallelism(self) -> int:
        """Return about how many tasks run at once."""

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        """Return a thread that runs Spark actions in the state of the current one."""

    def tag(self, name: str) -> None:
        """Tag the jobs that the current thread starts from now on."""

    def cancel(self, name: str) -> None:
        """Cancel the running jobs of a tag."""


class _Classic:
    """A session whose Java process is at hand."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._context = session.sparkContext

    def parallelism(self) -> int:
        cores = int(self._context.defaultParallelism)
        if self._context.master.startswith("local"):
            return cores
        # A cluster may have started with few of its machines.
        return max(cores, int(self._session.conf.get("spark.sql.shuffle.partitions")))

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        from pyspark import InheritableThread

        thread: threading.Thread = InheritableThread(target)
        return thread

    def tag(self, name: str) -> None:
        # The session's own tags are for Connect: here they find no job to cancel.
        self._context.addJobTag(name)

    def cancel(self, name: str) -> None:
        self._context.cancelJobsWithTag(name)


class _Connect:
    """A session at the other end of a connection."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def parallelism(self) -> int:
        # The number of cores is not told; who sets this one has it in mind.
        return int(self._session.conf.get("spark.sql.shuffle.partitions", "8"))

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=target)

    def tag(self, name: str) -> None:
        self._session.addTag(name)

    def cancel(self, name: str) -> None:
        self._session.interruptTag(name)


def client_of(session: Any) -> Client:
    """Return what a session needs to be handled as one of its kind."""
    return _Connect(session) if is_connect(session) else _Classic(session)
