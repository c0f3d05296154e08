"""Changes of one branch: how either library makes them, and what the model makes of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Set
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa
from hypothesis import strategies as st

import lancekit as lk
from tests.support.branch_model import Column, Table

__all__ = ["COLUMN_STEPS", "KEY", "ROW_STEPS", "SIDES", "Draw", "Step", "first_table", "rows_table"]

Draw = Callable[..., Any]
NAMES = ("a", "b", "c", "d", "e")
TYPES = {"int32": pa.int32(), "int64": pa.int64(), "string": pa.string()}
KEY = pa.field("k", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
SIDES = st.sampled_from([lk, lance])
#: few keys and few values, so that two sides often meet
KEYS = st.integers(0, 14)
KEY_SETS = st.sets(KEYS, min_size=1, max_size=5)
VALUES = {
    "int32": st.sampled_from([None, 0, 1, 2, 3]),
    "int64": st.sampled_from([None, 0, 1, 2, 3]),
    "string": st.sampled_from([None, "x", "y", "z"]),
}


@dataclass(frozen=True)
class Step:
    """One change: its words, how it is done, and what it makes of a table."""

    name: str
    run: Callable[[Any], Any]
    change: Callable[[Table], Table]
    #: whether a library may land other versions first, which change nothing
    is_upkeep: bool = False


def rows_table(handle: Any, rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as the handle's columns have them."""
    return pa.Table.from_pylist(rows, pa.schema(list(handle.schema)))


def first_table(draw: Draw) -> tuple[Table, pa.Table]:
    """Return a small table, and the same in Arrow."""
    columns = {"k": Column("int64", False), "a": Column("int64"), "b": Column("string")}
    rows = [_row(draw, key, columns) for key in sorted(draw(KEY_SETS))]
    schema = pa.schema([KEY, ("a", pa.int64()), ("b", pa.string())])
    table = Table(columns, {row["k"]: row for row in rows})
    return table, pa.Table.from_pylist(rows, schema)


def _row(draw: Draw, key: int, columns: Any) -> dict[str, Any]:
    values = {name: draw(VALUES[of.type]) for name, of in columns.items() if name != "k"}
    return {"k": key, **values}


def _sql(value: Any) -> str:
    return repr(value)


def _values(table: Table) -> list[str]:
    return [name for name in table.columns if name != "k"]


def _where(keys: Set[int]) -> str:
    return f"k IN ({', '.join(map(str, sorted(keys)))})"


# ---- rows


def insert(draw: Draw, side: Any, table: Table, keys: Collection[int] = ()) -> Step | None:
    keys = sorted(keys or draw(KEY_SETS) - table.rows.keys())
    if not keys:
        return None
    rows = [_row(draw, key, table.columns) for key in keys]
    return Step(
        f"insert {rows}",
        lambda ds: side.write_dataset(rows_table(ds, rows), ds, mode="append"),
        lambda table: table.upserted(rows),
    )


def update(draw: Draw, side: Any, table: Table, keys: Set[int] = frozenset()) -> Step | None:
    keys = keys or draw(KEY_SETS)
    if not _values(table) or not keys & table.rows.keys():
        return None
    name = draw(st.sampled_from(_values(table)))
    kind = table.columns[name].type
    value = draw(VALUES[kind])
    nothing = "nullif('x', 'x')" if kind == "string" else "nullif(1, 1)"
    text = nothing if value is None else _sql(value)
    return Step(
        f"update {name} = {text} where {_where(keys)}",
        lambda ds: ds.update({name: text}, where=_where(keys)),
        lambda table: table.updated(keys, {name: value}),
    )


def delete(draw: Draw, side: Any, table: Table, keys: Set[int] = frozenset()) -> Step | None:
    keys = keys or draw(KEY_SETS)
    return Step(
        f"delete {_where(keys)}",
        lambda ds: ds.delete(_where(keys)),
        lambda table: table.deleted(keys),
    )


def upsert(draw: Draw, side: Any, table: Table) -> Step | None:
    rows = [_row(draw, key, table.columns) for key in sorted(draw(KEY_SETS))]

    def run(ds: Any) -> None:
        builder = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        builder.execute(rows_table(ds, rows))

    return Step(f"merge_insert {rows}", run, lambda table: table.upserted(rows))


def compact(draw: Draw, side: Any, table: Table) -> Step | None:
    return Step(
        "compact",
        lambda ds: ds.optimize.compact_files(target_rows_per_fragment=50),
        lambda table: table,
        is_upkeep=True,
    )


# ---- columns

#: SQL that both libraries take for nullable, its type, and the same over a key
EXPRESSIONS: tuple[tuple[str, str, Callable[[int], Any]], ...] = (
    ("nullif(k * 2, -1)", "int64", lambda k: k * 2),
    ("nullif(k % 3, 2)", "int64", lambda k: None if k % 3 == 2 else k % 3),
    ("CAST(nullif(k % 2, -1) AS INT)", "int32", lambda k: k % 2),
    ("nullif('x', CAST(k AS STRING))", "string", lambda k: "x"),
)


def add_values(draw: Draw, side: Any, table: Table) -> Step | None:
    free = [name for name in NAMES if name not in table.columns]
    if not free:
        return None
    name = draw(st.sampled_from(free))
    text, kind, value = draw(st.sampled_from(EXPRESSIONS))
    column = Column(kind)
    return Step(
        f"add {name} = {text}",
        lambda ds: ds.add_columns({name: text}),
        lambda table: table.added(name, column, {key: value(key) for key in table.rows}),
    )


def add_nulls(draw: Draw, side: Any, table: Table) -> Step | None:
    free = [name for name in NAMES if name not in table.columns]
    if not free:
        return None
    name, kind = draw(st.sampled_from(free)), draw(st.sampled_from(sorted(TYPES)))
    column = Column(kind)
    return Step(
        f"add {name} {kind}",
        lambda ds: ds.add_columns([pa.field(name, TYPES[kind])]),
        lambda table: table.added(name, column, {}),
    )


def drop(draw: Draw, side: Any, table: Table) -> Step | None:
    if not _values(table):
        return None
    name = draw(st.sampled_from(_values(table)))
    return Step(
        f"drop {name}",
        lambda ds: ds.drop_columns([name]),
        lambda table: table.dropped(name),
    )


def rename(draw: Draw, side: Any, table: Table) -> Step | None:
    free = [name for name in NAMES if name not in table.columns]
    if not free or not _values(table):
        return None
    old, new = draw(st.sampled_from(_values(table))), draw(st.sampled_from(free))
    return Step(
        f"rename {old} to {new}",
        lambda ds: ds.alter_columns({"path": old, "name": new}),
        lambda table: table.renamed({old: new}),
    )


def swap(draw: Draw, side: Any, table: Table) -> Step | None:
    if len(_values(table)) < 2 or side is not lk:
        return None  # pylance refuses a name that is taken
    one, other = draw(st.permutations(_values(table)))[:2]
    return Step(
        f"swap {one} and {other}",
        lambda ds: ds.alter_columns({"path": one, "name": other}, {"path": other, "name": one}),
        lambda table: table.renamed({one: other, other: one}),
    )


def cast(draw: Draw, side: Any, table: Table) -> Step | None:
    others = {"int32": "int64", "int64": "int32"}
    able = [name for name in _values(table) if table.columns[name].type in others]
    if not able:
        return None
    name = draw(st.sampled_from(able))
    to = others[table.columns[name].type]
    return Step(
        f"cast {name} to {to}",
        lambda ds: ds.alter_columns({"path": name, "data_type": TYPES[to]}),
        lambda table: table.cast(name, to),
    )


ROW_STEPS = (insert, update, update, delete, upsert)
COLUMN_STEPS = (add_values, add_nulls, drop, rename, swap, cast)
