"""Fragments of which indices have chosen rows, beside those that are looked at as wholes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancekit.errors import FormatError
from lancekit.file.kernels.memory import starts_of
from lancekit.format.deletions import to_offsets
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragment_rows import ScanRequest, block_rows, project, select_among
from lancekit.scan.fragments.joint_reader import open_together, together
from lancekit.scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit.scan.fragments.source import FragmentSource, FragmentSources
from lancekit.scan.selection import Selection

if TYPE_CHECKING:
    from lancekit.scan.indexed.choice import RowChoice
    from lancekit.scan.indexed.found import ChosenRows

__all__ = ["IndexedRows", "LookedAt", "divided", "looked_at", "projected", "select_chosen"]

#: rows of several fragments that are read together, which may be large
_FEW_ROWS, _MOST_ROWS = 1 << 16, 1 << 31


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """Fragments that can be read together, or one, and the rows that indices have chosen of each.

    Can be sent to a worker.
    """

    sources: tuple[FragmentSource, ...]
    chosen: tuple[ChosenRows, ...]

    @property
    def num_rows(self) -> int:
        """The number of rows to look at, deleted ones among them."""
        return sum(len(one.rows) for one in self.chosen)

    def alone(self) -> Iterator[IndexedRows]:
        """Yield each fragment by itself."""
        for source, chosen in zip(self.sources, self.chosen, strict=True):
            yield IndexedRows((source,), (chosen,))

    def read(self, request: ScanRequest) -> Iterator[pa.Table]:
        """Yield what is asked for of the rows that are wanted, in blocks."""
        inputs = set[str]().union(*(output.inputs for output in request.outputs))
        found = self.select(request.predicate, inputs)
        if len(found.rows) <= request.batch_rows:  # a block has no fewer
            if len(found.rows):
                yield projected(request, found)
            return
        for part in found.parts(block_rows(self.sources[0].schema, request)):
            yield projected(request, part)

    def select(self, predicate: Predicate | None, keep: Collection[str] = ()) -> Selection:
        """Return the rows that a filter wants; with them come columns to `keep` that it has read.

        Without a filter, or where indices know, all that were chosen and are still there.
        """
        from lancekit.scan.indexed.found import ChosenRows

        reader = open_together(self.sources)
        starts = starts_of(np.array([source.fragment.physical_rows for source in self.sources]))
        parts = zip(self.chosen, starts.tolist(), strict=False)
        rows = BitMap.union(BitMap(), *(one.rows.shift(first) for one, first in parts))
        exact = all(one.exact for one in self.chosen)
        try:
            return Selection(
                reader, *select_chosen(reader, predicate, ChosenRows(rows, exact), keep)
            )
        except FormatError:
            if len(self.sources) > 1:
                for part in self.alone():  # the error names the file
                    part.select(predicate, keep)
            raise


def select_chosen(
    reader: FragmentReader,
    predicate: Predicate | None,
    chosen: ChosenRows,
    keep: Collection[str] = (),
) -> tuple[Offsets | range, pa.Table | None]:
    """Do for one reader what `IndexedRows.select` does; returns what `select_rows` does."""
    rows = to_offsets(chosen.rows - reader.deleted).astype(np.int64)
    if chosen.exact or predicate is None:
        return rows, None
    return select_among(reader, predicate, rows, keep)


def projected(request: ScanRequest, wanted: Selection) -> pa.Table:
    """Return what is asked for of some rows."""
    try:
        return project(wanted.reader, request.outputs, wanted.rows, wanted.known)
    except FormatError:
        # of fragments that are read together the error does not name the file
        for reader, rows in wanted.reader.split(as_offsets(wanted.rows)):
            project(reader, request.outputs, rows)
        raise


def divided(
    sources: Iterable[FragmentSource], choice: RowChoice | None
) -> Iterator[Sequence[FragmentSource] | IndexedRows]:
    """Yield fragments in order: in sequences those to be looked at as wholes.

    Those of which indices know that they have no row wanted are left out.
    """
    if choice is None:
        yield tuple(sources)
        return
    nothing = choice.without_rows
    if isinstance(sources, FragmentSources):
        sources = sources.without(nothing)
    asked = [(s, choice.rows_of(s)) for s in sources if s.fragment.id not in nothing]
    left = [(source, chosen) for source, chosen in asked if chosen is None or chosen.rows]
    for whole, run in groupby(left, lambda pair: pair[1] is None):
        pairs = list(run)
        if whole:
            yield tuple(source for source, _ in pairs)
        else:
            yield from _few_together([(source, one) for source, one in pairs if one is not None])


@dataclass(frozen=True, slots=True)
class LookedAt:
    """The fragments that have rows to look at, and how many of theirs are looked at."""

    sources: tuple[FragmentSource, ...]
    rows: int


def looked_at(sources: Iterable[FragmentSource], choice: RowChoice | None) -> LookedAt:
    """Return what is looked at where indices are asked, if there is a `choice`: they are."""
    left: list[FragmentSource] = []
    rows = 0
    for part in divided(sources, choice):
        if isinstance(part, IndexedRows):
            left += part.sources
            rows += part.num_rows
        else:
            left += part
            rows += sum(source.fragment.num_rows for source in part)
    return LookedAt(tuple(left), rows)


def _few_together(
    pairs: Sequence[tuple[FragmentSource, ChosenRows]],
) -> Iterator[IndexedRows]:
    """Put fragments together that have few rows each: to begin with one takes longer."""
    if len(pairs) == 1:
        ((source, chosen),) = pairs
        yield IndexedRows((source,), (chosen,))
        return
    by_id = {source.fragment.id: chosen for source, chosen in pairs}
    seen = np.cumsum([len(chosen.rows) for chosen in by_id.values()]) // _FEW_ROWS
    sources = (source for source, _ in pairs)
    for _, some in groupby(zip(sources, seen.tolist(), strict=True), itemgetter(1)):
        for group in together((source for source, _ in some), _MOST_ROWS):
            yield IndexedRows(group, tuple(by_id[source.fragment.id] for source in group))
