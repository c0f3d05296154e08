"""Validation of a version: its manifest and files, its sources, and optionally its values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancekit._file.columns.split_leaves import forbidden_nulls
from lancekit._format import names
from lancekit._format.operations import Clone
from lancekit._legible import plural, warn
from lancekit._pipeline.engine import LocalRunner, choose_runner
from lancekit._scan.fragment_rows import ScanRequest, scan_fragment
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import FileLocation, Snapshot, load_snapshot
from lancekit.errors import CorruptFileError, LancekitError, VersionNotFoundError
from lancekit.options import options


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A fragment to validate.  Can be sent to a worker."""

    source: FragmentSource
    deep: bool

    @property
    def num_rows(self) -> int | None:
        """The number of rows to decode; ``None`` if values are not read."""
        return self.source.fragment.physical_rows if self.deep else None


def validate_version(snapshot: Snapshot, *, deep: bool) -> None:
    """Raise if a version is damaged.

    deep: decode every value, and compare checksums in files that have them.  Otherwise check
        only the manifest, and the frame of each file.

    Raises CorruptFileError: a file is damaged.  The error names file, column and page.
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
    """Raise ``CorruptFileError`` if a fragment's files are damaged."""
    _validate(_Task(source=source, deep=deep))


def _validate(task: _Task) -> None:
    with options(verify_checksums=True, cache_bytes=0):  # read the stored bytes, not a cache
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
    """Raise if a column that is not nullable has nulls: other readers refuse such a file."""
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if nulls := forbidden_nulls(column, field):
            raise CorruptFileError(
                f"Column {field.name!r} of {source.where} is not nullable, but has {nulls}.",
                hint="Make it nullable with alter_columns, or give these rows another value.",
                column=field.name,
                fragment=source.fragment.id,
            )


def _check_sequences(reader: FragmentReader) -> None:
    """Check row ids and row versions, which may be in columns of data files, by reading them."""
    no_rows = np.empty(0, np.int64)
    for read in (reader.row_ids, reader.created_at, reader.last_updated_at):
        read(no_rows)


def _check_deletions(reader: FragmentReader) -> None:
    fragment = reader.source.fragment
    if len(reader.deleted) != fragment.num_deletions:
        raise CorruptFileError(
            f"{reader.source.deletion} marks {len(reader.deleted)} rows, but "
            f"{reader.source.where} records {fragment.num_deletions}.",
            fragment=fragment.id,
        )


def _check_file(reader: FragmentReader, place: int) -> None:
    location, file = reader.source.files[place], reader.source.fragment.files[place]
    opened = reader.file(place)  # opening checks frame, schema and number of rows
    _, size = location.store.tail(location.name, 1)
    if location.size is not None and size != location.size:
        raise CorruptFileError(
            f"{location} has {size} bytes, but {reader.source.where} records {location.size}.",
            file=str(location),
        )
    if opened.storage_version != file.storage_version:
        raise CorruptFileError(
            f"{location} has format {opened.storage_version}, but {reader.source.where} records "
            f"{file.storage_version}.",
            file=str(location),
        )
    columns = opened.num_columns
    mismatched = len(file.column_indices) != len(file.fields) and not file.is_legacy
    outside = mismatched or max(file.columns.values(), default=0) >= columns
    if outside or min(file.column_indices, default=0) < 0:
        raise CorruptFileError(
            f"{location} has {columns} columns, but {reader.source.where} lists "
            f"{len(file.fields)} fields in columns {list(file.column_indices)}.",
            file=str(location),
        )


# ---- the files that a version reads from other places

#: the maximal number of files to name for each place
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Needed:
    """A file in a base path that a version needs."""

    base_id: int
    location: FileLocation


def validate_sources(snapshot: Snapshot) -> None:
    """Raise if a file that a version reads from another place is missing, or has another size.

    Warn if the version that a clone was made from was cleaned up, although its files still exist:
    the next cleanup there may remove them.

    Raises CorruptFileError: files are missing or differ.  The error names places and some files.
    Raises UntrustedBaseError: a place is in a store that is not trusted.
    """
    needed = list(_needed(snapshot))
    found = LocalRunner().map(_fault, needed)
    faults: dict[int, list[str]] = {}
    for one, fault in zip(needed, found, strict=True):
        if fault:
            faults.setdefault(one.base_id, []).append(fault)
    if faults:
        raise _error(snapshot, faults)
    _warn_of_cleanup(snapshot, {snapshot.manifest.base_path(one.base_id).path for one in needed})


def _needed(snapshot: Snapshot) -> Iterator[_Needed]:
    for fragment in snapshot.manifest.fragments:
        for file in fragment.files:
            if file.base_id is not None:
                yield _Needed(file.base_id, snapshot.data_file(file))
        deletion, location = fragment.deletion_file, snapshot.deletion_file(fragment)
        if deletion is not None and deletion.base_id is not None and location is not None:
            yield _Needed(deletion.base_id, location)
    for index in snapshot.indices:
        if index.base_id is not None:
            store = snapshot.base_store(index.base_id)
            for part in index.files:
                name = f"{names.INDICES}/{index.uuid}/{part.path}"
                yield _Needed(index.base_id, FileLocation(store, name, part.size_bytes or None))


def _fault(needed: _Needed) -> str:
    """Return the problem of a file as a text; empty if it is whole."""
    location = needed.location
    try:
        _, size = location.store.tail(location.name, 1)
    except FileNotFoundError:
        return f"{location.name} is missing"
    if location.size is not None and size != location.size:
        return f"{location.name} has {size} bytes instead of {location.size}"
    return ""


def _error(snapshot: Snapshot, faults: dict[int, list[str]]) -> CorruptFileError:
    details = []
    for base_id, wrong in faults.items():
        more = f", and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        place = snapshot.manifest.base_path(base_id).path
        details.append(f"  {place}: {'; '.join(wrong[:_NAMED])}{more}")
    total = sum(map(len, faults.values()))
    return CorruptFileError(
        f"Version {snapshot.version} of {snapshot.location.uri} lacks {plural(total, 'file')} "
        "outside of the dataset:",
        details=[*details, ""],
        hint="Restore the files there. If other versions are complete, ds.deepen() copies the "
        "files that a version needs.",
        version=snapshot.version,
        bases=tuple(snapshot.manifest.base_path(base_id).path for base_id in faults),
        files=total,
    )


def _warn_of_cleanup(snapshot: Snapshot, used: Collection[str]) -> None:
    """Warn if a shallow clone reads files of a version that was cleaned up."""
    clone = _clone(snapshot) if used else None
    if clone is None or clone.ref_path not in used:
        return
    try:
        source = replace(
            snapshot.location, root=snapshot.location.base(clone.ref_path), branch=None
        )
        load_snapshot(source, clone.ref_version)
    except VersionNotFoundError:
        warn(
            f"Version {clone.ref_version} of {clone.ref_path}, the source of the clone "
            f"{snapshot.location.uri}, was cleaned up. Its files still exist, but the next "
            "cleanup may remove them. ds.deepen() copies them."
        )


def _clone(snapshot: Snapshot) -> Clone | None:
    """Return the operation that cloned the dataset, from its first version; ``None`` if unknown."""
    try:
        first = min(list_versions(snapshot.location).versions, default=None)
        done = None if first is None else load_snapshot(snapshot.location, first).transaction
    except LancekitError:
        return None
    operation = None if done is None else done.operation
    return operation if isinstance(operation, Clone) and operation.is_shallow else None
