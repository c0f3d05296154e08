"""The sink for ``foreachBatch`` that ``lancekit.stream_sink`` makes: each batch lands once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from lancekit._commit.rules.pending import BatchMarker
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.merge_insert import check_clauses, merge_rows
from lancekit._operations.write import WriteSettings, write_rows
from lancekit._pipeline.inputs import is_spark_dataframe
from lancekit._pipeline.merge_plan import MergeClauses
from lancekit._spark.jobs.client import is_connect
from lancekit._spark.source import open_source
from lancekit._versions.branch_location import BranchLocation, open_location
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.references import Reference, resolve
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    CommitConflictError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
)
from lancekit.options import Options, options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEY = "lancekit.stream."
_QUERY_ID = "sql.streaming.queryId"
# Set in the processes where a Spark Connect server calls the functions of `foreachBatch`.
_WORKER = "SPARK_CONNECT_LOCAL_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSink:
    """A sink that writes the batches of one streaming query, with one commit for each.

    The number of the newest batch is stored with its rows, in the config of their version
    (`lancekit._commit.rules.pending`).  So a batch that Spark passes again, after a crash or a
    restart, is skipped, whatever other writers and cleanups did meanwhile.
    """

    uri: str
    query: str
    settings: WriteSettings
    #: never shown, because they contain secrets
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    branch: str | None = None
    #: whether rows replace rows with the same keys
    merge: bool = False
    #: the key columns; by default the primary key
    on: tuple[str, ...] = ()
    #: the options of the process that made the sink; over Connect, another process calls it
    values: Options = field(default_factory=options.current)
    #: over Connect, the session of the query; batches come in copies of this session
    home: SparkSession | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return _arrive, ({f.name: getattr(self, f.name) for f in fields(self) if f.name != "home"},)

    def __call__(self, frame: object, batch: int) -> bool:
        """Write a batch, unless it was written before.

        frame: the rows of the batch.
        batch: its number.

        Returns
        -------
        bool
            True if this call wrote the batch.

        Raises InvalidArgumentError: the name belongs to another query, whose batches have the same
            numbers.
        Raises LancekitError: the errors of a write or a merge.
        """
        if not is_spark_dataframe(frame):
            raise InvalidTypeError(
                f"A batch of a stream must be a Spark DataFrame, got a {type(frame).__name__}.",
                hint="Pass the sink to df.writeStream.foreachBatch(sink).",
            )
        mark = BatchMarker(key=_KEY + self.query, number=int(batch))
        callers = _callers(frame, self.home)
        with options(**asdict(self.values)):
            location = open_location(self.uri, self.storage_options).on(self.branch)
            current = _newest(location)
            if current is not None and self._has_landed(mark, callers, current):
                return False
            mark = replace(mark, origin=_origin(mark, callers, current))
            try:
                self._write(frame, mark, current, location)
            except DatasetExistsError:  # another writer created it meanwhile
                return self(frame, batch)
            except CommitConflictError:
                if self._has_landed(mark, callers, latest_snapshot(location)):
                    return False  # another run of the query was first
                raise
            return True

    def _has_landed(self, mark: BatchMarker, callers: frozenset[str], current: Snapshot) -> bool:
        newest = mark.newest(current.manifest.config)
        if newest is None:
            return False
        if callers and newest.origin and newest.origin not in callers:
            raise InvalidArgumentError(
                f"The name {self.query!r} belongs to another streaming query, which wrote its "
                f"batch {newest.number}: the batches of a new checkpoint count from 0 again.",
                hint="Use another name for this query, or its old checkpoint. To reuse the name: "
                f"ds.delete_config_keys([{mark.key!r}]).",
                query=self.query,
                batch=newest.number,
            )
        return newest.number >= mark.number

    def _write(
        self, frame: object, mark: BatchMarker, current: Snapshot | None, location: BranchLocation
    ) -> None:
        properties = {
            **self.settings.properties,
            f"{_KEY}query": self.query,
            f"{_KEY}batch": str(mark.number),
        }
        settings = replace(self.settings, properties=properties, mark=mark)
        source = open_source(frame, None)
        if current is None or not self.merge:
            write_rows(source, current or location, settings)
            return
        clauses = check_clauses(
            current.manifest.schema, MergeClauses(on=self.on, matched="update", insert=True)
        )
        merge_rows(
            current, source, clauses, RetryPolicy(), properties=settings.all_properties(), mark=mark
        )


def _newest(location: BranchLocation) -> Snapshot | None:
    if location.branch is not None:
        return resolve(location.on(None), Reference(branch=location.branch))
    try:
        return latest_snapshot(location)
    except DatasetNotFoundError:
        return None


def _arrive(values: dict[str, Any]) -> StreamSink:
    """Rebuild a sink in the process that it was sent to."""
    if _WORKER not in os.environ:
        return StreamSink(**values)
    from pyspark.sql.connect.session import SparkSession

    # This is the query's own session; at the first batch, a copy will be active.
    return StreamSink(**values, home=SparkSession.getActiveSession())


def _callers(frame: DataFrame, home: SparkSession | None) -> frozenset[str]:
    """Return the ids of the streaming queries that may be calling, as far as Spark reports them.

    On a classic session, there is only one.  Over Connect, they are all queries of the session.
    """
    session = frame.sparkSession
    if is_connect(session):
        return frozenset() if home is None else frozenset(q.id for q in home.streams.active)
    found = session.sparkContext.getLocalProperty(_QUERY_ID)
    return frozenset([found] if found else [])


def _origin(mark: BatchMarker, callers: frozenset[str], current: Snapshot | None) -> str:
    """Return the id of the calling query, or the known id of its last batch."""
    if len(callers) == 1:
        return min(callers)
    newest = None if current is None else mark.newest(current.manifest.config)
    return "" if newest is None else newest.origin
