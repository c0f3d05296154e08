"""Many keys of any type, looked up by the numbers that stand for them: without a hash table.

The keys lie in the order of their numbers.  A number that is found says where the key would be, and
the key itself whether it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.pipeline.keys.find_values import Found
from lancekit.pipeline.keys.hash import Hashes, comparable, hash_rows, known_rows
from lancekit.pipeline.keys.probe import KeyTable

__all__ = ["HashedKeys", "hashed_keys"]

#: below this Arrow's hash table is faster, and small enough
_LEAST_KEYS = 100_000
#: target rows that are looked up at a time
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class HashedKeys:
    """Keys, each once and none with a null, in the order of their numbers.

    Attributes
    ----------
    names
        The key columns.
    columns
        Their values, in the form of `comparable`.
    hashes
        The numbers, ascending, all different.
    seed
        With which they were made.
    first_rows
        The source row of each key.
    """

    names: tuple[str, ...]
    columns: tuple[pa.Array, ...]
    hashes: Hashes
    seed: int
    first_rows: npt.NDArray[np.integer]

    def find_rows(self, columns: Sequence[pa.ChunkedArray]) -> Found:
        """Return the places of rows whose key is known, ascending, and which keys they are."""
        places, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start, block in _blocks(columns):
            at, found = self._find(block)
            places.append(at + start)
            positions.append(found)
        return np.concatenate(places), np.concatenate(positions)

    def _find(self, block: Sequence[pa.Array]) -> Found:
        wanted = hash_rows(block, self.seed)
        order = np.argsort(wanted)  # then bisection goes through memory once
        ascending = wanted[order]
        at = np.minimum(np.searchsorted(self.hashes, ascending), len(self.hashes) - 1)
        hit = np.flatnonzero(self.hashes[at] == ascending)
        places, positions = order[hit], at[hit]
        again = np.argsort(places)
        places, positions = places[again], positions[again]
        same = np.ones(len(places), bool)
        rows, keys = pa.array(places), pa.array(positions)
        for here, known in zip(block, self.columns, strict=True):
            equal = pc.equal(ak.take(here, rows), ak.take(known, keys))
            same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
        return places[same], positions[same]


def _blocks(columns: Sequence[pa.ChunkedArray]) -> Iterator[tuple[int, list[pa.Array]]]:
    for start in range(0, len(columns[0]), _BLOCK):
        parts = [ak.combine_chunks(column.slice(start, _BLOCK)) for column in columns]
        yield start, [comparable(part) for part in parts]


def hashed_keys(table: KeyTable) -> HashedKeys | None:
    """Return keys, of which there is each one once, by their numbers; ``None`` if few."""
    if len(table.columns[0]) < _LEAST_KEYS:
        return None
    columns = [comparable(column) for column in table.columns]
    nulls = any(ak.null_count(column) for column in columns)
    rows = known_rows(columns) if nulls else None
    if rows is not None and not len(rows):
        return None
    for seed in count():
        hashes = hash_rows(columns, seed)
        hashes = hashes if rows is None else hashes[rows]
        order = np.argsort(hashes)
        hashes = hashes[order]
        if (hashes[1:] != hashes[:-1]).all():
            break
    rows = order if rows is None else rows[order]
    kept = tuple(ak.take(column, rows) for column in columns)
    small = np.int32 if len(columns[0]) < 1 << 31 else np.int64
    return HashedKeys(table.names, kept, hashes, seed, rows.astype(small))
