"""Rows that a filter has selected, before the other columns are read: few are read together.

A column that is read for a thousand rows takes as long for each of a dozen that lie about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancekit.errors import LancekitError
from lancekit.scan.fragments.reader import FragmentReader, Offsets, as_offsets

__all__ = ["Selection", "projections"]

#: what a fragment gives: rows to be read, or all that is wanted of it
Found: TypeAlias = "Selection | list[pa.Table]"


@dataclass(frozen=True, slots=True)
class Selection:
    """Physical rows of a fragment, ascending, and columns of theirs that are read already."""

    reader: FragmentReader
    rows: Offsets | range
    known: pa.Table | None

    def parts(self, most: int) -> Iterator[Selection]:
        """Yield the rows in parts of so many at most."""
        for start in range(0, len(self.rows), most):
            known = None if self.known is None else self.known.slice(start, most)
            yield Selection(self.reader, self.rows[start : start + most], known)


def projections(
    found: Iterator[Found], most: int, read: Callable[[Selection], pa.Table]
) -> Iterator[Callable[[], list[pa.Table]]]:
    """Yield how to make tables of all that was found, in order; an error comes in its turn.

    Rows selected in one fragment are read together, up to `most` of them.
    """
    failed: list[LancekitError] = []

    def until_it_fails() -> Iterator[Found]:
        try:
            yield from found
        except LancekitError as error:
            failed.append(error)

    for item in _put_together(until_it_fails(), most):
        yield partial(_read, item, read)
    for error in failed:
        yield partial(_fail, error)


def _read(item: Found, read: Callable[[Selection], pa.Table]) -> list[pa.Table]:
    return [read(item)] if isinstance(item, Selection) else item


def _fail(error: LancekitError) -> list[pa.Table]:
    raise error


def _put_together(found: Iterable[Found], most: int) -> Iterator[Found]:
    waiting: list[Selection] = []
    for item in found:
        selected = item if isinstance(item, Selection) else None
        if waiting and (selected is None or selected.reader is not waiting[0].reader):
            yield from _joined(waiting).parts(most)
            waiting = []
        if selected is None:
            yield item
        elif len(selected.rows):
            waiting.append(selected)
            if sum(len(one.rows) for one in waiting) >= most:
                *whole, last = _joined(waiting).parts(most)
                yield from whole
                waiting = [last]
    if waiting:
        yield from _joined(waiting).parts(most)


def _joined(selections: list[Selection]) -> Selection:
    first = selections[0]
    if len(selections) == 1:
        return first
    known = [one.known for one in selections if one.known is not None]
    return Selection(
        first.reader,
        _rows(selections),
        pa.concat_tables(known) if known else None,
    )


def _rows(selections: list[Selection]) -> Offsets | range:
    rows = [one.rows for one in selections]
    begin, count = int(rows[0][0]), sum(map(len, rows))
    if all(isinstance(one, range) for one in rows) and int(rows[-1][-1]) - begin + 1 == count:
        return range(begin, begin + count)
    return np.concatenate([as_offsets(one) for one in rows])
