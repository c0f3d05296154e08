"""Exports: rows in Parquet and CSV files, which appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._api import exports
from lancekit._operations import export
from lancekit.errors import (
    DatasetExistsError,
    InvalidArgumentError,
    LancekitError,
    StorageError,
    UnsupportedTypeError,
)
from tests.support.arrow_columns import columns


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    rows = {"x": range(10), "s": ["a", "", None, 'q"', "l\nm"] * 2}
    made = lk.write_dataset(rows, tmp_path / "in.lance", max_rows_per_file=4)
    made.delete("x = 3")
    return made


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != "in.lance")


def test_one_file(ds: lk.LanceDataset, tmp_path: Path) -> None:
    found = ds.export(tmp_path / "x.parquet")
    assert pq.read_table(found).equals(ds.to_table())
    assert (found.num_rows, found.num_files) == (9, 1)
    assert found.num_bytes == found.path.stat().st_size
    assert "x.parquet" in repr(found)
    ds.export(str(tmp_path / "x.CSV"), columns={"y": "x + 1", "s": "s"}, filter="x < 5")
    options = pc.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    many = pc.ParseOptions(newlines_in_values=True)
    back = pc.read_csv(tmp_path / "x.CSV", convert_options=options, parse_options=many)
    assert back.to_pydict() == {"y": [1, 2, 3, 5], "s": ["a", "", None, "l\nm"]}
    assert left(tmp_path) == ["x.CSV", "x.parquet"]


def test_a_folder(ds: lk.LanceDataset, tmp_path: Path) -> None:
    found = ds.export(f"{tmp_path}/parts/", max_rows_per_file=4)
    assert (found.num_rows, found.num_files) == (9, 3)
    assert [pq.read_metadata(p).num_rows for p in sorted(found.path.iterdir())] == [4, 4, 1]
    assert lk.read_parquet(found).to_table().equals(ds.to_table())
    assert ds.export(tmp_path / "none", filter="x > 99").num_files == 1
    assert lk.read_parquet(tmp_path / "none").to_table().schema == ds.schema


def test_files_that_exist(ds: lk.LanceDataset, tmp_path: Path) -> None:
    ds.export(tmp_path / "x.csv", columns=["x"])
    ds.export(tmp_path / "parts")
    for name in ("x.csv", "parts"):
        with pytest.raises(DatasetExistsError, match="Pass overwrite=True"):
            ds.export(tmp_path / name, filter="x = 1")
        assert ds.export(tmp_path / name, filter="x = 1", overwrite=True).num_rows == 1
    (tmp_path / "parts" / "note.txt").write_text("mine")
    for name in ("parts", "in.lance"):
        with pytest.raises(DatasetExistsError, match="has other files"):
            ds.export(tmp_path / name, overwrite=True)
    assert left(tmp_path) == ["parts", "x.csv"]
    assert ds.count_rows() == 9


def test_places_that_cannot_be(ds: lk.LanceDataset, tmp_path: Path) -> None:
    for place, why in (
        ("s3://bucket/x.csv", "needs a path on the local disk"),
        (tmp_path / "x.xlsx", "cannot write .xlsx files"),
        (tmp_path / "no" / "x.csv", "There is no folder"),
    ):
        with pytest.raises(InvalidArgumentError, match=why):
            ds.export(place)
    with pytest.raises(InvalidArgumentError, match="max_rows_per_file"):
        ds.export(tmp_path / "x", max_rows_per_file=0)


def test_types_that_a_file_cannot_hold(tmp_path: Path) -> None:
    plain = pa.array(["a", "b"]).dictionary_encode()
    rows = {
        "l": [[1], [2]],
        "b": [b"\xff", b"b"],
        "d": plain,
        "j": pa.array(["1", "[]"], pa.json_()),
    }
    ds = lk.write_dataset(rows, tmp_path / "in.lance")
    for name in ("l", "b"):
        with pytest.raises(UnsupportedTypeError, match=f"cannot hold column '{name}'"):
            ds.export(tmp_path / "x.csv", columns=[name])
    assert left(tmp_path) == []
    ds.export(tmp_path / "x.csv", columns=["d", "j"])
    assert (tmp_path / "x.csv").read_text() == '"d","j"\n"a","1"\n"b","[]"\n'
    ds.export(tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet")["d"].to_pylist() == ["a", "b"]


def test_blobs_are_bytes(tmp_path: Path) -> None:
    schema = pa.schema([lk.blob_field("b")])
    ds = lk.write_dataset(pa.table([lk.blob_array([b"abc", None])], schema), tmp_path / "in.lance")
    ds.export(tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet")["b"].to_pylist() == [b"abc", None]


def test_few_large_blobs_are_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_BLOB_BYTES", 20)
    monkeypatch.setattr(export, "_GROUP_BYTES", 1)
    values = [b"0123456789", b"abc", None, b""] * 3
    old = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    for name, column in (
        ("new", pa.table([lk.blob_array(values)], pa.schema([lk.blob_field("b")]))),
        ("old", pa.table([pa.array(values, old.type)], pa.schema([old]))),
    ):
        ds = lk.write_dataset(column, tmp_path / name)
        ds.export(tmp_path / f"{name}.parquet", filter="b IS NULL OR true")
        file = pq.ParquetFile(tmp_path / f"{name}.parquet")
        assert file.read()["b"].to_pylist() == values
        assert file.num_row_groups == 6  # of two rows


@given(st.data())
def test_parquet_gives_the_rows_back_or_refuses(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            ds = lk.write_dataset({"x": data.draw(columns())}, f"{folder}/in.lance")
        except LancekitError:
            return
        try:
            ds.export(f"{folder}/x.parquet")
        except UnsupportedTypeError:
            assert left(Path(folder)) == []
            return
        found = pq.read_table(f"{folder}/x.parquet")
        assert found["x"].to_pylist() == found["x"].cast(found["x"].type).to_pylist()
        assert found.num_rows == ds.count_rows()


def test_a_write_that_fails(
    ds: lk.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds.export(tmp_path / "x.csv", filter="x = 1")
    before = (tmp_path / "x.csv").read_bytes()

    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "step", full)
    for name in ("x.csv", "y.parquet", "parts"):
        with pytest.raises(StorageError, match="No space left on device"):
            ds.export(tmp_path / name, overwrite=True)
    assert left(tmp_path) == ["x.csv"]
    assert (tmp_path / "x.csv").read_bytes() == before


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_GROUP_ROWS", 1000)
    ds = lk.write_dataset({"x": range(20_000)}, tmp_path / "in.lance")
    ds.export(tmp_path / "x.parquet")
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups == 3  # batches of 8,192 rows


def test_files_are_flushed_as_the_option_says(
    ds: lk.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    with lk.options(fsync=False):
        ds.export(tmp_path / "x.parquet", columns=["x"])
    assert flushed == []
    with lk.options(fsync=True):
        ds.export(tmp_path / "y.parquet", columns=["x"])
    assert flushed


KILLED = """
import os, sys, signal
from pathlib import Path
import lancekit as lk

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

at, folder = sys.argv[1:]
ds = lk.dataset(f"{folder}/in.lance")
renamed = []

def rename(path, target):
    renamed.append(target)
    return killed() if len(renamed) == 2 else os.rename(path, target)

if at == "unpack":
    from lancekit._operations.maintenance import packed
    packed._extract = killed
    lk.unpack(f"{folder}/x.zip", f"{folder}/out.lance")
Path.rename = rename
ds.export(f"{folder}/out", overwrite=True)
"""


@pytest.mark.parametrize("at", ["export", "unpack"])
def test_what_a_kill_left_is_removed_a_day_later(
    ds: lk.LanceDataset, tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds.export(tmp_path / "out")
    ds.pack(tmp_path / "x.zip")
    run = subprocess.run([sys.executable, "-c", KILLED, at, str(tmp_path)], check=False)
    assert run.returncode == -signal.SIGKILL
    hidden = [name for name in left(tmp_path) if name.startswith(".")]
    assert len(hidden) == (2 if at == "export" else 1)
    call = (
        (lambda: ds.export(tmp_path / "out", overwrite=True))
        if at == "export"
        else (lambda: lk.unpack(tmp_path / "x.zip", tmp_path / secrets.token_hex(4)))
    )
    (tmp_path / ".out.mine.tmp").touch()  # of another name
    call()
    assert {*hidden, ".out.mine.tmp"} <= {*left(tmp_path)}  # another process may use them
    monkeypatch.setattr("lancekit._operations.common.new_file._LEFT_SECONDS", 0)
    call()
    assert [name for name in left(tmp_path) if name.startswith(".")] == [".out.mine.tmp"]
