"""One small life of a dataset on every kind of store."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from tests.support.s3 import S3Server

ROWS = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]})


@pytest.fixture(params=["path", "file", "memory", "s3"])
def place(request, tmp_path, s3: S3Server) -> tuple[str, dict[str, str] | None]:
    return {
        "path": (str(tmp_path / "d"), None),
        "file": ((tmp_path / "with space").as_uri(), None),
        "memory": (f"memory://{tmp_path.name}", None),
        "s3": (f"s3://{s3.bucket}/{tmp_path.name}/d", s3.storage_options),
    }[request.param]


def test_life_of_a_dataset(place) -> None:
    uri, options = place
    ds = lk.write_dataset(ROWS, uri, primary_key="k", storage_options=options)
    lk.write_dataset({"k": [4], "v": ["d"]}, uri, mode="append", storage_options=options)
    ds.checkout_latest()
    ds.delete("k = 2")
    ds.tags.create("t", 1)
    branch = ds.create_branch("x/y", "t")
    lk.write_dataset({"k": [9], "v": ["z"]}, branch, mode="append")
    merge = ds.merge_insert().when_matched_update_all().when_not_matched_insert_all()
    merge.execute({"k": [1, 5], "v": ["A", "e"]})
    clone = ds.shallow_clone(f"{uri}-clone", "t", storage_options=options)

    def keys(version) -> list[int]:
        opened = lk.dataset(uri, version=version, storage_options=options)
        return sorted(opened.to_table()["k"].to_pylist())

    assert keys(None) == [1, 3, 4, 5]
    assert keys("t") == keys(("main", 1)) == [1, 2, 3]
    assert keys(("x/y", None)) == [1, 2, 3, 9]
    assert clone.count_rows() == 3
    if not uri.startswith("memory:"):  # which is begun anew
        with pytest.raises(lk.errors.DatasetExistsError):
            lk.write_dataset(ROWS, uri, storage_options=options)
    ds.tags.create("u", ("x/y", 2))
    with pytest.raises(lk.errors.RefConflictError):
        ds.branches.delete("x/y")
    ds.tags.delete("u")
    ds.branches.delete("x/y")
    assert ds.branches.list() == {}
    assert len(lk.dataset(uri, storage_options=options).versions()) == 4


def test_the_reference_reads_it_from_s3(tmp_path, s3: S3Server) -> None:
    uri, options = f"s3://{s3.bucket}/{tmp_path.name}/d", s3.storage_options
    lk.write_dataset(ROWS, uri, storage_options=options).delete("k = 2")
    theirs = lance.dataset(uri, storage_options=options)
    assert theirs.to_table()["k"].to_pylist() == [1, 3]
    theirs.insert(ROWS)
    assert lk.dataset(uri, storage_options=options).count_rows() == 5


def test_the_hint_is_the_references(tmp_path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    ds.insert(ROWS)
    hint = (tmp_path / "d" / "_versions" / "latest_version_hint.json").read_bytes()
    assert hint == b'{"version":2}'
    ds.insert(ROWS)
    lance.dataset(str(tmp_path / "d")).insert(ROWS)
    assert lk.dataset(tmp_path / "d").version == 4
