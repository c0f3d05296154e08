"""Keys found by numbers that stand for them are those that Arrow's hash table finds."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._pipeline import probe_ranges as hashing
from lancekit._pipeline import source_keys as choosing
from lancekit._pipeline.hashed_keys import comparable, hash_rows
from lancekit._pipeline.probe import KeyTable
from lancekit._pipeline.probe_ranges import hashed_keys
from lancekit._pipeline.source_keys import SourceKeys
from lancekit.errors import DuplicateKeysError
from tests.support.twins import agreed

TEXTS = st.text(alphabet="ab\0é", max_size=20)
KINDS = {
    "text": (pa.string(), TEXTS),
    "large text": (pa.large_string(), TEXTS),
    "bytes": (pa.binary(), st.binary(max_size=9)),
    "five bytes": (pa.binary(5), st.binary(min_size=5, max_size=5)),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, float("nan"), 1.5, float("inf")])),
    "half": (pa.float16(), st.sampled_from([0.0, -0.0, float("nan"), 1.5]).map(np.float16)),
    "int": (pa.int16(), st.integers(-3, 3)),
    "bool": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(20, 2), st.integers(-3, 3).map(Decimal)),
    "date": (pa.date32(), st.integers(0, 3).map(lambda n: dt.date(2024, 1, 1 + n))),
}


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(hashing, "_LEAST_KEYS", 1)
    monkeypatch.setattr(hashing, "_BLOCK", 7)
    monkeypatch.setattr(choosing, "_MANY", 1)


@st.composite
def tables(draw):
    """Source and target columns, of one or two types."""
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2))
    out = []
    for rows in (draw(st.integers(1, 20)), draw(st.integers(0, 30))):
        columns = []
        for name in names:
            kind, values = KINDS[name]
            value = st.none() | values
            column = pa.array(draw(st.lists(value, min_size=rows, max_size=rows)), kind)
            columns.append(pa.concat_arrays([column[:1], column])[1:])  # with an offset
        out.append(columns)
    return out


@given(tables())
def test_the_same_are_found(pair):
    source, target = pair
    on = tuple(f"k{place}" for place in range(len(source)))
    keys = SourceKeys.choose(on, source, dedupe="last").table
    codes = np.zeros(len(target[0]), np.int64)
    places, codes = keys.find(0, target[0])
    for place, column in enumerate(target[1:], start=1):
        found, codes = keys.find(place, column.take(pa.array(places)), codes)
        places = places[found]
    hashed = hashed_keys(keys)
    if hashed is None:
        assert not len(places)
        return
    at, positions = hashed.find_rows([pa.chunked_array([c[:4], c[4:]], c.type) for c in target])
    assert at.tolist() == places.tolist()
    assert hashed.first_rows[positions].tolist() == keys.first_rows[codes].tolist()


@given(tables(), st.sampled_from(["first", "last"]))
def test_the_same_rows_are_kept(pair, which):
    source, _ = pair
    on = tuple(f"k{place}" for place in range(len(source)))
    with pytest.MonkeyPatch.context() as patch:
        found = SourceKeys.choose(on, source, dedupe=which)
        patch.setattr(choosing, "_MANY", 1 << 40)
        wanted = SourceKeys.choose(on, source, dedupe=which)
        assert kept(found) == kept(wanted)
        errors = []
        for many in (1, 1 << 40):
            patch.setattr(choosing, "_MANY", many)
            try:
                SourceKeys.choose(on, source)
            except DuplicateKeysError as error:
                errors.append(str(error))
        assert len(errors) in {0, 2}
        assert len(set(errors)) <= 1


def kept(keys):
    return None if keys.kept is None else keys.kept.tolist()


def test_keys_whose_numbers_meet_are_still_told_apart(monkeypatch):
    """Numbers that meet in the source are made anew; one of a row that only meets is no match."""

    def poor(columns, seed=0):
        return hash_rows(columns, seed) & np.uint64(3 if seed == 0 else 2**64 - 1)

    known = pa.array(["a", "b", "c", "d", "e"])
    monkeypatch.setattr(hashing, "hash_rows", poor)
    keys = hashed_keys(KeyTable(("k",), (known,)))
    assert keys is not None
    assert keys.seed == 1
    places, positions = keys.find_rows([pa.chunked_array([["x", "c", None, "a"]])])
    assert places.tolist() == [1, 3]
    assert keys.first_rows[positions].tolist() == [2, 0]
    monkeypatch.setattr(hashing, "hash_rows", lambda columns, seed=0: poor(columns) * 0)
    one = hashed_keys(KeyTable(("k",), (known[:1],)))
    assert one is not None
    assert one.find_rows([pa.chunked_array([["b", "a", "aa"]])])[0].tolist() == [1]


def test_numbers_do_not_meet_by_the_thousand():
    for made in (
        pa.array([f"{n:016x}" for n in range(100_000)]),
        pa.array(np.arange(100_000) << 32),
        pa.array(["a" * n for n in range(2000)]),
        pa.array([b"a" * (4000 + n) for n in range(200)]),  # digests stand for long values
        pa.array(np.arange(100_000) / 7),
    ):
        hashes = hash_rows([comparable(made)])
        assert len(np.unique(hashes)) == len(made)
        assert len(np.unique(hashes >> np.uint64(48))) > 0.6 * min(len(made), 1 << 16)


@given(st.data())
def test_the_kernel_finds_the_same_numbers(kernels, data):
    kind, values = data.draw(st.sampled_from([KINDS[name] for name in ("text", "five bytes")]))
    column = pa.array(data.draw(st.lists(st.none() | values, min_size=2)), kind)
    agreed(lambda: hash_rows([comparable(column.slice(1))], seed=7))


@pytest.mark.parametrize("offsets", [[0, 9, 4], [0, -5, 4], [2, 1, 4]])
def test_the_kernel_stays_inside_of_the_text(kernels, offsets):
    """Arrays that nobody has validated; NumPy stumbles over most."""
    borders, text = pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"abcd")
    column = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, borders, text])
    agreed(lambda: hash_rows([column]))
