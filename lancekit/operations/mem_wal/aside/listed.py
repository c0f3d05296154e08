"""Rows that were moved aside, as a caller sees them and gives them back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.errors import InvalidArgumentError
from lancekit.format.extensions import resolved_schema
from lancekit.format.schema import LanceSchema
from lancekit.legible import literals
from lancekit.operations.mem_wal.aside.judged import JudgedRows, Mask
from lancekit.operations.mem_wal.aside.rows import AsideFile
from lancekit.operations.mem_wal.quarantine import loose_schema
from lancekit.operations.mem_wal.shard_rows import cast_columns, opened_rows
from lancekit.shards.schema import TOMBSTONE, primary_key

__all__ = ["GivenRows", "given_rows", "listed_schema", "with_facts"]

#: what is told of each row beside the columns of the table and the mark of deleted rows
_FACTS = pa.schema(
    {
        "_set_aside_shard": pa.string(),
        "_set_aside_generation": pa.int64(),
        "_set_aside_position": pa.int64(),
        "_set_aside_file": pa.string(),
        "_set_aside_row": pa.int64(),
        "_set_aside_state": pa.string(),
        "_set_aside_reason": pa.string(),
    }
)
#: the value of each fact for the rows of a shard
_VALUES: dict[str, Callable[[JudgedRows], Any]] = {
    "_set_aside_shard": lambda judged: [str(judged.aside.shard.id)] * len(judged.verdicts),
    "_set_aside_generation": lambda judged: [one.generation or None for one in _files(judged)],
    "_set_aside_position": lambda judged: [one.aside.position for one in _files(judged)],
    "_set_aside_file": lambda judged: [one.uri for one in _files(judged)],
    "_set_aside_row": lambda judged: judged.aside.offsets,
    "_set_aside_state": lambda judged: [one.state for one in judged.verdicts],
    "_set_aside_reason": lambda judged: [one.reason for one in judged.verdicts],
}
#: what tells a row from all others
_PLACE = ("_set_aside_file", "_set_aside_row")


def listed_schema(schema: LanceSchema) -> pa.Schema:
    """Return what a caller sees of a row: the table's columns, nulls allowed, and facts.

    Raises
    ------
    InvalidArgumentError
        The table has a column of such a name.
    """
    for name in _FACTS.names:
        if name in schema:
            raise InvalidArgumentError(
                f"The table has a column {name!r}, which rows that were moved aside need.",
                hint="Rename the column.",
                column=name,
            )
    return pa.schema([*loose_schema(schema).to_arrow(), pa.field(TOMBSTONE, pa.bool_()), *_FACTS])


def with_facts(judged: JudgedRows) -> pa.Table:
    """Add to rows where they come from and what was found out about them."""
    rows = judged.aside.rows
    for field in _FACTS:
        rows = rows.append_column(field, _fact(judged, field.name))
    return rows


def _fact(judged: JudgedRows, name: str) -> pa.Array:
    return pa.array(_VALUES[name](judged), _FACTS.field(name).type)


def _files(judged: JudgedRows) -> list[AsideFile]:
    """Return the file of each row."""
    aside = judged.aside
    return [aside.files[place] for place in aside.file.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows:
    """Which rows a caller names, and what they are to be.

    Attributes
    ----------
    by
        The columns that name a row: its place, or the primary key; nothing for all rows.
    keys
        The columns of the primary key.
    places
        The place in `values` of each name; of one that comes twice the last place.
    values
        The columns of the table and its mark of deleted rows; ``None`` for those of the files.
    """

    by: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    places: dict[tuple[Any, ...], int] | None = None
    values: pa.Table | None = None

    def name(self, judged: JudgedRows) -> Mask:
        """Return which rows of a shard are named."""
        return np.array([place >= 0 for place in self._places_of(judged)], bool)

    def rows(self, judged: JudgedRows, chosen: Mask) -> pa.Table:
        """Return some of the rows as they are to be."""
        if self.values is None:
            return ak.filter(judged.aside.rows, chosen)
        places = np.array(self._places_of(judged), np.int64)[chosen]
        return ak.take(self.values, places)

    def check_keys(self, judged: JudgedRows) -> None:
        """Raise if a row has another key than in its file: nothing is found out about that key."""
        if self.values is None:
            return
        named = self.name(judged)
        tables = ak.filter(judged.aside.rows, named), self.rows(judged, named)
        keys = (table.select([*self.keys]).to_pylist() for table in tables)
        for before, after in zip(*keys, strict=True):
            if before != after:
                raise InvalidArgumentError(
                    f"A row with {literals(before)} was corrected to {literals(after)}: of that "
                    "key nothing tells whether a newer row is there.",
                    hint="Leave the key as it is. To write the row under another key, call "
                    "ds.mem_wal_upsert(rows).",
                    key=after,
                )

    def _places_of(self, judged: JudgedRows) -> list[int]:
        """Return the place of each row in the values, or -1."""
        if self.places is None:
            return [0] * len(judged.verdicts)
        rows = judged.aside.rows
        named = {n: _fact(judged, n) if n in _VALUES else rows.column(n) for n in self.by}
        return [self.places.get(name, -1) for name in _names(pa.table(named))]


def given_rows(schema: LanceSchema, given: Any) -> GivenRows:
    """Read what names rows that were moved aside, and corrects them if it has more columns.

    Parameters
    ----------
    schema
        The columns of the table.
    given
        Rows of any kind; ``None`` for all rows as they are.

    Raises
    ------
    InvalidArgumentError
        They do not say which rows they name, or have some columns of the table and not all; or the
        table has no primary key.
    InvalidTypeError, SchemaMismatchError
        They cannot be read, or do not fit the table.
    """
    if given is None:
        return GivenRows()
    keys = tuple(field.name for field in primary_key(schema))
    if not keys:
        raise InvalidArgumentError(
            "rows names some rows of a table without a primary key.",
            hint="Call put_back() without rows: nothing would tell the others later.",
            argument="rows",
        )
    known = listed_schema(schema)
    reader = opened_rows(given, None, resolved_schema(known))
    names = reader.schema.names
    by = next((by for by in (_PLACE, keys) if {*by} <= {*names}), None)
    if by is None:
        raise InvalidArgumentError(
            "rows does not say which rows it names.",
            hint="Pass rows of to_table(), or the columns of the key: "
            f"{', '.join(map(repr, keys))}.",
            argument="rows",
        )
    corrects = any(name in names for name in schema.names if name not in keys)
    lacking = [name for name in schema.names if name not in names]
    if corrects and lacking:
        raise InvalidArgumentError(
            f"rows has values to be put back, and no column {lacking[0]!r}.",
            hint="Pass corrected rows with all columns of the table. To name rows whose values are "
            f"those of the files, pass only {', '.join(map(repr, by))}.",
            argument="rows",
            column=lacking[0],
        )
    wanted = [name for name in known.names if name in names and (corrects or name in by)]
    rows = cast_columns(reader, wanted, known)
    places = {name: place for place, name in enumerate(_names(rows.select([*by])))}
    if not corrects:
        return GivenRows(by, keys, places)
    if TOMBSTONE not in names:
        rows = rows.append_column(TOMBSTONE, pa.repeat(pa.scalar(False), rows.num_rows))
    marks = pc.fill_null(rows.column(TOMBSTONE), False)
    values = rows.select(schema.names).append_column(TOMBSTONE, marks)
    return GivenRows(by, keys, places, values)


def _names(rows: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
