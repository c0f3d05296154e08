"""Row values of two sides, read by row address and compared, in this process or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import numbers_of
from lancekit._file.kernels.bounds import value_bytes
from lancekit._format import row_address
from lancekit._format.schema import LanceSchema
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.parts import projected
from lancekit._pipeline.diff.values import Digests, Seeds, differing, digests
from lancekit._pipeline.engine import Runner
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import Workers, selected_rows
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit._scan.fragments.rebatch import fitted, joined, taken
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._scan.fragments.split_fields import nulls_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import UnsupportedFeatureError

T = TypeVar("T")

#: with fewer rows, the work of a thread would take less than some milliseconds
_THREADED_ROWS = 1 << 17
#: decoded bytes of the rows that are compared at the same time
_HELD_BYTES = 64 << 20
#: the most rows between two checks for a stop
_HELD_ROWS = 1 << 19
#: numbers that are read between two checks that they ascend
_NUMBERS_ROWS = 1 << 18


def rows_at_a_time(columns: Sequence[ColumnPair]) -> int:
    """Return how many rows of some columns are held in memory at the same time."""
    width = sum(value_bytes(pair.kind) for pair in columns)
    return max(min(_HELD_BYTES // max(width, 8), _HELD_ROWS), 1)


def row_digests(
    columns: Sequence[ColumnPair], side: Side, rows: Addresses, seeds: Seeds, *, new: bool
) -> Digests:
    """Return digests of some columns for rows of one side, to compare with the other side."""
    step = rows_at_a_time(columns)
    parts = (rows[start : start + step] for start in range(0, len(rows), step))
    return Digests.joined(
        [digests(row_values(columns, side, part, new=new), seeds) for part in parts]
    )


def row_values(
    columns: Sequence[ColumnPair], side: Side, rows: Addresses, *, new: bool
) -> list[pa.Array]:
    """Read columns of rows, in the types of the new side.

    Dictionaries get wider keys if the keys of their type do not suffice; `fitted` narrows them.
    """
    fields = (
        (pair.name, None if new and pair.is_lacked else pair.new if new else pair.old)
        for pair in columns
    )
    names = {name: field.name for name, field in fields if field is not None}
    table = side.read(list(names.values()), rows)
    return [
        _as_array(table[names[pair.name]], pair, new=new)
        if pair.name in names
        else nulls_of(pa.field(pair.name, pair.kind), len(rows))
        for pair in columns
    ]


def ascending_numbers(
    pair: ColumnPair, side: Side, rows: Addresses, *, new: bool
) -> npt.NDArray[np.generic] | None:
    """Return the integers of a column if they ascend strictly and none is null, else ``None``."""
    if pair.is_cast or not pa.types.is_integer(pair.kind):
        return None
    parts = list[npt.NDArray[np.generic]]()
    for start in range(0, len(rows), _NUMBERS_ROWS):
        (values,) = row_values([pair], side, rows[start : start + _NUMBERS_ROWS], new=new)
        if ak.null_count(values):
            return None
        numbers = numbers_of(values)
        follows = not parts or parts[-1][-1] < numbers[0]
        if not follows or not (numbers[1:] > numbers[:-1]).all():
            return None
        parts.append(numbers)
    return np.concatenate(parts) if parts else None


def _as_array(values: pa.ChunkedArray, pair: ColumnPair, *, new: bool) -> pa.Array:
    if values.type != pair.kind or pair.parts:
        kind, parts = pair.kind, pair.parts
        try:
            chunks = [projected(chunk, kind, parts, new=new) for chunk in values.chunks]
            values = pa.chunked_array(chunks, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnsupportedFeatureError(
                f"Column {pair.name!r} changed from {values.type} to {pair.kind}. Arrow cannot "
                "cast between these types, so the values cannot be compared.",
                hint="Pass the other columns in `columns`.",
                column=pair.name,
            ) from error
    return joined(values.chunks, pair.kind)


def unlike(
    columns: Sequence[ColumnPair], sides: tuple[Side, Side], old: Addresses, new: Addresses
) -> npt.NDArray[np.bool_]:
    """Return a mask of the differing values in pairs of rows, with a row for each column."""
    work = (
        partial(row_values, columns, sides[0], old, new=False),
        partial(row_values, columns, sides[1], new, new=True),
    )
    values = zip(*all_done(work, len(old)), strict=True)
    found = all_done([partial(differing, *both) for both in values], len(old))
    return np.stack(found) if found else np.zeros((0, len(old)), bool)


def all_done(work: Sequence[Callable[[], T]], rows: int) -> list[T]:
    """Call functions and return their results in order; use threads for many rows."""
    if rows < _THREADED_ROWS:
        return [do() for do in work]
    with Workers() as workers:
        return list(workers.results(work))


def changed_rows(
    schema: pa.Schema,
    word: str,
    columns: Sequence[ColumnPair],
    side: Side,
    rows: Addresses,
    *,
    new: bool,
) -> pa.Table:
    """Return rows with their kind of change, then the columns, then the dropped columns."""
    found = row_values(columns, side, rows, new=new)
    dropped = list(schema)[1 + len(columns) :]
    if new or not dropped:
        found += [nulls_of(field, len(rows)) for field in dropped]
    else:
        gone = side.read([field.name for field in dropped], rows)
        found += [joined(gone[field.name].chunks, field.type) for field in dropped]
    change = pa.array([word] * len(rows), pa.string())
    kinds = schema.types[1:]
    columns_found = [fitted(*column) for column in zip(found, kinds, strict=True)]
    return pa.table([change, *columns_found], schema=schema)


# ---- the rows of one side of a comparison, by their addresses

Addresses = npt.NDArray[np.uint64]


class Side:
    """The fragments and the rows of a version that are compared.

    sources: the fragments.
    predicate: the condition that rows must satisfy; ``None`` for all live rows.
    among: row addresses; other rows do not take part.
    """

    def __init__(
        self,
        sources: Iterable[FragmentSource],
        predicate: Predicate | None,
        among: Addresses | None = None,
    ) -> None:
        self._readers = {source.fragment.id: FragmentReader(source) for source in sources}
        self._predicate = predicate
        self._among = among
        self.rows_read = 0

    def sources(self, addresses: Addresses) -> tuple[FragmentSource, ...]:
        """Return the fragments that contain some rows."""
        ids = np.unique(row_address.fragment_ids(addresses)).tolist()
        return tuple(self._readers[id_].source for id_ in ids)

    def rows(self, fragment_id: int) -> Offsets:
        """Return the offsets of the rows of a fragment that take part, ascending."""
        found = self._selected(fragment_id)
        if self._among is None:
            return found
        mine = self._among[row_address.fragment_ids(self._among) == fragment_id]
        return np.intersect1d(found, row_address.offsets(mine).astype(np.int64))

    def _selected(self, fragment_id: int) -> Offsets:
        reader = self._readers[fragment_id]
        if self._predicate is None:
            return as_offsets(reader.live_between(0, reader.physical_rows))
        return selected_rows(reader, self._predicate)

    def read(self, columns: Sequence[str], addresses: Addresses) -> pa.Table:
        """Read columns of one or more rows, in the order of the addresses.

        Hidden columns are requested by their names.
        """
        if (addresses[1:] > addresses[:-1]).all():
            return self._ascending(columns, addresses)
        wanted, inverse = np.unique(addresses, return_inverse=True)
        return taken(self._ascending(columns, wanted), inverse)

    def _ascending(self, columns: Sequence[str], wanted: Addresses) -> pa.Table:
        self.rows_read += len(wanted)
        parts = [
            self._readers[id_].read(columns, _dense(offsets.astype(np.int64)))
            for id_, offsets in row_address.by_fragment(wanted)
        ]
        return pa.concat_tables(parts)


def _dense(offsets: Offsets) -> Offsets | range:
    """Return consecutive offsets as a range, which is read without a selection."""
    first, last = int(offsets[0]), int(offsets[-1])
    return range(first, last + 1) if last - first + 1 == len(offsets) else offsets


# ---- the values of rows, read and compared in this process or by tasks on Spark

Sources = tuple[FragmentSource, ...]

#: the most rows of a task on Spark
_TASK_ROWS = 1 << 18


class Values:
    """Access to the values of two sides, in this process or on Spark.

    sides: read the rows in this process.
    step: rows that are held in memory at the same time.
    runner: runs the tasks on Spark; a local runner is not used.
    """

    def __init__(self, sides: tuple[Side, Side], step: int, runner: Runner | None) -> None:
        self._sides = sides
        self._runner = None if runner is None or runner.name == "local" else runner
        self._step = step if self._runner is None else min(step, _TASK_ROWS)

    @property
    def are_local(self) -> bool:
        """True if the values are read in this process."""
        return self._runner is None

    def _parts(self, rows: int) -> list[slice]:
        return [slice(start, start + self._step) for start in range(0, rows, self._step)]

    def digests(
        self, columns: Sequence[ColumnPair], rows: Addresses, seeds: Seeds, *, new: bool
    ) -> Digests:
        """Return digests of some columns for rows of one side."""
        side = self._sides[new]
        if self._runner is None:
            return row_digests(columns, side, rows, seeds, new=new)
        tasks = [
            Keys(tuple(columns), side.sources(rows[part]), rows[part], seeds, new)
            for part in self._parts(len(rows))
        ]
        return Digests.joined(self._runner.map(_digested, tasks))

    def unlike(
        self, columns: Sequence[ColumnPair], old: Addresses, new: Addresses
    ) -> Iterator[tuple[slice, npt.NDArray[np.bool_]]]:
        """Yield slices of the pairs of rows, each with a mask of the values that differ."""
        parts = self._parts(len(old))
        if self._runner is None:
            for part in parts:
                yield part, unlike(columns, self._sides, old[part], new[part])
            return
        olds, news = self._sides
        tasks = [
            Comparison(
                tuple(columns),
                (olds.sources(old[part]), news.sources(new[part])),
                old[part],
                new[part],
            )
            for part in parts
        ]
        yield from zip(parts, self._runner.map(_compared, tasks), strict=True)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A task: pairs of rows to compare, and their fragments."""

    columns: tuple[ColumnPair, ...]
    sources: tuple[Sources, Sources]
    old: Addresses
    new: Addresses


def _compared(task: Comparison) -> npt.NDArray[np.bool_]:
    """Run `unlike` for a task."""
    olds, news = (Side(sources, None) for sources in task.sources)
    return unlike(task.columns, (olds, news), task.old, task.new)


@dataclass(frozen=True, slots=True)
class Keys:
    """A task: rows of one side to compute digests of."""

    columns: tuple[ColumnPair, ...]
    sources: Sources
    rows: Addresses
    seeds: Seeds
    new: bool


def _digested(task: Keys) -> Digests:
    """Run `row_digests` for a task."""
    side = Side(task.sources, None)
    return row_digests(task.columns, side, task.rows, task.seeds, new=task.new)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """A task: rows of one side with one kind of change."""

    schema: pa.Schema
    word: str
    columns: tuple[ColumnPair, ...]
    sources: Sources
    rows: Addresses
    new: bool


def read_changed(task: ChangedRows) -> pa.Table:
    """Run `changed_rows` for a task."""
    side = Side(task.sources, None)
    return changed_rows(task.schema, task.word, task.columns, side, task.rows, new=task.new)


# ---- the rows of a version, in the form in which they are compared

#: the address of a row on a side that does not have it
NOWHERE = np.uint64((1 << 64) - 1)


def seen(snapshot: Snapshot) -> LanceSchema:
    """Return the schema in which a version is compared: blobs as their bytes."""
    return blob_view(snapshot.manifest.schema, "all_binary")


def read_rows(snapshot: Snapshot, rows: Addresses, schema: LanceSchema | None = None) -> Side:
    """Return a `Side` with the fragments of some rows, in the compared form or another schema."""
    sources = fragment_sources(snapshot, seen(snapshot) if schema is None else schema)
    return Side((sources[place] for place in sources.with_addresses(rows).tolist()), None)
