"""Selected rows of a file, and their distribution over pages and chunks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lancekit._file.kernels.memory import Ints
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, RowOutOfRangeError

#: Rows of a file, page or chunk: a contiguous range, or strictly ascending positions.
Rows = range | Ints


def parse_rows(rows: object, num_rows: int) -> Rows:
    """Check the rows that a caller passed against the number of rows in the file.

    Raises RowOutOfRangeError: a position lies outside of the file.
    Raises InvalidArgumentError: a step other than 1, or positions that do not strictly ascend.
    """
    if rows is None:
        return range(num_rows)
    if isinstance(rows, range):
        start, stop = rows.start, rows.stop
        if rows.step != 1:
            raise InvalidArgumentError(
                f"Row slices must have step 1, got step {rows.step}.",
                hint="Pass the positions as an array.",
            )
        if not 0 <= start <= num_rows or stop > num_rows:
            raise RowOutOfRangeError(
                f"Rows {start} to {stop} are out of range: the file has {num_rows} rows.",
                rows=num_rows,
            )
        return range(start, max(start, stop))
    positions = np.asarray(rows)
    if positions.ndim != 1:
        raise InvalidArgumentError("Row positions must be a one-dimensional array.")
    if positions.size == 0:
        return range(0, 0)
    if positions.dtype.kind not in "iu":
        raise InvalidTypeError(f"Row positions must be integers, got {shown(rows)}.")
    if positions.dtype.kind == "u":
        positions = np.minimum(positions, np.uint64(2**63 - 1))
    positions = positions.astype(np.int64)
    if positions[0] < 0 or positions[-1] >= num_rows or positions.max() >= num_rows:
        bad = int(positions[0]) if positions[0] < 0 else int(positions.max())
        raise RowOutOfRangeError(
            f"Row {bad} is out of range: the file has {num_rows} rows.", rows=num_rows
        )
    if not (positions[1:] > positions[:-1]).all():
        raise InvalidArgumentError("Row positions must be in strictly ascending order.")
    if positions[-1] - positions[0] == positions.size - 1:
        return range(int(positions[0]), int(positions[-1]) + 1)
    return positions


def split(selection: Rows, firsts: Ints) -> Iterator[tuple[int, Rows]]:
    """Yield (page, rows within the page) for every page with a selected row.

    ``firsts`` are the first rows of all pages, followed by the total number of rows.
    """
    if len(selection) == 0:
        return
    if isinstance(selection, range):
        page = int(np.searchsorted(firsts, selection.start, "right")) - 1
        while page < len(firsts) - 1 and firsts[page] < selection.stop:
            first, last = int(firsts[page]), int(firsts[page + 1])
            start, stop = max(selection.start, first), min(selection.stop, last)
            if start < stop:
                yield page, range(start - first, stop - first)
            page += 1
        return
    borders = np.searchsorted(selection, firsts)
    for page in np.flatnonzero(np.diff(borders)).tolist():
        part = selection[borders[page] : borders[page + 1]] - firsts[page]
        yield page, part


def grouped(selection: Rows, size: int) -> Rows:
    """Return the positions of the selected rows' items, with ``size`` items in each row."""
    if size == 1:
        return selection
    if isinstance(selection, range):
        return range(selection.start * size, selection.stop * size)
    return (selection[:, None] * size + np.arange(size)).ravel()
