"""MERGE of several clauses, as DuckDB does it, here and on Spark; and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import DuplicateKeysError, LancekitError, PredicateError
from tests.support.changes_of_sql import merge_text, run_both

TARGET = {"id": [1, 2, 3, 4, 5], "v": [10, 20, None, 40, 50], "s": ["a", "b", "c", "d", None]}
SOURCE = {"id": [2, 3, 4, 9, 8], "v": [21, 31, -1, 91, None], "s": ["B", "C", "D", "Z", "Y"]}
MANY = """
MERGE INTO t USING s ON t.id = s.id
  WHEN MATCHED AND s.v < 0 THEN DELETE
  WHEN MATCHED AND t.v IS NULL THEN UPDATE SET *
  WHEN MATCHED THEN UPDATE SET v = t.v + s.v, s = CASE WHEN s.v > 20 THEN 'big' ELSE t.s END
  WHEN NOT MATCHED AND s.v > 90 THEN INSERT (id, v) VALUES (s.id, s.v * 2)
  WHEN NOT MATCHED THEN INSERT *
  WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE
  WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = -t.v
"""
WANTED = [(2, 41, "big"), (3, 31, "C"), (5, -50, None), (8, None, "Y"), (9, 182, None)]


def _rows(ds: lk.LanceDataset) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in ds.to_table().to_pylist())


@pytest.mark.sample(15)
@pytest.mark.parametrize("seed", range(300))
def test_as_duckdb_does(tmp_path: Path, seed: int) -> None:
    found, wanted = run_both(tmp_path / "d", merge_text(seed), seed)
    assert found == wanted


@pytest.mark.spark
@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(60))
def test_as_duckdb_does_on_spark(spark: object, tmp_path: Path, seed: int) -> None:
    with lk.options(engine="spark"):
        found, wanted = run_both(tmp_path / "d", merge_text(seed), seed)
    assert found == wanted


@pytest.mark.parametrize("stable", [False, True])
def test_the_first_clause_that_holds(tmp_path: Path, stable: bool) -> None:
    ds = lk.write_dataset(TARGET, tmp_path / "d", max_rows_per_file=2, enable_stable_row_ids=stable)
    ids = dict(ds.to_table(["id", "_rowid"]).to_pandas().itertuples(index=False))
    found = lk.sql(MANY, t=ds, s=SOURCE)
    assert dict(found) == {
        "num_inserted_rows": 2,
        "num_updated_rows": 3,
        "num_deleted_rows": 2,
    }
    assert (found.on, found.version, found.read_version) == (("id",), 2, 1)
    assert _rows(ds) == WANTED
    ds.validate()
    if stable:
        now = dict(ds.to_table(["id", "_rowid"]).to_pandas().itertuples(index=False))
        assert all(now[id_] == ids[id_] for id_ in (2, 3, 5))


def test_a_preview_tells_and_applies_anew(tmp_path: Path) -> None:
    ds = lk.write_dataset(TARGET, tmp_path / "d")
    plan = lk.sql(MANY, t=ds, s=SOURCE, preview=True)
    assert ds.version == ds.latest_version == 1
    assert [*dict(plan).values()] == [2, 3, 2]
    assert plan.on == ("id",)
    assert plan.rules[0] == "WHEN MATCHED AND s.v < 0 THEN DELETE"
    assert {(c.key, c.old, c.new) for c in plan.changes if c.column == "v"} == {
        ((2,), 20, 41),
        ((3,), None, 31),
        ((5,), 50, -50),
    }
    assert plan.deleted["id"].to_pylist() == [1, 4]
    assert "v" in str(plan.explanation)
    ds.delete("id = 2")  # rows have other addresses then, and one is new
    done = plan.apply()
    assert [*dict(done).values()] == [3, 2, 2]
    assert (2, 21, "B") in _rows(ds)


def test_conflicts_are_worked_out_again(tmp_path: Path) -> None:
    """What others did to the same rows is seen; what they did elsewhere stays."""
    ds = lk.write_dataset(TARGET, tmp_path / "d", max_rows_per_file=2)
    other = lk.dataset(ds.uri)
    other.update({"v": "1000"}, where="id = 2")
    other.insert({"id": [7], "v": [70], "s": ["new"]})
    found = lk.sql(MANY, t=ds, s=SOURCE)
    assert found.attempts == 2
    # the row that came meanwhile is one that the source lacks
    assert _rows(ds) == [
        (2, 1021, "big"), (3, 31, "C"), (5, -50, None), (7, -70, "new"), (8, None, "Y"),
        (9, 182, None),
    ]  # fmt: skip
    assert ds.version == 4


def test_two_merges_that_insert_one_key(tmp_path: Path) -> None:
    ds = lk.write_dataset(TARGET, tmp_path / "d", primary_key="id")
    other = lk.dataset(ds.uri)
    sql = (
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1 "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 0)"
    )
    for handle in (other, ds):
        lk.sql(sql, t=handle, s={"id": [77]})
    assert ds.to_table(filter="id = 77")["v"].to_pylist() == [1]
    assert ds.count_rows() == 6


def test_more_than_keys_in_on(tmp_path: Path) -> None:
    ds = lk.write_dataset(TARGET, tmp_path / "d")
    sql = "MERGE INTO t USING s ON t.id = s.id AND t.v > 10 WHEN MATCHED THEN UPDATE SET v = s.v"
    lk.sql(sql, t=ds, s=SOURCE)
    assert [v for _, v, _ in _rows(ds)] == [10, 21, None, -1, 50]
    twice = {"id": [1, 1, 5], "v": [5, 6, 60]}
    for preview in (False, True):
        with pytest.raises(
            DuplicateKeysError, match=r"same row of the target: id = 1\. "
        ) as caught:
            lk.sql(sql.replace("> 10", "> 5"), preview=preview, t=ds, s=twice)
        assert (caught.value.context["on"], caught.value.context["keys"]) == (("id",), [(1,)])
    lk.sql(sql.replace("t.v > 10", "s.v > 5"), t=ds, s=twice)  # of one key one row counts
    assert [v for _, v, _ in _rows(ds)] == [6, 21, None, -1, 60]


def test_keys_that_are_there_twice(tmp_path: Path) -> None:
    ds = lk.write_dataset(TARGET, tmp_path / "d")
    for sql in (MANY, MANY.replace("MATCHED AND s.v < 0 THEN DELETE", "MATCHED THEN DELETE", 1)):
        with pytest.raises(LancekitError):
            lk.sql(sql, t=ds, s={"id": [6, 6], "v": [1, 2], "s": ["x", "y"]})
    assert ds.version == ds.latest_version == 1


def test_columns_of_any_type(tmp_path: Path) -> None:
    """What an engine sees in another form, or not at all, comes back as it is."""
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.uint64()),
            "u8": pa.array([1, 2, None], pa.uint8()),
            "half": pa.array([1.5, None, 2.5], pa.float16()),
            "vec": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
            "st": [{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}],
            "cat": pa.array(["p", "q", None]).dictionary_encode(),
            "ns": pa.array([1, 2, 3], pa.timestamp("ns")),
            "bin": pa.array([b"\0", None, b"x"]),
        }
    )
    ds = lk.write_dataset(rows, tmp_path / "d")
    lk.sql(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND t.u8 = 1 THEN UPDATE SET "
        "vec = s.vec, half = s.half, st = s.st, cat = s.cat, u8 = t.u8 + 254 "
        "WHEN MATCHED THEN UPDATE SET cat = 'new', vec = NULL, st = NULL "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET bin = X'ff'",
        t=ds,
        s=rows.slice(1, 1).set_column(0, "id", pa.array([1], pa.uint64())).append_column(
            "more", [[1]]
        ),
    )  # fmt: skip
    found = sorted(ds.to_table().to_pylist(), key=lambda row: row["id"])
    assert ds.schema == rows.schema
    before = rows.to_pylist()
    assert found[0] == {**before[0], "vec": None, "half": None, "st": None, "cat": "q", "u8": 255}
    assert found[1:] == [{**row, "bin": b"\xff"} for row in before[1:]]
    with pytest.raises(LancekitError):
        lk.sql(
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET u8 = t.u8 + 300",
            t=ds,
            s=rows.select(["id"]),
        )
    assert ds.version == 2


HOSTILE = ["_rowaddr2", "deleted1", "c0", "r0", 'x"; DROP TABLE t; --', "{t0}", ":p0", "select"]


def test_hostile_names(tmp_path: Path) -> None:
    quoted = ["`" + name + "`" for name in HOSTILE]
    ds = lk.write_dataset({"id": [1, 2], **{name: ["a", "b"] for name in HOSTILE}}, tmp_path / "d")
    other = {"id": [1, 3], **{name: ["n", "m"] for name in HOSTILE}}
    sets = ", ".join(f"{name} = t.{name} || s.{name} || $text" for name in quoted)
    sql = (
        f"MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND t.{quoted[0]} = 'zz' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} WHEN NOT MATCHED THEN INSERT *"
    )
    lk.sql(sql, t=ds, s=other, params={"text": "'; --"})
    found = {row.pop("id"): set(row.values()) for row in ds.to_table().to_pylist()}
    assert found == {1: {"an'; --"}, 2: {"b"}, 3: {"m"}}


REFUSED = {
    "WHEN MATCHED THEN DELETE ^WHEN MATCHED AND s.v > 1 THEN UPDATE SET *": "has no condition",
    "WHEN MATCHED THEN UPDATE SET v = t.v, ^v = 1": "set twice",
    "WHEN MATCHED THEN UPDATE SET ^id = 5": "cannot change the key",
    "WHEN MATCHED THEN UPDATE SET s = ^v": "is ambiguous",
    "WHEN MATCHED THEN UPDATE SET v = ^s.s": "cannot be converted",
    "WHEN NOT MATCHED THEN INSERT (^id, v) VALUES (s.id + 1, 1)": "must be its source key",
    "WHEN NOT MATCHED THEN INSERT (^id, v) VALUES (s.id)": "1 values for 2",
    "WHEN NOT MATCHED THEN INSERT (id, v, ^v) VALUES (s.id, 1, 2)": "named twice",
    "WHEN NOT MATCHED AND ^t.v > 1 THEN INSERT *": "no table or column 't'",
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET ^id = 5": "cannot change the key",
    "WHEN NOT MATCHED BY SOURCE AND ^nosuch > 1 THEN DELETE": "no column",
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET ^*": "must be alone",
    "WHEN MATCHED AND ^EXISTS (SELECT 1 FROM s WHERE s.v = t.v) THEN DELETE": "cannot use the row",
    "WHEN MATCHED AND ^max(s.v) > 1 THEN DELETE": "is an aggregate",
}


@pytest.mark.parametrize("marked", REFUSED)
def test_what_is_refused_has_a_place(tmp_path: Path, marked: str) -> None:
    ds = lk.write_dataset(TARGET, "memory://refused-merges", mode="overwrite")
    before, version = "MERGE INTO t USING s ON t.id = s.id ", ds.version
    with pytest.raises(PredicateError, match=REFUSED[marked]) as caught:
        lk.sql(before + marked.replace("^", ""), t=ds, s=SOURCE)
    assert 0 <= caught.value.context["position"] - len(before) - marked.index("^") <= 20
    assert ds.latest_version == version
