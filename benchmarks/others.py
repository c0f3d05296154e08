"""The cases as DuckDB and delta-rs have them: DuckDB in a file with a table of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from benchmarks.cases import Given

__all__ = ["OTHERS"]

Run = Callable[[Any, Given], object]


def _query(sql: str) -> Run:
    """Return what opens the file anew and answers with a table; `source` is what is written."""

    def run(duckdb: Any, given: Given) -> object:
        low, high = given.codes
        positions = ", ".join(map(str, given.positions)) if "{positions}" in sql else ""
        place = Path(given.at) / "table.duckdb"
        place.parent.mkdir(exist_ok=True)
        with duckdb.connect(str(place)) as database:
            if given.source is not None:
                database.register("source", given.source)
            text = sql.format(
                low=low, high=high, middle=given.middle, turn=given.turn, positions=positions
            )
            asked = database.sql(text)
            return None if asked is None else asked.to_arrow_table()

    return run


def _delta_table(deltalake: Any, given: Given) -> Any:
    return deltalake.DeltaTable(given.at)


def _delta_merge(deltalake: Any, given: Given) -> object:
    merge = _delta_table(deltalake, given).merge(
        given.source, "t.id = s.id", source_alias="s", target_alias="t"
    )
    return merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _delta_scan(
    columns: list[str] | None = None, condition: Callable[[Given], Any] = lambda _: None
) -> Run:
    def run(deltalake: Any, given: Given) -> pa.Table:
        dataset = _delta_table(deltalake, given).to_pyarrow_dataset()
        return dataset.to_table(columns, condition(given))

    return run


def _delta_update(deltalake: Any, given: Given) -> object:
    low, high = given.codes
    return _delta_table(deltalake, given).update(
        {"amount": "amount + 1"}, predicate=f"code >= {low} AND code < {high}"
    )


def _delta_delete(deltalake: Any, given: Given) -> object:
    low, high = given.codes
    return _delta_table(deltalake, given).delete(f"code >= {low} AND code < {high}")


def _delta_hundred(deltalake: Any, given: Given) -> None:
    assert given.source is not None
    step = given.rows // 100
    for first in range(0, given.rows, step):
        deltalake.write_deltalake(given.at, given.source.slice(first, step), mode="append")


_ID = pads.field("id")

#: module -> case -> what is done; a case that is not here the library does not have
OTHERS: dict[str, dict[str, Run]] = {
    "duckdb": {
        "create": _query("CREATE TABLE t AS FROM source"),
        "open": _query("SELECT 1 FROM t LIMIT 0"),
        "scan": _query("FROM t"),
        "two columns": _query("SELECT id, amount FROM t"),
        "filter": _query("FROM t WHERE code = 7"),
        "neighbours": _query("FROM t WHERE id >= {middle} AND id < {middle} + 1000"),
        "count": _query("SELECT count(*) FROM t WHERE code = 7"),
        "take": _query("FROM t WHERE rowid IN ({positions})"),
        "append": _query("INSERT INTO t FROM source"),
        "merge": _query(
            "MERGE INTO t USING source AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
        ),
        "update": _query("UPDATE t SET amount = amount + 1 WHERE code >= {low} AND code < {high}"),
        "delete": _query("DELETE FROM t WHERE code >= {low} AND code < {high}"),
        "add column": _query(
            "ALTER TABLE t ADD COLUMN twice_{turn} DOUBLE; UPDATE t SET twice_{turn} = amount * 2"
        ),
    },
    "deltalake": {
        "create": lambda m, g: m.write_deltalake(g.at, g.source),
        "create 100": _delta_hundred,
        "open": _delta_table,
        "list with times": lambda m, g: _delta_table(m, g).history(),
        "scan": _delta_scan(),
        "two columns": _delta_scan(["id", "amount"]),
        "filter": _delta_scan(condition=lambda _: pads.field("code") == 7),
        "neighbours": _delta_scan(
            condition=lambda g: (g.middle <= _ID) & (g.middle + 1000 > _ID),
        ),
        "count": lambda m, g: (
            _delta_table(m, g).to_pyarrow_dataset().count_rows(pads.field("code") == 7)
        ),
        "append": lambda m, g: m.write_deltalake(g.at, g.source, mode="append"),
        "merge": _delta_merge,
        "update": _delta_update,
        "delete": _delta_delete,
        "compact": lambda m, g: _delta_table(m, g).optimize.compact(),
    },
}
