"""The two kinds of session, classic and Connect, in the few things in which they differ."""

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

#: of those that run at once; each task that writes makes a file at least
TASKS_THAT_WRITE = 2

#: set where the server of a Connect session runs in this process
LOCAL_VARIABLE = "SPARK_LOCAL_REMOTE"

State: TypeAlias = Callable[[], tuple[int, int | None]]
"""Says how many tasks are done, and how many there are as far as that is known."""

_POLL_SECONDS = 0.3
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Client(Protocol):
    """A session as lancekit's own jobs need it."""

    def parallelism(self) -> int:
        """Return about how many tasks run at once."""

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        """Return a thread that runs Spark actions in the state of the current one."""

    def tag(self, name: str, words: str) -> None:
        """Tag the jobs that the current thread starts from now on, and say what they are."""

    def cancel(self, name: str) -> None:
        """Cancel the running jobs of a tag."""

    def watch(self, name: str) -> AbstractContextManager[State]:
        """Follow the jobs of a tag; entered in the thread that waits for them."""

    def elsewhere(self) -> str | None:
        """Return what runs the tasks if they run on other machines than this one."""


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

    def tag(self, name: str, words: str) -> None:
        # The session's own tags are for Connect: here they find no job to cancel.
        self._context.addJobTag(name)
        group = self._context.getLocalProperty("spark.jobGroup.id")
        self._context.setJobGroup(group or words, words)  # the user's group cancels them, too

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

        # An interrupt in the midst of a call would leave its answer to the thread's next one.
        thread = threading.Thread(target=_quietly(poll), daemon=True)
        thread.start()
        try:
            yield lambda: state[0]
        finally:
            over.set()

    def elsewhere(self) -> str | None:
        return _beyond_this_machine(self._context.master)


class _Connect:
    """A session at the other end of a connection."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def parallelism(self) -> int:
        # The number of cores is not told; who sets this one has it in mind.
        return int(self._session.conf.get("spark.sql.shuffle.partitions", "8"))

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=target)

    def tag(self, name: str, words: str) -> None:
        self._session.addTag(name)
        self._session.addTag(words.replace(",", ";"))  # a tag has no commas

    def cancel(self, name: str) -> None:
        self._session.interruptTag(name)

    @contextmanager
    def watch(self, name: str) -> Iterator[State]:
        state: list[tuple[int, int | None]] = [(0, None)]

        def follow(*, stages: Iterable[StageInfo] | None = None, **_: object) -> None:
            # It hears of all that the session runs, each in the thread that runs it.
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
    """Return what a session needs to be handled as one of its kind."""
    return _Connect(session) if is_connect(session) else _Classic(session)


def most_tasks(session: object) -> int:
    """Return how many tasks a job has at most whose tasks write, or read what is held."""
    return TASKS_THAT_WRITE * client_of(session).parallelism()


def _beyond_this_machine(master: str) -> str | None:
    # `local-cluster` starts processes of this machine, too.
    return None if master.startswith("local") else master


def _tasks(tracker: JavaObject, tag: str) -> tuple[int, int | None]:
    """Return how many tasks of a tag's jobs are done, and how many there are in all."""
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
        # The Java process may end meanwhile, which the action itself reports.
        with suppress(Exception):
            work()

    return run


def is_connect(session: object) -> bool:
    """Return whether a session is a Spark Connect client, without a Java process of its own."""
    return ".connect." in type(session).__module__


def remote_of(session: SparkSession) -> str:
    """Return where the server of a Connect session is, without what lets one in.

    That is ``local`` for one that PySpark or lancekit started in this process.
    """
    if LOCAL_VARIABLE in os.environ:
        return "local"
    return f"sc://{session.client._builder.endpoint}"
