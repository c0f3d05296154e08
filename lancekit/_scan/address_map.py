"""Where the rows of an index's documents are now, and what is read of rows that a search chose."""

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
    """What tells where the rows that an index names are."""

    def moved(self, rows: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Return what rows are called now, and which of them are still there."""


@dataclass(frozen=True)
class AddressMap:
    """Finds rows by their ids in some fragments; `sources` are those that an index covers.

    `reuse` tells where rows went since the index was made, if that is still to be followed, or
    the addresses that rows of an external table have here.
    """

    sources: Sequence[FragmentSource]
    reuse: MovedRows | None = None

    def positions(self, row_ids: Numbers) -> Positions:
        """Return the positions of rows in the dataset, -1 for what is deleted or elsewhere."""
        if not self.sources:
            return np.full(len(row_ids), _ABSENT)
        if self.sources[0].stable_row_ids:
            return self._of_ids(row_ids)
        return self._of_addresses(self.ids(row_ids))

    def ids(self, row_ids: Numbers) -> Numbers:
        """Return what rows are called now; those that are gone, as no row here is."""
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
        for place, reader in self._with_deletions:
            mine = np.flatnonzero(known & (at == place))
            out[mine] = _live_positions(reader, offsets[mine])
        return out

    def _of_ids(self, row_ids: Numbers) -> Positions:
        # an updated row keeps its id and lies behind others: they need not come in order
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
        """The ids of the fragments, ascending, and of each the first row and how many it had."""
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
            (place, FragmentReader(source))
            for place, source in enumerate(self._ascending)
            if source.deletion is not None
        ]


def _live_positions(reader: FragmentReader, offsets: Positions) -> Positions:
    found = reader.row_positions(offsets).astype(np.int64)
    if reader.deleted:
        found[np.isin(offsets, to_offsets(reader.deleted))] = _ABSENT
    return found


# ---- what a scan asks for of rows that a search has chosen

#: makes of a filter one that asks more of rows; of ``None`` what asks no more than that
Narrowed: TypeAlias = Callable[[Predicate | None], Predicate]

#: the column of the rows' positions in the dataset
POSITION = "position"


def fulfilling(
    scan: Scan, positions: npt.NDArray[np.int64], predicate: Predicate
) -> npt.NDArray[np.bool_]:
    """Tell which rows of a scan's fragments fulfil a filter, whose columns are read of them."""
    sources = sorted(scan.sources, key=lambda source: source.first_row)
    names = sorted(predicate.columns)
    columns = [Output(column_field(sources[0].schema, name), path=name) for name in names]
    return flags_of(predicate.mask(rows_at(sources, columns, positions)))


def chosen_rows(scan: Scan, wanted: pa.Table, late: Predicate | None) -> Generator[pa.Table]:
    """Yield the outputs of a scan of some rows, in their order.

    wanted: where the rows are (`POSITION`), and what the search makes of them, by its columns'
        names.
    late: what is asked of the rows that were chosen.
    """
    made = [name for name in wanted.column_names if name != POSITION]
    names = set[str]().union(*(output.inputs for output in scan.request.outputs))
    names |= set() if late is None else late.columns
    names -= set(made)
    sources = sorted(scan.sources, key=lambda source: source.first_row)
    schema = sources[0].schema
    inputs = [Output(column_field(schema, name), path=name) for name in sorted(names)]
    step = block_rows(schema, replace(scan.request, outputs=tuple(inputs), predicate=None))
    for start in range(0, wanted.num_rows, step):
        found = wanted.slice(start, step)
        rows = rows_at(sources, inputs, found[POSITION].to_numpy())
        arrays = dict(zip([one.column for one in inputs], rows.columns, strict=True))
        arrays |= {name: found[name] for name in made}
        if late is not None:
            asked = {*late.columns, made[-1]}  # a constant has rows, too
            mask = late.mask(pa.table({name: arrays[name] for name in sorted(asked)}))
            kept = np.flatnonzero(flags_of(mask))
            arrays = {name: ak.take(array, kept) for name, array in arrays.items()}
        yield computed(scan.request.outputs, arrays, len(arrays[made[-1]]))
