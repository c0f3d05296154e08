"""Merge-inserts: every combination of clauses, shapes of the source, keys and ways to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import lancekit as lk
from tests.support import plain_model as model
from tests.support.plain_model import State
from tests.support.plain_values import ALWAYS, KEYS, Draw, condition, keyed_table, pair_condition
from tests.support.steps import Hand, Past, Step, some

__all__ = ["MERGES", "Merge", "merge"]


@dataclass(frozen=True)
class Merge:
    """The clauses of a merge-insert and the shape of its source."""

    matched: str
    insert: bool
    by_source: str
    source: str
    on: tuple[str, ...]
    mode: str = "auto"

    @property
    def name(self) -> str:
        words = [self.matched, "insert" if self.insert else "no insert", self.by_source]
        return ", ".join(["merge", *words, self.source, f"on {'+'.join(self.on)}", self.mode])

    @property
    def traits(self) -> frozenset[str]:
        found = {
            "matched delete": self.matched == "delete",
            "by source": self.by_source != "stay",
            "rewrite_columns": self.mode == "rewrite_columns",
        }
        return frozenset(trait for trait, holds in found.items() if holds)


MATCHED = ("keep", "update", "some", "delete", "fail")
BY_SOURCE = ("stay", "all go", "some go")
SOURCES = ("full", "turned", "some columns", "keys only", "empty", "null keys")
MODES = ("auto", "rewrite_rows", "rewrite_columns")


def _possible(merge: Merge) -> bool:
    if merge.matched == "keep" and not merge.insert and merge.by_source == "stay":
        return False
    if merge.mode == "auto":
        return True
    if not hasattr(lk.MergeInsertBuilder, "write_mode"):
        return False
    if merge.mode == "rewrite_rows":
        return merge.on == ("k",)
    plain = not merge.insert and merge.by_source == "stay" and merge.source == "some columns"
    return plain and merge.matched in ("update", "some")


def _built(builder: Any, merge: Merge, pair: str | None, where: str | None) -> Any:
    if merge.matched in ("update", "some"):
        builder = builder.when_matched_update_all(pair)
    elif merge.matched == "delete":
        builder = builder.when_matched_delete()
    elif merge.matched == "fail":
        builder = builder.when_matched_fail()
    if merge.insert:
        builder = builder.when_not_matched_insert_all()
    if merge.by_source != "stay":
        builder = builder.when_not_matched_by_source_delete(where)
    return builder if merge.mode == "auto" else builder.write_mode(merge.mode)


def _source(draw: Draw, state: State, merge: Merge) -> pa.Table:
    data = keyed_table(draw, state.schema, merge.on, nulls=merge.source == "null keys")
    names = state.schema.names
    if merge.source == "turned":
        return data.select(draw(st.permutations(names)))
    if merge.source == "some columns":
        others = [n for n in names if n not in merge.on]
        kept = [*merge.on, *some(draw, others)]
        return data.select([n for n in names if n in kept])
    if merge.source == "keys only":
        return data.select(list(merge.on))
    return data.slice(0, 0) if merge.source == "empty" else data


def merge(draw: Draw, state: State, past: Past, *, of: Merge) -> Step | None:
    if any(name not in state.schema.names for name in of.on):
        return None
    data = _source(draw, state, of)
    beside = set(data.column_names) - set(of.on)
    if of.mode == "rewrite_columns" and beside in (set(), set(state.schema.names) - set(of.on)):
        return None  # none or all of the columns are no part of them
    pair = pair_condition(draw, data.schema, state.schema) if of.matched == "some" else None
    where = condition(draw, state.schema) if of.by_source == "some go" else None
    matched = "update" if of.matched == "some" else of.matched
    by_source = None if of.by_source == "stay" else ALWAYS if where is None else where
    clauses = model.Clauses(of.on, matched, pair and pair.of, of.insert, by_source and by_source.of)

    def run(hand: Hand) -> Mapping[str, int]:
        builder = hand.open().merge_insert(list(of.on))
        built = _built(builder, of, pair and pair.sql, where and where.sql)
        counts: Mapping[str, int] = built.execute(hand.rows(data))
        return counts

    return Step(
        f"{of.name} [{pair and pair.sql}] [{where and where.sql}]: {data.to_pylist()}",
        run,
        lambda now, _: model.merge(now, model.plain(data), data.column_names, clauses),
        ordered=False,
        traits=of.traits if data.num_rows else of.traits | {"no rows"},
    )


MERGES = [
    found
    for parts in product(MATCHED, (True, False), BY_SOURCE, SOURCES, KEYS, MODES)
    if _possible(found := Merge(*parts))
]
