"""Jobs: a function runs on every partition of a DataFrame, and its results are collected.

lancekit runs Spark actions only here.  Every action computes the whole DataFrame again, so each job
is a single action, and a worker reports the files that it wrote in its result.  A worker
returns an error of lancekit as a result, too: Spark would retry a failure, and pass on only its
text.
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
#: Spark checks every 2 s whether a task is cancelled, and ends its Python process 2 s later
_LATE_SECONDS = 5
_REMOVED = "The files of their tasks are removed."
LEFT = (
    "The files of their tasks belong to no version: cleanup_old_versions() removes them once they "
    "are seven days old, or at once with delete_unverified=True, if nobody else writes."
)


def pack(session: SparkSession, value: object) -> bytes:
    """Pickle a value for a session's workers; its contents appear in no plan or log.

    Spark would pickle it, too, but hide the cause of a failure behind another error.
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
    """Run a function on the batches of each partition, with the current options.

    The names of the files that the function writes end with ``job``.

    Raises StorageError: the function would access data that other machines cannot: this process's
        memory, or its disk if the session runs elsewhere.
    """
    # Only this process shows progress.
    packed = pack(frame.sparkSession, (work, replace(options.current(), progress=False)))
    version = __version__  # of this process; in a task, the name would refer to the worker's

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        function, values = unpacked(version, packed)
        enter_worker(values, job)
        try:
            yield from function(batches)
        except LancekitError as error:
            # for an action of the user, Spark shows all frames before the reason
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
    """Run a function on each partition of a DataFrame; return the results in partition order.

    frame: any DataFrame; it is computed once.
    work: gets the Arrow batches of a partition, even if it has none.
    written_to: the folders where the function writes files, which are removed if a partition fails.
    answers: the folder for results too large for Spark; by default the first of `written_to`.
    tasks: the number of partitions, if it is known.
    what: the label of the progress bar; by default the function's label.
    detail: a further description for Spark's pages.
    left: a note about remaining files after an interrupt, if `written_to` is unknown.

    Raises LancekitError: an error of lancekit in a worker; of several, the first partition's.
    Raises EngineError: another failure.
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
        del rows  # so that each result is freed after it is read
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

    Spark gives running tasks some seconds to end; files that they still write are removed later.
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
    with suppress(OSError):  # cleanup removes them later
        remove_job_files(job, places)


def run_action(
    session: SparkSession,
    action: Callable[[], Result],
    *,
    what: str = "working",
    detail: str = "",
    left: str = "",
) -> Result:
    """Run a Spark action with a progress bar; an interrupt cancels only its jobs.

    Spark's pages describe the jobs by the user's call, its version, and the work.

    Neither kind of session ends its job when the notebook's kernel is interrupted while it waits:
    a classic session continues to wait, and Connect leaves the job running.

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
        except Exception as error:  # raised again in the waiting thread
            failed.append(error)
        finally:
            over.set()

    context = copy_context()
    over = threading.Event()  # after an interrupted join(), the thread would count as ended
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
                client.cancel(tag)  # jobs that were submitted meanwhile
            stop.add_note(f"{PREFIX}its Spark jobs were cancelled. {left}".rstrip())
            raise
    if failed:
        raise job_failure(failed[0]) from failed[0]
    return done[0]


# ---- the description of a job on Spark's pages: the user's call, its version, and the work

#: attributes with the dataset of an object
_HOLDERS = ("_handle", "_dataset", "_ds")
#: builders whose method name says less than the method that made them
_METHODS = {"MergeInsertBuilder": "merge_insert"}


def _described(what: str, detail: str = "") -> str:
    """Return a description for the jobs that the current call starts.

    what: the label of the progress bar.
    detail: a further description.

    Examples
    --------
    >>> _described("merging", "12 tasks")
    'lancekit: merging, 12 tasks'
    """
    called, work = outermost(), ", ".join(filter(None, (what, detail)))
    if called is None:
        return f"lancekit: {work}"
    owner, _, name = called[0].rpartition(".")
    method = _METHODS.get(owner, name)
    subject = _subject(called[1][0]) if called[1] else ""
    return f"lancekit {method} {subject}".rstrip() + f": {work}"


def _subject(owner: object) -> str:
    """Return the name of a version for users, of a dataset or of an object that has one."""
    if not type(owner).__module__.startswith("lancekit."):
        return ""  # rows: a DataFrame returns a column for any attribute
    snapshot = getattr(owner, "_snapshot", None)
    if isinstance(snapshot, Snapshot):
        place = snapshot.location.root.uri.rstrip("/").rpartition("/")[2].removesuffix(".lance")
        branch, version = snapshot.reference
        return f"{place} {branch}:{version}"
    held_by = (getattr(owner, holder, None) for holder in _HOLDERS)
    return next((_subject(one) for one in held_by if one is not None), "")


# ---- results of a job's tasks: small ones come through Spark, large ones through files
#
# Spark aborts a job if its results together exceed ``spark.driver.maxResultSize``.  The work of all
# tasks is then lost.  So each task may return an equal share of half the setting.

#: the limit on the bytes of all results of a job
_SETTING = "spark.driver.maxResultSize"
_DEFAULT = "1g"
#: bytes that Spark counts for each task besides its result
_COUNTERS = 4 << 10
#: least share of a task: a file name takes about so many bytes
_LEAST = 1 << 10
#: most bytes of an Arrow row, which Connect sends as one message
_MOST = 32 << 20


@dataclass(frozen=True, slots=True)
class _Answer:
    """A pickled result, or the name, the size and the digest of the file that contains it."""

    value: bytes | pa.Buffer | None
    file: str | None = None
    size: int = 0
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class AnswerRoom:
    """The space for the result of each task of a job.  Can be sent to a worker.

    most: the most bytes of a result through Spark.
    place: the folder for larger results.  ``None``: Spark gets them, too.
    """

    most: int
    place: WriteTarget | None = None

    def answer(self, value: object) -> _Answer:
        """Pickle a result; write it to a file if it is too large."""
        packed = pickle.dumps(value, 5)  # protocol 5 unpickles arrays without a copy
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
            return _Answer(packed)  # the table may be read-only, and Spark may have space
        return _Answer(None, name, len(packed), _digest(packed))


def answer_room(
    session: SparkSession, tasks: int, place: WriteTarget | None = None, *, exactly: bool = False
) -> AnswerRoom:
    """Return the space for the result of each task.

    session: the session of the job.
    tasks: the number of tasks, at most.
    place: the folder for larger results.
    exactly: whether `tasks` is the exact number.

    Raises EngineError: Spark's counters for so many tasks alone exceed the setting.
    """
    if exactly:
        check_answers(session, tasks * (_COUNTERS + _LEAST), f"The answers of {tasks:,} tasks")
    limit = answer_limit(session)
    if limit is None:
        return AnswerRoom(_MOST, place)
    share = limit // 2 // max(tasks, 1) - _COUNTERS
    return AnswerRoom(min(max(share, _LEAST), _MOST), place)


def answer_limit(session: SparkSession) -> int | None:
    """Return the most bytes of all results of a job together; ``None`` for no limit."""
    limit = spark_bytes(str(session.conf.get(_SETTING, _DEFAULT)))
    return limit if limit and limit > 0 else None


def check_answers(session: SparkSession, size: int, what: str) -> None:
    """Raise ``EngineError`` if results of so many bytes exceed the limit."""
    limit = answer_limit(session)
    if limit is not None and size > limit:
        raise EngineError(
            f"{what} have {size:,} bytes, more than {_SETTING} allows ({limit:,}). Nothing was "
            "written.",
            hint=f'Set {_SETTING} to "{-(-2 * size >> 20)}m" when the session is started, or to '
            '"0" for no limit.',
            size=size,
            limit=limit,
        )


def read_answers(answers: Iterable[_Answer], place: WriteTarget | None) -> Iterator[Any]:
    """Yield results in order; remove each file once it is read."""
    with Workers() as workers:
        # This program's own function has just pickled these bytes.  Spark carried their digest,
        # so no other file is unpickled.
        yield from map(
            pickle.loads, workers.results(partial(_bytes_of, answer, place) for answer in answers)
        )


def _bytes_of(answer: _Answer, place: WriteTarget | None) -> Any:
    if answer.file is None or place is None:
        return answer.value
    found = place.store.open(answer.file, answer.size).read(0, answer.size)
    with suppress(OSError):  # cleanup removes it later
        place.store.delete(answer.file)
    if _digest(found) != answer.digest:
        raise CorruptFileError(
            f"The file {answer.file} was changed after a task of this call wrote it.",
            hint="Run the call again.",
            file=answer.file,
        )
    return found


def _digest(packed: bytes | pa.Buffer) -> bytes:
    return hashlib.blake2b(memoryview(packed), digest_size=16).digest()
