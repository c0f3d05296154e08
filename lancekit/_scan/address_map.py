"""The current positions of rows that an index names, and the reads that fetch a search's result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of
from lancekit._format import row_address
from lancekit._format.deletions import to_offsets
from lancekit._lazy import cached_property
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import block_rows, computed
from lancekit._scan.fragments.reader import FragmentReader, column_field
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import Output
from lancekit._scan.scan import Scan
from lancekit._scan.take import rows_at

Numbers = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

_ABSENT = -1


class MovedRows(Protocol):
    """A mapping from the row addresses in an index to the current row addresses."""

    def moved(self, rows: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Return the current row addresses, and a mask of the rows that still exist."""


@dataclass(frozen=True)
class AddressMap:
    """Maps row ids or addresses in an index to row positions in the dataset.

    sources: the fragments that the index covers.
    reuse: maps the addresses in the index to current ones. It holds compactions since the index was
        written, or the addresses that rows of an external table have in this table.
    """

    sources: Sequence[FragmentSource]
    reuse: MovedRows | None = None

    def positions(self, row_ids: Numbers) -> Positions:
        """Return row positions in the dataset, -1 for deleted rows and uncovered fragments."""
        if not self.sources:
            return np.full(len(row_ids), _ABSENT)
        if self.sources[0].stable_row_ids:
            return self._of_ids(row_ids)
        return self._of_addresses(self.ids(row_ids))

    def ids(self, row_ids: Numbers) -> Numbers:
        """Return current row ids; a row that no longer exists gets an id that is in no fragment."""
        if self.reuse is None or not self.sources or self.sources[0].stable_row_ids:
            return row_ids
        return self.reuse.moved(row_ids)[0]

    def _of_addresses(self, addresses: Numbers) -> Positions:
        ids, firsts, rows = self._table
        owners = row_address.fragment_ids(addresses).astype(np.int64)
        offsets = row_address.offsets(addresses).astype(np.int64)
        at = np.minimum(np.searchsorted(ids, owners), len(ids) - 1)
        known = (ids[at] == owners) & (offsets < rows[at])
        out = np.where(known, firsts[at] + offsets, _ABSENT)
        for index, reader in self._with_deletions:
            mine = np.flatnonzero(known & (at == index))
            out[mine] = _live_positions(reader, offsets[mine])
        return out

    def _of_ids(self, row_ids: Numbers) -> Positions:
        # an updated row keeps its id but moves behind others, so ids need not ascend
        order = np.argsort(row_ids, kind="stable")
        ascending, out = row_ids[order], np.full(len(row_ids), _ABSENT)
        for reader in self._readers:
            known = reader.stable_ids
            if known is not None:
                offsets = known.find(ascending)
                mine = np.flatnonzero(offsets >= 0)
                out[order[mine]] = _live_positions(reader, offsets[mine])
        return out

    @cached_property
    def _readers(self) -> list[FragmentReader]:
        return [FragmentReader(source) for source in self.sources]

    @cached_property
    def _table(self) -> tuple[Positions, Positions, Positions]:
        """The fragment ids, ascending, with the first position and physical row count of each."""
        return tuple(  # type: ignore[return-value]
            np.array(numbers, np.int64)
            for numbers in zip(
                *(
                    (source.fragment.id, source.first_row, source.fragment.physical_rows)
                    for source in self._ascending
                ),
                strict=True,
            )
        )

    @cached_property
    def _ascending(self) -> list[FragmentSource]:
        return sorted(self.sources, key=lambda source: source.fragment.id)

    @cached_property
    def _with_deletions(self) -> list[tuple[int, FragmentReader]]:
        return [
            (index, FragmentReader(source))
            for index, source in enumerate(self._ascending)
            if source.deletion is not None
        ]


def _live_positions(reader: FragmentReader, offsets: Positions) -> Positions:
    found = reader.row_positions(offsets).astype(np.int64)
    if reader.deleted:
        found[np.isin(offsets, to_offsets(reader.deleted))] = _ABSENT
    return found


# ---- fetching the columns of rows that a search found

#: adds a condition to a filter; for ``None``, returns the condition alone
Narrowed: TypeAlias = Callable[[Predicate | None], Predicate]

#: the column of row positions in the dataset
POSITION = "position"


def matching_rows(
    scan: Scan, positions: npt.NDArray[np.int64], predicate: Predicate
) -> npt.NDArray[np.bool_]:
    """Return a mask of the positions whose rows match a filter; only its columns are read."""
    sources = sorted(scan.sources, key=lambda source: source.first_row)
    names = sorted(predicate.columns)
    columns = [Output(column_field(sources[0].schema, name), path=name) for name in names]
    return flags_of(predicate.mask(rows_at(sources, columns, positions)))


def fetch_rows(scan: Scan, hits: pa.Table, late: Predicate | None) -> Generator[pa.Table]:
    """Yield the outputs of a scan for given rows, in their order.

    hits: row positions (`POSITION`), and the columns that the search computed, by name.
    late: a filter that is applied to these rows after the search.
    """
    made = [name for name in hits.column_names if name != POSITION]
    names = set[str]().union(*(output.inputs for output in scan.request.outputs))
    names |= set() if late is None else late.columns
    names -= set(made)
    sources = sorted(scan.sources, key=lambda source: source.first_row)
    schema = sources[0].schema
    inputs = [Output(column_field(schema, name), path=name) for name in sorted(names)]
    step = block_rows(schema, replace(scan.request, outputs=tuple(inputs), predicate=None))
    for start in range(0, hits.num_rows, step):
        found = hits.slice(start, step)
        rows = rows_at(sources, inputs, found[POSITION].to_numpy())
        arrays = dict(zip([one.column for one in inputs], rows.columns, strict=True))
        arrays |= {name: found[name] for name in made}
        if late is not None:
            filtered = {*late.columns, made[-1]}  # a filter without columns still needs a row count
            mask = late.mask(pa.table({name: arrays[name] for name in sorted(filtered)}))
            kept = np.flatnonzero(flags_of(mask))
            arrays = {name: ak.take(array, kept) for name, array in arrays.items()}
        yield computed(scan.request.outputs, arrays, len(arrays[made[-1]]))
