"""What is wrong with an operation that somebody made by hand, found before anything is written.

The builders of manifests check what the newest version alone tells (ids, rows, formats); here are
the files and the schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lancekit.commit.snapshot import FileLocation, Snapshot
from lancekit.errors import InvalidArgumentError
from lancekit.file import FileReader
from lancekit.file.columns import owner_paths, owning_fields
from lancekit.format import operations as ops
from lancekit.format.fragment import DataFile, Fragment
from lancekit.format.schema import LanceSchema, column_not_found
from lancekit.pipeline.runner import LocalRunner

__all__ = ["check_operation", "described_file"]

Locate = Callable[[DataFile], FileLocation]


@dataclass(frozen=True, slots=True)
class _Brought:
    """The fragments and files of an operation.

    `changed` are fragments in their new state; `rows` says how many a replacing file must have.
    """

    new: tuple[Fragment, ...] = ()
    changed: tuple[Fragment, ...] = ()
    removed: tuple[int, ...] = ()
    schema: LanceSchema | None = None
    rows: tuple[tuple[DataFile, int], ...] = ()


def check_operation(
    operation: ops.Operation, read: Snapshot | None, locate: Locate | None = None
) -> None:
    """Raise if an operation does not fit the version that it was worked out from.

    Parameters
    ----------
    read
        That version; ``None`` for an overwrite that creates the dataset.
    locate
        Where a data file lies, if there is no version to say so.

    Raises
    ------
    InvalidArgumentError
        Names what is wrong: a file that is not there or is of another size, a field that is not
        in the schema, a column without values that may not be null, an id that is named twice or
        that no fragment has, a replacing file of another number of rows.
    """
    describe = _BROUGHT.get(type(operation))
    if describe is None:
        return
    brought = describe(operation, read)
    schema = brought.schema or (read.manifest.schema if read else LanceSchema(()))
    _check_ids(brought, read)
    files = [file for fragment in brought.new for file in fragment.files]
    files += [file for fragment in brought.changed for file in _new_files(fragment, read)]
    files += [file for file, _ in brought.rows]
    _check_distinct(files)
    for file in files:
        _check_fields(file, schema)
    for fragment in brought.new:
        _check_filled(fragment, schema)
    find = locate or (read.data_file if read else None)
    if find is not None:
        LocalRunner().map(_check_there, [(file, find(file)) for file in files])
        LocalRunner().map(_check_rows, [(find(file), rows) for file, rows in brought.rows])


def _fragments_of(operation: Any, _: Snapshot | None) -> _Brought:
    return _Brought(operation.fragments, schema=getattr(operation, "new_schema", None))


def _of_delete(operation: ops.Delete, _: Snapshot | None) -> _Brought:
    return _Brought(changed=operation.updated_fragments, removed=operation.deleted_fragment_ids)


def _of_update(operation: ops.Update, _: Snapshot | None) -> _Brought:
    return _Brought(
        operation.new_fragments, operation.updated_fragments, operation.removed_fragment_ids
    )


def _of_rewrite(operation: ops.Rewrite, _: Snapshot | None) -> _Brought:
    groups = operation.all_groups
    return _Brought(
        tuple(f for group in groups for f in group.new_fragments),
        removed=tuple(f.id for group in groups for f in group.old_fragments),
    )


def _of_merge(operation: ops.Merge, read: Snapshot | None) -> _Brought:
    known = set(read.manifest.fragments.ids.tolist()) if read else set()
    # an id of 0 is that of a new fragment too, once the first one has been listed
    seen: set[int] = set()
    old: list[Fragment] = []
    new: list[Fragment] = []
    for fragment in operation.fragments:
        (old if fragment.id in known - seen else new).append(fragment)
        seen.add(fragment.id)
    return _Brought(tuple(new), tuple(old), schema=operation.schema)


def _of_replacement(operation: ops.DataReplacement, read: Snapshot | None) -> _Brought:
    rows = []
    for group in operation.replacements:
        fragment = read.fragment(group.fragment_id) if read else None
        if fragment is None:
            raise _no_fragment(group.fragment_id, read)
        rows.append((group.new_file, fragment.physical_rows))
    return _Brought(rows=tuple(rows))


_BROUGHT: Mapping[type, Callable[[Any, Snapshot | None], _Brought]] = {
    ops.Append: _fragments_of,
    ops.Overwrite: _fragments_of,
    ops.Delete: _of_delete,
    ops.Update: _of_update,
    ops.Rewrite: _of_rewrite,
    ops.Merge: _of_merge,
    ops.DataReplacement: _of_replacement,
}


# ---- the checks


def _no_fragment(fragment_id: int, read: Snapshot | None) -> InvalidArgumentError:
    where = f"Version {read.version}" if read else "A new dataset"
    return InvalidArgumentError(
        f"{where} has no fragment {fragment_id}.",
        hint="Work the change out again, on the version that it names as read.",
        fragment=fragment_id,
    )


def _check_ids(brought: _Brought, read: Snapshot | None) -> None:
    named = [*(f.id for f in brought.changed), *brought.removed]
    if twice := [id_ for id_, times in Counter(named).items() if times > 1]:
        raise InvalidArgumentError(
            f"Fragment {twice[0]} is named twice.",
            hint="Name a fragment once: in its new state, or as removed.",
            fragment=twice[0],
        )
    known = set(read.manifest.fragments.ids.tolist()) if read and named else set()
    for id_ in named:
        if id_ not in known:
            raise _no_fragment(id_, read)


def _new_files(fragment: Fragment, read: Snapshot | None) -> list[DataFile]:
    """Return the files that the fragment did not have before."""
    before = read.fragment(fragment.id) if read else None
    known = {file.path for file in before.files} if before else set()
    return [file for file in fragment.files if file.path not in known]


def _check_distinct(files: Iterable[DataFile]) -> None:
    times = Counter((file.base_id, file.path) for file in files)
    if twice := [path for (_, path), count in times.items() if count > 1]:
        raise InvalidArgumentError(
            f"Data file {twice[0]} is brought twice: its rows would be there twice.",
            file=twice[0],
        )


def _check_fields(file: DataFile, schema: LanceSchema) -> None:
    known = {field.id for field in schema.walk()}
    if unknown := [id_ for id_ in file.fields if id_ >= 0 and id_ not in known]:
        raise InvalidArgumentError(
            f"Data file {file.path} stores field {unknown[0]}, which is not in the schema.",
            hint=f"The schema's fields have the ids {sorted(known)}.",
            file=file.path,
            fields=unknown,
        )
    if len(file.fields) != len(file.column_indices):
        raise InvalidArgumentError(
            f"Data file {file.path} lists {len(file.fields)} fields and "
            f"{len(file.column_indices)} column indices; each field needs one.",
            file=file.path,
        )


def _check_filled(fragment: Fragment, schema: LanceSchema) -> None:
    stored = {id_ for file in fragment.files for id_ in file.fields}
    for field in schema.fields:
        if not field.nullable and not stored & {part.id for part in field.walk()}:
            raise InvalidArgumentError(
                f"A fragment of {fragment.physical_rows} rows has no values for column "
                f"{field.name!r}, which cannot be null.",
                column=field.name,
            )


def _check_there(task: tuple[DataFile, FileLocation]) -> None:
    file, location = task
    try:
        _, size = location.store.tail(location.name, 1)
    except FileNotFoundError:
        raise InvalidArgumentError(
            f"Data file {location} does not exist.",
            hint="Write it into the dataset's folder before the commit.",
            file=str(location),
        ) from None
    if file.file_size_bytes is not None and size != file.file_size_bytes:
        raise InvalidArgumentError(
            f"Data file {location} has {size} bytes, not {file.file_size_bytes}.",
            file=str(location),
        )


def _check_rows(task: tuple[FileLocation, int]) -> None:
    location, rows = task
    found = FileReader.open(location.store.open(location.name, location.size)).num_rows
    if found != rows:
        raise InvalidArgumentError(
            f"Data file {location} has {found} rows, but the fragment that it is for has {rows}.",
            hint="Rows that were deleted count too: a replacing file has a value for each.",
            file=str(location),
        )


def described_file(read: Snapshot, path: str) -> tuple[DataFile, int]:
    """Return what a manifest says of a data file in the folder ``data``, and its rows.

    Raises
    ------
    InvalidArgumentError
        There is no such file.
    ColumnNotFoundError
        It stores a column that the dataset does not have.
    """
    unknown = DataFile(path, ())
    location = read.data_file(unknown)
    _check_there((unknown, location))
    _, size = location.store.tail(location.name, 1)
    reader = FileReader.open(location.store.open(location.name, size))
    version, schema = reader.version, read.manifest.schema
    owners = [owner.id for field in schema.fields for owner in owning_fields(field, version)]
    ids = dict(zip(owner_paths(schema, version), owners, strict=True))
    paths = owner_paths(reader.lance_schema, version)
    if lost := [name for name in paths if name not in ids]:
        raise column_not_found(lost[0], ids)
    file = DataFile(
        path, tuple(ids[name] for name in paths), tuple(range(len(paths))), *version, size
    )
    return file, reader.num_rows
