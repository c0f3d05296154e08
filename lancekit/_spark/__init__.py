"""Spark: sessions, jobs, and all code that imports PySpark.

``session`` finds a Java runtime, attaches to a session or starts one, classic or over Spark
Connect, and reports obstacles and versions.  ``jobs`` is the only place where lancekit runs Spark
actions.  It hides the differences between the two kinds of session, prepares workers, and converts
their errors.  ``frames`` has scans as DataFrames, work on tasks, types both ways, and SQL;
``merge`` has merges; ``datasource`` has ``format("lance")``: reads, writes, streams.  At the root:
`source` (rows to write or merge), `columns`, `stream_sink` (the batches of a stream), and `prepare`
(files that are made once on a machine).

PySpark is imported inside functions only, so that the package costs nothing until it is used.
Modules whose classes derive from Spark's are imported inside functions, too.
"""
