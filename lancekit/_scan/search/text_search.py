"""Search for words: the best rows are found by what is asked, then they are read."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._index.inverted.bm25 import Statistics, weights
from lancekit._index.inverted.fst import Spelling
from lancekit._legible import warn
from lancekit._scan.address_map import POSITION, Narrowed, chosen_rows, fulfilling
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.reader import column_field
from lancekit._scan.outputs import Output, column_names
from lancekit._scan.scan import Scan
from lancekit._scan.search.text_column import (
    Documents,
    Scored,
    TextColumn,
    added,
    best_of,
    lessened,
    nothing,
    required,
)
from lancekit._scan.search.text_queries import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    FullTextOperator,
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError, UnsupportedFeatureError

#: how well a row answers
SCORE = pa.field("_score", pa.float32())
#: how many times as many rows are looked for if some may not count, and then again
_MORE = 2


def leaves(query: FullTextQuery) -> list[MatchQuery | PhraseQuery]:
    """Return the queries of single columns that a query is made of.

    Examples
    --------
    >>> [leaf.column for leaf in leaves(MultiMatchQuery("snow", ["title", "text"]))]
    ['title', 'text']
    """
    if isinstance(query, MatchQuery | PhraseQuery):
        return [query]
    return [leaf for part in query.parts() for leaf in leaves(part)]


@dataclass(frozen=True, kw_only=True)
class FullTextSearch:
    """Which rows are wanted: those that answer to a query, the best first.

    query: what is asked.
    snapshot: the version, whose indices are searched.
    prefilter: whether the scan's filter is asked before; if not, it is asked of the rows that are
        found.
    indexed_only: whether rows that no index covers are passed over.
    among: what is asked of rows in any case: of those that an index has, of no more of them than
        would be the best.
    """

    query: FullTextQuery
    snapshot: Snapshot
    prefilter: bool = False
    indexed_only: bool = False
    among: Narrowed | None = None

    @property
    def made(self) -> tuple[pa.Field, ...]:
        """The columns that the search makes."""
        return (SCORE,)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that rows are asked for which no index covers."""
        return tuple(dict.fromkeys(leaf.column for leaf in leaves(self.query)))

    def columns(
        self, asked: object, stored: list[str], *, scored: bool
    ) -> list[str] | dict[str, str]:
        """Return the columns of the result: those asked for, and the score.

        asked: names, SQL expressions by names, or ``None`` for all that is ``stored``.
        scored: whether the score comes along if nobody asks for it.
        """
        mine = {SCORE.name: SCORE.name} if scored else {}
        if isinstance(asked, dict):
            return {**asked, **{name: own for name, own in mine.items() if name not in asked}}
        names = list(stored) if asked is None else column_names(asked)
        return [*names, *(name for name in mine if name not in names)]

    def describe(self, scan: Scan) -> str:
        """Say what is done."""
        rows = sum(source.num_rows for source in scan.sources)
        return (
            f"full-text search over {rows:,} rows in {', '.join(self.reads)}: what an index "
            "covers is looked up, other text is read; of the other columns the rows found are read"
        )

    def blocks(self, scan: Scan) -> Generator[pa.Table]:
        """Yield what the scan asks for of the rows that answer, the best first."""
        if not scan.sources:
            return
        late = None if self.prefilter else scan.request.predicate
        most = None if scan.limit is None else scan.limit + scan.offset
        best = self._best(scan, most)
        wanted = pa.table({POSITION: best.positions, SCORE.name: best.scores})
        yield from chosen_rows(scan, wanted, late)

    def _best(self, scan: Scan, most: int | None) -> Scored:
        """Return the best rows that count, the best first."""
        asked = most if most is None or self.among is None else _MORE * most
        while True:
            best = self._find(scan, asked or None).best(asked)
            if self.among is None:
                return best
            kept = best.where(fulfilling(scan, best.positions, self.among(None)))
            if most is None or asked is None:
                return kept
            if len(kept.positions) >= most or len(best.positions) < asked:
                return kept.first(most)
            asked *= _MORE

    def _find(self, scan: Scan, most: int | None) -> Scored:
        early = scan.request.predicate if self.prefilter else None
        read = early if self.among is None else self.among(early)
        asked: dict[str, list[MatchQuery | PhraseQuery]] = {}
        for leaf in leaves(self.query):
            asked.setdefault(leaf.column, []).append(leaf)
        columns = {
            name: TextColumn(
                self.snapshot,
                name,
                tuple(scan.sources),
                _texts(mine),
                read,
                self.indexed_only,
                tables=scan.read.tables,
            )
            for name, mine in asked.items()
        }
        if early is not None or self.query.parts():
            most = None
        try:
            found = _answer(self.query, columns, most)
        except (CorruptFileError, UnsupportedFeatureError) as error:
            warn(f"Full-text indices are not used, all rows are looked at: {error}")
            columns = {name: replace(one, reads_all=True) for name, one in columns.items()}
            found = _answer(self.query, columns, most)
        return found if early is None else found.where(_fulfilling(scan)[found.positions])


def _texts(asked: Sequence[MatchQuery | PhraseQuery]) -> tuple[str, ...] | None:
    """Return what is asked of a column; ``None`` if words that are spelt otherwise are, too."""
    if any(isinstance(leaf, MatchQuery) and leaf.fuzziness for leaf in asked):
        return None
    return tuple(leaf.query for leaf in asked)


def _fulfilling(scan: Scan) -> npt.NDArray[np.bool_]:
    """Return of all rows of the dataset which fulfil the filter of a scan."""
    position = Output(column_field(scan.sources[0].schema, "_rowoffset"))
    request = ScanRequest(outputs=(position,), predicate=scan.request.predicate)
    out = np.zeros(max(source.first_row + source.num_rows for source in scan.sources), bool)
    for table in scan.of_same_rows(request).tables():
        out[table.column(0).to_numpy()] = True
    return out


def _answer(
    query: FullTextQuery, columns: Mapping[str, TextColumn], most: int | None = None
) -> Scored:
    """Return the rows that answer to a query; of one column's at least the ``most`` best."""
    if isinstance(query, MatchQuery):
        all_of = query.operator is FullTextOperator.AND
        found = columns[query.column].match(
            query.query, all_of=all_of, spelling=_spelling(query), most=most
        )
        return Scored(found.positions, found.scores * np.float32(query.boost))
    if isinstance(query, PhraseQuery):
        return columns[query.column].phrase(query.query, query.slop, most)
    return _ANSWERS[type(query)](query, columns)


def _spelling(query: MatchQuery) -> Spelling | None:
    """Return which words are looked for, too; ``None`` if they are to be as they are spelt."""
    if not query.fuzziness:
        return None
    return Spelling(query.fuzziness, query.prefix_length, query.max_expansions)


def _as_one(query: CombinedFieldsQuery, columns: Mapping[str, TextColumn]) -> Scored:
    return _combined_fields(
        query.query,
        [columns[name] for name in query.columns],
        query.boosts or [1.0] * len(query.columns),
        all_of=query.operator is FullTextOperator.AND,
    )


def _boosted(query: BoostQuery, columns: Mapping[str, TextColumn]) -> Scored:
    positive, negative = (_answer(part, columns) for part in query.parts())
    return lessened(positive, negative, query.negative_boost)


def _combined(query: BooleanQuery, columns: Mapping[str, TextColumn]) -> Scored:
    must, may, never = (
        [_answer(part, columns) for part in query.of(occur)]
        for occur in (Occur.MUST, Occur.SHOULD, Occur.MUST_NOT)
    )
    found = added(may)
    if must:
        whole = required(must)
        found = added([whole, found.where(found.among(whole))])
    for part in never:
        found = found.where(~found.among(part))
    return found


_ANSWERS: Mapping[type[FullTextQuery], Callable[[Any, Mapping[str, TextColumn]], Scored]] = {
    MultiMatchQuery: lambda query, columns: best_of([_answer(q, columns) for q in query.parts()]),
    BoostQuery: _boosted,
    CombinedFieldsQuery: _as_one,
    BooleanQuery: _combined,
}

# ---- several columns, searched as if their texts were one: BM25 over fields (BM25F)
#
# A row has a token as often as all columns together have it, and is as long as all of them, each
# with its weight.  Of how many rows there are, and how many have a token, the column counts that
# has most.

_Sums = npt.NDArray[np.float32]


def _combined_fields(
    text: str, columns: Sequence[TextColumn], boosts: Sequence[float], *, all_of: bool
) -> Scored:
    """Return the rows with words of a text in some columns: with all of them, or with one.

    boosts: how much the words of each column weigh.

    Raises InvalidArgumentError: the columns' indices make tokens of text in different ways.
    """
    columns = _alike(columns)
    words = list(dict.fromkeys(token.text for token in columns[0].analyzer.tokens(text)))
    fields = [column.documents() for column in columns]
    known = _statistics(fields, boosts, words)
    if not (words and known.tokens):
        return nothing()
    rows = 1 + max(int(part.positions.max(initial=-1)) for field in fields for part in field)
    lengths, total = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    for field, boost in zip(fields, boosts, strict=True):
        for part in field:
            _add(lengths, part.positions, part.partition.lengths, boost)
    wanted = np.full(rows, all_of)
    for word in words:
        counts = np.zeros(rows, np.float32)
        for field, boost in zip(fields, boosts, strict=True):
            for part in field:
                found = part.partition.postings(word)
                if found is not None:
                    _add(counts, part.positions[found.docs], found.counts, boost)
        total += weights(np.array(known.rarity(word)), 1) * known.shares(counts, lengths)
        wanted = wanted & (counts > 0) if all_of else wanted | (counts > 0)
    positions = np.flatnonzero(wanted)
    return Scored(positions, total[positions])


def _alike(columns: Sequence[TextColumn]) -> list[TextColumn]:
    """Return the columns so that all make tokens as those do that have an index."""
    said = {column.said for column in columns} - {None}
    if len(said) > 1:
        raise InvalidArgumentError(
            "The columns "
            f"{', '.join(repr(column.column) for column in columns)} have indices with different "
            "settings.",
            hint="Make indices of them with the same settings.",
        )
    default = said.pop() if said else None
    return [replace(column, default=default) for column in columns]


def _statistics(
    fields: Sequence[Sequence[Documents]], boosts: Sequence[float], words: Sequence[str]
) -> Statistics:
    each = [Statistics.of([part.partition for part in field], words) for field in fields]
    return Statistics(
        max(one.documents for one in each),
        sum(boost * one.tokens for one, boost in zip(each, boosts, strict=True)),
        {word: max(one.frequencies[word] for one in each) for word in words},
    )


def _add(
    sums: _Sums, positions: npt.NDArray[np.int64], numbers: npt.NDArray[np.uint32], boost: float
) -> None:
    """Add numbers to those of some rows, each of which comes once; -1 is no row."""
    here = positions >= 0
    sums[positions[here]] += numbers[here] * np.float32(boost)
