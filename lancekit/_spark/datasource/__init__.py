"""``format("lance")`` for Spark: reading, writing, streams."""
