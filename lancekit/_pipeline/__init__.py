"""Per-fragment work on Arrow batches, in plain functions that run in this process or on Spark."""
