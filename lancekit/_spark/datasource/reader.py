"""``spark.read.format("lance")``: the pieces of a scan, one for each task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lancekit._machine import processors
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest, default_batch_rows
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import reading
from lancekit._scan.scan import Scan
from lancekit._spark.datasource.options import SourceOptions
from lancekit._spark.frames.scan import Piece, read_piece, scan_batch, scan_pieces, scan_wire
from lancekit._spark.frames.types import spark_schema
from lancekit._spark.jobs.failures import briefly
from lancekit._spark.jobs.versions import Sent
from lancekit._spark.jobs.worker import enter_worker
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError
from lancekit.options import Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["LanceReader", "narrowed", "plan_scan"]


def narrowed(scan: Scan, schema: StructType) -> Scan:
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


class LanceReader(Sent, DataSourceReader):  # type: ignore[misc]  # pyspark is untyped here
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

    @briefly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece."""
        enter_worker(self._options)
        wire = scan_wire(self._request)
        for batch in read_piece(partition.value, self._request):
            yield scan_batch(batch, wire)


# ---- the scan that the options of ``format("lance")`` ask for


def plan_scan(asked: SourceOptions, snapshot: Snapshot) -> Scan:
    """Return the scan of a version that the options ask for."""
    schema = blob_view(snapshot.manifest.schema)
    hidden = [("_rowid", asked.with_row_id), ("_rowaddr", asked.with_row_address)]
    predicate = None if asked.filter is None else Predicate.parse(asked.filter, schema.to_arrow())
    request = ScanRequest(
        outputs=plan_columns(schema, asked.columns, [name for name, wanted in hidden if wanted]),
        predicate=predicate,
        batch_rows=asked.batch_size or default_batch_rows(),
    )
    read = reading(snapshot, predicate, schema)
    # opened now, so that a base path that is not trusted is an error of the plan
    return Scan(read=replace(read, sources=tuple(read.sources)), request=request)
