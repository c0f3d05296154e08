"""Decoding of pieces; small pages of several columns are decoded together.

A wide table has thousands of pages of a few KiB, and a decoder's fixed cost for each page is many
times the cost of its values.  Pages with the same encoding are decoded like pages of one column,
and the result is sliced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lancekit._file.columns.decoders import checked_rows, decoder_of
from lancekit._file.columns.page_runs import PageGroup
from lancekit._file.columns.threads import is_costly, run
from lancekit._file.container.prefetch import PrefetchedSource
from lancekit._file.kernels.bounds import allowance
from lancekit._file.kernels.faults import located
from lancekit._file.kernels.row_selection import Rows
from lancekit._file.layouts.field_tree import Path
from lancekit.errors import FormatError

#: Pages with fewer encoded bytes than this have more fixed cost than decoding cost.
SMALL_BYTES = 1 << 14

#: Maximum encoded bytes and rows of a group: each result keeps all of its rows in memory.
_MOST_BYTES, _MOST_ROWS = 1 << 20, 1 << 20

#: Smaller groups are faster to decode one by one.
_FEW = 4


class SmallRun(NamedTuple):
    """Rows of a run of pages that can be decoded with others, and a function for their array."""

    run: PageGroup
    #: number of rows in the run
    length: int
    path: Path
    rows: Rows
    memory: int
    finish: Callable[[pa.Array], pa.Array] | None = None

    @property
    def place(self) -> int:
        """Position of the run in the file."""
        return self.run.first.page.positions[0]


_Placed: TypeAlias = tuple[int, SmallRun]


class Work(NamedTuple):
    """Piece to decode: function, cost in encoded bytes (0 if threads do not help), small run."""

    cost: int
    decode: Callable[[], pa.Array]
    small: SmallRun | None = None


def decoded(work: Sequence[Work]) -> list[pa.Array]:
    """Decode pieces and return their arrays in order.

    Raises LancekitError: the first error in the order of ``work``.
    """
    groups = list(_groups(work)) if len(work) >= _FEW else []
    if not groups:
        return run([(piece.cost, piece.decode) for piece in work])
    found: dict[int, pa.Array] = {}
    try:
        arrays = run([(_cost(group), partial(_decode_group, group)) for _, group in groups])
        for (places, _), parts in zip(groups, arrays, strict=True):
            found.update(zip(places, parts, strict=True))
    except FormatError:
        pass  # decoded one by one, the first error names column and page
    rest = [place for place in range(len(work)) if place not in found]
    alone = run([(work[place].cost, work[place].decode) for place in rest])
    found.update(zip(rest, alone, strict=True))
    return [found[place] for place in range(len(work))]


def _groups(work: Sequence[Work]) -> Iterator[tuple[list[int], list[SmallRun]]]:
    """Yield groups to decode as one: indices of the pieces, and their runs in file order.

    Only local files are grouped: prefetched ranges of others end where a column's pages end.
    """
    kinds: dict[object, list[_Placed]] = {}
    for place, piece in enumerate(work):
        if (small := piece.small) is not None:
            source = small.run.first.page.source
            if not isinstance(source, PrefetchedSource):
                kind = (id(source), small.run.first.run_key, small.path.kinds[-1].id)
                kinds.setdefault(kind, []).append((place, small))
    for found in kinds.values():
        rest = sorted(found, key=lambda each: each[1].place)
        while len(rest) >= _FEW:
            path = rest[0][1].path
            by_path: tuple[list[_Placed], list[_Placed]] = [], []
            for each in rest:
                by_path[each[1].path != path].append(each)
            same_path, rest = by_path
            yield from _cut(same_path)


def _cut(runs: Sequence[_Placed]) -> Iterator[tuple[list[int], list[SmallRun]]]:
    """Yield groups of limited size whose pages ascend in the file."""
    places: list[int] = []
    group: list[SmallRun] = []
    size = rows = end = 0
    for place, small in runs:
        size, rows = size + small.run.encoded_bytes, rows + small.length
        if group and (size > _MOST_BYTES or rows > _MOST_ROWS or small.place < end):
            if len(group) >= _FEW:
                yield places, group
            places, group, size, rows = [], [], small.run.encoded_bytes, small.length
        places.append(place)
        group.append(small)
        end = small.run.pages[-1].page.positions[-1]
    if len(group) >= _FEW:
        yield places, group


def _cost(group: Sequence[SmallRun]) -> int:
    first = group[0].run.first
    return sum(small.run.encoded_bytes for small in group) if is_costly(first) else 0


def _decode_group(group: Sequence[SmallRun]) -> list[pa.Array]:
    """Decode runs with the same encoding as one, and return the array of each."""
    first = group[0]
    stored = first.run.first
    with (
        located(stored.page.source.name, page=stored.page.index),
        # the limit of the smallest run: decoding that needs more memory is repeated one by one
        allowance(min(small.run.encoded_bytes for small in group), first.memory),
    ):
        rows, borders = _joined_rows(group)
        decode = decoder_of([page for small in group for page in small.run.pages], first.path)
        array = checked_rows(decode(rows), rows, first.path.kinds[-1])
    parts: list[pa.Array] = []
    for small, (start, stop) in zip(group, pairwise(borders), strict=True):
        part = array.slice(start, stop - start)
        parts.append(part if small.finish is None else small.finish(part))
    return parts


def _joined_rows(group: Sequence[SmallRun]) -> tuple[Rows, list[int]]:
    """Return the requested rows across all runs, and the borders of the runs in the result."""
    borders = list(accumulate((len(small.rows) for small in group), initial=0))
    firsts = list(accumulate((small.length for small in group), initial=0))
    if borders == firsts:
        return range(firsts[-1]), borders
    parts = [
        np.asarray(small.rows, np.int64) + first
        for small, first in zip(group, firsts, strict=False)
    ]
    return np.concatenate(parts), borders
