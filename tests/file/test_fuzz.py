"""Numbers in the metadata of pages that are not what they were: an error says so."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from tests.file.columns import VERSIONS, columns, with_nulls
from tests.file.lance_io import write_ours, write_reference
from tests.file.nested import nested_columns, nested_field
from tests.system.test_malformed import run

ROWS = 300
TEXT = pa.array([f"some text {number % 90} and more of it" for number in range(3000)])
MARKS = ({"compression": "lz4"}, {"compression": "zstd"}, {"structural-encoding": "fullzip"})


def _files(folder: Path, version: str) -> dict[str, bytes]:
    tables = {
        name: pa.table({"c": with_nulls(array, "some")})
        for name, array in columns(ROWS)
        if "huge" not in name and "128]" not in name
    }
    for name, array in nested_columns(ROWS, version):
        if "huge" not in name:
            tables[name] = pa.table([array], schema=pa.schema([nested_field(name, array)]))
    for marks in MARKS:
        metadata = {f"lance-encoding:{key}": value for key, value in marks.items()}
        for array in (TEXT, pa.array(range(3000)), TEXT.dictionary_encode()):
            schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
            tables[f"{array.type} {marks}"] = pa.table([array], schema=schema)
    files = {}
    for name, table in tables.items():
        files[f"ours {name}"] = write_ours(table, version)
        files[f"theirs {name}"] = write_reference(table, folder / "a.lance", version)
    return files


@pytest.mark.torture
@pytest.mark.parametrize("version", VERSIONS)
def test_no_number_makes_the_reader_ask_for_memory(
    tmp_path: Path, version: str, whole: bool
) -> None:
    files = _files(tmp_path, version)
    (tmp_path / "files").write_bytes(pickle.dumps(files))
    report = run("fuzz_files", str(tmp_path / "files"), "300" if whole else "2", "11")
    assert not report["failures"], "\n\n".join(report["failures"][:5])
    assert report["outcomes"]["damaged"] > len(files)
