"""Stable row ids by hand: every answer is pylance's, and rows that move keep theirs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import lance.fragment
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
import lancekit.fragment
from lancekit.errors import CorruptFileError, InvalidTypeError
from lancekit.fragment import RowIdMeta, RowIdSequence

Theirs: Any = lance.fragment.RowIdSequence

MANY = np.random.default_rng(20).permutation(2**18)[:5000]

GOOD: dict[str, Callable[[], Any]] = {
    "range": lambda: range(1, 4),
    "long range": lambda: range(10**12),
    "high range": lambda: range(2**63, 2**63 + 3),
    "range to the last id": lambda: range(2**64 - 2, 2**64),
    "steps": lambda: range(0, 10, 3),
    "descending": lambda: range(3, 0, -1),
    "nothing": lambda: [],
    "no range": lambda: range(7, 7),
    "no array": lambda: pa.array([], pa.int8()),
    "no chunks": lambda: pa.chunked_array([], pa.int64()),
    "list": lambda: [7, 12, 3],
    "ten": lambda: list(range(10)),
    "eleven": lambda: list(range(11)),
    "set": lambda: {3, 1},
    "generator": lambda: (x for x in [5, 2, 9]),
    "numpy": lambda: np.array([1, 2**40], np.uint64),
    "array": lambda: pa.array([9, 1, 2, 3, 9]).slice(1, 3),
    "uint64": lambda: pa.array([2**64 - 1, 0], pa.uint64()),
    "chunks": lambda: pa.chunked_array([[1], [2, 3]]),
    "many": lambda: MANY,
    "gaps": lambda: range(0, 8200, 2),
}


@pytest.mark.parametrize("name", GOOD)
def test_ids_are_what_pylance_makes_of_them(name: str) -> None:
    ours, theirs = RowIdSequence(GOOD[name]()), Theirs(GOOD[name]())
    assert len(ours) == len(theirs)
    assert repr(ours) == repr(theirs)
    stored = ours.to_inline_metadata().asdict()
    assert stored == json.loads(theirs.to_inline_metadata().json())
    assert pickle.loads(pickle.dumps(ours)) == ours
    assert RowIdSequence.from_inline_metadata(ours.to_inline_metadata()) == ours
    if len(ours) < 10**6:
        assert list(ours) == list(ours) == list(theirs)
        assert ours.to_pyarrow().equals(theirs.to_pyarrow())


BAD: dict[str, Any] = {
    "twice": [1, 2, 3, 1],
    "twice in an array": pa.array([5, 3, 5]),
    "negative": [-1],
    "negative range": range(-5, 5),
    "falls below zero": range(5, -5, -1),
    "negative array": pa.array([-1, 2]),
    "negative chunk": pa.chunked_array([[1], [-2]]),
    "too high": [2**64],
    "range too high": range(2**64 - 2, 2**64 + 1),
    "null": [None],
    "null in an array": pa.array([1, None]),
    "only nulls": pa.array([None]),
    "fraction": [1.0],
    "fractions": pa.array([1.5]),
    "floats of numpy": np.array([1.0]),
    "rows of numpy": np.array([[1, 2]]),
    "text": "12",
    "texts": pa.array(["1"]),
    "truth": pa.array([True]),
    "dictionary": pa.array([1]).dictionary_encode(),
    "table": pa.table({"a": [1]}),
    "none": None,
    "number": 5,
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_ids_is_refused_as_by_pylance(name: str) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)) as theirs:
        Theirs(BAD[name])
    with pytest.raises(lk.errors.InvalidArgumentError) as ours:
        RowIdSequence(BAD[name])
    assert isinstance(ours.value, theirs.type)


def test_sequences_are_equal_by_their_ids() -> None:
    assert RowIdSequence(range(3)) == RowIdSequence([0, 1, 2])
    assert RowIdSequence(range(3)) != RowIdSequence([0, 1])
    assert RowIdSequence([0, 1]) != RowIdSequence([1, 0])
    assert RowIdSequence(range(3)) != [0, 1, 2]
    # one range, and two segments of one id each
    cut = RowIdMeta(bytes.fromhex("0a040a0210010a060a0408011002"))
    assert RowIdSequence.from_inline_metadata(cut) == RowIdSequence(range(2))
    with pytest.raises(TypeError, match="unhashable"):
        hash(RowIdSequence([1]))


def test_other_metadata_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="metadata must be a RowIdMeta, got 5"):
        RowIdSequence.from_inline_metadata(5)  # type: ignore[arg-type]
    with pytest.raises(CorruptFileError, match="row ids of a RowIdSequence"):
        RowIdSequence.from_inline_metadata(RowIdMeta(b"\1\2\3"))


def _ids(library: Any, path: Path) -> dict[int, int]:
    rows = library.dataset(path).to_table(columns=["id"], with_row_id=True)
    return dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))


def test_rows_that_a_hand_moves_keep_their_ids(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3, 4], "v": [10, 20, 30, 40]})
    ds = lk.write_dataset(rows, tmp_path, max_rows_per_file=2, enable_stable_row_ids=True)
    first, second = ds.get_fragments()
    assert list(RowIdSequence.from_inline_metadata(second.metadata.row_id_meta)) == [2, 3]
    before = _ids(lk, tmp_path)
    # row 2 moves, row 5 is new
    (new,) = lancekit.fragment.write_fragments({"id": [2, 5], "v": [99, 50]}, tmp_path)
    kept = replace(new, row_ids=RowIdSequence([before[2]]).to_inline_metadata().data)
    changed = first.delete("id = 2")
    operation = lk.LanceOperation.Update(updated_fragments=[changed], new_fragments=[kept])
    ds = lk.LanceDataset.commit(tmp_path, operation, read_version=ds.version)
    assert _ids(lk, tmp_path) == _ids(lance, tmp_path) == before | {5: 4}
    assert sorted(ds.to_table()["v"].to_pylist()) == [10, 30, 40, 50, 99]
