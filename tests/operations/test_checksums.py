"""Checksums: written when asked for, ignored by the reference, and nothing slips through them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader as TheirReader

import lancekit as lk
from lancekit._file.container.checksums import KEY
from lancekit.errors import CorruptFileError, LancekitError

VERSIONS = ["2.0", "2.1", "2.2"]


def rows(count: int = 300) -> pa.Table:
    rng = np.random.default_rng(7)
    table = pa.table(
        {
            "id": np.arange(count),
            "number": pa.array(rng.random(count), mask=rng.random(count) < 0.1),
            "text": [f"row {n}" for n in range(count)],
            "same": ["always"] * count,
        }
    )
    return table.replace_schema_metadata({"made": "here"})


def files(folder: Path) -> list[Path]:
    return sorted((folder / "data").iterdir())


def has_checksums(file: Path) -> bool:
    return KEY.encode() in TheirReader(str(file)).metadata().schema.metadata


@pytest.mark.parametrize("version", VERSIONS)
def test_every_way_of_writing_takes_the_option(tmp_path: Path, version: str) -> None:
    ds = lk.write_dataset(rows(), tmp_path / "d", data_storage_version=version, checksums=True)
    with lk.options(checksums=True):
        ds.insert(rows())
        merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute({**rows(3).to_pydict(), "id": [1000, 1001, 1002]})
        lk.write_dataset(rows(), ds, mode="append")
    assert len(files(tmp_path / "d")) == 4
    assert all(map(has_checksums, files(tmp_path / "d")))
    ds = lk.dataset(tmp_path / "d")
    ds.validate(deep=True)
    theirs = lance.dataset(tmp_path / "d")
    theirs.validate()
    assert theirs.to_table().equals(ds.to_table())
    assert theirs.schema.metadata == ds.schema.metadata == {b"made": b"here"}
    ds.insert(rows(), checksums=False)
    lk.write_dataset(rows(), tmp_path / "off")
    assert not any(map(has_checksums, files(tmp_path / "off")))
    ds.validate(deep=True)  # files without them are read all the same


@pytest.mark.torture
@pytest.mark.parametrize("version", VERSIONS)
def test_no_changed_value_goes_unnoticed(tmp_path: Path, version: str, whole: bool) -> None:
    ds = lk.write_dataset(rows(), tmp_path / "d", data_storage_version=version, checksums=True)
    wanted = ds.to_table()
    (file,) = files(tmp_path / "d")
    written = file.read_bytes()
    for at in range(0, len(written), 3 if whole else 29):
        file.write_bytes(written[:at] + bytes([written[at] ^ 0x11]) + written[at + 1 :])
        # damage is named, or was to what lies between the values
        with contextlib.suppress(LancekitError), lk.options(verify_checksums=True):
            assert ds.to_table().equals(wanted), at


def test_where_it_is_wrong(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows(), tmp_path / "d", checksums=True)
    (file,) = files(tmp_path / "d")
    whole = bytearray(file.read_bytes())
    whole[200] ^= 1  # in the first page of the first column
    file.write_bytes(whole)
    assert ds.to_table().num_rows == 300  # a number has changed, and nobody looked
    ds.validate()
    with pytest.raises(CorruptFileError, match=r"column 'id', page 0 is damaged: .*checksum") as e:
        ds.validate(deep=True)
    assert (e.value.context["column"], e.value.context["page"]) == ("id", 0)
    assert str(file.name) in e.value.context["file"]
    with lk.options(verify_checksums=True):
        assert ds.to_table(columns=["number"]).num_rows == 300  # what is not read is not checked
        with pytest.raises(CorruptFileError, match="checksum"):
            ds.take([200], columns=["id"])


@pytest.mark.parametrize("version", VERSIONS)
def test_blobs_have_checksums_too(tmp_path: Path, version: str) -> None:
    legacy = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([[b"first", None, b"second"]], schema=pa.schema([legacy]))
    ds = lk.write_dataset(table, tmp_path / "d", data_storage_version=version, checksums=True)
    ds.validate(deep=True)
    assert lance.dataset(tmp_path / "d").read_blobs("b", indices=[2])[0][1] == b"second"
    (file,) = files(tmp_path / "d")
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"second", b"seconD"))
    wrong = r"the blobs from byte .* checksum"
    with pytest.raises(CorruptFileError, match=wrong):
        ds.validate(deep=True)
    assert [blob and blob.readall() for blob in ds.take_blobs("b", indices=[0, 2])] == [
        b"first",
        b"seconD",
    ]
    with lk.options(verify_checksums=True):
        with pytest.raises(CorruptFileError, match=wrong):
            ds.take_blobs("b", indices=[2])[0].readall()
        with pytest.raises(CorruptFileError, match=wrong):
            ds.read_blobs("b", indices=[2])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_list_of_checksums_cannot_be_hidden(tmp_path: Path, version: str) -> None:
    ds = lk.write_dataset(rows(), tmp_path / "d", data_storage_version=version, checksums=True)
    (file,) = files(tmp_path / "d")
    file.write_bytes(file.read_bytes().replace(KEY.encode(), b"lancekit:checksumz"))
    with pytest.raises(CorruptFileError, match="list of checksums"):
        ds.validate(deep=True)


def test_validate_looks_at_manifest_and_files(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows(), tmp_path / "d", max_rows_per_file=100)
    ds.delete("id < 10")
    ds.validate()
    ds.validate(deep=True)
    lance.write_dataset(rows(), tmp_path / "theirs")
    lk.dataset(tmp_path / "theirs").validate(deep=True)
    first, second, _ = files(tmp_path / "d")
    whole = first.read_bytes()
    for damaged in (whole + whole[-40:], whole[:-1]):
        first.write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            ds.validate()
    first.write_bytes(whole)
    second.unlink()
    with pytest.raises(CorruptFileError, match="does not exist"):
        ds.validate()
