"""Spark: finding Java, the session, and (elsewhere nowhere) everything that imports PySpark.

``session`` finds a Java runtime, attaches to a session or starts one, classic or over Spark
Connect, and says what is in the way or what is there.  ``jobs`` is the only way in which lancekit
runs an action, and knows the two kinds of session in which the rest differs; what runs first on the
workers is there, and what an error there becomes.  On it stand ``frames`` (a scan as a DataFrame,
work on tasks, types both ways, SQL), ``merge`` and ``datasource`` (``format("lance")``: reads,
writes, streams).  At the root: `source` (rows to be written or merged), `upload`, `columns`,
`stream_sink` (the batches of a stream), and `prepare` (what is made once on a machine).

PySpark is imported inside of functions only, so that this package costs nothing until it is used;
modules whose classes are Spark's are imported there themselves.
"""
