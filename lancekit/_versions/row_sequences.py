"""The row ids and row versions of a fragment, wherever they are stored.

See docs/format/table.md, 2.5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._file.columns.physical import FileColumn
from lancekit._file.reader import FileReader
from lancekit._format.external_sequences import column_sequences, external_sequence, lineage_column
from lancekit._format.fragment import LINEAGE_FIELDS, Fragment
from lancekit._format.row_ids_encode import encode_row_ids, encode_row_versions
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import FileLocation, Snapshot, missing_file
from lancekit.errors import CorruptFileError


def sequence_of(snapshot: Snapshot, fragment: Fragment, name: str) -> bytes | None:
    """Return a sequence of a fragment in a version, encoded as in a manifest.

    name: ``"row_ids"``, ``"created_at"`` or ``"last_updated_at"``.

    Raises CorruptFileError: the sequence is stored outside of the manifest, and cannot be read
        there.
    """

    def open_file(place: int) -> FileReader:
        location = snapshot.data_file(fragment.files[place])
        try:
            return snapshot.location.open_files.open(location.store, location.name, location.size)
        except FileNotFoundError as error:
            raise missing_file(location, snapshot.version) from error

    return read_sequence(
        fragment, name, open_file=open_file, location=snapshot.location, version=snapshot.version
    )


def read_sequence(
    fragment: Fragment,
    name: str,
    *,
    open_file: Callable[[int], FileReader],
    location: BranchLocation,
    version: int,
) -> bytes | None:
    """Return a sequence of a fragment, encoded as in a manifest; see `sequence_of`.

    open_file: opens one of the fragment's data files, by its position.
    location, version: the origin of the fragment.
    """
    encoded: bytes | None = getattr(fragment, name)
    if encoded is not None or not fragment.unknown:
        return encoded
    if name in column_sequences(fragment):
        place, column = lineage_column(fragment, name)
        return _from_column(open_file(place), column, fragment, name)
    part = external_sequence(fragment, name)
    if part is None:
        return None
    file = FileLocation(location.store, part.path)
    try:
        data = memoryview(file.store.read(part.path))
    except FileNotFoundError as error:
        raise missing_file(file, version) from error
    if part.offset + part.size > len(data):
        raise CorruptFileError(
            f"The {name} of fragment {fragment.id} of version {version} are beyond the end of "
            f"{file}.",
            file=str(file),
        )
    return bytes(data[part.offset : part.offset + part.size])


def _from_column(file: FileReader, column: int, fragment: Fragment, name: str) -> bytes:
    where = file.container.source.name
    if not column < file.num_columns or file.num_rows != fragment.physical_rows:
        raise CorruptFileError(
            f"{where} must have the {name} of the {fragment.physical_rows} rows of fragment "
            f"{fragment.id} in column {column}, but has {file.num_columns} columns of "
            f"{file.num_rows} rows.",
            file=where,
        )
    # the file may use other field ids, so the manifest's column number counts
    field = pa.field(str(LINEAGE_FIELDS[name]), pa.uint64())
    values = file.read([FileColumn(field, (column,))]).column(0)
    if ak.null_count(values):
        raise CorruptFileError(
            f"{where}, column {column}, has {ak.null_count(values)} nulls among the {name} of "
            f"fragment {fragment.id}.",
            file=where,
        )
    numbers = np.asarray(values.to_numpy(), np.uint64)
    return encode_row_ids(numbers) if name == "row_ids" else encode_row_versions(numbers)
