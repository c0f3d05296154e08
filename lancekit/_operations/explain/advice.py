"""Which index would have helped a filter, and about what it would cost: for who asks to explain."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lancekit._format.paths import find_field
from lancekit._index.kinds import BTREE, LABEL_LIST, NGRAM, IndexKind
from lancekit._index.search.question import Question, Questions
from lancekit._index.trigrams import trigrams
from lancekit._legible import count, shown
from lancekit._operations.explain.explanation import stored_bytes
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.index_lookup import IndexLookup
from lancekit._versions.snapshot import Snapshot

__all__ = ["advice"]

#: Fewer rows are looked at in the time that an index takes to be asked.
LEAST_ROWS = 100_000

#: Of each row an index has where it is, besides its value.
_ADDRESS_BYTES = 8

#: At most so many indices are proposed, each of which would do.
_MOST = 2


def advice(
    snapshot: Snapshot, predicate: Predicate | None, lookup: IndexLookup | None
) -> list[str]:
    """Return what would let indices tell which rows a filter wants; no rows are read for it.

    Parameters
    ----------
    lookup
        What is asked already.
    """
    rows = snapshot.manifest.num_rows
    if predicate is None or rows < LEAST_ROWS:
        return []
    if lookup is not None:
        return _freshened(lookup, rows)
    from lancekit._scan.index_questions import questions_of  # loads the kernels

    questions = questions_of(predicate)
    found = None if questions is None else _helpful(questions)
    return [] if not found else list(_proposed(snapshot, found))


def _freshened(lookup: IndexLookup, rows: int) -> list[str]:
    """Return how rows come into the indices that are asked, if these lack many."""
    if (left := rows - lookup.covered_rows) * 8 <= rows:
        return []
    names = ", ".join(map(repr, lookup.names))
    return [
        f"{count(left)} of {count(rows)} rows are in no index that is asked; "
        f"ds.optimize.optimize_indices(index_names=[{names}]) puts them there"
    ]


def _helpful(asked: Questions) -> list[tuple[Question, IndexKind]]:
    """Return the questions that an index would answer with few rows; none if not enough are."""
    if isinstance(asked, Question):
        kind = _kind_for(asked)
        return [] if kind is None else [(asked, kind)]
    parts = [_helpful(part) for part in asked.parts]
    if not asked.all_of:  # one part without an index has all rows looked at
        return [each for part in parts for each in part] if all(parts) else []
    return [each for part in parts for each in part][:_MOST]


def _kind_for(asked: Question) -> IndexKind | None:
    """Return which index tells few rows: of an open range nobody knows how many it has."""
    if asked.items:
        return LABEL_LIST
    if asked.reach is not None:
        closed = all(None not in interval for interval in asked.reach.intervals)
        return BTREE if closed and BTREE.fits(asked.type) else None
    if asked.runs and NGRAM.fits(asked.type):
        _, ends = trigrams(pa.array(asked.runs, pa.string()))
        return NGRAM if len(ends) else None
    return None


def _proposed(snapshot: Snapshot, found: list[tuple[Question, IndexKind]]) -> Iterator[str]:
    sources, schema = fragment_sources(snapshot), snapshot.manifest.schema
    rows = snapshot.manifest.num_rows
    for column, kind in dict.fromkeys((asked.column, kind.name) for asked, kind in found):
        field = find_field(schema, column)
        read = stored_bytes(sources, schema, [field[0].name])
        size = _values(field[-1].to_arrow().type, rows, read) + _ADDRESS_BYTES * rows
        call = f"ds.create_scalar_index({shown(column)}, {kind!r})"
        yield (
            f"an index would tell which rows these are: {call} reads {_size(read)} once, "
            f"and writes about {_size(size)}"
        )


def _values(kind: pa.DataType, rows: int, stored: int) -> int:
    """Return what values take that are not packed; as much as they do where that is not known."""
    return rows * kind.bit_width // 8 if pa.types.is_primitive(kind) else stored


def _size(size: int) -> str:
    return f"{count(-(-size >> 20) if size >= 1 << 20 else 1)} MiB"
