"""Results of a user's function, kept in a file until the columns that they are for have landed.

Each batch's result is kept under a digest of what the function was given, addresses of the rows
included: rows that changed since are given to it again.  The file is an SQLite database; results
are Arrow's own bytes, and nothing in it is run.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lancekit.errors import InvalidArgumentError
from lancekit.pipeline.columns.write import Made
from lancekit.scan.fragments.rebatch import combined

__all__ = ["Remembered"]

_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Remembered:
    """A maker that calls a function only for batches whose result is not kept yet."""

    made: Made
    file: str

    @property
    def columns(self) -> Sequence[str]:
        """The columns that the function reads, and the addresses of their rows."""
        return list(dict.fromkeys([*self.made.columns, "_rowaddr"]))

    def make(self, rows: pa.Table) -> Sequence[pa.ChunkedArray]:
        """Look each batch's result up, or call the function and keep what it returns."""
        batches = combined(rows).to_batches(max_chunksize=self.made.batch_rows)
        return list(pa.concat_tables([self._result(batch) for batch in batches]).columns)

    def forget(self) -> None:
        """Remove the file."""
        Path(self.file).unlink(missing_ok=True)

    def _result(self, batch: pa.RecordBatch) -> pa.Table:
        key = _digest(batch, self.made.schema)
        try:
            # a connection belongs to its thread, and the threads are many
            with closing(sqlite3.connect(self.file, timeout=_WAIT_SECONDS)) as database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, rows BLOB)"
                )
                query = "SELECT rows FROM results WHERE key = ?"
                found = database.execute(query, (key,)).fetchone()
            if found is not None:
                return pa.ipc.open_stream(found[0]).read_all()
            result = self.made.call(batch.select(list(self.made.columns)))
            with closing(sqlite3.connect(self.file, timeout=_WAIT_SECONDS)) as database, database:
                row = (key, _as_bytes(result))
                database.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", row)
        except sqlite3.Error as error:
            raise InvalidArgumentError(
                f"checkpoint_file {self.file!r} cannot be used: {error}.",
                hint="Name a file that does not exist yet, in a folder that can be written to.",
                checkpoint_file=self.file,
            ) from error
        return result


def _digest(batch: pa.RecordBatch, schema: pa.Schema) -> bytes:
    digest = hashlib.blake2b(str(schema).encode(), digest_size=20)
    digest.update(_as_bytes(pa.Table.from_batches([batch])))
    return digest.digest()


def _as_bytes(table: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())
