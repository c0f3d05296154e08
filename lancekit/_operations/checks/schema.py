"""What is wrong with a schema that an operation made by hand brings.

A schema of field ids decides which column of a file is shown under which name and type: one that
was numbered anew shows the values of one column as those of another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lancekit._format.column_names import check_column_name
from lancekit._format.schema import LanceField, LanceSchema
from lancekit.errors import InvalidArgumentError, LancekitError

__all__ = ["check_change", "check_schema"]

_FIRST_ID_BEYOND = 1 << 31
#: the parts of a blob's descriptor, which are no fields of their own
_NO_ID = -1

#: names of one and the same type
_SAME = {"list.struct": "list", "large_list.struct": "large_list", "json": "large_binary"}

_KEEP_IDS = "Derive the new schema from ds.lance_schema: a schema of Arrow is numbered from 0."


def check_schema(schema: LanceSchema) -> None:
    """Raise if no table could have a schema.

    Raises
    ------
    InvalidArgumentError
        An id is repeated or none, a name is repeated or cannot be used, a type is not known.
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
                f"Column {top.name!r} has a type that cannot be read: {error.message}",
                column=top.name,
            ) from error


def _check_level(fields: tuple[LanceField, ...], parent: int, seen: dict[int, LanceField]) -> None:
    names: set[str] = set()
    for field in fields:
        if field.name in names:
            raise InvalidArgumentError(
                f"The schema has two fields named {field.name!r} side by side.",
                hint="Rename one of the two.",
                column=field.name,
            )
        names.add(field.name)
        if field.id == _NO_ID and parent != _NO_ID:
            continue
        if not 0 <= field.id < _FIRST_ID_BEYOND:
            raise InvalidArgumentError(
                f"Field {field.name!r} has id {field.id}; ids are from 0 to "
                f"{_FIRST_ID_BEYOND - 1}.",
                column=field.name,
            )
        if field.parent_id != parent:
            raise InvalidArgumentError(
                f"Field {field.name!r} names {field.parent_id} as its parent, but lies below "
                f"{parent}.",
                column=field.name,
            )
        other = seen.setdefault(field.id, field)
        if other is not field:
            raise InvalidArgumentError(
                f"Fields {other.name!r} and {field.name!r} both have id {field.id}.",
                hint="Each field has an id of its own.",
                column=field.name,
            )
        _check_level(field.children, field.id, seen)


def check_change(
    old: LanceSchema, new: LanceSchema, rewritten: Collection[int] | None, *, has_rows: bool
) -> None:
    """Raise if the rows that there are could not be read by a new schema.

    Parameters
    ----------
    rewritten
        The fields that are stored anew for all rows; ``None`` if no rows were written, which is
        how a column is said to have no nulls: whether that holds is not looked up.

    Raises
    ------
    InvalidArgumentError
        A field takes the name of another one, which does not take a new one, is of another type
        or at another place without being written anew, or has no values where it must have some;
        nothing is left.
    """
    if has_rows and not new.fields:
        raise InvalidArgumentError("The schema has no columns, and rows need one.")
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
                    f"Column {field.name!r} is new, has no values, and cannot be null.",
                    hint="Add it with values: ds.add_columns().",
                    column=field.name,
                )
            continue
        owner = named.get((known.parent_id, field.name), field.id)
        moves_on = rewritten is None and _moves_on(owner, field, named, after)
        if owner != field.id and not moves_on:
            raise InvalidArgumentError(
                f"Field id {field.id} is renamed from {known.name!r} to {field.name!r}, which is "
                f"the name of field id {owner}: it would show the values of {known.name!r}.",
                hint=f"{_KEEP_IDS} To swap names, give both to ds.alter_columns().",
                column=field.name,
            )
        if has_rows and field.id not in (rewritten or ()):
            _check_same(known, field, may_lose_nulls=rewritten is None)


def _moves_on(
    owner: int,
    field: LanceField,
    named: Mapping[tuple[int, str], int],
    after: Mapping[int, LanceField],
) -> bool:
    """Tell whether the owner of a field's new name takes a name that nobody had.

    Or that of another field of which the same is true.  A schema that was numbered anew has fields
    that are left out instead, or take each other's names.
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
                f"Field id {field.id} ({field.name!r}) changes from {was} to {is_} without being "
                "written anew in every fragment.",
                hint=_KEEP_IDS,
                column=field.name,
            )
