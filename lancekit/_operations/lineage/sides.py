"""Whose values count where two sides clash: for all conflicts, by column, or row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._choice import check_choice
from lancekit._legible import literal, literals, python_value, shown
from lancekit._operations.lineage.merged_columns import Cells, Rewritten, Settled
from lancekit._operations.lineage.rows import NOWHERE
from lancekit._operations.lineage.three_way_plan import ThreeWay
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.diff.match import Matches, match_keys
from lancekit._pipeline.diff.values import Seeds, digests
from lancekit._pipeline.engine.inputs import as_reader
from lancekit.errors import InvalidArgumentError, SchemaMismatchError

__all__ = ["Chosen", "Side", "Sides", "choose_sides", "pair_with_conflicts", "settle"]

#: one of the two that changed a row
Side = Literal["ours", "theirs"]

_SIDES = ("ours", "theirs")
_NOBODY, _OURS, _THEIRS = range(3)
_CODES = {"fail": _NOBODY, "ours": _OURS, "theirs": _THEIRS}


@dataclass(frozen=True, slots=True)
class Sides:
    """Whose values count where both sides changed them: of a row, else of a column, else of all.

    It is for ``conflicts=`` of `Branches.merge`, `cherry_pick`, `rebase`, `revert` and
    `DatasetDiff.apply`.  What only one side changed comes from that side, as always.  Of a row that
    one side deleted, columns say nothing: it stays or goes as a whole.

    Parameters
    ----------
    default
        ``"ours"``, ``"theirs"``, or ``"fail"``: what nobody chose a side for is an error.
    columns
        ``"ours"`` or ``"theirs"`` by the name that a side or the merge base has for a column;
        ``"the schema"`` names the metadata of the schema, ``"the primary key"`` the key.
    rows
        The same by the key of a row, as `Conflicts.to_table` has it: a value, or a tuple of those
        of several key columns; the row id where there is no key.

    Raises
    ------
    InvalidArgumentError
        A side is none.

    Examples
    --------
    >>> import lancekit as lk
    >>> rows = {"id": [1, 2], "price": [5, 5], "name": ["a", "b"]}
    >>> ds = lk.write_dataset(rows, "memory://sides-example", primary_key="id")
    >>> trial = ds.create_branch("trial")
    >>> for line, by in ((ds, 1), (trial, 2)):
    ...     _ = line.update({"price": f"price + {by}", "name": f"concat(name, '{by}')"})
    >>> sides = lk.Sides("ours", columns={"price": "theirs"}, rows={2: "theirs"})
    >>> _ = ds.branches.merge("trial", conflicts=sides)
    >>> sorted(ds.to_table(columns=["name", "price"]).to_pylist(), key=str)
    [{'name': 'a1', 'price': 7}, {'name': 'b2', 'price': 7}]
    """

    default: Literal["fail", "ours", "theirs"] = "fail"
    columns: Mapping[str, Side] = field(default_factory=dict)
    rows: Mapping[Any, Side] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("default", self.default, tuple(_CODES))
        for name in ("columns", "rows"):
            sides = getattr(self, name)
            if not isinstance(sides, Mapping):
                raise InvalidArgumentError(
                    f"{name} of Sides is {shown(sides)}.",
                    hint="Pass a dictionary of 'ours' and 'theirs'.",
                    argument=name,
                )
            for key, side in sides.items():
                check_choice(f"{name}[{literal(key)}]", side, _SIDES)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The clashing values that come from theirs, and the rows of which nobody said it."""

    theirs: Cells
    left: npt.NDArray[np.int64]


def choose_sides(
    plan: ThreeWay, sides: Sides, key: tuple[str, ...], keys: Callable[[], pa.Table]
) -> Chosen:
    """Return what is chosen for each conflict.

    Parameters
    ----------
    plan
        What both sides did.
    sides
        Who counts where.
    key, keys
        What tells the conflicts, and gives its values; it is asked if rows are named.

    Raises
    ------
    InvalidArgumentError
        A row is in no conflict, or the name of a column fits two columns.
    SchemaMismatchError
        A row's key is none.
    """
    clashes = plan.clashes
    codes = np.full(clashes.cells.shape, _CODES[sides.default], np.int8)
    both = np.logical_and(clashes.ours != NOWHERE, clashes.theirs != NOWHERE)
    merged = {column.field.name: column for column in plan.merged.columns}
    for at in np.flatnonzero(clashes.cells[both].any(axis=0)).tolist():
        name = plan.columns[at].name
        codes[both, at] = _CODES[plan.sides.of(name, merged[name].names)]
    if sides.rows:
        named = _named(plan, sides, key)
        hint = "Name rows that are in conflicts, each once, by what Conflicts.to_table() tells."
        found = pair_with_conflicts(keys(), named, key, hint=hint)
        by_row = np.array([_CODES[side] for side in sides.rows.values()], np.int8)
        codes[found.old] = by_row[found.new, np.newaxis]
    undecided = (clashes.cells & (codes == _NOBODY)).any(axis=1)
    return Chosen(clashes.cells & (codes == _THEIRS), np.flatnonzero(undecided))


def settle(plan: ThreeWay, chosen: Chosen) -> Settled:
    """Return what is to be done; rows that are left stay as ours has them."""
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
    """Return the keys of the rows for which a side was chosen."""
    schema = plan.schema.to_arrow()
    wanted = pa.schema(
        [schema.field(name) if plan.key else pa.field(name, pa.uint64()) for name in key]
    )
    values = [told if len(key) > 1 else (told,) for told in sides.rows]
    for told in values:
        if not isinstance(told, tuple) or len(told) != len(key):
            raise SchemaMismatchError(
                f"{literal(told)} is no key of ({', '.join(key)}).",
                hint="Name a row by a tuple of the values of its key columns.",
                row=told,
            )
    columns = dict(zip(key, map(list, zip(*values, strict=True)), strict=True))
    if plan.key:
        given = as_reader(columns, None, wanted).read_all()
        cast = plan_cast(given.schema, wanted)
        return pa.Table.from_batches([cast.apply(batch) for batch in given.to_batches()], wanted)
    return pa.table(columns, schema=wanted)


# ---- rows that somebody names by their keys, each with the conflict that it is


def pair_with_conflicts(
    conflicts: pa.Table, rows: pa.Table, key: Sequence[str], *, hint: str
) -> Matches:
    """Pair conflicts (old) with rows (new) by their keys, which have the types of ``rows``.

    Raises
    ------
    InvalidArgumentError
        A row belongs to no conflict, or two to the same; ``hint`` is what to do.
    """
    seeds = Seeds.drawn()
    old, new = (
        digests([_array(part[name], rows.schema.field(name).type) for name in key], seeds)
        for part in (conflicts, rows)
    )
    found = match_keys(old, new)
    if len(found.alone.new) or len(found.repeated.new):
        at = int([*found.alone.new, *found.repeated.new][0])
        told = {name: python_value(rows[name][at]) for name in key}
        raise InvalidArgumentError(
            f"The row with {literals(told)} settles no conflict, or one that another row settles.",
            hint=hint,
            row=told,
        )
    return found


def _array(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    joined = ak.combine_chunks(values)
    return joined if joined.type == kind else ak.cast(joined, kind)
