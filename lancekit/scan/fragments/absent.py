"""Columns that nobody has values of: nulls, unless one takes more memory than a page may."""

from __future__ import annotations

import pyarrow as pa

from lancekit.errors import MemoryLimitError
from lancekit.file.kernels.widths import null_bytes
from lancekit.options import options

__all__ = ["nulls_of"]


def nulls_of(field: pa.Field, rows: int) -> pa.Array:
    """Return the nulls of a column that nobody has values of.

    Raises
    ------
    MemoryLimitError
        One of them would take more than a page may: a schema can say so of any field.
    """
    each = null_bytes(field.type)
    if rows and each > options.page_memory_bytes:
        raise MemoryLimitError(
            f"One value of column {field.name!r} of {field.type} takes {each:,} bytes, and there "
            f"are none: lancekit.options.page_memory_bytes is {options.page_memory_bytes:,}.",
            hint="Leave the column alone; if you trust where the schema is from, set "
            f"lancekit.options.page_memory_bytes = {each} or more.",
            column=field.name,
            needed=each,
        )
    return pa.nulls(rows, field.type)
