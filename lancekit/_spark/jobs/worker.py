"""Initialization of every Python process that Spark starts."""

from __future__ import annotations

import gc
from dataclasses import fields, replace
from functools import cache

from lancekit._compiled.state import compile_nothing
from lancekit._pipeline.write_rows import WriteTask, begin_job
from lancekit.options import Options, options

#: The default cache size of each worker; there may be many on a machine.
_CACHE_BYTES = 64 << 20


@cache
def freeze_worker() -> None:
    """Exclude the libraries' own objects from garbage collection; once per process.

    Spark's worker collects garbage after every task, and walks the many long-lived objects of
    Arrow and pandas each time: 17 ms of CPU per task, against 1 ms when they are frozen.  Call
    this first in every function that runs on a worker.
    """
    gc.collect()
    gc.freeze()


def enter_worker(values: Options, job: str = "") -> None:
    """Initialize a worker: freeze its objects, and apply the driver's options.

    The names of its files end with the digits of the job, so that they are found if it fails.

    A process runs one task at a time, and every task of lancekit starts here, so options of an
    earlier task do not remain.
    """
    freeze_worker()
    compile_nothing()  # 100 workers would compile at the same time
    for option in fields(values):
        setattr(options, option.name, getattr(values, option.name))
    if options.cache_bytes is None:
        options.cache_bytes = _CACHE_BYTES
    options.engine = "local"  # a worker must not start Spark work itself
    begin_job(job)


def this_partition() -> int:
    """Return the number of the partition that this process works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context else 0


def of_partition(task: WriteTask) -> WriteTask:
    """Return the task for this partition, with the target file size as limit.

    Each partition starts with another of the folders for files.
    """
    most = min(options.target_file_bytes or task.max_bytes_per_file, task.max_bytes_per_file)
    return replace(task.rotated(this_partition()), max_bytes_per_file=most)
