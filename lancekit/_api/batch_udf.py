"""`batch_udf`: a function that makes columns, and what it says it makes.

Names follow ``lance.udf``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lancekit._checked import checked

__all__ = ["BatchUDF", "batch_udf"]


@dataclass(frozen=True, slots=True)
class BatchUDF:
    """A function over record batches for `LanceDataset.add_columns`."""

    func: Callable[[pa.RecordBatch], Any]
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
) -> Callable[[Callable[[pa.RecordBatch], Any]], BatchUDF]:
    """Mark a function as one that makes columns of record batches.

    Parameters
    ----------
    output_schema
        The columns that it returns; without it, it is called on one row to see.

    checkpoint_file
        A file of this machine that keeps the result of each batch of rows.  If adding columns
        fails or is interrupted, the next call with the same file calls the function only for
        batches without a result.  Once the columns are there, the file is removed.  The work runs
        in this process then.

        Results are used only if the dataset has the same version, and the function is the same:
        its code, default values, attributes, closure, the globals that it names and the modules
        that it imports, with the functions and classes of your own modules.  Otherwise a warning
        names what differs, and the function begins again.  Installed packages count by their
        version; variables that the function itself assigns do not count.
    version
        Your name for what the function cannot show: another model behind a server, another file
        that it reads.  Results of another version are not used.  A function that holds a value
        which cannot be compared between processes, such as a connection, or that calls ``eval`` or
        ``globals``, needs a version for its results to be used again.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> @lk.batch_udf(output_schema=pa.schema({"twice": pa.int64()}))
    ... def twice(batch):
    ...     return {"twice": pa.array([2 * x.as_py() for x in batch["x"]])}
    >>> ds = lk.write_dataset(pa.table({"x": [1, 2]}), "memory://udf-example")
    >>> ds.add_columns(twice)
    >>> ds.to_table()["twice"].to_pylist()
    [2, 4]
    """
    file = None if checkpoint_file is None else str(Path(checkpoint_file).absolute())
    return lambda function: BatchUDF(function, output_schema, file, version)
