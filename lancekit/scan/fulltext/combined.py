"""Several columns, searched as if their texts were one: BM25 over fields (BM25F).

A row has a token as often as all columns together have it, and is as long as all of them, each with
its weight.  Of how many rows there are, and how many have a token, the column counts that has most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lancekit.errors import InvalidArgumentError
from lancekit.index.inverted.bm25 import Statistics, weights
from lancekit.scan.fulltext.column import Documents, TextColumn
from lancekit.scan.fulltext.scored import Scored, nothing

__all__ = ["combined_fields"]

_Sums = npt.NDArray[np.float32]


def combined_fields(
    text: str, columns: Sequence[TextColumn], boosts: Sequence[float], *, all_of: bool
) -> Scored:
    """Return the rows with words of a text in some columns: with all of them, or with one.

    Parameters
    ----------
    boosts
        How much the words of each column weigh.

    Raises
    ------
    InvalidArgumentError
        The columns' indices make tokens of text in different ways.
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
