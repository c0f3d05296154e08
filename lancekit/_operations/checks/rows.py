"""Checks that a user's operation keeps the rows of the table, and that its schema fits them.

No values and no stable row id may be in the table twice, and no row may lose a column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from pyroaring import BitMap

from lancekit._format.column_names import check_column_name
from lancekit._format.deletions import to_offsets
from lancekit._format.external_sequences import column_sequences
from lancekit._format.fragment import DataFile, Fragment
from lancekit._format.fragment_columns import places_with_files
from lancekit._format.operation_parts import RewriteGroup
from lancekit._format.row_address import LAST_FRAGMENT
from lancekit._format.row_ids import U64Array, count_row_ids, parse_row_ids, read_row_ids
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._versions.row_sequences import sequence_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError, LancekitError

#: the largest fragment id allowed; the last id stays free for an append
_LAST_ID = LAST_FRAGMENT - 1
_LEAVE_OUT = "Leave out the row ids of new rows: the commit assigns them."


def check_new_ids(new: Iterable[Fragment], removed: Collection[int], read: Snapshot | None) -> None:
    """Raise ``InvalidArgumentError`` if an id of a new fragment is taken or out of range."""
    named = [fragment.id for fragment in new if fragment.id]
    if not named:
        return
    known = set(read.manifest.fragments.ids.tolist()) if read else set()
    taken = known.difference(removed)
    for id_ in named:
        if id_ in taken:
            raise InvalidArgumentError(
                f"Fragment id {id_} is already in use, or is listed twice.",
                hint="Leave the ids of new fragments at 0: the commit assigns them.",
                fragment=id_,
            )
        check_ids_left(id_)
        taken.add(id_)


def check_ids_left(highest: int) -> None:
    """Raise ``InvalidArgumentError`` if no fragment id is left after the highest one."""
    if not 0 <= highest <= _LAST_ID:
        raise InvalidArgumentError(
            f"Fragment id {highest} would leave no ids for later fragments: the last one is "
            f"{LAST_FRAGMENT}.",
            hint="Leave the ids of new fragments at 0: the commit assigns them.",
            fragment=highest,
        )


def check_unused_files(
    files: Sequence[tuple[int | None, DataFile]], removed: Collection[int], read: Snapshot
) -> None:
    """Raise ``InvalidArgumentError`` if another fragment already has one of the files.

    files: data files, each after the id of its fragment, which is ``None`` for a new fragment.
    removed: the ids of fragments that the operation removes.
    """
    fragments = read.manifest.fragments
    if not files or not fragments:
        return
    wanted = {(file.base_id, file.path): owner for owner, file in files}
    for place in places_with_files(fragments.encoded, [path for _, path in wanted]).tolist():
        fragment = fragments[place]
        for file in fragment.files:
            key = (file.base_id, file.path)
            if key in wanted and fragment.id not in {wanted[key], *removed}:
                raise InvalidArgumentError(
                    f"Data file {file.path} already belongs to fragment {fragment.id} of version "
                    f"{read.version}: its rows would be in the table twice.",
                    hint="The change may already be committed: look at ds.versions().",
                    file=file.path,
                    fragment=fragment.id,
                )


def check_changed(
    changed: Iterable[Fragment], read: Snapshot, schema: LanceSchema, *, same_files: bool
) -> None:
    """Raise if the new state of a fragment does not match its old state.

    schema: the schema of the candidate version.
    same_files: the operation does not write columns.

    Raises InvalidArgumentError: a fragment has other rows, row ids or files, or lost a column.
    """
    live = {field.id for field in schema.walk()}
    for fragment in changed:
        old = read.fragment(fragment.id)
        if old is None or fragment == old:
            continue
        if fragment.physical_rows != old.physical_rows:
            raise _changed_to(fragment, f"{fragment.physical_rows} rows", f"{old.physical_rows}")
        if not _same_row_ids(fragment, old, read):
            raise _changed_to(fragment, "other row ids", "those that it has")
        before, after = ({(f.base_id, f.path) for f in x.files} for x in (old, fragment))
        if same_files and before != after:
            raise _changed_to(fragment, "other data files", "those that it has")
        stored, kept = ({id_ for f in x.files for id_ in f.fields} for x in (old, fragment))
        if lost := sorted(stored & live - kept):
            names = {field.id: field.name for field in schema.walk()}
            raise InvalidArgumentError(
                f"Fragment {fragment.id} lacks the values of column {names[lost[0]]!r}.",
                hint="List the unchanged files of the fragment, too.",
                fragment=fragment.id,
                column=names[lost[0]],
            )


def _same_row_ids(fragment: Fragment, old: Fragment, read: Snapshot) -> bool:
    """Return True if two states of a fragment have the same row ids, in any storage."""
    marks = [column_sequences(state) for state in (fragment, old)]
    if not any("row_ids" in columns for columns in marks):
        return fragment.row_ids == old.row_ids
    now, before = (sequence_of(read, state, "row_ids") for state in (fragment, old))
    if now is None or before is None:
        return now is before
    rows, where = old.physical_rows, f"fragment {old.id}"
    return np.array_equal(parse_row_ids(now, rows, where), parse_row_ids(before, rows, where))


def _changed_to(fragment: Fragment, now: str, before: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Fragment {fragment.id} was passed with {now} instead of {before}.",
        hint="Start from the fragment metadata of the version that the change is based on.",
        fragment=fragment.id,
    )


def check_deletions(fragment: Fragment, read: Snapshot) -> BitMap:
    """Return the deleted rows of a fragment's new state.

    Raises InvalidArgumentError: the deletion file is missing, damaged, or does not match its
        description.
    """
    try:
        return read.deleted_rows(fragment)
    except CorruptFileError as error:
        raise InvalidArgumentError(
            f"Fragment {fragment.id} has an unusable deletion file: {error.message}",
            hint="Write the deletion file before the commit: fragment.delete() does.",
            fragment=fragment.id,
        ) from error


# ---- stable row ids


def check_row_ids(
    new: Sequence[Fragment],
    states: Mapping[int, Fragment],
    removed: Collection[int],
    read: Snapshot | None,
    *,
    replaces_all: bool,
) -> None:
    """Raise ``InvalidArgumentError`` if a row id of new fragments is invalid or already in use.

    states: the new states of changed fragments, by id.
    replaces_all: the operation removes all existing rows.
    """
    given = [fragment for fragment in new if fragment.row_ids is not None]
    if not given:
        return
    if read is None or not read.manifest.has_stable_row_ids:
        raise InvalidArgumentError(
            "A fragment has row ids, but the table has no stable row ids for it.",
            hint=_LEAVE_OUT,
            fragment=given[0].id,
        )
    ids = np.sort(np.concatenate([_ids_of(fragment) for fragment in given]))
    if not len(ids):
        return
    if (repeated := ids[1:][ids[1:] == ids[:-1]]).size:
        raise _taken(int(repeated[0]))
    if ids[-1] >= read.manifest.next_row_id:
        raise InvalidArgumentError(
            f"A fragment has row id {ids[-1]}, which is not assigned yet: the next one is "
            f"{read.manifest.next_row_id}.",
            hint=_LEAVE_OUT,
        )
    if replaces_all:
        return
    fragments = read.manifest.fragments
    for place in fragments.row_id_bounds.candidates(ids).tolist():
        fragment = fragments[place]
        row_ids = None if fragment.id in removed else sequence_of(read, fragment, "row_ids")
        if row_ids is None:
            continue
        rows = read_row_ids(row_ids, fragment.physical_rows, f"fragment {fragment.id}").find(ids)
        hits = np.flatnonzero(rows >= 0)
        if len(hits):
            deleted = check_deletions(states.get(fragment.id, fragment), read)
            alive = ~np.isin(rows[hits], to_offsets(deleted))
            if alive.any():
                raise _taken(int(ids[hits[alive][0]]))


def _ids_of(fragment: Fragment) -> U64Array:
    stored, where = fragment.row_ids or b"", "a new fragment"
    try:
        return parse_row_ids(stored, count_row_ids(stored, where), where)
    except CorruptFileError as error:
        raise InvalidArgumentError(
            f"The row ids of a fragment cannot be read: {error.message}", hint=_LEAVE_OUT
        ) from error


def _taken(row_id: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Two rows would have row id {row_id}.",
        hint="A moved row keeps its id and is deleted at its old address; a new row has no id "
        "before the commit.",
        row_id=row_id,
    )


def check_moved(groups: Iterable[RewriteGroup], read: Snapshot) -> None:
    """Raise ``InvalidArgumentError`` if a rewrite changes the ids of its rows."""
    if not read.manifest.has_stable_row_ids:
        return
    for group in groups:
        if any(fragment.row_ids is None for fragment in group.new_fragments):
            continue  # the manifest builder raises for it
        before = [np.empty(0, np.uint64)]
        for fragment in filter(None, (read.fragment(old.id) for old in group.old_fragments)):
            row_ids = sequence_of(read, fragment, "row_ids")
            if row_ids is None:
                continue
            ids = read_row_ids(row_ids, fragment.physical_rows, f"fragment {fragment.id}")
            live = np.ones(fragment.physical_rows, bool)
            live[to_offsets(read.deleted_rows(fragment))] = False
            before.append(ids.at(np.flatnonzero(live)))
        after = [np.empty(0, np.uint64), *map(_ids_of, group.new_fragments)]
        old_ids, new_ids = np.concatenate(before), np.concatenate(after)
        if not np.array_equal(old_ids, new_ids) and not np.array_equal(
            np.sort(old_ids), np.sort(new_ids)
        ):
            raise InvalidArgumentError(
                "The new fragments of a rewrite do not have the row ids of the fragments that "
                "they replace.",
                fragments=[fragment.id for fragment in group.old_fragments],
            )


# ---- the schema of a user's operation
#
# Field ids decide which column of a file a reader shows under which name and type.  A renumbered
# schema would show the values of one column under the name of another.

_FIRST_ID_BEYOND = 1 << 31
#: the id of the parts of a blob's descriptor, which are not fields
_NO_ID = -1

#: logical types with two names
_SAME = {"list.struct": "list", "large_list.struct": "large_list", "json": "large_binary"}

_KEEP_IDS = "Derive the new schema from ds.lance_schema: field ids of an Arrow schema count from 0."


def check_schema(schema: LanceSchema) -> None:
    """Raise if a schema is invalid.

    Raises InvalidArgumentError: an id is repeated or out of range, a name is repeated or cannot be
        used, or a type is unknown.
    """
    for top in schema.fields:
        check_column_name(top.name)
    seen: dict[int, LanceField] = {}
    _check_level(schema.fields, -1, seen)
    for top in schema.fields:
        try:
            top.to_arrow()
        except LancekitError as error:
            raise InvalidArgumentError(
                f"Column {top.name!r} has an unreadable type: {error.message}", column=top.name
            ) from error


def _check_level(fields: tuple[LanceField, ...], parent: int, seen: dict[int, LanceField]) -> None:
    names: set[str] = set()
    for field in fields:
        if field.name in names:
            raise InvalidArgumentError(
                f"The schema has two fields {field.name!r} in the same place.",
                hint="Rename one of the two.",
                column=field.name,
            )
        names.add(field.name)
        if field.id == _NO_ID and parent != _NO_ID:
            continue
        if not 0 <= field.id < _FIRST_ID_BEYOND:
            raise InvalidArgumentError(
                f"Field {field.name!r} has id {field.id}; field ids must be from 0 to "
                f"{_FIRST_ID_BEYOND - 1}.",
                column=field.name,
            )
        if field.parent_id != parent:
            raise InvalidArgumentError(
                f"Field {field.name!r} declares parent {field.parent_id}, but it is below "
                f"{parent}.",
                column=field.name,
            )
        other = seen.setdefault(field.id, field)
        if other is not field:
            raise InvalidArgumentError(
                f"Fields {other.name!r} and {field.name!r} both have id {field.id}.",
                column=field.name,
            )
        _check_level(field.children, field.id, seen)


def check_change(
    old: LanceSchema, new: LanceSchema, rewritten: Collection[int] | None, *, has_rows: bool
) -> None:
    """Raise if a new schema cannot read the existing rows.

    rewritten: the ids of fields that are rewritten for all rows; ``None`` if no rows are written.
        A column can then become not nullable, and its values are not checked for nulls.

    Raises InvalidArgumentError: a field takes the name of another field that gets no free name.
    Raises InvalidArgumentError: the type or parent of a field changes without a rewrite.
    Raises InvalidArgumentError: a field that is not nullable has no values, or no column is left.
    """
    if has_rows and not new.fields:
        raise InvalidArgumentError("The schema has no columns; a dataset needs at least one.")
    before = {field.id: field for field in old.walk()}
    named = {(field.parent_id, field.name): field.id for field in old.walk()}
    after = {field.id: field for field in new.walk()}
    for field in new.walk():
        if field.id == _NO_ID:
            continue
        known = before.get(field.id)
        if known is None:
            inside_new = field.parent_id != -1 and field.parent_id not in before
            if rewritten is None and has_rows and not (field.nullable or inside_new):
                raise InvalidArgumentError(
                    f"The new column {field.name!r} has no values, but is not nullable.",
                    hint="Add it with values: ds.add_columns().",
                    column=field.name,
                )
            continue
        owner = named.get((known.parent_id, field.name), field.id)
        is_chain = rewritten is None and _ends_at_free_name(owner, field, named, after)
        if owner != field.id and not is_chain:
            raise InvalidArgumentError(
                f"Field id {field.id} is renamed from {known.name!r} to {field.name!r}, but "
                f"{field.name!r} is the name of field id {owner}: the column would show the "
                f"values of {known.name!r}.",
                hint=f"{_KEEP_IDS} To swap names, give both to ds.alter_columns().",
                column=field.name,
            )
        if has_rows and field.id not in (rewritten or ()):
            _check_same(known, field, may_lose_nulls=rewritten is None)


def _ends_at_free_name(
    owner: int,
    field: LanceField,
    named: Mapping[tuple[int, str], int],
    after: Mapping[int, LanceField],
) -> bool:
    """Return True if the owner of a field's new name is also renamed, and so on to a free name.

    ``owner`` is the id of the field that had the name.  In a renumbered schema the owner is missing
    instead, or fields swap their names.
    """
    for _ in named:
        other = after.get(owner)
        if other is None or other.name == field.name:
            return False
        next_owner = named.get((other.parent_id, other.name))
        if next_owner is None:
            return True
        owner, field = next_owner, other
    return False


def _check_same(known: LanceField, field: LanceField, *, may_lose_nulls: bool) -> None:
    changes = [
        (_SAME.get(known.logical_type, known.logical_type),
         _SAME.get(field.logical_type, field.logical_type)),
        (f"parent {known.parent_id}", f"parent {field.parent_id}"),
    ]  # fmt: skip
    if known.nullable and not field.nullable and not may_lose_nulls:
        changes.append(("nullable", "not nullable"))
    for was, is_ in changes:
        if was != is_:
            raise InvalidArgumentError(
                f"Field id {field.id} ({field.name!r}) changes from {was} to {is_}, but not every "
                "fragment has a new file for it.",
                hint=_KEEP_IDS,
                column=field.name,
            )
