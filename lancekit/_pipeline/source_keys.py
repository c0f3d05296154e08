"""The keys of a merge's source: one row for each, and what indices of the target are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.paths import parse_path, path_field, pick
from lancekit._index.search.index_query import (
    ColumnCondition,
    CombinedConditions,
    Flags,
    IndexQuery,
    IntervalSet,
    ranks_of,
)
from lancekit._legible import count, literals
from lancekit._pipeline.hashed_keys import Hashes, comparable, hash_rows, known_rows
from lancekit._pipeline.probe import KeyTable, Matches, key_values, show_keys
from lancekit._scan.fragments.rebatch import joined
from lancekit._scan.index_lookup import IndexLookup, lookup_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, DuplicateKeysError

Indices = npt.NDArray[np.int64]
#: which of several rows of one key
Kept = Literal["first", "last"]

#: rows of which those that may have a key in common are found first
_MANY = 100_000


def key_columns(rows: pa.Table | pa.RecordBatch, on: Sequence[str]) -> list[pa.Array]:
    """Return the key columns of rows, each in one piece; a path leads into a struct."""
    return [_whole(_at(rows, name)) for name in on]


def _at(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray:
    if name in rows.schema.names:
        return rows.column(name)
    top, *rest = parse_path(name)
    return pick(rows.column(top), rest)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return joined(column.chunks, column.type) if isinstance(column, pa.ChunkedArray) else column


def key_schema(schema: pa.Schema, on: Sequence[str]) -> pa.Schema:
    """Return the types of key columns, by the names or paths of the keys."""
    empty = schema.empty_table()
    return pa.schema([(name, _at(empty, name).type) for name in on])


@dataclass(frozen=True)
class SourceKeys:
    """The keys that a merge looks for.

    given: the key columns of all rows.
    table: the keys, each once.
    kept: the source row of each row of ``table``; ``None`` if they are the same.
    """

    given: tuple[pa.Array, ...]
    table: KeyTable
    kept: Indices | None = None

    @property
    def rows(self) -> int:
        """The number of rows of the source."""
        return len(self.given[0])

    @classmethod
    def choose(
        cls,
        on: tuple[str, ...],
        columns: Sequence[pa.Array],
        *,
        dedupe: Kept | None = None,
        order: pa.Array | pa.ChunkedArray | None = None,
    ) -> SourceKeys:
        """Return the keys, with one row for each.

        on, columns: the names of the key columns, and their values.
        dedupe: which of several rows of one key to keep: ``"first"``, ``"last"``, or ``None`` where
            there must be one.
        order: values of which the row with the largest is kept, whatever ``dedupe`` is; a null and
            not-a-number are smaller than any other, and of equals the first row is kept.

        Raises DuplicateKeysError: a key without a null occurs more than once, and nothing says
            which one to keep.
        """
        given = tuple(columns)
        table = KeyTable(on, given)
        suspects = _suspects(given)
        among = table if suspects is None else KeyTable(on, _rows_of(given, suspects))
        found = among.repeated()
        if not len(found):
            return cls(given, table)
        repeated = found if suspects is None else suspects[found]
        if dedupe is None and order is None:
            raise repeated_in_source(on, _values(on, columns, repeated), len(repeated))
        codes = among.codes[found]
        rank = repeated if order is None else _ranks(order, repeated)
        if order is not None or dedupe == "last":
            rank = -rank
        by_key = np.lexsort((rank, codes))
        chosen = repeated[by_key[np.unique(codes[by_key], return_index=True)[1]]]
        keep = np.ones(len(given[0]), bool)
        keep[repeated] = False
        keep[chosen] = True
        kept = np.flatnonzero(keep)
        return cls(given, KeyTable(on, _rows_of(given, kept)), kept)

    @property
    def skipped(self) -> int:
        """The number of source rows that are left out, because others have their keys."""
        return 0 if self.kept is None else self.rows - len(self.kept)

    def without_values(self) -> SourceKeys:
        """Return which rows take part, and no keys."""
        none = KeyTable(self.table.names, ())
        return replace(self, given=(pa.nulls(self.rows),), table=none)

    def unmatched(self, matched: Sequence[Indices]) -> npt.NDArray[np.bool_]:
        """Tell of each source row whether it takes part and has no match."""
        alone = np.ones(self.rows, bool) if self.kept is None else np.zeros(self.rows, bool)
        if self.kept is not None:
            alone[self.kept] = True
        for rows in matched:
            alone[rows] = False
        return alone

    def restored(self, match: Matches) -> Matches:
        """Return what a probe of ``table`` found, with the source's own rows."""
        if self.kept is None:
            return match
        return Matches(
            fragment_id=match.fragment_id,
            offsets=match.offsets,
            source_rows=self.kept[match.source_rows],
        )


def _rows_of(columns: Sequence[pa.Array], rows: Indices) -> tuple[pa.Array, ...]:
    at = pa.array(rows)
    return tuple(ak.take(column, at) for column in columns)


def _suspects(columns: Sequence[pa.Array]) -> Indices | None:
    """Return the rows whose key may be another's too; ``None`` if there are few rows anyway.

    A hash table of many keys would be several times as large as they are.
    """
    if len(columns[0]) < _MANY:
        return None
    comparables = [comparable(column) for column in columns]
    rows = None
    if any(ak.null_count(column) for column in comparables):
        rows = known_rows(comparables)
    hashes = _hashes(comparables, rows)
    hashes.sort()  # in place, and made once more if there are repeated ones, which is seldom
    twice = hashes[1:][hashes[1:] == hashes[:-1]]
    if not len(twice):
        return np.empty(0, np.int64)
    found = np.flatnonzero(np.isin(_hashes(comparables, rows), twice))
    return found if rows is None else rows[found]


def _hashes(columns: Sequence[pa.Array], rows: Indices | None) -> Hashes:
    """Return the hashes of some rows, or of all."""
    hashes = hash_rows(columns)
    return hashes if rows is None else hashes[rows]


def _ranks(order: pa.Array | pa.ChunkedArray, rows: Indices) -> Indices:
    """Return for each row a number that is larger if its value is; equal for equal values."""
    values = ak.sortable(ak.take(_whole(order), rows))
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    ranks = ak.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    return np.where(known, ranks, 0).astype(np.int64)


def _values(
    on: tuple[str, ...], columns: Sequence[pa.Array], rows: Indices
) -> list[tuple[object, ...]]:
    return key_values(pa.table(list(columns), names=list(on)), on, rows)


# ---- the errors for several rows with one key: each text stands here alone

_HINT = (
    "Say which row to keep: merge_insert(..., dedupe='last'), or dedupe_by= and a column of which "
    "the largest value counts."
)


def repeated_in_source(
    on: tuple[str, ...], keys: list[tuple[object, ...]], rows: int, hint: str = _HINT
) -> DuplicateKeysError:
    """Return the error for a merge's source in which keys occur more than once."""
    return DuplicateKeysError(
        f"{rows} rows of the source share their keys with others: {show_keys(on, keys)}.",
        hint=hint,
        keys=keys,
        on=on,
    )


def repeated_in_write(
    message: str, on: tuple[str, ...], example: tuple[object, ...]
) -> DuplicateKeysError:
    """Return the error for a write with ``primary_key_check="error"`` whose rows share a key."""
    return DuplicateKeysError(
        message,
        hint="Leave one row for each key. primary_key_check='warn' writes them.",
        keys=[example],
        on=on,
    )


def repeated_in_merge(
    key: tuple[str, ...],
    example: tuple[object, ...],
    rows: tuple[int, int],
    called: tuple[str, str, str],
) -> DuplicateKeysError:
    """Return the error for a merge of branches of which one set a key that the other's rows repeat.

    ``rows`` holds how many rows share their keys and how many there are; ``called`` names the
    version that set the key, the merge base, and the version of the other side.
    """
    repeated, total = rows
    setter, base, other = called
    named = literals(dict(zip(key, example, strict=True)))
    return DuplicateKeysError(
        f"{count(repeated)} of {count(total)} merged rows would share their primary key "
        f"({', '.join(key)}) with another row: for example, more than one row would have {named}. "
        f"{setter.capitalize()} set the key since {base}, and {other} has other rows.",
        hint="Delete or change these rows on one side, or take the key back, and merge again. "
        f"ds.duplicates({list(key)!r}) shows such rows of a version.",
        keys=[example],
        on=key,
        duplicates=repeated,
    )


def repeated_since_checked(on: tuple[str, ...]) -> DuplicateKeysError:
    """Return the error for a merge's source on Spark that came out different the second time."""
    return DuplicateKeysError(
        "The source held each key once when it was checked, and one of them twice when it was "
        "merged: a part that Spark had cached was lost, and came out different.",
        hint="Write the source to a table first, and merge that.",
        on=on,
    )


def repeated_in_columns(name: str, value: object) -> DuplicateKeysError:
    """Return the error for new columns on Spark of which several rows have one key."""
    return DuplicateKeysError(
        f"Several of the new rows have the key {name} = {value!r}.",
        hint="Leave one row for each key: rows on Spark have no order, so none is the last.",
        keys=[(value,)],
    )


# ---- keys of a source as a question to the indices of the target's key columns
#
# What they find is looked at again: so an index that names too many rows does no harm.

#: types of which an index orders and compares values as keys are; zeros and NaNs are many floats
_TYPES = (
    pt.is_integer,
    pt.is_temporal,
    pt.is_decimal,
    pt.is_boolean,
    pt.is_string,
    pt.is_large_string,
    pt.is_binary,
    pt.is_large_binary,
    pt.is_fixed_size_binary,
)


def key_lookup(snapshot: Snapshot, keys: KeyTable) -> IndexLookup | None:
    """Return what asks the indices of a version which rows may have one of some keys.

    ``None`` if no column of the key has an index that tells rows.  Nothing but the manifest is
    looked at before it is asked.
    """
    if not snapshot.indices:
        return None
    schema = snapshot.manifest.schema
    places = {
        name: place
        for place, name in enumerate(keys.names)
        if keys.columns[place].type == path_field(schema, name).type
        and any(fits(keys.columns[place].type) for fits in _TYPES)
    }

    def make_query() -> IndexQuery:
        parts = [_key_condition(keys, place, name) for name, place in places.items()]
        return CombinedConditions(tuple(parts), all_of=True, whole=False)

    return lookup_of(snapshot, places, make_query, exact=True)


def _key_condition(keys: KeyTable, place: int, name: str) -> ColumnCondition:
    values = ak.drop_null(keys.columns[place]).unique()
    ranks = ranks_of(values)
    return ColumnCondition(
        column=name,
        type=values.type,
        matches=partial(_are_keys, keys, place),
        interval_set=None if ranks is None else IntervalSet.points(ranks),
    )


def _are_keys(keys: KeyTable, place: int, values: pa.Array) -> Flags:
    """Tell which values are in a column of the keys."""
    if values.type != keys.columns[place].type:
        raise CorruptFileError(f"it holds {values.type} of a column of {keys.columns[place].type}")
    flags = np.zeros(len(values), bool)
    flags[keys.find(place, values)[0]] = True
    return flags
