"""The differences between the two kinds of session, classic and Connect."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import StageInfo

#: tasks that write for each that can run at the same time; each task writes at least one file
TASKS_THAT_WRITE = 2

#: set if the server of a Connect session runs in this process
LOCAL_VARIABLE = "SPARK_LOCAL_REMOTE"

State: TypeAlias = Callable[[], tuple[int, int | None]]
"""Returns the number of finished tasks, and of all tasks, ``None`` if unknown."""

_POLL_SECONDS = 0.3
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Client(Protocol):
    """The operations of a session that lancekit's jobs need."""

    def parallelism(self) -> int:
        """Return about how many tasks run at the same time."""

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        """Return a thread that runs Spark actions with the state of the current thread."""

    def tag(self, name: str, words: str) -> None:
        """Tag and describe the jobs that the current thread starts from now on."""

    def cancel(self, name: str) -> None:
        """Cancel the running jobs of a tag."""

    def watch(self, name: str) -> AbstractContextManager[State]:
        """Follow the jobs of a tag; enter it in the thread that waits for them."""

    def elsewhere(self) -> str | None:
        """Return the cluster that runs the tasks, or None if this machine does."""


class _Classic:
    """A classic session, with direct access to its Java process."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._context = session.sparkContext

    def parallelism(self) -> int:
        cores = int(self._context.defaultParallelism)
        if self._context.master.startswith("local"):
            return cores
        # A cluster may have started with only some of its machines.
        return max(cores, int(self._session.conf.get("spark.sql.shuffle.partitions")))

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        from pyspark import InheritableThread

        thread: threading.Thread = InheritableThread(target)
        return thread

    def tag(self, name: str, words: str) -> None:
        # The session's own tags are for Connect; on a classic session they cancel nothing.
        self._context.addJobTag(name)
        group = self._context.getLocalProperty("spark.jobGroup.id")
        self._context.setJobGroup(group or words, words)  # so that the user's group cancels it, too

    def cancel(self, name: str) -> None:
        self._context.cancelJobsWithTag(name)

    @contextmanager
    def watch(self, name: str) -> Iterator[State]:
        over = threading.Event()
        state: list[tuple[int, int | None]] = [(0, None)]

        def poll() -> None:
            tracker = self._context._jsc.sc().statusTracker()
            while not over.wait(_POLL_SECONDS):
                state[0] = _tasks(tracker, name)

        # An interrupt during a call would leave its response to the thread's next call.
        threading.Thread(target=_quietly(poll), daemon=True).start()
        try:
            yield lambda: state[0]
        finally:
            over.set()

    def elsewhere(self) -> str | None:
        return _beyond_this_machine(self._context.master)


class _Connect:
    """A session over a Spark Connect connection."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def parallelism(self) -> int:
        # Connect does not report cores; this setting is usually chosen by their number.
        return int(self._session.conf.get("spark.sql.shuffle.partitions", "8"))

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=target)

    def tag(self, name: str, words: str) -> None:
        self._session.addTag(name)
        self._session.addTag(words.replace(",", ";"))  # tags cannot have commas

    def cancel(self, name: str) -> None:
        self._session.interruptTag(name)

    @contextmanager
    def watch(self, name: str) -> Iterator[State]:
        state: list[tuple[int, int | None]] = [(0, None)]

        def follow(*, stages: Iterable[StageInfo] | None = None, **_: object) -> None:
            # It is called for all executions of the session, in the thread of each.
            if stages and name in self._session.getTags():
                listed = list(stages)
                total = sum(stage.num_tasks for stage in listed)
                state[0] = sum(stage.num_completed_tasks for stage in listed), total

        self._session.registerProgressHandler(follow)
        try:
            yield lambda: state[0]
        finally:
            self._session.removeProgressHandler(follow)

    def elsewhere(self) -> str | None:
        place = remote_of(self._session)
        if place == "local":
            return None
        if place.removeprefix("sc://").rpartition(":")[0] not in _THIS_MACHINE:
            return place
        return _beyond_this_machine(str(self._session.conf.get("spark.master", "local")))


def client_of(session: object) -> Client:
    """Return the client for a session's kind."""
    return _Connect(session) if is_connect(session) else _Classic(session)


def most_tasks(session: object) -> int:
    """Return the most tasks of a job that writes, or that reads a cached source."""
    return TASKS_THAT_WRITE * client_of(session).parallelism()


def _beyond_this_machine(master: str) -> str | None:
    # `local-cluster` starts processes on this machine, too.
    return None if master.startswith("local") else master


def _tasks(tracker: JavaObject, tag: str) -> tuple[int, int | None]:
    """Return the number of finished tasks of a tag's jobs, and of all their tasks."""
    done = total = 0
    for job in tracker.getJobIdsForTag(tag):
        for stage in tracker.getJobInfo(job).get().stageIds():
            found = tracker.getStageInfo(stage)
            if found.isDefined():
                done += found.get().numCompletedTasks()
                total += found.get().numTasks()
    return done, total or None


def _quietly(work: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        # The Java process may end meanwhile; the action itself reports that.
        with suppress(Exception):
            work()

    return run


def is_connect(session: object) -> bool:
    """Return True for a Spark Connect client, which runs no Java process."""
    return ".connect." in type(session).__module__


def remote_of(session: SparkSession) -> str:
    """Return the address of a Connect session's server, without credentials.

    It is ``local`` for a server that PySpark or lancekit started in this process.
    """
    if LOCAL_VARIABLE in os.environ:
        return "local"
    return f"sc://{session.client._builder.endpoint}"
