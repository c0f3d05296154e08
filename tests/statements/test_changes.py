"""UPDATE and DELETE with CASE and with queries of the row: as DuckDB does, here and on Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import EngineError, LancekitError, PredicateError
from tests.support.changes_of_sql import delete_text, run_both, update_text

ROWS = {"id": [1, 2, 3, 4], "k": [1, 1, 2, None], "x": [1.5, float("nan"), None, 2.0]}
ROWS |= {"s": ["a", "b", None, "d"]}


@pytest.mark.sample(15)
@pytest.mark.parametrize("seed", range(300))
def test_as_duckdb_does(tmp_path: Path, seed: int) -> None:
    sql = (update_text if seed % 3 else delete_text)(seed)
    found, wanted = run_both(tmp_path / "d", sql, seed)
    assert found == wanted


@pytest.mark.spark
@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(60))
def test_as_duckdb_does_on_spark(spark: object, tmp_path: Path, seed: int) -> None:
    sql = (update_text if seed % 3 else delete_text)(seed)
    with lk.options(engine="spark"):
        found, wanted = run_both(tmp_path / "d", sql, seed)
    assert found == wanted


def _column(ds: lk.LanceDataset, name: str) -> list[object]:
    return ds.to_table().sort_by("id")[name].to_pylist()


def test_case_chooses_before_it_computes(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d", enable_stable_row_ids=True)
    ids = _column(ds, "id"), ds.to_table(["id", "_rowid"]).sort_by("id")["_rowid"].to_pylist()
    sql = "UPDATE t SET k = CASE WHEN id < 3 THEN id * 4611686018427387904 ELSE 7 END"
    with pytest.raises(EngineError, match="cannot be computed"):
        lk.sql(sql, t=ds)
    found = lk.sql(sql.replace("id < 3", "id < 2"), t=ds)
    assert (found.num_rows_updated, found.columns, found.version) == (4, ("k",), 2)
    assert _column(ds, "k") == [1 << 62, 7, 7, 7]
    assert ds.to_table(["id", "_rowid"]).sort_by("id")["_rowid"].to_pylist() == ids[1]


def test_values_meet_their_columns(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    lk.sql("UPDATE t SET x = CASE WHEN id > 1 THEN id ELSE NULL END", t=ds)
    assert _column(ds, "x") == [None, 2.0, 3.0, 4.0]
    lk.sql("UPDATE t SET k = CASE k WHEN 1 THEN k + 1 END, s = CASE WHEN k = 1 THEN s END", t=ds)
    assert _column(ds, "k") == [2, 2, None, None]  # all see the row as it was
    assert _column(ds, "s") == ["a", "b", None, None]
    lk.sql("UPDATE t SET x = CASE WHEN id < 9 THEN NULL END", t=ds)
    assert _column(ds, "x") == [None] * 4


def test_one_row_of_each_value_stays(tmp_path: Path) -> None:
    """A query over the table itself sees it as it was, also if the change is made anew."""
    ds = lk.write_dataset(ROWS, tmp_path / "d", max_rows_per_file=2)
    other = lk.dataset(ds.uri)
    sql = "DELETE FROM t WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.k = t.k AND o.id < t.id)"
    other.update({"k": "1"}, where="id = 2")
    other.delete("id = 1")
    found = lk.sql(sql, t=ds)
    assert (found.num_deleted_rows, found.attempts) == (0, 2)
    assert _column(ds, "id") == [2, 3, 4]
    other.checkout_latest()
    other.update({"k": "2"}, where="id = 4")
    assert lk.sql(sql, t=other).num_deleted_rows == 1
    assert _column(other, "id") == [2, 3]


def test_a_preview_changes_nothing(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d", primary_key="id")
    plan = lk.sql("UPDATE t SET s = CASE WHEN id = 1 THEN 'z' ELSE s END", t=ds, preview=True)
    assert (plan.num_updated_rows, [(c.key, c.new) for c in plan.changes]) == (4, [((1,), "z")])
    plan = lk.sql(
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM t b WHERE b.k > t.k)", t=ds, preview=True
    )
    assert (plan.num_deleted_rows, plan.deleted["id"].to_pylist()) == (2, [1, 2])
    assert ds.latest_version == 1
    assert plan.apply().version == 2
    assert _column(ds, "id") == [3, 4]


def test_rows_of_a_branch_and_of_a_pinned_handle(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    ds.create_branch("try")
    lk.sql("UPDATE t@try SET id = CASE WHEN k = 1 THEN id + 10 ELSE id END", t=ds)
    assert _column(ds, "id") == [1, 2, 3, 4]
    assert _column(ds.checkout_version(("try", None)), "id") == [3, 4, 11, 12]
    with pytest.raises(LancekitError, match="pinned"):
        lk.sql("UPDATE t SET id = CASE WHEN k = 1 THEN 0 END", t=ds.at(1))


REFUSED = {
    "DELETE FROM t WHERE EXISTS (SELECT ^max(k) FROM s WHERE s.id = t.id GROUP BY k)": "plain",
    "DELETE FROM t WHERE ^k IN (SELECT k FROM s WHERE s.id = t.id) OR id = 1": "beside OR",
    "DELETE FROM t WHERE NOT (id = 1 AND ^k IN (SELECT k FROM s WHERE s.id = t.id))": "beside OR",
    "DELETE FROM t WHERE (^k IN (SELECT k FROM s WHERE s.id = t.id)) IS NULL": "within a value",
    "DELETE FROM t WHERE EXISTS (SELECT ^1 FROM s WHERE id IN (SELECT 2 FROM s b WHERE k = t.k))": (
        "outside of its WHERE"
    ),
    "UPDATE t SET k = CASE WHEN EXISTS (SELECT ^1 FROM s WHERE s.id = t.id) THEN 1 END": (
        "within a value"
    ),
    "UPDATE t SET k = ^(SELECT k FROM s WHERE s.id = t.id)": "may find several",
    "UPDATE t SET k = ^(SELECT max(k) FROM s WHERE s.id > t.id)": "needs equality",
    "UPDATE t SET ^s = CASE WHEN id = 1 THEN 2 END": "cannot be converted",
    "UPDATE t SET k = ^sum(k)": "is an aggregate",
    "DELETE FROM t WHERE ^row_number() OVER (ORDER BY id) > 1": "OVER is only supported",
}


@pytest.mark.parametrize("marked", REFUSED)
def test_what_is_refused_has_a_place(marked: str) -> None:
    ds = lk.write_dataset(ROWS, "memory://refused-changes", mode="overwrite")
    sql, version = marked.replace("^", ""), ds.version
    with pytest.raises(PredicateError, match=REFUSED[marked]) as caught:
        lk.sql(sql, t=ds, **({"s": ROWS} if "FROM s" in sql else {}))
    assert abs(caught.value.context["position"] - marked.index("^")) <= 25
    assert ds.latest_version == version


_JSON = pa.json_()


def _documents(texts: list[str | None]) -> pa.Table:
    values = pa.ExtensionArray.from_storage(_JSON, pa.array(texts, pa.string()))
    nested = pa.StructArray.from_arrays([values], ["j"])
    return pa.table({"id": range(1, len(texts) + 1), "j": values, "s": nested})


_TEXTS = ['{"a":1}', None, "[1,2]"]


@pytest.mark.parametrize("of", ["dataset", "table"])
def test_json_is_text_of_datasets_and_tables(tmp_path: Path, of: str) -> None:
    ds = lk.write_dataset(_documents(_TEXTS), tmp_path / "d")
    given = ds if of == "dataset" else _documents(_TEXTS)
    found = lk.sql("SELECT id, j, s, length(j) AS n FROM t WHERE j <> '5' ORDER BY id", t=given)
    rows = found.to_table()
    assert rows.schema.types == [pa.int64(), pa.string(), pa.struct({"j": pa.string()}), pa.int64()]
    assert rows.to_pylist() == [
        {"id": 1, "j": '{"a":1}', "s": {"j": '{"a":1}'}, "n": 7},
        {"id": 3, "j": "[1,2]", "s": {"j": "[1,2]"}, "n": 5},
    ]
    into = lk.write_dataset(_documents(["7"]), tmp_path / "into")
    lk.sql("INSERT INTO x SELECT id + 1, j, s FROM t WHERE s.j LIKE '%a%'", x=into, t=given)
    lk.sql("INSERT INTO x (id, j) VALUES (3, '[]')", x=into)
    merge = (
        "MERGE INTO x USING t ON x.id = t.id AND t.j = '[1,2]' WHEN MATCHED THEN UPDATE SET j = t.j"
    )
    lk.sql(merge, x=into, t=given)
    assert into.schema.field("j").type == _JSON
    known = {row["id"]: row["j"] for row in into.to_table().to_pylist()}
    assert known == {1: "7", 2: '{"a":1}', 3: "[1,2]"}


def test_conditions_of_changes_see_json_as_text(tmp_path: Path) -> None:
    ds = lk.write_dataset(_documents(_TEXTS), tmp_path / "d")
    lk.sql("DELETE FROM t WHERE j = '[1,2]'", t=ds)
    lk.sql("UPDATE t SET id = length(j) WHERE length(j) > 5", t=ds)
    when = "WHEN MATCHED AND t.j > 'A' THEN UPDATE SET j = u.j"
    lk.sql(f"MERGE INTO t USING u ON t.id = u.id {when}", t=ds, u={"id": [7], "j": ["[9]"]})
    assert {row["id"]: row["j"] for row in ds.to_table().to_pylist()} == {2: None, 7: "[9]"}


def _round_of_integers(place: Path) -> None:
    rows = pa.table({"i": [1449, 1450, -1450, 49, None, 2**62], "s": pa.array(range(4, 10))})
    ds = lk.write_dataset(rows, place)
    rounded = [1400, 1500, -1500, 0, None, (2**62 + 50) // 100 * 100]
    found = lk.sql("SELECT round(i, -2) AS r, round(i, 2) AS i FROM t", t=ds).to_table()
    assert found.to_pydict() == {"r": rounded, "i": rows["i"].to_pylist()}
    assert lk.sql("SELECT i FROM t WHERE round(i, -2) = 1400", t=ds).to_table().num_rows == 1
    lk.sql("UPDATE t SET i = round(i, -2), s = round(s, -1) WHERE i <> 0 OR i IS NULL", t=ds)
    assert ds.to_table().sort_by("s")["i"].null_count == 1
    assert sorted(map(str, ds.to_table()["i"].to_pylist())) == sorted(map(str, rounded))
    assert sorted(ds.to_table()["s"].to_pylist()) == [0, 10, 10, 10, 10, 10]


def test_integers_round_to_tens_and_hundreds(tmp_path: Path) -> None:
    _round_of_integers(tmp_path / "t")


@pytest.mark.spark
def test_integers_round_to_tens_and_hundreds_on_spark(spark: object, tmp_path: Path) -> None:
    with lk.options(engine="spark"):
        _round_of_integers(tmp_path / "t")
