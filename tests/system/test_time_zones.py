"""A time without a zone has one meaning on each path, whatever the machine's zone is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.patience import HANG_SECONDS

_SCRIPT = """
import datetime as dt, json
import pandas as pd, polars as pl, pyarrow as pa
import lancekit as lk
from lancekit.errors import SchemaMismatchError

noon, naive = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC), dt.datetime(2026, 7, 1, 12)
zoned = pa.timestamp("us", "America/New_York")
rows = pa.table({"ny": pa.array([noon], zoned), "n": pa.array([naive], pa.timestamp("us"))})
found = {}
values = {
    "constant": naive, "lit": lk.lit(naive), "pandas": pd.Timestamp(naive), "n": lk.col("n"),
    "text": "timestamp '2026-07-01 12:00:00'", "date": dt.date(2026, 7, 1), "zoned": noon,
}
for name, value in values.items():
    ds = lk.write_dataset(rows, f"memory://zone-{name}")
    ds.update({"ny": value})
    found[name] = ds.to_table()["ny"][0].as_py().astimezone(dt.UTC).isoformat()
ds = lk.write_dataset(rows, "memory://zone-filters")
filters = {
    "text": "ny = timestamp '2026-07-01 08:00:00'", "col": lk.col("ny") == naive.replace(hour=8),
    "instant": lk.col("ny") == noon, "Z": "ny = timestamp '2026-07-01T12:00:00Z'",
    "column": "ny < n", "pandas": lk.col("ny") == pd.Timestamp(naive.replace(hour=8)),
}
found |= {f"filter {name}": ds.count_rows(one) for name, one in filters.items()}
columns = {"ny": [naive], "n": [naive]}
sources = {"dict": columns, "dicts": [{"ny": naive, "n": naive}], "arrow": pa.table(columns)}
sources |= {"pandas": pd.DataFrame(columns), "polars": pl.DataFrame(columns)}
for name, made in sources.items():
    for call in (ds.insert, lambda r: ds.merge_insert("n").when_matched_update_all().execute(r)):
        try:
            call(made)
        except SchemaMismatchError as error:
            found[f"rows {name}"] = "refused"
ds.alter_columns({"path": "n", "data_type": zoned})
found["alter"] = ds.to_table()["n"][0].as_py().astimezone(dt.UTC).isoformat()
now = ds.versions()[-1]["timestamp"]
found["asof"] = [lk.dataset(ds.uri, asof=now).version == ds.version, now.tzinfo is None]
print(json.dumps(found))
"""


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_time_without_a_zone_is_local_time_of_the_columns_zone(zone: str) -> None:
    """In New York it is four hours earlier.  Rows without a zone are refused instead."""
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={"TZ": zone, "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
        timeout=HANG_SECONDS,
    )
    found = json.loads(ran.stdout)
    local = dict.fromkeys(("constant", "lit", "pandas", "n", "text"), "2026-07-01T16:00:00+00:00")
    assert found == {
        **local,
        "date": "2026-07-01T04:00:00+00:00",
        "zoned": "2026-07-01T12:00:00+00:00",
        **{f"filter {name}": 1 for name in ("text", "col", "instant", "Z", "column", "pandas")},
        **{f"rows {name}": "refused" for name in ("dict", "pandas", "dicts", "polars", "arrow")},
        "alter": "2026-07-01T16:00:00+00:00",
        "asof": [True, True],
    }
