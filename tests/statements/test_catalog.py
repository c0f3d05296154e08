"""SHOW, EXPLAIN, CREATE TABLE, VACUUM, and statements on branches and tags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    BranchNotFoundError,
    DatasetExistsError,
    PredicateError,
    RefConflictError,
    VersionNotFoundError,
)


@pytest.fixture
def t(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two versions of main, and a tag."""
    monkeypatch.chdir(tmp_path)
    made = lk.write_dataset({"id": [1, 2, 3], "s": ["a", "b", "c"]}, "t.lance")
    made.insert({"id": [4], "s": ["d"]})
    made.tags.create("jan", 1)
    return made


def test_tables_are_those_of_the_calling_frame_and_the_registered_ones(t: Any) -> None:
    frame = pd.DataFrame({"x": [1, 2]})
    rows, _hidden, number = pa.table({"a": [1], "b": [2]}), pa.table({}), 3
    lk.register("kept", "s3://user:secret@bucket/kept.lance")
    try:
        found = lk.sql("SHOW TABLES", given={"x": [1]}).to_table().to_pylist()
    finally:
        lk.register("kept", None)
    by_name = {row["name"]: row for row in found}
    assert list(by_name) == sorted(by_name)
    assert {"frame", "rows", "t", "kept", "given"} <= set(by_name)
    assert not {"_hidden", "number"} & set(by_name)
    assert by_name["t"]["rows"] == 4
    assert by_name["t"]["version"] == "main:2"
    assert (by_name["frame"]["kind"], by_name["frame"]["rows"]) == ("pandas", 2)
    assert (by_name["rows"]["kind"], by_name["rows"]["columns"]) == ("pyarrow", 2)
    assert "secret" not in by_name["kept"]["place"]
    assert (len(frame), rows.num_rows, number) == (2, 1, 3)


def test_lists_are_those_of_the_handle(t: Any) -> None:
    t.create_scalar_index("id", "BTREE")
    t.create_branch("dev")
    for text in ("SHOW BRANCHES FROM t", "show branch in t"):
        assert lk.sql(text).names() == ("dev",)
    assert lk.sql("SHOW TAGS IN t").names() == ("jan",)
    assert lk.sql("SHOW VERSIONS FROM t").numbers == (1, 2, 3)
    assert lk.sql("DESCRIBE HISTORY t LIMIT 1").numbers == (3,)
    assert list(lk.sql("SHOW INDEXES FROM t")) == list(t.indices)
    assert lk.sql("DESCRIBE DETAIL t").version == 3
    for text in ("SHOW COLUMNS IN t", "DESCRIBE t", "DESC TABLE t"):
        assert lk.sql(text).to_table()["column"].to_pylist() == ["id", "s"]
    assert lk.sql("SHOW VERSIONS FROM t@dev").numbers[-1] == 3
    assert len(lk.sql("SHOW TAGS FROM 't.lance'").names()) == 1


def test_explain_runs_nothing(t: Any) -> None:
    others = pa.table({"id": [1], "s": ["z"]})
    text = "SELECT t.s, count(*) FROM t JOIN others o ON t.id = o.id WHERE t.id > 3 GROUP BY 1"
    first, second = lk.sql(f"EXPLAIN {text}").to_table().to_pylist()
    assert (first["table"], first["columns"], first["filter"]) == ("t", ["id", "s"], "`id` > 3")
    assert first["fragments"] in {"1 of 2", "2 of 2"}
    assert (second["table"], second["rows"], second["fragments"]) == ("others", 1, None)
    assert lk.sql("EXPLAIN DELETE FROM t WHERE id = 1").commits == ("Delete",)
    merge = "MERGE INTO t USING others o ON t.id = o.id WHEN MATCHED THEN UPDATE SET *"
    assert lk.sql(f"EXPLAIN {merge}").num_updated_rows == 1
    assert lk.sql("EXPLAIN CREATE TABLE 'n.lance' AS SELECT id FROM t").num_rows == 1
    lk.sql("EXPLAIN VACUUM t"), lk.sql("EXPLAIN OPTIMIZE t")
    assert lk.dataset("t.lance").latest_version == 2
    assert not Path("n.lance").exists()
    assert others.num_rows == 1


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        ("", (None, 2)),
        ("AS OF VERSION 1", (None, 1)),
        ("AS OF BRANCH dev", ("dev", 2)),
        ("AS OF BRANCH `old/er` VERSION 1", ("old/er", 1)),
        ("AS OF TAG jan", (None, 1)),
        ("AS OF VERSION $number", (None, 1)),
    ],
)
def test_branches_and_tags_begin_where_the_text_says(t: Any, begin: str, expected: Any) -> None:
    t.create_branch("dev")
    t.create_branch("old/er", 1)
    number = 1
    made = lk.sql(f"ALTER TABLE t CREATE BRANCH new {begin}")
    assert (made.branch, made.version) == ("new", expected[1])
    lk.sql(f"CREATE TAG x IN t {begin}")
    tag = t.tags.list()["x"]
    assert (tag["branch"], tag["version"]) == expected
    assert number == 1


def test_tags_are_moved_and_dropped(t: Any) -> None:
    with pytest.raises(RefConflictError):
        lk.sql("ALTER TABLE t CREATE TAG jan AS OF VERSION 2")
    lk.sql("ALTER TABLE t CREATE TAG IF NOT EXISTS jan AS OF VERSION 2")
    assert t.tags.get_version("jan") == 1
    lk.sql("ALTER TABLE t CREATE OR REPLACE TAG jan AS OF VERSION 2")
    assert t.tags.get_version("jan") == 2
    lk.sql("ALTER TABLE t REPLACE TAG jan AS OF VERSION 1")
    assert t.tags.get_version("jan") == 1
    with pytest.raises(VersionNotFoundError):
        lk.sql("CREATE TAG feb IN t AS OF VERSION 9")
    lk.sql("DROP TAG jan FROM t; ALTER TABLE t DROP TAG IF EXISTS jan")
    assert t.tags.names() == ()
    lk.sql("ALTER TABLE t CREATE BRANCH dev; ALTER TABLE t CREATE BRANCH IF NOT EXISTS dev")
    lk.sql("ALTER TABLE t DROP BRANCH dev; DROP BRANCH IF EXISTS dev IN t")
    with pytest.raises(BranchNotFoundError):
        lk.sql("DROP BRANCH dev IN t")


def test_tables_are_created_at_paths(t: Any) -> None:
    made = lk.sql("CREATE TABLE 'new.lance' AS SELECT id, upper(s) AS s FROM t WHERE id > 2")
    assert made.to_table().to_pydict() == {"id": [3, 4], "s": ["C", "D"]}
    with pytest.raises(DatasetExistsError):
        lk.sql("CREATE TABLE 'new.lance' AS SELECT id FROM t")
    same = lk.sql("CREATE TABLE IF NOT EXISTS 'new.lance' AS SELECT id FROM t")
    assert same.version == 1
    text = "CREATE OR REPLACE TABLE 'new.lance' USING lance AS WITH q AS (SELECT id FROM t) FROM q"
    assert lk.sql(text.replace("FROM q", "SELECT * FROM q")).to_table()["id"].to_pylist() == [
        *(1, 2, 3, 4)
    ]
    empty = lk.sql("CREATE TABLE 'empty.lance' (id BIGINT NOT NULL, s STRING)")
    assert empty.schema == pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", "string")])
    assert empty.count_rows() == 0


def test_vacuum_removes_old_versions(t: Any) -> None:
    t.tags.delete("jan")
    told = lk.sql("VACUUM t RETAIN 0 HOURS DRY RUN")
    assert told.stats.old_versions == 1
    assert lk.sql("VACUUM t").old_versions == 0
    assert lk.sql("VACUUM t RETAIN 0 HOURS").old_versions == 1


def test_table_changes_has_the_rows_of_delta(t: Any) -> None:
    found = lk.sql("SELECT * FROM table_changes('t', 2)").to_table()
    assert found["_change_type"].to_pylist() == ["insert"]
    assert found["_commit_version"].to_pylist() == [2]
    t.delete("id = 4")
    text = "SELECT _change_type AS kind, id FROM table_changes('t.lance', 2, 3) ORDER BY 1"
    kinds = lk.sql(text).fetchall()
    assert kinds == [("delete", 4), ("insert", 4)]


#: a statement, and what its error says; the hint names the counterpart
REFUSED = {
    "SHOW NOSUCH FROM t": "SHOW lists TABLES",
    "SHOW TAGS": "SHOW TAGS FROM name",
    "SHOW TAGS FROM nosuch": "no table 'nosuch'",
    "EXPLAIN SHOW TABLES": "EXPLAIN needs a query or a change",
    "OPTIMIZE t ZORDER BY (id, s)": "create_scalar_index",
    "VACUUM t WITH (before_version = 1)": "ds.cleanup_old_versions takes",
    "CREATE TABLE new AS SELECT id FROM t": "'new.lance' AS SELECT",
    "CREATE TABLE 'x' USING delta AS SELECT id FROM t": "lk.write_dataset",
    "CREATE TABLE 'x'": "needs a query or columns",
    "CREATE TABLE 'x' (id INT PRIMARY KEY)": "NOT NULL",
    "CREATE VIEW v AS SELECT id FROM t": "CREATE VIEW is not supported",
    "DROP TABLE t": "lk.LanceDataset.drop",
    "ALTER TABLE t CREATE BRANCH b RETAIN 7 DAYS": "DROP BRANCH",
    "ALTER TABLE t CREATE OR REPLACE BRANCH b": "cannot be replaced",
    "CREATE TAG x": "was not expected|is missing",
    "TRUNCATE TABLE t": "DELETE FROM",
    "CALL rollback('t', 1)": "ds.restore",
    "SELECT * FROM table_changes('t', 0)": "ds.changes",
    "SELECT * FROM table_changes('t', '2020-01-01')": "ds.changes",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_there_is_not_is_refused_with_its_counterpart(t: Any, text: str) -> None:
    with pytest.raises(PredicateError, match=REFUSED[text].replace("(", r"\(")):
        lk.sql(text)
    assert t.latest_version == 2


@pytest.mark.parametrize("text", ["CREATE TAG x IN t", "CREATE TABLE 'x' AS SELECT id FROM t"])
def test_what_changes_no_rows_has_no_preview(t: Any, text: str) -> None:
    with pytest.raises(PredicateError, match="has no preview"):
        lk.sql(text, preview=True)
    assert t.tags.names() == ("jan",)
