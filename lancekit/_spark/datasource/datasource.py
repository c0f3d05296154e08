"""``format("lance")``: the data source that Spark calls for scans, writes and streams.

Spark runs all of this in its own worker processes.  A read keeps the version that ``load``
found, so a DataFrame stays at its version.  Spark starts a process for each step (the schema, the
plan, the tasks, the commit), so each step imports only the modules that it needs.

``pushFilters`` is left out on purpose: in PySpark 4.3, filters that a data source accepted stay
active for later queries of the same DataFrame.  ``columns`` and ``filter`` are options instead.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource

from lancekit._spark.datasource.options import SourceOptions
from lancekit._spark.jobs.failures import briefly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from lancekit._scan.scan import Scan
    from lancekit._spark.datasource.stream_reader import LanceStreamReader
    from lancekit._spark.datasource.writer import LanceReader, LanceWriter

_registered: weakref.WeakSet[object] = weakref.WeakSet()


def register(spark: SparkSession) -> None:
    """Register ``format("lance")`` in a session; further calls have no effect.

    `SourceOptions` has the options: ``version``, ``tag``, ``branch``, ``asof`` (with a time zone),
    ``columns`` (names separated by commas, or a JSON list), ``filter``, ..., and
    ``storage.<name>`` for the settings of an object store.

    Examples
    --------
    >>> register(spark_session())  # doctest: +SKIP
    >>> spark.read.format("lance").option("tag", "jan").load("flights.lance")  # doctest: +SKIP
    >>> frame.write.format("lance").mode("append").save("flights.lance")  # doctest: +SKIP
    """
    if spark in _registered:
        return
    try:
        spark.dataSource.register(LanceDataSource)
    except AnalysisException as error:
        # Another connector, chosen for this session, already has the name.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    _registered.add(spark)


class LanceDataSource(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """The data source of one dataset, which the options select."""

    @briefly
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._options = SourceOptions.parse(options)
        self._scan: Scan | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lance"

    @briefly
    def schema(self) -> StructType:
        """Return the Spark schema of the columns."""
        from lancekit._spark.frames.scan import scan_wire
        from lancekit._spark.frames.types import spark_schema

        return spark_schema(scan_wire(self._planned().request))

    @briefly
    def reader(self, schema: StructType) -> LanceReader:
        """Return a reader of the rows."""
        from lancekit._spark.datasource.writer import LanceReader, narrowed

        self._options.check_use("read")
        return LanceReader(narrowed(self._planned(), schema), self._options.in_force())

    @briefly
    def writer(self, schema: StructType, overwrite: bool) -> LanceWriter:
        """Return a writer of rows."""
        from lancekit._spark.datasource.writer import plan_writer

        return plan_writer(self._options, schema, "overwrite" if overwrite else "append")

    @briefly
    def streamReader(self, schema: StructType) -> LanceStreamReader:  # noqa: N802
        """Return a reader of changes."""
        from lancekit._spark.datasource.stream_reader import LanceStreamReader
        from lancekit._spark.datasource.writer import narrowed
        from lancekit._spark.frames.scan import scan_wire

        self._options.check_use("stream")
        scan = narrowed(self._planned(), schema)
        return LanceStreamReader(self._options, scan_wire(scan.request))

    def _planned(self) -> Scan:
        from lancekit._spark.datasource.writer import plan_scan

        if self._scan is None:
            options = self._options
            with options.on_this():
                self._scan = plan_scan(options, options.snapshot())
        return self._scan
