"""The condition of a merge, which selects the matched rows that change.

Both engines, and both ways to write, evaluate it for pairs of a source row and its matched row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._format.paths import parse_path
from lancekit._pipeline.probe import Matches
from lancekit._scan.expressions.predicate import Predicate, Unbound
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.rebatch import joined, taken
from lancekit._scan.fragments.source import FragmentSource
from lancekit.errors import PredicateError

#: decoded bytes of source rows that are paired with target rows at the same time
_STEP_BYTES = 64 << 20
_LEAST_ROWS = 1024


@dataclass(frozen=True, slots=True)
class PairCondition:
    """A condition over ``source.`` and ``target.`` columns, with the columns that it reads.

    Can be pickled.  It is bound again to the rows of each evaluation, whose types may differ from
    the schemas.
    """

    condition: Unbound
    source: tuple[str, ...]
    target: tuple[str, ...]

    @classmethod
    def of(cls, condition: Unbound, source: pa.Schema, target: pa.Schema) -> PairCondition:
        """Bind a condition to the columns of both sides.

        Raises PredicateError: it does not parse, reads an unknown column, or is not boolean.
        """
        sides = {"source": pa.struct(source), "target": pa.struct(target)}
        try:
            bound = Predicate.parse(condition, pa.schema(sides))
        except PredicateError as error:
            name = error.context.get("column")
            if name in {*source.names, *target.names}:
                error.hint = f"Write lk.source({name!r}) or lk.target({name!r}); "
                error.hint += f"in SQL text, source.{name} or target.{name}."
            raise
        paths = [parse_path(column) for column in bound.columns]
        of_source = _read_of("source", source.names, paths)
        return cls(condition, of_source, _read_of("target", target.names, paths))

    def holds(self, source: pa.Table, target: pa.Table | None) -> npt.NDArray[np.int64]:
        """Return the positions of the pairs of source and target rows that satisfy the condition.

        source, target: the rows of the pairs, with at least the columns that are read; ``target``
            may be None if no target column is read.
        """
        # a condition without columns still needs the number of pairs
        sides = {"source": _as_struct(source.select([*self.source] or source.column_names[:1]))}
        if target is not None and self.target:
            sides["target"] = _as_struct(target.select([*self.target]))
        pairs = pa.table(sides)
        found = Predicate.parse(self.condition, pairs.schema).mask(pairs)
        return np.flatnonzero(found.to_numpy(zero_copy_only=False))


def _read_of(side: str, names: Sequence[str], paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    read = {path[1] if len(path) > 1 else None for path in paths if path[0] == side}
    return tuple(name for name in names if name in read or None in read)


def _as_struct(table: pa.Table) -> pa.Array:
    structs = table.to_struct_array()
    return joined(structs.chunks, structs.type)


def rows_at_a_time(source: pa.Table) -> int:
    """Return how many rows of the source are paired with target rows at the same time."""
    width = source.nbytes // max(source.num_rows, 1)
    return int(max(_STEP_BYTES // max(width, 8), _LEAST_ROWS))


def where_condition(
    match: Matches, source: pa.Table, target: FragmentSource, condition: PairCondition | None
) -> Matches:
    """Return the matches of a fragment that satisfy the condition; all without one."""
    if condition is None:
        return match
    names = [*condition.target]
    reader, chosen, step = FragmentReader(target), [np.empty(0, np.int64)], rows_at_a_time(source)
    for start in range(0, len(match.offsets), step):
        part = match.part(slice(start, start + step))
        old = reader.read(names, part.offsets) if names else None
        new = taken(source, part.source_rows)
        chosen.append(condition.holds(new, old) + start)
    return match.part(np.concatenate(chosen))
