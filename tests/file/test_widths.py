"""What a value takes: batches are cut by it, and columns of nulls are refused by it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancekit import errors
from lancekit._file.kernels.bounds import null_bytes, value_bytes
from lancekit._scan.fragments.split_fields import nulls_of

TENSOR = pa.fixed_shape_tensor(pa.float32(), [1000, 1000])

TYPES = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.decimal128(38, 2), pa.binary(1 << 12), pa.string()),
    *(pa.large_string(), pa.large_binary(), pa.dictionary(pa.int8(), pa.string()), pa.binary(0)),
    *(pa.list_(pa.float32(), 1000), pa.list_(pa.list_(pa.float32(), 1000), 3), TENSOR),
    *(
        pa.list_(pa.int64()),
        pa.map_(pa.string(), pa.int64()),
        pa.struct([]),
        pa.list_(pa.int8(), 0),
    ),
    pa.struct([("a", pa.list_(pa.float64(), 500)), ("b", pa.string())]),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_null_is_what_arrow_sets_aside_for_it(kind: pa.DataType) -> None:
    rows = 1 << 20 if null_bytes(kind) < 100 else 64
    taken = pa.nulls(rows, kind).nbytes / rows
    assert taken / 2 <= max(null_bytes(kind), 1) <= max(2 * taken, taken + 8)
    assert value_bytes(kind) >= 1


def test_a_value_of_a_fixed_width_is_its_null() -> None:
    for kind in (pa.int32(), pa.list_(pa.float32(), 8), TENSOR, pa.binary(9)):
        assert value_bytes(kind) == null_bytes(kind)


def test_the_widest_binary_is_as_wide_as_it_says() -> None:
    assert value_bytes(pa.binary(2**31 - 1)) == null_bytes(pa.binary(2**31 - 1)) == 2**31 - 1


def test_nulls_of_an_extension_type_are_as_wide_as_what_stores_them() -> None:
    huge = pa.fixed_shape_tensor(pa.float32(), [1 << 20, 1 << 10])
    with pytest.raises(errors.MemoryLimitError, match=r"column 'v'.*4,294,967,296 bytes"):
        nulls_of(pa.field("v", huge), 1)
    assert nulls_of(pa.field("v", pa.list_(TENSOR)), 2).null_count == 2
