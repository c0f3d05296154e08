"""New values of columns, for some rows of a fragment or for all, in files beside those it has.

The rows stay where they are.  The fragment's older files no longer count for the columns.
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

    offsets: the rows, ascending.
    values: one row for each of them; the columns are those of the schema of `write`.
    write: how the file is written.
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
    """A fragment with a file of new values, and the rows that have them."""

    fragment: Fragment
    rows: BitMap


def try_patch(patch: Patch) -> Patched | LancekitError:
    """Write the file of a patch; return what went wrong, for the others' files to be removed."""
    maker = _Patching(patch.offsets, patch.values)
    try:
        written = write_columns(ColumnsTask(source=patch.source, maker=maker, write=patch.write))
    except LancekitError as error:
        return error
    ids = frozenset(field.id for field in patch.write.schema.walk())
    return Patched(superseded(written, ids), to_bitmap(patch.offsets))


def all_patched(found: Sequence[Patched | LancekitError], store: Store) -> tuple[Patched, ...]:
    """Return what was patched; if one fragment failed, the files of the others are removed."""
    patched = tuple(part for part in found if isinstance(part, Patched))
    for part in found:
        if isinstance(part, LancekitError):
            delete_fragments(store, added_files(patched))
            raise part
    return patched


def added_files(patched: Iterable[Patched]) -> tuple[Fragment, ...]:
    """Return fragments of nothing but the files that were written."""
    return tuple(replace(part.fragment, files=part.fragment.files[-1:]) for part in patched)


def superseded(fragment: Fragment, ids: frozenset[int]) -> Fragment:
    """Take fields out of all files but the last."""
    older = tuple(
        replace(file, fields=tuple(TOMBSTONE if id_ in ids else id_ for id_ in file.fields))
        for file in fragment.files[:-1]
    )
    return replace(fragment, files=(*older, fragment.files[-1]))


@dataclass(frozen=True, slots=True)
class _Patching:
    """The old values of rows, but for those that get new ones."""

    offsets: Indices
    values: pa.Table
    calls: None = None

    @property
    def columns(self) -> Sequence[str]:
        """The columns that are patched, and where their rows are."""
        return [*self.values.column_names, "_rowaddr"]

    def make(self, rows: pa.Table) -> Sequence[pa.ChunkedArray]:
        """Put the new values in the old ones' places."""
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


# ---- new values of whole columns, for `pipeline.columns` to write


@dataclass(frozen=True, slots=True)
class Assigned:
    """Columns of SQL expressions over the rows as they were, in the columns' own types."""

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
    """Columns of another maker, where those that take no nulls have none."""

    maker: Maker
    schema: pa.Schema

    @property
    def columns(self) -> Sequence[str]:
        """The columns that the maker reads."""
        return self.maker.columns

    @property
    def calls(self) -> Calls | None:
        """How the maker is called."""
        return self.maker.calls

    def make(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """Make the columns, and look for nulls."""
        made = self.maker.make(rows)
        for field, values in zip(self.schema, made, strict=True):
            if ak.null_count(values) and not field.nullable:
                raise SchemaMismatchError(
                    f"{ak.null_count(values)} of {len(values)} new values of column {field.name!r} "
                    "are null, and it cannot be null.",
                    hint="Give these rows another value, or make the column nullable: "
                    f"alter_columns({{'path': {field.name!r}, 'nullable': True}}).",
                    column=field.name,
                )
        return made


# ---- new columns whose values arrive in the order of the rows that they belong to


class Arriving:
    """A maker of columns that takes its values from batches.  Stays in its process.

    A row for which none arrives gets nulls.

    batches: the values, and in a last column the addresses, ascending over all batches.
    schema: the values' columns.
    key: the dataset's column by which rows were matched, to name one that was matched twice.
    """

    calls = None

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, key: str) -> None:
        self.columns: Sequence[str] = list(dict.fromkeys([key, "_rowaddr"]))
        self._key = key
        self._schema = schema
        self._batches = batches
        self._next: pa.RecordBatch | None = None

    def address(self) -> int | None:
        """Return the address of the next value, ``None`` behind the last one."""
        while self._next is None or self._next.num_rows == 0:
            self._next = next(self._batches, None)
            if self._next is None:
                return None
        first: int = self._next.column(-1)[0].as_py()
        return first

    def make(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """Take the values of some rows, which come in the order of their addresses."""
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
