"""Key lookups in ranges of several fragments at once, with sorted or hashed keys.

For a lookup in many keys, each Arrow call first builds a hash table.  So the keys of small
fragments are read together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._pipeline.engine import MapTasks
from lancekit._pipeline.find_values import Found, Indices
from lancekit._pipeline.hashed_keys import Hashes, comparable, hash_rows, known_rows
from lancekit._pipeline.probe import KeyTable, Matches, probe
from lancekit._scan.fragments.reader import FragmentReader, as_offsets
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.read import Read
from lancekit.progress import step

# ---- many integer keys, looked up by bisection, to use the least memory
#
# A hash table of 10 million keys takes 1 GB while it is built, in each of several processes.
# Sorted keys take no further memory, and sorted values find them almost as fast.

_KINDS = {8: np.int64, 4: np.int32, 2: np.int16, 1: np.int8}


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """Distinct ascending keys of one column, and the source row of each.

    It has the lookup interface of `KeyTable`.
    """

    names: tuple[str, ...]
    values: npt.NDArray[np.int64]
    first_rows: npt.NDArray[np.integer]

    def find(
        self, place: int, values: pa.Array | pa.ChunkedArray, before: Indices | None = None
    ) -> Found:
        """Return the ascending positions of values that are keys, and the numbers of the keys."""
        if place or before is not None:
            raise ValueError("sorted keys have one column")
        places, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start, block in _key_blocks(values):
            at, found = self._find(block)
            places.append(at + start)
            positions.append(found)
        return np.concatenate(places), np.concatenate(positions)

    def _find(self, block: pa.Array) -> Found:
        wanted = _numbers(block)
        order = np.argsort(wanted)
        ascending = wanted[order]
        at = np.minimum(np.searchsorted(self.values, ascending), len(self.values) - 1)
        hit = self.values[at] == ascending
        if ak.null_count(block):
            hit &= block.is_valid().to_numpy(zero_copy_only=False)[order]
        places, positions = order[hit], at[hit]
        again = np.argsort(places)
        return places[again], positions[again]


def _key_blocks(values: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    before = 0
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        for start in range(0, len(chunk), _BLOCK):
            yield before + start, chunk.slice(start, _BLOCK)
        before += len(chunk)


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return integers as signed 64-bit numbers; unsigned ones keep their bits."""
    kind = _KINDS[values.type.bit_width // 8]
    data = values.buffers()[1]
    numbers = np.frombuffer(b"" if data is None else data, kind)
    numbers = numbers[values.offset : values.offset + len(values)]
    return numbers.astype(np.int64, copy=False)


def sorted_keys(table: KeyTable) -> SortedKeys | None:
    """Sort distinct keys; return ``None`` if sorting does not pay."""
    kind = table.columns[0].type
    whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind)
    if len(table.columns) > 1 or not whole or len(table.columns[0]) < _LEAST_KEYS:
        return None
    column = table.columns[0]
    small = np.int32 if len(column) < 1 << 31 else np.int64
    numbers, rows = _numbers(column), None
    if ak.null_count(column):
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(small)
        if not len(rows):
            return None
        numbers = numbers[rows]
    order: npt.NDArray[np.integer] = np.argsort(numbers).astype(small, copy=False)
    values = np.empty_like(numbers)
    for start in range(0, len(order), _BLOCK):  # block by block, since NumPy widens the indices
        part = slice(start, start + _BLOCK)
        values[part] = numbers[order[part]]
    return SortedKeys(table.names, values, order if rows is None else rows[order])


# ---- many keys of any type, looked up by their hashes, without a hash table
#
# The keys are stored in the order of their hashes.  A hash that is found gives the position of
# the key, which is then compared.

#: with fewer keys, Arrow's hash table is faster, and small enough
_LEAST_KEYS = 100_000
#: target rows that are looked up at the same time
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class HashedKeys:
    """Distinct keys without nulls, in the order of their hashes.

    names: the key columns.
    columns: their values, in the form of `comparable`.
    hashes: the hashes, ascending, all different.
    seed: the seed of the hashes.
    first_rows: the source row of each key.
    """

    names: tuple[str, ...]
    columns: tuple[pa.Array, ...]
    hashes: Hashes
    seed: int
    first_rows: npt.NDArray[np.integer]

    def find_rows(self, columns: Sequence[pa.ChunkedArray]) -> Found:
        """Return the ascending positions of rows whose key is known, and the keys' numbers."""
        places, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start, block in _blocks(columns):
            at, found = self._find(block)
            places.append(at + start)
            positions.append(found)
        return np.concatenate(places), np.concatenate(positions)

    def _find(self, block: Sequence[pa.Array]) -> Found:
        wanted = hash_rows(block, self.seed)
        order = np.argsort(wanted)  # so that bisection goes through memory once
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
    """Sort distinct keys by their hashes; return ``None`` if they are few."""
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


Range = tuple[FragmentSource, int, int]
Keys: TypeAlias = KeyTable | SortedKeys | HashedKeys

#: target rows whose keys are looked up at the same time
_ROWS = 4 << 20
#: the same in each of several threads of this process, to save memory
_FEW_ROWS = 1 << 17


def compact_keys(table: KeyTable) -> Keys:
    """Return distinct keys in the form that takes the least memory: sorted, hashed, or as given."""
    return sorted_keys(table) or hashed_keys(table) or table


@dataclass(frozen=True, slots=True)
class _Task:
    """A range of a fragment in which keys are looked up."""

    rows: Range
    keys: Keys

    @property
    def num_rows(self) -> int:
        _, start, stop = self.rows
        return stop - start


def probe_compactly(
    target: Sequence[FragmentSource], keys: Keys, map_tasks: MapTasks
) -> list[Matches]:
    """Run `probe` in threads of this process, with little memory beside the keys.

    target, keys: the fragments of the target, and the keys to find.
    map_tasks: a runner's ``map``.
    """
    if isinstance(keys, KeyTable):
        return probe(Read(target), keys, map_tasks)
    ranges = [
        (source, start, min(start + _FEW_ROWS, source.fragment.physical_rows))
        for source in target
        for start in range(0, source.fragment.physical_rows, _FEW_ROWS)
    ]
    found = map_tasks(_probe_range, [_Task(rows, keys) for rows in ranges])
    return [match for of_range in found for match in of_range]


def _probe_range(task: _Task) -> list[Matches]:
    found = [narrowed(match) for match in probe_ranges([task.rows], task.keys)]
    step(task.num_rows)
    return found


def narrowed(found: Matches) -> Matches:
    """Return matches in half the bytes, for storage; convert them back before arithmetic."""
    small = not len(found.source_rows) or found.source_rows.max() < 1 << 31
    source_rows = found.source_rows.astype(np.int32) if small else found.source_rows
    return Matches(
        fragment_id=found.fragment_id,
        offsets=cast(Indices, found.offsets.astype(np.uint32)),
        source_rows=cast(Indices, source_rows),
    )


def probe_ranges(ranges: Sequence[Range], keys: Keys) -> list[Matches]:
    """Find the live rows in ranges of fragments whose key is in the source, in order."""
    found: list[Matches] = []
    for group in _groups(ranges):
        found += _probe(group, keys)
    return found


def _groups(ranges: Iterable[Range]) -> Iterator[list[Range]]:
    """Split ranges into groups of at most `_ROWS` rows."""
    group: list[Range] = []
    left = _ROWS
    for source, start, stop in ranges:
        at = start
        while at < stop:
            until = min(stop, at + left)
            group.append((source, at, until))
            left -= until - at
            at = until
            if not left:
                yield group
                group, left = [], _ROWS
    if group:
        yield group


def _probe(group: Sequence[Range], keys: Keys) -> Iterator[Matches]:
    """Find the matches in ranges whose keys are looked up together."""
    readers = [FragmentReader(source) for source, _, _ in group]
    rows = [
        reader.live_between(start, stop)
        for reader, (_, start, stop) in zip(readers, group, strict=True)
    ]
    offsets = np.concatenate([as_offsets(part) for part in rows])
    owners = np.repeat(np.arange(len(group)), [len(part) for part in rows])
    if isinstance(keys, HashedKeys):
        places, codes = keys.find_rows([_together(readers, name, rows) for name in keys.names])
        offsets, owners = offsets[places], owners[places]
    else:
        first, *others = keys.names
        places, codes = keys.find(0, _together(readers, first, rows))
        offsets, owners = offsets[places], owners[places]
        for place, name in enumerate(others, start=1):
            parts = _by_owner(offsets, owners, len(group))
            places, codes = keys.find(place, _together(readers, name, parts), codes)
            offsets, owners = offsets[places], owners[places]
    found = zip(
        group,
        _by_owner(offsets, owners, len(group)),
        _by_owner(keys.first_rows[codes].astype(np.int64), owners, len(group)),
        strict=True,
    )
    for (source, _, _), at, source_rows in found:
        if len(at):
            id_ = source.fragment.id
            yield Matches(fragment_id=id_, offsets=at, source_rows=source_rows)


def _together(
    readers: Sequence[FragmentReader], name: str, rows: Sequence[Indices | range]
) -> pa.ChunkedArray:
    columns = [reader.read([name], at).column(0) for reader, at in zip(readers, rows, strict=True)]
    return pa.chunked_array([c for column in columns for c in column.chunks], columns[0].type)


def _by_owner(values: Indices, owners: Indices, count: int) -> list[Indices]:
    return np.split(values, np.searchsorted(owners, np.arange(1, count)))
