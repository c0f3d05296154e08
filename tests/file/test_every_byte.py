"""Every byte of small files, changed or cut off: an error that names the file, or rows.

With checksums the rows are the ones that were written.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lancekit._file.writer import FileWriter
from lancekit.errors import FormatError, LancekitError
from lancekit.options import options
from tests.file.columns import VERSIONS, assert_same, columns, with_nulls
from tests.file.lance_io import open_ours, write_reference
from tests.file.nested import SHARES, assert_same_nested, nested_columns, nested_field
from tests.support.memory_file import MemorySink

ROWS = 30
#: Of the bytes of a file, so many are changed in a usual run.
SAMPLE = 5
#: No damage makes a read take longer, or need more memory.
SECONDS, GROWTH = 5.0, 400 << 20


def _tables(version: str, share: int) -> list[pa.Table]:
    tables = [
        pa.table({name: with_nulls(array, "some")})
        for name, array in columns(ROWS)
        if "huge" not in name and "128]" not in name
    ]
    for name, array in nested_columns(ROWS, version):
        if "huge" not in name:
            tables.append(pa.table([array], schema=pa.schema([nested_field(name, array)])))
    return tables[share :: len(SHARES)]


def _ours(table: pa.Table, version: str, *, checksums: bool) -> bytes:
    sink = MemorySink()
    writer = FileWriter(sink, table.schema, version=version, checksums=checksums)
    for batch in table.to_batches():
        writer.write(batch)
    writer.finish()
    assert sink.data is not None
    return sink.data


def _damaged(data: bytes, whole: bool, seed: int) -> Iterator[bytes]:
    rng = np.random.default_rng(seed)
    places = np.arange(len(data))
    if not whole:
        places = rng.choice(places, min(SAMPLE, len(data)), replace=False)
    for place in places.tolist():
        change = int(rng.integers(1, 256))
        yield data[:place] + bytes([data[place] ^ change]) + data[place + 1 :]
        if place % (16 if whole else 4) == 0:
            yield data[:place]
            yield data[place:]


def _read(data: bytes) -> pa.Table | None:
    """Return the rows; nothing if an error says what is wrong."""
    begun = time.process_time()
    try:
        reader = open_ours(data, "damaged.lance")
        fields = reader.columns
        if reader.num_rows > 1 << 20:
            return None  # a damaged count of a file without pages
        table = reader.read(fields)
        table.validate()
        for column in table.columns:
            column.combine_chunks().validate()
        reader.read(fields, np.arange(0, reader.num_rows, 3))
    except FormatError as error:
        if "damaged.lance" not in str(error):
            raise AssertionError("the file is not named") from error
        return None
    except LancekitError:
        return None
    finally:
        assert time.process_time() - begun < SECONDS
    return table


@pytest.mark.cover
@pytest.mark.torture
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writer", ["ours", "theirs"])
@pytest.mark.parametrize("share", SHARES)
def test_no_byte_breaks_the_reader(
    tmp_path: Path, version: str, writer: str, share: int, whole: bool
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for number, table in enumerate(_tables(version, share)):
        if writer == "ours":
            data = _ours(table, version, checksums=False)
        else:
            data = write_reference(table, tmp_path / "a.lance", version)
        for damaged in _damaged(data, whole, number):
            _read(damaged)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < GROWTH


@pytest.mark.cover
@pytest.mark.torture
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", SHARES)
def test_no_byte_slips_through_checksums(version: str, share: int, whole: bool) -> None:
    with options(verify_checksums=True):
        for number, table in enumerate(_tables(version, share)):
            data = _ours(table, version, checksums=True)
            wanted = _read(data)
            assert wanted is not None
            for damaged in _damaged(data, whole, number):
                read = _read(damaged)
                if read is None:
                    continue
                assert read.schema.equals(wanted.schema)
                left, right = read.column(0).combine_chunks(), wanted.column(0).combine_chunks()
                same = assert_same_nested if pa.types.is_nested(left.type) else assert_same
                same(left, right, wanted.column_names[0])
