"""``format("lance")`` for Spark: reads, writes and streams."""
