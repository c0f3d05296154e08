"""Rows by position, id or address: lookup of their fragments, and of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._file.kernels.memory import ranges
from lancekit._format import row_address
from lancekit._format.column_names import RESERVED_NAMES
from lancekit._format.deletions import to_offsets
from lancekit._format.fragment import columns_of_files
from lancekit._format.paths import by_first, parse_path, pruned, top_of
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import shown
from lancekit._scan.fragment_rows import project
from lancekit._scan.fragments.blobs import BlobPlace
from lancekit._scan.fragments.joint_reader import open_together, together
from lancekit._scan.fragments.reader import FragmentReader, Offsets, rows_without_columns
from lancekit._scan.fragments.rebatch import no_rows, taken
from lancekit._scan.fragments.source import FragmentSource, FragmentSources
from lancekit._scan.fragments.split_fields import as_stored
from lancekit._scan.outputs import Output, column_names, plan_columns
from lancekit.errors import InvalidTypeError, RowNotFoundError, RowOutOfRangeError

#: most rows of fragments that are read together for a few rows
_MOST_ROWS = 1 << 31


def parse_positions(indices: object, num_rows: int) -> npt.NDArray[np.int64]:
    """Return row positions as an array; with the limit `_ALL`, row ids or addresses.

    Raises InvalidTypeError: they are not whole numbers.
    Raises RowOutOfRangeError: one is negative, or not below ``num_rows``.
    """
    try:
        values = np.asarray(indices)
    except ValueError:  # lists of different lengths, or too deep
        values = np.empty((1, 1))
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InvalidTypeError(
            f"Row positions must be a flat list of integers, got {shown(indices)}.",
            hint="Pass positions such as [0, 5, 7].",
        )
    if values.dtype.kind == "u":
        values = np.minimum(values, np.uint64(2**63 - 1))
    positions = values.astype(np.int64)
    outside = positions[(positions < 0) | (positions >= num_rows)]
    if len(outside) and num_rows == _ALL:
        raise RowOutOfRangeError(
            f"Row ids and addresses must be from 0 to {_ALL - 1}, got {outside[0]}.",
            row=int(outside[0]),
        )
    if len(outside):
        raise RowOutOfRangeError(
            f"Row {outside[0]} does not exist: the version has {num_rows} rows.",
            hint="Positions start at 0; negative positions do not count from the end.",
            row=int(outside[0]),
            num_rows=num_rows,
        )
    return positions


def take_rows(
    sources: Sequence[FragmentSource],
    ends: npt.NDArray[np.int64],
    columns: Sequence[str] | dict[str, str] | None,
    positions: npt.NDArray[np.int64],
    schema: LanceSchema,
) -> pa.Table:
    """Return the rows at ``positions``, in the given order; a repeated position repeats its row.

    Only the pages and blocks that hold these rows are read. A path such as ``s.x`` gives the column
    ``s`` with only ``x`` in it, as in the reference (a scan gives a column ``s.x``).

    ends: the position after the last row of each source.
    """
    if isinstance(columns, dict) or columns is None:
        outputs = plan_columns(schema, columns)
    else:
        names = column_names(columns)
        schema = _narrowed(schema, list(dict.fromkeys(names)), _holding(sources, ends, positions))
        outputs = plan_columns(schema, list(dict.fromkeys(map(top_of, names))))
        return _with_repeats(_take(sources, ends, outputs, positions, schema), names)
    return _take(sources, ends, outputs, positions, schema)


def rows_at(
    sources: Sequence[FragmentSource], outputs: Sequence[Output], positions: npt.NDArray[np.int64]
) -> pa.Table:
    """Return outputs of the rows at given positions in the dataset; `sources` must hold them all.

    sources: fragments in row order.
    """
    ends = np.array([source.first_row + source.num_rows for source in sources], np.int64)
    return _take(sources, ends, outputs, positions, sources[0].schema)


def _with_repeats(found: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Repeat hidden columns that were requested more than once, as the reference does."""
    names: list[str] = []
    for top in map(top_of, columns):
        if top not in names or top in RESERVED_NAMES:
            names.append(top)
    return found if len(names) == found.num_columns else found.select(names)


def _narrowed(
    schema: LanceSchema, paths: Sequence[str], sources: Sequence[FragmentSource]
) -> LanceSchema:
    """Return a schema whose columns hold only the parts that the paths name.

    A struct that a file packs stays whole.

    sources: the fragments to read.
    """
    below = by_first(map(parse_path, paths))

    def narrowed(field: LanceField) -> LanceField:
        if not any(below.get(field.name, ())):
            return field
        files = chain.from_iterable(columns_of_files(source.fragment) for source in sources)
        return pruned(as_stored(field, list(files)), below[field.name])

    return replace(schema, fields=tuple(map(narrowed, schema.fields)))


def _holding(
    sources: Sequence[FragmentSource], ends: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]
) -> list[FragmentSource]:
    """Return the fragments that hold the given positions."""
    owners = np.unique(np.searchsorted(ends, positions, side="right"))
    return [sources[at] for at in owners.tolist()]


def _take(
    sources: Sequence[FragmentSource],
    ends: npt.NDArray[np.int64],
    outputs: Sequence[Output],
    positions: npt.NDArray[np.int64],
    seen_as: LanceSchema,
) -> pa.Table:
    """Read outputs of rows by position, in the given order; ``seen_as`` is the schema to read."""
    schema = pa.schema([output.field for output in outputs])
    if not outputs:
        return rows_without_columns(len(positions))
    wanted, inverse = np.unique(positions, return_inverse=True)
    found_in = [replace(source, schema=seen_as) for source in _holding(sources, ends, wanted)]
    parts = []
    for group in together(found_in, _MOST_ROWS):
        last = group[-1].first_row + group[-1].fragment.num_rows
        mine = wanted[(wanted >= group[0].first_row) & (wanted < last)]
        reader = open_together(group)
        parts.append(project(reader, outputs, reader.offsets_at(mine)))
    if not parts:
        return no_rows(schema)
    found = pa.concat_tables(parts)
    if np.array_equal(inverse, np.arange(len(wanted))):
        return found
    return taken(found, inverse)


# ---- evenly spread runs of rows, for samples


def spread_runs(
    rng: np.random.Generator, total: int, rows: int, count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return starts and lengths of runs of rows: one at random in each of `count` equal parts.

    total, rows: the number of rows, and the number of rows in all runs together.
    """
    parts = np.linspace(0, total, count + 1).astype("i8")
    ends = np.linspace(0, rows, count + 1).astype("i8")
    lengths = np.minimum(np.diff(ends), np.diff(parts))
    return parts[:-1] + rng.integers(0, np.diff(parts) - lengths + 1), lengths


def rows_of_runs(
    starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the positions of all rows of runs.

    Examples
    --------
    >>> rows_of_runs(np.array([0, 10]), np.array([2, 3])).tolist()
    [0, 1, 10, 11, 12]
    """
    return ranges(starts, lengths)


# ---- lookup of rows by position, id or address

Numbers = npt.NDArray[np.uint64]

#: the limit for ids and addresses, in place of a number of rows
_ALL = 2**63 - 1

_ONE = {"ids": "id", "addresses": "address"}


@dataclass(frozen=True, slots=True)
class _Found:
    """The address of each requested row, and its position among all rows, -1 if not found."""

    addresses: Numbers
    positions: Offsets

    @property
    def missing(self) -> Offsets:
        return np.flatnonzero(self.positions < 0)


def row_addresses(sources: FragmentSources, kind: str, rows: object) -> Numbers:
    """Return the addresses of rows, in the order given.

    kind: how ``rows`` names the rows: ``"indices"``, ``"ids"`` or ``"addresses"``.

    Raises InvalidTypeError: they are not whole numbers.
    Raises RowOutOfRangeError: a position is out of range, or an id or address is negative.
    Raises RowNotFoundError: a row with one of the ids or addresses never existed, or was deleted.
    """
    total = int(sources.ends[-1]) if len(sources) else 0
    wanted = parse_positions(rows, total if kind == "indices" else _ALL)
    if kind == "indices":
        return _addresses_at(sources, wanted)
    requested, inverse = np.unique(wanted.astype(np.uint64), return_inverse=True)
    found = _find(sources, requested, stable=kind == "ids" and sources.stable_row_ids)
    if len(found.missing):
        raise _no_row(_ONE[kind], int(requested[found.missing[0]]), "been deleted")
    return found.addresses[inverse]


def row_positions(sources: FragmentSources, ids: object) -> Offsets:
    """Return the positions of the rows with given ids, in the order given.

    Deleted rows are left out, and with stable row ids also ids that no row has.

    Raises InvalidTypeError: they are not whole numbers.
    Raises RowOutOfRangeError: an id is negative.
    Raises RowNotFoundError: ids are addresses, and there never was a row at one.
    """
    wanted = parse_positions(ids, _ALL)
    requested, inverse = np.unique(wanted.astype(np.uint64), return_inverse=True)
    stable = sources.stable_row_ids
    found = _find(sources, requested, stable=stable)
    if not stable:
        _check_addresses(sources, requested[found.missing])
    positions = found.positions[inverse]
    return positions[positions >= 0]


def _find(sources: FragmentSources, requested: Numbers, *, stable: bool) -> _Found:
    """Look up ascending ids or addresses."""
    addresses = np.zeros(len(requested), np.uint64)
    positions = np.full(len(requested), -1)
    owners = sources.with_row_ids(requested) if stable else sources.with_addresses(requested)
    for owner in owners.tolist():
        reader = FragmentReader(sources[owner])
        offsets = _offsets(reader, requested, stable=stable)
        places = np.flatnonzero(offsets >= 0)
        if len(places) and reader.deleted:
            gone = np.isin(offsets[places], to_offsets(reader.deleted))
            places = places[~gone]
        addresses[places] = reader.addresses(offsets[places])
        positions[places] = reader.row_positions(offsets[places]).astype(np.int64)
    return _Found(addresses, positions)


def _offsets(reader: FragmentReader, requested: Numbers, *, stable: bool) -> Offsets:
    if stable and reader.stable_ids is not None:
        return reader.stable_ids.find(requested)
    offsets = row_address.offsets(requested).astype(np.int64)
    owners = row_address.fragment_ids(requested)
    inside = (owners == reader.source.fragment.id) & (offsets < reader.physical_rows)
    return np.where(inside, offsets, -1)


def _check_addresses(sources: FragmentSources, missing: Numbers) -> None:
    owners = map(sources.__getitem__, sources.with_addresses(missing).tolist())
    rows = {source.fragment.id: source.fragment.physical_rows for source in owners}
    for address in missing.tolist():
        id_, offset = row_address.parts(address)
        if offset >= rows.get(id_, 0):
            raise _no_row("address", address, "been in a removed fragment")


def _no_row(kind: str, row: int, perhaps: str) -> RowNotFoundError:
    return RowNotFoundError(
        f"There is no row with {kind} {row}.", hint=f"It may have {perhaps}.", row=row
    )


def _addresses_at(sources: FragmentSources, positions: Offsets) -> Numbers:
    owners = np.searchsorted(sources.ends, positions, side="right")
    out = np.empty(len(positions), np.uint64)
    for owner in np.unique(owners).tolist():
        reader = FragmentReader(sources[owner])
        mine = np.flatnonzero(owners == owner)
        rows = positions[mine] - reader.source.first_row
        out[mine] = reader.addresses(rows if reader.live is None else reader.live[rows])
    return out


def blob_places(
    sources: Sequence[FragmentSource], path: str, addresses: Numbers
) -> list[BlobPlace | None]:
    """Return the locations of rows' blobs, in the order given; ``None`` where they are null."""
    by_id = {source.fragment.id: source for source in sources}
    found: list[BlobPlace | None] = [None] * len(addresses)
    owners = row_address.fragment_ids(addresses).astype(np.int64)
    for owner in np.unique(owners).tolist():
        at = np.flatnonzero(owners == owner)
        offsets = row_address.offsets(addresses[at]).astype(np.int64)
        rows, inverse = np.unique(offsets, return_inverse=True)
        places = FragmentReader(by_id[owner]).find_blobs(path, rows)
        for place, row in zip(at.tolist(), inverse.tolist(), strict=True):
            found[place] = places[row]
    return found
