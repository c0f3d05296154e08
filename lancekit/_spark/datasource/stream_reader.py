"""``spark.readStream.format("lance")``: the rows that were appended and updated since a version.

A batch from one offset to another is always the same rows, so that a query which is restarted from
its checkpoint reads what it read before:

- from 0 on, all rows of the later version;
- in a table with stable row ids, the rows of the later version that were created or last changed
  after the earlier one, each once, as it is then;
- in others, the rows of each append in between, which its transaction tells.  A version that
  changed rows otherwise has moved them to where old and new cannot be told apart: an error, or
  passed over with ``skipRewrites``.

Deleted rows are not told.  Several batches read a change that is larger than one batch may be, some
fragments each.
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

#: Spark's numbers of bytes end here
_MOST_BYTES = (1 << 63) - 1

#: progress reports look into so many changes: without stable row ids each is a manifest to load
_LOOKED_AHEAD = 100


@dataclass(slots=True)
class _Room:
    """The fragments and bytes that still fit into a batch. The first fragment always fits."""

    fragments: float
    bytes: float
    is_empty: bool = True

    def fit(self, sizes: Iterable[int]) -> int:
        """Return how many of some fragments fit, in order, and keep room for them."""
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
    """The changes of one line of versions."""

    def __init__(self, asked: SourceOptions, wire: pa.Schema) -> None:
        self._asked = asked
        self._wire = wire
        self._log = ChangeLog(asked)
        self._last: int | None = None
        self._newest_at_start: _StreamOffset | None = None
        self._reached: _StreamOffset | None = None

    # ---- offsets

    @briefly
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return where a query without a checkpoint starts."""
        newest = self._versions()[-1]
        start = self._asked.starting_version
        if start > newest:
            raise InvalidArgumentError(
                f"startingVersion={start} is not there yet: the newest version is {newest}.",
                hint='Name one that is there, or "latest" for what comes from now on.',
                version=start,
            )
        if start != LATEST:
            return _StreamOffset(start).to_json()
        self._newest_at_start = _StreamOffset(newest)
        return self._newest_at_start.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return whether batches are bounded.

        Spark carries one limit from here to `latestOffset`, which applies all that the options
        have.  A trigger that reads everything sends `ReadAllAvailable` instead.
        """
        asked = self._asked
        limits = (
            asked.max_versions_per_batch,
            asked.max_files_per_trigger,
            asked.max_bytes_per_trigger,
        )
        if limits == (None, None, None):
            return ReadAllAvailable()
        return ReadMaxBytes(min(asked.max_bytes_per_trigger or _MOST_BYTES, _MOST_BYTES))

    @briefly
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return where the next batch ends."""
        at = _StreamOffset.parse(start)
        versions = self._versions()
        if versions[-1] < at.version:
            raise VersionNotFoundError(
                f"The stream has read up to version {at.version}, and the newest is "
                f"{versions[-1]}.",
                hint="The dataset was made anew: start with a new checkpoint.",
                version=at.version,
            )
        last = versions[-1] if self._last is None else self._last
        later = [version for version in versions if at.version < version <= last]
        if at == self._newest_at_start:
            # If the query crashes in its first batch, Spark asks for the start again, and gets a
            # later version.  The rows between the two would be lost, so that batch has none.
            self._newest_at_start = None
            self._reached = at
        elif isinstance(limit, ReadAllAvailable):
            self._reached = _StreamOffset(later[-1]) if later else _StreamOffset(at.version)
        else:
            self._reached = self._bounded(at, later[: self._asked.max_versions_per_batch])
        return self._reached.to_json()

    def _bounded(self, at: _StreamOffset, later: Sequence[int]) -> _StreamOffset:
        """Return where a batch ends that the options bound."""
        asked, log = self._asked, self._log
        room = _Room(asked.max_files_per_trigger or np.inf, asked.max_bytes_per_trigger or np.inf)
        if at.since is None and (not later or room.fragments == room.bytes == np.inf):
            return _StreamOffset(later[-1]) if later else at
        end, done = at.version, at.fragments
        with asked.on_this():
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
        """Yield the changes that a batch can read, in order, the begun one first."""
        if at.since is not None:
            yield at.since, at.version
            if self._log.load(at.version, at.since).manifest.has_stable_row_ids:
                return  # a row that changed once more would be in the batch twice
        if later:
            yield from self._log.steps(at.version, later[-1])

    @briefly
    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the newest version, and how far behind it the batch ends, for ``lastProgress``.

        The figures are in no offset of a checkpoint: Spark begins a batch when an offset changes.
        """
        versions = self._versions()
        return {"version": versions[-1], **self._behind(versions)}

    def _behind(self, versions: Sequence[int]) -> dict[str, int]:
        """Return the versions, fragments and bytes that are left after the batch."""
        at = self._reached
        if at is None:
            return {}
        later = [version for version in versions if version > at.version]
        found = {"versionsBehind": len(later) + (at.since is not None)}
        left: list[npt.NDArray[np.int64]] = []
        try:
            with self._asked.on_this():
                if at.since is not None:
                    left.append(self._log.sizes(at.since, at.version)[at.fragments :])
                steps = self._log.steps(at.version, versions[-1])
                left += [self._log.sizes(*step) for step in islice(steps, _LOOKED_AHEAD)]
        except LancekitError:
            return found  # the batch that comes to it has the error
        found["fragmentsBehind"] = sum(map(len, left))
        found["bytesBehind"] = sum(int(sizes.sum()) for sizes in left)
        return found

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note the newest version: a run of what is available goes no further."""
        self._last = self._versions()[-1]

    def _versions(self) -> tuple[int, ...]:
        with self._asked.on_this():
            return list_versions(self._asked.location()).versions

    # ---- batches

    @briefly
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the pieces of a batch."""
        spans = list(_spans_between(_StreamOffset.parse(start), _StreamOffset.parse(end)))
        found = []
        with self._asked.on_this():
            for number, span in enumerate(spans):
                request = self._request(span)
                pieces = self._pieces(request, span, spans[number + 1 :])
                found += [InputPartition((request, piece)) for piece in pieces]
        return found

    @briefly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece."""
        enter_worker(self._asked.in_force())
        request, piece = partition.value
        for batch in read_piece(piece, request):
            yield scan_batch(batch, self._wire)

    def _request(self, span: _Span) -> ScanRequest:
        """Return the columns and the filter of a span."""
        at = self._log.load(span.until, span.since)
        asked = replace(self._asked, columns=tuple(self._wire.names))
        request = plan_scan(asked, at).request
        if span.since and at.manifest.has_stable_row_ids:
            text = f"{_UPDATED} > {span.since} AND {_UPDATED} <= {span.until}"
            changed = Predicate.parse(text, pa.schema([]))
            wanted = changed if request.predicate is None else request.predicate.also(changed)
            request = replace(request, predicate=wanted)
        if scan_wire(request).types != self._wire.types:
            raise SchemaMismatchError(
                f"The types of the columns have changed by version {span.until}.",
                hint="Start the query again, with a new checkpoint.",
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
    """Return the rows of a fragment whose stable ids are not among some."""
    reader = FragmentReader(source)
    own = reader.row_ids(np.arange(reader.physical_rows))
    rows = BitMap(np.flatnonzero(~np.isin(own, ids)).astype(np.uint32))
    return Piece((), Read((source,), RowSet(rows={source.fragment.id: rows})))


# ---- positions of a stream, as Spark keeps them in its checkpoints


@dataclass(frozen=True, slots=True)
class _StreamOffset:
    """A position: all changes up to `version` are read, or some fragments of the last change.

    version: the version that the stream reads, or has read.
    since: ``None`` if the version is read to its end.  Otherwise the change goes from this version
        to `version`.
    fragments: how many fragments of that change are read, in the order of the change.
    """

    version: int
    since: int | None = None
    fragments: int = 0

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> _StreamOffset:
        """Read an offset of a checkpoint.

        Raises InvalidArgumentError: the offset has other keys or values than this release writes.
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

        A position within a change has no key "version": a release that does not know such
        positions would take the whole version for read.
        """
        if self.since is None:
            return {"version": self.version}
        return {"since": self.since, "until": self.version, "fragments": self.fragments}


@dataclass(frozen=True, slots=True)
class _Span:
    """Some fragments of the change from version `since` to `until`: from `first` to before `stop`.

    `stop` is ``None`` for all that follow.
    """

    since: int
    until: int
    first: int = 0
    stop: int | None = None


def _spans_between(start: _StreamOffset, end: _StreamOffset) -> Iterator[_Span]:
    """Yield what a batch reads, in order: the rest of a change, whole ones, and part of another."""
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
