"""Read plans: the fragments and rows that a scan, a delete, an update or a merge reads.

A `Read` is split into parts whose fragments are read together. Explanations show the same `Read`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancekit._file.kernels.memory import starts_of
from lancekit._format.deletions import to_offsets
from lancekit._format.paths import find_field
from lancekit._format.schema import LanceSchema
from lancekit._lazy import cached_property
from lancekit._scan.expressions.nodes import ArrowExpr
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest, block_rows, project, select_among
from lancekit._scan.fragments.joint_reader import open_together, together
from lancekit._scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit._scan.fragments.source import (
    FragmentSource,
    FragmentSources,
    RowSet,
    fragment_sources,
    sources_for,
)
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import LancekitError

if TYPE_CHECKING:
    from lancekit._scan.external_table import ExternalTable
    from lancekit._scan.index_lookup import IndexLookup

#: the most rows of a joint read: selected rows, and all rows of their fragments
_FEW_ROWS, _MOST_ROWS = 1 << 16, 1 << 31
_ALL_ROWS = RowSet()


@dataclass(frozen=True)
class Read:
    """Fragments and the rows to read in them, before the filter is applied.

    sources: the fragments, in the order of the rows.
    rows: the rows to read, unless `lookup` finds them. A part always has its rows here.
    lookup: queries indices for the rows, when the rows are first needed.
    tables: the external tables among the fragments, whose own indices searches use.
    """

    sources: Sequence[FragmentSource]
    rows: RowSet = _ALL_ROWS
    lookup: IndexLookup | None = None
    tables: tuple[ExternalTable, ...] = ()

    @property
    def row_set(self) -> RowSet:
        """The rows to read; the first access queries the indices."""
        return self.rows if self.lookup is None else self.lookup.rows

    def parts(self) -> Iterator[Read]:
        """Yield parts in order: fragments to read together, either whole or by single rows.

        Fragments without a row to read are left out.
        """
        rows = self.row_set
        if not rows.known:
            yield self._part(self.fragments)
            return
        for some, run in groupby(self.fragments, lambda source: source.fragment.id in rows.rows):
            if some:
                yield from self._few_together(list(run), rows)
            else:
                yield self._part(tuple(run))

    @property
    def is_exact(self) -> bool:
        """True if the indices match all rows exactly, so that the filter need not run."""
        exact = self.row_set.exact
        return bool(exact) and all(source.fragment.id in exact for source in self.fragments)

    @property
    def is_of_all_rows(self) -> bool:
        """True if a part reads all rows of its fragments; only valid for a part."""
        return not self.rows.known

    def only(self, sources: Sequence[FragmentSource]) -> Read:
        """Return the read of some of the fragments; can be sent to a worker."""
        return self._part(sources, self.row_set.only(source.fragment.id for source in sources))

    def _part(self, sources: Sequence[FragmentSource], rows: RowSet = _ALL_ROWS) -> Self:
        return replace(self, sources=sources, rows=rows, lookup=None, tables=())

    def _few_together(self, sources: Sequence[FragmentSource], rows: RowSet) -> Iterator[Read]:
        """Yield reads that join fragments with few rows, because a read has a fixed cost."""
        if len(sources) == 1:
            yield self._part(tuple(sources), rows.only([sources[0].fragment.id]))
            return
        seen = np.cumsum([len(rows.rows[source.fragment.id]) for source in sources]) // _FEW_ROWS
        for _, some in groupby(zip(sources, seen.tolist(), strict=True), itemgetter(1)):
            for group in together((source for source, _ in some), _MOST_ROWS):
                yield self._part(group, rows.only(source.fragment.id for source in group))

    @cached_property
    def fragments(self) -> tuple[FragmentSource, ...]:
        """The fragments that have rows to read."""
        skipped, sources = self.row_set.skipped, self.sources
        if not skipped:
            return tuple(sources)
        if isinstance(sources, FragmentSources):
            return tuple(sources.without(skipped))
        return tuple(source for source in sources if source.fragment.id not in skipped)

    @cached_property
    def num_rows(self) -> int:
        """The number of rows to read."""
        if not self.row_set.known and isinstance(self.sources, FragmentSources):
            return int(self.sources.num_rows.sum())
        return sum(self.rows_in(source) for source in self.fragments)

    def rows_in(self, source: FragmentSource) -> int:
        """Return the number of rows to read in one of the fragments."""
        offsets = self.row_set.of(source.fragment.id)
        return source.fragment.num_rows if offsets is None else len(offsets)

    def read(self, request: ScanRequest) -> Iterator[pa.Table]:
        """Yield the outputs of the matching rows of a part, in blocks."""
        inputs = set[str]().union(*(output.inputs for output in request.outputs))
        found = self.select(request.predicate, inputs)
        if len(found.rows) <= request.batch_rows:  # fits into one block
            if len(found.rows):
                yield projected(request, found)
            return
        for part in found.parts(block_rows(self.sources[0].schema, request)):
            yield projected(request, part)

    def select(self, predicate: Predicate | None, keep: Collection[str] = ()) -> Selection:
        """Return the rows of a part that match a filter, and the filter's columns listed in `keep`.

        Without a filter, or if the indices are exact, these are all rows that are not deleted.
        """
        reader = open_together(self.sources)
        starts = starts_of(np.array([source.fragment.physical_rows for source in self.sources]))
        parts = zip(self._offsets(), starts.tolist(), strict=False)
        rows = BitMap.union(BitMap(), *(offsets.shift(first) for offsets, first in parts))
        needed = None if self.is_exact else predicate
        return Selection(reader, *select_known(reader, needed, rows, keep))

    def _offsets(self) -> list[BitMap]:
        return [self.rows.of(source.fragment.id) or BitMap() for source in self.sources]


def reading(
    snapshot: Snapshot,
    predicate: Predicate | None,
    schema: LanceSchema | None = None,
    *,
    indexed: bool = True,
    indexed_only: bool = False,
) -> Read:
    """Return the read plan of a filter: fragments by row id or address, and rows by indices.

    schema: the version's schema, or a view that shows blobs in another form.
    indexed: whether to query indices.
    indexed_only: whether to leave out rows that no index covers.
    """
    sources = sources_for(fragment_sources(snapshot, schema), predicate)
    lookup = _lookup(snapshot, predicate, indexed_only=indexed_only) if indexed else None
    return Read(sources, lookup=lookup)


def _lookup(
    snapshot: Snapshot, predicate: Predicate | None, *, indexed_only: bool
) -> IndexLookup | None:
    """Return the lookup in the indices of a filter's columns; ``None`` without indices."""
    if predicate is None or isinstance(predicate.expr, ArrowExpr) or not snapshot.indexed_fields:
        return None
    schema = snapshot.manifest.schema
    read = {find_field(schema, name)[-1].id for name in predicate.stored_in(schema)}
    if not read & snapshot.indexed_fields:
        return None
    from lancekit._scan.index_lookup import row_lookup  # loads the code of index queries

    return row_lookup(snapshot, predicate, indexed_only=indexed_only)


def select_known(
    reader: FragmentReader, predicate: Predicate | None, offsets: BitMap, keep: Collection[str] = ()
) -> tuple[Offsets | range, pa.Table | None]:
    """Return the live offsets that a filter selects among given ones; without a filter, all."""
    rows = to_offsets(offsets - reader.deleted).astype(np.int64)
    return (rows, None) if predicate is None else select_among(reader, predicate, rows, keep)


def projected(request: ScanRequest, wanted: Selection) -> pa.Table:
    """Return the outputs of selected rows."""
    return project(wanted.reader, request.outputs, wanted.rows, wanted.known)


# ---- joint projection of the rows that a filter selected
#
# A column takes as long to read for a thousand scattered rows as for a dozen, so the rows of
# several blocks are read together.

#: the result of a fragment: rows whose outputs are still to be read, or finished tables
Found: TypeAlias = "Selection | list[pa.Table]"


@dataclass(frozen=True, slots=True)
class Selection:
    """Ascending physical rows of a fragment, and their columns that are already read."""

    reader: FragmentReader
    rows: Offsets | range
    known: pa.Table | None

    def parts(self, most: int) -> Iterator[Selection]:
        """Yield the rows in parts of at most `most` rows."""
        for start in range(0, len(self.rows), most):
            known = None if self.known is None else self.known.slice(start, most)
            yield replace(self, rows=self.rows[start : start + most], known=known)


def projections(
    found: Iterator[Found], most: int, read: Callable[[Selection], pa.Table]
) -> Iterator[Callable[[], list[pa.Table]]]:
    """Yield functions that read the outputs of selected rows, in order.

    Rows selected in one fragment are read together, up to `most` rows. An error of ``found`` is
    raised by the last function, after the rows before it were read.
    """
    failed: list[LancekitError] = []

    def until_it_fails() -> Iterator[Found]:
        try:
            yield from found
        except LancekitError as error:
            failed.append(error)

    for item in _grouped(until_it_fails(), most):
        yield partial(_read, item, read)
    for error in failed:
        yield partial(_fail, error)


def _read(item: Found, read: Callable[[Selection], pa.Table]) -> list[pa.Table]:
    return [read(item)] if isinstance(item, Selection) else item


def _fail(error: LancekitError) -> list[pa.Table]:
    raise error


def _grouped(found: Iterable[Found], most: int) -> Iterator[Found]:
    """Join adjacent selections of one fragment, up to `most` rows."""
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
    return Selection(first.reader, _rows(selections), pa.concat_tables(known) if known else None)


def _rows(selections: list[Selection]) -> Offsets | range:
    rows = [one.rows for one in selections]
    begin, count = int(rows[0][0]), sum(map(len, rows))
    if all(isinstance(one, range) for one in rows) and int(rows[-1][-1]) - begin + 1 == count:
        return range(begin, begin + count)
    return np.concatenate([as_offsets(one) for one in rows])
