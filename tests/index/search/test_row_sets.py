"""Sets of rows as index files hold them."""

import struct

import numpy as np
import pytest
from pyroaring import BitMap

from lancekit.errors import CorruptFileError
from lancekit.index.search.row_sets import joined, read_rows, rows_of, union


def _stored(*parts: tuple[int, bytes]) -> bytes:
    return struct.pack("<I", len(parts)) + b"".join(
        struct.pack("<II", upper, len(bits)) + bits for upper, bits in parts
    )


def test_rows_are_read_by_their_fragments() -> None:
    data = _stored((0, BitMap([3, 9]).serialize()), (7, BitMap(range(5000)).serialize()))
    found = read_rows(data, "f")
    assert found == {0: BitMap([3, 9]), 7: BitMap(range(5000))}
    assert read_rows(_stored(), "f") == {}


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01\x00\x00\x00", _stored((0, BitMap([3]).serialize()))[:-1], _stored((1, b""))],
    ids=["empty", "no part", "cut", "all rows"],
)
def test_what_is_no_set_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="A set of rows in f"):
        read_rows(data, "f")


def test_numbers_become_rows_and_back() -> None:
    numbers = np.array([(2 << 32) + 5, 3, (2 << 32) + 1], np.uint64)
    rows = rows_of(numbers)
    assert rows == {0: BitMap([3]), 2: BitMap([1, 5])}
    assert joined(rows).tolist() == sorted(numbers.tolist())
    assert union([rows, {0: BitMap([4])}]) == {0: BitMap([3, 4]), 2: BitMap([1, 5])}
    assert joined({}).tolist() == []
