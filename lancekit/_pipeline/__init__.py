"""Plain functions over Arrow batches that run on an executor or in-process, and the Runner seam."""
