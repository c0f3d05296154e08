"""pylance's `udf`, re-exported from `lancekit._pipeline.udf_checkpoint`."""

from lancekit._pipeline.udf_checkpoint import BatchUDF, batch_udf

__all__ = ["BatchUDF", "batch_udf"]
