"""Every operation on a table: how to draw its input, how to do it, and what it means.

Both libraries have the same calls, so that one function does an operation with either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

import pyarrow as pa
from hypothesis import strategies as st

from tests.support import column_steps as columns
from tests.support import plain_model as model
from tests.support.merge_steps import MERGES, merge
from tests.support.plain_model import State
from tests.support.plain_values import ALWAYS, KEYS, SCHEMA, Draw, condition, table
from tests.support.steps import Hand, Make, Past, Step, assignments, quietly, some

__all__ = ["OPERATIONS"]


def _write(data: pa.Table, mode: str) -> Callable[[Hand], None]:
    return quietly(lambda hand: hand.library.write_dataset(hand.rows(data), hand.uri, mode=mode))


# ---- rows


def append(draw: Draw, state: State, past: Past, *, shape: str) -> Step:
    data = table(draw, state.schema, least=0 if shape == "full" else 1)
    names = state.schema.names
    if shape == "turned":
        data = data.select(draw(st.permutations(names)))
    elif shape == "some":
        needed = [f.name for f in state.schema if not f.nullable]
        kept = some(draw, names)
        data = data.select([n for n in names if n in kept or n in needed])
    return Step(
        f"append {shape}: {data.to_pylist()}",
        _write(data, "append"),
        lambda now, _: (model.append(now, model.plain(data)), None),
    )


def overwrite(draw: Draw, state: State, past: Past, *, shape: str) -> Step:
    flat = [f for f in SCHEMA if f not in _key_fields() and not pa.types.is_struct(f.type)]
    anew = pa.schema([*_key_fields(), *some(draw, flat)])
    # what a Spark DataFrame overwrites takes nulls
    same = pa.schema([field.with_nullable(True) for field in state.schema])
    schema = same if shape == "same" else anew
    data = table(draw, schema)
    return Step(
        f"overwrite {shape}: {data.to_pylist()}",
        _write(data, "overwrite"),
        lambda now, _: (model.overwrite(now, data), None),
    )


def _key_fields() -> list[pa.Field]:
    keys = {name for on in KEYS for name in on}
    return [field for field in SCHEMA if field.name in keys]


def delete(draw: Draw, state: State, past: Past, *, all_rows: bool = False) -> Step:
    where = ALWAYS if all_rows else condition(draw, state.schema)
    return Step(
        f"delete {where.sql}",
        lambda hand: hand.open().delete(where.sql),
        lambda now, _: model.delete(now, where.of),
    )


def truncate(draw: Draw, state: State, past: Past) -> Step:
    return Step(
        "truncate",
        quietly(lambda hand: hand.open().truncate_table()),
        lambda now, _: (model.truncate(now), None),
    )


def update(draw: Draw, state: State, past: Past, *, everywhere: bool) -> Step | None:
    new = assignments(draw, state)
    if not new:
        return None
    where = ALWAYS if everywhere else condition(draw, state.schema)
    sqls = {name: sql for name, (sql, _) in new.items()}
    values = {name: value for name, (_, value) in new.items()}
    return Step(
        f"update {sqls} where {where.sql}",
        lambda hand: hand.open().update(sqls, None if everywhere else where.sql),
        lambda now, _: model.update(now, values, where.of),
        ordered=False,
    )


# ---- files and versions


def compact(draw: Draw, state: State, past: Past) -> Step:
    options = draw(
        st.sampled_from(
            [
                {},
                {"target_rows_per_fragment": 3},
                {"materialize_deletions": False},
                {"materialize_deletions_threshold": 0.0},
            ]
        )
    )

    def run(hand: Hand) -> Mapping[str, int]:
        done = hand.open().optimize.compact_files(**options)
        words = ("fragments_removed", "fragments_added", "files_removed", "files_added")
        return {word: getattr(done, word) for word in words}

    return Step(
        f"compact {options}",
        run,
        lambda now, _: (now, None),
        ordered=False,
        versions=None,
    )


def restore(draw: Draw, state: State, past: Past) -> Step:
    version = draw(st.sampled_from(sorted(past)))
    return Step(
        f"restore {version}",
        quietly(lambda hand: hand.open().checkout_version(version).restore()),
        lambda now, past: (model.restore(now, past[version]), None),
    )


def clean_up(draw: Draw, state: State, past: Past) -> Step:
    keep = draw(st.integers(1, 4))

    def run(hand: Hand) -> None:
        hand.open().cleanup_old_versions(timedelta(0), retain_versions=keep)

    return Step(f"clean up all but {keep}", run, lambda now, _: (now, None), versions=0, keeps=keep)


OPERATIONS: dict[str, Make] = {
    **{f"append {shape}": partial(append, shape=shape) for shape in ("full", "turned", "some")},
    **{f"overwrite {shape}": partial(overwrite, shape=shape) for shape in ("same", "other")},
    "delete": delete,
    "delete all": partial(delete, all_rows=True),
    "truncate": truncate,
    "update where": partial(update, everywhere=False),
    "update all": partial(update, everywhere=True),
    "add by SQL": columns.add_sql,
    "add nulls": columns.add_nulls,
    "add by function": columns.add_function,
    "add rows": columns.add_rows,
    "join": columns.join,
    "rename": columns.rename,
    "nullability": columns.constrain,
    "cast": columns.cast,
    "drop": columns.drop,
    "replace columns": columns.replace_columns,
    "compact": compact,
    "restore": restore,
    "clean up": clean_up,
    **{of.name: partial(merge, of=of) for of in MERGES},
}
