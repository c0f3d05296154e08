"""What runs first in every Python process that Spark starts."""

from __future__ import annotations

import gc
from dataclasses import fields, replace
from functools import cache

from lancekit._compiled.state import compile_nothing
from lancekit._pipeline.write_rows import WriteTask, begin_job
from lancekit.options import Options, options

#: What each of the many workers on a machine remembers of files, if nothing is said.
_CACHE_BYTES = 64 << 20


@cache
def freeze_worker() -> None:
    """Take the libraries' own objects out of garbage collection; once per process.

    Spark's worker collects garbage after every task, and walks the many long-lived objects of
    Arrow and pandas each time: 17 ms of CPU per task, against 1 ms when they are frozen.  Call
    this first in every function that runs on a worker.
    """
    gc.collect()
    gc.freeze()


def enter_worker(values: Options, job: str = "") -> None:
    """Make a worker ready: freeze its objects, and put the driver's options in force.

    The names of its files end with the digits of the job, by which they are found if it fails.

    A process serves one task at a time, and every task of lancekit's starts here, so the options
    of an earlier one do not stay.
    """
    freeze_worker()
    compile_nothing()  # a hundred workers would do it at once
    for option in fields(values):
        setattr(options, option.name, getattr(values, option.name))
    if options.cache_bytes is None:
        options.cache_bytes = _CACHE_BYTES
    options.engine = "local"  # a worker is where Spark's work ends up
    begin_job(job)


def this_partition() -> int:
    """Return the number of the partition that this process works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context else 0


def of_partition(task: WriteTask) -> WriteTask:
    """Return how this partition writes: to files of the size that is aimed at.

    Each partition starts with another of the places for files.
    """
    most = min(options.target_file_bytes or task.max_bytes_per_file, task.max_bytes_per_file)
    return replace(task.rotated(this_partition()), max_bytes_per_file=most)
