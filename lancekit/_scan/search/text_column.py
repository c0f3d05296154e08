"""The texts of a column: in full-text indices, and in rows that no index covers."""

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
from lancekit._scan.unused_indices import open_or_warn
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

_PartitionSearch = Callable[[Partition, Sequence[str], Statistics], Matches]
#: returns a mask of the documents (ascending) of a partition that qualify
_PartitionCheck = Callable[[Partition, npt.NDArray[np.uint32]], npt.NDArray[np.bool_]]

#: bytes of text that are read at a time, for each thread
_BLOCK_BYTES = 16 << 20
#: the tokenizer for other spellings: no stems, no lower-casing, as in pylance
_AS_WRITTEN = AnalyzerSettings(
    max_token_length=None,
    lower_case=False,
    stem=False,
    remove_stop_words=False,
    ascii_folding=False,
)
#: documents are visited in growing numbers, by this factor, until enough of them qualify
_MARGIN = 4


def text_indices(snapshot: Snapshot, column: str) -> tuple[IndexMetadata, ...]:
    """Return the segments of the first full-text index of a column; empty without one."""
    return first_of(INVERTED, snapshot.indices, find_field(snapshot.manifest.schema, column)[-1].id)


@dataclass(frozen=True, eq=False, slots=True)
class Documents:
    """Texts, and the positions of their rows; -1 for a deleted row."""

    partition: Partition
    positions: npt.NDArray[np.int64]


@dataclass(frozen=True)
class TextColumn:
    """A column of text, in some fragments of a version.

    texts: all texts that the column is searched for. Of rows that no index covers, only words of
        these texts are kept. ``None`` keeps all words.
    predicate: a filter for rows that no index covers.
    indexed_only: whether to skip these rows if there is an index.
    default: the tokenizer settings if there is no index.
    reads_all: whether to ignore indices except for their tokenizer settings.
    tables: external tables. Their rows are scored like rows that no index covers. Their own index
        is used if it has the same tokenizer settings.
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
        self, text: str, *, all_of: bool, spelling: Spelling | None = None, most: int | None = None
    ) -> Scored:
        """Return the rows with words of a text: with all words, or with one.

        spelling: the other spellings of a word that match. ``None`` for exact words only.
        most: how many of the best rows are needed. Other rows may be left out.
        """
        if spelling is None:
            words = _distinct_words(self.analyzer.tokens(text))
            all_of = all_of and not self.analyzer.in_pieces
            return self._search(words, all_tokens if all_of else any_token, most)
        words = _distinct_words(analyzer(_AS_WRITTEN).tokens(text))
        partitions: list[Partition] = [partition for partition, _ in self._stored]
        partitions += self._later
        groups = alternatives(words, [partition.words() for partition in partitions], spelling)
        search = partial(one_of_each, groups=groups) if all_of else any_token
        return self._search([word for group in groups for word in group], search, most)

    def phrase(self, text: str, slop: int, most: int | None = None) -> Scored:
        """Return the rows in which the words of a text follow each other; ``most`` as in `match`.

        Raises InvalidArgumentError: the index has no positions of words.
        """
        tokens = self.analyzer.tokens(text)
        for _, segment in self._segments:
            if not segment.has_positions:
                raise InvalidArgumentError(
                    f"Phrases need token positions, which the index of column {self.column!r} "
                    "does not have.",
                    hint="Recreate the index with with_position=True.",
                    column=self.column,
                )
        if self.analyzer.in_pieces:
            return self._search(_distinct_words(tokens), any_token, most)
        holds = partial(with_phrase, phrase=tokens, slop=slop)
        return self._search([token.text for token in tokens], all_tokens, most, holds)

    def _search(
        self,
        words: Sequence[str],
        search: _PartitionSearch,
        most: int | None,
        holds: _PartitionCheck | None = None,
    ) -> Scored:
        """Return the rows that a search finds and that satisfy `holds`."""
        if not words:
            return nothing()
        known = Statistics.of([partition for partition, _ in self._stored], words)
        of_all = known + Statistics.of(self._later, words)
        parts = []
        for stored, statistics in ((self._stored, known), (self._of_tables, of_all)):
            for partition, address_map in stored:
                found = search(partition, words, statistics)
                parts.append(_Located(partition, address_map, holds).best(found, most))
        if self._uncovered:
            found = _qualifying(self._fresh, search(self._fresh, words, of_all), holds)
            parts.append(Scored.of(self._fresh.rows[found.docs], found.scores))
        return added(parts)

    def documents(self) -> list[Documents]:
        """Return all texts, indexed or not."""
        found = [
            Documents(partition, address_map.positions(partition.row_ids))
            for partition, address_map in (*self._stored, *self._of_tables)
        ]
        return [*found, Documents(self._fresh, self._fresh.rows)] if self._uncovered else found

    # ---- indexed texts

    @property
    def analyzer(self) -> Analyzer:
        """The tokenizer of the column's index, or the default one."""
        return analyzer(self.index_settings or self.default or AnalyzerSettings())

    @property
    def index_settings(self) -> AnalyzerSettings | None:
        """The tokenizer settings of the column's index; ``None`` without an index."""
        return self._opened[1]

    @property
    def _segments(self) -> list[tuple[BitMap, OpenSegment]]:
        return self._opened[0]

    @cached_property
    def _opened(self) -> tuple[list[tuple[BitMap, OpenSegment]], AnalyzerSettings | None]:
        """The usable segments with the fragments that they cover, and their tokenizer settings."""
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
        """The indexed documents, with the positions of their rows."""
        found: list[tuple[StoredPartition, AddressMap]] = []
        for covered, segment in self._segments:
            mine = [source for source in self.sources if source.fragment.id in covered]
            here = AddressMap(mine, self._reuse)
            found += [(partition, here) for partition in segment.partitions]
        return found

    @cached_property
    def _of_tables(self) -> list[tuple[StoredPartition, AddressMap]]:
        """The documents in indices of external tables."""
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
                if opened.settings == (self.index_settings or self.default or AnalyzerSettings()):
                    found.append((table, opened))
        return found

    # ---- texts without an index

    @property
    def _later(self) -> list[Partition]:
        """The partitions that the statistics of the table's own index do not count."""
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
        analyzer(segment.settings)  # raises if the settings are not supported
        return segment

    return open_or_warn(index, INVERTED, opened)


def _distinct_words(tokens: Sequence[Token]) -> list[str]:
    """Return the words to look for; a word counts once for each of its positions in the text."""
    return [token.text for token in dict.fromkeys(tokens)]


@dataclass(frozen=True, slots=True, eq=False)
class _Located:
    """A partition with the positions of its rows; it visits the best documents first."""

    partition: StoredPartition
    address_map: AddressMap
    holds: _PartitionCheck | None

    def best(self, found: Matches, most: int | None) -> Scored:
        """Return the rows of matching documents: at least the ``most`` best, perhaps not all."""
        count = _MARGIN * (most or len(found.docs))
        while count < len(found.docs):
            some = _top_indices(found.scores, count)
            rows = self._live(Matches(found.docs[some], found.scores[some]))
            if most is not None and len(rows.positions) >= most:
                return rows
            count *= _MARGIN
        return self._live(found)

    def _live(self, found: Matches) -> Scored:
        found = _qualifying(self.partition, found, self.holds)
        positions = self.address_map.positions(self.partition.row_ids[found.docs])
        here = positions >= 0
        return Scored.of(positions[here], found.scores[here])


def _qualifying(partition: Partition, found: Matches, holds: _PartitionCheck | None) -> Matches:
    """Return the documents that satisfy `holds`."""
    if holds is None or not len(found.docs):
        return found
    kept = holds(partition, found.docs)
    return Matches(found.docs[kept], found.scores[kept])


# ---- rows with scores, and their combinations

Positions = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

#: the first of this many parts of the scores gives a lower bound, which rules out most scores
_PART = 16


@dataclass(frozen=True, eq=False, slots=True)
class Scored:
    """Ascending positions of rows in the dataset, and their scores."""

    positions: Positions
    scores: Scores

    @classmethod
    def of(cls, positions: Positions, scores: Scores) -> Scored:
        """Return rows sorted by position."""
        if (positions[1:] > positions[:-1]).all():
            return cls(positions, scores)
        order = np.argsort(positions)
        return cls(positions[order], scores[order])

    def among(self, others: Scored) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows that are also in another result."""
        return among(self.positions, others.positions)

    def where(self, wanted: npt.NDArray[np.bool_]) -> Scored:
        """Return the rows that a mask selects, with their scores."""
        return Scored(self.positions[wanted], self.scores[wanted])

    def first(self, most: int) -> Scored:
        """Return the first `most` rows."""
        return Scored(self.positions[:most], self.scores[:most])

    def best(self, most: int | None) -> Scored:
        """Return the rows with the highest scores, in descending order; ties keep their order."""
        positions, scores = self.positions, self.scores
        if most is not None and most < len(scores):
            if not most:
                return Scored(positions[:0], scores[:0])
            candidates = _top_indices(scores, most)
            positions, scores = positions[candidates], scores[candidates]
        order = np.argsort(-scores, kind="stable")[:most]
        return Scored(positions[order], scores[order])


def _top_indices(scores: Scores, most: int) -> npt.NDArray[np.intp]:
    """Return the indices of the `most` highest scores, and of ties with the least of these.

    Examples
    --------
    >>> _top_indices(np.array([1, 3, 2, 3, 2], np.float32), 3).tolist()
    [1, 2, 3, 4]
    """
    part = scores[: len(scores) // _PART]
    enough = len(part) > most
    candidates = np.flatnonzero(scores >= _least(part, most)) if enough else np.arange(len(scores))
    if len(candidates) > most:
        count = scores[candidates]
        candidates = candidates[count >= _least(count, most)]
    return candidates


def _least(scores: Scores, most: int) -> np.float32:
    least: np.float32 = np.partition(scores, len(scores) - most)[len(scores) - most]
    return least


def nothing() -> Scored:
    """Return an empty result."""
    return Scored(np.empty(0, np.int64), np.empty(0, np.float32))


def added(parts: Sequence[Scored]) -> Scored:
    """Return the rows of any of some results, with the sums of their scores."""
    return _joined(parts, np.add)


def best_of(parts: Sequence[Scored]) -> Scored:
    """Return the rows of any of some results, with the best of their scores."""
    return _joined(parts, np.maximum)


def required(parts: Sequence[Scored]) -> Scored:
    """Return the rows in all of some results, with the sums of their scores."""
    kept = parts[0]
    for part in parts[1:]:
        kept = kept.where(kept.among(part))
    total = np.zeros(len(kept.positions), np.float32)
    for part in parts:
        total += part.scores[np.searchsorted(part.positions, kept.positions)]
    return Scored(kept.positions, total)


def lessened(rows: Scored, by: Scored, factor: float) -> Scored:
    """Subtract a share of the scores in another result from the scores of rows."""
    scores = rows.scores.copy()
    mine = np.flatnonzero(rows.among(by))
    theirs = by.scores[np.searchsorted(by.positions, rows.positions[mine])]
    scores[mine] -= np.float32(factor) * theirs
    return Scored(rows.positions, scores)


def _joined(parts: Sequence[Scored], combine: np.ufunc) -> Scored:
    filled = [part for part in parts if len(part.positions)]
    if len(filled) < 2:
        return filled[0] if filled else nothing()
    positions = np.sort(np.concatenate([part.positions for part in filled]))
    positions = positions[np.append(True, positions[1:] != positions[:-1])]
    total = np.zeros(len(positions), np.float32)
    known = np.zeros(len(positions), bool)  # a score of `lessened` can be below 0
    for part in filled:
        at = np.searchsorted(positions, part.positions)
        total[at] = np.where(known[at], combine(total[at], part.scores), part.scores)
        known[at] = True
    return Scored(positions, total)
