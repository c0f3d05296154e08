"""What is wrong with an operation that somebody made by hand, found before anything is written.

The builders of manifests check what the newest version alone tells; here are the files, the
schema, and what the rows were in the version that the operation was worked out from.
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
    BroughtFile,
    check_file,
    check_index_folders,
    check_indices,
    open_brought,
)
from lancekit._operations.checks.rows import (
    check_change,
    check_changed,
    check_deletions,
    check_ids_left,
    check_moved,
    check_new_ids,
    check_not_there,
    check_row_ids,
    check_schema,
)
from lancekit._pipeline.engine import LocalRunner
from lancekit._versions.snapshot import FileLocation, Snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError

Locate = Callable[[DataFile], FileLocation]


@dataclass(frozen=True, slots=True)
class _Brought:
    """The fragments and files of an operation.

    `changed` are fragments in their new state; `replacing` are files for fragments that there are.
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
    """Raise if an operation does not fit the version that it was worked out from.

    Whether a column that cannot be null has nulls is not looked up: that would take its values.

    read: that version; ``None`` for an overwrite that creates the dataset.
    locate: where a data file lies, if there is no version to say so.
    may_have_landed: whether it is part of a transaction that somebody kept: new rows whose files
        the table has already are refused then.

    Raises InvalidArgumentError: names what is wrong: a schema that rows could not be read by, a
        file that is not there or not what is said of it, a field that is not in the schema, a
        column without values that may not be null, an id that is named twice or that no fragment
        has, rows that would be there twice, an index without files.
    """
    for kind, check in _OTHERWISE.items():
        if isinstance(operation, kind) and read is not None:
            check(operation, read)
    describe = _BROUGHT.get(type(operation))
    if describe is None:
        return
    brought = describe(operation, read)
    schema = brought.schema or (read.manifest.schema if read else LanceSchema(()))
    if brought.schema is not None:
        check_schema(brought.schema)
    _check_ids(brought, read)
    added = _added_files(brought, read)
    _check_distinct(file for file, _, _ in added)
    for file, _, _ in added:
        _check_fields(file, schema)
    for fragment in brought.new:
        _check_filled(fragment, schema, known=())
    if isinstance(operation, ops.Merge) and read is not None:
        _check_merged(brought, schema, read)
    _check_fragments(operation, brought, schema, read)
    if read is not None and not isinstance(operation, ops.Overwrite):
        owned = [(None if f is None else f.id, file) for file, f, _ in added]
        # the same file may be committed under new operations, as the reference lets it be
        suspect = [(id_, file) for id_, file in owned if may_have_landed or id_ is not None]
        check_not_there(suspect, brought.removed, read)
    find = locate or (read.data_file if read else None)
    if find is not None:
        tasks = [BroughtFile(file, _found(find, file), schema, rows) for file, _, rows in added]
        LocalRunner().map(check_file, tasks)


def _fragments_of(operation: ops.Append | ops.Overwrite, _: Snapshot | None) -> _Brought:
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
    replacing = []
    for group in operation.replacements:
        fragment = read.fragment(group.fragment_id) if read else None
        if fragment is None:
            raise _no_fragment(group.fragment_id, read)
        replacing.append((group.new_file, fragment))
    return _Brought(replacing=tuple(replacing))


_BROUGHT: Mapping[type, Callable[[Any, Snapshot | None], _Brought]] = {
    ops.Append: _fragments_of,
    ops.Overwrite: _fragments_of,
    ops.Delete: _of_delete,
    ops.Update: _of_update,
    ops.Rewrite: _of_rewrite,
    ops.Merge: _of_merge,
    ops.DataReplacement: _of_replacement,
}


# ---- operations that bring no rows


def _check_project(operation: ops.Project, read: Snapshot) -> None:
    check_schema(operation.schema)
    old, has_rows = read.manifest.schema, bool(read.manifest.fragments)
    check_change(old, operation.schema, None, has_rows=has_rows)


def _check_create_index(operation: ops.CreateIndex, read: Snapshot) -> None:
    check_indices(operation.new_indices, read)


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
                f"Update.updated_fragment_offsets names row {offsets.max()} of fragment {id_}, "
                f"which has {rows[id_]} rows.",
                fragment=id_,
            )


_OTHERWISE: Mapping[type, Callable[[Any, Snapshot], None]] = {
    ops.Project: _check_project,
    ops.CreateIndex: _check_create_index,
    ops.Rewrite: _check_rewrite,
    ops.ReserveFragments: _check_reserved,
    ops.Update: _check_update,
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
    """Return the files that the fragment did not have before, or that are said to be others."""
    before = read.fragment(fragment.id) if read else None
    known = {_place(file): _columns(file) for file in before.files} if before else {}
    # of a file that stays some fields may be marked as gone
    return [
        file
        for file in fragment.files
        if _place(file) not in known or not _columns(file) <= known[_place(file)]
    ]


def _place(file: DataFile) -> tuple[object, ...]:
    return file.base_id, file.path, file.version


def _columns(file: DataFile) -> frozenset[tuple[int, ...]]:
    given = zip(file.fields, file.column_indices, strict=False)
    pairs = file.columns.items() if file.is_legacy else given
    return frozenset(pair for pair in pairs if pair[0] >= 0)


def _added_files(
    brought: _Brought, read: Snapshot | None
) -> list[tuple[DataFile, Fragment | None, int]]:
    """Return the files to look at: each with the fragment it is for, if that is known, and rows."""
    new = [(file, None, f.physical_rows) for f in brought.new for file in f.files]
    changed = [(x, f, f.physical_rows) for f in brought.changed for x in _new_files(f, read)]
    return [*new, *changed, *((file, f, f.physical_rows) for file, f in brought.replacing)]


def _found(find: Locate, file: DataFile) -> FileLocation:
    try:
        return find(file)
    except CorruptFileError as error:
        raise InvalidArgumentError(
            f"Data file {file.path!r} cannot be located: {error.message}", file=file.path
        ) from error


def _check_fragments(
    operation: ops.Operation,
    brought: _Brought,
    schema: LanceSchema,
    read: Snapshot | None,
) -> None:
    """Compare fragments with those that there are."""
    replaces_all = isinstance(operation, ops.Overwrite)
    if read is not None and not replaces_all:
        check_new_ids(brought.new, brought.removed, read)
        check_changed(brought.changed, read, schema, same_files=isinstance(operation, ops.Delete))
        _check_deletions(brought, read)
    states = {fragment.id: fragment for fragment in brought.changed}
    check_row_ids(brought.new, states, brought.removed, read, replaces_all=replaces_all)


def _check_deletions(brought: _Brought, read: Snapshot) -> None:
    for fragment in brought.new:
        if fragment.deletion_file is not None and not fragment.id:
            raise InvalidArgumentError(
                "A new fragment came with a deletion file, which is of the fragment of another id.",
                hint="Write the rows that are left as a new fragment.",
            )
    before = {f.id: read.fragment(f.id) for f in brought.changed}
    for fragment in (*brought.new, *brought.changed):
        old = before.get(fragment.id)
        if fragment.deletion_file and (old is None or fragment.deletion_file != old.deletion_file):
            check_deletions(fragment, read)


def _check_merged(brought: _Brought, schema: LanceSchema, read: Snapshot) -> None:
    """Compare a merge's schema with the one that there is."""
    old = read.manifest.schema
    anew = [
        {id_ for file in _new_files(fragment, read) for id_ in file.fields}
        for fragment in brought.changed
    ]
    rewritten = frozenset.intersection(*map(frozenset, anew)) if anew else frozenset()
    check_change(old, schema, rewritten, has_rows=bool(anew))
    known = {field.id for field in old.walk()}
    for fragment in brought.changed:
        _check_filled(fragment, schema, known)


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
    times = Counter(id_ for id_ in file.fields if id_ >= 0)
    if twice := [id_ for id_, count in times.items() if count > 1]:
        raise InvalidArgumentError(
            f"Data file {file.path} lists field {twice[0]} twice.",
            file=file.path,
            fields=twice,
        )
    if len(file.fields) != len(file.column_indices) and not file.is_legacy:
        raise InvalidArgumentError(
            f"Data file {file.path} lists {len(file.fields)} fields and "
            f"{len(file.column_indices)} column indices; each field needs one.",
            file=file.path,
        )


def _check_filled(fragment: Fragment, schema: LanceSchema, known: Container[int]) -> None:
    """Raise if a fragment lacks values of a column that cannot be null; of `known` it may."""
    stored = {id_ for file in fragment.files for id_ in file.fields}
    for field in schema.fields:
        required = not field.nullable and field.id not in known
        if required and not stored & {part.id for part in field.walk()}:
            raise InvalidArgumentError(
                f"A fragment of {fragment.physical_rows} rows has no values for column "
                f"{field.name!r}, which cannot be null.",
                column=field.name,
            )


def described_file(read: Snapshot, path: str, base_id: int | None = None) -> tuple[DataFile, int]:
    """Return what a manifest says of a data file in the folder ``data``, and its rows.

    Raises InvalidArgumentError: there is no such file, or no such base path.
    Raises ColumnNotFoundError: it stores a column that the dataset does not have.
    """
    known = [base.id for base in read.manifest.base_paths]
    if base_id is not None and base_id not in known:
        raise InvalidArgumentError(
            f"There is no base path {base_id}.",
            hint=f"The version has the base paths {listed(known) or 'none'}.",
            base_id=base_id,
        )
    reader, size = open_brought(read.data_file(DataFile(path, (), base_id=base_id)))
    version, schema = reader.version, read.manifest.schema
    owners = [owner.id for field in schema.fields for owner in owning_fields(field, version)]
    ids = dict(zip(owner_paths(schema, version), owners, strict=True))
    paths = owner_paths(reader.stored_schema, version)
    if lost := [name for name in paths if name not in ids]:
        raise column_not_found(lost[0], ids)
    fields, columns = [ids[name] for name in paths], range(len(paths))
    file = DataFile(path, tuple(fields), tuple(columns), *version, size, base_id)
    return file, reader.num_rows
