"""The primary key in a merge: one value, which comes from the side that changed the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lancekit.format.schema import LanceField, LanceSchema
from lancekit.legible import clean
from lancekit.operations.common.key_guard import key_paths
from lancekit.operations.lineage.column_conflicts import KEY, Settlement, new_side
from lancekit.operations.lineage.column_metadata import MARKS
from lancekit.operations.lineage.column_tracks import Track, Versions

__all__ = ["has_key", "marked", "refused_key", "side_of_key"]


def side_of_key(settlement: Settlement, versions: Versions, columns: Sequence[Track]) -> str:
    """Return the side whose primary key the result gets: "ours" or "theirs".

    A key that lost columns lost them with the columns themselves, so dropped columns do not count.
    """
    *before, key_there, key_here = (
        _key_of(version.manifest.schema, at, columns) for at, version in enumerate(versions.all)
    )
    side = new_side(before, key_there, key_here)
    if side is None:
        here, there = (_set_to(one.manifest.schema) for one in (versions.ours, versions.theirs))
        side = settlement.settled(KEY, [here], [there])
    return side or "ours"


def _key_of(schema: LanceSchema, at: int, columns: Sequence[Track]) -> list[tuple[object, ...]]:
    """Return the paths of a version's key, each column as its place among the columns."""
    places = dict[str, int]()
    for place, track in enumerate(columns):
        field = (*track.bases, track.theirs, track.ours)[at]
        if field is not None and not track.is_dropped:
            places[field.name] = place
    return [(places[top], *rest) for top, *rest in key_paths(schema) if top in places]


def refused_key(settlement: Settlement, side: str, schema: LanceSchema) -> str:
    """Record that rows of one side have no value of a new key column; return the side to take.

    ``schema`` is the schema of the side that set the key.
    """
    key, rows = [_set_to(schema)], ["left as it was, with new rows"]
    both = (key, rows) if side == "ours" else (rows, key)
    other = "theirs" if side == "ours" else "ours"
    return settlement.settled(KEY, *both, sides=(other,)) or side


def _set_to(schema: LanceSchema) -> str:
    return f"set to ({', '.join(clean('.'.join(path)) for path in key_paths(schema))})"


def has_key(field: LanceField | None) -> bool:
    """Return True if a column, or a part of it, is in the primary key."""
    return field is not None and any(part.key_position is not None for part in field.walk())


def marked(field: LanceField, side: LanceField | None) -> LanceField:
    """Return a field with the marks of the primary key that the field has on a side."""
    position = None if side is None else side.key_position
    known = {} if side is None else {k: v for k, v in side.metadata.items() if k in MARKS}
    parts = () if side is None else side.children
    return replace(
        field,
        nullable=field.nullable and position is None,
        metadata={**{k: v for k, v in field.metadata.items() if k not in MARKS}, **known},
        key_position=position,
        children=tuple(
            marked(child, parts[at] if len(parts) == len(field.children) else None)
            for at, child in enumerate(field.children)
        ),
    )
