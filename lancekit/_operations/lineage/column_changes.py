"""What a side did to the columns of an earlier version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lancekit._format.schema import LanceField, LanceSchema
from lancekit._pipeline.diff.fragments import ColumnPair

__all__ = ["ColumnChanges", "column_changes", "is_altered", "takes_old_rows"]


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The columns that come, go, and change their name or type.

    `renamed` has pairs of the old name and the new one; `altered` the columns that take nulls or no
    nulls from now on, or have other metadata.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    cast: tuple[str, ...] = ()
    altered: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return any((self.added, self.dropped, self.renamed, self.cast, self.altered))


def column_changes(pairs: Sequence[ColumnPair], before: Iterable[str]) -> ColumnChanges:
    """Return what became of columns, each with the one that it was, of those with the names before.

    Columns that both sides have in one type, under one name, are as they were.
    """
    kept = [(pair, pair.old) for pair in pairs if pair.old is not None]
    there = {old.name for _, old in kept}
    return ColumnChanges(
        added=tuple(pair.name for pair in pairs if pair.old is None),
        dropped=tuple(name for name in before if name not in there),
        renamed=tuple((old.name, pair.name) for pair, old in kept if old.name != pair.name),
        cast=tuple(pair.name for pair, _ in kept if pair.is_cast),
        altered=tuple(pair.name for pair, old in kept if is_altered(old, pair.new)),
    )


def is_altered(old: LanceField, new: LanceField) -> bool:
    """Return True if a column, or a part that it had before, has other metadata or nullability."""
    before, after = ({part.id: part for part in one.walk()} for one in (old, new))
    both = [(old, new), *((before[id_], after[id_]) for id_ in before.keys() & after.keys())]
    return any((a.nullable, a.metadata) != (b.nullable, b.metadata) for a, b in both)


def takes_old_rows(old: LanceSchema, new: LanceSchema) -> bool:
    """Return True if rows written for an old schema fit a new one, which reads all their values.

    A column, or a part of one, that keeps its name and gets another id, by a cast or made anew,
    reads them as null.
    """
    strict = {field.id for field in old.walk() if not field.nullable}
    return _keep_ids(old.fields, new.fields) and all(
        field.nullable or field.id in strict for field in new.walk()
    )


def _keep_ids(old: Sequence[LanceField], new: Sequence[LanceField]) -> bool:
    """Return True if columns of the same name have the same id, and so have their parts."""
    before = {field.name: field for field in old}
    both = [(before[field.name], field) for field in new if field.name in before]
    return all(
        one.id == other.id and _keep_ids(one.children, other.children) for one, other in both
    )
