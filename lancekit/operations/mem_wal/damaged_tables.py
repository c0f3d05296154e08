"""Generations and tables of the quarantine that cannot be read whole: what is wrong, what is left.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from lancekit.errors import CorruptFileError, LancekitError
from lancekit.file.reader import FileReader
from lancekit.format.mem_wal.names import ASIDE
from lancekit.format.schema import LanceSchema
from lancekit.operations.maintenance.validate import validate_version
from lancekit.operations.mem_wal.generation import OF_DAMAGE
from lancekit.options import options
from lancekit.shards.schema import TOMBSTONE, primary_key
from lancekit.storage.base import Store
from lancekit.versions.snapshot import Snapshot

__all__ = ["Left", "Rows", "copied_aside", "fault_of_table", "left_in"]

#: what reading a file that is damaged or missing raises
_UNREADABLE = (LancekitError, OSError, *OF_DAMAGE)


class Rows(NamedTuple):
    """All rows of a generation, hidden ones included, in the order in which they were written."""

    schema: LanceSchema
    batches: Sequence[pa.RecordBatch]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for batch in self.batches)


class Left(NamedTuple):
    """What can be read of a table.

    Attributes
    ----------
    rows
        The number of its rows; ``None`` if it is not known.
    keys
        The primary keys of all rows, if they can be read.
    columns
        The columns that can be read.
    whole
        All rows, if all columns of them can be read.
    file
        The data file, below the table.
    """

    rows: int | None = None
    keys: pa.Table | None = None
    columns: tuple[str, ...] = ()
    whole: Rows | None = None
    file: str = ""

    def read_by(self, copy: str) -> str:
        """Return an expression that reads the columns that are left, of a copy of the table."""
        if not self.columns:
            return ""
        file = f"{copy}/{self.file}"
        columns = "" if self.whole else f", columns={list(self.columns)}"
        return f'lancekit.file.LanceFileReader("{file}"{columns}).read_all().to_table()'


def fault_of_table(table: Snapshot, others: Iterable[str] = ()) -> str:
    """Return why the rows of a table or its `others`, files, cannot be read; empty if they can."""
    try:
        with options(engine="local"):
            validate_version(table, deep=True)
        with options(verify_checksums=True, cache_bytes=0):
            for name in others:
                reader = FileReader.open(table.store.open(name))
                reader.read(reader.columns)
    except FileNotFoundError:
        return f"{table.store.uri}/{name} is missing."
    except CorruptFileError as error:
        return error.message
    except _UNREADABLE as error:
        # an index of a kind that is only known to be there may be of any form
        return "" if isinstance(error, LancekitError) else f"{table.store.uri} is damaged: {error}."
    return ""


def left_in(store: Store, folder: str, schema: LanceSchema) -> Left:
    """Return what can be read of the one data file of a table, whatever its manifest says.

    Parameters
    ----------
    store, folder
        Where the table is.
    schema
        That of the table that the rows are for.
    """
    try:
        (name,) = store.list_names(f"{folder}/data")
        with options(verify_checksums=True, cache_bytes=0):
            reader = FileReader.open(store.open(f"{folder}/data/{name}"))
            columns: dict[str, pa.ChunkedArray] = {}
            for column in reader.columns:
                with suppress(*_UNREADABLE):
                    columns[column.field.name] = reader.read([column]).column(0)
            own = reader.lance_schema
    except (*_UNREADABLE, ValueError):
        return Left()
    keys = [one.name for field in primary_key(schema) for one in own.fields if one.id == field.id]
    known = keys and len(keys) == len(primary_key(schema)) and columns.keys() >= set(keys)
    whole = None
    if len(columns) == len(own.fields) and TOMBSTONE in own:
        of_key = {field.id: field for field in primary_key(schema)}
        fields = tuple(of_key.get(f.id, f) for f in own.fields if f.name != TOMBSTONE)
        ordered = [columns[f.name] for f in own.fields if f.name != TOMBSTONE]
        names = [*(f.name for f in fields), TOMBSTONE]
        rows = pa.Table.from_arrays([*ordered, columns[TOMBSTONE]], names)
        whole = Rows(replace(own, fields=fields), rows.to_batches())
    return Left(
        reader.num_rows,
        pa.table({name: columns[name] for name in keys}) if known else None,
        tuple(columns),
        whole,
        f"data/{name}",
    )


def copied_aside(store: Store, folder: str) -> str:
    """Copy all files of a folder durably; return the name of the copy, empty if there are none."""
    files = store.list_tree(folder)
    for file in files:
        with suppress(FileNotFoundError):
            store.put(f"{ASIDE}/{file.name}", store.read(file.name, file.size))
    return f"{ASIDE}/{folder}" if files else ""
