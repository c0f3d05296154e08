"""The primary key and the metadata of columns in a merge, and rows that would repeat a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa

from lancekit._format import row_address
from lancekit._format.field_marks import OF_POLARS
from lancekit._format.paths import paths_by_id
from lancekit._format.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION, LanceField, LanceSchema
from lancekit._legible import clean
from lancekit._operations.lineage.column_conflicts import KEY, Settlement, Versions, new_side
from lancekit._operations.lineage.merged_columns import MergedColumn, Settled
from lancekit._operations.lineage.three_way_columns import paired
from lancekit._operations.lineage.three_way_plan import ThreeWay
from lancekit._operations.lineage.write_rows import batches_to_write
from lancekit._pipeline.diff.row_values import Addresses, Side, row_values
from lancekit._pipeline.key_counter import KeyCounter, Repeated, example_of, key_paths, paths_in_key
from lancekit._pipeline.source_keys import key_columns, repeated_in_merge
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot


def side_of_key(settlement: Settlement, versions: Versions, columns: Sequence[MergedColumn]) -> str:
    """Return the side whose primary key the result gets: "ours" or "theirs".

    Only columns of the result count: a key loses a column only when the column is dropped.
    """
    before = [
        _key_of([column.bases[at] for column in columns]) for at in range(len(versions.bases))
    ]
    key_there, key_here = (_key_of(marking_fields(columns, side)) for side in ("theirs", "ours"))
    side = new_side(before, key_there, key_here)
    if side is None:
        here, there = (_set_to(one.manifest.schema) for one in (versions.ours, versions.theirs))
        side = settlement.settled(KEY, [here], [there])
    return side or "ours"


def marking_fields(columns: Sequence[MergedColumn], side: str) -> list[LanceField | None]:
    """Return for each column of the result the field with a side's primary-key marks.

    A dropped column takes its key marks along.  If the result keeps the column, and the side set no
    other key, the field of the merge base has the marks.
    """
    own = [column.on(side) for column in columns]
    if any(map(has_key, own)):
        return own
    bases = [next(filter(None, column.bases), None) for column in columns]
    return [field or base for field, base in zip(own, bases, strict=True)]


def _key_of(fields: Sequence[LanceField | None]) -> list[tuple[object, ...]]:
    """Return the paths of a key in key order; a column is given by its index in the result."""
    found = [
        (position, (place, *path[1:]))
        for place, field in enumerate(fields)
        if field is not None
        for path, position in paths_in_key(field)
    ]
    return [path for _, path in sorted(found, key=lambda one: (not one[0], one[0]))]


def refused_key(settlement: Settlement, side: str, schema: LanceSchema, has: str) -> str:
    """Record that rows of one side lack values of a key column; return the side to take.

    ``schema`` belongs to the side that set the key.  ``has`` names the nulls, or new rows, of the
    other side.
    """
    key, rows = [_set_to(schema)], [f"left unchanged, with {has}"]
    both = (key, rows) if side == "ours" else (rows, key)
    other = "theirs" if side == "ours" else "ours"
    return settlement.settled(KEY, *both, sides=(other,)) or side


def _set_to(schema: LanceSchema) -> str:
    return f"set to ({', '.join(clean('.'.join(path)) for path in key_paths(schema))})"


def has_key(field: LanceField | None) -> bool:
    """Return True if a column, or one of its parts, is in the primary key."""
    return field is not None and any(part.key_position is not None for part in field.walk())


def marked(field: LanceField, side: LanceField | None) -> LanceField:
    """Return a field with the primary-key marks of the same field on a side."""
    position = None if side is None else side.key_position
    # structs around a part of the key take no nulls either
    is_strict = side is not None and has_key(side) and not side.nullable
    known = {} if side is None else {k: v for k, v in side.metadata.items() if k in _MARKS}
    parts = () if side is None else side.children
    return replace(
        field,
        nullable=field.nullable and position is None and not is_strict,
        metadata={**{k: v for k, v in field.metadata.items() if k not in _MARKS}, **known},
        key_position=position,
        children=tuple(
            marked(child, parts[at] if len(parts) == len(field.children) else None)
            for at, child in enumerate(field.children)
        ),
    )


# ---- metadata of columns and of the schema in a merge: each key merges like a cell

#: metadata that mark the primary key; `side_of_key` merges the key as one value
_MARKS = PRIMARY_KEY, PRIMARY_KEY_POSITION
#: the prefix of metadata that choose encodings
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

    settlement: records conflicts.
    kept: the field that gets the metadata.
    bases, other, mine: the column in the merge bases that have it, in the source and in the target.
        Without a base, both sides added the column, and the target's encodings are used.
    parts: the names of the column and of the parts that lead to the field.
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

    ``path`` has the name of the column, then the names of its parts.
    """
    *before, other, own = (
        {k: v for k, v in one.items() if k not in _MARKS and not k.startswith(OF_POLARS)}
        for one in (*bases, other, mine)
    )
    if other == own or all(other == base for base in before):
        return mine
    found = dict(mine)
    where = f" in field {clean('.'.join(path[1:]))}" if path[1:] else ""
    for key in dict.fromkeys(chain(*before, other)):
        what = f"given metadata {clean(key)} = {{}}{where}"
        olds = [base.get(key) for base in before]
        value = settlement.one_of(path[0], what, olds, other.get(key), own.get(key))
        found.pop(key, None)
        if value is not None:
            found[key] = value
    return found


# ---- a primary key that one side set, and rows of the other side that repeat its values

#: number of rows whose keys are read at a time
_STEP = 1 << 18

#: the key columns of some rows
_Keys = Iterator[Sequence[pa.Array]]


def check_new_key(plan: ThreeWay, settled: Settled) -> None:
    """Refuse a merge that makes rows share the primary key that one side set since the base.

    The side that set the key did not know the rows of the other side.  Rows that share their key on
    that side alone are not refused.

    Raises DuplicateKeysError: rows of both sides share a key.
    """
    columns = [column for column in plan.merged.columns if has_key(column.field)]
    if not columns or not _is_new(plan):
        return
    by_ours = all(has_key(column.ours) for column in columns)
    if by_ours and not settled:
        return
    paths = paths_by_id(plan.schema)
    key = tuple(paths[field.id] for field in plan.schema.primary_key)
    total, found = _counted(_result_keys(plan, columns, key, settled))
    if not found.rows:
        return
    side = plan.ours if by_ours else plan.theirs
    if _counted(_own_keys(plan, side, columns, key, np.empty(0, np.uint64)))[1].rows >= found.rows:
        return
    example = example_of(_result_keys(plan, columns, key, settled), found)
    if example is None:
        return
    other = plan.theirs if by_ours else plan.ours
    called = side.called, plan.base.called, other.called
    raise repeated_in_merge(key, example, (found.rows, total), called)


def _is_new(plan: ThreeWay) -> bool:
    """Return True if a merge base has another primary key, or no primary key."""
    return any(
        (base is not None and has_key(base)) != has_key(column.field)
        for column in plan.merged.columns
        for base in column.bases
    )


def _counted(keys: _Keys) -> tuple[int, Repeated]:
    total = 0
    with KeyCounter() as counter:
        for columns in keys:
            total += len(columns[0])
            counter.add(columns)
        return total, counter.repeated()


def _result_keys(
    plan: ThreeWay, columns: Sequence[MergedColumn], key: Sequence[str], settled: Settled
) -> _Keys:
    """Yield the keys of the target rows that stay, then the keys of the rows to write."""
    gone = np.concatenate([settled.replaced, settled.deleted])
    yield from _own_keys(plan, plan.ours, columns, key, gone)
    for batch in batches_to_write(plan, settled):
        yield key_columns(batch, key)


def _own_keys(
    plan: ThreeWay,
    version: Snapshot,
    columns: Sequence[MergedColumn],
    key: Sequence[str],
    without: Addresses,
) -> _Keys:
    """Yield the keys of a side's rows, except ``without``, in the columns of the result."""
    schema, is_ours = version.manifest.schema, version is plan.ours
    sides = plan.theirs.manifest.schema.by_name, plan.ours.manifest.schema.by_name
    pairs = [pair for column in columns if (pair := paired(column, *sides)) is not None]
    sources = fragment_sources(version, schema)
    for source in sources:
        side, id_ = Side([source], None), source.fragment.id
        rows = row_address.addresses(id_, side.rows(id_).astype(np.uint64))
        rows = np.setdiff1d(rows, without, assume_unique=True)
        for start in range(0, len(rows), _STEP):
            values = row_values(pairs, side, rows[start : start + _STEP], new=is_ours)
            yield key_columns(pa.table(values, names=[pair.name for pair in pairs]), key)
