"""Key lookup: the same matches as a dictionary of tuples gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._pipeline.engine import LocalRunner
from lancekit._pipeline.probe import KeyTable, ProbeTask, key_values, probe, show_keys
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.read import Read
from lancekit.errors import CorruptFileError

small = st.one_of(st.none(), st.integers(0, 4))
text = st.one_of(st.none(), st.sampled_from(["", "a", "b"]))
rows = st.lists(st.tuples(small, text, small), max_size=30)


def table(keys: list[tuple]) -> tuple[pa.Array, ...]:
    kinds = (pa.int64(), pa.string(), pa.date32())
    return tuple(pa.array([k[i] for k in keys], kind) for i, kind in enumerate(kinds))


@given(rows, rows)
def test_matches_of_a_dictionary(source: list[tuple], target: list[tuple]) -> None:
    keys = KeyTable(("a", "b", "c"), table(source))
    codes = np.zeros(len(target), np.int64)
    for place, values in enumerate(table(target)):
        codes = keys.extend(codes, place, pa.chunked_array([values]))
    first: dict[tuple, int] = {}
    for row, key in enumerate(source):
        if None not in key:
            first.setdefault(key, row)
    expected = [first.get(key, -1) for key in target]
    assert [keys.first_rows[code] if code >= 0 else -1 for code in codes] == expected
    counts = {key: source.count(key) for key in source}
    repeated = [i for i, key in enumerate(source) if None not in key and counts[key] > 1]
    assert keys.repeated().tolist() == repeated


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.timestamp("us"), pa.duration("ns")])
def test_few_keys_in_many_rows(kind: pa.DataType) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**40, 20_000)
    mask = rng.random(20_000) < 0.1
    wanted = values[rng.integers(0, 20_000, 40)]
    target = pa.array(values, mask=mask).cast(kind).slice(7)
    keys = KeyTable(("k",), (pa.array(np.unique(wanted)).cast(kind),))
    codes = keys.extend(np.zeros(len(target), np.int64), 0, pa.chunked_array([target]))
    expected = np.isin(values, wanted)[7:] & ~mask[7:]
    assert np.array_equal(codes >= 0, expected)
    assert np.array_equal(np.unique(wanted)[codes[expected]], values[7:][expected])


def test_a_key_that_is_not_a_number_is_named_once() -> None:
    nan = float("nan")
    keys = pa.table({"k": [nan, 1.0, nan, 1.0, None], "t": ["a", "b", "a", "b", None]})
    shown = key_values(keys, ("k", "t"), np.arange(5))
    assert show_keys(("k", "t"), shown) == "k = nan, t = a; k = 1.0, t = b; k = None, t = None"


def _in_pieces(path: Path) -> lk.LanceDataset:
    """A table of twelve fragments, some of whose rows are deleted."""
    rows = pa.table({"a": [n // 10 for n in range(1000)], "b": [str(n % 10) for n in range(1000)]})
    ds = lk.write_dataset(rows, path, max_rows_per_file=100)
    ds.delete("a % 7 = 3 OR b = '4'")
    more = pa.table({"b": ["1", "2"], "a": [5, 1000]})
    return lk.write_dataset(more, lk.write_dataset(more, path, mode="append").uri, mode="append")


def test_small_fragments_are_looked_through_together(tmp_path: Path) -> None:
    ds = _in_pieces(tmp_path / "d")
    wanted = [(5, "1"), (10, "9"), (38, "0"), (99, "4"), (99, "8"), (1000, "2"), (None, "1")]
    columns = (pa.array([a for a, _ in wanted]), pa.array([b for _, b in wanted]))
    sources = tuple(fragment_sources(ds._snapshot))
    asked: list[list[ProbeTask]] = []

    def noted(work, tasks):
        asked.append(tasks)
        return LocalRunner().map(work, tasks)

    found = probe(Read(sources), KeyTable(("a", "b"), columns), noted)
    assert [len(task.read.sources) for (task,) in asked] == [12]
    rows = [
        (ds.get_fragment(m.fragment_id).to_table(["a", "b"], with_row_address=True), m)
        for m in found
    ]
    pairs = [
        (row["a"], row["b"], source)
        for table, m in rows
        for offset, source in zip(m.offsets.tolist(), m.source_rows.tolist(), strict=True)
        for row in table.to_pylist()
        if row["_rowaddr"] % 2**32 == offset
    ]
    assert pairs == [(5, "1", 0), (99, "8", 4), *2 * [(5, "1", 0), (1000, "2", 5)]]
    assert [m.fragment_id for m in found] == [0, 9, 10, 11]


def test_of_fragments_that_are_read_together_the_damaged_file_is_named(tmp_path: Path) -> None:
    ds = _in_pieces(tmp_path / "d")
    sources = tuple(fragment_sources(ds._snapshot))
    name = sources[4].fragment.files[0].path
    damaged = tmp_path / "d" / "data" / name
    damaged.write_bytes(damaged.read_bytes()[:-10])
    keys = KeyTable(("a",), (pa.array([1]),))
    with pytest.raises(CorruptFileError, match=name.removesuffix(".lance")):
        probe(Read(sources), keys, LocalRunner().map)


@pytest.mark.parametrize("nulls", [False, True])
def test_rows_that_share_a_key_are_found_wherever_they_are(nulls: bool) -> None:
    """Of one column and of two, whole numbers and texts."""
    rng = np.random.default_rng(5)
    for count in (0, 1, 2, 3, 4, 50):
        numbers = rng.integers(0, 30, count)
        whole = pa.array(numbers, mask=(numbers % 7 == 0) if nulls else None)
        for columns in ([whole], [whole.cast(pa.string())], [whole, whole], [whole, whole[::-1]]):
            keys = list(zip(*(c.to_pylist() for c in columns), strict=True))
            table = KeyTable(tuple(f"k{n}" for n in range(len(columns))), tuple(columns))
            wanted = [at for at, key in enumerate(keys) if None not in key and keys.count(key) > 1]
            assert table.repeated().tolist() == wanted
