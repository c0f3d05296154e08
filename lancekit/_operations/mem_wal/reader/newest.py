"""Find the newest row of each key among the table and its shards, and filter by it.

Rows of generations and logs have row addresses, as rows of fragments do.  `sources` assigns them
fragment ids that no fragment of the table has, and `Newest` maps keys to addresses.  A row of a
shard is the newest of its key if the key maps to its address.  A row of the table is the newest if
its key is not mapped.
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

#: the address of a key whose newest row is a tombstone: no row has this address
NOWHERE = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """The keys of a source's rows, in write order.

    columns: the columns of the primary key, in key order.
    deletes: flags of the tombstones.
    """

    columns: tuple[pa.Array, ...]
    deletes: Flags

    @property
    def nbytes(self) -> int:
        """The memory of the keys."""
        return sum(column.nbytes for column in self.columns) + self.deletes.nbytes


@dataclass(frozen=True, eq=False)
class Newest:
    """A map from keys to the addresses of their newest rows; it can be sent to a worker.

    `addresses` has an address for each row of `keys`.  Only the address of a key's first row
    counts.
    """

    keys: KeyTable
    addresses: Addresses

    @cached_property
    def _by_code(self) -> Addresses:
        return self.addresses[self.keys.first_rows]

    @property
    def nbytes(self) -> int:
        """The memory of the map, including its lookup tables."""
        keys = sum(column.nbytes for column in self.keys.columns)
        return 4 * keys + 2 * self.addresses.nbytes

    def find(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Offsets, Addresses]:
        """Return the indices of the keys that are in the map, and their addresses.

        columns: the key columns, in key order.
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
    """Build the map from the keys of some sources to their newest rows.

    names: the names of the key columns.
    parts: the keys of each source, newest source first.
    fragment_ids: the fragment id of each source's addresses.
    """
    numbers = [np.arange(len(part.deletes), dtype=np.uint64) for part in parts]
    columns = tuple(
        ak.concat_arrays(
            [ak.take(part.columns[at], own[::-1]) for part, own in zip(parts, numbers, strict=True)]
        )
        for at in range(len(names))
    )
    addresses = [
        np.where(part.deletes, NOWHERE, row_address.addresses(id_, own))[::-1]
        for part, id_, own in zip(parts, fragment_ids, numbers, strict=True)
    ]
    return Newest(KeyTable(names, columns), np.concatenate(addresses))


@dataclass(frozen=True, slots=True, eq=False)
class IsNewest:
    """Tests rows, by keys and addresses, for being the newest row of their key."""

    newest: Newest

    def __call__(self, *columns: pa.Array) -> pa.BooleanArray:
        """Return a flag for each row, from the columns of the key and then the addresses."""
        *keys, addresses = columns
        rows, own = self.newest.find(keys)
        mask = np.ones(len(addresses), bool)
        mask[rows] = numbers_of(addresses)[rows] == own
        return booleans_of(mask)

    @property
    def describe(self) -> str:
        """A description of the test, for plans."""
        return (
            "every row of the table and its shards is checked for being the newest of its key: "
            f"shards have {len(self.newest.addresses):,} candidates"
        )


def newest_only(newest: Newest, schema: pa.Schema, wanted: Predicate | None) -> Predicate:
    """Return a filter that passes only the newest rows, and of these only the `wanted` ones.

    schema: the table's schema, which has the key columns.
    wanted: another filter, or ``None`` for all rows.
    """
    names = newest.keys.names
    keys = (schema.field(name) for name in names)
    test = applied(IsNewest(newest), (*keys, pa.field(ROW_ADDRESS, pa.uint64())))
    read = frozenset([*names, ROW_ADDRESS])
    if wanted is None:
        return Predicate(source="true", expr=test, schema=pa.schema([]), columns=read)
    return replace(wanted, expr=all_of(wanted.expr, test), columns=read | wanted.columns)


def newest_in(predicate: Predicate) -> IsNewest | None:
    """Return the test for newest rows within a filter; ``None`` if it has none."""
    tests = (part.function for part in walk(predicate.expr) if isinstance(part, Apply))
    return next((test for test in tests if isinstance(test, IsNewest)), None)
