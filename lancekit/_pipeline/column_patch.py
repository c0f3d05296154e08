"""New column values for some or all rows of a fragment, in additional data files.

The rows keep their positions.  The fragment's older files no longer store the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._format.deletions import to_bitmap
from lancekit._format.fragment import TOMBSTONE, Fragment
from lancekit._pipeline.source_keys import repeated_in_columns
from lancekit._pipeline.write_columns import Calls, ColumnsTask, Maker, write_columns
from lancekit._pipeline.write_rows import WriteTask, delete_fragments
from lancekit._scan.expressions.assignment import Assignment
from lancekit._scan.fragments.rebatch import fitted, taken_values
from lancekit._scan.fragments.source import FragmentSource
from lancekit._storage.base import Store
from lancekit.errors import LancekitError, SchemaMismatchError

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A fragment, and new values for some of its rows.  Can be sent to a worker.

    offsets: the offsets of the rows, ascending.
    values: one row for each offset; the columns match the schema of `write`.
    write: the settings of the new file.
    """

    source: FragmentSource
    offsets: Indices
    values: pa.Table
    write: WriteTask

    @property
    def num_rows(self) -> int:
        """The number of rows whose columns are written."""
        return self.source.fragment.num_rows


@dataclass(frozen=True, slots=True)
class Patched:
    """A fragment with a file of new values, and the offsets of the rows with new values."""

    fragment: Fragment
    rows: BitMap


def try_patch(patch: Patch) -> Patched | LancekitError:
    """Write the file of a patch; return an error, so that the caller can remove other files."""
    maker = _Patching(patch.offsets, patch.values)
    try:
        written = write_columns(ColumnsTask(source=patch.source, maker=maker, write=patch.write))
    except LancekitError as error:
        return error
    ids = frozenset(field.id for field in patch.write.schema.walk())
    return Patched(superseded(written, ids), to_bitmap(patch.offsets))


def all_patched(found: Sequence[Patched | LancekitError], store: Store) -> tuple[Patched, ...]:
    """Return the patches; if one fragment failed, remove the files of the others, and raise."""
    patched = tuple(part for part in found if isinstance(part, Patched))
    for part in found:
        if isinstance(part, LancekitError):
            delete_fragments(store, added_files(patched))
            raise part
    return patched


def added_files(patched: Iterable[Patched]) -> tuple[Fragment, ...]:
    """Return each fragment with only the file that was added."""
    return tuple(replace(part.fragment, files=part.fragment.files[-1:]) for part in patched)


def superseded(fragment: Fragment, ids: frozenset[int]) -> Fragment:
    """Mark field ids as tombstones in all files of a fragment but the last."""
    older = tuple(
        replace(file, fields=tuple(TOMBSTONE if id_ in ids else id_ for id_ in file.fields))
        for file in fragment.files[:-1]
    )
    return replace(fragment, files=(*older, fragment.files[-1]))


@dataclass(frozen=True, slots=True)
class _Patching:
    """A maker that reads the old columns, and replaces the values of some rows."""

    offsets: Indices
    values: pa.Table
    calls: None = None

    @property
    def columns(self) -> Sequence[str]:
        """The patched columns, and the row address."""
        return [*self.values.column_names, "_rowaddr"]

    def make(self, rows: pa.Table) -> Sequence[pa.ChunkedArray]:
        """Return the columns with the new values at their rows' positions."""
        here = row_address.offsets(rows.column("_rowaddr").to_numpy()).astype(np.int64)
        first, last = np.searchsorted(self.offsets, (here[0], here[-1] + 1))
        places = np.arange(rows.num_rows)
        places[np.searchsorted(here, self.offsets[first:last])] = (
            np.arange(last - first) + rows.num_rows
        )
        taken = pa.array(places)
        new = self.values.slice(first, last - first)
        return [
            taken_values(pa.chunked_array([*rows.column(name).chunks, *column.chunks]), taken)
            for name, column in zip(new.column_names, new.columns, strict=True)
        ]


# ---- makers of whole columns, for `write_columns`


@dataclass(frozen=True, slots=True)
class Assigned:
    """Columns of SQL expressions over the old rows, cast to the columns' types."""

    assignments: tuple[Assignment, ...]
    calls: None = None

    @property
    def columns(self) -> Sequence[str]:
        """The columns that the expressions read."""
        read = {name for a in self.assignments for name in a.expression.columns}
        return sorted(read) or ["_rowaddr"]

    def make(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """Evaluate the expressions."""
        return [fitted(a.evaluate(rows), a.field.type) for a in self.assignments]


@dataclass(frozen=True, slots=True)
class Filled:
    """A maker that wraps another one, and refuses nulls in columns that are not nullable."""

    maker: Maker
    schema: pa.Schema

    @property
    def columns(self) -> Sequence[str]:
        """The columns that the maker reads."""
        return self.maker.columns

    @property
    def calls(self) -> Calls | None:
        """The row limit and the thread count for calls of the maker."""
        return self.maker.calls

    def make(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """Make the columns; refuse nulls in a column that is not nullable."""
        made = self.maker.make(rows)
        for field, values in zip(self.schema, made, strict=True):
            if ak.null_count(values) and not field.nullable:
                raise SchemaMismatchError(
                    f"{ak.null_count(values)} of {len(values)} new values of column "
                    f"{field.name!r} are null, but it is not nullable.",
                    hint="Give these rows another value, or make the column nullable: "
                    f"alter_columns({{'path': {field.name!r}, 'nullable': True}}).",
                    column=field.name,
                )
        return made


# ---- new columns whose values arrive in the order of their rows' addresses


class Arriving:
    """A maker whose values arrive in batches, with their row addresses.

    Rows without a value get nulls.  Cannot be sent to a worker.

    batches: the values, with the row addresses in a last column, ascending over all batches.
    schema: the columns of the values.
    key: the dataset's column that rows were matched by; errors name its value.
    """

    calls = None

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, key: str) -> None:
        self.columns: Sequence[str] = list(dict.fromkeys([key, "_rowaddr"]))
        self._key = key
        self._schema = schema
        self._batches = batches
        self._next: pa.RecordBatch | None = None

    def address(self) -> int | None:
        """Return the address of the next value, or ``None`` after the last one."""
        while self._next is None or self._next.num_rows == 0:
            self._next = next(self._batches, None)
            if self._next is None:
                return None
        first: int = self._next.column(-1)[0].as_py()
        return first

    def make(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """Return the values for some rows, which must come in the order of their addresses."""
        wanted = rows.column("_rowaddr").to_numpy().astype(np.int64)
        parts = list(self._until(int(wanted[-1])))
        if not parts:
            return [pa.nulls(len(wanted), kind) for kind in self._schema.types]
        taken = pa.Table.from_batches(parts)
        addresses = taken.column(taken.num_columns - 1).to_numpy()
        found = np.minimum(np.searchsorted(addresses, wanted), len(addresses) - 1)
        repeated = np.flatnonzero(np.diff(addresses) == 0)
        if len(repeated):
            self._refuse(rows, int(np.searchsorted(wanted, addresses[repeated[0]])))
        places = pa.array(found, mask=addresses[found] != wanted)
        return [taken_values(taken.column(at), places) for at in range(len(self._schema))]

    def _until(self, last: int) -> Iterator[pa.RecordBatch]:
        while (first := self.address()) is not None and first <= last and self._next is not None:
            batch, addresses = self._next, self._next.column(-1).to_numpy()
            count = int(np.searchsorted(addresses, last, side="right"))
            yield batch.slice(0, count)
            self._next = batch.slice(count)

    def _refuse(self, rows: pa.Table, row: int) -> None:
        value = rows.column(self._key)[row].as_py()
        raise repeated_in_columns(self._key, value)
