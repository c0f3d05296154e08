"""Some changed rows of a diff for display, without large values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from lancekit._api.diff_rows import ChangedRow, DiffRows
from lancekit._format.field_marks import holds_blobs
from lancekit._format.schema import LanceField
from lancekit._operations.explain.explanation import stored_bytes
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.row_values import Addresses, read_rows
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import FragmentSource
from lancekit._versions.snapshot import Snapshot

#: the most stored bytes of a value, on average, that is read
_WIDE_BYTES = 1 << 16
#: the fragments in which the size of values is looked up
_OPENED = 2


@dataclass(frozen=True, slots=True)
class BlobSize:
    """The size of a blob, in the place of its bytes."""

    bytes: int


#: the sizes of the blobs of some rows, by column
_Sizes: TypeAlias = dict[str, list[BlobSize | None]]


@dataclass(frozen=True, slots=True)
class SomeRows:
    """Some changed rows.

    `added` are values of added columns in some updated rows.  `wide` are columns that were not read
    because their values are large.
    """

    rows: Sequence[ChangedRow] = ()
    added: Sequence[ChangedRow] = ()
    wide: Sequence[str] = ()


def some_rows(diff: DiffRows, n: int, most: int, heavy: Sequence[ColumnPair]) -> SomeRows:
    """Return some rows of each kind, with few columns that both sides have.

    Updated rows that differ in added columns only are left out.

    n: the most rows.
    most: the most columns besides the key; changed columns have precedence.
    heavy: columns with blobs, whose sizes replace their values.
    """
    found, blobs = diff.changes, {pair.name for pair in heavy}
    at = np.flatnonzero(found.shared_widths)
    sizes = shares((len(at), len(found.inserted), len(found.deleted)), n)
    inserted, deleted = found.inserted[: sizes[1]], found.deleted[: sizes[2]]
    old, new = (side[at[: sizes[0]]] for side in found.updated)
    both = [pair for pair in diff.columns if pair.old is not None and pair.name not in blobs]
    key = [pair for pair in both if pair.name in diff.plan.key]
    changed = [pair for pair in both if found.cells[pair.name] and pair not in key]
    others = [pair for pair in both if pair not in changed and pair not in key]
    picked = [*changed, *(others if sizes[1] + sizes[2] else ())][:most]
    wide = [p.name for p in picked if _is_wide(diff, p, np.concatenate([new, inserted]), deleted)]
    shown = [*key, *(pair for pair in picked if pair.name not in wide)]
    before, after, come, gone = (
        _blob_sizes(diff, heavy, rows, new=is_new)
        for rows, is_new in ((old, False), (new, True), (inserted, True), (deleted, False))
    )
    rows = [
        *_with_sizes(diff.updated_rows(old, new, shown), before, after),
        *_with_sizes(diff.rows_alone("insert", inserted, shown), {}, come),
        *_with_sizes(diff.rows_alone("delete", deleted, shown), gone, {}),
    ]
    return SomeRows(rows, _added(diff, key, n - len(rows) // 2, most), wide)


def _added(diff: DiffRows, key: Sequence[ColumnPair], n: int, most: int) -> list[ChangedRow]:
    """Return values of added columns in some updated rows."""
    found = diff.changes
    few = found.updated[1][:n]
    lacked = [pair for pair in diff.columns if pair.old is None and found.cells[pair.name]]
    columns = [pair for pair in lacked[:most] if not _is_wide(diff, pair, few, few[:0])]
    come = diff.rows_alone("insert", few, [*key, *columns]) if columns else []
    return [replace(row, change="update") for row in come]


def _is_wide(diff: DiffRows, pair: ColumnPair, new: Addresses, old: Addresses) -> bool:
    olds, news = diff.sides
    return is_wide(diff.plan.new, pair.new, news.sources(new)) or (
        pair.old is not None and is_wide(diff.plan.old, pair.old, olds.sources(old))
    )


def is_wide(snapshot: Snapshot, field: LanceField, sources: Sequence[FragmentSource]) -> bool:
    """Return True if a column's values in some fragments are too large to read for a card."""
    some = sources[:_OPENED]
    rows = sum(source.fragment.physical_rows for source in some)
    return stored_bytes(some, snapshot.manifest.schema, [field.name]) > rows * _WIDE_BYTES


def _blob_sizes(
    diff: DiffRows, heavy: Sequence[ColumnPair], rows: Addresses, *, new: bool
) -> _Sizes:
    """Return the sizes of blobs by column, from their descriptors."""
    side = diff.plan.new if new else diff.plan.old
    stored = {field.id: field for field in side.manifest.schema.fields}
    fields = {pair.name: pair.new if new else pair.old for pair in heavy}
    own = {name: stored[field.id] for name, field in fields.items() if field is not None}
    names = {name: one.name for name, one in own.items() if holds_blobs(one.metadata)}
    if not names or not len(rows):
        return {}
    view = blob_view(side.manifest.schema)
    table = read_rows(side, rows, view).read(list(names.values()), rows)
    blobs = {name: table[stored_name].to_pylist() for name, stored_name in names.items()}
    return {name: [one and BlobSize(one["size"]) for one in blobs[name]] for name in blobs}


def _with_sizes(rows: Sequence[ChangedRow], old: _Sizes, new: _Sizes) -> list[ChangedRow]:
    """Return the rows with the sizes of blobs, where they differ."""
    found = []
    for at, row in enumerate(rows):
        ends = {
            name: tuple(sizes[name][at] if name in sizes else None for sizes in (old, new))
            for name in {**old, **new}
        }
        differ = {name: (was, now) for name, (was, now) in ends.items() if was != now}
        found.append(replace(row, cells={**row.cells, **differ}))
    return found


def shares(numbers: Sequence[int], most: int) -> list[int]:
    """Divide ``most`` places among kinds of rows: equal shares, and the rest to the first kinds.

    Examples
    --------
    >>> shares([40, 1, 9], 10)
    [5, 1, 4]
    """
    found = [0] * len(numbers)
    while sum(found) < min(most, sum(numbers)):
        for at, number in enumerate(numbers):
            if found[at] < number and sum(found) < most:
                found[at] += 1
    return found
