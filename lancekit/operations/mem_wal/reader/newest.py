"""Which row of a key is the newest one, of all that shards hold, and a filter that asks for it.

Rows of generations and logs are told by addresses, as rows of fragments are (`sources` gives them
ids that no fragment of the table has).  A row is the newest one of its key if the key leads to its
own address, or, in the table itself, if the key leads nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.arrow_values import booleans_of, flags_of, numbers_of
from lancekit.format import row_address
from lancekit.lazy import cached_property
from lancekit.pipeline.keys.probe import KeyTable
from lancekit.scan.expressions.predicate import Predicate, every_row

__all__ = ["KeyRows", "Newest", "NewestOnly", "newest_of"]

Addresses: TypeAlias = npt.NDArray[np.uint64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Offsets: TypeAlias = npt.NDArray[np.int64]

#: where a key leads whose newest row deletes it: no row has this address
NOWHERE = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """The keys of a source's rows, in the order in which they were written.

    Attributes
    ----------
    columns
        Those of the primary key, in its order.
    deletes
        Which rows delete their keys.
    """

    columns: tuple[pa.Array, ...]
    deletes: Flags

    @property
    def bytes_held(self) -> int:
        """What they take in memory."""
        return sum(column.nbytes for column in self.columns) + self.deletes.nbytes


@dataclass(frozen=True, eq=False)
class Newest:
    """Where keys lead.  Can be sent to a worker.

    `addresses` has that of the row that is the newest of its key, for each row of `keys`; only
    those of the first row of a key count.
    """

    keys: KeyTable
    addresses: Addresses

    @cached_property
    def _by_code(self) -> Addresses:
        found: Addresses = self.addresses[self.keys.first_rows]
        return found

    @property
    def bytes_held(self) -> int:
        """What it takes in memory, with the tables that keys are looked up in."""
        keys = sum(column.nbytes for column in self.keys.columns)
        return 4 * keys + 2 * self.addresses.nbytes

    def find(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Offsets, Addresses]:
        """Return which of some keys lead anywhere, and where.

        Parameters
        ----------
        columns
            The key columns, in their order.
        """
        first, *others = columns
        rows, codes = self.keys.find(0, first)
        for place, column in enumerate(others, start=1):
            found, codes = self.keys.find(place, ak.take(column, rows), codes)
            rows = rows[found]
        return rows, self._by_code[codes]


def newest_of(
    names: tuple[str, ...], parts: Sequence[KeyRows], fragment_ids: Sequence[int]
) -> Newest:
    """Return where the keys of some sources lead.

    Parameters
    ----------
    names
        Of the key columns.
    parts
        The keys of each source, the newest source first.
    fragment_ids
        The id that the rows of each source are told by.
    """
    columns = tuple(
        ak.concat_arrays([_backwards(part.columns[place]) for part in parts])
        for place in range(len(names))
    )
    addresses = [
        np.where(part.deletes, NOWHERE, row_address.addresses(id_, _numbers(part)))[::-1]
        for part, id_ in zip(parts, fragment_ids, strict=True)
    ]
    return Newest(KeyTable(names, columns), np.concatenate(addresses))


def _numbers(part: KeyRows) -> Addresses:
    return np.arange(len(part.deletes), dtype=np.uint64)


def _backwards(values: pa.Array) -> pa.Array:
    return ak.take(values, np.arange(len(values))[::-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestOnly(Predicate):
    """A filter for the newest row of each key, of which another filter may ask more.

    It reads the key and the address of rows, besides what the other filter reads.
    """

    newest: Newest
    wanted: Predicate | None = None

    @classmethod
    def among(cls, newest: Newest, wanted: Predicate | None) -> NewestOnly:
        """Return the filter for the newest rows that another filter wants; ``None`` for all."""
        read = frozenset([*newest.keys.names, "_rowaddr"])
        if wanted is None:
            return cls(
                source="true", expr=every_row(), schema=pa.schema([]), columns=read, newest=newest
            )
        return cls(
            source=wanted.source,
            expr=wanted.expr,
            schema=wanted.schema,
            columns=read | wanted.columns,
            newest=newest,
            wanted=wanted,
        )

    @property
    def told(self) -> str:
        """What it does, in words."""
        return (
            f"of the table and its shards each row is looked at whether it is the newest row of "
            f"its key: shards have {len(self.newest.addresses):,} rows that may be"
        )

    def mask(self, data: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """Tell for each row whether it is wanted, and the newest one of its key."""
        rows, addresses = self.newest.find([data.column(name) for name in self.newest.keys.names])
        own = _addresses(data.column("_rowaddr"))
        mask = np.ones(data.num_rows, bool)
        mask[rows] = own[rows] == addresses
        if self.wanted is not None:
            mask &= flags_of(self.wanted.mask(data))
        return booleans_of(mask)


def _addresses(column: pa.Array | pa.ChunkedArray) -> Addresses:
    return numbers_of(ak.combine_chunks(column) if isinstance(column, pa.ChunkedArray) else column)
