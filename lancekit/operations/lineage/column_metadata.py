"""Metadata of columns and of the schema in a merge: each key merges like a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from lancekit.format.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION, LanceField
from lancekit.legible import clean
from lancekit.operations.lineage.column_conflicts import Settlement

__all__ = ["MARKS", "merged_metadata", "with_metadata"]

#: metadata that mark the primary key: `column_key` merges the key as one value
MARKS = PRIMARY_KEY, PRIMARY_KEY_POSITION
#: how metadata begin that choose encodings
_ENCODING = "lance-encoding:"


def with_metadata(
    settlement: Settlement,
    kept: LanceField,
    base: LanceField | None,
    other: LanceField,
    mine: LanceField,
    parts: tuple[str, ...] = (),
) -> LanceField:
    """Return a field, and its parts, with the metadata that one side or both sides changed.

    Parameters
    ----------
    settlement
        Records conflicts.
    kept
        The field that gets the metadata.
    base, other, mine
        The column in the merge base, in the source and in the target.  Without a base both sides
        added the column; the target's choices of encodings count then.
    parts
        The names of the column and of the parts that lead to the field.
    """
    before: Mapping[str, str] = {} if base is None else base.metadata
    there = other.metadata
    if base is None:
        there = {k: v for k, v in there.items() if not k.startswith(_ENCODING)}
        there |= {k: v for k, v in mine.metadata.items() if k.startswith(_ENCODING)}
    path = parts or (mine.name if base is None else base.name,)
    metadata = merged_metadata(settlement, path, before, there, mine.metadata)
    sides = [side for side in (base, other, mine) if side is not None]
    names = [child.name for child in kept.children]
    if any([child.name for child in side.children] != names for side in sides):
        return replace(kept, metadata=metadata)
    children = tuple(
        with_metadata(
            settlement,
            child,
            None if base is None else base.children[at],
            other.children[at],
            mine.children[at],
            (*path, child.name),
        )
        for at, child in enumerate(kept.children)
    )
    return replace(kept, metadata=metadata, children=children)


def merged_metadata(
    settlement: Settlement,
    path: tuple[str, ...],
    base: Mapping[str, str],
    other: Mapping[str, str],
    mine: Mapping[str, str],
) -> Mapping[str, str]:
    """Return the target's metadata with the source's changes.

    ``path`` has the name of the column, then those of its parts.
    """
    base, other, own = (
        {k: v for k, v in one.items() if k not in MARKS} for one in (base, other, mine)
    )
    if other in (base, own):
        return mine
    found = dict(mine)
    where = f" in part {clean('.'.join(path[1:]))}" if path[1:] else ""
    for key in dict.fromkeys(chain(base, other)):
        what = f"given metadata {clean(key)} = {{}}{where}"
        value = settlement.one_of(path[0], what, base.get(key), other.get(key), own.get(key))
        found.pop(key, None)
        if value is not None:
            found[key] = value
    return found
