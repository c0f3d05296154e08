"""Rows of entries and generations that a repair moved aside, in the columns of today's table.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._operations.mem_wal.newest_rows import GenerationRows
from lancekit._operations.mem_wal.quarantine import loose_schema
from lancekit._shards.aside import Aside, files_aside, read_aside_entry
from lancekit._shards.by_id import by_id, lacking_columns
from lancekit._shards.schema import TOMBSTONE, wal_schema
from lancekit._shards.shard import Shard
from lancekit._versions.line import Line
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import LancekitError, StorageError

__all__ = ["LAST", "AsideFile", "AsideRows", "read_aside_rows"]

Numbers = npt.NDArray[np.int64]

#: the position of rows of a generation: within it they come after the rows of entries
LAST = (1 << 63) - 1

#: errors of files that make no sense
_OF_DAMAGE = (LancekitError, OSError, ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideFile:
    """A file that was moved aside, and what can be read of it.

    Attributes
    ----------
    aside
        The file.
    uri
        Where it is.
    generation
        The generation of its rows; 0 if nothing says it.
    fault
        What is wrong with it; empty if nothing is.
    lacking
        The columns of the table that its rows do not have.
    rows
        The number of rows that can be read.
    """

    aside: Aside
    uri: str
    generation: int
    fault: str
    lacking: frozenset[str]
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class AsideRows:
    """The rows of a shard that were moved aside, in the order in which they were put.

    Attributes
    ----------
    shard
        The shard.
    files
        Its files aside whose rows wait, whether they can be read or not.
    done
        The positions of entries whose copies were put back or discarded.
    rows
        The columns of the version, nulls allowed, then `_tombstone`.
    file
        The place of each row's file in `files`.
    """

    shard: Shard
    files: tuple[AsideFile, ...]
    done: frozenset[int]
    rows: pa.Table
    file: Numbers

    @property
    def offsets(self) -> Numbers:
        """The place of each row in its file."""
        return np.arange(len(self.file)) - np.searchsorted(self.file, self.file)

    @property
    def generations(self) -> Numbers:
        """The generation of each row."""
        return self._of_files([one.generation for one in self.files])

    @property
    def positions(self) -> Numbers:
        """The position of each row in the log; `LAST` of rows of a generation."""
        return self._of_files([one.aside.position or LAST for one in self.files])

    def _of_files(self, values: Sequence[int]) -> Numbers:
        return np.array(values, np.int64)[self.file] if values else self.file


def read_aside_rows(snapshot: Snapshot, shard: Shard) -> AsideRows:
    """Read the rows of a shard that were moved aside and are neither put back nor discarded."""
    schema = snapshot.manifest.schema
    form = pa.schema([*loose_schema(schema).to_arrow(), pa.field(TOMBSTONE, pa.bool_())])
    every = files_aside(shard)
    found = [_read(snapshot, shard, one, form) for one in every if not one.is_done]
    found.sort(key=lambda one: (one[0].generation, one[0].aside.position or LAST))
    files = tuple(file for file, _ in found)
    return AsideRows(
        shard=shard,
        files=files,
        done=frozenset(one.position for one in every if one.is_done and one.position),
        rows=pa.concat_tables([form.empty_table(), *(rows for _, rows in found)]),
        file=np.repeat(np.arange(len(files)), [file.rows for file in files]),
    )


def _read(
    snapshot: Snapshot, shard: Shard, aside: Aside, form: pa.Schema
) -> tuple[AsideFile, pa.Table]:
    uri = f"{shard.store.uri}/{aside.name}"
    read = _read_generation if aside.position is None else _read_entry
    try:
        generation, fault, lacking, rows = read(snapshot, shard, aside)
        rows = ak.cast(rows.rename_columns(form.names), form)
    except StorageError:  # nobody knows what is in the file: other rows may be the same ones
        raise
    except _OF_DAMAGE as error:
        fault = error.message if isinstance(error, LancekitError) else str(error)
        generation, lacking, rows = aside.generation or 0, frozenset[str](), form.empty_table()
    return AsideFile(
        aside=aside,
        uri=uri,
        generation=generation,
        fault=fault,
        lacking=lacking,
        rows=rows.num_rows,
    ), rows


_Read = tuple[int, str, frozenset[str], pa.Table]


def _read_entry(snapshot: Snapshot, shard: Shard, aside: Aside) -> _Read:
    entry, schema = read_aside_entry(shard, aside), wal_schema(snapshot.manifest.schema)
    rows = [by_id(batch, schema) for batch in entry.batches]
    lacking = lacking_columns(entry.batches[0].schema, schema) if rows else frozenset[str]()
    table = pa.Table.from_batches(rows, schema)
    return entry.generation or 0, entry.fault, lacking, table


def _read_generation(snapshot: Snapshot, shard: Shard, aside: Aside) -> _Read:
    opened = load_snapshot(Line(root=shard.store.child(aside.name)), 1)
    found = GenerationRows.read([opened], snapshot.manifest.schema)
    rows = found.rows(np.ones(found.keys.num_rows, bool))
    whole = aside.note is not None and aside.note.whole
    fault = "" if whole else "The generation was damaged when it was moved."
    return aside.generation or 0, fault, frozenset().union(*found.lacking), rows
