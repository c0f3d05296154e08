"""Rows by their position in the dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._format.column_names import RESERVED_NAMES
from lancekit._format.fragment import columns_of_files
from lancekit._format.paths import parse_path, pruned, top_of
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import shown
from lancekit._scan.fragment_rows import project
from lancekit._scan.fragments.joint_reader import open_together, together
from lancekit._scan.fragments.reader import rows_without_columns
from lancekit._scan.fragments.rebatch import no_rows, taken
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.fragments.split_fields import as_stored
from lancekit._scan.outputs import Output, column_names, plan_columns
from lancekit.errors import InvalidTypeError, RowOutOfRangeError

__all__ = ["parse_positions", "rows_at", "rows_of_runs", "spread_runs", "take_rows"]

#: rows of fragments that are read together, of which few are wanted
_MOST_ROWS = 1 << 31


def parse_positions(indices: object, num_rows: int) -> npt.NDArray[np.int64]:
    """Return row positions as an array.

    Raises
    ------
    InvalidTypeError
        They are not whole numbers.
    RowOutOfRangeError
        One is negative, or not below ``num_rows``.
    """
    try:
        values = np.asarray(indices)
    except ValueError:  # lists of different lengths, or too deep
        values = np.empty((1, 1))
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InvalidTypeError(
            f"Row positions must be a flat list of whole numbers, not {shown(indices)}.",
            hint="Pass positions such as [0, 5, 7].",
        )
    if values.dtype.kind == "u":
        values = np.minimum(values, np.uint64(2**63 - 1))
    positions = values.astype(np.int64)
    outside = positions[(positions < 0) | (positions >= num_rows)]
    if len(outside):
        raise RowOutOfRangeError(
            f"Row {outside[0]} does not exist: the version has {num_rows} rows.",
            hint="Positions start at 0; negative ones are not counted from the end.",
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
    """Return the rows at ``positions``, in that order, repeated ones repeated.

    Only the pages and blocks that hold them are read.  A path such as ``s.x`` gives the column
    ``s`` with nothing but ``x`` in it, as in the reference (a scan gives a column ``s.x``).

    Parameters
    ----------
    ends
        The position behind the last row of each source.
    """
    if isinstance(columns, dict) or columns is None:
        outputs = plan_columns(schema, columns)
    else:
        names = column_names(columns)
        schema = _narrowed(schema, list(dict.fromkeys(names)), _holding(sources, ends, positions))
        outputs = plan_columns(schema, list(dict.fromkeys(map(top_of, names))))
        found = _take(sources, ends, outputs, positions, schema)
        return _with_repeats(found, names)
    return _take(sources, ends, outputs, positions, schema)


def rows_at(
    sources: Sequence[FragmentSource], outputs: Sequence[Output], positions: npt.NDArray[np.int64]
) -> pa.Table:
    """Return outputs of the rows at positions in the dataset, which are in some of its fragments.

    Parameters
    ----------
    sources
        The fragments, in row order.
    """
    ends = np.array([source.first_row + source.num_rows for source in sources], np.int64)
    return _take(sources, ends, outputs, positions, sources[0].schema)


def _with_repeats(found: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Repeat what tells a row as often as it was asked for, as the reference does."""
    names: list[str] = []
    for top in map(top_of, columns):
        if top not in names or top in RESERVED_NAMES:
            names.append(top)
    return found if len(names) == found.num_columns else found.select(names)


def _narrowed(
    schema: LanceSchema, paths: Sequence[str], sources: Sequence[FragmentSource]
) -> LanceSchema:
    """Return a schema whose columns hold only what the paths lead to, unless a file packs them.

    ``sources`` are those that are read: a version may have very many more.
    """
    below: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        top, *rest = parse_path(path)
        below.setdefault(top, []).append(tuple(rest))

    def narrowed(field: LanceField) -> LanceField:
        if not any(below.get(field.name, ())):
            return field
        files = chain.from_iterable(columns_of_files(source.fragment) for source in sources)
        return pruned(as_stored(field, list(files)), below[field.name])

    return replace(schema, fields=tuple(map(narrowed, schema.fields)))


def _holding(
    sources: Sequence[FragmentSource],
    ends: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
) -> list[FragmentSource]:
    """Return the fragments that hold rows."""
    owners = np.unique(np.searchsorted(ends, positions, side="right"))
    return [sources[at] for at in owners.tolist()]


def _take(
    sources: Sequence[FragmentSource],
    ends: npt.NDArray[np.int64],
    outputs: Sequence[Output],
    positions: npt.NDArray[np.int64],
    seen_as: LanceSchema,
) -> pa.Table:
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


# ---- runs of rows that are spread evenly over a table: what a sample reads


def spread_runs(
    rng: np.random.Generator, total: int, rows: int, count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return starts and lengths of runs of rows: one at random in each of `count` equal parts.

    Parameters
    ----------
    total, rows
        How many rows there are, and how many the runs have together.
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
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows: npt.NDArray[np.int64] = np.repeat(starts, lengths) + within
    return rows
