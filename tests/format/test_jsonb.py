"""JSONB: text in and text out, byte for byte as the reference stores it."""

from __future__ import annotations

import contextlib
import json
import struct

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._format.jsonb import from_jsonb, to_jsonb
from lancekit.errors import CorruptFileError, InvalidArgumentError

TEXTS = [
    "{}", "[]", "null", "true", "false", "0", "-0", "1", "-1", "127", "128", "255", "256", "-128",
    "-129", "65536", "-70000", "5000000000", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "0.1", "-0.0", "0e0", "1.0", "1E2", "1e-4",
    "1e-5", "-1.25e-5", "9.99e-6", "1e-7", "1e15", "1e16", "1.5e300", "5e-324", '""', '"abc"',
    '"a\\/b\\"\\\\"', '"\\b\\f\\n\\r\\t\\u001f\\u007f\\u2028\\ud83d\\ude00"', "[[],{},[{}]]",
    '{"b": 1, "a": [1, 2, {"x": null}], "aa": "é", "é": 0, "": false}', " [ 1 , 2 ] ",
]  # fmt: skip


def test_bytes_and_texts_are_the_references(tmp_path) -> None:
    texts = pa.array([*TEXTS, None])
    table = pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(), texts)})
    theirs = lance.write_dataset(table, tmp_path / "t", data_storage_version="2.1")
    scan = lk.dataset(tmp_path / "t").scanner()._scan
    stored = scan.to_table().column("j").combine_chunks()
    with pytest.warns(UserWarning, match="2 JSON numbers lose digits: -9223372036854775809 is st"):
        assert to_jsonb(texts).equals(stored)
    assert from_jsonb(stored).to_pylist() == theirs.to_table().column("j").to_pylist()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=4)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(json_values)
def test_round_trip(value: object) -> None:
    text = json.dumps(value)
    (back,) = from_jsonb(to_jsonb(pa.array([text]))).to_pylist()
    assert json.loads(back) == value


@pytest.mark.parametrize("text", ["", "{", "[1,]", '{"a":1,"a":2}', "NaN", "1e999", "[" * 100_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be stored as JSON"):
        to_jsonb(pa.array([text]))


@pytest.mark.parametrize(
    ("number", "stored"),
    [
        ("123456789012345678901234567890", "1.2345678901234568e+29"),
        ("0.12345678901234567890123", "0.12345678901234568"),
        ("9007199254740993.0", "9007199254740992.0"),
        ("9007199254740993e0", "9007199254740992.0"),
        ("1e-400", "0.0"),
    ],
)
def test_numbers_that_lose_digits_are_warned_of(number: str, stored: str) -> None:
    with pytest.warns(UserWarning, match=f"JSON number loses digits: {number} is stored"):
        found = to_jsonb(pa.array([f'{{"a": [{number}]}}', '"12345678901234567890.5"']))
    assert from_jsonb(found).to_pylist()[0] == f'{{"a":[{stored}]}}'


def test_other_long_numbers_are_stored_in_silence() -> None:
    texts = ["0.10000000000000001", "0.1000000000000000055511151231257827", "1.500000000000000000",
             "5.960464477539063e-08", "5.960464477539062e-08", "5e-324", "0e-999",
             "18446744073709551615"]  # fmt: skip
    back = from_jsonb(to_jsonb(pa.array(texts))).to_pylist()
    assert list(map(float, back)) == list(map(float, texts))


def test_damage_is_named() -> None:
    (whole,) = to_jsonb(pa.array(['{"a":[1,2.5,"x"],"b":null}'])).to_pylist()
    for at in range(len(whole)):
        for changed in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            # some damage is JSON again; whatever is not has a name
            with contextlib.suppress(CorruptFileError):
                from_jsonb(pa.array([changed], pa.large_binary()))
    with pytest.raises(CorruptFileError, match="damaged"):
        from_jsonb(pa.array([whole[:-1]], pa.large_binary()))


def test_parts_do_not_share_what_is_in_them() -> None:
    """Each level has two parts of no length, at the same place: a thousand bytes for 2^90."""
    pair = struct.pack(">III", 0x80000002, 0x50000000, 0x50000000)
    bomb = pair * 90 + struct.pack(">I", 0x80000000)
    with pytest.raises(CorruptFileError, match="damaged: it is truncated"):
        from_jsonb(pa.array([bomb], pa.large_binary()))
