"""The rows of a source that can be read only once, kept so that they can be read again.

A merge looks at its source several times: at its keys, at the rows that are new, and all over again
when another writer landed first.  Up to a size the rows stay in memory; more of them go to an Arrow
file in a temporary folder, which is mapped, so that only what is looked at is in memory.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa

from lancekit._own_files import new_folder

__all__ = ["KeptRows", "keep_rows"]


class KeptRows:
    """Rows that can be read any number of times, until they are closed.

    Attributes
    ----------
    table
        The rows; their columns may lie in a file.
    spilled
        Whether they do.
    """

    def __init__(self, table: pa.Table, folder: Path | None = None) -> None:
        self.table = table
        self.spilled = folder is not None
        # Also when nobody closes it: a preview may be thrown away.
        self._remove = weakref.finalize(self, shutil.rmtree, folder, True) if folder else None

    def close(self) -> None:
        """Remove the file, if there is one."""
        # `empty_table()` imports pandas
        self.table = pa.Table.from_batches([], self.table.schema)
        if self._remove is not None:
            self._remove()


def keep_rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, memory_bytes: int | None
) -> KeptRows:
    """Read batches to their end and keep them.

    Parameters
    ----------
    batches
        Rows of the schema ``schema``.
    schema
        Their schema.
    memory_bytes
        What may be held in memory; ``None`` for rows that are there anyway.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    rest = iter(batches)
    for batch in rest:
        held.append(batch)
        size += batch.nbytes
        if memory_bytes is not None and size > memory_bytes:
            return _spill(chain(_drained(held), rest), schema)
    return KeptRows(pa.Table.from_batches(held, schema))


def _drained(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches, and let go of each of them."""
    held.reverse()
    while held:
        yield held.pop()


def _spill(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> KeptRows:
    folder = new_folder("source")
    try:
        path = str(folder / "rows.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return KeptRows(pa.ipc.open_file(pa.memory_map(path)).read_all(), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
