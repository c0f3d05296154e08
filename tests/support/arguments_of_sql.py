"""Checks of the arguments of SQL in a cell."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

import lancekit as lk
from tests.support.argument_checks import ROWS, Keywords, Made, Method, Refused, Value, fresh, place

__all__ = ["SQL"]


def _ran(text: str = "SELECT id FROM t", **arguments: Any) -> Any:
    ds = fresh()
    found = lk.sql(text, **{"t": ds, **arguments})
    return found.to_table() if isinstance(found, lk.SqlResult) else ds.count_rows()


def _all_rows() -> lk.LanceDataset:
    return lk.write_dataset(ROWS, place())


def _registered(name: str = "one", uri: Any = None) -> Any:
    lk.register(name, uri or fresh())
    try:
        return lk.sql("SELECT id FROM one").to_table()
    finally:
        lk.register(name, None)


def _found() -> lk.SqlResult:
    return lk.sql("SELECT id FROM t", t=ROWS)


SQL = {
    "sql": Method(
        _ran,
        {
            "text": Value("SELECT id + 1 AS id FROM t"),
            "params": Value({"n": 5}, {"text": "SELECT id + $n AS id FROM t", "n": 7}),
            "include_mem_wal": Refused(["x"]),
            "preview": Value(True, {"text": "DELETE FROM t WHERE id > 5"}),
            "frames": Keywords("t", ROWS),
        },
    ),
    "register": Method(
        _registered,
        {"name": Value("two"), "uri": Value(Made(_all_rows))},
    ),
    "SqlResult.head": Method(lambda **given: _found().head(**given), {"num_rows": Value(2)}),
    **{
        f"SqlResult.{name}": Method(
            lambda name=name, **given: getattr(_found(), name)(**given),
            {"kwargs": Keywords("types_mapper", {pa.int64(): pd.Int64Dtype()}.get)},
        )
        for name in ("df", "to_pandas")
    },
}
