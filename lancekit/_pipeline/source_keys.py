"""The keys of a merge's source: one row for each key, and the query of the target's indices."""

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
#: which of several rows with one key to keep
Kept = Literal["first", "last"]

#: from this many rows on, hashes first select the rows whose keys may repeat
_MANY = 100_000


def key_columns(rows: pa.Table | pa.RecordBatch, on: Sequence[str]) -> list[pa.Array]:
    """Return the key columns of rows, each as one array; a path leads into a struct."""
    return [_whole(_at(rows, name)) for name in on]


def _at(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray:
    if name in rows.schema.names:
        return rows.column(name)
    top, *rest = parse_path(name)
    return pick(rows.column(top), rest)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return joined(column.chunks, column.type) if isinstance(column, pa.ChunkedArray) else column


def key_schema(schema: pa.Schema, on: Sequence[str]) -> pa.Schema:
    """Return the types of the key columns, by the names or paths of the keys."""
    empty = schema.empty_table()
    return pa.schema([(name, _at(empty, name).type) for name in on])


@dataclass(frozen=True)
class SourceKeys:
    """The keys that a merge looks up.

    given: the key columns of all rows.
    table: the keys, each once.
    kept: the number of the source row of each row of ``table``; ``None`` if the numbers are equal.
    """

    given: tuple[pa.Array, ...]
    table: KeyTable
    kept: Indices | None = None

    @property
    def rows(self) -> int:
        """The number of rows in the source."""
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
        dedupe: which of several rows with one key to keep: ``"first"``, ``"last"``, or ``None`` if
            keys must not repeat.
        order: a value for each row: of rows with one key, the row with the largest value is kept,
            whatever ``dedupe`` is.  Null and NaN are the smallest; of equal ones the first counts.

        Raises DuplicateKeysError: a key without a null occurs more than once, and no argument
            selects a row.
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
            keys = key_values(pa.table(given, names=list(on)), on, repeated)
            raise repeated_in_source(on, keys, len(repeated))
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
        """The number of source rows that are dropped, because other rows have their keys."""
        return 0 if self.kept is None else self.rows - len(self.kept)

    def without_values(self) -> SourceKeys:
        """Return only the selection of rows, without the keys."""
        none = KeyTable(self.table.names, ())
        return replace(self, given=(pa.nulls(self.rows),), table=none)

    def unmatched(self, matched: Sequence[Indices]) -> npt.NDArray[np.bool_]:
        """Return a mask of the source rows that take part and have no match."""
        flags = np.ones(self.rows, bool) if self.kept is None else np.zeros(self.rows, bool)
        if self.kept is not None:
            flags[self.kept] = True
        for rows in matched:
            flags[rows] = False
        return flags

    def restored(self, match: Matches) -> Matches:
        """Translate row numbers of ``table`` in matches into row numbers of the source."""
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
    """Return the rows whose key may repeat; ``None`` (for all rows) if there are few rows.

    A hash table of many keys would take several times the memory of the keys.
    """
    if len(columns[0]) < _MANY:
        return None
    comparables = [comparable(column) for column in columns]
    rows = None
    if any(ak.null_count(column) for column in comparables):
        rows = known_rows(comparables)
    hashes = _hashes(comparables, rows)
    hashes.sort()  # loses their order, so they are computed again in the rare case of repeats
    twice = hashes[1:][hashes[1:] == hashes[:-1]]
    if not len(twice):
        return np.empty(0, np.int64)
    found = np.flatnonzero(np.isin(_hashes(comparables, rows), twice))
    return found if rows is None else rows[found]


def _hashes(columns: Sequence[pa.Array], rows: Indices | None) -> Hashes:
    """Return the hashes of some rows, or of all rows."""
    hashes = hash_rows(columns)
    return hashes if rows is None else hashes[rows]


def _ranks(order: pa.Array | pa.ChunkedArray, rows: Indices) -> Indices:
    """Return the dense rank of each row's value; 0 for null and NaN."""
    values = ak.sortable(ak.take(_whole(order), rows))
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    ranks = ak.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    return np.where(known, ranks, 0).astype(np.int64)


# ---- the errors for several rows with one key: all of their texts are here

_HINT = (
    "Choose a row for each key: merge_insert(..., dedupe_by=) with a column whose largest value is "
    "kept, or dedupe='last', which Spark DataFrames lack."
)


def repeated_in_source(
    on: tuple[str, ...], keys: list[tuple[object, ...]], rows: int, hint: str = _HINT
) -> DuplicateKeysError:
    """Return the error for a merge source in which keys occur more than once."""
    return DuplicateKeysError(
        f"{rows} rows of the source have duplicate keys: {show_keys(on, keys)}.",
        hint=hint,
        keys=keys,
        on=on,
    )


def repeated_for_a_row(on: tuple[str, ...], keys: list[tuple[object, ...]]) -> DuplicateKeysError:
    """Return the error for a MERGE statement in which several source rows match a target row."""
    return DuplicateKeysError(
        f"Several rows of the source match the same row of the target: {show_keys(on, keys)}.",
        hint="Keep one of them: USING (SELECT ...), with GROUP BY or row_number().",
        keys=keys,
        on=on,
    )


def repeated_in_write(
    message: str, on: tuple[str, ...], example: tuple[object, ...]
) -> DuplicateKeysError:
    """Return the error for a write with ``primary_key_check="error"`` whose rows share a key."""
    return DuplicateKeysError(
        message,
        hint="Keep one row for each key. primary_key_check='warn' writes them.",
        keys=[example],
        on=on,
    )


def repeated_in_merge(
    key: tuple[str, ...],
    example: tuple[object, ...],
    rows: tuple[int, int],
    called: tuple[str, str, str],
) -> DuplicateKeysError:
    """Return the error for a merge of branches in which one side sets a key that rows repeat.

    ``rows`` holds the number of rows that share their keys, and of all rows.  ``called`` names the
    version that set the key, the merge base, and the version of the other side.
    """
    repeated, total = rows
    setter, base, other = called
    named = literals(dict(zip(key, example, strict=True)))
    return DuplicateKeysError(
        f"{count(repeated)} of {count(total)} merged rows would share their primary key "
        f"({', '.join(key)}) with another row: for example, more than one row would have {named}. "
        f"{setter[:1].upper()}{setter[1:]} set the key since {base}, and {other} has other rows.",
        hint="Delete or change these rows on one side, or remove the key, and merge again. "
        f"ds.duplicates({list(key)!r}) lists such rows of a version.",
        keys=[example],
        on=key,
        duplicates=repeated,
    )


def repeated_since_checked(on: tuple[str, ...]) -> DuplicateKeysError:
    """Return the error for a merge source on Spark that had other rows when it was read again."""
    return DuplicateKeysError(
        "The source had unique keys when it was checked, but a duplicate key when it was merged: "
        "Spark lost a cached part and computed it again, with another result.",
        hint="Write the source to a table first, and merge the table.",
        on=on,
    )


def repeated_in_columns(name: str, value: object) -> DuplicateKeysError:
    """Return the error for new columns on Spark if several of their rows have one key."""
    return DuplicateKeysError(
        f"Several of the new rows have the key {name} = {value!r}.",
        hint="Keep one row for each key: rows on Spark have no order, so none is the last.",
        keys=[(value,)],
    )


# ---- queries for keys in the indices of the target's key columns
#
# The rows that they find are compared again, so an index may return too many rows.

#: types that an index orders and compares as keys are; floats have several zeros and NaNs
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
    """Return the lookup of keys in the indices of a version.

    ``None`` if no key column has an index that finds rows.  Until the lookup is used, only the
    manifest is read.
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
    """Return a mask of the values that occur in a column of the keys."""
    if values.type != keys.columns[place].type:
        raise CorruptFileError(f"it has {values.type} for a column of {keys.columns[place].type}")
    flags = np.zeros(len(values), bool)
    flags[keys.find(place, values)[0]] = True
    return flags
