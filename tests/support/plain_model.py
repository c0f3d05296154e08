"""What a table's operations mean, on lists of dictionaries: slow, plain, and independent.

A `State` is one version of a table.  Each function makes the next one.  Rows carry what a reader
can ask for besides their values: the row id and the versions that made and last changed them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

__all__ = ["Clauses", "Refused", "Row", "State", "add_columns", "adopt", "alter", "append"]
__all__ += [
    "create",
    "delete",
    "drop",
    "in_place",
    "join",
    "merge",
    "order",
    "overwrite",
    "plain",
    "restore",
]
__all__ += ["rows_of", "spelled", "truncate", "typed", "update"]

Values = dict[str, Any]
#: what a row makes of an expression; ``None`` is SQL's unknown
Expression = Callable[[Values], Any]
Counts = dict[str, int]


class Refused(Exception):
    """The operation is an error, and changes nothing."""


@dataclass(frozen=True)
class Row:
    """One live row."""

    values: Values
    id: int
    created: int
    updated: int


@dataclass(frozen=True)
class State:
    """One version: its columns, its rows in the order of a scan, and the next row id."""

    schema: pa.Schema
    rows: tuple[Row, ...]
    version: int
    next_id: int
    #: pylance marks all rows as changed when a column with values is added
    marks_added: bool = False

    def following(self, rows: Iterable[Row], **changes: Any) -> State:
        return replace(self, rows=tuple(rows), version=self.version + 1, **changes)

    @property
    def values(self) -> list[Values]:
        return [row.values for row in self.rows]


def plain(table: pa.Table) -> list[Values]:
    """Return a table's rows as dictionaries."""
    rows: list[Values] = table.to_pylist()
    return rows


def spelled(values: Values) -> str:
    """Return a text that is equal for equal rows only: NaN is itself, -0.0 is not 0.0."""
    return repr(sorted(values.items()))


def typed(values: Iterable[Any], of: pa.DataType) -> list[Any]:
    """Return values as a column of a type gives them back."""
    column: list[Any] = pa.array(values, of).to_pylist()
    return column


def order(value: Any) -> Any:
    """Return what the format's filters compare floats by: NaN is largest, -0.0 below 0.0."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return value


# ---- whole rows


def _new(state: State, values: Iterable[Values]) -> list[Row]:
    version, names = state.version + 1, state.schema.names
    return [
        Row({name: row.get(name) for name in names}, state.next_id + place, version, version)
        for place, row in enumerate(values)
    ]


def create(table: pa.Table, *, marks_added: bool = False) -> State:
    empty = State(table.schema, (), 0, 0, marks_added)
    return append(empty, plain(table))


def append(state: State, values: Sequence[Values]) -> State:
    return state.following([*state.rows, *_new(state, values)], next_id=state.next_id + len(values))


def overwrite(state: State, table: pa.Table) -> State:
    anew = replace(state, schema=table.schema, rows=())
    return append(anew, plain(table))


def delete(state: State, where: Expression) -> tuple[State, Counts]:
    kept = [row for row in state.rows if where(row.values) is not True]
    return state.following(kept), {"num_deleted_rows": len(state.rows) - len(kept)}


def truncate(state: State) -> State:
    return state.following([])


def restore(state: State, old: State) -> State:
    return replace(old, version=state.version + 1, next_id=state.next_id)


# ---- values


def update(
    state: State, values: Mapping[str, Expression], where: Expression
) -> tuple[State, Counts]:
    """Change rows; all new values are made of the old row.  Changed rows move to the end."""
    version = state.version + 1
    stay, changed = [], []
    for row in state.rows:
        if where(row.values) is not True:
            stay.append(row)
            continue
        new = {
            name: typed([value(row.values)], state.schema.field(name).type)[0]
            for name, value in values.items()
        }
        changed.append(replace(row, values=row.values | new, updated=version))
    return state.following([*stay, *changed]), {"num_rows_updated": len(changed)}


def in_place(state: State, values: Mapping[str, Expression]) -> tuple[State, Counts]:
    """Give columns new values in all rows; no row moves."""
    changed, counts = update(state, values, lambda _: True)
    return changed, counts


# ---- columns


def add_columns(state: State, fields: Sequence[pa.Field], values: Sequence[Values] | None) -> State:
    """Add columns; ``None`` for columns of nulls, which touch no row."""
    version = state.version + 1
    rows = []
    for place, row in enumerate(state.rows):
        new = {f.name: None if values is None else values[place][f.name] for f in fields}
        marked = version if values is not None and state.marks_added else row.updated
        rows.append(replace(row, values=row.values | new, updated=marked))
    return state.following(rows, schema=pa.schema([*state.schema, *fields]))


def join(state: State, table: pa.Table, left: str, right: str) -> State:
    """Add the columns of another table by a key; of equal keys the last counts."""
    fields = [f.with_nullable(True) for f in table.schema if f.name != right]
    if {f.name for f in fields} & set(state.schema.names):
        raise Refused
    found = {row[right]: row for row in plain(table) if row[right] is not None}
    values = []
    for row in state.values:
        match = found.get(row[left], {})
        values.append({f.name: match.get(f.name) for f in fields})
    return add_columns(state, fields, values)


def drop(state: State, names: Sequence[str]) -> State:
    schema = pa.schema([f for f in state.schema if f.name not in names])
    if not schema.names:
        raise Refused
    return state.following(
        (replace(r, values={n: r.values[n] for n in schema.names}) for r in state.rows),
        schema=schema,
    )


def alter(
    state: State,
    path: str,
    *,
    name: str | None = None,
    nullable: bool | None = None,
    to: pa.DataType | None = None,
) -> State:
    """Rename, cast or constrain a column; a cast changes all rows."""
    old = state.schema.field(path)
    field = old.with_name(name or path)
    if nullable is not None:
        if not nullable and any(row[path] is None for row in state.values):
            raise Refused
        field = field.with_nullable(nullable)
    version = state.version + 1
    if to is not None:
        field = field.with_type(to)
    if name in state.schema.names and name != path:
        raise Refused
    rows = []
    for row in state.rows:
        value = row.values[path]
        if to is not None:
            try:
                value = typed([value], to)[0]
            except pa.ArrowInvalid as error:
                raise Refused from error
        values = {(field.name if n == path else n): v for n, v in row.values.items()}
        values[field.name] = value
        updated = version if to is not None and to != old.type else row.updated
        rows.append(replace(row, values=values, updated=updated))
    schema = pa.schema([field if f.name == path else f for f in state.schema])
    return state.following(rows, schema=schema)


# ---- merge-insert


@dataclass(frozen=True)
class Clauses:
    """What a merge-insert does; conditions see the source's row and the target's."""

    on: tuple[str, ...]
    matched: str = "keep"
    condition: Callable[[Values, Values], Any] | None = None
    insert: bool = False
    by_source: Expression | None = None


def _key(values: Values, on: Sequence[str]) -> tuple[str, ...] | None:
    """Return a key; ``None`` if a part is null, which equals nothing."""
    parts = [values[name] for name in on]
    return None if None in parts else tuple(map(repr, parts))


def merge(
    state: State, source: Sequence[Values], names: Sequence[str], clauses: Clauses
) -> tuple[State, Counts]:
    """Merge rows with the named columns, at least those of the key."""
    if clauses.insert and any(f.name not in names for f in state.schema if not f.nullable):
        raise Refused
    version = state.version + 1
    keyed = [(_key(values, clauses.on), values) for values in source]
    sources = {key: values for key, values in keyed if key is not None}
    if len(sources) < sum(key is not None for key, _ in keyed):
        raise Refused
    stay: list[Row] = []
    changed: list[Row] = []
    counts: Counter[str] = Counter()
    met = set()
    for row in state.rows:
        key = _key(row.values, clauses.on)
        match = sources.get(key) if key is not None else None
        if match is None:
            goes = clauses.by_source is not None and clauses.by_source(row.values) is True
            counts["num_deleted_rows"] += goes
            if not goes:
                stay.append(row)
            continue
        met.add(key)
        condition = clauses.condition
        if clauses.matched == "fail":
            raise Refused
        if clauses.matched == "delete":
            counts["num_deleted_rows"] += 1
        elif clauses.matched == "update" and (
            condition is None or condition(match, row.values) is True
        ):
            changed.append(replace(row, values=row.values | match, updated=version))
        else:
            stay.append(row)
    new = [values for key, values in keyed if key is None or key not in met]
    inserted = _new(state, new if clauses.insert else [])
    after = state.following([*stay, *changed, *inserted], next_id=state.next_id + len(inserted))
    return after, {
        "num_inserted_rows": len(inserted),
        "num_updated_rows": len(changed),
        "num_deleted_rows": counts["num_deleted_rows"],
    }


# ---- a real table, seen as a state

HIDDEN = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def rows_of(dataset: Any) -> tuple[Row, ...]:
    """Return a dataset's rows with what is hidden; both libraries read alike."""
    stable = dataset.has_stable_row_ids
    names = dataset.schema.names
    table = dataset.to_table(columns=[*names, *HIDDEN] if stable else names)
    if not stable:
        return tuple(Row(values, -1, -1, -1) for values in plain(table))
    return tuple(
        Row({name: values[name] for name in names}, *(values[name] for name in HIDDEN))
        for values in plain(table)
    )


def adopt(expected: State, found: Sequence[Row], *, ordered: bool, stable: bool) -> State:
    """Compare rows that were read with those expected, and take over what was not promised.

    That is the order of rows that an operation moved, and which of the new rows got which of the
    new ids.
    """
    if not stable:
        mine = [spelled(row.values) for row in expected.rows]
        read = [spelled(row.values) for row in found]
        assert Counter(mine) == Counter(read), _difference(mine, read)
        assert not ordered or mine == read, "the order of the rows differs"
        by_values = defaultdict(list)
        for row, text in zip(expected.rows, mine, strict=True):
            by_values[text].append(row)
        return replace(expected, rows=tuple(by_values[text].pop(0) for text in read))
    mine = [_with_hidden(row, expected) for row in expected.rows]
    read = [_with_hidden(row, expected) for row in found]
    assert Counter(mine) == Counter(read), _difference(mine, read)
    assert sorted(row.id for row in expected.rows) == sorted(row.id for row in found)
    assert not ordered or mine == read, "the order of the rows differs"
    if ordered:
        assert [row.id for row in expected.rows] == [row.id for row in found]
    return replace(expected, rows=tuple(found))


def _with_hidden(row: Row, expected: State) -> str:
    new = row.created == expected.version
    return f"{spelled(row.values)} {'new' if new else row.id} {row.created} {row.updated}"


def _difference(mine: list[str], read: list[str]) -> str:
    lacking, extra = Counter(mine) - Counter(read), Counter(read) - Counter(mine)
    return "\n".join(
        [
            "rows differ",
            *(f"- {t}" for t in lacking.elements()),
            *(f"+ {t}" for t in extra.elements()),
        ]
    )
