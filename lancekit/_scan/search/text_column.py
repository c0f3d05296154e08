"""The texts of a column: those that an index knows, and those that are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit._format.index import IndexMetadata
from lancekit._format.paths import find_field
from lancekit._index.build.sorting import whole
from lancekit._index.inverted.analyzer import Analyzer, Token, TokenTable, analyzer
from lancekit._index.inverted.bm25 import (
    Matches,
    Statistics,
    all_tokens,
    any_token,
    one_of_each,
    with_phrase,
)
from lancekit._index.inverted.fst import Spelling, alternatives
from lancekit._index.inverted.partition import FreshPartition, Partition, StoredPartition
from lancekit._index.inverted.segment import OpenSegment, open_segment
from lancekit._index.inverted.settings import AnalyzerSettings
from lancekit._index.kinds import INVERTED, first_of
from lancekit._index.row_sets import among
from lancekit._index.search.reuse import Reuse, covered_now, found_reuse
from lancekit._index.segment import Segment
from lancekit._lazy import cached_property
from lancekit._scan.address_map import AddressMap
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.external_table import ExternalTable
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.reader import column_field
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import Output
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._scan.unused_indices import opened_or_told
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

_PartitionSearch = Callable[[Partition, Sequence[str], Statistics], Matches]
#: tells of documents of a partition, which ascend, which count
_PartitionCheck = Callable[[Partition, npt.NDArray[np.uint32]], npt.NDArray[np.bool_]]

#: bytes of text that are read at a time, for each thread
_BLOCK_BYTES = 16 << 20
#: how words are compared that may be spelt otherwise: no stems, no small letters, as in pylance
_AS_WRITTEN = AnalyzerSettings(
    max_token_length=None,
    lower_case=False,
    stem=False,
    remove_stop_words=False,
    ascii_folding=False,
)
#: how many times as many documents as are wanted are looked at first, and then again, since some
#: may be gone, or not count
_MARGIN = 4


def text_indices(snapshot: Snapshot, column: str) -> tuple[IndexMetadata, ...]:
    """Return the segments of the first full-text index of a column; there may be none."""
    return first_of(INVERTED, snapshot.indices, find_field(snapshot.manifest.schema, column)[-1].id)


@dataclass(frozen=True, eq=False, slots=True)
class Documents:
    """Texts, and the positions of their rows; -1 is a row that is gone."""

    partition: Partition
    positions: npt.NDArray[np.int64]


@dataclass(frozen=True)
class TextColumn:
    """A column of text, in some fragments of a version.

    texts: all that is asked of the column: other words are not kept of rows that no index covers.
        Without it all are.
    predicate: what rows that no index covers have to fulfil.
    indexed_only: whether these rows are passed over, if there is an index.
    default: how text becomes tokens if no index says it.
    reads_all: whether indices are passed over, but for how they make tokens.
    tables: tables that are read as fragments.  Their rows are scored as those that no index covers,
        but where they have an index that makes tokens alike, that has them.
    """

    snapshot: Snapshot
    column: str
    sources: tuple[FragmentSource, ...]
    texts: tuple[str, ...] | None
    predicate: Predicate | None = None
    indexed_only: bool = False
    default: AnalyzerSettings | None = None
    reads_all: bool = False
    tables: tuple[ExternalTable, ...] = ()

    def match(
        self,
        text: str,
        *,
        all_of: bool,
        spelling: Spelling | None = None,
        most: int | None = None,
    ) -> Scored:
        """Return the rows with words of a text: with all of them, or with one.

        spelling: which other words count for each; without it none do.
        most: how many of the best are wanted at least; others may be left out.
        """
        if spelling is None:
            words = _asked(self.analyzer.tokens(text))
            all_of = all_of and not self.analyzer.in_pieces
            return self._search(words, all_tokens if all_of else any_token, most)
        words = _asked(analyzer(_AS_WRITTEN).tokens(text))
        partitions: list[Partition] = [partition for partition, _ in self._stored]
        partitions += self._later
        groups = alternatives(words, [partition.words() for partition in partitions], spelling)
        search = partial(one_of_each, groups=groups) if all_of else any_token
        return self._search([word for group in groups for word in group], search, most)

    def phrase(self, text: str, slop: int, most: int | None = None) -> Scored:
        """Return the rows in which the words of a text follow each other; ``most`` as above.

        Raises InvalidArgumentError: the index does not know where words are.
        """
        tokens = self.analyzer.tokens(text)
        for _, segment in self._segments:
            if not segment.has_positions:
                raise InvalidArgumentError(
                    f"The index of the column {self.column!r} holds no positions, which phrases "
                    "need.",
                    hint="Make the index anew with with_position=True.",
                    column=self.column,
                )
        if self.analyzer.in_pieces:
            return self._search(_asked(tokens), any_token, most)
        holds = partial(with_phrase, phrase=tokens, slop=slop)
        return self._search([token.text for token in tokens], all_tokens, most, holds)

    def _search(
        self,
        words: Sequence[str],
        search: _PartitionSearch,
        most: int | None,
        holds: _PartitionCheck | None = None,
    ) -> Scored:
        """Return the rows that a search finds, and `holds` says to count."""
        if not words:
            return nothing()
        known = Statistics.of([partition for partition, _ in self._stored], words)
        of_all = known + Statistics.of(self._later, words)
        parts = []
        for stored, statistics in ((self._stored, known), (self._of_tables, of_all)):
            for partition, places in stored:
                found = search(partition, words, statistics)
                here = _Located(partition, places, holds)
                parts.append(here.best(found, most))
        if self._uncovered:
            found = _counted(self._fresh, search(self._fresh, words, of_all), holds)
            parts.append(Scored.of(self._fresh.rows[found.docs], found.scores))
        return added(parts)

    def documents(self) -> list[Documents]:
        """Return all texts, those that are indexed and others."""
        found = [
            Documents(partition, places.positions(partition.row_ids))
            for partition, places in (*self._stored, *self._of_tables)
        ]
        return [*found, Documents(self._fresh, self._fresh.rows)] if self._uncovered else found

    # ---- what an index knows

    @property
    def analyzer(self) -> Analyzer:
        """What makes tokens of its text: as its index says, or by the defaults."""
        return analyzer(self.said or self.default or AnalyzerSettings())

    @property
    def said(self) -> AnalyzerSettings | None:
        """How its index makes tokens of text; ``None`` if there is none."""
        return self._opened[1]

    @property
    def _segments(self) -> list[tuple[BitMap, OpenSegment]]:
        return self._opened[0]

    @cached_property
    def _opened(self) -> tuple[list[tuple[BitMap, OpenSegment]], AnalyzerSettings | None]:
        """The segments that are used, each with what it covers, and how text becomes tokens."""
        found: list[tuple[BitMap, OpenSegment]] = []
        settings: AnalyzerSettings | None = None
        for index in text_indices(self.snapshot, self.column):
            opened = _opened(self.snapshot, index)
            if opened is None:
                continue
            settings = settings or opened.settings
            covered = covered_now(index, self._reuse)
            if opened.settings == settings and covered:
                found.append((covered, opened))
        return [] if self.reads_all else found, settings

    @cached_property
    def _reuse(self) -> Reuse | None:
        return found_reuse(self.snapshot)

    @cached_property
    def _stored(self) -> list[tuple[StoredPartition, AddressMap]]:
        """The documents that are indexed, and where their rows are."""
        found: list[tuple[StoredPartition, AddressMap]] = []
        for covered, segment in self._segments:
            mine = [source for source in self.sources if source.fragment.id in covered]
            here = AddressMap(mine, self._reuse)
            found += [(partition, here) for partition in segment.partitions]
        return found

    @cached_property
    def _of_tables(self) -> list[tuple[StoredPartition, AddressMap]]:
        """The documents that indices of external tables have."""
        return [
            (partition, AddressMap([table.source], table))
            for table, segment in self._table_segments
            for partition in segment.partitions
        ]

    @cached_property
    def _table_segments(self) -> list[tuple[ExternalTable, OpenSegment]]:
        field_id = find_field(self.snapshot.manifest.schema, self.column)[-1].id
        positions = all(segment.has_positions for _, segment in self._segments)
        found = []
        for table in () if self.reads_all else self.tables:
            for index in table.indices(INVERTED, field_id):
                opened = _opened(table.snapshot, index)
                if opened is None or opened.has_positions < positions:
                    continue
                if opened.settings == (self.said or self.default or AnalyzerSettings()):
                    found.append((table, opened))
        return found

    # ---- what no index knows

    @property
    def _later(self) -> list[Partition]:
        """What the statistics of the table's own index lack."""
        found: list[Partition] = [partition for partition, _ in self._of_tables]
        return [*found, self._fresh] if self._uncovered else found

    @cached_property
    def _uncovered(self) -> tuple[FragmentSource, ...]:
        if self.indexed_only and self._segments:
            return ()
        covered = BitMap().union(*(covered for covered, _ in self._segments))
        covered.update(table.fragment_id for table, _ in self._table_segments)
        return tuple(source for source in self.sources if source.fragment.id not in covered)

    @cached_property
    def _fresh(self) -> FreshPartition:
        wanted = None
        if self.texts is not None:
            made = map(self.analyzer.tokens, self.texts)
            wanted = {token.text for tokens in made for token in tokens}
        return FreshPartition(self._blocks(), wanted)

    def _blocks(self) -> Iterator[tuple[npt.NDArray[np.int64], TokenTable]]:
        schema = self._uncovered[0].schema
        outputs = (
            Output(column_field(schema, self.column), path=self.column),
            Output(column_field(schema, "_rowoffset")),
        )
        request = ScanRequest(outputs=outputs, predicate=self.predicate, block_bytes=_BLOCK_BYTES)
        for table in Scan(read=Read(self._uncovered), request=request).tables():
            texts, positions = table.columns
            yield positions.to_numpy().astype(np.int64), self.analyzer.table(whole(texts))


def _opened(snapshot: Snapshot, index: IndexMetadata) -> OpenSegment | None:
    def opened() -> OpenSegment:
        store, kept = snapshot.base_store(index.base_id), snapshot.location.open_files
        segment = open_segment(Segment(index, INVERTED, store, kept))
        analyzer(segment.settings)  # which may be one that is not known
        return segment

    return opened_or_told(index, INVERTED, opened)


def _asked(tokens: Sequence[Token]) -> list[str]:
    """Return what is looked for: the same at the same place counts once."""
    return [token.text for token in dict.fromkeys(tokens)]


@dataclass(frozen=True, slots=True, eq=False)
class _Located:
    """Finds the rows of documents that count, of which it asks no more than it has to."""

    partition: StoredPartition
    places: AddressMap
    holds: _PartitionCheck | None

    def best(self, found: Matches, most: int | None) -> Scored:
        """Return the rows of documents; of many that are found at least the ``most`` best."""
        asked = _MARGIN * (most or len(found.docs))
        while asked < len(found.docs):
            some = _best_places(found.scores, asked)
            rows = self._live(Matches(found.docs[some], found.scores[some]))
            if most is not None and len(rows.positions) >= most:
                return rows
            asked *= _MARGIN
        return self._live(found)

    def _live(self, found: Matches) -> Scored:
        found = _counted(self.partition, found, self.holds)
        positions = self.places.positions(self.partition.row_ids[found.docs])
        here = positions >= 0
        return Scored.of(positions[here], found.scores[here])


def _counted(partition: Partition, found: Matches, holds: _PartitionCheck | None) -> Matches:
    """Return the documents that count."""
    if holds is None or not len(found.docs):
        return found
    kept = holds(partition, found.docs)
    return Matches(found.docs[kept], found.scores[kept])


# ---- rows with scores, and how those of several queries are put together

Positions = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

#: of how many scores one is looked at first
_PART = 16


@dataclass(frozen=True, eq=False, slots=True)
class Scored:
    """Positions of rows in the dataset, ascending, and their scores."""

    positions: Positions
    scores: Scores

    @classmethod
    def of(cls, positions: Positions, scores: Scores) -> Scored:
        """Put rows in order."""
        if (positions[1:] > positions[:-1]).all():
            return cls(positions, scores)
        order = np.argsort(positions)
        return cls(positions[order], scores[order])

    def among(self, others: Scored) -> npt.NDArray[np.bool_]:
        """Return which rows others have, too."""
        return among(self.positions, others.positions)

    def where(self, wanted: npt.NDArray[np.bool_]) -> Scored:
        """Return some of the rows."""
        return Scored(self.positions[wanted], self.scores[wanted])

    def first(self, most: int) -> Scored:
        """Return the first rows."""
        return Scored(self.positions[:most], self.scores[:most])

    def best(self, most: int | None) -> Scored:
        """Return the rows of the highest scores, the best first, equal ones as they come."""
        positions, scores = self.positions, self.scores
        if most is not None and most < len(scores):
            if not most:
                return Scored(positions[:0], scores[:0])
            likely = _best_places(scores, most)
            positions, scores = positions[likely], scores[likely]
        order = np.argsort(-scores, kind="stable")[:most]
        return Scored(positions[order], scores[order])


def _best_places(scores: Scores, most: int) -> npt.NDArray[np.intp]:
    """Return where the highest of many scores are, and those equal to the least of them.

    Examples
    --------
    >>> _best_places(np.array([1, 3, 2, 3, 2], np.float32), 3).tolist()
    [1, 2, 3, 4]
    """
    part = scores[: len(scores) // _PART]
    enough = len(part) > most  # then it tells of most that they are not among them
    likely = np.flatnonzero(scores >= _least(part, most)) if enough else np.arange(len(scores))
    if len(likely) > most:
        asked = scores[likely]
        likely = likely[asked >= _least(asked, most)]
    return likely


def _least(scores: Scores, most: int) -> np.float32:
    least: np.float32 = np.partition(scores, len(scores) - most)[len(scores) - most]
    return least


def nothing() -> Scored:
    """Return no rows."""
    return Scored(np.empty(0, np.int64), np.empty(0, np.float32))


def added(parts: Sequence[Scored]) -> Scored:
    """Return the rows of one of some queries, their scores added."""
    return _joined(parts, np.add)


def best_of(parts: Sequence[Scored]) -> Scored:
    """Return the rows of one of some queries, with the best of their scores."""
    return _joined(parts, np.maximum)


def required(parts: Sequence[Scored]) -> Scored:
    """Return the rows of all of some queries, their scores added."""
    kept = parts[0]
    for part in parts[1:]:
        kept = kept.where(kept.among(part))
    total = np.zeros(len(kept.positions), np.float32)
    for part in parts:
        total += part.scores[np.searchsorted(part.positions, kept.positions)]
    return Scored(kept.positions, total)


def lessened(rows: Scored, by: Scored, factor: float) -> Scored:
    """Take from the scores of rows a part of those that they have in another query."""
    scores = rows.scores.copy()
    mine = np.flatnonzero(rows.among(by))
    theirs = by.scores[np.searchsorted(by.positions, rows.positions[mine])]
    scores[mine] -= np.float32(factor) * theirs
    return Scored(rows.positions, scores)


def _joined(parts: Sequence[Scored], put_together: np.ufunc) -> Scored:
    filled = [part for part in parts if len(part.positions)]
    if len(filled) < 2:
        return filled[0] if filled else nothing()
    positions = np.sort(np.concatenate([part.positions for part in filled]))
    positions = positions[np.append(True, positions[1:] != positions[:-1])]
    total = np.zeros(len(positions), np.float32)  # no score of a row is below 0, but in `lessened`
    known = np.zeros(len(positions), bool)
    for part in filled:
        at = np.searchsorted(positions, part.positions)
        total[at] = np.where(known[at], put_together(total[at], part.scores), part.scores)
        known[at] = True
    return Scored(positions, total)
