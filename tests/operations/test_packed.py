"""Packs: a version in a zip file, and what a zip file that was changed does."""

from __future__ import annotations

import io
import json
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._operations.maintenance.packed import LISTING
from lancekit.errors import (
    CorruptFileError,
    DatasetExistsError,
    InvalidArgumentError,
    LancekitError,
    MemoryLimitError,
    NotOfferedError,
)
from tests.operations.test_deep_clones import nearest, rich, table_of
from tests.support.arrow_columns import columns


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Make a pack of a small dataset with a deletion file."""
    ds = lk.write_dataset({"x": range(6), "s": list("abcdef")}, tmp_path / "in", primary_key="x")
    ds.delete("x = 2")
    ds.update_config({"a": "b"})
    return Path(ds.pack(tmp_path / "x.zip"))


def test_a_rich_dataset_in_both_libraries(tmp_path: Path) -> None:
    theirs = rich(tmp_path / "in")
    ds = lk.dataset(tmp_path / "in")
    found = ds.pack(tmp_path / "x.zip")
    assert (found.num_rows, found.num_bytes) == (294, (tmp_path / "x.zip").stat().st_size)
    shutil.move(tmp_path / "in", tmp_path / "away")
    ours = lk.unpack(tmp_path / "x.zip", tmp_path / "out")
    assert table_of(ours) == table_of(lk.dataset(tmp_path / "away"))
    opened = lance.dataset(str(tmp_path / "out"))
    assert table_of(opened) == table_of(ours)
    assert ours.version == opened.version == theirs.version
    assert ours.config() == {"a": "b"}
    assert nearest(opened) == nearest(lance.dataset(str(tmp_path / "away")))
    assert [i.name for i in opened.describe_indices()] == [i.name for i in ours.describe_indices()]
    assert ours.tags.names() == ours.branches.names() == ()
    ours.validate()
    ours.insert(ours.head(3))
    assert lance.dataset(str(tmp_path / "out")).count_rows() == 297


def test_a_clone_and_a_branch_are_packed_with_all_files(tmp_path: Path) -> None:
    rich(tmp_path / "in")
    ds = lk.dataset(tmp_path / "in")
    for number, handle in enumerate(
        [ds.shallow_clone(tmp_path / "clone"), ds.checkout_version(("br", None)), ds.at("t")]
    ):
        rows = table_of(handle)
        handle.pack(tmp_path / f"{number}.zip")
        assert str(tmp_path).encode() not in _contents(tmp_path / f"{number}.zip")
        out = lk.unpack(tmp_path / f"{number}.zip", f"memory://unpacked-{number}")
        assert table_of(out) == rows
        assert out.branch == "main"
        assert out.base_paths() == {}


def _contents(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return b"".join(archive.read(name) for name in archive.namelist())


@given(st.data())
def test_every_type_comes_back(data: st.DataObject) -> None:
    array = data.draw(columns())
    table = pa.table({"id": pa.array(range(len(array)), pa.int64()), "x": array})
    with tempfile.TemporaryDirectory() as folder:
        try:
            ds = lk.write_dataset(table, f"{folder}/in", max_rows_per_file=2)
        except LancekitError:
            return
        ds.delete(f"id = {data.draw(st.integers(0, 4))}")
        ds.pack(f"{folder}/x.zip")
        out = lk.unpack(f"{folder}/x.zip", f"{folder}/out")
        assert repr(out.to_table()) == repr(ds.to_table())
        assert out.schema.equals(ds.schema, check_metadata=True)
        assert lance.dataset(f"{folder}/out").count_rows() == ds.count_rows()


def test_blobs(tmp_path: Path) -> None:
    (tmp_path / "outside.bin").write_bytes(b"outside")
    blobs = [lk.Blob.from_uri(f"file://{tmp_path}/outside.bin"), b"in", None]
    table = pa.table(
        [pa.array(range(3)), lk.blob_array(blobs)],
        pa.schema([pa.field("i", pa.int64()), lk.blob_field("b")]),
    )
    ds = lk.write_dataset(table, tmp_path / "in", allow_external_blob_outside_bases=True)
    with pytest.raises(NotOfferedError, match=r"blob outside of the dataset: .*outside"):
        ds.pack(tmp_path / "x.zip")
    assert not (tmp_path / "x.zip").exists()
    ds.delete("i = 0")
    ds.pack(tmp_path / "x.zip")
    found = lk.unpack(tmp_path / "x.zip", tmp_path / "out").to_pandas(blob_mode="bytes")
    assert found["b"].tolist() == [b"in", None]


# ---- files that are in the way, and files that are no packs


def test_existing_files_stay(packed: Path, tmp_path: Path) -> None:
    ds, before = lk.dataset(tmp_path / "in"), packed.read_bytes()
    with pytest.raises(DatasetExistsError, match="overwrite=True"):
        ds.pack(packed)
    assert packed.read_bytes() == before
    ds.pack(packed, overwrite=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    for place in ("in", "full"):
        with pytest.raises(DatasetExistsError, match="There are files at"):
            lk.unpack(packed, tmp_path / place)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["full", "in", "x.zip"]
    with pytest.raises(InvalidArgumentError, match="There is no file"):
        lk.unpack(tmp_path / "none.zip", tmp_path / "out")
    with pytest.raises(InvalidArgumentError, match="storage_options"):
        lk.unpack(packed, "s3://bucket/out", storage_options={"a": 5})  # type: ignore[dict-item]
    with pytest.raises(MemoryLimitError, match="more than max_bytes=100"):
        lk.unpack(packed, tmp_path / "out", max_bytes=100)


def _changed(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Write a pack again with other entries, all of them listed with their checksums."""
    import hashlib

    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name != LISTING}
    change(files)
    listed = {n: (len(data), hashlib.sha256(data).hexdigest()) for n, data in files.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        archive.writestr(LISTING, json.dumps({"format": "lancekit pack 1", "files": listed}))
    return path


@pytest.mark.parametrize(
    "name",
    [
        *("../evil", "/etc/evil", "data/../../evil", "data/a\\..\\b", "data//x", "data/", "evil"),
        *("data/./x", "C:/evil", "_refs/tags/x.json", "tree/b/data/x", "data/a\nb"),
    ],
)
def test_names_that_leave_the_folder(packed: Path, tmp_path: Path, name: str) -> None:
    _changed(packed, lambda files: files.update({name: b"evil"}))
    with pytest.raises(CorruptFileError, match=r"no file inside of a dataset|is there twice"):
        lk.unpack(packed, tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("*evil*"))
    assert not (tmp_path / "deep").exists()


def test_links_and_other_entries(packed: Path, tmp_path: Path) -> None:
    link = zipfile.ZipInfo("data/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    method = zipfile.ZipInfo("data/method")
    method.compress_type = zipfile.ZIP_BZIP2
    for info, why in (
        (link, "no file inside"),
        (method, "another method"),
        (zipfile.ZipInfo("data/more"), "not those that it lists"),
        (zipfile.ZipInfo(LISTING), "is there twice"),
    ):
        other = tmp_path / "other.zip"
        shutil.copy(packed, other)
        with zipfile.ZipFile(other, "a") as archive, pytest.warns() if "twice" in why else _calm():
            archive.writestr(info, "/etc/passwd")
        with pytest.raises(CorruptFileError, match=why):
            lk.unpack(other, tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with pytest.raises(CorruptFileError, match="it has no lancekit-pack"):
        lk.unpack(tmp_path / "empty.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _calm() -> io.StringIO:
    return io.StringIO()


def test_manifests_that_refer_to_other_places(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "in")
    ds.shallow_clone(tmp_path / "clone")
    path = Path(ds.pack(tmp_path / "x.zip"))
    manifest = next((tmp_path / "clone" / "_versions").glob("*.manifest"))

    def replaced(files: dict[str, bytes]) -> None:
        name = next(n for n in files if n.startswith("_versions"))
        files[name] = manifest.read_bytes()

    _changed(path, replaced)
    with pytest.raises(CorruptFileError, match="refers to other places"):
        lk.unpack(path, tmp_path / "out")

    def without_data(files: dict[str, bytes]) -> None:
        del files[next(n for n in files if n.startswith("data/"))]

    def without_versions(files: dict[str, bytes]) -> None:
        del files[next(n for n in files if n.startswith("_versions"))]

    none = Path(ds.pack(tmp_path / "z.zip"))
    with pytest.raises(CorruptFileError, match="no pack of a dataset"):
        lk.unpack(_changed(none, without_versions), tmp_path / "out")
    whole = Path(ds.pack(tmp_path / "y.zip"))
    with pytest.raises(CorruptFileError, match=r"missing|does not exist"):
        lk.unpack(_changed(whole, without_data), tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.manifest"))


def test_a_bomb_is_refused_by_its_sizes(packed: Path, tmp_path: Path) -> None:
    _changed(packed, lambda files: files.update({"data/bomb": bytes(8 << 20)}))
    assert packed.stat().st_size < 1 << 16
    with pytest.raises(MemoryLimitError):
        lk.unpack(packed, tmp_path / "out", max_bytes=1 << 20)


def test_any_changed_byte_is_an_error_or_the_same_rows(packed: Path, tmp_path: Path) -> None:
    whole, rows = packed.read_bytes(), lk.dataset(tmp_path / "in").to_table()
    chosen = random.Random(5)
    ends = range(len(whole) - 900, len(whole))  # the directory of entries
    places = {*chosen.sample(range(len(whole)), 150), *chosen.sample(ends, 150)}
    same = 0
    for place in sorted(places):
        changed = bytearray(whole)
        changed[place] ^= chosen.choice([1, 0x80, 0xFF, 0x20])
        _check(bytes(changed), tmp_path, rows)
    for length in chosen.sample(range(len(whole)), 30):
        same += _check(whole[:length], tmp_path, rows)
    assert same == 0


def _check(data: bytes, folder: Path, rows: pa.Table) -> bool:
    (folder / "changed.zip").write_bytes(data)
    try:
        found = lk.unpack(folder / "changed.zip", folder / "out")
    except LancekitError:
        assert not list((folder / "out").rglob("*.manifest"))
        assert not list(folder.glob(".lancekit-unpack-*"))
        shutil.rmtree(folder / "out", ignore_errors=True)
        return False
    assert found.to_table().equals(rows)
    shutil.rmtree(folder / "out")
    return True


# ---- processes that end in between

_KILLED = """
import os, sys
import lancekit as lk
from lancekit._operations.maintenance import copies, packed
from lancekit._operations import export

left = int(sys.argv[1])

def step():
    global left
    left -= 1
    if left < 0:
        os._exit(9)

copies.step = packed.step = export.step = step
exec(sys.argv[2])
"""


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize(
    ("call", "target"),
    [
        ("lk.dataset('in').pack('y.zip')", "y.zip"),
        ("lk.unpack('x.zip', 'out')", "out/_versions"),
        ("lk.dataset('in').export('y.parquet')", "y.parquet"),
        ("lk.dataset('in').export('parts/', max_rows_per_file=1)", "parts"),
    ],
)
def test_a_killed_process_leaves_nothing_half_written(
    packed: Path, tmp_path: Path, call: str, target: str, steps: int
) -> None:
    command = [sys.executable, "-c", _KILLED]
    killed = subprocess.run([*command, str(steps), call], cwd=tmp_path, check=False)
    exists = (tmp_path / target).exists()
    assert killed.returncode == (0 if exists else 9)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    if not exists:
        subprocess.run([*command, "1000", call], cwd=tmp_path, check=True)
        assert (tmp_path / target).exists()
