"""Clones that copy all files: between stores, from clones and branches, in both directions."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._operations.maintenance import copies
from tests.support.faults import Faults, injected
from tests.support.s3 import S3Server

ROWS = pa.table({"k": pa.array(range(100), pa.int64()), "s": ["a", None, "c", "d"] * 25})


def table_of(handle) -> list[dict]:
    return sorted(handle.to_table().to_pylist(), key=repr)


def rich(path: Path) -> lance.LanceDataset:
    """Make a dataset with several fragments, deletions, indices, a tag, and a branch of it."""
    vectors = pa.FixedSizeListArray.from_arrays(
        np.random.default_rng(1).random(300 * 8, np.float32), 8
    )
    table = pa.table({"k": range(300), "s": [f"word{n % 9}" for n in range(300)], "x": vectors})
    options = {"max_rows_per_file": 120, "enable_stable_row_ids": True}
    ds = lance.write_dataset(table, str(path), **options)
    ds.create_scalar_index("k", "BTREE")
    ds.create_scalar_index("s", "INVERTED")
    ds.create_index("x", "IVF_PQ", num_partitions=1, num_sub_vectors=2)
    ds.delete("k % 50 = 3")
    ds.update_config({"a": "b"})
    ds.tags.create("t", ds.version)
    branch = ds.create_branch("br")
    lance.write_dataset(table.slice(0, 10), branch, mode="append")
    return ds


def nearest(ds: lance.LanceDataset) -> list[int]:
    search = {"column": "x", "q": np.full(8, 0.5, np.float32), "k": 5}
    return ds.to_table(nearest=search, columns=["k"])["k"].to_pylist()


@pytest.mark.parametrize("reference", [2, "t", ("br", None)])
def test_a_clone_stands_alone(tmp_path, reference) -> None:
    theirs = rich(tmp_path / "d")
    source = theirs.checkout_version(reference)
    wanted, version = table_of(source), source.version
    indices = sorted(index.name for index in source.describe_indices())
    near = nearest(source) if reference != 2 else None
    ours = lk.dataset(tmp_path / "d").deep_clone(tmp_path / "c", reference)
    theirs.deep_clone(str(tmp_path / "e"), reference)
    shutil.rmtree(tmp_path / "d")

    assert (ours.version, table_of(ours)) == (version, wanted)
    opened = lance.dataset(str(tmp_path / "c"))
    assert (opened.version, table_of(opened)) == (version, wanted)
    assert sorted(index.name for index in opened.describe_indices()) == indices
    if near is not None:
        assert nearest(opened) == near
        assert opened.to_table(full_text_query="word4").num_rows > 0
    assert opened.to_table(filter="k = 7").num_rows == source_rows(wanted, 7)
    mine, other = ours.read_transaction(version), lk.dataset(tmp_path / "e")
    assert replace(mine.operation, ref_name=None) == replace(
        other.read_transaction(version).operation, ref_name=None
    )
    manifest, reference_manifest = ours._snapshot.manifest, other._snapshot.manifest
    assert manifest.base_paths == reference_manifest.base_paths == ()
    for name in ("branch", "config", "next_row_id", "max_fragment_id", "storage_version"):
        assert getattr(manifest, name) == getattr(reference_manifest, name)
    # both go on with either
    for path in ("c", "e"):
        lance.dataset(str(tmp_path / path)).delete("k < 20")
        lk.dataset(tmp_path / path).delete("k < 30")
        ds = lk.dataset(tmp_path / path)
        ds.validate(deep=True)
        assert table_of(ds) == [row for row in wanted if row["k"] >= 30]


def source_rows(rows: list[dict], key: int) -> int:
    return sum(row["k"] == key for row in rows)


def test_a_clone_of_a_clone_leaves_its_bases(tmp_path) -> None:
    lk.write_dataset(ROWS, tmp_path / "a").delete("k < 5")
    first = lance.dataset(str(tmp_path / "a")).shallow_clone(str(tmp_path / "b"), 2)
    first.delete("k > 90")
    first = lance.write_dataset(ROWS, first, mode="append")
    second = lk.dataset(tmp_path / "b").deep_clone(tmp_path / "c", 4)
    wanted = table_of(first)
    shutil.rmtree(tmp_path / "a")
    shutil.rmtree(tmp_path / "b")
    assert table_of(second) == table_of(lance.dataset(str(tmp_path / "c"))) == wanted
    third = lance.dataset(str(tmp_path / "c")).deep_clone(str(tmp_path / "d"), 4)
    assert table_of(lk.dataset(tmp_path / "d")) == table_of(third) == wanted


def test_blobs_beside_their_files_come_along(tmp_path) -> None:
    blobs = [b"small", None, b"p" * 100_000, b"d" * 5_000_000]
    table = pa.table(
        [pa.array(range(4)), lk.blob_array(blobs)],
        pa.schema([pa.field("k", pa.int64()), lk.blob_field("b")]),
    )
    theirs = lance.write_dataset(table, str(tmp_path / "d"), data_storage_version="2.2")
    assert list((tmp_path / "d/data").glob("*/*.blob"))
    ours = lk.dataset(tmp_path / "d").deep_clone(tmp_path / "c", 1)
    wanted = theirs.read_blobs("b", indices=range(4))
    shutil.rmtree(tmp_path / "d")
    opened = lance.dataset(str(tmp_path / "c"))
    assert ours.read_blobs("b", indices=range(4)) == wanted
    assert opened.read_blobs("b", indices=range(4)) == wanted


def test_from_store_to_store(tmp_path, s3: S3Server) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    ds.delete("k < 5")
    remote, options = f"s3://{s3.bucket}/{tmp_path.name}/c", s3.storage_options
    on_s3 = ds.deep_clone(remote, 2, storage_options=options)
    in_memory = on_s3.deep_clone(f"memory://{tmp_path.name}", 2)
    back = in_memory.deep_clone(tmp_path / "e", 2)
    theirs = lance.dataset(remote, storage_options=options)
    wanted = table_of(ds)
    for found in (on_s3, in_memory, back, theirs, lance.dataset(str(tmp_path / "e"))):
        assert table_of(found) == wanted


def test_files_are_copied_in_parts(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(copies, "COPY_BYTES", 100)
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    faults = Faults()
    with injected(faults):
        clone = lk.dataset(tmp_path / "d").deep_clone(tmp_path / "c", 1)
    (file,) = (tmp_path / "c/data").iterdir()
    (old,) = (tmp_path / "d/data").iterdir()
    assert file.read_bytes() == old.read_bytes()
    parts = [call for call in faults.calls if call.kind == "sink.write"]
    assert len(parts) == -(-file.stat().st_size // 100) > 5
    assert table_of(clone) == table_of(ds)


def test_a_clone_that_fails_leaves_nothing(tmp_path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    lk.write_dataset(ROWS, ds, mode="append")
    ds.checkout_latest()
    (file, _) = (tmp_path / "d/data").iterdir()
    file.unlink()
    with pytest.raises(errors.CorruptFileError, match="does not exist"):
        ds.deep_clone(tmp_path / "c", 2)
    assert not [path for path in tmp_path.glob("c/**/*") if path.is_file()]
    with pytest.raises(errors.DatasetNotFoundError):
        lk.dataset(tmp_path / "c")


def test_an_index_without_its_files_is_no_source(tmp_path) -> None:
    ds = lance.write_dataset(ROWS, str(tmp_path / "d"))
    ds.create_scalar_index("k", "BTREE")
    next((tmp_path / "d/_indices").glob("*/page_data.lance")).unlink()
    with pytest.raises(errors.CorruptFileError, match="page_data"):
        lk.dataset(tmp_path / "d").deep_clone(tmp_path / "c", 2)


def test_what_is_refused(tmp_path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    with pytest.raises(errors.DatasetExistsError):
        ds.deep_clone(tmp_path / "d", 1)
    with pytest.raises(errors.VersionNotFoundError):
        ds.deep_clone(tmp_path / "c", 9)
    with pytest.raises(errors.TagNotFoundError):
        ds.deep_clone(tmp_path / "c", "zz")
    with pytest.raises(errors.InvalidTypeError, match="no argument 'x'"):
        ds.deep_clone(tmp_path / "c", 1, x=2)
    assert not (tmp_path / "c").exists()


def test_a_deep_clone_by_hand_copies_too(tmp_path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    operation = lk.LanceOperation.Clone(False, None, 1, ds.uri)
    clone = lk.LanceDataset.commit(str(tmp_path / "c"), operation, read_version=1)
    shutil.rmtree(tmp_path / "d")
    assert table_of(clone) == table_of(lance.dataset(str(tmp_path / "c")))
