"""What a statement's text may be, and where a mistake in it is."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, PredicateError

#: a text with the place of its mistake behind it, and what is said of it
MISTAKES = {
    'SELECT ^"id" FROM t': "double quotes",
    "SELECT id FROM t WHERE s = ^'a": "not closed",
    "SELECT id FROM t WHERE^": "something is missing",
    "SELECT id FROM ^nosuch": "no table 'nosuch'",
    "SELECT ^nosuch FROM t": "no column 'nosuch'",
    "SELECT t.^nosuch FROM t": "has no column",
    "SELECT ^u.id FROM t": "no table or column 'u'",
    "INSERT INTO t (id, s) VALUES (^1)": "has 1, but there are 2",
    "SELECT ^id FROM t a JOIN t b ON a.id = b.id": "is ambiguous",
    "SELECT ^sin(x) FROM t": "no function 'sin'",
    "SELECT ^now() FROM t": "no function 'now'",
    "SELECT ^s, count(*) FROM t": "not in GROUP BY",
    "SELECT id FROM t WHERE ^sum(id) > 1": "is an aggregate",
    "SELECT id FROM t WHERE ^id > 'a'": "cannot compare",
    "SELECT id FROM t WHERE d > ^'nonsense'": "is not a value of date32",
    "SELECT CAST(^s AS int) FROM t": "different results on different engines",
    "SELECT ^dec + 1 FROM t": "takes number",
    "SELECT id FROM t WHERE ^id": "needs a condition",
    "SELECT id FROM t LIMIT -^1": "LIMIT must be",
    "SELECT id FROM t ORDER BY ^7": "no column 7",
    "SELECT id FROM t WHERE s LIKE ^s": "must be a constant",
    "SELECT id FROM t WHERE s LIKE ^'\\a'": "an unnecessary escape",
    "SELECT ^x'abc' FROM t": "not a sequence of bytes",
    "SELECT id FROM t GROUP BY ^l": "cannot compare",
    "SELECT [^1, 2] FROM t": "is not supported",
    "SELECT ^id[0] FROM t": "is not supported",
    "SELECT id FROM t WHERE id = ^$nosuch": "$nosuch has no value",
    "SELECT id FROM t TABLESAMPLE (^5 ROWS)": "TABLESAMPLE",
    "SELECT ^sum(x) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) FROM t": "a window frame (ROWS",
    "SELECT sum(x) OVER (ORDER BY id ROWS BETWEEN ^1 PRECEDING AND CURRENT ROW) FROM t": (
        "a window frame (ROWS, RANGE, GROUPS) is not supported"
    ),
    "SELECT ^lag(x) IGNORE NULLS OVER (ORDER BY id) FROM t": "IGNORE NULLS is not supported",
    "SELECT lag(^x IGNORE NULLS) OVER (ORDER BY id) FROM t": "IGNORE NULLS is not supported",
    "SELECT ^lead(x) RESPECT NULLS OVER (ORDER BY id) FROM t": "RESPECT NULLS is not supported",
    "SELECT sum(x) OVER w FROM t WINDOW ^w AS (PARTITION BY id)": "WINDOW is not supported",
    "SELECT id FROM t SORT BY ^id": "SORT BY is not supported",
    "SELECT ^* FROM t NATURAL JOIN t b": "",
    "SELECT id FROM ^read_csv('/etc/passwd')": "table functions are not",
    "SELECT id FROM ^information_schema.tables": "a name with a dot",
    "SELECT 1 UNION ^SELECT 'a'": "",
    "^CREATE TABLE t (x int)": "",
    "^DROP TABLE t": "",
    "^GRANT ALL ON t TO me": "",
    "^": "no statement",
    "UPDATE t SET ^nosuch = 1": "no column 'nosuch'",
    "UPDATE t SET id = 1, ^id = 2": "set twice",
    "UPDATE t SET ^id = 1.5": "cannot be converted to column 'id'",
    "UPDATE t ^VERSION AS OF 1 SET id = 1": "",
    "DELETE FROM t WHERE EXISTS (SELECT ^1 FROM t b WHERE b.id = t.id LIMIT 1)": "plain SELECT",
    "INSERT INTO t (id, x) ^SELECT 1": "",
    "INSERT INTO t (id) VALUES (^x)": "no column 'x'",
    "INSERT OVERWRITE ^t SELECT 1": "INSERT OVERWRITE",
    "MERGE INTO t USING t b ON ^t.id > b.id WHEN MATCHED THEN DELETE": "equal keys in ON",
    "MERGE INTO t USING t b ON t.id = b.id WHEN NOT MATCHED THEN INSERT (^x) VALUES (b.x)": (
        "must be its source key"
    ),
    "ALTER TABLE t DROP COLUMN ^nosuch": "no column",
    "ALTER TABLE t ADD COLUMN ^y array<int>": "needs a type",
    "RESTORE ^t TO nothing": "",
}


_ASKS = re.compile(r"(FROM|UPDATE|INTO|OVERWRITE|ALTER TABLE|RESTORE|DESCRIBE) t\b")


@pytest.fixture(scope="module")
def t() -> lk.LanceDataset:
    rows = {"id": [1], "x": [0.5], "s": ["a"], "l": [[1]]}
    ds = lk.write_dataset(rows, "memory://mistakes", mode="overwrite")
    ds.add_columns({"d": "DATE '2020-01-01'", "dec": "CAST(1 AS decimal(5, 2))"})
    return ds


@pytest.mark.parametrize("marked", MISTAKES)
def test_a_mistake_is_pointed_at(t: lk.LanceDataset, marked: str) -> None:
    text, said = marked.replace("^", ""), MISTAKES[marked]
    with pytest.raises(PredicateError) as caught:
        lk.sql(text, **({"t": t} if _ASKS.search(text) else {}))
    assert said in str(caught.value)
    if said:
        assert caught.value.context["position"] == marked.index("^")


@pytest.mark.parametrize(
    ("asked", "by_scan"),
    [
        ("date_trunc('hour', at)", "date_trunc('hour', at)"),
        ("minute(at)", "date_part('minute', at)"),
        ("extract(hour FROM at)", "date_part('hour', at)"),
    ],
)
def test_parts_of_instants_come_from_a_scan(asked: str, by_scan: str) -> None:
    # the hour that comes twice in New York
    moments = [1730611800, 1730615400, 1730615460, 1730619000]
    at = pa.array(moments, pa.timestamp("s")).cast(pa.timestamp("us", "America/New_York"))
    ds = lk.write_dataset(pa.table({"at": at}), "memory://instants", mode="overwrite")
    with pytest.raises(PredicateError, match="but this is timestamp") as caught:
        lk.sql(f"SELECT {asked} AS part FROM t", t=ds)
    assert """ds.to_table(columns={"hour": "date_trunc('hour', at)"})""" in caught.value.hint
    rows = ds.to_table(columns={"part": by_scan})
    query = "SELECT part, count(*) AS n FROM t GROUP BY part ORDER BY part"
    found = lk.sql(query, t=rows).to_table()
    grouped = rows.group_by("part").aggregate([([], "count_all")]).sort_by("part")
    assert found["n"].to_pylist() == grouped["count_all"].to_pylist()
    assert found["part"].cast(grouped["part"].type) == grouped["part"]


def test_names_that_nobody_asks_for(t: lk.LanceDataset) -> None:
    with pytest.raises(InvalidArgumentError, match="Unused parameter: other"):
        lk.sql("SELECT 1 FROM t", t=t, other=1)


def test_the_last_statement_counts(t: lk.LanceDataset) -> None:
    found = lk.sql("SELECT 1 AS one; SELECT id FROM t; -- the end\n", t=t)
    assert found.schema.names == ["id"]


def test_deep_texts(t: lk.LanceDataset) -> None:
    chain = " OR ".join(f"id = {number}" for number in range(2000))
    assert len(lk.sql(f"SELECT id FROM t WHERE {chain}", t=t)) == 1
    with pytest.raises(PredicateError):
        lk.sql(f"SELECT {'(' * 5000}1{')' * 5000}")
