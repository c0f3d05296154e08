"""The history of a column: every version that made it, changed it as a whole, or dropped it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

from lancekit.errors import ColumnNotFoundError
from lancekit.format.operations import Overwrite
from lancekit.format.schema import LanceField
from lancekit.operations.lineage.columns import column_pairs, fragments_apart
from lancekit.operations.lineage.rows import seen
from lancekit.operations.lineage.trace import Pace, is_first, way_back
from lancekit.pipeline.diff.fragments import ColumnPair, shared
from lancekit.scan.fragments.source import fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = ["ColumnEntry", "ColumnKind", "column_entries"]

ColumnKind: TypeAlias = Literal["added", "found", "cast", "renamed", "rewritten", "dropped"]


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """What a version did to a column: `old` and `new` are what it was and is, if it was and is."""

    kind: ColumnKind
    version: Snapshot
    before: Snapshot | None
    old: LanceField | None
    new: LanceField | None


def column_entries(snapshot: Snapshot, name: str) -> list[ColumnEntry]:
    """Return what became of a column up to a version, newest first; no rows are read.

    Raises
    ------
    ColumnNotFoundError
        No version that can be read has a column of that name.
    """
    found = list(_entries(snapshot, name))
    if not found:
        snapshot.manifest.schema.field(name)  # which names what is like it
        raise ColumnNotFoundError(f"No version that can be read has a column {name!r}.")
    return found


def _entries(snapshot: Snapshot, name: str) -> Iterator[ColumnEntry]:
    field, oldest = _field(snapshot, name), snapshot
    is_new = field is None  # no version so far had it
    for pace in way_back(snapshot, ()):
        oldest = pace.old
        if field is None:
            field = _field(pace.old, name)
            if field is None:
                continue
            renamed = _renamed(pace, field)
            if renamed is None:
                yield ColumnEntry("dropped", pace.new, pace.old, field, None)
            elif is_new:
                # the column is there, by another name: its history goes on
                yield from _entries(snapshot, renamed.name)
                return
            else:
                yield ColumnEntry("renamed", pace.new, pace.old, field, renamed)
            is_new = False
            continue
        is_new = False
        pair = _pair(pace, field)
        if pair.old is None:
            yield ColumnEntry("added", pace.new, pace.old, None, field)
            field = _field(pace.old, name)  # another one, which went as this one came
            if field is not None:
                renamed = _renamed(pace, field)
                kind: ColumnKind = "dropped" if renamed is None else "renamed"
                yield ColumnEntry(kind, pace.new, pace.old, field, renamed)
            continue
        for kind in _changes(pace, pair, pair.old):
            yield ColumnEntry(kind, pace.new, pace.old, pair.old, field)
        field = pair.old
    if field is not None:
        yield ColumnEntry("added" if is_first(oldest) else "found", oldest, None, None, field)


def _renamed(pace: Pace, old: LanceField) -> LanceField | None:
    """Return what a column of the older version is in the newer one, by another name."""
    pairs = column_pairs(pace.old, pace.new)
    found = (pair.new for pair in pairs if pair.old is not None and pair.old.name == old.name)
    return next((new for new in found if new is not None and new.name != old.name), None)


def _field(snapshot: Snapshot, name: str) -> LanceField | None:
    return next((field for field in seen(snapshot).fields if field.name == name), None)


def _pair(pace: Pace, field: LanceField) -> ColumnPair:
    if pace.old.manifest.schema.fields == pace.new.manifest.schema.fields:
        return ColumnPair(field.name, field.to_arrow().type, field, field)
    pairs = column_pairs(pace.old, pace.new)
    return next(pair for pair in pairs if pair.name == field.name)


def _changes(pace: Pace, pair: ColumnPair, old: LanceField) -> Iterator[ColumnKind]:
    if old.name != pair.name:
        yield "renamed"
    if _type(old) != pair.kind:
        yield "cast"
    elif _is_rewritten(pace, pair):
        yield "rewritten"


def _type(field: LanceField) -> pa.DataType:
    return field.to_arrow().type


def _is_rewritten(pace: Pace, pair: ColumnPair) -> bool:
    """Return whether the values of rows that stayed lie elsewhere; of an overwrite none did."""
    done = pace.new.transaction
    if done is not None and isinstance(done.operation, Overwrite):
        return True
    if not pace.places or not len(pace.changed):
        return False
    before, after = (fragment_sources(side, seen(side)) for side in (pace.old, pace.new))
    places, others = fragments_apart(pace.old, pace.new)
    found = shared([before[at] for at in places], [after[at] for at in others], [pair])
    return any(one.columns for one in found.pairs)
