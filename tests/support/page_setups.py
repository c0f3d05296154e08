"""What the examples of a page take for granted, as small as it can be.

``before("diff")`` is done before the page's first block, ``before("diff", 1)`` before its second.
Each is given the page's names, among them ``lk``, and the tests' working folder is its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pyarrow as pa

import lancekit as lk
from lancekit._commit.clock import Clock

__all__ = ["SETUPS"]

Names = dict[str, Any]
Setup = Callable[[Names], None]
#: what is to be done before which block of which page
SETUPS: dict[tuple[str, int], Setup] = {}


def before(page: str, block: int = 0) -> Callable[[Setup], Setup]:
    def remember(setup: Setup) -> Setup:
        SETUPS[page, block] = setup
        return setup

    return remember


def flights(month: int, **columns: object) -> pd.DataFrame:
    """Return twelve flights of a month."""
    return pd.DataFrame(
        {
            "flight_id": [100 * month + i for i in range(12)],
            "time_hour": [datetime(2013, month, 1 + i, tzinfo=UTC) for i in range(12)],
            "carrier": ["UA", "B6", "AA"] * 4,
            "flight": range(12),
            "origin": ["JFK", "LGA"] * 6,
            "dep_time": [None, *range(500, 511)],
            "dep_delay": [i * 10.0 for i in range(12)],
            "arr_delay": [i * 9.0 for i in range(12)],
            **columns,
        }
    )


def of_flights(place: str = "flights.lance") -> lk.LanceDataset:
    """Return two months of flights, the first of which is a tag."""
    ds = lk.write_dataset(flights(1), place, primary_key="flight_id")
    ds.insert(flights(2))
    ds.tags.create("jan", 1)
    return ds


@before("index")
def _months(names: Names) -> None:
    names |= {"january": flights(1), "february": flights(2)}
    names["corrections"] = flights(2, arr_delay=0.0)


@before("branches")
def _branchless(_names: Names) -> None:
    _of_prices("prices.lance")


@before("branches", 2)
@before("branches", 8)
def _two_sides(names: Names) -> None:
    ds = _of_prices(f"two-sides-{len(names)}.lance")
    trial = ds.create_branch("experiment")
    for row in range(2, 5):
        trial.update({"price": "2.0"}, where=f"id = {row}")
    for row in range(5, 7):
        ds.update({"price": "3.0"}, where=f"id = {row}")
    names["ds"] = ds


@before("branches", 4)
@before("branches", 7)
def _conflict(names: Names) -> None:
    ds = _of_prices(f"conflict-{len(names)}.lance")
    trial = ds.create_branch("experiment")
    for row in (2, 3, 4, 7):
        trial.update({"price": "2.0"}, where=f"id = {row}")
    ds.update({"price": "3.0", "seen_at": "4"}, where="id = 7")
    assert trial.version == 7
    names["ds"] = ds


def _of_prices(place: str) -> lk.LanceDataset:
    rows = {"id": range(9), "price": [1.0] * 9, "seen_at": [1] * 9}
    ds = lk.write_dataset(rows, place, primary_key="id")
    for row in range(2):
        ds.update({"seen_at": "2"}, where=f"id = {row}")
    return ds


@before("clones")
def _to_be_cloned(names: Names) -> None:
    names["ds"] = of_flights()
    names["ds"].tags.delete("jan")
    names["ds"].delete("flight_id = 101")
    names["ds"].tags.create("jan", 3)


@before("clones", 1)
def _source_that_lost_files(names: Names) -> None:
    (data,) = names["ds"].get_fragments()[0].data_files()
    (deleted,) = Path("flights.lance/_deletions").iterdir()
    for file in (Path("flights.lance/data", data.path), deleted):
        file.unlink()


@before("constraints")
def _late(names: Names) -> None:
    names["ds"] = of_flights()
    names["flights"] = flights(3, dep_delay=[-200.0] * 3 + [0.0] * 9)


@before("constraints", 3)
def _amounts(names: Names) -> None:
    rows = flights(1, day=range(12), debit=[3] * 12, credit=[3] * 12)
    names["ds"] = lk.write_dataset(rows, "amounts.lance")


@before("constraints", 4)
def _load(names: Names) -> None:
    names["flights"] = flights(3, day=0, debit=0, credit=0)


@before("diff")
def _other(names: Names) -> None:
    ds = of_flights()
    for row in range(5):
        ds.update({"dep_delay": "1.0"}, where=f"flight = {row}")
    ds.create_branch("experiment").delete("flight = 1")
    other = lk.write_dataset(flights(1, dep_delay=0.0), "other.lance")
    names |= {"ds": ds, "other_handle": other}


@before("explorer")
def _release(names: Names) -> None:
    ds = lk.write_dataset({"id": range(3)}, "explored.lance")
    for row in range(12):
        ds.insert({"id": [row]})
    ds.tags.create("release-1", 13)
    names["ds"] = ds


@before("filters")
@before("sql")
def _flights(names: Names) -> None:
    names["ds"] = names["flights"] = of_flights()
    names["corrections"] = flights(1, dep_delay=[100.0] * 12)


@before("sql", 2)
def _changes(names: Names) -> None:
    rows = {
        "id": [1, 2, 3, 3],
        "day": [date(2026, 1, 1), date(2026, 1, 2), date(2019, 1, 1), date(2025, 1, 1)],
        "dep_delay": [-1.0, 2.0, 3.0, 4.0],
        "loaded": [1, 1, 1, 2],
        "seen": [1] * 4,
        "stale": [False] * 4,
    }
    names["flights"] = lk.write_dataset(rows, "changed.lance")
    names["changes"] = {
        "id": [1, 2, 9],
        "op": ["delete", "update", "insert"],
        "day": [date(2026, 1, 3)] * 3,
        "dep_delay": [0.0] * 3,
        "loaded": [2] * 3,
    }


@before("history")
def _delays(_names: Names) -> None:
    rows = {"id": range(20), "flight_id": range(20), "dep_delay": [0] * 20, "delay": [5] * 20}
    began = datetime(2013, 1, 1, tzinfo=UTC)
    clock = Clock(now_ns=lambda: int(began.timestamp()) * 10**9)
    with patch("lancekit._commit.put_version.Clock", lambda: clock):
        ds = lk.write_dataset(rows, "flights.lance", enable_stable_row_ids=True, primary_key="id")
    ds.update({"delay": "7"}, where="id = 7")
    ds.insert({"id": [20], "flight_id": [3], "dep_delay": [-300], "delay": [1]})


@before("indices")
def _ids(names: Names) -> None:
    names["ds"] = lk.write_dataset({"id": range(100)}, "ids.lance")
    names["ds"].create_scalar_index("id", "BTREE")


@before("reference/mem-wal-details")
def _events(names: Names) -> None:
    rows = {
        "id": pa.array(range(9), pa.int64()),
        "v": range(9),
        "text": ["late snow"] * 9,
        "embedding": pa.array([[0.0] * 4] * 9, pa.list_(pa.float32(), 4)),
    }
    ds = lk.write_dataset(pa.table(rows), "events.lance", primary_key="id")
    ds.create_scalar_index("text", "INVERTED")
    ds.mem_wal_upsert(pa.table(rows), flush=True)
    (shard,) = ds.mem_wal_shards()
    names |= {"ds": ds, "pa": pa, "query": [1.0] * 4}
    names |= {"shard_id": shard.shard_id, "path": shard.generations[0].path}


@before("merge")
def _prices(names: Names) -> None:
    rows = {"id": [6, 7], "price": [2, 3]}
    names["ds"] = lk.write_dataset(rows, "prices.lance", primary_key="id")
    names["rows"] = {"id": [7, 8], "price": [3, 5]}


@before("merge", 1)
def _new_prices(names: Names) -> None:
    names["rows"] = {"id": [7], "price": [4]}


@before("search")
def _titles(names: Names) -> None:
    vectors = [[float(i), 1.0, 2.0] * 16 for i in range(300)]
    rows = {
        "title": [f"title {i}" for i in range(300)],
        "year": range(1900, 2200),
        "embedding": pa.array(vectors, pa.list_(pa.float32(), 48)),
    }
    names["ds"] = lk.write_dataset(pa.table(rows), "titles.lance")
    names["vector"] = vectors[7]


@before("search", 2)
def _titles_again(names: Names) -> None:
    names["ds"] = lk.dataset("titles.lance")


@before("pictures")
def _seasons(names: Names) -> None:
    names["ds"] = of_flights()
    names["ds"].tags.create("winter", 1)
    names["ds"].tags.create("spring", 1)


@before("pictures", 1)
def _lines(names: Names) -> None:
    """The history that the picture on the page is of (`docs/_pictures.py`), of few rows."""
    Path("lines").mkdir()
    ids = iter(range(9))
    ds = lk.write_dataset(
        {"id": [100, 101], "x": [0, 0]},
        "lines/flights.lance",
        primary_key="id",
        commit_message="January",
    )
    ds.tags.create("winter", 1)
    for _ in range(6):
        ds.insert({"id": [next(ids)], "x": [0]})
    trial = ds.create_branch("no-ferries")
    trial.delete("id = 100")
    trial.update({"x": "1"}, where="id = 101")
    ds.tags.create("spring", ds.version)
    ds.branches.merge("no-ferries")
    ds.insert({"id": [next(ids)], "x": [0]})
    trial.delete("id = 101")
    later = Clock(now_ns=lambda: time.time_ns() + 10**10)  # the newest branch stands first
    with patch("lancekit._api.branches.Clock", lambda: later):
        study = ds.create_branch("study/delays", "spring")
    study.delete("id = 101")
    ds.create_scalar_index("x", "BITMAP")
    for _ in range(2):
        ds.insert({"id": [next(ids)], "x": [0]})
    ds.update({"x": "2"}, where="id = 101")
    ds.insert({"id": [102], "x": [0]})
    names["ds"] = ds


@before("security")
def _by_somebody_else(_names: Names) -> None:
    of_flights("theirs.lance")


@before("spark", 1)
def _to_be_compacted(names: Names) -> None:
    names["ds"] = of_flights()
