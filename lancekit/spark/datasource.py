"""``spark.read.format("lance").load(uri)``: a thin front door to the scans of `frame`.

Spark runs all of this in worker processes of its own, and keeps what `LanceDataSource` found when
``load`` was called, so a DataFrame stays at its version.

``pushFilters`` is left out on purpose: in PySpark 4.3 filters that a data source accepted stay in
force for later queries of the same DataFrame.  ``columns`` and ``filter`` are options instead.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lancekit.commit.line import Line, open_line
from lancekit.commit.refs import Reference, resolve
from lancekit.commit.snapshot import Snapshot, load_snapshot
from lancekit.commit.versions import list_versions, version_as_of
from lancekit.errors import InvalidArgumentError, NotOfferedError
from lancekit.scan.blobs import blob_view
from lancekit.scan.predicate import Predicate
from lancekit.scan.scanner import Scan, ScanRequest, plan_columns
from lancekit.scan.sources import fragment_sources
from lancekit.spark.frame import (
    Piece,
    cut_pieces,
    read_piece,
    scan_batch,
    scan_ranges,
    scan_wire,
)
from lancekit.spark.types import spark_schema
from lancekit.spark.worker import freeze_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["LanceDataSource", "register"]

_STORAGE = "storage."
_OPTIONS = ("path", "version", "tag", "branch", "asof", "columns", "filter")

_registered: weakref.WeakSet[Any] = weakref.WeakSet()


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("lance")`` known to a session; once is enough, twice does no harm.

    The options are ``version``, ``tag``, ``branch``, ``asof`` (with a time zone), ``columns``
    (names with commas between, or a JSON list), ``filter``, and ``storage.<name>`` for the
    settings of an object store.

    Examples
    --------
    >>> register(spark_session())  # doctest: +SKIP
    >>> spark.read.format("lance").option("tag", "jan").load("flights.lance")  # doctest: +SKIP
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
    """One dataset at one version, as the options say."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._scan = _plan(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lance"

    def schema(self) -> StructType:
        """Return the columns as Spark has them."""
        return spark_schema(scan_wire(self._scan.request))

    def reader(self, schema: StructType) -> LanceReader:
        """Return what reads the rows."""
        if schema != self.schema():
            raise InvalidArgumentError(
                f"The dataset's columns are {self.schema().simpleString()}, and the schema asked "
                f"for is {schema.simpleString()}.",
                hint='Leave schema() out, and name columns with option("columns", "a,b").',
            )
        return LanceReader(self._scan)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002
        """Refuse: Spark gives its writers no way to commit more than once."""
        raise NotOfferedError(
            'Writing with format("lance") is not offered.',
            hint="Pass the DataFrame to lancekit.write_dataset() or to merge_insert().",
        )


class LanceReader(DataSourceReader):  # type: ignore[misc]  # pyspark is untyped here
    """Reads one piece of a scan per partition."""

    def __init__(self, scan: Scan) -> None:
        self._request = scan.request
        pieces = cut_pieces(scan_ranges(scan), scan.request, os.cpu_count() or 1)
        self._pieces: list[Piece] = pieces or [Piece(())]

    def partitions(self) -> list[InputPartition]:
        """Return the pieces."""
        return [InputPartition(piece) for piece in self._pieces]

    def __getstate__(self) -> dict[str, Any]:
        # Each task gets its own piece with its partition.
        return {"_request": self._request, "_pieces": []}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece."""
        freeze_worker()
        wire = scan_wire(self._request)
        for batch in read_piece(partition.value, self._request):
            yield scan_batch(batch, wire)


# ---- options


def _plan(options: Mapping[str, str]) -> Scan:
    known = {name: options[name] for name in options if not name.startswith(_STORAGE)}
    unknown = sorted(set(known) - set(_OPTIONS))
    if unknown:
        raise InvalidArgumentError(
            f'format("lance") has no option {unknown[0]!r}.',
            hint=f"The options are {', '.join(_OPTIONS[1:])} and {_STORAGE}<name>.",
            option=unknown[0],
        )
    uri = known.get("path")
    if not uri:
        raise InvalidArgumentError("No dataset is named.", hint="Call load(uri).")
    if uri.startswith("memory:"):
        raise InvalidArgumentError(
            f"{uri} lives in the memory of one process, and Spark reads it in others.",
            hint="Keep the dataset on a disk or in an object store.",
        )
    settings = {
        name.removeprefix(_STORAGE): options[name] for name in options if name.startswith(_STORAGE)
    }
    snapshot = _open(open_line(uri, settings or None), known)
    schema = blob_view(snapshot.manifest.schema)
    text = known.get("filter")
    request = ScanRequest(
        outputs=plan_columns(schema, _columns(known.get("columns"))),
        predicate=None if text is None else Predicate.parse(text, schema.to_arrow()),
    )
    return Scan(sources=tuple(fragment_sources(snapshot, schema)), request=request)


def _open(line: Line, options: Mapping[str, str]) -> Snapshot:
    chosen = [name for name in ("version", "tag", "asof") if name in options]
    if len(chosen) > 1 or ("tag" in options and "branch" in options):
        named = chosen if len(chosen) > 1 else ["tag", "branch"]
        raise InvalidArgumentError(
            f"The options {' and '.join(named)} were both given.", hint="Give one of the two."
        )
    branch = options.get("branch")
    on = line.on(None if branch in {None, "main"} else branch)
    if "asof" in options:
        listing = list_versions(on)
        return version_as_of(
            listing, _moment(options["asof"]), lambda v: load_snapshot(on, v, listing.naming)
        )
    version = options.get("version")
    if version is not None and not version.isdecimal():
        raise InvalidArgumentError(
            f"The version {version!r} is not a number.", hint='A tag has an option "tag".'
        )
    number = None if version is None else int(version)
    return resolve(line, Reference(version=number, branch=on.branch, tag=options.get("tag")))


def _moment(text: str) -> datetime:
    hint = 'Write it like "2026-03-01 12:00:00+00:00".'
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgumentError(f"asof={text!r} is not a time.", hint=hint) from error
    if moment.tzinfo is None:
        # Local time would be the workers', and nobody sees a warning of theirs.
        raise InvalidArgumentError(f"asof={text!r} has no time zone.", hint=hint)
    return moment.astimezone(UTC)


def _columns(text: str | None) -> list[str] | None:
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            return [str(name) for name in json.loads(text)]
        except ValueError as error:
            raise InvalidArgumentError(f"columns={text!r} is not a JSON list.") from error
    return [name.strip() for name in text.split(",")]
