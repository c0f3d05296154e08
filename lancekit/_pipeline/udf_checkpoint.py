"""`batch_udf`, and the file that stores its results until the new columns are committed.

The key of a batch's result is a digest of the call and of the rows that the function got, row
addresses included.  So the function is called again for rows that changed, and two calls that use
one file at the same time never get each other's results.  The file records the function, and the
version of the dataset that the results are for.  For another function or version, it starts over.
The file is an SQLite database; results are Arrow IPC bytes, and no content of it is executed.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._checked import checked
from lancekit._interrupts import PREFIX
from lancekit._legible import warn
from lancekit._pipeline.function_identity import identity_of
from lancekit._pipeline.write_columns import Calls, Made, Maker
from lancekit.errors import InvalidArgumentError
from lancekit.progress import step

_WAIT_SECONDS = 60.0
_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (part TEXT PRIMARY KEY, digest TEXT)",
    "CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, rows BLOB, count INTEGER)",
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A file of results, and the parts of the call that determine them, named as in messages."""

    file: str
    parts: Mapping[str, str]

    @classmethod
    def of(
        cls, file: str, function: Callable[..., Any], version: str | None, given: Mapping[str, str]
    ) -> Checkpoint:
        """Return the checkpoint of a call.

        file: the file of the results.
        function: the user's own function.
        version: the user's name for this version of the function.
        given: further parts that determine the results.
        """
        identity = identity_of(function)
        parts = {**identity.parts, "version=": repr(version), **given}
        if identity.opaque and version is None:
            parts["what cannot be compared"] = str(uuid.uuid4())
            warn(
                f"Results in checkpoint_file {file!r} will not be used by another call, because "
                f"{', '.join(identity.opaque)} may change. Pass batch_udf(version=...), and "
                "another version whenever the results change."
            )
        return cls(file, parts)

    def begin(self) -> None:
        """Keep the stored results if the same call made them; else warn and remove them."""
        with self.opened() as database:
            columns = database.execute("SELECT name FROM pragma_table_info('results')")
            older = ("count",) not in columns.fetchall()
            if older:  # of a release that did not record the call
                database.execute("DROP TABLE results")
                _make_tables(database)
            before = dict(database.execute("SELECT part, digest FROM about").fetchall())
            if before == self.parts:
                return
            if before or older:
                names = sorted(before.keys() | self.parts.keys())
                differing = [name for name in names if before.get(name) != self.parts.get(name)]
                warn(
                    f"checkpoint_file {self.file!r} has results of another call, which are not "
                    f"used: the function starts again. It differs in {', '.join(differing)}."
                )
            database.execute("DELETE FROM about")
            database.execute("DELETE FROM results")
            database.executemany("INSERT INTO about VALUES (?, ?)", list(self.parts.items()))

    def kept(self) -> int:
        """Return the number of rows with stored results."""
        with self.opened() as database:
            (rows,) = database.execute("SELECT total(count) FROM results").fetchone()
            return int(rows)

    def forget(self) -> None:
        """Remove the file."""
        Path(self.file).unlink(missing_ok=True)

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction; a connection belongs to its thread.

        A missing file is created, for example after another call has removed it.

        Raises InvalidArgumentError: the file cannot be read or written, or is not a checkpoint.
        """
        try:
            with closing(sqlite3.connect(self.file, timeout=_WAIT_SECONDS)) as database, database:
                _make_tables(database)
                yield database
        except sqlite3.DataError as error:
            raise InvalidArgumentError(
                f"The result of a batch does not fit in checkpoint_file {self.file!r}: {error}.",
                hint="Pass a smaller batch_size.",
                checkpoint_file=self.file,
            ) from error
        except sqlite3.Error as error:
            raise InvalidArgumentError(
                f"checkpoint_file {self.file!r} cannot be used: {error}.",
                hint="Pass a file that does not exist yet, in a writable folder.",
                checkpoint_file=self.file,
            ) from error


@dataclass(frozen=True, slots=True)
class Remembered:
    """A maker that calls a function only for batches without a stored result."""

    made: Made
    checkpoint: Checkpoint

    @property
    def columns(self) -> Sequence[str]:
        """The columns that the function reads, and the row address."""
        return list(dict.fromkeys([*self.made.columns, "_rowaddr"]))

    @property
    def calls(self) -> Calls:
        """The row limit and the thread count for calls of the function."""
        return self.made.calls

    def make(self, rows: pa.Table) -> Sequence[pa.ChunkedArray]:
        """Return the stored result of a batch, or call the function and store its result."""
        (batch,) = ak.combine_chunks(rows).to_batches()
        key = _digest(batch, self.made.schema, self.checkpoint.parts)
        with self.checkpoint.opened() as database:
            query = "SELECT rows FROM results WHERE key = ?"
            found = database.execute(query, (key,)).fetchone()
        if found is not None:
            step(kept=batch.num_rows)
            return pa.ipc.open_stream(found[0]).read_all().columns
        result = self.made.call(batch.select(list(self.made.columns)))
        with self.checkpoint.opened() as database:
            row = (key, _as_bytes(result), batch.num_rows)
            database.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", row)
        return result.columns


def checkpoint_of(maker: Maker | None) -> Checkpoint | None:
    """Return the checkpoint of a maker, or of the maker that it wraps."""
    inner = getattr(maker, "maker", maker)
    return inner.checkpoint if isinstance(inner, Remembered) else None


class ResultsKept:
    """A context manager that stores a function's results, and removes them after success.

    maker: calls the function; without a checkpoint, the context does nothing.
    forget: whether to remove the results after success.
    """

    def __init__(self, maker: Maker | None, *, forget: bool = True) -> None:
        self._checkpoint = checkpoint_of(maker)
        self._forget = forget

    def __enter__(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.begin()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        checkpoint = self._checkpoint
        if checkpoint is None:
            return
        if error is None:
            if self._forget:
                checkpoint.forget()
            return
        with suppress(InvalidArgumentError):
            error.add_note(
                f"{PREFIX}results for {checkpoint.kept():,} rows are kept in {checkpoint.file}: "
                "the same call continues from there."
            )


def _make_tables(database: sqlite3.Connection) -> None:
    for table in _TABLES:
        database.execute(table)


def _digest(batch: pa.RecordBatch, schema: pa.Schema, parts: Mapping[str, str]) -> bytes:
    digest = hashlib.blake2b(repr((str(schema), sorted(parts.items()))).encode(), digest_size=20)
    digest.update(_as_bytes(pa.Table.from_batches([batch])))
    return digest.digest()


def _as_bytes(table: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


# ---- `batch_udf`: a function that makes columns, and its declared result
#
# Names follow ``lance.udf``.


@dataclass(frozen=True, slots=True)
class BatchUDF:
    """A function over record batches for `LanceDataset.add_columns`; `batch_udf` makes one."""

    func: Callable[[pa.RecordBatch], object]
    output_schema: pa.Schema | None = None
    checkpoint_file: str | None = None
    version: str | None = None

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Return the new columns of a batch."""
        return self.func(batch)


@checked
def batch_udf(
    output_schema: pa.Schema | None = None,
    checkpoint_file: str | os.PathLike[str] | None = None,
    version: str | None = None,
) -> Callable[[Callable[[pa.RecordBatch], object]], BatchUDF]:
    """Mark a function that makes columns from record batches.

    Parameters
    ----------
    output_schema
        The columns that the function returns; without it, the function is called on one row to
        find out.
    checkpoint_file
        A file of this machine that keeps the result of each batch of rows.  If adding columns
        fails or is interrupted, the next call with the same file calls the function only for
        batches without a result.  After success, the file is removed.  With a checkpoint file, the
        work runs in this process.

        Results are used only if the dataset has the same version, and the function is the same:
        its code, default values, attributes, closure, the globals that it names and the modules
        that it imports, with the functions and classes of your own modules.  Otherwise a warning
        names the differences, and the function starts over.  Installed packages are compared by
        their version.  Variables that the function itself assigns are ignored.
    version
        Your name for parts that the function's code does not show: another model behind a server,
        another file that it reads.  Results of another version are not used.  A function that holds
        a value which cannot be compared between processes, such as a connection, or that calls
        ``eval`` or ``globals``, needs a version for its results to be used again.

    Returns
    -------
    Callable
        A decorator: it takes the function and returns a `BatchUDF` for ``add_columns``.

    Raises
    ------
    InvalidTypeError
        An argument has the wrong type.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> @lk.batch_udf(output_schema=pa.schema({"twice": pa.int64()}))
    ... def twice(batch):
    ...     return {"twice": pa.array([2 * x.as_py() for x in batch["x"]])}
    >>> ds = lk.write_dataset(pa.table({"x": [1, 2]}), "memory://udf-example")
    >>> _ = ds.add_columns(twice)
    >>> ds.to_table()["twice"].to_pylist()
    [2, 4]
    """
    file = None if checkpoint_file is None else str(Path(checkpoint_file).absolute())
    return lambda function: BatchUDF(function, output_schema, file, version)
