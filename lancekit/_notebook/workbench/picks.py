"""Sides picked for conflicts, the equivalent ``conflicts=`` argument, and the code of the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from lancekit._legible import code
from lancekit._operations.lineage.branch_merge import BranchMergePlan
from lancekit._operations.lineage.conflicts import ConflictedRow, Named, Sides

K = TypeVar("K")
Side: TypeAlias = Literal["fail", "ours", "theirs"]

#: by label: the side
SIDES: Mapping[str, Side] = {"ours": "ours", "theirs": "theirs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """The picked side by row, else by column, else for all; ``"fail"`` stands for no side."""

    every: Side = "fail"
    columns: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[object, str], ...] = ()

    def with_column(self, name: str, side: str) -> Picks:
        """Pick a side for a column; ``""`` removes the pick, so that the side for all counts."""
        return replace(self, columns=_with(self.columns, name, side))

    def with_row(self, key: object, side: str) -> Picks:
        """Pick a side for a row; ``""`` removes the pick, so that the sides of columns count."""
        return replace(self, rows=_with(self.rows, key, side))

    def of(self, row: ConflictedRow, column: str) -> str:
        """Return the side that provides a value, ``"fail"`` if none is picked."""
        found = dict(self.rows).get(key_of(row))
        if found is None and row.ours is not None and row.theirs is not None:
            found = dict(self.columns).get(column)
        return found or str(self.every)


def _with(pairs: tuple[tuple[K, str], ...], key: K, side: str) -> tuple[tuple[K, str], ...]:
    found = dict(pairs)
    found.pop(key, None)
    return (*found.items(), *([(key, side)] if side else []))


def key_of(row: ConflictedRow) -> object:
    """Return the key of a row in `Sides.rows`: a value, or a tuple for several key columns."""
    values = tuple(row.key.values())
    return values if len(values) > 1 else values[0]


def picks_of(plan: BranchMergePlan) -> Picks:
    """Return the picks of a plan's ``conflicts=``; no picks if that is a function."""
    given = plan._rules.conflicts
    if callable(given):
        return Picks()
    sides = given if isinstance(given, Sides) else Sides(given)
    columns = tuple((name, str(side)) for name, side in sides.columns.items())
    rows = tuple((key, str(side)) for key, side in sides.rows.items())
    return Picks(every=sides.default, columns=columns, rows=rows)


def sides_of(picks: Picks) -> Named:
    """Return the ``conflicts=`` argument that is equivalent to some picks."""
    if not (picks.columns or picks.rows):
        return picks.every
    return Sides(picks.every, columns=dict(picks.columns), rows=dict(picks.rows))  # type: ignore[arg-type]


def code_of(plan: BranchMergePlan, picks: Picks) -> str:
    """Return the code of a plan's merge with the picked sides."""
    how = plan._rules
    arguments = {
        "into": plan.ours[0],
        **({} if how.on is None else {"on": list(how.on)}),
        **({} if how.by == "cell" else {"by": how.by}),
        **({} if how.files == "link" else {"files": how.files}),
        **({} if how.base is None else {"base": how.base.value}),
    }
    call = called("merge", plan.theirs[0], **arguments)
    if picks != Picks():
        call = f"{call[:-1]}, conflicts={_spelled(picks)})"
    return chained("ds.branches", [call])


def _spelled(picks: Picks) -> str:
    if not (picks.columns or picks.rows):
        return spelled(picks.every)
    every = [] if picks.every == "fail" else [picks.every]
    named = {"columns": dict(picks.columns), "rows": dict(picks.rows)}
    return called("lk.Sides", *every, **{name: one for name, one in named.items() if one})


# ---- calls as code for copying: unprintable characters are escaped, credentials removed

#: characters of a line
_WIDTH = 100


def spelled(value: object) -> str:
    """Return a value as a Python literal.

    Examples
    --------
    >>> print(spelled({"a": ("x", 1), "b": [("y",)]}))
    {'a': ('x', 1), 'b': [('y',)]}
    """
    match value:
        case str():
            return code(value)
        case Mapping():
            return f"{{{', '.join(f'{spelled(k)}: {spelled(v)}' for k, v in value.items())}}}"
        case tuple():
            return f"({', '.join(map(spelled, value))}{',' * (len(value) == 1)})"
        case list():
            return f"[{', '.join(map(spelled, value))}]"
    return repr(value)


def called(name: str, *arguments: object, **named: object) -> str:
    """Return a call as code."""
    listed = [*map(spelled, arguments), *(f"{key}={spelled(one)}" for key, one in named.items())]
    return f"{name}({', '.join(listed)})"


def chained(first: str, calls: Sequence[str]) -> str:
    """Return chained calls, in one line if it is short enough.

    Examples
    --------
    >>> chained("ds", ["to_table()"])
    'ds.to_table()'
    """
    line = ".".join([first, *calls])
    if len(line) <= _WIDTH or len(calls) == 1:
        return line
    head, *rest = calls
    return "\n".join([f"({first}.{head}", *(f"    .{call}" for call in rest)]) + ")"
