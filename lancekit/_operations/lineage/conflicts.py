"""The rows of which both sides made something else: shown, and settled by who is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._display import Displayed
from lancekit._format.extensions import resolved
from lancekit._legible import clean, literal, literals, python_rows
from lancekit._operations.lineage.column_conflicts import ColumnConflict
from lancekit._operations.lineage.rows import NOWHERE, read_rows
from lancekit._operations.lineage.sides import Sides
from lancekit._operations.lineage.three_way_plan import ThreeWay
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.row_values import row_values
from lancekit._pipeline.diff.side import Addresses
from lancekit._pipeline.engine.pandas_frames import exact_frame
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import MergeConflictError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ConflictedRow", "Conflicts", "Named", "Resolve"]

#: which of the conflicts: a stretch, or places
Part: TypeAlias = slice | npt.NDArray[np.int64]
#: what became of a row, ours first, by whether theirs, ours and both sides' common version have it
KINDS = ("update/update", "update/delete", "delete/update", "insert/insert")


@dataclass(frozen=True, slots=True)
class ConflictedRow:
    """One conflict: `columns` are those of which both sides changed the value.

    `base`, `ours` and `theirs` are the row there, ``None`` where there is none.
    """

    kind: str
    key: dict[str, Any]
    columns: tuple[str, ...]
    base: dict[str, Any] | None
    ours: dict[str, Any] | None
    theirs: dict[str, Any] | None


class Conflicts(Displayed):
    """The rows of which both sides made something else.

    `base`, `ours` and `theirs` are the (branch, version) of the common version and of the sides,
    `columns` those of ours.  Rows are read when they are asked for.
    """

    def __init__(self, plan: ThreeWay) -> None:
        self._plan = plan

    def __len__(self) -> int:
        return len(self._plan.clashes)

    @property
    def base(self) -> tuple[str, int]:
        """The branch and the version that both sides come from."""
        return self._plan.base.reference

    @property
    def ours(self) -> tuple[str, int]:
        """The branch and the version that is changed."""
        return self._plan.ours.reference

    @property
    def theirs(self) -> tuple[str, int]:
        """The branch and the version whose changes come."""
        return self._plan.theirs.reference

    @property
    def key(self) -> tuple[str, ...]:
        """What tells a row: its key, or its row id."""
        return self._plan.key or ("_rowid",)

    @property
    def by_column(self) -> tuple[ColumnConflict, ...]:
        """The columns of which each side made something else, settled or not."""
        return self._plan.merged.conflicts

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind: what ours did, and what theirs did."""
        found = np.bincount(self._kinds(), minlength=len(KINDS)).tolist()
        return {kind: count for kind, count in zip(KINDS, found, strict=True) if count}

    @property
    def by_name(self) -> dict[str, int]:
        """In how many rows that both sides have, both changed the value of a column."""
        both = np.logical_and(*(rows != NOWHERE for rows in self._addresses[1:]))
        counts = self._plan.clashes.cells[both].sum(axis=0).tolist()
        names = (pair.name for pair in self._plan.columns)
        return {name: count for name, count in zip(names, counts, strict=True) if count}

    def sample(self, n: int = 10, offset: int = 0) -> list[ConflictedRow]:
        """Return some of them, and others with another ``offset``: they have an order."""
        start = max(offset, 0)
        return self._rows(slice(start, start + max(n, 0)))

    def _rows(self, part: Part) -> list[ConflictedRow]:
        rows = python_rows(self._table(part))
        names = self.key
        return [
            ConflictedRow(
                kind=row["_conflict"],
                key={name: row[name] for name in names},
                columns=tuple(row["_columns"]),
                base=row["base"],
                ours=row["ours"],
                theirs=row["theirs"],
            )
            for row in rows
        ]

    def to_table(self) -> pa.Table:
        """Return all of them: kind, key, columns, and the row of each side as a struct."""
        return resolved(self._table(slice(None)))

    def keys(self) -> pa.Table:
        """Return what tells each of them, in the same order: its key, or its row id."""
        return resolved(pa.table(dict(self._told(slice(None)))))

    def to_pandas(self) -> pd.DataFrame:
        """Return all of them as a pandas DataFrame; see `to_table`."""
        # beside a row without one, a whole number of a struct would become a float
        return exact_frame(self.to_table(), {"integer_object_nulls": True})

    def error(self, left: npt.NDArray[np.int64] | None = None) -> MergeConflictError:
        """Return the error for who wants none, or those ``left`` by who settled the others."""
        plan, total = self._plan, len(self)
        number = total if left is None else len(left)
        of_all = "" if number == total else f"; of {total} conflicts these are not settled"
        part = slice(0, 5) if left is None else left[:5]
        return MergeConflictError(
            f"{plan.theirs.called} and {plan.ours.called} changed {number} "
            f"row{'s' if number != 1 else ''} each in another way since {plan.base.called}"
            f"{of_all}:",
            details=[*map(_line, self._rows(part)), *(["..."] if number > 5 else [])],
            hint='error.context["conflicts"] has them all; conflicts="ours" keeps the values of '
            f'{plan.ours.line.name}, "theirs" takes the others, lk.Sides chooses by row and '
            "column, a function of them makes rows.",
            conflicts=self,
        )

    # ---- how rows are made

    def _kinds(self, part: Part = slice(None)) -> npt.NDArray[np.int64]:
        base, theirs, ours = (rows[part] != NOWHERE for rows in self._addresses)
        conditions = [base & theirs & ours, ~theirs, ~ours]
        return np.select(conditions, [0, 1, 2], 3).astype(np.int64)

    @property
    def _addresses(self) -> tuple[Addresses, Addresses, Addresses]:
        found = self._plan.clashes
        return found.base, found.theirs, found.ours

    def _table(self, part: Part) -> pa.Table:
        plan, (base, theirs, ours) = self._plan, (rows[part] for rows in self._addresses)
        names = np.array([pair.name for pair in plan.columns], object)
        listed = [names[cells].tolist() for cells in plan.clashes.cells[part]]
        sides = {
            "base": _structs(plan.to_ours.old, plan.before, base, new=False),
            "ours": _structs(plan.ours, plan.columns, ours, new=True),
            "theirs": _structs(plan.theirs, plan.columns, theirs, new=False),
        }
        kinds = pa.array([KINDS[kind] for kind in self._kinds(part)], pa.string())
        return pa.table(
            {
                "_conflict": kinds,
                **dict(self._told(part, sides)),
                "_columns": pa.array(listed, pa.list_(pa.string())),
                **sides,
            }
        )

    def _told(
        self, part: Part, sides: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[str, pa.Array | pa.ChunkedArray]]:
        """Yield what tells the rows: their keys on the side that has them, or their ids.

        ``sides`` are the rows of both, if they were read already.
        """
        plan, (base, theirs, ours) = self._plan, (rows[part] for rows in self._addresses)
        if not plan.key:
            ids = np.zeros(len(base), np.uint64)
            new = base == NOWHERE
            here = ours != NOWHERE
            for side, rows, mask in (
                (plan.to_ours.old, base, ~new),
                (plan.ours, ours, new & here),
                (plan.theirs, theirs, new & ~here),
            ):
                if mask.any():
                    some = rows[mask]
                    ids[mask] = read_rows(side, some).read(["_rowid"], some)["_rowid"].to_numpy()
            yield "_rowid", pa.array(ids)
            return
        if sides is None:
            columns = tuple(pair for pair in plan.columns if pair.name in plan.key)
            sides = {
                "ours": _structs(plan.ours, columns, ours, new=True),
                "theirs": _structs(plan.theirs, columns, theirs, new=False),
            }
        for name in plan.key:
            left, right = (sides[side].field(name) for side in ("ours", "theirs"))
            yield name, pc.if_else(sides["ours"].is_valid(), left, right)

    def _plain(self) -> str:
        columns = f", {len(self.by_column)} columns" if self.by_column else ""
        return f"Conflicts({len(self)} rows{columns})"


#: whose values count
Named: TypeAlias = Literal["fail", "ours", "theirs"] | Sides
#: what becomes of conflicts, or who says it
Resolve: TypeAlias = Named | Callable[[Conflicts], Any]


def _structs(side: Snapshot, columns: tuple[ColumnPair, ...], rows: Addresses, *, new: bool) -> Any:
    """Return rows as structs, null where a side does not have them."""
    there = rows != NOWHERE
    found = rows[there]
    fields = [
        pair.new.to_arrow().with_name(pair.name).with_type(pair.kind).with_nullable(True)
        for pair in columns
    ]
    if not len(found):
        return pa.nulls(len(rows), pa.struct(fields))
    values = row_values(columns, read_rows(side, found), found, new=new)
    structs = pa.StructArray.from_arrays(values, fields=fields)
    places = np.cumsum(there) - 1
    return ak.take(structs, pa.array(places, pa.int64(), mask=~there))


def _line(row: ConflictedRow) -> str:
    told = literals(row.key)
    sides = {"base": row.base, "ours": row.ours, "theirs": row.theirs}
    if row.kind != KINDS[0]:
        return f"  {told}: {row.kind} (ours/theirs)"
    cells = (
        f"{clean(name)} {' / '.join(literal((side or {})[name]) for side in sides.values())}"
        for name in row.columns
    )
    return f"  {told}: {', '.join(cells)} (base / ours / theirs)"
