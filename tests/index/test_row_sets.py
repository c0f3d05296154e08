"""Sets of rows, against pyroaring, which has the format for one set at a time."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64

from lancekit._index.row_sets import (
    RowSets,
    SetForm,
    bitmaps,
    decoded_set,
    decoded_sets,
    encoded_set,
    encoded_sets,
)
from lancekit.errors import CorruptFileError


def _sets(seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    found = []
    for _ in range(int(random.integers(0, 12))):
        size = int(random.integers(1, 40))
        offsets = random.integers(0, 1 << int(random.integers(1, 33)), size).astype(np.uint64)
        rows = [random.integers(0, 4, size).astype(np.uint64) << np.uint64(32) | offsets]
        if random.random() < 0.2:  # containers of bits, full ones among them
            rows.append(np.arange(70_000, dtype=np.uint64) * np.uint64(3) + np.uint64(7 << 32))
            rows.append(np.arange(65_536 + 4_097, dtype=np.uint64))
        found.append(np.unique(np.concatenate(rows)))
    return found


def _joined(sets: list[np.ndarray]) -> RowSets:
    rows = np.concatenate(sets) if sets else np.empty(0, np.uint64)
    return RowSets(np.cumsum([0, *map(len, sets)]), rows)


@pytest.mark.parametrize("seed", range(20))
def test_there_and_back(seed: int) -> None:
    sets = _sets(seed)
    for form in SetForm:
        encoded = encoded_sets(_joined(sets), form)
        if form is SetForm.PLAIN:
            expected = [BitMap64(one, optimize=False).serialize() for one in sets]
            assert encoded.to_pylist() == expected
        assert encoded.to_pylist() == [encoded_set(one, form) for one in sets]
        padded = pa.concat_arrays([pa.array([b"?"], encoded.type), encoded]).slice(1)
        for stored in (encoded, padded):
            back = decoded_sets(stored, form)
            assert np.array_equal(back.starts, _joined(sets).starts)
            assert np.array_equal(back.rows, _joined(sets).rows)


def test_sets_with_runs_are_read() -> None:
    rows = np.concatenate([np.arange(5_000), np.arange(3) + (2 << 32)]).astype(np.uint64)
    stored = BitMap64(rows).serialize()
    assert len(stored) < 100
    found = decoded_sets(pa.array([stored, stored]), SetForm.PLAIN)
    assert np.array_equal(found.rows, np.tile(rows, 2))


def test_whole_fragments_are_refused() -> None:
    stored = b"\x01\0\0\0" + b"\x02\0\0\0" + b"\0\0\0\0"
    with pytest.raises(CorruptFileError):
        decoded_set(stored)


def test_damaged_sets_are_errors() -> None:
    sets = [np.arange(9, dtype=np.uint64), np.arange(5_000, dtype=np.uint64) * np.uint64(2)]
    for form in SetForm:
        for stored in encoded_sets(_joined(sets), form).to_pylist():
            for cut in (0, 3, 7, 11, 15, len(stored) - 1):
                with pytest.raises(CorruptFileError):
                    decoded_sets(pa.array([stored[:cut]], pa.binary()), form)


def _stored(*parts: tuple[int, bytes]) -> bytes:
    return struct.pack("<I", len(parts)) + b"".join(
        struct.pack("<II", upper, len(bits)) + bits for upper, bits in parts
    )


def test_rows_are_read_by_their_fragments() -> None:
    data = _stored((0, BitMap([3, 9]).serialize()), (7, BitMap(range(5000)).serialize()))
    found = dict(bitmaps(data))
    assert found == {0: BitMap([3, 9]), 7: BitMap(range(5000))}
    assert dict(bitmaps(_stored())) == {}


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01\x00\x00\x00", _stored((0, BitMap([3]).serialize()))[:-1], _stored((1, b""))],
    ids=["empty", "no part", "cut", "all rows"],
)
def test_what_is_no_set_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="A row set"):
        list(bitmaps(data))
