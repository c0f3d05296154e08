"""``format("lance")``: a thin front door to the scans of `frame`, the writes and the streams.

Spark runs all of this in worker processes of its own, and a read keeps what was found when ``load``
was called, so a DataFrame stays at its version.

``pushFilters`` is left out on purpose: in PySpark 4.3 filters that a data source accepted stay in
force for later queries of the same DataFrame.  ``columns`` and ``filter`` are options instead.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lancekit.errors import InvalidArgumentError
from lancekit.machine import processors
from lancekit.options import Options
from lancekit.scan.scan import Scan
from lancekit.spark.datasource.options import SourceOptions
from lancekit.spark.datasource.plan import plan_scan
from lancekit.spark.datasource.stream_reader import LanceStreamReader
from lancekit.spark.datasource.writer import LanceWriter, plan_writer
from lancekit.spark.frames.scan import (
    Piece,
    read_piece,
    scan_batch,
    scan_pieces,
    scan_wire,
)
from lancekit.spark.frames.types import spark_schema
from lancekit.spark.jobs.worker import enter_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["LanceDataSource", "register"]

_registered: weakref.WeakSet[Any] = weakref.WeakSet()


def register(spark: SparkSession) -> None:
    """Make ``format("lance")`` known to a session; once is enough, twice does no harm.

    `SourceOptions` has the options: ``version``, ``tag``, ``branch``, ``asof`` (with a time zone),
    ``columns`` (names with commas between, or a JSON list), ``filter``, ..., and
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
        # The name belongs to another connector, which somebody chose for this session.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    _registered.add(spark)


class LanceDataSource(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """One dataset, as the options say."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._options = SourceOptions.parse(options)
        self._scan: Scan | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lance"

    def schema(self) -> StructType:
        """Return the columns as Spark has them."""
        return spark_schema(scan_wire(self._planned().request))

    def reader(self, schema: StructType) -> LanceReader:
        """Return what reads the rows."""
        self._options.check_use("read")
        return LanceReader(_narrowed(self._planned(), schema), self._options.in_force())

    def writer(self, schema: StructType, overwrite: bool) -> LanceWriter:
        """Return what writes rows."""
        return plan_writer(self._options, schema, "overwrite" if overwrite else "append")

    def streamReader(self, schema: StructType) -> LanceStreamReader:  # noqa: N802
        """Return what reads changes."""
        self._options.check_use("stream")
        scan = _narrowed(self._planned(), schema)
        return LanceStreamReader(self._options, scan_wire(scan.request))

    def _planned(self) -> Scan:
        if self._scan is None:
            asked = self._options
            with asked.on_this():
                self._scan = plan_scan(asked, asked.snapshot())
        return self._scan


def _narrowed(scan: Scan, schema: StructType) -> Scan:
    """Return a scan of the columns in a schema that the user gave."""
    own = spark_schema(scan_wire(scan.request))
    if schema == own:
        return scan
    known = {field.name: field for field in own}
    outputs = {output.field.name: output for output in scan.request.outputs}
    chosen = []
    for field in schema:
        found = known.get(field.name)
        fits = found is not None and found.dataType == field.dataType
        if found is None or not fits or (found.nullable and not field.nullable):
            there = (
                "the dataset has no such column"
                if found is None
                else f"it is {found.simpleString()} there"
            )
            raise InvalidArgumentError(
                f"The schema asks for {field.simpleString()}; {there}.",
                hint='Leave schema() out, and name columns with option("columns", "a,b").',
                column=field.name,
            )
        output = outputs[field.name]
        chosen.append(replace(output, field=output.field.with_nullable(field.nullable)))
    return replace(scan, request=replace(scan.request, outputs=tuple(chosen)))


class LanceReader(DataSourceReader):  # type: ignore[misc]  # pyspark is untyped here
    """Reads one piece of a scan per partition."""

    def __init__(self, scan: Scan, options: Options) -> None:
        self._request = scan.request
        self._options = options
        pieces = scan_pieces(scan, processors())
        self._pieces: list[Piece] = pieces or [Piece(())]

    def partitions(self) -> list[InputPartition]:
        """Return the pieces."""
        return [InputPartition(piece) for piece in self._pieces]

    def __getstate__(self) -> dict[str, Any]:
        # Each task gets its own piece with its partition.
        return {**self.__dict__, "_pieces": []}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece."""
        enter_worker(self._options)
        wire = scan_wire(self._request)
        for batch in read_piece(partition.value, self._request):
            yield scan_batch(batch, wire)
