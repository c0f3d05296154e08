"""Random changes in SQL, and what DuckDB's own tables hold after the same text."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk

__all__ = ["delete_text", "merge_text", "run_both", "source", "target", "update_text"]

NAN = float("nan")
_TEXTS = ["", "a", "it's", "B%", "ß", "zz"]


def _some(draw: random.Random, make: Callable[[], Any], count: int, nulls: float = 0.2) -> Any:
    return [None if draw.random() < nulls else make() for _ in range(count)]


def _columns(draw: random.Random, ids: list[Any]) -> pa.Table:
    count = len(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([0 if id_ is None else id_ % 3 for id_ in ids], pa.int32()),
            "v": pa.array(_some(draw, lambda: draw.randrange(-5, 6), count), pa.int32()),
            "x": pa.array(_some(draw, lambda: draw.choice([0.5, -1.5, NAN, 2.0]), count)),
            "s": pa.array(_some(draw, lambda: draw.choice(_TEXTS), count), pa.string()),
            "b": pa.array(_some(draw, lambda: draw.random() < 0.5, count), pa.bool_()),
        }
    )


def target(seed: int, count: int = 25) -> pa.Table:
    """Return rows in which some keys are null, and some are there twice."""
    draw = random.Random(seed)
    return _columns(draw, _some(draw, lambda: draw.randrange(count), count, 0.08))


def source(seed: int, count: int = 14) -> pa.Table:
    """Return rows with each key once, and null perhaps twice."""
    draw = random.Random(seed + 7)
    ids: list[Any] = draw.sample(range(5, 5 + 2 * count), count)
    return _columns(draw, [*ids, *[None] * draw.randrange(3)])


# ---- texts


def _condition(draw: random.Random, sides: str, depth: int = 0) -> str:
    side, other = draw.choice(sides), draw.choice(sides)
    match draw.randrange(10 if depth < 2 else 7):
        case 0 | 1:
            compared = draw.choice(["=", "<>", "<", ">="])
            return f"{side}.v {compared} {draw.choice([f'{other}.v', str(draw.randrange(-4, 5))])}"
        case 2:
            return f"{side}.x {draw.choice(['<', '>'])} {other}.x"
        case 3:
            return f"{side}.{draw.choice('vxsb')} IS {draw.choice(['', 'NOT '])}NULL"
        case 4:
            return f"{side}.b"
        case 5:
            third = draw.choice(["NULL", "''"])
            return f"{side}.s {draw.choice(['', 'NOT '])}IN ('a', 'it''s', {third})"
        case 6:
            return f"{side}.s || 'a' > {other}.s"
        case 7:
            return f"NOT ({_condition(draw, sides, depth + 1)})"
    joined = draw.choice([" AND ", " OR "])
    return "(" + joined.join(_condition(draw, sides, depth + 1) for _ in range(2)) + ")"


def _value(draw: random.Random, column: str, sides: str, depth: int = 0) -> str:
    side, other = draw.choice(sides), draw.choice(sides)
    if depth < 2 and draw.random() < 0.35:
        yes, no = (_value(draw, column, sides, depth + 1) for _ in range(2))
        last = draw.choice([f" ELSE {no}", ""])
        return f"CASE WHEN {_condition(draw, sides, 1)} THEN {yes}{last} END"
    plain = [f"{side}.{column}", "NULL"]
    more = {
        "v": [f"{side}.v + {other}.v", f"coalesce({side}.v, 0) * 2", "7", f"abs({side}.v)"],
        "x": [f"{side}.x * 2", "0.25", f"{side}.v + 0.5"],
        "s": [f"{side}.s || '!'", "'new'", f"coalesce({side}.s, 'none')"],
        "b": ["TRUE", f"NOT {side}.b", f"{side}.v > 0"],
    }
    return draw.choice(plain + more[column])


def _sets(draw: random.Random, sides: str) -> str:
    columns = draw.sample("vxsb", draw.randrange(1, 4))
    return ", ".join(f"{column} = {_value(draw, column, sides)}" for column in columns)


def merge_text(seed: int) -> str:
    """Return a MERGE of several clauses of ``s`` into ``t``."""
    draw = random.Random(seed)
    more = draw.choice(["", "", " AND t.k = s.k", f" AND {_condition(draw, 'ts')}"])
    text = [f"MERGE INTO t USING s ON t.id = s.id{more}"]
    kinds = {"MATCHED": "ts", "NOT MATCHED": "s", "NOT MATCHED BY SOURCE": "t"}
    while len(text) == 1:
        for kind, sides in kinds.items():
            count = draw.choice([0, 1, 2, 3]) if kind == "MATCHED" else draw.choice([0, 1, 2])
            for at in range(count):
                last = at == count - 1 and draw.random() < 0.6
                when = "" if last else f" AND {_condition(draw, sides)}"
                text.append(f"WHEN {kind}{when} THEN {_then(draw, kind, sides)}")
    return " ".join(text)


def _then(draw: random.Random, kind: str, sides: str) -> str:
    if kind == "NOT MATCHED":
        columns = draw.sample("vxsb", draw.randrange(1, 5))
        values = ", ".join(_value(draw, column, sides) for column in columns)
        return f"INSERT (id, k, {', '.join(columns)}) VALUES (s.id, s.k, {values})"
    if draw.random() < 0.3:
        return "DELETE"
    return f"UPDATE SET {_sets(draw, sides)}"


def _asking(draw: random.Random) -> str:
    """Return a condition with a query in it, which both engines work out."""
    no = draw.choice(["", "NOT "])
    inner = _condition(draw, "ts", 1)
    return draw.choice(
        [
            f"t.id {no}IN (SELECT s.id FROM s WHERE {_condition(draw, 's', 1)})",
            f"{no}EXISTS (SELECT 1 FROM s WHERE {_condition(draw, 's', 1)})",
            f"{no}EXISTS (SELECT 1 FROM s WHERE s.id = t.id AND {inner})",
            f"{no}EXISTS (SELECT 1 FROM s WHERE s.id = t.id AND {inner}) OR t.b",
            f"t.v {no}IN (SELECT s.v FROM s WHERE s.k = t.k AND {_condition(draw, 's', 1)})",
            f"t.v > (SELECT min(s.v) FROM s WHERE s.k = t.k AND {_condition(draw, 's', 1)})",
            "EXISTS (SELECT 1 FROM t AS o WHERE o.id = t.id AND o.v < t.v)",
        ]
    )


def _where(draw: random.Random) -> str:
    plain, asking = _condition(draw, "t"), _asking(draw)
    both = f"({asking}) AND {plain}"
    if asking.startswith("t.v NOT IN"):  # below NOT it is refused
        return draw.choice([plain, asking, both])
    return draw.choice([plain, asking, both, f"NOT ({asking})"])


def update_text(seed: int) -> str:
    """Return an UPDATE with CASE and queries."""
    draw = random.Random(seed)
    sets = _sets(draw, "t")
    if "v = " not in sets and draw.random() < 0.4:
        found = "SELECT max(s.v) FROM s WHERE s.id = t.id"
        sets += ", v = " + draw.choice([f"({found})", f"CASE WHEN t.b THEN ({found}) ELSE t.v END"])
    return f"UPDATE t SET {sets}" + draw.choice(["", f" WHERE {_where(draw)}"])


def delete_text(seed: int) -> str:
    """Return a DELETE with queries."""
    return f"DELETE FROM t WHERE {_where(random.Random(seed))}"


# ---- running them


def run_both(place: Path, sql: str, seed: int) -> tuple[list[str], list[str]]:
    """Return the rows after a change, and those that DuckDB has after the same."""
    rows, other = target(seed), source(seed)
    ds = lk.write_dataset(rows, place, max_rows_per_file=10, enable_stable_row_ids=bool(seed % 2))
    ids = ds.to_table(with_row_id=True) if seed % 2 else None
    lk.sql(sql, t=ds, **({"s": other} if "FROM s " in sql or "USING s " in sql else {}))
    if ids is not None:  # an updated row is still the same one
        kept = set(ids["_rowid"].to_pylist())
        new = set(ds.to_table(with_row_id=True)["_rowid"].to_pylist()) - kept
        assert not new or "INSERT" in sql
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as session:
        session.register("rows", rows)
        session.register("s", other)
        session.execute("CREATE TABLE t AS FROM rows")
        session.execute(sql)
        wanted = session.sql("FROM t").to_arrow_table()
    return _sorted(ds.to_table()), _sorted(wanted)


def _sorted(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())
