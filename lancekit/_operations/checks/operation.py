"""Checks of an operation that a user built, before anything is written.

Manifest builders check an operation against the newest version.  This module checks its files, its
schema, and its rows against the version that it was computed from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lancekit._commit.rules.verdict import listed
from lancekit._file.columns.physical import owner_paths, owning_fields
from lancekit._format import operations as ops
from lancekit._format.column_names import column_not_found
from lancekit._format.fragment import DataFile, Fragment
from lancekit._format.schema import LanceSchema
from lancekit._operations.checks.files import (
    ExpectedFile,
    check_file,
    check_index_folders,
    check_indices,
    open_data_file,
)
from lancekit._operations.checks.rows import (
    check_change,
    check_changed,
    check_deletions,
    check_ids_left,
    check_moved,
    check_new_ids,
    check_row_ids,
    check_schema,
    check_unused_files,
)
from lancekit._pipeline.engine import LocalRunner
from lancekit._versions.snapshot import FileLocation, Snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError

Locate = Callable[[DataFile], FileLocation]


@dataclass(frozen=True, slots=True)
class _Contents:
    """Fragments, files and schema of an operation.

    changed: fragments in their new state.
    replacing: new files, each with the existing fragment that it is for.
    """

    new: tuple[Fragment, ...] = ()
    changed: tuple[Fragment, ...] = ()
    removed: tuple[int, ...] = ()
    schema: LanceSchema | None = None
    replacing: tuple[tuple[DataFile, Fragment], ...] = ()


def check_operation(
    operation: ops.Operation,
    read: Snapshot | None,
    locate: Locate | None = None,
    *,
    may_have_landed: bool = False,
) -> None:
    """Raise if an operation does not fit the version that it was computed from.

    Nulls in columns that are not nullable are not found, because values are not read.

    read: that version, ``None`` for an overwrite that creates the dataset.
    locate: returns a data file's location if there is no version.
    may_have_landed: the transaction was stored, so new rows whose files the table has already are
        refused.

    Raises InvalidArgumentError: the schema cannot read the rows, or lacks a field of a file.
    Raises InvalidArgumentError: a file is missing, or does not match its description.
    Raises InvalidArgumentError: a column that is not nullable has no values, or an index no files.
    Raises InvalidArgumentError: an id is repeated or unknown, or rows would be in the table twice.
    """
    for kind, check in _FURTHER_CHECKS.items():
        if isinstance(operation, kind) and read is not None:
            check(operation, read)
    describe = _CONTENTS.get(type(operation))
    if describe is None:
        return
    contents = describe(operation, read)
    schema = contents.schema or (read.manifest.schema if read else LanceSchema(()))
    if contents.schema is not None:
        check_schema(contents.schema)
    _check_ids(contents, read)
    added = _added_files(contents, read)
    _check_distinct(file for file, _, _ in added)
    for file, _, _ in added:
        _check_fields(file, schema)
    for fragment in contents.new:
        _check_filled(fragment, schema, known=())
    if isinstance(operation, ops.Merge) and read is not None:
        _check_merged(contents, schema, read)
    _check_fragments(operation, contents, schema, read)
    if read is not None and not isinstance(operation, ops.Overwrite):
        owned = [(None if f is None else f.id, file) for file, f, _ in added]
        # new operations may commit the same file again, as in the reference
        suspect = [(id_, file) for id_, file in owned if may_have_landed or id_ is not None]
        check_unused_files(suspect, contents.removed, read)
    find = locate or (read.data_file if read else None)
    if find is not None:
        tasks = [ExpectedFile(file, _found(find, file), schema, rows) for file, _, rows in added]
        LocalRunner().map(check_file, tasks)


def _fragments_of(operation: ops.Append | ops.Overwrite, _: Snapshot | None) -> _Contents:
    return _Contents(operation.fragments, schema=getattr(operation, "new_schema", None))


def _of_delete(operation: ops.Delete, _: Snapshot | None) -> _Contents:
    return _Contents(changed=operation.updated_fragments, removed=operation.deleted_fragment_ids)


def _of_update(operation: ops.Update, _: Snapshot | None) -> _Contents:
    return _Contents(
        operation.new_fragments, operation.updated_fragments, operation.removed_fragment_ids
    )


def _of_rewrite(operation: ops.Rewrite, _: Snapshot | None) -> _Contents:
    groups = operation.all_groups
    return _Contents(
        tuple(f for group in groups for f in group.new_fragments),
        removed=tuple(f.id for group in groups for f in group.old_fragments),
    )


def _of_merge(operation: ops.Merge, read: Snapshot | None) -> _Contents:
    known = set(read.manifest.fragments.ids.tolist()) if read else set()
    # id 0 also marks a new fragment, once fragment 0 has been listed
    seen: set[int] = set()
    old: list[Fragment] = []
    new: list[Fragment] = []
    for fragment in operation.fragments:
        (old if fragment.id in known - seen else new).append(fragment)
        seen.add(fragment.id)
    return _Contents(tuple(new), tuple(old), schema=operation.schema)


def _of_replacement(operation: ops.DataReplacement, read: Snapshot | None) -> _Contents:
    replacing = []
    for group in operation.replacements:
        fragment = read.fragment(group.fragment_id) if read else None
        if fragment is None:
            raise _no_fragment(group.fragment_id, read)
        replacing.append((group.new_file, fragment))
    return _Contents(replacing=tuple(replacing))


_CONTENTS: Mapping[type, Callable[[Any, Snapshot | None], _Contents]] = {
    ops.Append: _fragments_of,
    ops.Overwrite: _fragments_of,
    ops.Delete: _of_delete,
    ops.Update: _of_update,
    ops.Rewrite: _of_rewrite,
    ops.Merge: _of_merge,
    ops.DataReplacement: _of_replacement,
}


# ---- further checks by operation


def _check_project(operation: ops.Project, read: Snapshot) -> None:
    check_schema(operation.schema)
    old, has_rows = read.manifest.schema, bool(read.manifest.fragments)
    check_change(old, operation.schema, None, has_rows=has_rows)


def _check_rewrite(operation: ops.Rewrite, read: Snapshot) -> None:
    bases = {index.uuid: index.base_id for index in read.indices}
    new = [index.new_id for index in operation.rewritten_indices if index.new_id not in bases]
    check_index_folders([(uuid, None) for uuid in new], read)
    check_moved(operation.all_groups, read)


def _check_reserved(operation: ops.ReserveFragments, read: Snapshot) -> None:
    check_ids_left((read.manifest.max_fragment_id or 0) + operation.num_fragments)


def _check_update(operation: ops.Update, _: Snapshot) -> None:
    try:
        changed = operation.changed_offsets
    except CorruptFileError as error:
        raise InvalidArgumentError(
            f"Update.updated_fragment_offsets cannot be read: {error.message}"
        ) from error
    rows = {fragment.id: fragment.physical_rows for fragment in operation.updated_fragments}
    for id_, offsets in changed.items():
        if offsets and id_ in rows and offsets.max() >= rows[id_]:
            raise InvalidArgumentError(
                f"Update.updated_fragment_offsets contains row {offsets.max()} of fragment {id_}, "
                f"which has {rows[id_]} rows.",
                fragment=id_,
            )


_FURTHER_CHECKS: Mapping[type, Callable[[Any, Snapshot], None]] = {
    ops.Project: _check_project,
    ops.CreateIndex: lambda operation, read: check_indices(operation.new_indices, read),
    ops.Rewrite: _check_rewrite,
    ops.ReserveFragments: _check_reserved,
    ops.Update: _check_update,
}


# ---- the checks


def _no_fragment(fragment_id: int, read: Snapshot | None) -> InvalidArgumentError:
    where = f"Version {read.version}" if read else "A new dataset"
    return InvalidArgumentError(
        f"{where} has no fragment {fragment_id}.",
        hint="Compute the change again, on the version that it declares as read.",
        fragment=fragment_id,
    )


def _check_ids(contents: _Contents, read: Snapshot | None) -> None:
    named = [*(f.id for f in contents.changed), *contents.removed]
    if twice := [id_ for id_, times in Counter(named).items() if times > 1]:
        raise InvalidArgumentError(f"Fragment {twice[0]} is listed twice.", fragment=twice[0])
    known = set(read.manifest.fragments.ids.tolist()) if read and named else set()
    for id_ in named:
        if id_ not in known:
            raise _no_fragment(id_, read)


def _new_files(fragment: Fragment, read: Snapshot | None) -> list[DataFile]:
    """Return the fragment's files that are new, or whose columns differ from before."""
    before = read.fragment(fragment.id) if read else None
    known = {_file_key(file): _columns(file) for file in before.files} if before else {}
    # a file that stays may have fewer fields than before
    return [
        file
        for file in fragment.files
        if _file_key(file) not in known or not _columns(file) <= known[_file_key(file)]
    ]


def _file_key(file: DataFile) -> tuple[object, ...]:
    return file.base_id, file.path, file.version


def _columns(file: DataFile) -> frozenset[tuple[int, ...]]:
    given = zip(file.fields, file.column_indices, strict=False)
    pairs = file.columns.items() if file.is_legacy else given
    return frozenset(pair for pair in pairs if pair[0] >= 0)


def _added_files(
    contents: _Contents, read: Snapshot | None
) -> list[tuple[DataFile, Fragment | None, int]]:
    """Return the files to check, each with its existing fragment, if any, and number of rows."""
    new = [(file, None, f.physical_rows) for f in contents.new for file in f.files]
    changed = [(x, f, f.physical_rows) for f in contents.changed for x in _new_files(f, read)]
    return [*new, *changed, *((file, f, f.physical_rows) for file, f in contents.replacing)]


def _found(find: Locate, file: DataFile) -> FileLocation:
    try:
        return find(file)
    except CorruptFileError as error:
        raise InvalidArgumentError(
            f"Data file {file.path!r} cannot be located: {error.message}", file=file.path
        ) from error


def _check_fragments(
    operation: ops.Operation, contents: _Contents, schema: LanceSchema, read: Snapshot | None
) -> None:
    """Check an operation's fragments, deletion files and row ids against the read version."""
    replaces_all = isinstance(operation, ops.Overwrite)
    if read is not None and not replaces_all:
        check_new_ids(contents.new, contents.removed, read)
        check_changed(contents.changed, read, schema, same_files=isinstance(operation, ops.Delete))
        _check_deletions(contents, read)
    states = {fragment.id: fragment for fragment in contents.changed}
    check_row_ids(contents.new, states, contents.removed, read, replaces_all=replaces_all)


def _check_deletions(contents: _Contents, read: Snapshot) -> None:
    for fragment in contents.new:
        if fragment.deletion_file is not None and not fragment.id:
            raise InvalidArgumentError(
                "A new fragment cannot have a deletion file: it belongs to another fragment id.",
                hint="Write the remaining rows as a new fragment.",
            )
    before = {f.id: read.fragment(f.id) for f in contents.changed}
    for fragment in (*contents.new, *contents.changed):
        old = before.get(fragment.id)
        if fragment.deletion_file and (old is None or fragment.deletion_file != old.deletion_file):
            check_deletions(fragment, read)


def _check_merged(contents: _Contents, schema: LanceSchema, read: Snapshot) -> None:
    """Check the schema of a Merge operation against the read version's."""
    old = read.manifest.schema
    new_fields = [
        {id_ for file in _new_files(fragment, read) for id_ in file.fields}
        for fragment in contents.changed
    ]
    rewritten = frozenset.intersection(*map(frozenset, new_fields)) if new_fields else frozenset()
    check_change(old, schema, rewritten, has_rows=bool(new_fields))
    known = {field.id for field in old.walk()}
    for fragment in contents.changed:
        _check_filled(fragment, schema, known)


def _check_distinct(files: Iterable[DataFile]) -> None:
    times = Counter((file.base_id, file.path) for file in files)
    if twice := [path for (_, path), count in times.items() if count > 1]:
        raise InvalidArgumentError(
            f"Data file {twice[0]} is listed twice: its rows would be in the table twice.",
            file=twice[0],
        )


def _check_fields(file: DataFile, schema: LanceSchema) -> None:
    known = {field.id for field in schema.walk()}
    if unknown := [id_ for id_ in file.fields if id_ >= 0 and id_ not in known]:
        raise InvalidArgumentError(
            f"Data file {file.path} stores field {unknown[0]}, which is not in the schema.",
            hint=f"The field ids of the schema are {sorted(known)}.",
            file=file.path,
            fields=unknown,
        )
    times = Counter(id_ for id_ in file.fields if id_ >= 0)
    if twice := [id_ for id_, count in times.items() if count > 1]:
        raise InvalidArgumentError(
            f"Data file {file.path} lists field {twice[0]} twice.", file=file.path, fields=twice
        )
    if len(file.fields) != len(file.column_indices) and not file.is_legacy:
        raise InvalidArgumentError(
            f"Data file {file.path} lists {len(file.fields)} fields and "
            f"{len(file.column_indices)} column indices; each field needs one.",
            file=file.path,
        )


def _check_filled(fragment: Fragment, schema: LanceSchema, known: Container[int]) -> None:
    """Raise if a fragment lacks a column that is not nullable; fields in `known` may be missing."""
    stored = {id_ for file in fragment.files for id_ in file.fields}
    for field in schema.fields:
        required = not field.nullable and field.id not in known
        if required and not stored & {part.id for part in field.walk()}:
            raise InvalidArgumentError(
                f"A fragment of {fragment.physical_rows} rows has no values for column "
                f"{field.name!r}, which is not nullable.",
                column=field.name,
            )


def described_file(read: Snapshot, path: str, base_id: int | None = None) -> tuple[DataFile, int]:
    """Return the manifest entry of a data file in the folder ``data``, and its number of rows.

    Raises InvalidArgumentError: the file or the base path does not exist.
    Raises ColumnNotFoundError: the file stores a column that the dataset does not have.
    """
    known = [base.id for base in read.manifest.base_paths]
    if base_id is not None and base_id not in known:
        raise InvalidArgumentError(
            f"The version has no base path {base_id}.",
            hint=f"Its base paths are {listed(known) or 'none'}.",
            base_id=base_id,
        )
    reader, size = open_data_file(read.data_file(DataFile(path, (), base_id=base_id)))
    version, schema = reader.version, read.manifest.schema
    owners = [owner.id for field in schema.fields for owner in owning_fields(field, version)]
    ids = dict(zip(owner_paths(schema, version), owners, strict=True))
    paths = owner_paths(reader.stored_schema, version)
    if lost := [name for name in paths if name not in ids]:
        raise column_not_found(lost[0], ids)
    fields, columns = [ids[name] for name in paths], range(len(paths))
    file = DataFile(path, tuple(fields), tuple(columns), *version, size, base_id)
    return file, reader.num_rows
