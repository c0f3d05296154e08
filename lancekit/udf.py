"""A door: pylance's `udf`, which is `lancekit._api.batch_udf`."""

from lancekit._pipeline.udf_checkpoint import (
    BatchUDF,
    batch_udf,
)

__all__ = [
    "BatchUDF",
    "batch_udf",
]
