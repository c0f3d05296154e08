"""Jobs: a function runs on every partition of a DataFrame, and its results come back.

This is the only way in which lancekit runs an action.  Every action runs all that a DataFrame is
made of anew, so there is one per job; what a worker writes is told in its result.  An error of
lancekit's in a worker is a result too: as a failure Spark would try it again, and hand over its
text alone.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from lancekit._checked import outermost
from lancekit._interrupts import PREFIX
from lancekit._pipeline.write_rows import WriteTarget, new_data_file, new_job, remove_job_files
from lancekit._scan.fragment_rows import Workers
from lancekit._spark.jobs.client import client_of, most_tasks
from lancekit._spark.jobs.failures import job_failure, unpacked
from lancekit._spark.jobs.shipment import spark_bytes
from lancekit._spark.jobs.worker import enter_worker, this_partition
from lancekit._storage.local import sent_to
from lancekit._version import __version__
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, EngineError, LancekitError
from lancekit.options import options
from lancekit.progress import tracking, what_is

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")

_ROW = "partition int, failed boolean, value binary, file string, size long, digest binary"
_POLL_SECONDS = 0.1
#: Spark looks every two seconds whether a task is cancelled, and ends its Python two seconds later
_LATE_SECONDS = 5
_REMOVED = "The files that their tasks had written are removed."
LEFT = (
    "Files that their tasks had written belong to no version: cleanup_old_versions() removes them "
    "once they are seven days old, or at once with delete_unverified=True, if nobody else writes."
)


def pack(session: SparkSession, value: object) -> bytes:
    """Pickle what a session's workers are to have; what it holds appears in no plan or log.

    Spark would pickle it too, and hide what went wrong behind an error of its own.
    """
    from pyspark import cloudpickle

    with sent_to(client_of(session).elsewhere()):
        packed: bytes = cloudpickle.dumps(value)
    return packed


def map_batches(
    frame: DataFrame,
    work: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    schema: object,
    job: str = "",
) -> DataFrame:
    """Run a function on the batches of each partition, with the options that are in force here.

    The names of the files that it writes end with ``job``.

    Raises StorageError: the function is to read or write what other machines do not see: this
        process's memory, or its disk in a session that runs elsewhere.
    """
    # Who follows the progress does so here.
    packed = pack(frame.sparkSession, (work, replace(options.current(), progress=False)))
    version = __version__  # of this process: in a task the module's name means the worker's own

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        function, values = unpacked(version, packed)
        enter_worker(values, job)
        try:
            yield from function(batches)
        except LancekitError as error:
            # an action of the user's own shows Spark's error, with all frames before the reason
            raise error.with_traceback(None) from None

    return frame.mapInArrow(run, schema)


def collect(
    frame: DataFrame,
    work: Callable[[Iterator[pa.RecordBatch]], Result],
    *,
    written_to: Sequence[WriteTarget] = (),
    answers: WriteTarget | None = None,
    tasks: int | None = None,
    what: str | None = None,
    detail: str = "",
    left: str = "",
) -> list[Result]:
    """Run a function on each partition of a DataFrame; return the results in their order.

    frame: any DataFrame; it is worked out once.
    work: gets the Arrow batches of a partition, also if there are none.
    written_to: where the function writes files.  If a partition fails, those of all are removed.
    answers: where answers go that are too large for Spark; by default the first of `written_to`.
    tasks: the number of partitions, if it is known.
    what: what a progress bar calls it; by default what the function does.
    detail: what Spark's pages say beside that.
    left: what an interrupt says of files, if it is not known where the function writes any.

    Raises LancekitError: what a worker raised; the first partition's if there are several.
    Raises EngineError: anything else that failed.
    """
    session = frame.sparkSession
    place = answers or next(iter(written_to), None)
    room = answer_room(session, tasks or most_tasks(session), place, exactly=tasks is not None)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            failed, answer = False, room.answer(work(batches))
        except LancekitError as error:
            failed, answer = True, _Answer(pickle.dumps(error))
        yield pa.record_batch(
            {
                "partition": pa.array([this_partition()], pa.int32()),
                "failed": [failed],
                "value": pa.array([answer.value], pa.binary()),
                "file": pa.array([answer.file], pa.string()),
                "size": [answer.size],
                "digest": pa.array([answer.digest], pa.binary()),
            }
        )

    job = new_job()
    sent = map_batches(frame, run, _ROW, job)
    with _removed_if_it_fails(job, written_to):
        rows = run_action(
            session,
            sent.toArrow,
            what=what or what_is(work),
            detail=detail,
            left=_REMOVED if written_to else left,
        )
        order = np.argsort(rows["partition"].to_numpy(), kind="stable")
        failed = rows["failed"].to_numpy()[order]
        sent_back = deque(_answer(rows, at) for at in order)
        del rows  # each answer goes when it is read
        found = list(read_answers(_drained(sent_back), place))
        failures = [found[at] for at in np.flatnonzero(failed)]
        if failures:
            raise failures[0]
    return found


def _drained(answers: deque[_Answer]) -> Iterator[_Answer]:
    while answers:
        yield answers.popleft()


def _answer(rows: pa.Table, at: int) -> _Answer:
    value = cast("pa.BinaryScalar", rows["value"][at])
    return _Answer(
        value.as_buffer(), *(rows[name][at].as_py() for name in ("file", "size", "digest"))
    )


@contextmanager
def _removed_if_it_fails(job: str, places: Sequence[WriteTarget]) -> Iterator[None]:
    """Remove the files of a job that fails in the block.

    Spark gives a task that still runs some seconds to end: what it writes by then goes later.
    """
    try:
        yield
    except BaseException as error:
        if places:
            try:
                remove_job_files(job, places)
            except OSError:
                error.add_note(LEFT)
            late = threading.Timer(_LATE_SECONDS, _remove_quietly, (job, tuple(places)))
            late.daemon = True
            late.start()
        raise


def _remove_quietly(job: str, places: Sequence[WriteTarget]) -> None:
    with suppress(OSError):  # cleanup finds them
        remove_job_files(job, places)


def run_action(
    session: SparkSession,
    action: Callable[[], Result],
    *,
    what: str = "working",
    detail: str = "",
    left: str = "",
) -> Result:
    """Run an action of Spark's, with a bar; an interrupt cancels its jobs, and only these.

    Spark's pages call the jobs what the user called, of which version, and what is done.

    Neither kind of session ends its job when the notebook's kernel is interrupted while it waits:
    a classic one goes on waiting, and Connect leaves the job running.

    Raises LancekitError: the job failed.
    Raises KeyboardInterrupt: the job was cancelled.
    """
    client = client_of(session)
    tag, words = f"lancekit-{uuid.uuid4()}", _described(what, detail)
    done: list[Result] = []
    failed: list[Exception] = []

    def run() -> None:
        client.tag(tag, words)
        try:
            done.append(context.run(action))
        except Exception as error:  # raised in the thread that waits
            failed.append(error)
        finally:
            over.set()

    context = copy_context()
    over = threading.Event()  # an interrupted join() would take the thread for dead
    thread = client.thread(run)
    with tracking(what) as tracker, client.watch(tag) as state:
        thread.start()
        try:
            while not over.wait(_POLL_SECONDS):
                if not tracker.patient:
                    tracker.set(*state())
                    tracker.draw()
        except KeyboardInterrupt as stop:
            client.cancel(tag)
            while not over.wait(_POLL_SECONDS):
                client.cancel(tag)  # what had not been submitted yet
            stop.add_note(f"{PREFIX}its Spark jobs were cancelled. {left}".rstrip())
            raise
    if failed:
        raise job_failure(failed[0]) from failed[0]
    return done[0]


# ---- what Spark's pages call a job: what the user called, of which version, and what is done

#: what hold a dataset call it
_HOLDERS = ("_handle", "_dataset", "_ds")
#: methods whose names say less than those of what made their object
_SAID = {"MergeInsertBuilder": "merge_insert"}


def _described(what: str, detail: str = "") -> str:
    """Return words for a job that the current call starts.

    what: what a progress bar calls it.
    detail: more of that.

    Examples
    --------
    >>> _described("merging", "12 tasks")
    'lancekit: merging, 12 tasks'
    """
    called, told = outermost(), ", ".join(filter(None, (what, detail)))
    if called is None:
        return f"lancekit: {told}"
    owner, _, name = called[0].rpartition(".")
    said = _SAID.get(owner, name)
    subject = _subject(called[1][0]) if called[1] else ""
    return f"lancekit {said} {subject}".rstrip() + f": {told}"


def _subject(owner: object) -> str:
    """Return a version as users name it, of what is a dataset or holds one."""
    if not type(owner).__module__.startswith("lancekit."):
        return ""  # rows: a DataFrame takes any name for a column's
    snapshot = getattr(owner, "_snapshot", None)
    if isinstance(snapshot, Snapshot):
        place = snapshot.location.root.uri.rstrip("/").rpartition("/")[2].removesuffix(".lance")
        branch, version = snapshot.reference
        return f"{place} {branch}:{version}"
    held = (getattr(owner, holder, None) for holder in _HOLDERS)
    return next((_subject(one) for one in held if one is not None), "")


# ---- answers of a job's tasks: small ones come through Spark, large ones through files
#
# Spark ends a job if its answers together exceed ``spark.driver.maxResultSize``.  The work of all
# tasks is lost then.  So each task may answer with an equal part of half the setting.

#: how many bytes all answers of a job have at most
_SETTING = "spark.driver.maxResultSize"
_DEFAULT = "1g"
#: what Spark counts for each task beside its answer
_COUNTERS = 4 << 10
#: the name of a file has about as many bytes as this
_LEAST = 1 << 10
#: one row of Arrow, which Connect sends as one message
_MOST = 32 << 20


@dataclass(frozen=True, slots=True)
class _Answer:
    """A pickled value, or the name, the size and the digest of the file that holds it."""

    value: bytes | pa.Buffer | None
    file: str | None = None
    size: int = 0
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class AnswerRoom:
    """The room that each task of a job has for its answer.  Can be sent to a worker.

    most: the bytes of an answer through Spark, at most.
    place: the folder for larger answers.  ``None``: Spark gets them, too.
    """

    most: int
    place: WriteTarget | None = None

    def answer(self, value: object) -> _Answer:
        """Return the answer for a value; write a file if the value is too large."""
        packed = pickle.dumps(value, 5)  # arrays are unpacked without a copy
        if self.place is None or len(packed) <= self.most:
            return _Answer(packed)
        name = self.place.name(new_data_file())
        try:
            sink = self.place.store.create(name)
            try:
                sink.write(packed)
                sink.close()
            finally:
                sink.abort()
        except OSError:
            return _Answer(packed)  # the table may be read-only, and Spark may have room
        return _Answer(None, name, len(packed), _digest(packed))


def answer_room(
    session: SparkSession, tasks: int, place: WriteTarget | None = None, *, exactly: bool = False
) -> AnswerRoom:
    """Return the room for the answer of each task.

    session: the session of the job.
    tasks: the number of tasks, at most.
    place: the folder for larger answers.
    exactly: whether there are exactly so many tasks.

    Raises EngineError: spark's counters of so many tasks alone exceed the setting.
    """
    if exactly:
        check_answers(session, tasks * (_COUNTERS + _LEAST), f"The answers of {tasks:,} tasks")
    limit = answer_limit(session)
    if limit is None:
        return AnswerRoom(_MOST, place)
    share = limit // 2 // max(tasks, 1) - _COUNTERS
    return AnswerRoom(min(max(share, _LEAST), _MOST), place)


def answer_limit(session: SparkSession) -> int | None:
    """Return the bytes that the answers of a job may have together; ``None`` for no limit."""
    limit = spark_bytes(str(session.conf.get(_SETTING, _DEFAULT)))
    return limit if limit and limit > 0 else None


def check_answers(session: SparkSession, size: int, what: str) -> None:
    """Raise ``EngineError`` if answers of so many bytes exceed the limit."""
    limit = answer_limit(session)
    if limit is not None and size > limit:
        raise EngineError(
            f"{what} have {size:,} bytes, more than {_SETTING} allows ({limit:,}). Nothing was "
            "written.",
            hint=f'Set {_SETTING} to "{-(-2 * size >> 20)}m" where the session is started, or to '
            '"0" for no limit.',
            size=size,
            limit=limit,
        )


def read_answers(answers: Iterable[_Answer], place: WriteTarget | None) -> Iterator[Any]:
    """Yield the values of answers in order; remove each file once it is read."""
    with Workers() as workers:
        # These bytes were made a moment ago by this program's own function.  Spark brought their
        # digest, so no other file is unpickled.
        yield from map(
            pickle.loads,
            workers.results(partial(_bytes_of, answer, place) for answer in answers),
        )


def _bytes_of(answer: _Answer, place: WriteTarget | None) -> Any:
    if answer.file is None or place is None:
        return answer.value
    found = place.store.open(answer.file, answer.size).read(0, answer.size)
    with suppress(OSError):  # cleanup removes it later
        place.store.delete(answer.file)
    if _digest(found) != answer.digest:
        raise CorruptFileError(
            f"The file {answer.file} does not hold what a task of this call wrote into it.",
            hint="Run the call again.",
            file=answer.file,
        )
    return found


def _digest(packed: bytes | pa.Buffer) -> bytes:
    return hashlib.blake2b(memoryview(packed), digest_size=16).digest()
