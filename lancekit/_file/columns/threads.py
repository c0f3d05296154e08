"""Threads for decoding and encoding: NumPy's and Arrow's kernels release the interpreter's lock."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeVar

from lancekit._file.container.footer import StoredPage
from lancekit._file.kernels.row_selection import Rows
from lancekit._format.pb import encodings_v20_pb2
from lancekit._machine import decoding_threads, processors

T = TypeVar("T")

#: Encoded bytes of one piece; a thread decodes them in some milliseconds.
_PIECE_BYTES = 3 << 19

#: The same without threads: the decoded bytes of a piece are held twice.
_COPIED_BYTES = 8 << 20

#: Fewer bytes than this are decoded before threads would have started.
_THREADED_BYTES = 3 << 20

#: Pieces with fewer bytes than this are never decoded in a thread.
_LEAST_BYTES = 1 << 12

#: Cost of a row in addition to its bytes, e.g. of a dictionary row, which takes few bytes.
_ROW_BYTES = 2

#: Pieces begin at multiples of this many rows, which most chunks do, too.
_PIECE_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a page to decode, and their cost in encoded bytes; 0 if threads do not help."""

    page: int
    rows: Rows
    cost: int


def divide(stored: StoredPage, page: int, rows: Rows) -> Iterator[Piece]:
    """Yield the pieces of one page's rows, in order; large ranges are divided."""
    size = sum(stored.page.sizes) + _ROW_BYTES * stored.page.length
    cost = size * len(rows) // stored.page.length
    if cost < _LEAST_BYTES:
        yield Piece(page, rows, 0)
        return
    is_threaded = is_costly(stored)
    count = cost // (_PIECE_BYTES if is_threaded else _COPIED_BYTES)
    if not is_threaded:
        cost = 0
    # a page of 2.0 may be compressed as one unit
    of_20 = isinstance(stored.encoding, encodings_v20_pb2.ArrayEncoding)
    if count < 2 or of_20 or not isinstance(rows, range):
        yield Piece(page, rows, cost)
        return
    step = -(-len(rows) // count)
    if step > _PIECE_ROWS:
        step = -(-step // _PIECE_ROWS) * _PIECE_ROWS
    for start in range(rows.start, rows.stop, step):
        part = range(start, min(start + step, rows.stop))
        yield Piece(page, part, cost * len(part) // len(rows))


def is_costly(stored: StoredPage) -> bool:
    """Return True if most time is spent in few long Arrow calls, which threads speed up.

    Unpacking bits is not costly: threads would mostly wait for the interpreter's lock between its
    many short steps.
    """
    encoding = stored.encoding
    if isinstance(encoding, encodings_v20_pb2.ArrayEncoding):
        if encoding.WhichOneof("array_encoding") == "nullable":
            encoding = encoding.nullable.no_nulls.values
        return any(map(encoding.HasField, ("dictionary", "fsst")))
    if encoding.HasField("mini_block"):
        values = encoding.mini_block.value_compression
        compressed = any(map(values.HasField, ("fsst", "general")))
        return compressed or encoding.mini_block.HasField("dictionary")
    return encoding.HasField("full_zip") and bool(encoding.full_zip.bits_per_offset)


def run(work: Sequence[tuple[int, Callable[[], T]]]) -> list[T]:
    """Decode pieces, given as (cost, function), and return the results in order.

    Costly pieces run in threads if there are enough.  All callers in a process share the
    threads, so that callers in their own threads do not multiply them.

    Raises LancekitError: the first error in the order of ``work``; pieces that have not begun by
        then are dropped.
    """
    costly = [cost for cost, _ in work if cost]
    if len(costly) < 2 or sum(costly) < _THREADED_BYTES or processors() == 1:
        return [decode() for _, decode in work]
    pool = _pool(os.getpid())
    # context variables, such as options of a `with` block, apply in the threads, too
    futures = [pool.submit(copy_context().run, decode) if cost else None for cost, decode in work]
    try:
        return [
            decode() if future is None else future.result()
            for future, (_, decode) in zip(futures, work, strict=True)
        ]
    finally:
        for future in futures:
            if future is not None:
                future.cancel()


def ahead(work: Iterable[tuple[bool, Callable[[], T]]]) -> Generator[T, None, None]:
    """Yield results in order while threads compute the next few.

    Each item is (True if a thread may run it, function).  Others run when their result is due.
    Closing the iterator, or an error, drops items that have not begun.
    """
    threads = decoding_threads()
    pool = _pool(os.getpid())
    running: deque[Future[T]] = deque()
    try:
        for threaded, do in work:
            while len(running) >= (threads if threaded else 1):
                yield running.popleft().result()
            if threaded and threads > 1:
                running.append(pool.submit(copy_context().run, do))
            else:
                yield do()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()


@functools.cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the thread pool of this process; the parent's threads do not survive a fork."""
    del process
    return ThreadPoolExecutor(decoding_threads(), thread_name_prefix="lancekit-file")
