"""A door: pylance's `udf`, which is `lancekit.api.batch_udf`."""

from lancekit.api.batch_udf import (
    BatchUDF,
    batch_udf,
)

__all__ = [
    "BatchUDF",
    "batch_udf",
]
