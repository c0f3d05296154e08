"""What two versions share without a look at their rows: files, and what is deleted in them."""

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
    """A column of the new side, and the one of the old side that it was, if any.

    Of one that `is_lacked` the new side has no values yet: `new` says what it is to be.  `parts`
    are those of a struct, or the items of lists of structs, in the order of `kind`; there are none
    where both sides have the same type, and the same parts under the same names.
    """

    name: str
    kind: pa.DataType
    old: LanceField | None
    new: LanceField
    is_lacked: bool = False
    parts: tuple[ColumnPair, ...] = ()

    @property
    def is_cast(self) -> bool:
        """Whether the column is of another type than before."""
        return self.old is not None and self.old.to_arrow().type != self.kind


@dataclass(frozen=True, slots=True)
class Pair:
    """Two fragments with the same rows at the same places, and the columns that may differ."""

    old: FragmentSource
    new: FragmentSource
    columns: tuple[ColumnPair, ...]
    deletions_differ: bool


@dataclass(frozen=True, slots=True)
class Shared:
    """What both sides have as it is, as the new side sees it, and what has to be looked at."""

    same: Sequence[FragmentSource]
    pairs: tuple[Pair, ...]
    old: tuple[FragmentSource, ...]
    new: tuple[FragmentSource, ...]
    #: the fragments of the old side with rows at the same places of the new one, by their ids
    mates: Mapping[int, int]
    #: the number of rows in `same`
    rows: int = 0


class Origins(Protocol):
    """Tells which columns of a version are those of an ancestor, by their ids."""

    def had(self, id_: int) -> bool:
        """Return True if the ancestor has a column of an id, be it another one."""

    def has(self, id_: int) -> bool:
        """Return True if the column of an id is that of the ancestor."""

    def origin(self, id_: int) -> int | None:
        """Return the id that a column had in the ancestor, casts included; this is dearer."""

    def is_new(self, id_: int) -> bool:
        """Return True if it is known that the column came since the ancestor."""


class FollowedColumns:
    """Columns, and parts of columns, whose ids in another version are known."""

    def __init__(self, ids: Mapping[int, int]) -> None:
        self._ids = ids

    def had(self, id_: int) -> bool:
        """Return True if the other version has a field of an id."""
        return id_ in self._ids.values()

    def has(self, id_: int) -> bool:
        """Return True if the field has the same id in the other version."""
        return self._ids.get(id_) == id_

    def origin(self, id_: int) -> int | None:
        """Return the id that a field has in the other version."""
        return self._ids.get(id_)

    def is_new(self, _: int) -> bool:
        """Return False: a field without a known id may have come by a merge."""
        return False


#: of versions that come from no common one
_NO_ANCESTOR = FollowedColumns({})


def pair_columns(
    old: LanceSchema,
    new: LanceSchema,
    of_old: Origins = _NO_ANCESTOR,
    of_new: Origins = _NO_ANCESTOR,
) -> list[ColumnPair]:
    """Return each column of the new side with that of the old one.

    It is the one of the same id, if both sides have kept that of a version that both come from, or
    else the one that was cast since, or else the one of the same name, unless both are other
    columns of that version.  Values of its type have to be values of the new one's, too.  One that
    is known to have come since has the type of the other, too: else no cast made one of the other.

    old, new: the columns of both sides.
    of_old, of_new: tell which of them are columns of the version that both come from.
    """
    return _paired(old.fields, new.fields, of_old, of_new)


def pair_parts(
    old: LanceField | None,
    new: LanceField,
    of_old: Origins = _NO_ANCESTOR,
    of_new: Origins = _NO_ANCESTOR,
) -> tuple[ColumnPair, ...]:
    """Return the parts of a nested column, each with that of the old side.

    Parts are paired as columns are.  There are none if no struct is in the column, or if both sides
    have the same parts in the same places.
    """
    if old is None or not is_paired_by_parts(old, new):
        return ()
    if new.logical_type == "struct":
        parts = _paired(old.children, new.children, of_old, of_new)
    else:  # lists have one child, be it cast or not
        (was,), (now,) = old.children, new.children
        below = pair_parts(was, now, of_old, of_new)
        parts = [ColumnPair(now.name, now.to_arrow().type, was, now, parts=below)]
    if old.to_arrow().type == new.to_arrow().type and all(
        part.old is not None and part.old.name == part.name and not part.parts for part in parts
    ):
        return ()
    return tuple(parts)


def is_paired_by_parts(old: LanceField, new: LanceField) -> bool:
    """Return True if both are of the same kind of nesting, and hold structs."""
    return (
        old.logical_type == new.logical_type
        and bool(old.children and new.children)
        and (new.logical_type == "struct" or is_paired_by_parts(old.children[0], new.children[0]))
    )


def fits_as(old: LanceField, new: LanceField) -> bool:
    """Return True if values of one field can be shown as the other field."""
    return is_paired_by_parts(old, new) or can_be_retyped(old.to_arrow().type, new.to_arrow().type)


def _paired(
    old: Sequence[LanceField], new: Sequence[LanceField], of_old: Origins, of_new: Origins
) -> list[ColumnPair]:
    by_id = {field.id: field for field in old}

    def are_same(one: LanceField, other: LanceField) -> bool:
        id_ = one.id
        if _called(one) != _called(other):
            return of_old.has(id_) and of_new.has(id_)
        # of two that came since, each may be a cast of another column
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


def _called(field: LanceField) -> tuple[str, str]:
    return field.name, field.logical_type


def shared(
    old: Iterable[FragmentSource], new: Iterable[FragmentSource], columns: Sequence[ColumnPair]
) -> Shared:
    """Compare the fragments of two versions by their files; none is opened.

    Two fragments that have a file in common have the same rows at the same places.  They are
    shared if the same rows are deleted and no column lies elsewhere.
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
    apart = tuple(pair for pair in columns if _lies(pair.new, mine) != _lies(pair.old, theirs))
    return Pair(old, new, apart, _deleted(old) != _deleted(new))


def _stored(source: FragmentSource) -> Mapping[int, Hashable]:
    """Return where each field lies."""
    return {
        id_: (str(file), column)
        for file, columns in zip(source.files, columns_of_files(source.fragment), strict=True)
        for id_, column in columns.items()
    }


def _lies(field: LanceField | None, stored: Mapping[int, Hashable]) -> Hashable:
    """Return where a column lies, and as what; nothing for one that is null throughout."""
    if field is None:
        return ()
    return tuple((stored[part.id], part.logical_type) for part in field.walk() if part.id in stored)


def _deleted(source: FragmentSource) -> Hashable:
    return None if source.deletion is None else str(source.deletion)


# ---- values of a column as the type that the column has on the other side of a comparison


def can_be_retyped(old: pa.DataType, new: pa.DataType) -> bool:
    """Return True if `retyped` knows a way from one type to the other.

    A type of which not even one row may be read is not made one of, either.
    """
    if max(null_bytes(old), null_bytes(new)) > allowed():
        return False
    try:
        retyped(pa.nulls(1, old), new)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def retyped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array. A number that the type cannot hold becomes null.

    Structs with the same fields are cast field by field. Arrow's own cast refuses null structs if
    a field takes no nulls.
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
        return cast(values, kind)  # text that is no such value is an error, not a null
    return as_array(try_cast(values, kind), len(values))
