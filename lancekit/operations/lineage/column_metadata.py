"""Metadata of columns and of the schema in a merge: each key merges like a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    bases: Sequence[LanceField],
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
    bases, other, mine
        The column in the merge bases that have it, in the source and in the target.  Without a base
        both sides added the column; the target's choices of encodings count then.
    parts
        The names of the column and of the parts that lead to the field.
    """
    there = other.metadata
    if not bases:
        there = {k: v for k, v in there.items() if not k.startswith(_ENCODING)}
        there |= {k: v for k, v in mine.metadata.items() if k.startswith(_ENCODING)}
    path = parts or ((*bases, mine)[0].name,)
    before = [base.metadata for base in bases] or [{}]
    metadata = merged_metadata(settlement, path, before, there, mine.metadata)
    names = [child.name for child in kept.children]
    if any([child.name for child in side.children] != names for side in (*bases, other, mine)):
        return replace(kept, metadata=metadata)
    children = tuple(
        with_metadata(
            settlement,
            child,
            [base.children[at] for base in bases],
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
    bases: Sequence[Mapping[str, str]],
    other: Mapping[str, str],
    mine: Mapping[str, str],
) -> Mapping[str, str]:
    """Return the target's metadata with the source's changes.

    ``path`` has the name of the column, then those of its parts.
    """
    *before, other, own = (
        {k: v for k, v in one.items() if k not in MARKS} for one in (*bases, other, mine)
    )
    if other == own or all(other == base for base in before):
        return mine
    found = dict(mine)
    where = f" in part {clean('.'.join(path[1:]))}" if path[1:] else ""
    for key in dict.fromkeys(chain(*before, other)):
        what = f"given metadata {clean(key)} = {{}}{where}"
        olds = [base.get(key) for base in before]
        value = settlement.one_of(path[0], what, olds, other.get(key), own.get(key))
        found.pop(key, None)
        if value is not None:
            found[key] = value
    return found
