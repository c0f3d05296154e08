"""``spark.readStream.format("lance")``: the rows that were appended or updated since a version.

A batch from one offset to another always has the same rows.  So a query that is restarted from its
checkpoint reads the same rows again:

- from version 0 on, all rows of the later version;
- in a table with stable row ids, the rows of the later version that were created or last changed
  after the earlier version, each once, in its state at the later version;
- in other tables, the rows of each append between the versions, by its transaction.  Other changes
  move rows so that old and new rows cannot be distinguished: such a version raises an error, or is
  skipped with ``skipRewrites``.

Deletions are not reported.  A change that is larger than the limit of a batch is read by several
batches, some fragments each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from lancekit._machine import processors
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, RowSet
from lancekit._scan.read import Read
from lancekit._spark.datasource.options import LATEST, SourceOptions
from lancekit._spark.datasource.stream_changes import ChangeLog
from lancekit._spark.datasource.writer import plan_scan
from lancekit._spark.frames.scan import (
    Piece,
    cut_pieces,
    read_piece,
    scan_batch,
    scan_wire,
    whole_ranges,
)
from lancekit._spark.jobs.failures import Sent, briefly
from lancekit._spark.jobs.worker import enter_worker
from lancekit._versions.listing import list_versions
from lancekit.errors import (
    InvalidArgumentError,
    LancekitError,
    SchemaMismatchError,
    VersionNotFoundError,
)

_UPDATED = "_row_last_updated_at_version"

#: the largest number of bytes in Spark
_MOST_BYTES = (1 << 63) - 1

#: most changes in a progress report: without stable row ids, each needs a manifest
_REPORTED = 100


@dataclass(slots=True)
class _Room:
    """The capacity left in a batch, in fragments and bytes. The first fragment always fits."""

    fragments: float
    bytes: float
    is_empty: bool = True

    def fit(self, sizes: Iterable[int]) -> int:
        """Return how many of some fragments fit, in order, and reserve capacity for them."""
        taken = 0
        for size in sizes:
            if not self.is_empty and (self.fragments < 1 or self.bytes < size):
                break
            self.fragments -= 1
            self.bytes -= size
            self.is_empty = False
            taken += 1
        return taken


class LanceStreamReader(
    Sent,
    DataSourceStreamReader,  # type: ignore[misc]  # pyspark is untyped here
    SupportsTriggerAvailableNow,  # type: ignore[misc]  # as above
):
    """A stream of the changes on one branch."""

    def __init__(self, options: SourceOptions, wire: pa.Schema) -> None:
        self._options = options
        self._wire = wire
        self._log = ChangeLog(options)
        self._last: int | None = None
        self._newest_at_start: _StreamOffset | None = None
        self._batch_end: _StreamOffset | None = None

    # ---- offsets

    @briefly
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the start of a query without a checkpoint."""
        newest = self._versions()[-1]
        start = self._options.starting_version
        if start > newest:
            raise InvalidArgumentError(
                f"startingVersion={start} does not exist yet: the newest version is {newest}.",
                hint='Pass an existing version, or "latest" for future changes.',
                version=start,
            )
        if start != LATEST:
            return _StreamOffset(start).to_json()
        self._newest_at_start = _StreamOffset(newest)
        return self._newest_at_start.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of batches, if the options set one.

        Spark passes one limit from here to `latestOffset`, which applies all limits of the options.
        A trigger that reads everything passes `ReadAllAvailable` instead.
        """
        options = self._options
        limits = (
            options.max_versions_per_batch,
            options.max_files_per_trigger,
            options.max_bytes_per_trigger,
        )
        if limits == (None, None, None):
            return ReadAllAvailable()
        return ReadMaxBytes(min(options.max_bytes_per_trigger or _MOST_BYTES, _MOST_BYTES))

    @briefly
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the end of the next batch."""
        at = _StreamOffset.parse(start)
        versions = self._versions()
        if versions[-1] < at.version:
            raise VersionNotFoundError(
                f"The stream has read up to version {at.version}, but the newest is "
                f"{versions[-1]}.",
                hint="The dataset was recreated: start with a new checkpoint.",
                version=at.version,
            )
        last = versions[-1] if self._last is None else self._last
        later = [version for version in versions if at.version < version <= last]
        if at == self._newest_at_start:
            # If the query crashes in its first batch, Spark requests the start again, and gets a
            # later version.  So the first batch is empty, or the rows in between would be lost.
            self._newest_at_start = None
            self._batch_end = at
        elif isinstance(limit, ReadAllAvailable):
            self._batch_end = _StreamOffset(later[-1]) if later else _StreamOffset(at.version)
        else:
            self._batch_end = self._bounded(at, later[: self._options.max_versions_per_batch])
        return self._batch_end.to_json()

    def _bounded(self, at: _StreamOffset, later: Sequence[int]) -> _StreamOffset:
        """Return the end of a batch that the options limit."""
        given, log = self._options, self._log
        room = _Room(given.max_files_per_trigger or np.inf, given.max_bytes_per_trigger or np.inf)
        if at.since is None and (not later or room.fragments == room.bytes == np.inf):
            return _StreamOffset(later[-1]) if later else at
        end, done = at.version, at.fragments
        with given.on_this():
            for since, until in self._steps(at, later):
                left = log.sizes(since, until)[done:].tolist()
                taken = room.fit(left)
                if taken < len(left):
                    return (
                        _StreamOffset(until, since, done + taken) if taken else _StreamOffset(since)
                    )
                end, done = until, 0
        return _StreamOffset(end)

    def _steps(self, at: _StreamOffset, later: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the changes that a batch can read, in order, first the one already begun."""
        if at.since is not None:
            yield at.since, at.version
            if self._log.load(at.version, at.since).manifest.has_stable_row_ids:
                return  # a row that changed again would be in the batch twice
        if later:
            yield from self._log.steps(at.version, later[-1])

    @briefly
    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the newest version and the backlog after the batch, for ``lastProgress``.

        These figures must not be in offsets, because Spark starts a batch when an offset changes.
        """
        versions = self._versions()
        return {"version": versions[-1], **self._behind(versions)}

    def _behind(self, versions: Sequence[int]) -> dict[str, int]:
        """Return the versions, fragments and bytes that remain after the batch."""
        at = self._batch_end
        if at is None:
            return {}
        later = [version for version in versions if version > at.version]
        found = {"versionsBehind": len(later) + (at.since is not None)}
        left: list[npt.NDArray[np.int64]] = []
        try:
            with self._options.on_this():
                if at.since is not None:
                    left.append(self._log.sizes(at.since, at.version)[at.fragments :])
                steps = self._log.steps(at.version, versions[-1])
                left += [self._log.sizes(*step) for step in islice(steps, _REPORTED)]
        except LancekitError:
            return found  # the batch that reads this change raises the error
        found["fragmentsBehind"] = sum(map(len, left))
        found["bytesBehind"] = sum(int(sizes.sum()) for sizes in left)
        return found

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record the newest version, the end of a run with ``availableNow``."""
        self._last = self._versions()[-1]

    def _versions(self) -> tuple[int, ...]:
        with self._options.on_this():
            return list_versions(self._options.location()).versions

    # ---- batches

    @briefly
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the pieces of a batch."""
        spans = list(_spans_between(_StreamOffset.parse(start), _StreamOffset.parse(end)))
        found = []
        with self._options.on_this():
            for number, span in enumerate(spans):
                request = self._request(span)
                pieces = self._pieces(request, span, spans[number + 1 :])
                found += [InputPartition((request, piece)) for piece in pieces]
        return found

    @briefly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece."""
        enter_worker(self._options.in_force())
        request, piece = partition.value
        for batch in read_piece(piece, request):
            yield scan_batch(batch, self._wire)

    def _request(self, span: _Span) -> ScanRequest:
        """Return the columns and the filter of a span."""
        at = self._log.load(span.until, span.since)
        options = replace(self._options, columns=tuple(self._wire.names))
        request = plan_scan(options, at).request
        if span.since and at.manifest.has_stable_row_ids:
            text = f"{_UPDATED} > {span.since} AND {_UPDATED} <= {span.until}"
            changed = Predicate.parse(text, pa.schema([]))
            wanted = changed if request.predicate is None else request.predicate.also(changed)
            request = replace(request, predicate=wanted)
        if scan_wire(request).types != self._wire.types:
            raise SchemaMismatchError(
                f"The column types changed in or before version {span.until}.",
                hint="Restart the query with a new checkpoint.",
                version=span.until,
            )
        return request

    def _pieces(self, request: ScanRequest, span: _Span, later: Sequence[_Span]) -> list[Piece]:
        sources = self._log.sources(span.since, span.until)[span.first : span.stop]
        if not later or not all(source.stable_row_ids for source in sources):
            return cut_pieces(whole_ranges(sources), request, processors())
        again = np.concatenate([self._log.changed_ids(s.since, s.until) for s in later])
        return [_without(source, again) for source in sources]


def _without(source: FragmentSource, ids: npt.NDArray[np.uint64]) -> Piece:
    """Return the rows of a fragment, except rows with some stable ids."""
    reader = FragmentReader(source)
    own = reader.row_ids(np.arange(reader.physical_rows))
    rows = BitMap(np.flatnonzero(~np.isin(own, ids)).astype(np.uint32))
    return Piece((), Read((source,), RowSet(rows={source.fragment.id: rows})))


# ---- positions of a stream, in the form of Spark's checkpoints


@dataclass(frozen=True, slots=True)
class _StreamOffset:
    """A position in a stream: all changes up to `version`, or part of the last change, are read.

    version: the version that the stream reads, or has read.
    since: ``None`` if the version is read completely. Otherwise, the change starts at this version
        and ends at `version`.
    fragments: the number of fragments of the change that are read, in the order of the change.
    """

    version: int
    since: int | None = None
    fragments: int = 0

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> _StreamOffset:
        """Parse an offset from a checkpoint.

        Raises InvalidArgumentError: the offset has keys or values that this release does not write.
        """
        keys = set(offset)
        if keys in ({"version"}, {"since", "until", "fragments"}) and all(
            isinstance(value, int) for value in offset.values()
        ):
            if "version" in offset:
                return cls(offset["version"])
            return cls(offset["until"], offset["since"], offset["fragments"])
        raise InvalidArgumentError(
            f"The offset {dict(offset)!r} of the checkpoint is unknown.",
            hint="Use the release of lancekit that wrote it, or start with a new checkpoint.",
        )

    def to_json(self) -> dict[str, int]:
        """Return the offset for Spark, always with the same text.

        A position within a change has no key "version", because an older release that does not know
        such positions would consider the whole version as read.
        """
        if self.since is None:
            return {"version": self.version}
        return {"since": self.since, "until": self.version, "fragments": self.fragments}


@dataclass(frozen=True, slots=True)
class _Span:
    """Fragments `first` to before `stop` of the change from version `since` to `until`.

    `stop` is ``None`` for all further fragments.
    """

    since: int
    until: int
    first: int = 0
    stop: int | None = None


def _spans_between(start: _StreamOffset, end: _StreamOffset) -> Iterator[_Span]:
    """Yield the spans of a batch: the rest of a change, whole changes, and a part of a change."""
    at = start.version
    if start.since is not None:
        same = (start.since, start.version) == (end.since, end.version)
        yield _Span(start.since, start.version, start.fragments, end.fragments if same else None)
        if same:
            return
    whole = end.version if end.since is None else end.since
    if whole > at:
        yield _Span(at, whole)
    if end.since is not None:
        yield _Span(end.since, end.version, 0, end.fragments)
