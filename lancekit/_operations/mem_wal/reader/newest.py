"""Which row of a key is the newest one, of all that shards hold, and a filter that asks for it.

Rows of generations and logs are told by addresses, as rows of fragments are (`sources` gives them
ids that no fragment of the table has).  A row is the newest one of its key if the key leads to its
own address, or, in the table itself, if the key leads nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import booleans_of, numbers_of
from lancekit._format import row_address
from lancekit._format.column_names import ROW_ADDRESS
from lancekit._lazy import cached_property
from lancekit._pipeline.probe import KeyTable
from lancekit._scan.expressions.nodes import Apply, all_of, applied, walk
from lancekit._scan.expressions.predicate import Predicate

Addresses: TypeAlias = npt.NDArray[np.uint64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Offsets: TypeAlias = npt.NDArray[np.int64]

#: where a key leads whose newest row deletes it: no row has this address
NOWHERE = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """The keys of a source's rows, in the order in which they were written.

    columns: those of the primary key, in its order.
    deletes: which rows delete their keys.
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
        return self.addresses[self.keys.first_rows]

    @property
    def bytes_held(self) -> int:
        """What it takes in memory, with the tables that keys are looked up in."""
        keys = sum(column.nbytes for column in self.keys.columns)
        return 4 * keys + 2 * self.addresses.nbytes

    def find(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Offsets, Addresses]:
        """Return which of some keys lead anywhere, and where.

        columns: the key columns, in their order.
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

    names: of the key columns.
    parts: the keys of each source, the newest source first.
    fragment_ids: the id that the rows of each source are told by.
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


@dataclass(frozen=True, slots=True, eq=False)
class IsNewest:
    """Tells of rows, by their keys and addresses, whether they are the newest of their keys."""

    newest: Newest

    def __call__(self, *columns: pa.Array) -> pa.BooleanArray:
        """Tell it of rows: the columns of the key come first, their addresses last."""
        *keys, addresses = columns
        rows, own = self.newest.find(keys)
        mask = np.ones(len(addresses), bool)
        mask[rows] = numbers_of(addresses)[rows] == own
        return booleans_of(mask)

    @property
    def describe(self) -> str:
        """What it does, in words."""
        return (
            f"of the table and its shards each row is looked at whether it is the newest row of "
            f"its key: shards have {len(self.newest.addresses):,} rows that may be"
        )


def newest_only(newest: Newest, schema: pa.Schema, wanted: Predicate | None) -> Predicate:
    """Return the filter for the newest rows that another filter wants; ``None`` for all.

    schema: the table's, which has the key columns.
    """
    names = newest.keys.names
    keys = (schema.field(name) for name in names)
    test = applied(IsNewest(newest), (*keys, pa.field(ROW_ADDRESS, pa.uint64())))
    read = frozenset([*names, ROW_ADDRESS])
    if wanted is None:
        return Predicate(source="true", expr=test, schema=pa.schema([]), columns=read)
    return replace(wanted, expr=all_of(wanted.expr, test), columns=read | wanted.columns)


def newest_in(predicate: Predicate) -> IsNewest | None:
    """Return the test for newest rows that a filter has, if it has one."""
    tests = (part.function for part in walk(predicate.expr) if isinstance(part, Apply))
    return next((test for test in tests if isinstance(test, IsNewest)), None)
