"""Files of 2.0 in their first form, of pylance 0.13: strings are lists of bytes there."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit.errors import LancekitError
from lancekit.file import LanceFileReader

KEPT = Path(__file__).parents[1] / "data" / "first_form.zip"


@pytest.fixture
def unpacked(tmp_path: Path) -> tuple[str, pa.Table]:
    shutil.unpack_archive(KEPT, tmp_path)
    return str(tmp_path / "d.lance"), pa.ipc.open_file(tmp_path / "rows.arrow").read_all()


def _files(path: str) -> list[Path]:
    return sorted(Path(path).glob("data/*.lance"))


def test_rows(unpacked: tuple[str, pa.Table]) -> None:
    path, expected = unpacked
    ds = lk.dataset(path)
    assert ds.data_storage_version == "2.0"
    assert ds.to_table().equals(expected)
    assert lance.dataset(path).to_table().equals(expected)
    for name in expected.column_names:  # the column behind is another's, or the bytes of this one
        assert ds.to_table([name]).equals(expected.select([name]))
    places = [0, 7, 20, 89, 90, 119]
    assert ds.take(places).equals(expected.take(places))
    assert ds.to_table(offset=50, limit=60).to_pylist() == expected.slice(50, 60).to_pylist()
    found = ds.to_table(["st.y", "b"], filter="s = 's9é' or ls = 's97é' or nothing is not null")
    assert found["st.y"].to_pylist() == ["q9", "q97"]
    ds.validate(deep=True)


def test_files_of_their_own(unpacked: tuple[str, pa.Table]) -> None:
    path, expected = unpacked
    parts = {len(part): part for part in (expected.slice(0, 90), expected.slice(90))}
    for file in map(str, _files(path)):
        reader = LanceFileReader(file)
        assert reader.read_all().to_table().equals(parts[reader.num_rows()])
        some = LanceFileReader(file, columns=["v", "ls"]).read_all().to_table()
        assert some.equals(parts[reader.num_rows()].select(some.column_names))
        names = [column.name for column in reader.metadata().columns]
        assert names[:4] == ["i", "s", "s.bytes", "b"]


def test_they_are_written_on(unpacked: tuple[str, pa.Table]) -> None:
    path, expected = unpacked
    ds = lk.dataset(path)
    ds.delete("i % 10 = 3")
    ds.update({"b": "s"}, where="i = 100")
    lk.write_dataset(expected.slice(0, 5), path, mode="append")
    ds = lk.dataset(path)
    kept = ds.to_table().sort_by("i")
    ds.optimize.compact_files()
    for library in (lk, lance):
        assert library.dataset(path).to_table().sort_by("i").equals(kept)
    changed = kept.filter(pc.equal(kept["i"], 100))
    assert changed["b"].to_pylist() == [text.encode() for text in changed["s"].to_pylist()]


def test_damage_is_an_error_of_ours(unpacked: tuple[str, pa.Table]) -> None:
    path, expected = unpacked
    file = _files(path)[0]
    whole = file.read_bytes()
    for place in range(0, len(whole), len(whole) // 60):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            found = lk.dataset(path).to_table()
        except LancekitError:
            continue
        assert found.schema == expected.schema
        found.validate(full=True)
