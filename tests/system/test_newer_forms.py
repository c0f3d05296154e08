"""What other features do to tables in the forms that pylance 14 alone writes (docs/interplay.md).

Blobs of both versions, row lineage in columns of data files, and managed blobs: each story is told
of all three.  Their own tests are beside this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import ConstraintViolationError, UnsupportedTypeError
from tests.support.interplay import IDS, KEY, NOW

COUNT = 40
BLOB = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
ID = pa.field("id", pa.int64(), False, KEY)
LARGE = b"x" * 70_000


def rows(ids: range, blob: pa.Field | None) -> pa.Table:
    fields, columns = [ID, pa.field("v", pa.int64())], [list(ids), [0] * len(ids)]
    table = pa.table(columns, schema=pa.schema(fields))
    if blob is None:
        return table
    data = [None if i % 5 == 0 else LARGE if i % 5 == 1 else b"%d" % i for i in ids]
    values = pa.array(data, pa.large_binary()) if blob is BLOB else lk.blob_array(data)
    return table.append_column(blob, values)


def mixed_blobs(uri: str) -> None:
    half = COUNT // 2
    first = rows(range(half), BLOB)
    lance.write_dataset(first, uri, data_storage_version="2.1", enable_stable_row_ids=True)
    second = rows(range(half, COUNT), BLOB)
    lance.write_dataset(second, uri, mode="append", data_storage_version="2.2")


def lineage_columns(uri: str) -> None:
    ds = lance.write_dataset(rows(range(COUNT), None), uri, enable_stable_row_ids=True)
    spill = {"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1"}
    ds.update_config(spill)
    ds.update({"v": "0"}, where="id % 3 > 0")


def managed_blobs(uri: str) -> None:
    table = rows(range(COUNT), lk.blob_field("b"))
    table = table.replace_schema_metadata({"lance.blob.managed": "true"})
    lance.write_dataset(table, uri, data_storage_version="2.2", enable_stable_row_ids=True)


FLAGS = {mixed_blobs: 256, lineage_columns: 2048, managed_blobs: 16384}


@pytest.fixture(params=FLAGS, ids=lambda form: form.__name__)
def table(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    uri = str(tmp_path / "t")
    request.param(uri)
    manifest = lk.dataset(uri)._snapshot.manifest
    assert manifest.reader_flags & manifest.writer_flags & FLAGS[request.param]
    return uri


def read(uri: str, at: Any = None) -> list[dict[str, Any]]:
    """Read everything by both libraries; return the rows by id."""
    found = []
    for module in (lance, lk):
        ds: Any = module.dataset(uri)
        ds = ds if at is None else ds.checkout_version(at)
        columns = [*ds.schema.names, *IDS]
        shown = ds.to_table(columns=columns, blob_handling="all_binary")
        found.append(sorted(shown.to_pylist(), key=lambda row: row["id"]))
    assert found[1] == found[0]
    return found[1]


def test_a_tag_holds_what_a_cleanup_would_take(table: str) -> None:
    ds = lk.dataset(table)
    before, version = read(table), ds.version
    ds.tags.create("kept", version)
    ds.update({"v": "1"})
    ds.optimize.compact_files()
    lance.dataset(table).optimize.compact_files()
    ds = lk.dataset(table)
    ds.cleanup_old_versions(
        older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=False
    )
    assert read(table, "kept") == before
    ds.checkout_version("kept").restore()
    assert read(table) == before


def test_indices_are_asked_and_kept_up(table: str) -> None:
    ds = lk.dataset(table)
    ds.create_scalar_index("id", "BTREE")
    ds.update({"v": "1"}, where="id % 4 = 1")
    ds.delete("id = 6")
    ds.optimize.optimize_indices()
    ds.optimize.compact_files()
    for condition in ("id = 5", "id IN (6, 7, 21)", "id > 35"):
        found = [
            sorted(module.dataset(table).to_table(["id"], filter=condition)["id"].to_pylist())
            for module in (lance, lk)
        ]
        assert found[0] == found[1]
    assert [row["v"] for row in read(table)][:6] == [0, 1, 0, 0, 0, 1]


def test_keys_constraints_and_concurrent_writers(table: str) -> None:
    first, second = lk.dataset(table), lk.dataset(table)
    first.constraints.add("small", "v < 9")
    with pytest.raises(ConstraintViolationError):
        lk.dataset(table).update({"v": "10"}, where="id = 1")
    second.delete("id = 3")  # beside what landed since
    first.update({"v": "1"}, where="id = 4")
    merge = second.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.table({"id": [5, 100], "v": [2, 2]}))
    found = {row["id"]: row["v"] for row in read(table)}
    assert found == {i: 0 for i in range(COUNT) if i != 3} | {4: 1, 5: 2, 100: 2}


def test_histories_diffs_and_the_cache(table: str) -> None:
    ds = lk.dataset(table)
    start = ds.version
    ds.update({"v": "v + 1"}, where="id IN (2, 20)")
    ds.update({"v": "v + 1"}, where="id = 20")
    assert ds.diff(start).counts.updated == 2
    changes = [one.cells for one in ds.row_history({"id": 20}) if one.version > start]
    assert changes == [{"v": (0, 1)}, {"v": (1, 2)}]
    kept = read(table)
    with lk.options(cache_bytes=0):
        assert read(table) == kept
    ds.revert(ds.version)
    assert [row["v"] for row in read(table) if row["v"]] == [1, 1]


def test_sql_and_columns(table: str) -> None:
    ds = lk.dataset(table)
    lk.sql("UPDATE t SET v = 7 WHERE id < 2", t=ds)
    lk.sql("ALTER TABLE t ADD COLUMN w INT", t=ds)
    ds.checkout_latest()
    ds.merge(pa.table({"id": [0, 1], "x": ["a", "b"]}), "id")
    lk.sql("OPTIMIZE t", t=ds)
    found = read(table)
    assert [(row["v"], row["w"], row["x"]) for row in found[:3]] == [
        (7, None, "a"),
        (7, None, "b"),
        (0, None, None),
    ]


def test_logs(table: str, request: pytest.FixtureRequest) -> None:
    ds = lk.dataset(table)
    if "b" in ds.schema.names:
        with pytest.raises(UnsupportedTypeError, match="Blob column"):
            ds.initialize_mem_wal(unsharded=True)
        return
    ds.initialize_mem_wal(unsharded=True)
    ds.mem_wal_upsert({"id": [1, 200], "v": [5, 5]}, flush=True)
    ds.merge_mem_wal()
    found = {row["id"]: row["v"] for row in read(table)}
    assert found == dict.fromkeys(range(COUNT), 0) | {1: 5, 200: 5}


def test_base_paths(tmp_path: Path, table: str) -> None:
    (tmp_path / "base").mkdir()
    ds = lk.dataset(table)
    ds.add_bases([lk.DatasetBasePath(str(tmp_path / "base"), "base")])
    ds = lk.dataset(table)
    more = rows(range(100, 110), lk.blob_field("b") if "b" in ds.schema.names else None)
    lk.write_dataset(more, table, mode="append", target_bases=["base"])
    lance.dataset(table).delete("id = 101")
    assert [row["id"] for row in read(table)][-9:] == [100, *range(102, 110)]
    ds = lk.dataset(table)
    ds.deepen()
    assert len(read(table)) == COUNT + 9
