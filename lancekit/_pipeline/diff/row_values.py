"""The values of rows of two sides, by their addresses: read and compared, here or on Spark."""

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

#: rows from which on a thread has milliseconds to do
_THREADED_ROWS = 1 << 17
#: decoded bytes of the rows that are compared at a time
_HELD_BYTES = 64 << 20
#: numbers that are read before it is looked whether they ascend
_NUMBERS_ROWS = 1 << 18


def rows_at_a_time(columns: Sequence[ColumnPair]) -> int:
    """Return of how many rows the values of columns are held."""
    width = sum(value_bytes(pair.kind) for pair in columns)
    return max(_HELD_BYTES // max(width, 8), 1)


def row_digests(
    columns: Sequence[ColumnPair], side: Side, rows: Addresses, seeds: Seeds, *, new: bool
) -> Digests:
    """Return digests of columns of rows, by which both sides' can be compared."""
    step = rows_at_a_time(columns)
    parts = (rows[start : start + step] for start in range(0, len(rows), step))
    return Digests.joined(
        [digests(row_values(columns, side, part, new=new), seeds) for part in parts]
    )


def row_values(
    columns: Sequence[ColumnPair], side: Side, rows: Addresses, *, new: bool
) -> list[pa.Array]:
    """Return columns of rows, of the types that they have on the new side.

    Dictionaries have wider keys where those of their type do not suffice; `fitted` cuts them.
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
    """Return whole numbers of rows if each is greater than the one before it, and none is null."""
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
                f"Column {pair.name!r} was {values.type} and is {pair.kind}: Arrow cannot make the "
                "one of the other, so that nobody can tell which values differ.",
                hint="Name the other columns in `columns`.",
                column=pair.name,
            ) from error
    return joined(values.chunks, pair.kind)


def unlike(
    columns: Sequence[ColumnPair], sides: tuple[Side, Side], old: Addresses, new: Addresses
) -> npt.NDArray[np.bool_]:
    """Return which values of pairs of rows differ: a row for each column, in their order."""
    work = (
        partial(row_values, columns, sides[0], old, new=False),
        partial(row_values, columns, sides[1], new, new=True),
    )
    values = zip(*all_done(work, len(old)), strict=True)
    found = all_done([partial(differing, *both) for both in values], len(old))
    return np.stack(found) if found else np.zeros((0, len(old)), bool)


def all_done(work: Sequence[Callable[[], T]], rows: int) -> list[T]:
    """Return results in order; of many rows they are worked out in threads."""
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
    """Return rows with the word for what became of them, then columns, then dropped ones."""
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
    """The fragments that are looked at of a version, and which rows of them count.

    sources: fragments.
    predicate: what a row has to be to count; ``None`` for all that are not deleted.
    among: addresses: other rows do not count.
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
        """Return the fragments that some rows are in."""
        ids = np.unique(row_address.fragment_ids(addresses)).tolist()
        return tuple(self._readers[id_].source for id_ in ids)

    def rows(self, fragment_id: int) -> Offsets:
        """Return the offsets of the rows of a fragment that count, ascending."""
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
        """Read columns of some rows, at least one, in the order given.

        Hidden columns go by their names.
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
    """Return offsets as a range where they are one, which is read without a selection."""
    first, last = int(offsets[0]), int(offsets[-1])
    return range(first, last + 1) if last - first + 1 == len(offsets) else offsets


# ---- the values of rows, read and compared in this process or by tasks on Spark

Sources = tuple[FragmentSource, ...]

#: rows of a task on Spark, at most
_TASK_ROWS = 1 << 18


class Values:
    """The values of two sides.

    sides: what reads them here.
    step: rows that are held at a time.
    runner: what reads them elsewhere: one that runs here is not asked.
    """

    def __init__(self, sides: tuple[Side, Side], step: int, runner: Runner | None) -> None:
        self._sides = sides
        self._runner = None if runner is None or runner.name == "local" else runner
        self._step = step if self._runner is None else min(step, _TASK_ROWS)

    @property
    def are_here(self) -> bool:
        """Whether they are read in this process."""
        return self._runner is None

    def _parts(self, rows: int) -> list[slice]:
        return [slice(start, start + self._step) for start in range(0, rows, self._step)]

    def digests(
        self, columns: Sequence[ColumnPair], rows: Addresses, seeds: Seeds, *, new: bool
    ) -> Digests:
        """Return digests of columns of rows of a side."""
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
        """Yield which values of pairs of rows differ, and of which of them."""
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
    """A task: pairs of rows, and the fragments that they are in."""

    columns: tuple[ColumnPair, ...]
    sources: tuple[Sources, Sources]
    old: Addresses
    new: Addresses


def _compared(task: Comparison) -> npt.NDArray[np.bool_]:
    """Return what `unlike` does."""
    olds, news = (Side(sources, None) for sources in task.sources)
    return unlike(task.columns, (olds, news), task.old, task.new)


@dataclass(frozen=True, slots=True)
class Keys:
    """A task: rows of a side, of which digests are wanted."""

    columns: tuple[ColumnPair, ...]
    sources: Sources
    rows: Addresses
    seeds: Seeds
    new: bool


def _digested(task: Keys) -> Digests:
    """Return what `row_digests` does."""
    side = Side(task.sources, None)
    return row_digests(task.columns, side, task.rows, task.seeds, new=task.new)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """A task: rows of a side that became something."""

    schema: pa.Schema
    word: str
    columns: tuple[ColumnPair, ...]
    sources: Sources
    rows: Addresses
    new: bool


def read_changed(task: ChangedRows) -> pa.Table:
    """Return what `changed_rows` does."""
    side = Side(task.sources, None)
    return changed_rows(task.schema, task.word, task.columns, side, task.rows, new=task.new)


# ---- the rows of a version, by their addresses, as they are compared

#: the address of a row on a side that does not have it
NOWHERE = np.uint64((1 << 64) - 1)


def seen(snapshot: Snapshot) -> LanceSchema:
    """Return the columns of a version as they are compared: blobs as their bytes."""
    return blob_view(snapshot.manifest.schema, "all_binary")


def read_rows(snapshot: Snapshot, rows: Addresses, schema: LanceSchema | None = None) -> Side:
    """Return what reads some rows of a version, as they are compared or with another schema."""
    sources = fragment_sources(snapshot, seen(snapshot) if schema is None else schema)
    return Side((sources[place] for place in sources.with_addresses(rows).tolist()), None)
