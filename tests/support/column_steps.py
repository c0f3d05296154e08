"""Changes of the schema, and of whole columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from tests.support import plain_model as model
from tests.support.plain_model import State
from tests.support.plain_values import POOLS, Draw
from tests.support.steps import Hand, Past, Step, assignments, new_name, plus_one, quietly, some
from tests.support.steps import spare as spare_columns

__all__ = ["add_function", "add_nulls", "add_rows", "add_sql", "cast", "constrain", "drop"]
__all__ += ["join", "rename", "replace_columns"]


def add_sql(draw: Draw, state: State, past: Past) -> Step:
    name = new_name(state)
    field, sql, value = draw(
        st.sampled_from(
            [
                (pa.field(name, pa.int64()), "k + 1", plus_one("k")),
                (pa.field(name, pa.string()), "coalesce(g, NULL)", lambda row: row["g"]),
                (pa.field(name, pa.bool_()), "NOT b", _not("b")),
            ]
        )
    )
    return Step(
        f"add {name} as {sql}",
        quietly(lambda hand: hand.open().add_columns({name: sql})),
        lambda now, _: (
            model.add_columns(now, [field], [{name: value(row)} for row in now.values]),
            None,
        ),
    )


def _not(name: str) -> Callable[[model.Values], Any]:
    return lambda row: None if row[name] is None else not row[name]


def add_nulls(draw: Draw, state: State, past: Past) -> Step:
    flat = [kind for kind in POOLS if not pa.types.is_struct(kind)]  # for files of version 2.0
    field = pa.field(new_name(state), draw(st.sampled_from(flat)))
    given = draw(st.sampled_from([field, [field], pa.schema([field])]))
    return Step(
        f"add {field} of nulls",
        quietly(lambda hand: hand.open().add_columns(given)),
        lambda now, _: (model.add_columns(now, [field], None), None),
    )


def add_function(draw: Draw, state: State, past: Past) -> Step:
    name = new_name(state)
    field = pa.field(name, pa.int64())

    def double(batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = pc.if_else(pc.less(pc.abs(batch["k"]), 9), batch["k"], None)
        return pa.record_batch([pc.multiply(keys, 2)], [name])

    def value(row: model.Values) -> int | None:
        return None if row["k"] is None or abs(row["k"]) >= 9 else row["k"] * 2

    return Step(
        f"add {name} by a function",
        quietly(
            lambda hand: hand.open().add_columns(
                hand.library.batch_udf(output_schema=pa.schema([field]))(double), ["k"]
            )
        ),
        lambda now, _: (
            model.add_columns(now, [field], [{name: value(row)} for row in now.values]),
            None,
        ),
    )


def add_rows(draw: Draw, state: State, past: Past) -> Step:
    """Add a column given in the dataset's order, which each side has its own."""
    name = new_name(state)
    field = pa.field(name, pa.string())

    def run(hand: Hand) -> None:
        dataset = hand.open()
        texts = [f"row {row['k']}" for row in dataset.to_table(columns=["k"]).to_pylist()]
        new = pa.table({name: pa.array(texts, pa.string())})
        dataset.add_columns(new.to_reader(), reader_schema=new.schema)

    return Step(
        f"add {name} by rows",
        run,
        lambda now, _: (
            model.add_columns(now, [field], [{name: f"row {row['k']}"} for row in now.values]),
            None,
        ),
    )


def join(draw: Draw, state: State, past: Past) -> Step:
    left = draw(st.sampled_from(["k", "g"]))
    right = draw(st.sampled_from([left, "other"]))
    name = new_name(state)
    schema = pa.schema([pa.field(right, state.schema.field(left).type), pa.field(name, pa.int32())])
    keys = [v for v in POOLS[schema.field(right).type] if v is not None]
    rows = draw(st.lists(st.tuples(st.sampled_from(keys), st.integers(0, 9)), min_size=1))
    data = pa.Table.from_pylist([{right: key, name: n} for key, n in rows], schema=schema)
    # of rows without an order none is the last of its key, so they are refused
    last = pa.Table.from_pylist([{right: key, name: n} for key, n in dict(rows).items()], schema)
    return Step(
        f"join {left} = {right}: {rows}",
        quietly(
            lambda hand: hand.open().merge(hand.rows(data if hand.ordered else last), left, right)
        ),
        lambda now, _: (model.join(now, data, left, right), None),
    )


def rename(draw: Draw, state: State, past: Past) -> Step | None:
    if not (spare := spare_columns(state)):
        return None
    field = draw(st.sampled_from(spare))
    name = draw(st.sampled_from([new_name(state), "k"]))
    return _altered(field.name, name=name)


def _altered(path: str, **changes: Any) -> Step:
    words = {"to": "data_type"}
    wish = {"path": path} | {words.get(key, key): value for key, value in changes.items()}
    return Step(
        f"alter {wish}",
        quietly(lambda hand: hand.open().alter_columns(wish)),
        lambda now, _: (model.alter(now, path, **changes), None),
    )


def constrain(draw: Draw, state: State, past: Past) -> Step | None:
    if not (spare := spare_columns(state)):
        return None
    field = draw(st.sampled_from(spare))
    return _altered(field.name, nullable=draw(st.booleans()))


#: casts that the reference does, to and fro
_CASTS = {
    pa.int16(): [pa.int32(), pa.int64()],
    pa.int32(): [pa.int64(), pa.int16()],
    pa.int64(): [pa.int32()],
    pa.float32(): [pa.float64()],
    pa.string(): [pa.large_string()],
    pa.large_string(): [pa.string()],
}


def cast(draw: Draw, state: State, past: Past) -> Step | None:
    fields = [f for f in spare_columns(state) if f.type in _CASTS]
    if not fields:
        return None
    field = draw(st.sampled_from(fields))
    return _altered(field.name, to=draw(st.sampled_from(_CASTS[field.type])))


def drop(draw: Draw, state: State, past: Past) -> Step | None:
    if not (spare := [f.name for f in spare_columns(state)]):
        return None
    names = some(draw, spare)
    return Step(
        f"drop {names}",
        quietly(lambda hand: hand.open().drop_columns(names)),
        lambda now, _: (model.drop(now, names), None),
    )


def replace_columns(draw: Draw, state: State, past: Past) -> Step | None:
    """Give columns new values in place; the reference does it by an update."""
    new = assignments(draw, state)
    if not new:
        return None
    sqls = {name: sql for name, (sql, _) in new.items()}
    values = {name: value for name, (_, value) in new.items()}

    def run(hand: Hand) -> Mapping[str, int]:
        dataset = hand.open()
        call = dataset.update if hand.library is lance else dataset.replace_columns
        counts: Mapping[str, int] = call(sqls)
        return counts

    return Step(f"replace {sqls}", run, lambda now, _: model.in_place(now, values), ordered=False)
