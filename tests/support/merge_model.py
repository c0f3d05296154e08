"""A merge-insert in plain Python, over lists of rows, and random cases for it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lancekit._pipeline.merge_plan import MergeClauses
from lancekit._scan.expressions.predicate import Unbound
from lancekit.errors import DuplicateKeysError, LancekitError, MatchedRowsError

__all__ = ["SCHEMA", "Case", "cases", "expected", "same_rows"]

Row = dict[str, Any]
Counts = tuple[int, int, int, int]

SCHEMA = pa.schema([("a", pa.float64()), ("b", pa.string()), ("n", pa.int64()), ("t", pa.string())])

#: what a condition means to the model: SQL, and the same over a source row and a target row
CONDITIONS: dict[str, Callable[[Row, Row], bool]] = {
    "source.n > target.n": lambda s, t: (
        s["n"] is not None and t["n"] is not None and s["n"] > t["n"]
    ),
    "target.t = 'x'": lambda s, t: t["t"] == "x",
    "source.n > 1": lambda s, t: s["n"] is not None and s["n"] > 1,
}
FILTERS: dict[str, Callable[[Row], bool]] = {
    "": lambda t: True,
    "n < 2": lambda t: t["n"] is not None and t["n"] < 2,
    "t = 'x'": lambda t: t["t"] == "x",
}


@dataclass(frozen=True)
class Case:
    """A target, a source, and what to do."""

    target: pa.Table
    source: pa.Table
    clauses: MergeClauses
    file_rows: int


KEYS = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, math.nan, None])
WORDS = st.sampled_from(["", "x", "y", None])
NUMBERS = st.none() | st.integers(0, 4)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return random cases, most of which have no duplicates."""
    rows = st.fixed_dictionaries({"a": KEYS, "b": WORDS, "n": NUMBERS, "t": WORDS})
    target = draw(st.lists(rows, max_size=12))
    on = draw(st.sampled_from([("a",), ("b",), ("a", "b")]))
    lacking = draw(st.sets(st.sampled_from(sorted({"b", "n", "t"} - set(on)))))
    unique = draw(st.booleans()) or draw(st.booleans())
    by = (lambda row: _identity(row, on)) if unique else None
    source = draw(st.lists(rows, max_size=8, unique_by=by))
    matched = draw(st.sampled_from(["keep", "update", "update", "update", "delete", "fail"]))
    condition = draw(st.none() | st.sampled_from(sorted(CONDITIONS)))
    if condition is not None and "source.n" in condition and "n" in lacking:
        condition = None
    by_source = draw(st.none() | st.sampled_from(sorted(FILTERS)))
    insert = draw(st.booleans()) or (matched in {"keep", "fail"} and by_source is None)
    dedupe = draw(st.sampled_from([None, None, "first", "last", "by"]))
    clauses = MergeClauses(
        on=on,
        matched=matched,
        condition=Unbound(condition) if matched == "update" and condition else None,
        insert=insert,
        delete_by_source=by_source is not None,
        by_source=Unbound(by_source) if by_source else None,
        dedupe=dedupe if dedupe != "by" else None,
        dedupe_by="n" if dedupe == "by" and "n" not in lacking else None,
    )
    names = [name for name in SCHEMA.names if name not in lacking]
    return Case(
        target=pa.Table.from_pylist(target, SCHEMA),
        source=pa.Table.from_pylist(source, SCHEMA).select(names),
        clauses=clauses,
        file_rows=draw(st.sampled_from([1, 3, 20])),
    )


def _word(value: Any) -> object:
    return repr(value)  # tells -0.0 from 0.0, and takes all not-a-numbers for one


def _identity(row: Row, on: tuple[str, ...]) -> object:
    """Return what two rows of one key share; a row with a null shares it with no other."""
    if any(row[name] is None for name in on):
        return object()
    return tuple(_word(row[name]) for name in on)


def expected(case: Case) -> tuple[list[Row], Counts] | type[LancekitError]:
    """Return the rows that the merge leaves, with its counts, or the error that it raises."""
    clauses, on = case.clauses, case.clauses.on
    source = case.source.to_pylist()
    keyed: dict[object, list[Row]] = {}
    for row in source:
        keyed.setdefault(_identity(row, on), []).append(row)
    skipped = len(source) - len(keyed)
    if skipped and clauses.dedupe is None and clauses.dedupe_by is None:
        return DuplicateKeysError
    by_key = {key: _kept(rows, clauses) for key, rows in keyed.items()}
    matched: set[object] = set()
    out: list[Row] = []
    updated = deleted = 0
    for row in case.target.to_pylist():
        key = _identity(row, on)
        if key in by_key:
            matched.add(key)
            if clauses.matched == "fail":
                return MatchedRowsError
            new = by_key[key]
            applies = clauses.condition is None or CONDITIONS[clauses.condition](new, row)
            if clauses.matched == "update" and applies:
                out.append({**row, **new})
                updated += 1
            elif clauses.matched == "delete":
                deleted += 1
            else:
                out.append(row)
        elif clauses.delete_by_source and FILTERS[clauses.by_source or ""](row):
            deleted += 1
        else:
            out.append(row)
    new_rows = [row for key, row in by_key.items() if key not in matched] if clauses.insert else []
    out += [{name: row.get(name) for name in SCHEMA.names} for row in new_rows]
    return out, (len(new_rows), updated, deleted, skipped)


def _kept(rows: list[Row], clauses: MergeClauses) -> Row:
    if clauses.dedupe_by is not None:
        return max(rows, key=lambda row: -1 if row["n"] is None else row["n"])
    return rows[-1 if clauses.dedupe == "last" else 0]


def same_rows(table: pa.Table, rows: list[Row]) -> bool:
    """Tell whether a table has these rows, in any order."""
    return Counter(map(_shown, table.to_pylist())) == Counter(map(_shown, rows))


def _shown(row: Row) -> tuple[str, ...]:
    return tuple(_word(row[name]) for name in SCHEMA.names)
