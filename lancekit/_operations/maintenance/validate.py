"""Look whether a version is whole: its manifest, its files, and if asked every value in them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancekit._file.columns.split_leaves import forbidden_nulls
from lancekit._pipeline.engine.engine import choose_runner
from lancekit._scan.fragment_rows import ScanRequest, scan_fragment
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError
from lancekit.options import options

__all__ = ["validate_fragment", "validate_version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A fragment to look at.  Can be sent to a worker."""

    source: FragmentSource
    deep: bool

    @property
    def num_rows(self) -> int | None:
        """The number of rows to decode, if any are."""
        return self.source.fragment.physical_rows if self.deep else None


def validate_version(snapshot: Snapshot, *, deep: bool) -> None:
    """Raise if something is wrong with a version.

    Parameters
    ----------
    deep
        Decode every value, and compare the checksums of files that have them; else only the
        manifest, and the frame of each file.

    Raises
    ------
    CorruptFileError
        Names the file, and the column and page where there is one.
    """
    manifest = snapshot.manifest
    times = Counter(fragment.id for fragment in manifest.fragments)
    if repeated := [id_ for id_, count in times.items() if count > 1]:
        raise CorruptFileError(
            f"Version {snapshot.version} lists fragment {repeated[0]} more than once.",
            version=snapshot.version,
            fragment=repeated[0],
        )
    tasks = [_Task(source=source, deep=deep) for source in fragment_sources(snapshot)]
    choose_runner(manifest.num_rows if deep else 0).map(_validate, tasks)


def validate_fragment(source: FragmentSource, *, deep: bool) -> None:
    """Raise ``CorruptFileError`` if something is wrong with a fragment's files."""
    _validate(_Task(source=source, deep=deep))


def _validate(task: _Task) -> None:
    with options(verify_checksums=True, cache_bytes=0):  # what is there, not what was
        reader = FragmentReader(task.source)
        _check_deletions(reader)
        for place in range(len(task.source.files)):
            _check_file(reader, place)
        if task.deep:
            for place in range(len(task.source.files)):
                reader.file(place).check_blobs()
            _check_sequences(reader)
            request = ScanRequest(outputs=plan_columns(task.source.schema, None))
            for rows in scan_fragment(task.source, request):
                _check_nulls(task.source, rows)


def _check_nulls(source: FragmentSource, rows: pa.Table) -> None:
    """Raise if there are nulls where the schema has none: no other reader takes such a file."""
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if nulls := forbidden_nulls(column, field):
            raise CorruptFileError(
                f"Column {field.name!r} of {source.where} takes no nulls, and holds {nulls}.",
                hint="Make it nullable, with alter_columns, or give these rows another value.",
                column=field.name,
                fragment=source.fragment.id,
            )


def _check_sequences(reader: FragmentReader) -> None:
    """Read the row ids and row versions, which may be columns of data files."""
    no_rows = np.empty(0, np.int64)
    for read in (reader.row_ids, reader.created_at, reader.last_updated_at):
        read(no_rows)


def _check_deletions(reader: FragmentReader) -> None:
    fragment = reader.source.fragment
    if len(reader.deleted) != fragment.num_deletions:
        raise CorruptFileError(
            f"{reader.source.deletion} marks {len(reader.deleted)} rows, but "
            f"{reader.source.where} says {fragment.num_deletions}.",
            fragment=fragment.id,
        )


def _check_file(reader: FragmentReader, place: int) -> None:
    location, file = reader.source.files[place], reader.source.fragment.files[place]
    opened = reader.file(place)  # its frame, schema and number of rows are checked
    _, size = location.store.tail(location.name, 1)
    if location.size is not None and size != location.size:
        raise CorruptFileError(
            f"{location} has {size} bytes, but {reader.source.where} says {location.size}.",
            file=str(location),
        )
    if opened.storage_version != file.storage_version:
        raise CorruptFileError(
            f"{location} is of format {opened.storage_version}, but {reader.source.where} says "
            f"{file.storage_version}.",
            file=str(location),
        )
    columns = opened.num_columns
    unsaid = len(file.column_indices) != len(file.fields) and not file.is_legacy
    outside = unsaid or max(file.columns.values(), default=0) >= columns
    if outside or min(file.column_indices, default=0) < 0:
        raise CorruptFileError(
            f"{location} has {columns} columns, and {reader.source.where} lists "
            f"{len(file.fields)} fields in columns {list(file.column_indices)}.",
            file=str(location),
        )
