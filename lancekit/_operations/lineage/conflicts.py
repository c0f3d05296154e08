"""Conflicting rows of a merge: shown to the user, and settled by chosen sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._choice import check_choice
from lancekit._display import Displayed
from lancekit._format.extensions import resolved
from lancekit._legible import clean, literal, literals, python_rows, python_value, shown
from lancekit._operations.lineage.column_conflicts import ColumnConflict
from lancekit._operations.lineage.merged_columns import Cells, Rewritten, Settled
from lancekit._operations.lineage.three_way_plan import ThreeWay
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.match import Matches, match_keys
from lancekit._pipeline.diff.row_values import NOWHERE, Addresses, read_rows, row_values
from lancekit._pipeline.diff.values import Seeds, digests, plain_values
from lancekit._pipeline.frames import exact_frame
from lancekit._pipeline.inputs import as_reader
from lancekit._sampled import SampledRows
from lancekit._scan.fragments.rebatch import joined
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, MergeConflictError, SchemaMismatchError

if TYPE_CHECKING:
    import pandas as pd

# ---- the chosen side of conflicts: for all, by column, or by row

#: one of the two sides that changed a row
_Side = Literal["ours", "theirs"]

_SIDES = ("ours", "theirs")
_NOBODY, _OURS, _THEIRS = range(3)
_CODES = {"fail": _NOBODY, "ours": _OURS, "theirs": _THEIRS}


@dataclass(frozen=True, slots=True)
class Sides:
    """The sides that settle conflicts: by row, else by column, else the default.

    Pass it as ``conflicts=`` of `Branches.merge`, `cherry_pick`, `rebase`, `revert` or
    `DatasetDiff.apply`.  Values that only one side changed always come from that side.  Sides of
    columns do not apply to a row that one side deleted: the whole row stays or is deleted.

    Parameters
    ----------
    default
        ``"ours"``, ``"theirs"``, or ``"fail"``: a conflict without a chosen side is an error.
    columns
        ``"ours"`` or ``"theirs"`` by the column's name on a side or in the merge base;
        ``"the schema"`` names the metadata of the schema, ``"the primary key"`` the key.
    rows
        ``"ours"`` or ``"theirs"`` by the key of a row, as in `Conflicts.to_table`: a value, or a
        tuple of values if the key has several columns.  Without a key, use the row id.

    Raises
    ------
    InvalidArgumentError
        A value is not the name of a side.

    Examples
    --------
    >>> import lancekit as lk
    >>> rows = {"id": [1, 2], "price": [5, 5], "name": ["a", "b"]}
    >>> ds = lk.write_dataset(rows, "memory://sides-example", primary_key="id")
    >>> trial = ds.create_branch("trial")
    >>> for side, by in ((ds, 1), (trial, 2)):
    ...     _ = side.update({"price": f"price + {by}", "name": f"concat(name, '{by}')"})
    >>> sides = lk.Sides("ours", columns={"price": "theirs"}, rows={2: "theirs"})
    >>> _ = ds.branches.merge("trial", conflicts=sides)
    >>> sorted(ds.to_table(columns=["name", "price"]).to_pylist(), key=str)
    [{'name': 'a1', 'price': 7}, {'name': 'b2', 'price': 7}]
    """

    default: Literal["fail", "ours", "theirs"] = "fail"
    columns: Mapping[str, _Side] = field(default_factory=dict)
    rows: Mapping[Any, _Side] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("default", self.default, tuple(_CODES))
        for name in ("columns", "rows"):
            sides = getattr(self, name)
            if not isinstance(sides, Mapping):
                raise InvalidArgumentError(
                    f"{name} of Sides must be a dict of 'ours' and 'theirs', got {shown(sides)}.",
                    argument=name,
                )
            for key, side in sides.items():
                check_choice(f"{name}[{literal(key)}]", side, _SIDES)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The conflicting cells that come from the source, and the rows without a chosen side."""

    theirs: Cells
    left: npt.NDArray[np.int64]


def choose_sides(plan: ThreeWay, sides: Sides) -> Chosen:
    """Return the side chosen for each conflict.

    Raises InvalidArgumentError: a row is in no conflict, or the name of a column fits two columns.
    Raises SchemaMismatchError: the key of a row does not fit the key columns.
    """
    clashes = plan.clashes
    codes = np.full(clashes.cells.shape, _CODES[sides.default], np.int8)
    both = np.logical_and(clashes.ours != NOWHERE, clashes.theirs != NOWHERE)
    merged = {column.field.name: column for column in plan.merged.columns}
    for at in np.flatnonzero(clashes.cells[both].any(axis=0)).tolist():
        name = plan.columns[at].name
        codes[both, at] = _CODES[plan.sides.of(name, merged[name].names)]
    if sides.rows:
        conflicts = Conflicts(plan)
        named = _named(plan, sides, conflicts.key)
        hint = "Use the keys of Conflicts.to_table(), each once."
        found = pair_with_conflicts(conflicts.keys(), named, conflicts.key, hint=hint)
        by_row = np.array([_CODES[side] for side in sides.rows.values()], np.int8)
        codes[found.old] = by_row[found.new, np.newaxis]
    undecided = (clashes.cells & (codes == _NOBODY)).any(axis=1)
    return Chosen(clashes.cells & (codes == _THEIRS), np.flatnonzero(undecided))


def settle(plan: ThreeWay, chosen: Chosen) -> Settled:
    """Return the changes to apply to the target; rows without a chosen side stay unchanged."""
    agreed, clashes = plan.agreed, plan.clashes
    here, there = clashes.ours != NOWHERE, clashes.theirs != NOWHERE
    taken = clashes.taken | chosen.theirs
    come: npt.NDArray[np.bool_] = np.logical_or.reduce(taken, axis=1)
    come[chosen.left] = False
    both = here & there & come
    part = Rewritten.of_cells(clashes.theirs[both], clashes.ours[both], taken[both])
    return Settled(
        deleted=np.union1d(agreed.deleted, clashes.ours[here & ~there & come]),
        rewritten=(*agreed.rewritten, part),
        inserted=np.concatenate([agreed.inserted, clashes.theirs[there & ~here & come]]),
    )


def _named(plan: ThreeWay, sides: Sides, key: tuple[str, ...]) -> pa.Table:
    """Return the keys of the rows in ``Sides.rows`` as a table."""
    schema = plan.schema.to_arrow()
    wanted = pa.schema(
        [schema.field(name) if plan.key else pa.field(name, pa.uint64()) for name in key]
    )
    values = [row if len(key) > 1 else (row,) for row in sides.rows]
    for row in values:
        if not isinstance(row, tuple) or len(row) != len(key):
            raise SchemaMismatchError(
                f"{literal(row)} is not a value of the key ({', '.join(key)}).",
                hint="Identify a row by a tuple with one value for each key column.",
                row=row,
            )
    columns = dict(zip(key, map(list, zip(*values, strict=True)), strict=True))
    if plan.key:
        given = as_reader(columns, None, wanted).read_all()
        cast = plan_cast(given.schema, wanted)
        parts = chain.from_iterable(map(cast.pieces, given.to_batches()))
        return pa.Table.from_batches(parts, wanted)
    return pa.table(columns, schema=wanted)


# ---- rows that the user names by their keys, each paired with its conflict


def pair_with_conflicts(
    conflicts: pa.Table, rows: pa.Table, key: Sequence[str], *, hint: str
) -> Matches:
    """Pair conflicts (old) with rows (new) by their keys, which have the types of ``rows``.

    Raises InvalidArgumentError: a row belongs to no conflict, or two rows to the same conflict;
        ``hint`` is the hint of the error.
    """
    seeds = Seeds.drawn()
    old, new = (
        digests([plain_values(part[name], rows.schema.field(name).type) for name in key], seeds)
        for part in (conflicts, rows)
    )
    found = match_keys(old, new)
    if len(found.alone.new) or len(found.repeated.new):
        at = int([*found.alone.new, *found.repeated.new][0])
        row = {name: python_value(rows[name][at]) for name in key}
        raise InvalidArgumentError(
            f"The row with {literals(row)} matches no conflict, or the conflict of another row.",
            hint=hint,
            row=row,
        )
    return found


#: a selection of conflicts: a slice, or positions
Part: TypeAlias = slice | npt.NDArray[np.int64]
#: the kinds of conflicts: the operation of the target, then of the source
KINDS = ("update/update", "update/delete", "delete/update", "insert/insert")


@dataclass(frozen=True, slots=True)
class ConflictedRow:
    """One conflicting row: `columns` are the columns whose value both sides changed.

    `base`, `ours` and `theirs` are the row in that version; ``None`` if the version lacks the row.
    """

    kind: str
    key: dict[str, Any]
    columns: tuple[str, ...]
    base: dict[str, Any] | None
    ours: dict[str, Any] | None
    theirs: dict[str, Any] | None


class SampledConflicts(SampledRows[ConflictedRow]):
    """Some of the conflicting rows of a merge."""


class Conflicts(Displayed):
    """The rows that both sides changed differently.

    `base`, `ours` and `theirs` are the (branch, version) of the merge base and of the sides.  Rows
    are read on request.
    """

    def __init__(self, plan: ThreeWay) -> None:
        self._plan = plan

    def __len__(self) -> int:
        return len(self._plan.clashes)

    @property
    def base(self) -> tuple[str, int]:
        """The branch and the version of the merge base."""
        return self._plan.base.reference

    @property
    def ours(self) -> tuple[str, int]:
        """The branch and the version of the target."""
        return self._plan.ours.reference

    @property
    def theirs(self) -> tuple[str, int]:
        """The branch and the version of the source, whose changes are applied."""
        return self._plan.theirs.reference

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row: its key, or ``_rowid``."""
        return self._plan.key or ("_rowid",)

    @property
    def by_column(self) -> tuple[ColumnConflict, ...]:
        """The columns that both sides changed differently, settled or not."""
        return self._plan.merged.conflicts

    @property
    def counts(self) -> dict[str, int]:
        """The number of conflicts by kind: the operation of the target, then of the source."""
        found = np.bincount(self._kinds(), minlength=len(KINDS)).tolist()
        return {kind: count for kind, count in zip(KINDS, found, strict=True) if count}

    @property
    def by_name(self) -> dict[str, int]:
        """The number of conflicting values by column, in rows that both sides have."""
        both = np.logical_and(*(rows != NOWHERE for rows in self._addresses[1:]))
        counts = self._plan.clashes.cells[both].sum(axis=0).tolist()
        names = (pair.name for pair in self._plan.columns)
        return {name: count for name, count in zip(names, counts, strict=True) if count}

    def sample(self, n: int = 10, offset: int = 0) -> list[ConflictedRow]:
        """Return some conflicts; their order is fixed.

        Parameters
        ----------
        n
            The most conflicts to return.
        offset
            The number of conflicts to skip.

        Returns
        -------
        list of ConflictedRow
            Each with its kind, key, columns, and the row of each version.

        Raises
        ------
        TypeError
            ``n`` or ``offset`` is not a number.

        Examples
        --------
        >>> import lancekit as lk
        >>> rows = {"id": [1], "v": [0]}
        >>> ds = lk.write_dataset(rows, "memory://conflict-sample", primary_key="id")
        >>> _ = ds.create_branch("trial").update({"v": "1"})
        >>> _ = ds.update({"v": "2"})
        >>> [row.key for row in ds.branches.compare("trial").conflicts.sample()]
        [{'id': 1}]
        """
        start = max(offset, 0)
        return SampledConflicts(self._rows(slice(start, start + max(n, 0))), len(self))

    def _rows(self, part: Part, skipped: Collection[str] = ()) -> list[ConflictedRow]:
        rows = python_rows(self._table(part, skipped))
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
        """Return all conflicts: kind, key, columns, and the row of each version as a struct."""
        return resolved(self._table(slice(None)))

    def keys(self) -> pa.Table:
        """Return the key, or the row id, of each conflict, in the order of the conflicts."""
        return resolved(pa.table(dict(self._identities(slice(None)))))

    def to_pandas(self) -> pd.DataFrame:
        """Return all conflicts as a pandas DataFrame; see `to_table`."""
        # if a row lacks a value, pandas turns the integers of the struct field into floats
        return exact_frame(self.to_table(), {"integer_object_nulls": True})

    def error(self, left: npt.NDArray[np.int64] | None = None) -> MergeConflictError:
        """Return the error for all conflicts, or for the conflicts ``left`` without a side."""
        plan, total = self._plan, len(self)
        number = total if left is None else len(left)
        of_all = "" if number == total else f"; {total} conflicts in all, the others are resolved"
        part = slice(0, 5) if left is None else left[:5]
        return MergeConflictError(
            f"{plan.theirs.called} and {plan.ours.called} changed {number} "
            f"row{'s' if number != 1 else ''} differently since {plan.base.called}{of_all}:",
            details=[*map(_line, self._rows(part)), *(["..."] if number > 5 else [])],
            hint='error.context["conflicts"] has all conflicts. conflicts="ours" keeps the values '
            f'of {plan.ours.location.name}, "theirs" takes the other values, lk.Sides chooses by '
            "row and column, and a function returns the resolved rows.",
            conflicts=self,
        )

    # ---- how rows are made

    def _kinds(self, part: Part = slice(None)) -> npt.NDArray[np.int64]:
        base, theirs, ours = (rows[part] != NOWHERE for rows in self._addresses)
        return np.select([base & theirs & ours, ~theirs, ~ours], [0, 1, 2], 3).astype(np.int64)

    @property
    def _addresses(self) -> tuple[Addresses, Addresses, Addresses]:
        found = self._plan.clashes
        return found.base, found.theirs, found.ours

    def _table(self, part: Part, skipped: Collection[str] = ()) -> pa.Table:
        plan, (base, theirs, ours) = self._plan, (rows[part] for rows in self._addresses)
        names = np.array([pair.name for pair in plan.columns], object)
        listed = [names[cells].tolist() for cells in plan.clashes.cells[part]]
        before, columns = (
            tuple(pair for pair in pairs if pair.name not in skipped)
            for pairs in (plan.before, plan.columns)
        )
        sides = {
            "base": _structs(plan.to_ours.old, before, base, new=False),
            "ours": _structs(plan.ours, columns, ours, new=True),
            "theirs": _structs(plan.theirs, columns, theirs, new=False),
        }
        kinds = pa.array([KINDS[kind] for kind in self._kinds(part)], pa.string())
        return pa.table(
            {
                "_conflict": kinds,
                **dict(self._identities(part, sides)),
                "_columns": pa.array(listed, pa.list_(pa.string())),
                **sides,
            }
        )

    def _identities(
        self, part: Part, sides: Mapping[str, pa.StructArray] | None = None
    ) -> Iterator[tuple[str, pa.Array | pa.ChunkedArray]]:
        """Yield the columns that identify conflicts: keys on the side that has the row, or row ids.

        ``sides`` are the rows of both sides, if they were read already.
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
            both = [sides[side].field(name) for side in ("ours", "theirs")]
            places = np.arange(len(ours)) + np.where(ours == NOWHERE, len(ours), 0)
            yield name, ak.take(joined(both, both[0].type), places)

    def _plain(self) -> str:
        columns = f", {len(self.by_column)} columns" if self.by_column else ""
        return f"Conflicts({len(self)} rows{columns})"


#: the side that settles conflicts
Named: TypeAlias = Literal["fail", "ours", "theirs"] | Sides
#: how conflicts are settled: by a side, or by a function that returns rows
Resolve: TypeAlias = Named | Callable[[Conflicts], object]


def _structs(
    side: Snapshot, columns: tuple[ColumnPair, ...], rows: Addresses, *, new: bool
) -> pa.StructArray:
    """Return rows as structs; null where the side lacks the row."""
    there = rows != NOWHERE
    found = rows[there]
    fields = [
        pair.new.to_arrow().with_name(pair.name).with_type(pair.kind).with_nullable(True)
        for pair in columns
    ]
    if not len(found):
        return cast("pa.StructArray", pa.nulls(len(rows), pa.struct(fields)))
    values = row_values(columns, read_rows(side, found), found, new=new)
    typed = [field.with_type(of.type) for field, of in zip(fields, values, strict=True)]
    structs = pa.StructArray.from_arrays(values, fields=typed)
    places = np.cumsum(there) - 1
    return ak.take(structs, pa.array(places, pa.int64(), mask=~there))


def _line(row: ConflictedRow) -> str:
    key = literals(row.key)
    sides = {"base": row.base, "ours": row.ours, "theirs": row.theirs}
    if row.kind != KINDS[0]:
        return f"  {key}: {row.kind} (ours/theirs)"
    cells = (
        f"{clean(name)} {' / '.join(literal((side or {})[name]) for side in sides.values())}"
        for name in row.columns
    )
    return f"  {key}: {', '.join(cells)} (base / ours / theirs)"
