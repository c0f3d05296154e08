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


def _tables(version: str) -> dict[str, pa.Table]:
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
    return tables


@pytest.mark.torture
@pytest.mark.parametrize("version", VERSIONS)
def test_no_number_makes_the_reader_ask_for_memory(
    tmp_path: Path, version: str, whole: bool
) -> None:
    """Whole: in all files, many times each; otherwise in a third of them for each version."""
    files = {}
    for place, (name, table) in enumerate(_tables(version).items()):
        if whole or place % len(VERSIONS) == VERSIONS.index(version):
            files[f"ours {name}"] = write_ours(table, version)
            files[f"theirs {name}"] = write_reference(table, tmp_path / "a.lance", version)
    (tmp_path / "files").write_bytes(pickle.dumps(files))
    report = run("fuzz_files", str(tmp_path / "files"), "300" if whole else "2", "11")
    assert not report["failures"], "\n\n".join(report["failures"][:5])
    assert report["outcomes"]["damaged"] > len(files)
