"""A merge-insert, worked out: which target rows go, which rows are new (operations, 5).

Only the join differs between engines; what it finds is a `MergeWork` either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit.errors import MatchedRowsError
from lancekit.format.deletions import to_bitmap
from lancekit.format.fragment import Fragment
from lancekit.format.key_filter import hash_keys
from lancekit.format.paths import pick
from lancekit.format.row_ids_encode import encode_row_ids
from lancekit.pipeline.mark import Marked, MarkTask, find_rows
from lancekit.pipeline.probe import (
    KeyTable,
    Matches,
    ProbeTask,
    key_values,
    probe_fragment,
    show_keys,
)
from lancekit.pipeline.write import WriteTask, write_fragments
from lancekit.scan.blobs import blob_view
from lancekit.scan.fragment import FragmentReader
from lancekit.scan.predicate import Predicate
from lancekit.scan.sources import FragmentSource

__all__ = [
    "MergeClauses",
    "MergeWork",
    "condition_holds",
    "guard_hashes",
    "mark_fragments",
    "matched_rows",
    "merge_locally",
    "with_row_ids",
]

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClauses:
    """What a merge-insert does with each kind of row.

    Attributes
    ----------
    on
        The columns that are compared.
    matched
        ``"keep"``, ``"update"``, ``"delete"`` or ``"fail"``.
    condition
        Over columns ``source`` and ``target`` (structs): which matched rows are updated.
    insert
        Whether source rows without a match are inserted.
    delete_by_source
        ``None``: target rows without a match stay; else the predicate that selects those that
        go, ``""`` for all of them.
    guard
        The paths of the primary key's columns, in its order, whose hashes the key filter holds;
        empty if it is not written.
    guard_updates
        Whether updated rows may get other keys too, so that the filter has to hold theirs.
    """

    on: tuple[str, ...]
    matched: str = "keep"
    condition: str | None = None
    insert: bool = False
    delete_by_source: str | None = None
    guard: tuple[tuple[str, ...], ...] = ()
    guard_updates: bool = False


@dataclass(frozen=True, kw_only=True)
class MergeWork:
    """What a merge-insert wrote and found; nothing refers to it yet.

    `inserted_hashes` are those of the keys that may be new; ``None`` if nothing is guarded.
    """

    marked: tuple[Marked, ...] = ()
    new_fragments: tuple[Fragment, ...] = ()
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    inserted_hashes: Hashes | None = None


def merge_locally(
    source: pa.Table,
    sources: Sequence[FragmentSource],
    clauses: MergeClauses,
    task: WriteTask,
    map_tasks: Callable[..., list[Any]],
) -> MergeWork:
    """Work out a merge of a table that fits into memory.

    Parameters
    ----------
    source
        The source's rows, in the dataset's types; columns of the dataset may be missing.
    sources
        The target's fragments.
    clauses
        What to do.
    task
        Where new rows go.
    map_tasks
        A runner's ``map``.
    """
    keys = KeyTable(clauses.on, tuple(source.column(name).combine_chunks() for name in clauses.on))
    matches = map_tasks(probe_fragment, [ProbeTask(source=s, keys=keys) for s in sources])
    by_id = {s.fragment.id: s for s in sources}
    touched = [m for m in matches if len(m.offsets)]
    if clauses.matched == "fail" and touched:
        rows = np.concatenate([m.source_rows for m in touched])
        raise matched_rows(clauses.on, key_values(source, clauses.on, rows), len(rows))
    unmatched = np.ones(source.num_rows, bool)
    for match in touched:
        unmatched[match.source_rows] = False
    # a condition decides which matched rows change; the others are still matched
    changed = [_where_condition(by_id[m.fragment_id], m, source, clauses) for m in touched]
    inserted = np.flatnonzero(unmatched) if clauses.insert else np.empty(0, np.int64)
    updates = changed if clauses.matched == "update" else []
    new = _new_rows(source, updates, inserted, by_id, task)
    gone = changed if clauses.matched in {"update", "delete"} else []
    marked, left_out = mark_fragments(
        sources, _offsets(touched), _offsets(gone), clauses, map_tasks
    )
    fragments = write_fragments(new.to_batches(), task) if new.num_rows else []
    if updates and sources[0].stable_row_ids:
        moved = [FragmentReader(by_id[m.fragment_id]).row_ids(m.offsets) for m in updates]
        fragments = with_row_ids(fragments, np.concatenate(moved))
    keyed = [m.source_rows for m in updates] if clauses.guard_updates else []
    guarded = source.take(pa.array(np.concatenate([*keyed, inserted])))
    changed_rows = sum(len(m.offsets) for m in gone)
    return MergeWork(
        marked=marked,
        new_fragments=tuple(fragments),
        inserted=len(inserted),
        updated=changed_rows if clauses.matched == "update" else 0,
        deleted=left_out + (changed_rows if clauses.matched == "delete" else 0),
        inserted_hashes=guard_hashes(guarded, clauses) if clauses.guard else None,
    )


def guard_hashes(rows: pa.Table | pa.RecordBatch, clauses: MergeClauses) -> Hashes:
    """Return the hashes of the primary keys of rows; none where no filter is written."""
    keys = [pick(rows.column(top), rest) for top, *rest in clauses.guard]
    return hash_keys(keys) if keys else np.empty(0, np.uint64)


def with_row_ids(fragments: Iterable[Fragment], ids: npt.NDArray[np.uint64]) -> list[Fragment]:
    """Give the first rows of new fragments the ids they had where they were moved from.

    The commit takes the rows behind them, which have no ids, for new ones.
    """
    out, start = [], 0
    for fragment in fragments:
        mine = ids[start : start + fragment.physical_rows]
        start += fragment.physical_rows
        ids_of = encode_row_ids(*_ascending(mine)) if len(mine) else fragment.row_ids
        out.append(replace(fragment, row_ids=ids_of))
    return out


def _ascending(ids: npt.NDArray[np.uint64]) -> list[npt.NDArray[np.uint64]]:
    """Cut ids into ascending pieces, which take less room, where these are few."""
    descents = np.flatnonzero(ids[1:] <= ids[:-1]) + 1
    return np.split(ids, descents) if len(descents) * 16 < len(ids) else [ids]


def _offsets(matches: Sequence[Matches]) -> dict[int, BitMap]:
    return {m.fragment_id: to_bitmap(m.offsets) for m in matches}


def matched_rows(
    on: tuple[str, ...], keys: list[tuple[object, ...]], rows: int
) -> MatchedRowsError:
    """Return the error for rows that have a match where none is allowed."""
    return MatchedRowsError(
        f"{rows} rows of the dataset have a key of the source, which when_matched_fail "
        f"forbids: {show_keys(on, keys)}.",
        hint="Nothing was written. Leave these rows out, or use when_matched_update_all().",
        keys=keys,
        on=on,
    )


def _where_condition(
    target: FragmentSource, match: Matches, source: pa.Table, clauses: MergeClauses
) -> Matches:
    if clauses.condition is None or clauses.matched != "update":
        return match
    old = FragmentReader(target).read(target.schema.names, match.offsets)
    new = source.take(pa.array(match.source_rows))
    chosen = condition_holds(clauses.condition, new, old)
    return Matches(
        fragment_id=match.fragment_id,
        offsets=match.offsets[chosen],
        source_rows=match.source_rows[chosen],
    )


def condition_holds(condition: str, source: pa.Table, target: pa.Table) -> npt.NDArray[np.int64]:
    """Return for which pairs of a source row and the target row that it matches it holds."""
    pairs = pa.table({"source": _as_struct(source), "target": _as_struct(target)})
    found = Predicate.parse(condition, pairs.schema).mask(pairs)
    return np.flatnonzero(found.to_numpy(zero_copy_only=False))


def _as_struct(table: pa.Table) -> pa.Array:
    return table.combine_chunks().to_struct_array().combine_chunks()


def _new_rows(
    source: pa.Table,
    updates: Sequence[Matches],
    inserted: npt.NDArray[np.int64],
    by_id: Mapping[int, FragmentSource],
    task: WriteTask,
) -> pa.Table:
    """Return updated rows in the target's order, then inserted ones in the source's."""
    schema = task.schema.to_arrow()
    order = [m.source_rows for m in updates] + [inserted]
    rows = source.take(pa.array(np.concatenate(order)))
    missing = [name for name in schema.names if name not in source.column_names]
    if missing:
        kept = [FragmentReader(by_id[m.fragment_id]).read(missing, m.offsets) for m in updates]
        for name in missing:
            chunks = [chunk for table in kept for chunk in table.column(name).chunks]
            blank = pa.nulls(len(inserted), schema.field(name).type)
            rows = rows.append_column(name, pa.chunked_array([*chunks, blank]))
    return pa.table([rows.column(name) for name in schema.names], schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RemoveTask:
    """A fragment, which of its rows are replaced or deleted, and which have a match.

    Can be sent to a worker.
    """

    source: FragmentSource
    gone: BitMap
    matched: BitMap
    delete_by_source: str | None


def mark_fragments(
    sources: Sequence[FragmentSource],
    matched: Mapping[int, BitMap],
    gone: Mapping[int, BitMap],
    clauses: MergeClauses,
    map_tasks: Callable[..., list[Any]],
) -> tuple[tuple[Marked, ...], int]:
    """Return the rows to delete of each fragment, and how many of them had no match.

    Parameters
    ----------
    sources
        The target's fragments.
    matched, gone
        By fragment id, the offsets of rows that have a match, and of those that are replaced or
        deleted for it.
    clauses
        What to do.
    map_tasks
        A runner's ``map``.
    """
    by_source = clauses.delete_by_source
    tasks = [
        _RemoveTask(
            source=s,
            gone=gone.get(s.fragment.id, BitMap()),
            matched=matched.get(s.fragment.id, BitMap()),
            delete_by_source=by_source,
        )
        for s in sources
        if by_source is not None or s.fragment.id in gone
    ]
    found: list[tuple[Marked, int]] = map_tasks(_mark_removed, tasks)
    return tuple(m for m, _ in found if m.rows), sum(rows for _, rows in found)


def _mark_removed(task: _RemoveTask) -> tuple[Marked, int]:
    reader = FragmentReader(task.source)
    unmatched = _live(task, reader) - task.matched
    rows = task.gone | unmatched
    id_ = task.source.fragment.id
    return Marked(fragment_id=id_, rows=rows, deleted_before=reader.deleted), len(unmatched)


def _live(task: _RemoveTask, reader: FragmentReader) -> BitMap:
    """Return the live rows that go if they have no match."""
    if task.delete_by_source is None:
        return BitMap()
    if not task.delete_by_source:
        return BitMap(range(reader.physical_rows)) - reader.deleted
    schema = blob_view(task.source.schema)
    predicate = Predicate.parse(task.delete_by_source, schema.to_arrow())
    source = replace(task.source, schema=schema)
    return find_rows(MarkTask(source=source, predicate=predicate)).rows
