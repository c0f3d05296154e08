"""Full-text search: finds the rows with the best scores, then reads their columns."""

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
from lancekit._scan.address_map import POSITION, Narrowed, fetch_rows, matching_rows
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

#: the score of a row
SCORE = pa.field("_score", pa.float32())
#: a search is repeated for this many times as many rows until enough of them qualify
_MORE = 2


def leaves(query: FullTextQuery) -> list[MatchQuery | PhraseQuery]:
    """Return the queries of single columns in a query.

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
    """A search for the rows that match a full-text query, by descending score.

    query: the query.
    snapshot: the version whose indices are searched.
    prefilter: whether the scan's filter is applied before the search. Else it is applied to the
        rows found.
    indexed_only: whether to skip rows that no index covers.
    among: a condition on all rows. For rows from an index, it is only applied to the best
        candidates.
    """

    query: FullTextQuery
    snapshot: Snapshot
    prefilter: bool = False
    indexed_only: bool = False
    among: Narrowed | None = None

    @property
    def made(self) -> tuple[pa.Field, ...]:
        """The columns that the search computes."""
        return (SCORE,)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that are read for rows that no index covers."""
        return tuple(dict.fromkeys(leaf.column for leaf in leaves(self.query)))

    def columns(
        self, given: object, stored: list[str], *, scored: bool
    ) -> list[str] | dict[str, str]:
        """Return the columns of the result: the requested ones and the score.

        given: names, SQL expressions by names, or ``None`` for all columns in ``stored``.
        scored: whether to add the score if it is not requested.
        """
        mine = {SCORE.name: SCORE.name} if scored else {}
        if isinstance(given, dict):
            return {**given, **{name: own for name, own in mine.items() if name not in given}}
        names = list(stored) if given is None else column_names(given)
        return [*names, *(name for name in mine if name not in names)]

    def describe(self, scan: Scan) -> str:
        """Describe the search in a plan."""
        rows = sum(source.num_rows for source in scan.sources)
        return (
            f"full-text search over {rows:,} rows in {', '.join(self.reads)}: indexed rows are "
            "looked up, the text of other rows is read, then the other columns of the rows found"
        )

    def blocks(self, scan: Scan) -> Generator[pa.Table]:
        """Yield the scan's outputs of the matching rows, the best first."""
        if not scan.sources:
            return
        late = None if self.prefilter else scan.request.predicate
        most = None if scan.limit is None else scan.limit + scan.offset
        best = self._top_rows(scan, most)
        wanted = pa.table({POSITION: best.positions, SCORE.name: best.scores})
        yield from fetch_rows(scan, wanted, late)

    def _top_rows(self, scan: Scan, most: int | None) -> Scored:
        """Return the best rows that satisfy `among`, the best first."""
        limit = most if most is None or self.among is None else _MORE * most
        while True:
            best = self._find(scan, limit or None).best(limit)
            if self.among is None:
                return best
            kept = best.where(matching_rows(scan, best.positions, self.among(None)))
            if most is None or limit is None:
                return kept
            if len(kept.positions) >= most or len(best.positions) < limit:
                return kept.first(most)
            limit *= _MORE

    def _find(self, scan: Scan, most: int | None) -> Scored:
        """Return the matching rows; ``most`` is how many of the best are needed."""
        early = scan.request.predicate if self.prefilter else None
        read = early if self.among is None else self.among(early)
        leaves_of: dict[str, list[MatchQuery | PhraseQuery]] = {}
        for leaf in leaves(self.query):
            leaves_of.setdefault(leaf.column, []).append(leaf)
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
            for name, mine in leaves_of.items()
        }
        if early is not None or self.query.parts():
            most = None
        try:
            found = _matches(self.query, columns, most)
        except (CorruptFileError, UnsupportedFeatureError) as error:
            warn(f"Full-text indices are not used, all rows are scanned: {error}")
            columns = {name: replace(one, reads_all=True) for name, one in columns.items()}
            found = _matches(self.query, columns, most)
        return found if early is None else found.where(_filter_mask(scan)[found.positions])


def _texts(queries: Sequence[MatchQuery | PhraseQuery]) -> tuple[str, ...] | None:
    """Return the texts of a column's queries; ``None`` if a query allows other spellings."""
    if any(isinstance(leaf, MatchQuery) and leaf.fuzziness for leaf in queries):
        return None
    return tuple(leaf.query for leaf in queries)


def _filter_mask(scan: Scan) -> npt.NDArray[np.bool_]:
    """Return a mask of the dataset's rows that match the filter of a scan."""
    position = Output(column_field(scan.sources[0].schema, "_rowoffset"))
    request = ScanRequest(outputs=(position,), predicate=scan.request.predicate)
    out = np.zeros(max(source.first_row + source.num_rows for source in scan.sources), bool)
    for table in scan.of_same_rows(request).tables():
        out[table.column(0).to_numpy()] = True
    return out


def _matches(
    query: FullTextQuery, columns: Mapping[str, TextColumn], most: int | None = None
) -> Scored:
    """Return the rows that match a query; from one column, at least the ``most`` best rows."""
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
    """Return the spellings that a query allows; ``None`` if only the exact one."""
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
    positive, negative = (_matches(part, columns) for part in query.parts())
    return lessened(positive, negative, query.negative_boost)


def _combined(query: BooleanQuery, columns: Mapping[str, TextColumn]) -> Scored:
    must, may, never = (
        [_matches(part, columns) for part in query.of(occur)]
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
    MultiMatchQuery: lambda query, columns: best_of([_matches(q, columns) for q in query.parts()]),
    BoostQuery: _boosted,
    CombinedFieldsQuery: _as_one,
    BooleanQuery: _combined,
}

# ---- several columns, searched as if their texts were one: BM25 over fields (BM25F)
#
# The count of a token in a row is the sum of its counts in all columns, each times the column's
# weight. The length of a row is the same sum of lengths. The number of rows, and of rows with a
# token, is the largest of all columns.

_Sums = npt.NDArray[np.float32]


def _combined_fields(
    text: str, columns: Sequence[TextColumn], boosts: Sequence[float], *, all_of: bool
) -> Scored:
    """Return the rows with words of a text in some columns: with all words, or with one.

    boosts: the weight of each column's words.

    Raises InvalidArgumentError: the columns' indices have different tokenizer settings.
    """
    columns = _with_one_tokenizer(columns)
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


def _with_one_tokenizer(columns: Sequence[TextColumn]) -> list[TextColumn]:
    """Return the columns with one tokenizer: columns without an index get it from the others."""
    settings = {column.index_settings for column in columns} - {None}
    if len(settings) > 1:
        raise InvalidArgumentError(
            f"The indices of the columns {', '.join(repr(column.column) for column in columns)} "
            "have different settings.",
            hint="Recreate the indices with the same settings.",
        )
    default = settings.pop() if settings else None
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
    """Add numbers to the sums of distinct rows; position -1 is no row."""
    here = positions >= 0
    sums[positions[here]] += numbers[here] * np.float32(boost)
