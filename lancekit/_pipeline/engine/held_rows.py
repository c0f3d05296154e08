"""Rows beyond one reading: whether they can be read again, and what keeps them as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lancekit._pipeline.engine.inputs import as_reader, is_known, is_spark_dataframe, loaded_type

__all__ = ["in_memory", "is_replayable", "owned"]


def is_replayable(data: object) -> bool:
    """Tell whether ``as_reader`` may be called on this more than once, with the same rows.

    Examples
    --------
    >>> is_replayable({"x": [1]}), is_replayable(iter([]))
    (True, False)
    """
    if isinstance(data, pa.Table | pa.RecordBatch):
        return True
    if isinstance(data, pa.RecordBatchReader | Iterator):
        return False
    one_shot = loaded_type("pyarrow.dataset", "Scanner")
    if isinstance(data, one_shot):
        return False
    return is_spark_dataframe(data) or is_known(data) or isinstance(data, list | tuple)


def in_memory(data: object) -> bool:
    """Tell whether all of these rows are in memory already, before they are read.

    Examples
    --------
    >>> in_memory({"x": [1]}), in_memory(iter([]))
    (True, False)
    """
    scanned = [
        *loaded_type("pyarrow.dataset", "Dataset"),
        *loaded_type("lancekit._api.scanner", "LanceScanner"),
        *loaded_type("lancekit._api.lance_dataset", "LanceDataset"),
        *loaded_type("lancekit._api.fragment", "LanceFragment"),
    ]
    return is_replayable(data) and not isinstance(data, tuple(scanned))


def owned(data: object, schema: pa.Schema | None = None, like: pa.Schema | None = None) -> Any:
    """Return rows that stay as they are when the caller changes theirs.

    Arrow reads NumPy's arrays, and so those of pandas, where they are; what is kept beyond a call
    is a copy of them.

    Examples
    --------
    >>> import numpy as np
    >>> mine = np.array([1, 2])
    >>> kept = owned({"x": mine})
    >>> mine[0] = 7
    >>> kept["x"].to_pylist()
    [1, 2]
    """
    if not isinstance(data, (Mapping, *loaded_type("pandas", "DataFrame"))):
        return data
    reader, copy = as_reader(data, schema, like), pa.BufferOutputStream()
    with pa.ipc.new_stream(copy, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return pa.ipc.open_stream(copy.getvalue()).read_all()
