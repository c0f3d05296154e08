"""One dataset, three writers: lancekit, pylance 14 (in-process) and pylance 4.0.0 (a process)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lancekit as lk

Run = Callable[..., Any]

KEY = {"lance-schema:unenforced-primary-key": "true"}


def varied(count: int, seed: int = 0) -> pa.Table:
    """A column of every type that can be written, with nulls."""
    rng = np.random.default_rng(seed)
    mask = rng.random(count) < 0.2

    def with_nulls(values: Any, kind: pa.DataType | None = None) -> pa.Array:
        array = pa.array(values) if kind is None else pa.array(values).cast(kind)
        return pa.array(array.to_pylist(), array.type, mask=mask)

    numbers = rng.integers(0, 100, count)
    times = [datetime(2020, 1, 1, tzinfo=UTC)] * count
    return pa.table(
        {
            "id": pa.array(np.arange(count) + seed * 1000),
            "b": with_nulls(rng.random(count) < 0.5),
            "i8": with_nulls(numbers, pa.int8()),
            "u16": with_nulls(numbers, pa.uint16()),
            "u64": pa.array(rng.integers(0, 2**63, count, dtype=np.uint64)),
            "f16": pa.array(rng.random(count).astype(np.float16)),
            "f32": with_nulls(rng.random(count).astype(np.float32)),
            "f64": pa.array(np.where(mask, np.nan, -rng.random(count))),
            "day": with_nulls([date(2021, 3, int(n) % 28 + 1) for n in numbers]),
            "d64": with_nulls(numbers * 86_400_000, pa.date64()),
            "t32": with_nulls(numbers.astype(np.int32), pa.time32("ms")),
            "t64": with_nulls(numbers, pa.time64("us")),
            "ts": with_nulls(numbers, pa.timestamp("ns")),
            "tz": with_nulls(times, pa.timestamp("us", "UTC")),
            "dur": with_nulls(numbers, pa.duration("s")),
            "dec": with_nulls([Decimal(int(n)) / 4 for n in numbers], pa.decimal128(12, 2)),
            "text": with_nulls([f"text {n}" * (int(n) % 9) for n in numbers]),
            "long": with_nulls(["x" * int(n) * 10 for n in numbers], pa.large_string()),
            "bin": with_nulls([bytes([n % 256]) * int(n) for n in numbers]),
            "fsb": with_nulls([int(n).to_bytes(4, "big") for n in numbers], pa.binary(4)),
            "vec": pa.FixedSizeListArray.from_arrays(
                pa.array(rng.random(count * 8).astype(np.float32)), 8
            ),
        }
    )


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_every_type_both_ways(tmp_path, version: str) -> None:
    first, second = varied(300, 1), varied(50, 2)
    for name, (writer, other) in {"ours": (lk, lance), "theirs": (lance, lk)}.items():
        path = str(tmp_path / name)
        writer.write_dataset(first, path, data_storage_version=version, max_rows_per_file=70)
        other.write_dataset(second, path, mode="append")
        expected = pa.concat_tables([first, second])
        for side in (lk, lance):
            ds = side.dataset(path)
            assert ds.data_storage_version == version
            found = ds.to_table()
            assert found.schema == expected.schema
            assert found.drop(["f64"]).equals(expected.drop(["f64"])), side.__name__
            same = [t["f64"].to_numpy().tobytes() for t in (found, expected)]
            assert same[0] == same[1]
        picked = [7, 349, 0, 70, 69]
        ours, theirs = (s.dataset(path).take(picked).drop(["f64"]) for s in (lk, lance))
        assert ours.equals(theirs)


def _read4(pylance4: Run, path: Path, **where: Any) -> list[dict[str, Any]]:
    program = """
ds = lance.dataset(arguments["path"], version=arguments.get("version"))
if arguments.get("branch"):
    ds = ds.checkout_version((arguments["branch"], None))
result = ds.to_table(columns=["k", "v"]).to_pylist()
"""
    found: list[dict[str, Any]] = pylance4(program, path=str(path), **where)
    return sorted(found, key=lambda row: row["k"])


def _rows(ds: Any) -> list[dict[str, Any]]:
    return sorted(ds.to_table(columns=["k", "v"]).to_pylist(), key=lambda row: row["k"])


def test_old_and_new_releases_take_turns(tmp_path, pylance4: Run) -> None:
    path = tmp_path / "d"
    schema = pa.schema([pa.field("k", pa.int64(), False, KEY), pa.field("v", pa.string())])

    def table(*keys: int, v: str = "x") -> pa.Table:
        return pa.table({"k": list(keys), "v": [v] * len(keys)}, schema=schema)

    write4 = """
key = {"lance-schema:unenforced-primary-key": "true"}
schema = pa.schema([pa.field("k", pa.int64(), False, key), pa.field("v", pa.string())])
rows = pa.table({"k": arguments["k"], "v": arguments["v"]}, schema=schema)
"""
    ds = lk.write_dataset(table(1, 2, 3), path, data_storage_version="2.0")
    pylance4(
        write4 + 'result = lance.write_dataset(rows, arguments["path"], mode="append").version',
        path=str(path), k=[4, 5], v=["old", None],
    )  # fmt: skip
    ds.checkout_latest()
    assert ds.version == 2
    ds.delete("k = 2")
    pylance4('result = lance.dataset(arguments["path"]).delete("k = 4")', path=str(path))
    ds.checkout_latest()
    ds.merge_insert().when_matched_update_all().when_not_matched_insert_all().execute(
        table(1, 6, v="merged")
    )
    counts = pylance4(
        write4 + 'ds = lance.dataset(arguments["path"])\n'
        'builder = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()\n'
        "result = builder.execute(rows)",
        path=str(path), k=[3, 7], v=["m4", "m4"],
    )  # fmt: skip
    assert counts["num_inserted_rows"] == counts["num_updated_rows"] == 1
    lance.dataset(str(path)).insert(table(8, v="new"))
    ds.checkout_latest()
    expected = {1: "merged", 3: "m4", 5: None, 6: "merged", 7: "m4", 8: "new"}
    for found in (_rows(ds), _rows(lance.dataset(str(path))), _read4(pylance4, path)):
        assert {row["k"]: row["v"] for row in found} == expected
    for version in ds.versions().numbers:
        old = _read4(pylance4, path, version=version)
        assert old == _rows(ds.checkout_version(version))
        assert old == _rows(lance.dataset(str(path), version=version))


def test_tags_branches_and_clones_with_the_oldest_release(tmp_path, pylance4: Run) -> None:
    path = tmp_path / "d"
    ds = lk.write_dataset(
        pa.table({"k": [1, 2], "v": ["a", "b"]}), path, data_storage_version="2.0"
    )
    ds.tags.create("ours", 1)
    branch = ds.create_branch("ours/one", "ours")
    lk.write_dataset(pa.table({"k": [3], "v": ["c"]}), branch, mode="append")
    ds.shallow_clone(tmp_path / "clone", "ours")
    known = pylance4(
        """
ds = lance.dataset(arguments["path"])
ds.tags.create("theirs", 1)
branch = ds.create_branch("theirs")
branch.delete("k = 1")
clone = lance.dataset(arguments["clone"])
clone.delete("k = 2")
result = [sorted(ds.tags.list()), sorted(ds.branches.list()), clone.count_rows()]
""",
        path=str(path),
        clone=str(tmp_path / "clone"),
    )
    assert known == [["ours", "theirs"], ["ours/one", "theirs"], 1]
    assert _read4(pylance4, path, branch="ours/one") == _rows(
        ds.checkout_version(("ours/one", None))
    )
    assert _rows(ds.checkout_version(("theirs", None))) == [{"k": 2, "v": "b"}]
    assert lk.dataset(tmp_path / "clone").to_table()["k"].to_pylist() == [1]
    assert set(lk.dataset(path).tags.list()) == {"ours", "theirs"}


def test_a_conflict_with_the_oldest_release(tmp_path, pylance4: Run) -> None:
    """A stale handle of ours meets a key that 4.0.0 inserted; it is there once."""
    path = tmp_path / "d"
    schema = pa.schema([pa.field("k", pa.int64(), False, KEY), pa.field("v", pa.string())])
    stale = lk.write_dataset(
        pa.table({"k": [1], "v": ["a"]}, schema=schema), path, data_storage_version="2.0"
    )
    pylance4(
        """
schema = lance.dataset(arguments["path"]).schema
rows = pa.table({"k": [9], "v": ["theirs"]}, schema=schema)
builder = lance.dataset(arguments["path"]).merge_insert("k")
result = builder.when_matched_update_all().when_not_matched_insert_all().execute(rows)
""",
        path=str(path),
    )
    merge = stale.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    result = merge.execute({"k": [9], "v": ["ours"]})
    assert (dict(result)["num_updated_rows"], result.attempts) == (1, 2)
    assert _read4(pylance4, path) == [{"k": 1, "v": "a"}, {"k": 9, "v": "ours"}]


def test_reading_what_only_the_reference_writes(tmp_path) -> None:
    """Indices, stable row ids, V1 names, added columns, compaction: read, and kept by a write."""
    path = str(tmp_path / "d")
    theirs = lance.write_dataset(
        pa.table({"k": range(100), "v": ["x"] * 100}), path,
        enable_stable_row_ids=True, max_rows_per_file=30, enable_v2_manifest_paths=False,
    )  # fmt: skip
    theirs.delete("k % 10 = 3")
    theirs.add_columns({"w": "k * 2"})
    theirs.update({"v": "'y'"}, where="k > 50")
    theirs.optimize.compact_files()
    theirs.create_scalar_index("k", "BTREE")
    hidden = ["k", "w", "_rowid", "_rowaddr", "_row_created_at_version",
              "_row_last_updated_at_version"]  # fmt: skip
    for version in range(1, theirs.version + 1):
        columns = hidden if version > 2 else ["k", "v", "_rowid"]
        ours, reference = (s.dataset(path, version=version) for s in (lk, lance))
        assert ours.to_table(columns=columns).equals(reference.to_table(columns=columns))
    ours = lk.dataset(path)
    assert (ours.has_index, ours.has_stable_row_ids) == (True, True)
    for write in (lambda: ours.delete("k = 1"), lambda: ours.insert(ours.head(1)), ours.restore):
        write()
        reference = lance.dataset(path)
        assert (ours.version, ours.has_index) == (reference.version, True)
        assert ours.to_table(columns=hidden).equals(reference.to_table(columns=hidden))
        assert reference.to_table(filter="k < 40").equals(ours.to_table(filter="k < 40"))
    inserted = ours.delta(begin_version=0, end_version=1).get_inserted_rows().read_all()
    assert inserted.num_rows > 0
    clone = ours.shallow_clone(tmp_path / "clone", ours.version)
    reference = lance.dataset(str(tmp_path / "clone"))
    assert reference.to_table(filter="k = 42").num_rows == 1
    assert clone.to_table().equals(reference.to_table())


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"id": [5, 6], "name": ["e", None], "x": [1.0, None]}),
    "polars": lambda: pl.DataFrame({"id": [5, 6], "name": ["e", None], "x": [1.0, None]}),
    "dict": lambda: {"id": [5, 6], "name": ["e", None], "x": [1.0, None]},
    "rows": lambda: [{"id": 5, "name": "e", "x": 1.0}, {"id": 6, "name": None, "x": None}],
    "batches": lambda: iter(
        pa.table({"id": [5, 6], "name": ["e", None], "x": [1.0, None]}).to_batches()
    ),
    "int32": lambda: pa.table(
        {"x": [1.0, None], "id": pa.array([5, 6], pa.int32()), "name": pa.array(["e", None])}
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_every_kind_fit_a_dataset(tmp_path, kind: str) -> None:
    start = pa.table({"id": [1], "name": ["a"], "x": [0.5]})
    merged = [{"id": 1, "name": "a", "x": 0.5}, {"id": 5, "name": "e", "x": 1.0},
              {"id": 6, "name": None, "x": None}]  # fmt: skip
    ds = lk.write_dataset(start, tmp_path / "d")
    lk.write_dataset(FRAMES[kind](), ds, mode="append")
    assert lance.dataset(str(tmp_path / "d")).to_table().to_pylist() == merged
    ds = lk.write_dataset(start, tmp_path / "m", primary_key="id")
    counts = ds.merge_insert().when_not_matched_insert_all().execute(FRAMES[kind]())
    assert dict(counts)["num_inserted_rows"] == 2
    assert lance.dataset(str(tmp_path / "m")).to_table().to_pylist() == merged
