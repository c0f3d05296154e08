"""Answers of a job's tasks: small ones come through Spark, large ones through files.

Spark ends a job if its answers together exceed ``spark.driver.maxResultSize``.  The work of all
tasks is lost then.  So each task may answer with an equal part of half the setting.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit.errors import CorruptFileError, EngineError
from lancekit.pipeline.rows.new_files import WriteTarget, new_data_file
from lancekit.scan.ahead import Workers
from lancekit.spark.jobs.sizes import spark_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Answer",
    "AnswerRoom",
    "answer_limit",
    "answer_room",
    "check_answers",
    "read_answers",
]

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
class Answer:
    """A pickled value, or the name, the size and the digest of the file that holds it."""

    value: bytes | pa.Buffer | None
    file: str | None = None
    size: int = 0
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class AnswerRoom:
    """The room that each task of a job has for its answer.  Can be sent to a worker.

    Attributes
    ----------
    most
        The bytes of an answer through Spark, at most.
    place
        The folder for larger answers.  ``None``: Spark gets them, too.
    """

    most: int
    place: WriteTarget | None = None

    def answer(self, value: object) -> Answer:
        """Return the answer for a value; write a file if the value is too large."""
        packed = pickle.dumps(value, 5)  # arrays are unpacked without a copy
        if self.place is None or len(packed) <= self.most:
            return Answer(packed)
        name = self.place.name(new_data_file())
        try:
            sink = self.place.store.create(name)
            try:
                sink.write(packed)
                sink.close()
            finally:
                sink.abort()
        except OSError:
            return Answer(packed)  # the table may be read-only, and Spark may have room
        return Answer(None, name, len(packed), _digest(packed))


def answer_room(
    session: SparkSession, tasks: int, place: WriteTarget | None = None, *, exactly: bool = False
) -> AnswerRoom:
    """Return the room for the answer of each task.

    Parameters
    ----------
    session
        The session of the job.
    tasks
        The number of tasks, at most.
    place
        The folder for larger answers.
    exactly
        Whether there are exactly so many tasks.

    Raises
    ------
    EngineError
        Spark's counters of so many tasks alone exceed the setting.
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


def read_answers(answers: Iterable[Answer], place: WriteTarget | None) -> Iterator[Any]:
    """Yield the values of answers in order; remove each file once it is read."""
    with Workers() as workers:
        # These bytes were made a moment ago by this program's own function.  Spark brought their
        # digest, so no other file is unpickled.
        yield from map(
            pickle.loads,
            workers.results(partial(_bytes_of, answer, place) for answer in answers),
        )


def _bytes_of(answer: Answer, place: WriteTarget | None) -> Any:
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
