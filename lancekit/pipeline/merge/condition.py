"""The condition of a merge: which of the rows that have a match change.

Both engines, and both ways to write, ask it of pairs: a source row and the row that it matches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.pipeline.keys.probe import Matches
from lancekit.pipeline.merge.plan import MergeClauses
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragments.category_keys import joined
from lancekit.scan.fragments.reader import FragmentReader
from lancekit.scan.fragments.rebatch import taken
from lancekit.scan.fragments.source import FragmentSource

__all__ = ["condition_columns", "condition_holds", "rows_at_a_time", "where_condition"]

#: decoded bytes of the source's rows that are put together with others at a time
_STEP_BYTES = 64 << 20
_LEAST_ROWS = 1024


def condition_columns(condition: str | None, names: Sequence[str]) -> list[str]:
    """Return the columns that a condition may mean: those whose names its text holds."""
    text = (condition or "").casefold()
    return [n for n in names if text and (not n.isidentifier() or n.casefold() in text)]


def condition_holds(
    condition: str, source: pa.Table, target: pa.Table | None
) -> npt.NDArray[np.int64]:
    """Return for which pairs of a source row and the target row that it matches it holds.

    There may be no target: a condition may do without.
    """
    sides = {"source": _as_struct(source)}
    if target is not None:
        sides["target"] = _as_struct(target)
    pairs = pa.table(sides)
    found = Predicate.parse(condition, pairs.schema).mask(pairs)
    return np.flatnonzero(found.to_numpy(zero_copy_only=False))


def _as_struct(table: pa.Table) -> pa.Array:
    structs = table.to_struct_array()
    return joined(structs.chunks, structs.type)


def rows_at_a_time(source: pa.Table) -> int:
    """Return how many rows of the source are put together with others at a time."""
    width = source.nbytes // max(source.num_rows, 1)
    return int(max(_STEP_BYTES // max(width, 8), _LEAST_ROWS))


def where_condition(
    match: Matches, source: pa.Table, target: FragmentSource, clauses: MergeClauses
) -> Matches:
    """Return those of a fragment's matches for which the condition holds."""
    if clauses.condition is None or clauses.matched != "update":
        return match
    names = condition_columns(clauses.condition, target.schema.names)
    reader, chosen, step = FragmentReader(target), [np.empty(0, np.int64)], rows_at_a_time(source)
    for start in range(0, len(match.offsets), step):
        part = match.part(slice(start, start + step))
        old = reader.read(names, part.offsets) if names else None
        new = taken(source, part.source_rows)
        chosen.append(condition_holds(clauses.condition, new, old) + start)
    return match.part(np.concatenate(chosen))
