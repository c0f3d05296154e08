"""New values for some rows of a fragment, in a file of these columns for all of its rows.

The rows stay where they are.  The fragment's older files no longer count for the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._format.deletions import to_bitmap
from lancekit._format.fragment import TOMBSTONE, Fragment
from lancekit._pipeline.columns.write import ColumnsTask, write_columns
from lancekit._pipeline.rows.write import WriteTask, delete_fragments
from lancekit._scan.fragments.source import FragmentSource
from lancekit._storage.base import Store
from lancekit.errors import LancekitError

__all__ = ["Patch", "Patched", "added_files", "all_patched", "superseded", "try_patch"]

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A fragment, and new values for some of its rows.  Can be sent to a worker.

    Attributes
    ----------
    offsets
        The rows, ascending.
    values
        One row for each of them; the columns are those of the schema of `write`.
    write
        How the file is written.
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
    write = patch.write
    task = ColumnsTask(
        source=patch.source,
        schema=write.schema,
        maker=_Patching(patch.offsets, patch.values),
        store=write.store,
        storage_version=write.storage_version,
        checksums=write.checksums,
        optimize_for=write.optimize_for,
    )
    try:
        written = write_columns(task)
    except LancekitError as error:
        return error
    ids = frozenset(field.id for field in write.schema.walk())
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
            ak.take(pa.chunked_array([*rows.column(name).chunks, *column.chunks]), taken)
            for name, column in zip(new.column_names, new.columns, strict=True)
        ]
