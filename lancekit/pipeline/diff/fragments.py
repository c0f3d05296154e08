"""What two versions share without a look at their rows: files, and what is deleted in them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancekit.format.fragment import columns_of_files
from lancekit.format.schema import LanceField, LanceSchema
from lancekit.scan.fragments.source import FragmentSource

__all__ = ["ColumnPair", "Pair", "Shared", "pair_columns", "shared"]


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """A column of the new side, and the one of the old side that it was, if any."""

    name: str
    kind: pa.DataType
    old: LanceField | None
    new: LanceField


@dataclass(frozen=True, slots=True)
class Pair:
    """Two fragments with the same rows at the same places, and the columns that may differ."""

    old: FragmentSource
    new: FragmentSource
    columns: tuple[ColumnPair, ...]
    deletions_differ: bool


@dataclass(frozen=True, slots=True)
class Shared:
    """How much both sides have as it is, and what has to be looked at."""

    fragments: int
    rows: int
    pairs: tuple[Pair, ...]
    old: tuple[FragmentSource, ...]
    new: tuple[FragmentSource, ...]


def pair_columns(old: LanceSchema, new: LanceSchema, last_common_id: int) -> list[ColumnPair]:
    """Return each column of the new side with that of the old one.

    It is the one of the same id, among those that both sides got from where they part, or else the
    one of the same name and type.
    """
    by_id = {field.id: field for field in old.fields if field.id <= last_common_id}
    by_name = {field.name: field for field in old.fields}
    new_ids = {field.id for field in new.fields}
    found = []
    for field in new.fields:
        match = by_id.get(field.id) if field.id <= last_common_id else None
        if match is None:
            named = by_name.get(field.name)
            taken = named is not None and named.id in by_id and named.id in new_ids
            if named is not None and not taken and named.logical_type == field.logical_type:
                match = named
        found.append(ColumnPair(field.name, field.to_arrow().type, match, field))
    return found


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
    fragments = rows = 0
    pairs, others = [], []
    for source in new:
        places = {owners[str(file)] for file in source.files if str(file) in owners}
        mate = left.get(places.pop()) if len(places) == 1 else None
        if mate is None or mate.fragment.physical_rows != source.fragment.physical_rows:
            others.append(source)
            continue
        del left[mate.fragment.id]
        pair = _compared(mate, source, columns)
        if pair.columns or pair.deletions_differ:
            pairs.append(pair)
        else:
            fragments += 1
            rows += source.num_rows
    return Shared(fragments, rows, tuple(pairs), tuple(left.values()), tuple(others))


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
