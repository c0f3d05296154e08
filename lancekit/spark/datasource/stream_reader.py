"""``spark.readStream.format("lance")``: the rows that were appended and updated since a version.

An offset is a version: all up to it is done.  A batch from one to another is always the same rows,
so that a query which is restarted from its checkpoint reads what it read before:

- from 0 on, all rows of the later version;
- in a table with stable row ids, the rows of the later version that were created or last changed
  after the earlier one, each once, as it is then;
- in others, the rows of each append in between, which its transaction tells.  A version that
  changed rows otherwise has moved them to where old and new cannot be told apart: an error, or
  passed over with ``skipRewrites``.

Deleted rows are not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from lancekit.errors import (
    InvalidArgumentError,
    NotOfferedError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from lancekit.format import transaction as ops
from lancekit.format.row_ids import read_row_versions
from lancekit.machine import processors
from lancekit.scan.fragment_rows import ScanRequest
from lancekit.scan.fragments.blobs import blob_view
from lancekit.scan.fragments.source import FragmentSource, fragment_sources
from lancekit.spark.datasource.options import LATEST, SourceOptions
from lancekit.spark.datasource.plan import plan_scan
from lancekit.spark.frames.scan import (
    Piece,
    cut_pieces,
    read_piece,
    scan_batch,
    scan_wire,
    whole_ranges,
)
from lancekit.spark.jobs.worker import enter_worker
from lancekit.versions.line import Line
from lancekit.versions.listing import list_versions
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["LanceStreamReader"]

_UPDATED = "_row_last_updated_at_version"

#: what neither adds rows nor changes any
_QUIET = (
    ops.Delete,
    ops.Rewrite,
    ops.ReserveFragments,
    ops.CreateIndex,
    ops.UpdateConfig,
    ops.UpdateBases,
    ops.UpdateMemWalState,
    ops.Project,
)


class LanceStreamReader(
    DataSourceStreamReader,  # type: ignore[misc]  # pyspark is untyped here
    SupportsTriggerAvailableNow,  # type: ignore[misc]  # as above
):
    """The changes of one line of versions."""

    def __init__(self, asked: SourceOptions, wire: pa.Schema) -> None:
        self._asked = asked
        self._wire = wire
        self._last: int | None = None

    # ---- offsets

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return where a query without a checkpoint starts."""
        with self._asked.on_this():
            newest = list_versions(self._asked.line()).latest
        start = self._asked.starting_version
        if start > newest:
            raise InvalidArgumentError(
                f"startingVersion={start} is not there yet: the newest version is {newest}.",
                hint='Name one that is there, or "latest" for what comes from now on.',
                version=start,
            )
        return {"version": newest if start == LATEST else start}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how many versions a batch has at most; Spark has no word for them but files."""
        most = self._asked.max_versions_per_batch
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return up to which version the next batch goes."""
        at = start["version"]
        versions = self._versions()
        if versions[-1] < at:
            raise VersionNotFoundError(
                f"The stream has read up to version {at}, and the newest is {versions[-1]}.",
                hint="The dataset was made anew: start with a new checkpoint.",
                version=at,
            )
        last = versions[-1] if self._last is None else self._last
        later = [version for version in versions if at < version <= last]
        if isinstance(limit, ReadMaxFiles):
            later = later[: limit.max_files]
        return {"version": later[-1] if later else at}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the newest version."""
        return {"version": self._versions()[-1]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note the newest version: a run of what is available goes no further."""
        self._last = self._versions()[-1]

    def _versions(self) -> tuple[int, ...]:
        with self._asked.on_this():
            return list_versions(self._asked.line()).versions

    # ---- batches

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the pieces of a batch."""
        with self._asked.on_this():
            request, sources = self._changes(start["version"], end["version"])
            ranges = whole_ranges(sources)
            pieces = cut_pieces(ranges, request, processors()) or [Piece(())]
        return [InputPartition((request, piece)) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece."""
        enter_worker(self._asked.in_force())
        request, piece = partition.value
        for batch in read_piece(piece, request):
            yield scan_batch(batch, self._wire)

    def _changes(self, start: int, end: int) -> tuple[ScanRequest, list[FragmentSource]]:
        line = self._asked.line()
        at = _load(line, end, start)
        asked = replace(self._asked, columns=tuple(self._wire.names))
        stable = at.manifest.has_stable_row_ids
        if start and stable:
            changed = f"{_UPDATED} > {start} AND {_UPDATED} <= {end}"
            both = changed if asked.filter is None else f"({asked.filter}) AND {changed}"
            asked = replace(asked, filter=both)
        scan = plan_scan(asked, at)
        if not self._fits(scan.request):
            raise SchemaMismatchError(
                f"The types of the columns have changed by version {end}.",
                hint="Start the query again, with a new checkpoint.",
                version=end,
            )
        if start == 0:
            return scan.request, list(scan.sources)
        if stable:
            return scan.request, [source for source in scan.sources if _changed(source, start)]
        sources = [
            source
            for version in range(start + 1, end + 1)
            for source in self._appended(_load(line, version, start))
        ]
        return scan.request, sources

    def _fits(self, request: ScanRequest) -> bool:
        return bool(scan_wire(request).types == self._wire.types)

    def _appended(self, at: Snapshot) -> list[FragmentSource]:
        """Return the fragments that a version appended, as they were then."""
        operation = None if at.transaction is None else at.transaction.operation
        if isinstance(operation, _QUIET):
            return []
        if isinstance(operation, ops.Append):
            new = {file.path for fragment in operation.fragments for file in fragment.files}
            sources = fragment_sources(at, blob_view(at.manifest.schema))
            return [s for s in sources if any(f.path in new for f in s.fragment.files)]
        if self._asked.skip_rewrites:
            return []
        raise NotOfferedError(
            f"Version {at.version} of {at.line.uri} is no append ({type(operation).__name__}), "
            "and without stable row ids it cannot be told which rows it changed.",
            hint='Pass option("skipRewrites", "true") to leave its rows out, or start after it '
            "with a new checkpoint; a dataset made with enable_stable_row_ids=True tells them.",
            version=at.version,
        )


def _load(line: Line, version: int, start: int) -> Snapshot:
    try:
        return load_snapshot(line, version)
    except VersionNotFoundError:
        raise VersionNotFoundError(
            f"Version {version} of {line.uri} was cleaned up before the stream, which is at "
            f"version {start}, had read it.",
            hint="Keep versions longer than the stream may lag behind (a tag keeps one); to go on, "
            "start with a new checkpoint.",
            version=version,
        ) from None


def _changed(source: FragmentSource, start: int) -> bool:
    """Return whether a fragment may have rows that changed after a version."""
    fragment = source.fragment
    if fragment.last_updated_at is None:
        return True
    found = read_row_versions(fragment.last_updated_at, fragment.physical_rows, source.where)
    return bool((found.versions > start).any())
