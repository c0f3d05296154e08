"""A step: one operation with its input, how to do it, and what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import ModuleType
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.plain_model import Counts, State, Values
from tests.support.plain_values import KEYS, Draw

__all__ = ["Done", "Hand", "Make", "Past", "Step", "assignments", "new_name", "plus_one"]
__all__ += ["quietly", "some", "spare"]

Past = Mapping[int, State]
Done = tuple[State, Counts | None]


@dataclass(frozen=True)
class Hand:
    """A library, a dataset, and the form in which it gets rows."""

    library: ModuleType
    uri: str
    rows: Callable[[pa.Table], Any]
    #: whether rows that are handed over keep their order
    ordered: bool = True

    def open(self) -> Any:
        return self.library.dataset(self.uri)


@dataclass(frozen=True)
class Step:
    """One operation with its input."""

    text: str
    #: returns the counts of rows, if the operation says any
    run: Callable[[Hand], Mapping[str, int] | None]
    #: the state before, and all earlier ones
    means: Callable[[State, Past], Done]
    #: whether rows keep the order that the model has them in
    ordered: bool = True
    #: how many versions it makes: ``None`` if that depends on the files
    versions: int | None = 1
    #: how many of the newest versions are left, if not all
    keeps: int | None = None
    #: what it does, for the list of differences
    traits: frozenset[str] = frozenset()


Make = Callable[[Draw, State, Past], Step | None]


def quietly(work: Callable[[Hand], Any]) -> Callable[[Hand], None]:
    def run(hand: Hand) -> None:
        work(hand)

    return run


def some(draw: Draw, items: list[Any], least: int = 1) -> list[Any]:
    chosen = draw(st.lists(st.sampled_from(items), min_size=least, max_size=3, unique=True))
    return sorted(chosen, key=items.index)


def spare(state: State) -> list[pa.Field]:
    """Return the columns that are no keys of merges."""
    keys = {name for on in KEYS for name in on}
    return [field for field in state.schema if field.name not in keys]


def new_name(state: State) -> str:
    return next(name for n in range(99) if (name := f"c{n}") not in state.schema.names)


def plus_one(name: str) -> Callable[[Values], Any]:
    return lambda row: None if row[name] is None else row[name] + 1


#: expressions by the type of column that they are for
_SQL: dict[pa.DataType, list[tuple[str, Callable[[Values], Any]]]] = {
    pa.int64(): [("7", lambda row: 7), ("k % 5", lambda row: _rest(row["k"]))],
    pa.int32(): [("7", lambda row: 7), ("k % 5", lambda row: _rest(row["k"]))],
    pa.int16(): [("-3", lambda row: -3)],
    pa.string(): [("'new'", lambda row: "new"), ("g", lambda row: row["g"])],
    pa.large_string(): [("'new'", lambda row: "new"), ("g", lambda row: row["g"])],
    pa.float64(): [("0.25", lambda row: 0.25), ("k", lambda row: _float(row["k"]))],
    pa.float32(): [("0.25", lambda row: 0.25)],
    pa.bool_(): [("k IS NULL", lambda row: row["k"] is None), ("b", lambda row: row["b"])],
    pa.decimal128(9, 2): [("1.25", lambda row: Decimal("1.25"))],
}


def _rest(value: int | None) -> int | None:
    return None if value is None else value % 5 if value >= 0 else -(-value % 5)


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def assignments(draw: Draw, state: State) -> dict[str, tuple[str, Callable[..., Any]]]:
    fields = [f for f in state.schema if f.type in _SQL]
    chosen = {}
    for field in some(draw, fields):
        options = _SQL[field.type] + ([("NULL", lambda row: None)] if field.nullable else [])
        sql, value = draw(st.sampled_from(options))
        nulls = any(row[name] is None for name in ("k", "g", "b") for row in state.values)
        if not field.nullable and nulls:
            sql, value = _SQL[field.type][0]
        chosen[field.name] = sql, value
    # in pylance an assignment may see what another has assigned already
    read = {sql.split()[0] for sql, _ in chosen.values()}
    return {name: pair for name, pair in chosen.items() if name not in read or len(chosen) == 1}
