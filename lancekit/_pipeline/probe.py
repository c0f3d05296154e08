"""Key matching: finds the rows of a fragment with a key of the source, and their source rows.

Keys are compared column by column.  The source values of each column form a dictionary, in which
the target's values are looked up.  The remaining pairs of codes are looked up among the source's
pairs.  So equality is Arrow's, and a null equals nothing.  Columns after the first are read only
for the remaining candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import arrow_of
from lancekit._format.deletions import to_offsets
from lancekit._lazy import cached_property
from lancekit._pipeline.engine import MapTasks
from lancekit._pipeline.find_values import NOWHERE, Found, Indices, Lookup, numbered
from lancekit._scan.fragments.joint_reader import open_together, rows_together, together
from lancekit._scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.read import Read
from lancekit.progress import step


@dataclass(frozen=True)
class KeyTable:
    """The keys of a source, prepared for lookups.  Can be sent to a worker.

    `columns` are the key columns, of equal length and in the dataset's types.
    """

    names: tuple[str, ...]
    columns: tuple[pa.Array, ...]

    def __reduce__(self) -> tuple[object, ...]:
        return KeyTable, (self.names, self.columns)  # rebuilding the tables is faster than sending

    @cached_property
    def _levels(self) -> tuple[tuple[_Level, ...], Indices]:
        """One level per key column, and the code of the whole key of each source row."""
        levels: list[_Level] = []
        codes = np.empty(0, np.int64)
        for given in self.columns:
            values, own = numbered(cast("pa.Array", _comparable(given)))
            if not levels:
                levels.append(_Level(values))
                codes = own
                continue
            missing = (codes == NOWHERE) | (own == NOWHERE)
            # renumbered, so that the codes of any number of columns fit into 64 bits
            pairs, codes = numbered(arrow_of(codes * len(values) + own, missing))
            levels.append(_Level(values, pairs))
        return tuple(levels), codes

    @property
    def codes(self) -> Indices:
        """The number of each source row's key, equal for equal keys; -1 if a part is null."""
        return self._levels[1]

    def find(
        self, place: int, values: pa.Array | pa.ChunkedArray, before: Indices | None = None
    ) -> Found:
        """Return the ascending positions of values that continue a known key, and their codes.

        ``before`` has the code of the previous key parts for each value; none may be -1.
        """
        return self._levels[0][place].find(_comparable(values), before)

    def extend(self, codes: Indices, place: int, values: pa.Array | pa.ChunkedArray) -> Indices:
        """Return the codes of key parts up to ``place``, from the codes of the parts before it."""
        known = np.flatnonzero(codes != NOWHERE)
        if len(known) < len(codes):
            values = ak.take(values, known)
        places, found = self.find(place, values, codes[known])
        out = np.full(len(codes), NOWHERE)
        out[known[places]] = found
        return out

    @cached_property
    def first_rows(self) -> Indices:
        """The first source row of each code."""
        valid = np.flatnonzero(self.codes != NOWHERE)[::-1]
        codes = self.codes[valid]
        first = np.empty(int(codes.max()) + 1 if len(codes) else 0, np.int64)
        # in descending order, so that the last assignment, which wins, is the first row
        first[codes] = valid
        return first

    def repeated(self) -> Indices:
        """Return the source rows whose key has no null and occurs more than once."""
        valid = np.flatnonzero(self.codes != NOWHERE)
        codes = self.codes[valid]
        return valid[np.bincount(codes)[codes] > 1]


@dataclass(frozen=True, slots=True)
class _Level:
    """The distinct values of a key column, and the known pairs of a prefix and a value."""

    values: Lookup
    pairs: Lookup | None = None

    def find(self, values: pa.Array | pa.ChunkedArray, before: Indices | None) -> Found:
        places, codes = self.values.find(values)
        if self.pairs is None or before is None:
            return places, codes
        followed, codes = self.pairs.find(arrow_of(before[places] * len(self.values) + codes))
        return places[followed], codes


def _comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Widen half floats and decode dictionaries, in which Arrow cannot look up values."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _comparable(values.cast(kind.value_type))
    return values.cast(pa.float32()) if pa.types.is_float16(kind) else values


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTask:
    """A task: rows of the target to read together, and the keys to find in them."""

    read: Read
    keys: KeyTable

    @property
    def num_rows(self) -> int:
        """The number of rows to read, deleted rows included."""
        if not self.read.is_of_all_rows:
            return self.read.num_rows
        return sum(source.fragment.physical_rows for source in self.read.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The rows of a fragment with a key of the source, ascending, and their source rows."""

    fragment_id: int
    offsets: Indices
    source_rows: Indices

    def part(self, chosen: Indices | slice) -> Matches:
        """Return some of the matches."""
        return Matches(
            fragment_id=self.fragment_id,
            offsets=self.offsets[chosen],
            source_rows=self.source_rows[chosen],
        )


def first_matches(matches: Sequence[Matches]) -> list[Matches]:
    """Return only the first match of each source row."""
    rows = np.concatenate([np.empty(0, np.int64), *(m.source_rows for m in matches)])
    first = np.zeros(len(rows), bool)
    first[np.unique(rows, return_index=True)[1]] = True
    ends = np.cumsum([len(m.offsets) for m in matches])
    return [
        m.part(np.flatnonzero(first[end - len(m.offsets) : end]))
        for m, end in zip(matches, ends, strict=True)
    ]


def probe(read: Read, keys: KeyTable, map_tasks: MapTasks) -> list[Matches]:
    """Find the live rows of the target whose key is in the source, by fragment.

    Small fragments are read together, because opening a fragment takes longer than scanning 1,000
    rows.

    read: the rows of the target that may have one of the keys.
    keys: the keys to find.
    map_tasks: a runner's ``map``.
    """
    tasks: list[ProbeTask] = []
    for part in read.parts():
        pieces: Iterable[Read] = [part]
        if part.is_of_all_rows:
            pieces = map(Read, together(part.sources, rows_together(part.sources)))
        tasks += [ProbeTask(read=piece, keys=keys) for piece in pieces]
    return [matches for of_group in map_tasks(probe_fragments, tasks) for matches in of_group]


def probe_fragments(task: ProbeTask) -> list[Matches]:
    """Find the live rows of a task's fragments whose key is in the source."""
    return list(_found(task.keys, task.read))


def _found(keys: KeyTable, read: Read) -> Iterator[Matches]:
    if read.is_of_all_rows:
        return _matches(open_together(read.sources), keys)
    found = read.select(None)
    return _matches(found.reader, keys, as_offsets(found.rows))


def _matches(
    reader: FragmentReader, keys: KeyTable, among: Offsets | None = None
) -> Iterator[Matches]:
    """Yield the matches of each of a reader's fragments, perhaps only ``among`` some rows."""
    first, *others = keys.names
    everything = range(reader.physical_rows) if among is None else among
    rows, codes = keys.find(0, reader.read([first], everything).column(0))
    if among is not None:
        rows = among[rows]
    elif reader.deleted:
        # deleted rows are looked up, too: skipping a few would cost more
        live = np.ones(reader.physical_rows, bool)
        live[to_offsets(reader.deleted)] = False
        rows, codes = rows[live[rows]], codes[live[rows]]
    for place, name in enumerate(others, start=1):
        found, codes = keys.find(place, reader.read([name], rows).column(0), codes)
        rows = rows[found]
    source_rows = keys.first_rows[codes]
    step(len(everything))
    for part, offsets in reader.split(rows):
        mine, source_rows = source_rows[: len(offsets)], source_rows[len(offsets) :]
        yield Matches(fragment_id=part.source.fragment.id, offsets=offsets, source_rows=mine)


#: the most keys in an error message
_SHOWN_KEYS = 10


def key_values(table: pa.Table, on: tuple[str, ...], rows: Indices) -> list[tuple[object, ...]]:
    """Return the distinct keys of the first few rows, for a message."""
    sample = taken(table.select(list(on)), rows[: 2 * _SHOWN_KEYS]).to_pylist()
    keys = [tuple(map(_one_nan, row.values())) for row in sample]
    return list(dict.fromkeys(keys))[:_SHOWN_KEYS]


def _one_nan(value: object) -> object:
    """Return one object for every NaN, so that all NaNs are one key."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def show_keys(on: tuple[str, ...], keys: list[tuple[object, ...]]) -> str:
    """Format keys for a message."""
    return "; ".join(
        ", ".join(f"{name} = {value}" for name, value in zip(on, key, strict=True)) for key in keys
    )
