"""Comparison of the fragments of two versions by their files and deletions, without row reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lancekit._casts import rule_of
from lancekit._file.kernels.bounds import allowed, null_bytes
from lancekit._format.arrow_parts import child_of
from lancekit._format.fragment import columns_of_files
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._scan.expressions.kernels.casts import cast, try_cast
from lancekit._scan.expressions.kernels.operators import as_array
from lancekit._scan.fragments.source import FragmentSource


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """A column of the new side, with its predecessor on the old side, if any.

    If `is_lacked`, the new side has no values of the column yet, and `new` declares it.  `parts`
    are the fields of a struct, or the items of lists of structs, in the order of `kind`.  They are
    empty if both sides have the same type, and the same parts under the same names.
    """

    name: str
    kind: pa.DataType
    old: LanceField | None
    new: LanceField
    is_lacked: bool = False
    parts: tuple[ColumnPair, ...] = ()

    @property
    def is_cast(self) -> bool:
        """True if the column has another type than on the old side."""
        return self.old is not None and self.old.to_arrow().type != self.kind


@dataclass(frozen=True, slots=True)
class Pair:
    """Two fragments with the same rows at the same offsets, and the columns that may differ."""

    old: FragmentSource
    new: FragmentSource
    columns: tuple[ColumnPair, ...]
    deletions_differ: bool


@dataclass(frozen=True, slots=True)
class Shared:
    """The fragments that both sides share, as the new side has them, and those to compare."""

    same: Sequence[FragmentSource]
    pairs: tuple[Pair, ...]
    old: tuple[FragmentSource, ...]
    new: tuple[FragmentSource, ...]
    #: the new fragment with the same rows at the same offsets, by old fragment: their ids
    mates: Mapping[int, int]
    #: the number of rows in `same`
    rows: int = 0


class Origins(Protocol):
    """The origin of a version's columns in an ancestor, by field id."""

    def had(self, id_: int) -> bool:
        """Return True if the ancestor has a column with this id, even a different column."""

    def has(self, id_: int) -> bool:
        """Return True if the id stands for the same column as in the ancestor."""

    def origin(self, id_: int) -> int | None:
        """Return the column's id in the ancestor; this follows casts and costs more than `has`."""

    def is_new(self, id_: int) -> bool:
        """Return True if the column is known to be newer than the ancestor."""


class FollowedColumns:
    """Columns, at any depth, whose ids in another version are known."""

    def __init__(self, ids: Mapping[int, int]) -> None:
        self._ids = ids

    def had(self, id_: int) -> bool:
        """Return True if the other version has a field with this id."""
        return id_ in self._ids.values()

    def has(self, id_: int) -> bool:
        """Return True if the field has the same id in the other version."""
        return self._ids.get(id_) == id_

    def origin(self, id_: int) -> int | None:
        """Return the field's id in the other version, or ``None``."""
        return self._ids.get(id_)

    def is_new(self, _: int) -> bool:
        """Return False, because a field without a known id may come from a merge."""
        return False


#: for versions without a common ancestor
_NO_ANCESTOR = FollowedColumns({})


def pair_columns(
    old: LanceSchema,
    new: LanceSchema,
    of_old: Origins = _NO_ANCESTOR,
    of_new: Origins = _NO_ANCESTOR,
) -> list[ColumnPair]:
    """Return each column of the new side, with its predecessor on the old side.

    The predecessor is the first of these: the column with the same id, if both sides kept it from
    their common ancestor; the column that was cast to this one; the column with the same name.
    Columns of the same name do not match if both come from different columns of the ancestor.  The
    predecessor's values must be convertible to the new type.  A column known to be new only matches
    a column of the same type, because no cast relates the two.

    of_old, of_new: the origins of both sides' columns in the common ancestor.
    """
    return _paired(old.fields, new.fields, of_old, of_new)


def pair_parts(
    old: LanceField | None,
    new: LanceField,
    of_old: Origins = _NO_ANCESTOR,
    of_new: Origins = _NO_ANCESTOR,
) -> tuple[ColumnPair, ...]:
    """Return the parts of a nested column, each with its predecessor on the old side.

    Parts are paired like columns.  The result is empty if the column contains no struct, or if
    both sides have the same parts in the same order.
    """
    if old is None or not is_paired_by_parts(old, new):
        return ()
    if new.logical_type == "struct":
        parts = _paired(old.children, new.children, of_old, of_new)
    else:  # lists have one child, even after a cast
        (was,), (now,) = old.children, new.children
        below = pair_parts(was, now, of_old, of_new)
        parts = [ColumnPair(now.name, now.to_arrow().type, was, now, parts=below)]
    if old.to_arrow().type == new.to_arrow().type and all(
        part.old is not None and part.old.name == part.name and not part.parts for part in parts
    ):
        return ()
    return tuple(parts)


def is_paired_by_parts(old: LanceField, new: LanceField) -> bool:
    """Return True if both fields are nested in the same way, and contain structs."""
    return (
        old.logical_type == new.logical_type
        and bool(old.children and new.children)
        and (new.logical_type == "struct" or is_paired_by_parts(old.children[0], new.children[0]))
    )


def fits_as(old: LanceField, new: LanceField) -> bool:
    """Return True if values of one field can be converted to the other field."""
    return is_paired_by_parts(old, new) or can_be_retyped(old.to_arrow().type, new.to_arrow().type)


def _paired(
    old: Sequence[LanceField], new: Sequence[LanceField], of_old: Origins, of_new: Origins
) -> list[ColumnPair]:
    """Pair columns, or the parts of a nested column, by the rules of `pair_columns`."""
    by_id = {field.id: field for field in old}

    def are_same(one: LanceField, other: LanceField) -> bool:
        id_ = one.id
        if _description(one) != _description(other):
            return of_old.has(id_) and of_new.has(id_)
        # of two new columns, each may be a cast of another column
        return of_old.had(id_) or of_old.origin(id_) == of_new.origin(id_)

    known = [field for field in new if field.id in by_id]
    same = {field.id: by_id[field.id] for field in known if are_same(by_id[field.id], field)}
    left = [field for field in old if field.id not in same]
    news = [field.id for field in new if field.id not in same] if left else []
    came = {id_: of_new.origin(id_) for id_ in news}
    were = {field.id: of_old.origin(field.id) for field in left} if news else {}
    cast = {origin: by_id[id_] for id_, origin in were.items() if origin is not None}
    followed = {cast[origin].id for origin in came.values() if origin in cast}
    by_name = {field.name: field for field in left if field.id not in followed}

    def are_others(one: LanceField, other: LanceField) -> bool:
        if came[other.id] is not None and were[one.id] is not None:
            return True
        is_new = of_old.is_new(one.id) or of_new.is_new(other.id)
        return is_new and one.to_arrow().type != other.to_arrow().type

    found = []
    for field in new:
        kind, origin = field.to_arrow().type, came.get(field.id)
        match = same.get(field.id) or (None if origin is None else cast.get(origin))
        if match is None and (match := by_name.get(field.name)) is not None:
            match = None if are_others(match, field) else match
        if match is not None and not fits_as(match, field):
            match = None
        parts = pair_parts(match, field, of_old, of_new)
        found.append(ColumnPair(field.name, kind, match, field, parts=parts))
    return found


def _description(field: LanceField) -> tuple[str, str]:
    return field.name, field.logical_type


def shared(
    old: Iterable[FragmentSource], new: Iterable[FragmentSource], columns: Sequence[ColumnPair]
) -> Shared:
    """Compare the fragments of two versions by their files, without opening any.

    Two fragments with a common file have the same rows at the same offsets.  They are shared if
    they have the same deletions, and all columns are stored in the same places.
    """
    left = {source.fragment.id: source for source in old}
    owners: dict[Hashable, int] = {
        str(file): id_ for id_, source in left.items() for file in source.files
    }
    same, pairs, others = [], [], []
    mates = dict[int, int]()
    for source in new:
        places = {owners[str(file)] for file in source.files if str(file) in owners}
        mate = left.get(places.pop()) if len(places) == 1 else None
        if mate is None or mate.fragment.physical_rows != source.fragment.physical_rows:
            others.append(source)
            continue
        del left[mate.fragment.id]
        mates[mate.fragment.id] = source.fragment.id
        pair = _compared(mate, source, columns)
        if pair.columns or pair.deletions_differ:
            pairs.append(pair)
        else:
            same.append(source)
    rows = sum(source.num_rows for source in same)
    return Shared(tuple(same), tuple(pairs), tuple(left.values()), tuple(others), mates, rows)


def _compared(old: FragmentSource, new: FragmentSource, columns: Sequence[ColumnPair]) -> Pair:
    mine, theirs = _stored(new), _stored(old)
    differ = tuple(p for p in columns if _stored_at(p.new, mine) != _stored_at(p.old, theirs))
    return Pair(old, new, differ, _deleted(old) != _deleted(new))


def _stored(source: FragmentSource) -> Mapping[int, Hashable]:
    """Return the file and physical column of each field of a fragment."""
    return {
        id_: (str(file), column)
        for file, columns in zip(source.files, columns_of_files(source.fragment), strict=True)
        for id_, column in columns.items()
    }


def _stored_at(field: LanceField | None, stored: Mapping[int, Hashable]) -> Hashable:
    """Return where a column is stored, and its types; empty for a column that is all null."""
    if field is None:
        return ()
    return tuple((stored[part.id], part.logical_type) for part in field.walk() if part.id in stored)


def _deleted(source: FragmentSource) -> Hashable:
    return None if source.deletion is None else str(source.deletion)


# ---- conversion of a column's values to the type on the other side of a comparison


def can_be_retyped(old: pa.DataType, new: pa.DataType) -> bool:
    """Return True if `retyped` can convert one type to the other.

    A type is refused if even a single null would exceed the memory limit.
    """
    if max(null_bytes(old), null_bytes(new)) > allowed():
        return False
    try:
        retyped(pa.nulls(1, old), new)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def retyped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array; a number that the type cannot hold becomes null.

    Structs with the same fields are cast field by field, because Arrow's own cast refuses null
    structs with a field that is not nullable.
    """
    if values.type == kind:
        return values
    if not (pa.types.is_struct(kind) and pa.types.is_struct(values.type)):
        return _cast(values, kind)
    fields = list(kind)
    own = [field.name for field in values.type]
    if own != [field.name for field in fields]:
        return _cast(values, kind)
    children = [retyped(child_of(values, at), field.type) for at, field in enumerate(fields)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    rule = rule_of(values.type, kind)
    if rule is None:
        return values.cast(kind)
    if rule.digits == "read":
        return cast(values, kind)  # unreadable text is an error, not a null
    return as_array(try_cast(values, kind), len(values))
