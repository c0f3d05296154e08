import hashlib
import pickle
import struct
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from lancekit._format.key_filter import (
    BloomKeyFilter,
    ExactKeySet,
    build_bloom,
    build_exact,
    choose_filter,
    is_empty,
    is_reference_blind,
    shared_keys,
)
from lancekit._format.key_hashes import encode_keys, hash_keys
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError
from tests.support.twins import agreed

INT = [pa.int64()]
MOMENT = [pa.timestamp("us")]


def int_hashes(*numbers):
    return hash_keys([pa.array(numbers, pa.int64())])


def as_words(number):
    return struct.pack("<q", number)


# ---- bytes and hashes


@pytest.mark.parametrize(
    ("columns", "digest", "block", "bits"),
    [
        ([pa.array([10])], 0x185B704547C3CF22, 97, [22, 24, 0, 6, 18, 15, 19, 16]),
        ([pa.array([-6])], 0x3949E7257B935D6B, 229, [12, 26, 15, 9, 9, 30, 9, 20]),
        ([pa.array(["b"])], 0x78452AA11AF39F9B, 481, [15, 27, 0, 24, 29, 6, 23, 13]),
        ([pa.array([""])], 0xEF46DB3751D8E999, 957, [29, 0, 25, 28, 14, 22, 29, 30]),
        (
            [pa.array([7]), pa.array(["yz"])],
            0x4894A7B6FF66FDA9,
            290,
            [18, 4, 26, 31, 20, 28, 6, 19],
        ),
    ],
)
def test_the_documented_vectors(columns, digest, block, bits):
    hashes = hash_keys(columns)
    assert hashes.tolist() == [digest]
    words = np.frombuffer(build_bloom([0], hashes).bitmap, "<u4").reshape(1024, 8)
    assert words[block].tolist() == [1 << bit for bit in bits]
    assert np.count_nonzero(words) == 8


def test_the_documented_bitmap():
    bitmap = build_bloom([0], int_hashes(10, 11)).bitmap
    expected = "4128927761b1589ee46892419e84b4bf2aa17faec4f589ad7e7eaef083800c0c"
    assert hashlib.sha256(bitmap).hexdigest() == expected


@given(st.lists(st.binary(max_size=120) | st.sampled_from([b"", b"ab", b"x" * 33]), max_size=60))
def test_hashes_of_binary_are_xxh64(values):
    hashes = hash_keys([pa.array(values, pa.binary())])
    assert hashes.tolist() == [xxhash.xxh64_intdigest(v) for v in values]


@given(st.integers(0, 140), st.integers(0, 2**32 - 1))
def test_large_groups_of_one_length_are_xxh64(length, seed):
    random = np.random.default_rng(seed)
    values = [random.bytes(length) for _ in range(1600)] + [b"odd one"]
    # The slice moves the first value off the start of the buffers.
    hashes = hash_keys([pa.array([b"skipped", *values], pa.binary()).slice(1)])
    assert hashes.tolist() == [xxhash.xxh64_intdigest(v) for v in values]


@given(st.lists(st.binary(max_size=100), min_size=1))
def test_the_kernel_is_xxh64(kernels, values):
    array = pa.array([b"before", *values], pa.binary()).slice(1)
    found = agreed(lambda: hash_keys([array]))
    assert found[2] == b"".join(xxhash.xxh64_intdigest(v).to_bytes(8, "little") for v in values)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_hashes_of_integers_are_xxh64(values):
    hashes = hash_keys([pa.array(values, pa.int64())])
    assert hashes.tolist() == [xxhash.xxh64_intdigest(struct.pack("<q", v)) for v in values]


def java_bytes(number):
    return number.to_bytes(
        ((number if number >= 0 else ~number).bit_length() // 8) + 1, "big", signed=True
    )


NAN = struct.pack("<Q", 0x7FF8000000000000)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int8(), -1, as_words(-1)),
        (pa.int16(), -300, as_words(-300)),
        (pa.int32(), -6, as_words(-6)),
        (pa.uint8(), 255, as_words(255)),
        (pa.uint16(), 65535, as_words(65535)),
        (pa.uint32(), 2**32 - 1, as_words(2**32 - 1)),
        (pa.uint64(), 2**64 - 1, b"\xff" * 8),
        (pa.bool_(), True, as_words(1)),
        (pa.float16(), np.float16(1.5), struct.pack("<d", 1.5)),
        (pa.float32(), 1.5, struct.pack("<d", 1.5)),
        (pa.float64(), -0.0, struct.pack("<d", 0.0)),
        (pa.float64(), float("-nan"), NAN),
        (pa.date32(), date(1969, 12, 31), as_words(-1)),
        (pa.date64(), date(1969, 12, 31), as_words(-1)),
        (pa.time32("s"), time(0, 0, 7), as_words(7)),
        (pa.time64("us"), time(0, 0, 7), as_words(7_000_000)),
        (pa.timestamp("s"), datetime(1970, 1, 1, 0, 0, 2), as_words(2_000_000)),
        (pa.timestamp("ms"), datetime(1969, 12, 31, 23, 59, 59), as_words(-1_000_000)),
        (pa.timestamp("us", "Asia/Tokyo"), datetime(1970, 1, 1), as_words(0)),
        (pa.timestamp("ns"), datetime(1970, 1, 1, 0, 0, 2), as_words(2_000_000)),
        (pa.duration("ms"), timedelta(seconds=2), as_words(2_000)),
        (pa.string(), "é", "é".encode()),
        (pa.large_string(), "é", "é".encode()),
        (pa.string_view(), "é", "é".encode()),
        (pa.binary(), b"\x00", b"\x00"),
        (pa.large_binary(), b"\x00", b"\x00"),
        (pa.binary_view(), b"\x00\xff", b"\x00\xff"),
        (pa.binary(3), b"\x00\xffa", b"\x00\xffa"),
        (pa.dictionary(pa.int8(), pa.string()), "é", "é".encode()),
    ],
    ids=str,
)
def test_key_bytes(kind, value, expected):
    column = pa.array([value, None, value], kind)
    assert encode_keys([column.slice(1)]).to_pylist() == [expected]
    assert hash_keys([column.slice(1)]).tolist() == [xxhash.xxh64_intdigest(expected)]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)), st.sampled_from([38, 76]))
def test_decimals_are_the_shortest_twos_complement(numbers, precision):
    make = pa.decimal128 if precision == 38 else pa.decimal256
    values = [Decimal(n).scaleb(-2) if abs(n) < 10**28 else Decimal(0) for n in numbers]
    column = pa.array([Decimal(0), *values], make(precision, 2)).slice(1)
    unscaled = [int(v.scaleb(2)) for v in values]
    assert encode_keys([column]).to_pylist() == [java_bytes(n) for n in unscaled]


def test_rows_with_any_null_part_are_left_out():
    columns = [pa.array([1, None, 3, 4]), pa.chunked_array([["a", "b"], [None, "d"]])]
    assert encode_keys(columns).to_pylist() == [as_words(1) + b"\0a\0", as_words(4) + b"\0d\0"]
    assert len(hash_keys([pa.array([None, None], pa.int64())])) == 0
    assert len(hash_keys([pa.chunked_array([], pa.string())])) == 0


def test_unusable_columns_are_refused():
    with pytest.raises(UnsupportedTypeError, match="type list<item: int64> cannot be keys"):
        hash_keys([pa.array([[1]])])
    with pytest.raises(InvalidArgumentError, match="the same length, got 1, 2"):
        hash_keys([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(InvalidArgumentError, match="at least one column"):
        hash_keys([])


# ---- what the reference writes


def reference_bitmap(folder, keys):
    """Let the reference upsert ``keys`` into an empty dataset; return its filter's bitmap."""
    fields = [
        pa.field(
            name,
            values.type,
            nullable=False,
            metadata={
                "lance-schema:unenforced-primary-key": "true",
                "lance-schema:unenforced-primary-key:position": str(i + 1),
            },
        )
        for i, (name, values) in enumerate(keys.items())
    ]
    schema = pa.schema([*fields, pa.field("v", pa.int8())])
    dataset = lance.write_dataset(schema.empty_table(), str(folder))
    arrays = [*keys.values(), pa.nulls(len(next(iter(keys.values()))), pa.int8())]
    source = pa.table(arrays, schema=schema)
    merge_insert = dataset.merge_insert(list(keys)).when_matched_update_all()
    merge_insert.when_not_matched_insert_all().execute(source)
    newest = max(Path(folder).glob("_transactions/1-*.txn"))
    wire = newest.read_bytes()
    # field 1 (bitmap, 32,768 bytes) and field 2 (num_bits, 262,144), field 3, field 4
    start = wire.index(b"\x0a\x80\x80\x02") + 4
    rest = wire[start + 32_768 :]
    assert rest.startswith(b"\x10\x80\x80\x10\x18\x80\x40\x21" + struct.pack("<d", 0.00057))
    return wire[start : start + 32_768]


REFERENCE_KEYS = {
    "int32": {"k": pa.array([1, -6, 2**31 - 1], pa.int32())},
    "int64": {"k": pa.array(range(-300, 700), pa.int64())},
    "uint32": {"k": pa.array([1, 2**32 - 1], pa.uint32())},
    "uint64": {"k": pa.array([1, 2**64 - 1], pa.uint64())},
    "string": {"k": pa.array(["", "b", "höher", "x" * 77])},
    "large_string": {"k": pa.array(["", "b", "höher"], pa.large_string())},
    "binary": {"k": pa.array([b"", b"\x00\xff"], pa.binary())},
    "large_binary": {"k": pa.array([b"", b"\x00\xff"], pa.large_binary())},
    "composite": {
        "b": pa.array(["yz", "", "z"]),
        "a": pa.array([7, 8, -9], pa.int32()),
        "c": pa.array([b"1", b"\0", b""]),
    },
}


@pytest.mark.parametrize("keys", REFERENCE_KEYS.values(), ids=REFERENCE_KEYS)
def test_bitmaps_equal_the_references(tmp_path, keys):
    columns = list(keys.values())
    mine = build_bloom([0], hash_keys(columns))
    assert mine.bitmap == reference_bitmap(tmp_path, keys)
    assert (mine.num_bits, mine.number_of_items, mine.probability) == (262_144, 8_192, 0.00057)


BLIND_KEYS = {
    "timestamp": {"k": pa.array([datetime(2020, 1, 1)], pa.timestamp("us"))},
    "date": {"k": pa.array([date(2020, 1, 1)])},
    "int16": {"k": pa.array([1], pa.int16())},
    "composite": {"a": pa.array([1]), "b": pa.array([date(2020, 1, 1)])},
}


@pytest.mark.parametrize("keys", BLIND_KEYS.values(), ids=BLIND_KEYS)
def test_the_reference_is_blind_to_some_types(tmp_path, keys):
    assert is_reference_blind([c.type for c in keys.values()])
    assert not any(reference_bitmap(tmp_path, keys))


# ---- which filter


def test_choice_of_filter():
    few, more, many = (int_hashes(*range(n)) for n in (50, 51, 8_193))
    assert choose_filter([3], INT, few) == build_bloom([3], few)
    assert choose_filter([3], INT, more) == build_exact([3], more)
    assert choose_filter([3], INT, np.concatenate([few, few])) == build_bloom([3], few)
    assert choose_filter([3], INT, int_hashes(*range(8_192))).hashes.size == 8_192
    assert choose_filter([3], INT, many) == build_bloom([3], many)
    assert choose_filter([3], MOMENT, few) == build_exact([3], few)
    assert choose_filter([3], MOMENT, many) == build_bloom([3], many, number_of_items=8_193)
    assert isinstance(choose_filter([1, 2], [pa.int64(), pa.date32()], few), ExactKeySet)


def test_exact_sets_are_sorted_unique_values():
    one = build_exact([0], np.array([5, 3, 5], np.uint64))
    assert one.hashes.tolist() == [3, 5]
    assert one == build_exact([0], np.array([3, 5], np.uint64))
    assert hash(one) == hash(pickle.loads(pickle.dumps(one)))
    assert one != build_exact([1], one.hashes)
    with pytest.raises(ValueError, match="read-only"):
        one.hashes[0] = 1


# ---- conflicts


def test_what_is_shared_is_named_as_exactly_as_the_filters_allow():
    left, right = int_hashes(*range(100)), int_hashes(*range(97, 200))
    common = np.sort(int_hashes(97, 98, 99)).tolist()
    certain = shared_keys(build_exact([0], left), build_exact([0], right), INT)
    assert (certain.possible, certain.certain, certain.hashes.tolist()) == (True, True, common)
    for one, other in (
        (build_exact([0], left), build_bloom([0], right)),
        (build_bloom([0], left), build_exact([0], right)),
    ):
        found = shared_keys(one, other, INT)
        assert (found.possible, found.certain) == (True, False)
        assert set(common) <= set(found.hashes.tolist())
        assert len(found.hashes) < 10
    blooms = shared_keys(build_bloom([0], left), build_bloom([0], right), INT)
    assert (blooms.possible, blooms.certain, blooms.hashes.size) == (True, False, 0)
    assert "of 1024 blocks" in blooms.why
    assert (
        "different columns"
        in shared_keys(certain_one := build_exact([0], left), build_exact([1], left), INT).why
    )
    assert not shared_keys(certain_one, build_exact([0], int_hashes(500)), INT).possible


def test_a_saturated_filter_says_possible_and_never_no():
    saturated = BloomKeyFilter(field_ids=(0,), bitmap=b"\xff" * 32_768)
    for one in (build_exact([0], int_hashes(1)), build_bloom([0], int_hashes(1)), saturated):
        for types in (INT, MOMENT):
            assert shared_keys(one, saturated, types).possible
            assert shared_keys(saturated, one, types).possible
            assert not shared_keys(one, saturated, types).certain


def test_empty_filters_are_empty_only_if_their_writer_saw_every_key():
    none = int_hashes()
    assert is_empty(build_exact([0], none), MOMENT)
    assert is_empty(build_bloom([0], none), INT)
    assert is_empty(build_bloom([0], none, number_of_items=8_193), MOMENT)
    assert not is_empty(build_bloom([0], none), MOMENT)
    assert not is_empty(BloomKeyFilter(field_ids=(0,), bitmap=b""), INT)
    assert not is_empty(build_bloom([0], int_hashes(1)), INT)


KINDS = [build_exact, build_bloom]
WRITERS = [*KINDS, lambda f, h: build_bloom(f, h, number_of_items=8_193)]


@given(
    st.sets(st.integers(0, 10**6), max_size=300),
    st.sets(st.integers(0, 10**6), min_size=1, max_size=300),
    st.sampled_from(WRITERS),
    st.sampled_from(WRITERS),
)
def test_a_common_key_is_never_missed(left, right, make_left, make_right):
    common = next(iter(right))
    mine = make_left([0], int_hashes(*left, common))
    theirs = make_right([0], int_hashes(*right))
    assert shared_keys(mine, theirs, INT).possible


@pytest.mark.parametrize("make_left", KINDS)
@pytest.mark.parametrize("make_right", KINDS)
def test_disjoint_keys_do_not_conflict(make_left, make_right):
    mine = make_left([0], int_hashes(*range(300)))
    theirs = make_right([0], int_hashes(*range(300, 600)))
    assert not shared_keys(mine, theirs, INT).possible
    assert not shared_keys(mine, make_right([0], int_hashes()), INT).possible


def test_what_cannot_be_compared_conflicts():
    one = build_bloom([0], int_hashes(1))
    assert shared_keys(one, build_bloom([1], int_hashes(2)), INT).possible
    assert shared_keys(one, BloomKeyFilter(field_ids=(0,), bitmap=bytes(64)), INT).possible
    assert shared_keys(one, BloomKeyFilter(field_ids=(0,), bitmap=b"\xff" * 32_768), INT).possible
    for broken in (b"", bytes(33)):
        unknown = BloomKeyFilter(field_ids=(0,), bitmap=broken)
        assert shared_keys(build_exact([0], int_hashes()), unknown, INT).possible
        assert shared_keys(unknown, one, INT).possible


@pytest.mark.parametrize("types", [MOMENT, [pa.int64(), pa.date32()]])
@pytest.mark.parametrize("items", [8_192, 0])
def test_a_blind_writers_filter_says_nothing(types, items):
    mine = build_exact([0], int_hashes(1))
    empty = BloomKeyFilter(field_ids=(0,), bitmap=bytes(32_768), number_of_items=items)
    assert shared_keys(mine, empty, types).possible
    assert shared_keys(empty, mine, types).possible
    assert not shared_keys(mine, empty, INT).possible
    ours = build_bloom([0], int_hashes(2), number_of_items=8_193)
    assert not shared_keys(mine, ours, types).possible
    assert not shared_keys(mine, build_exact([0], int_hashes()), types).possible
