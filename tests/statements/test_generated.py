"""Three hundred statements, a half of them changes, against the same done by the API.

Each is drawn by a seed, and run here and on Spark: both have to give what the API gives, and the
version before a change has to stay what it was.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit.errors import LancekitError

NUMBER = 300
Answer = Callable[[lk.LanceDataset, pa.Table], Any]


@dataclass(frozen=True)
class Case:
    """A statement over `t`, its versions, and `s`; and the same by the API."""

    sql: str
    by_api: Answer
    params: dict[str, Any]
    ordered: bool = False


def rows(seed: int, count: int, start: int = 0) -> pa.Table:
    draw = random.Random(seed)

    def some(make: Callable[[], Any]) -> list[Any]:
        return [None if draw.random() < 0.15 else make() for _ in range(count)]

    ids = draw.sample(range(start, start + 2 * count), count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array(some(lambda: draw.randrange(-3, 4)), pa.int8()),
            "x": pa.array(
                some(lambda: draw.choice([draw.randrange(-8, 9) / 4, float("nan"), -0.0, 1e300])),
                pa.float64(),
            ),
            "s": pa.array(
                some(lambda: draw.choice(["", "a", "B%", "it's", 'q"', "ß_é", "\\", "zz top"])),
                pa.string(),
            ),
            "d": pa.array(some(lambda: date(2020, 1, 1) + timedelta(draw.randrange(60)))),
            "t": pa.array(
                some(lambda: datetime(2020, 1, 1) + timedelta(hours=draw.randrange(99))),
                pa.timestamp("us"),
            ),
        }
    )


# ---- conditions, which statements and filters write alike


def condition(draw: random.Random, depth: int = 0) -> str:
    kind = draw.randrange(10 if depth < 2 else 7)
    match kind:
        case 0:
            return f"k {draw.choice(['=', '<>', '<', '<=', '>', '>='])} {draw.randrange(-3, 4)}"
        case 1:
            return f"x {draw.choice(['<', '>', '<=', '>='])} {draw.randrange(-8, 9) / 4 + 0.1}"
        case 2:
            texts = ", ".join(draw.sample(["'a'", "'it''s'", "''", "'ß_é'", "'zz top'"], 2))
            return f"s {draw.choice(['', 'NOT '])}IN ({texts})"
        case 3:
            return f"{draw.choice('kxsdt')} IS {draw.choice(['', 'NOT '])}NULL"
        case 4:
            return f"d {draw.choice('<>')} DATE '2020-02-{draw.randrange(1, 20):02}'"
        case 5:
            return f"id BETWEEN {draw.randrange(20)} AND {draw.randrange(10, 60)}"
        case 6:
            pattern = draw.choice(["%a%", "_", "z%", "%_", "B\\%", "%''%", ""])
            return f"s LIKE '{pattern}'"
        case 7:
            return f"NOT ({condition(draw, depth + 1)})"
    joined = draw.choice([" AND ", " OR "])
    return "(" + joined.join(condition(draw, depth + 1) for _ in range(2)) + ")"


# ---- queries


def select_rows(draw: random.Random) -> Case:
    names, where = draw.sample(["id", "k", "x", "s", "d", "t"], 3), condition(draw)
    sql = f"SELECT {', '.join(names)} FROM t VERSION AS OF 1 WHERE {where}"
    return Case(sql, lambda t, _: t.at(1).to_table(names, filter=where), {})


def select_computed(draw: random.Random) -> Case:
    number = draw.randrange(1, 5)
    computed = draw.choice(
        [
            ("k + $n", f"CAST(k AS bigint) + {number}"),
            ("k * $n - id", f"CAST(k AS bigint) * {number} - id"),
            ("x / $n", f"x / {number}.0"),
            ("id div $n", f"id / {number}"),
            ("id % $n", f"id % {number}"),
            ("upper(s)", "upper(s)"),
            ("s || '!'", "s || '!'"),
            ("coalesce(s, 'none')", "coalesce(s, 'none')"),
            ("length(s)", "CAST(char_length(s) AS bigint)"),
            ("year(d) + month(d)", "CAST(date_part('year', d) + date_part('month', d) AS bigint)"),
            ("abs(k)", "CAST(abs(CAST(k AS bigint)) AS bigint)"),
        ]
    )
    where = condition(draw)
    sql = f"SELECT id, {computed[0]} AS y FROM t WHERE {where} ORDER BY id DESC"
    columns = {"id": "id", "y": computed[1]}
    return Case(
        sql,
        lambda t, _: t.to_table(columns, filter=where).sort_by([("id", "descending")]),
        {"n": number} if "$n" in sql else {},
        ordered=True,
    )


def select_groups(draw: random.Random) -> Case:
    where, key = condition(draw), draw.choice(["k", "s", "d"])
    sql = (
        f"SELECT {key}, count(*) AS n, sum(id) AS total, max(d) AS last, count(x) AS xs "
        f"FROM t@other WHERE {where} GROUP BY {key}"
    )

    def by_api(t: lk.LanceDataset, _: pa.Table) -> pa.Table:
        found = t.checkout_version(("other", None)).to_table(filter=where)
        grouped = found.select([key]).append_column("i", found["id"])
        grouped = grouped.append_column("dd", found["d"]).append_column("xx", found["x"])
        made = grouped.group_by(key).aggregate(
            [("i", "count"), ("i", "sum"), ("dd", "max"), ("xx", "count")]
        )
        made = made.select([key, "i_count", "i_sum", "dd_max", "xx_count"])
        return made.rename_columns([key, "n", "total", "last", "xs"])

    return Case(sql, by_api, {})


def select_join(draw: random.Random) -> Case:
    kind, how = draw.choice([("JOIN", "inner"), ("LEFT JOIN", "left outer")])
    where = condition(draw)
    sql = (
        f"SELECT a.id, a.k, s.x AS other FROM (SELECT id, k FROM t WHERE {where}) a "
        f"{kind} s ON a.id = s.id"
    )

    def by_api(t: lk.LanceDataset, s: pa.Table) -> pa.Table:
        right = s.select(["id", "x"]).rename_columns(["id", "other"])
        return t.to_table(["id", "k"], filter=where).join(right, "id", join_type=how)

    return Case(sql, by_api, {})


def select_members(draw: random.Random) -> Case:
    word, where = draw.choice(["", "NOT "]), condition(draw)
    sql = f"SELECT id FROM t WHERE id {word}IN (SELECT id FROM s) AND {where}"

    def by_api(t: lk.LanceDataset, s: pa.Table) -> pa.Table:
        found = t.to_table(["id"], filter=where)
        among = pc.is_in(found["id"], s["id"])
        return found.filter(pc.invert(among) if word else among)

    return Case(sql, by_api, {})


# ---- changes


def _delete(draw: random.Random) -> Case:
    where = condition(draw)
    return Case(f"DELETE FROM t WHERE {where}", lambda t, _: t.delete(where), {})


def _delete_members(draw: random.Random) -> Case:
    def by_api(t: lk.LanceDataset, s: pa.Table) -> object:
        return t.delete(f"id IN ({', '.join(map(str, s['id'].to_pylist()))})")

    return Case("DELETE FROM t WHERE id IN (SELECT id FROM s)", by_api, {})


def _update(draw: random.Random) -> Case:
    where, text = condition(draw), draw.choice(["it's", "; DROP TABLE t --", "\\", 'x" OR 1=1'])
    column, value, same = draw.choice(
        [
            ("s", "$v", "'" + text.replace("'", "''") + "'"),
            ("k", "NULL", "NULL"),
            ("x", "x + 1", "x + 1"),
            ("id", "id + 1000", "id + 1000"),
            ("s", "s || '+'", "s || '+'"),
            ("d", "'2021-05-06'", "DATE '2021-05-06'"),
        ]
    )
    sql = f"UPDATE t SET {column} = {value} WHERE {where}"
    return Case(
        sql, lambda t, _: t.update({column: same}, where), {"v": text} if "$" in sql else {}
    )


def _insert(draw: random.Random) -> Case:
    where, names = condition(draw), draw.sample(["k", "x", "s", "d", "t"], 3)
    listed = ", ".join(["id", *names])
    sql = f"INSERT INTO t ({listed}) SELECT id + 500, {', '.join(names)} FROM t VERSION AS OF 1"

    def by_api(t: lk.LanceDataset, _: pa.Table) -> None:
        columns = {"id": "id + 500", **{name: name for name in names}}
        t.insert(t.at(1).to_table(columns, filter=where))

    return Case(f"{sql} WHERE {where}", by_api, {})


def _merge(draw: random.Random) -> Case:
    where = draw.choice(["", " AND (s.k > t.k OR t.k IS NULL)", " AND s.s <> t.s"])
    insert, drop = draw.random() < 0.7, draw.choice(["", " AND t.k > 0", None])
    sql = f"MERGE INTO t USING s ON t.id = s.id WHEN MATCHED{where} THEN UPDATE SET *"
    sql += " WHEN NOT MATCHED THEN INSERT *" * insert
    if drop is not None:
        sql += f" WHEN NOT MATCHED BY SOURCE{drop} THEN DELETE"

    def by_api(t: lk.LanceDataset, s: pa.Table) -> object:
        if where:
            text = where.removeprefix(" AND ").replace("s.", "source.").replace("t.", "target.")
            builder = t.merge_insert("id").when_matched_update_all(text)
        else:
            builder = t.merge_insert("id").when_matched_update_all()
        if insert:
            builder.when_not_matched_insert_all()
        if drop is not None:
            expr = drop.removeprefix(" AND ").replace("t.", "")
            builder.when_not_matched_by_source_delete(*([expr] if expr else []))
        return builder.execute(s)

    return Case(sql, by_api, {})


def _restore(draw: random.Random) -> Case:
    def by_api(t: lk.LanceDataset, _: pa.Table) -> None:
        t.delete("id % 2 = 0")
        t.checkout_version(1).restore()
        t.checkout_latest()

    return Case("DELETE FROM t WHERE id % 2 = 0; RESTORE t TO VERSION AS OF 1", by_api, {})


def _alter(draw: random.Random) -> Case:
    def added(t: lk.LanceDataset, _: pa.Table) -> None:
        t.add_columns(pa.field("new", pa.int32()))

    sql, by_api = draw.choice(
        [
            ("ADD COLUMN new int", added),
            ("DROP COLUMN x", lambda t, _: t.drop_columns(["x"])),
            (
                "RENAME COLUMN s TO `the text`",
                lambda t, _: t.alter_columns({"path": "s", "name": "the text"}),
            ),
            (
                "ALTER COLUMN k TYPE bigint",
                lambda t, _: t.alter_columns({"path": "k", "data_type": pa.int64()}),
            ),
        ]
    )
    return Case(f"ALTER TABLE t {sql}", by_api, {})


QUERIES = (select_rows, select_computed, select_groups, select_join, select_members)
CHANGES = (_delete, _update, _merge, _insert, _merge, _update, _delete_members, _restore, _alter)


def case_of(seed: int) -> Case:
    draw = random.Random(seed)
    makers = CHANGES if seed % 2 else QUERIES
    return makers[(seed // 2) % len(makers)](draw)


# ---- running them


def _same(one: pa.Table, other: pa.Table, *, ordered: bool) -> None:
    def plain(table: pa.Table) -> list[str]:
        found = [repr(tuple(row.values())) for row in table.to_pylist()]
        return found if ordered else sorted(found)

    assert one.column_names == other.column_names
    assert plain(one) == plain(other)


def _table(place: Path, seed: int) -> lk.LanceDataset:
    ds = lk.write_dataset(rows(seed, 40), place, max_rows_per_file=15)
    other = ds.create_branch("other")
    other.delete("id % 3 = 0")
    return ds


def _run(place: Path, seed: int) -> None:
    case, s = case_of(seed), rows(seed + 1000, 25, start=20)
    ours, api = _table(place / "sql", seed), _table(place / "api", seed)
    before = ours.to_table()
    frames: dict[str, Any] = {"t": ours}
    if re.search(r"(FROM|JOIN|USING) s\b", case.sql):
        frames["s"] = s
    found = lk.sql(case.sql, params=case.params, **frames)
    wanted = case.by_api(api, s)
    if isinstance(found, lk.SqlResult):
        _same(found.to_table(), wanted, ordered=case.ordered)
        return
    if isinstance(wanted, dict):
        assert dict(found) == dict(wanted)
    assert ours.schema == api.schema
    _same(ours.to_table(), api.to_table(), ordered=False)
    _same(lk.sql("SELECT * FROM t VERSION AS OF 1", t=ours).to_table(), before, ordered=False)


@pytest.mark.sample(15)
@pytest.mark.parametrize("seed", range(NUMBER))
def test_here(tmp_path: Path, seed: int) -> None:
    _run(tmp_path, seed)


@pytest.mark.spark
@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(NUMBER))
def test_on_spark(spark: object, tmp_path: Path, seed: int) -> None:
    with lk.options(engine="spark"):
        _run(tmp_path, seed)


def test_refused_alike(tmp_path: Path) -> None:
    """A statement that fails writes nothing."""
    ds = _table(tmp_path / "d", 1)
    for sql in ("DELETE FROM t WHERE nosuch", "UPDATE t SET k = 1000", "INSERT INTO t VALUES (1)"):
        with pytest.raises(LancekitError):
            lk.sql(sql, t=ds)
        assert ds.version == ds.latest_version == 1
