"""Row ids and row versions: what is written is what pylance writes, and damage is refused."""

from __future__ import annotations

import random
import tracemalloc
from itertools import pairwise
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._format.pb import rowids_pb2 as pb
from lancekit._format.row_ids import (
    count_row_ids,
    parse_row_ids,
    read_row_ids,
    read_row_versions,
)
from lancekit._format.row_ids_encode import (
    append_row_ids,
    encode_row_ids,
    encode_row_versions,
    uniform_versions,
)
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import latest_snapshot
from lancekit.errors import CorruptFileError

NUMBERS = st.integers(0, 2**64 - 1)
PARTS = st.lists(
    st.one_of(
        st.lists(NUMBERS, max_size=30),
        st.lists(st.integers(0, 200), unique=True, max_size=60).map(sorted),
        st.builds(
            lambda start, n: list(range(start, start + n)), st.integers(0, 99), st.integers(0, 50)
        ),
    ),
    max_size=4,
)


LAST = 2**64 - 1


def numbers(values: list[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


@pytest.mark.parametrize("ids", [[LAST], [LAST - 2, LAST - 1, LAST], [0, LAST], [LAST - 9, LAST]])
def test_the_last_id_there_is_comes_back(ids: list[int]) -> None:
    assert parse_row_ids(encode_row_ids(numbers(ids)), len(ids), "f").tolist() == ids


@given(parts=PARTS, data=st.data())
def test_row_ids_come_back(parts: list[list[int]], data: st.DataObject) -> None:
    ids = [id_ for part in parts for id_ in part]
    encoded = encode_row_ids(*map(numbers, parts))
    assert count_row_ids(encoded, "f") == len(ids)
    found = read_row_ids(encoded, len(ids), "f")
    assert found.values().tolist() == parse_row_ids(encoded, len(ids), "f").tolist() == ids
    rows = data.draw(st.lists(st.integers(0, max(len(ids) - 1, 0)), max_size=10 if ids else 0))
    assert found.at(np.array(rows, np.int64)).tolist() == [ids[row] for row in rows]
    asked = sorted({*data.draw(st.lists(NUMBERS, max_size=5)), *ids[:20]})
    for id_, row in zip(asked, found.find(numbers(asked)).tolist(), strict=True):
        assert ids[row] == id_ if row >= 0 else id_ not in ids


@given(st.lists(st.integers(1, 4), max_size=40))
def test_row_versions_come_back(versions: list[int]) -> None:
    encoded = encode_row_versions(numbers(versions))
    assert read_row_versions(encoded, len(versions), "f").values().tolist() == versions
    found = read_row_versions(encoded, len(versions), "f")
    rows = np.arange(len(versions))[::-1]
    assert found.at(rows).tolist() == versions[::-1]
    runs = pb.RowDatasetVersionSequence.FromString(encoded).runs
    assert all(one.version != other.version for one, other in pairwise(runs))


def test_ids_behind_others() -> None:
    first = encode_row_ids(range(5))
    assert append_row_ids(first, range(5, 9), "f") == encode_row_ids(range(9))
    mixed = append_row_ids(encode_row_ids(numbers([7, 3])), range(20, 22), "f")
    assert parse_row_ids(mixed, 4, "f").tolist() == [7, 3, 20, 21]
    assert read_row_versions(uniform_versions(3, 9), 3, "f").values().tolist() == [9, 9, 9]
    assert read_row_versions(None, 2, "f").values().tolist() == [1, 1]


def _reencoded(encoded: bytes) -> bytes:
    """Write ids again, a segment for each that there was."""
    segments = pb.RowIdSequence.FromString(encoded).segments
    alone = [pb.RowIdSequence(segments=[one]).SerializeToString() for one in segments]
    return encode_row_ids(*(parse_row_ids(one, count_row_ids(one, "f"), "f") for one in alone))


def _fragments(uri: str) -> list[Any]:
    return list(latest_snapshot(open_location(uri)).manifest.fragments)


@pytest.mark.parametrize("seed", range(8))
def test_bytes_are_those_of_the_reference(tmp_path: Any, seed: int) -> None:
    """What a compaction keeps of a fragment is one segment, chosen by pylance."""
    rng = random.Random(seed)
    size = rng.choice([20, 300, 5000])
    theirs = lance.write_dataset(
        pa.table({"x": range(3 * size)}), tmp_path, enable_stable_row_ids=True,
        max_rows_per_file=size,
    )  # fmt: skip
    share = rng.choice([2, 3, 10, 100, size - 1])
    keep = rng.choice(["=", "!="])
    theirs.delete(f"x % {share} {keep} 1")
    theirs.optimize.compact_files(target_rows_per_fragment=10 * size)
    for fragment in _fragments(str(tmp_path)):
        assert _reencoded(fragment.row_ids) == fragment.row_ids
        created = read_row_versions(fragment.created_at, fragment.physical_rows, "f").values()
        assert set(created.tolist()) == {1}


def test_bytes_of_moved_rows_are_those_of_the_reference(tmp_path: Any) -> None:
    rng = random.Random(5)
    theirs = lance.write_dataset(pa.table({"x": range(1000)}), tmp_path, enable_stable_row_ids=True)
    for _ in range(6):
        chosen = rng.sample(range(1000), rng.choice([1, 5, 400]))
        theirs.update({"x": "x"}, where=f"x IN ({', '.join(map(str, chosen))})")
    for fragment in _fragments(str(tmp_path)):
        assert _reencoded(fragment.row_ids) == fragment.row_ids
        for versions in (fragment.created_at, fragment.last_updated_at):
            found = read_row_versions(versions, fragment.physical_rows, "f").values()
            assert encode_row_versions(found) == versions


U64 = pb.U64Segment
HUGE = 2**60
HOLES = {"u16_array": {"base": 9, "offsets": b"\0\0"}}


@pytest.mark.parametrize(
    "segment",
    [
        U64(range={"start": 0, "end": HUGE}),
        U64(range={"start": 0, "end": 2**64 - 1}),
        U64(range={"start": 9, "end": 4}),
        U64(range_with_holes={"start": 0, "end": HUGE}),
        U64(range_with_holes={"start": 0, "end": 3, "holes": HOLES}),
        U64(range_with_bitmap={"start": 0, "end": HUGE, "bitmap": b"\1"}),
        U64(array={"u64_array": {"values": b"123"}}),
        U64(array={"u32_array": {"base": 2**64 - 1, "offsets": b"\1\0\0\0"}}),
        U64(range={"start": 0, "end": 4}),
        U64(range={"start": 0, "end": 6}),
        U64(),
    ],
    ids=repr,
)  # fmt: skip
def test_damage_is_refused_before_it_takes_memory(segment: Any) -> None:
    ids = pb.RowIdSequence(segments=[segment]).SerializeToString()
    run = pb.RowDatasetVersionRun(span=segment, version=3)
    versions = pb.RowDatasetVersionSequence(runs=[run]).SerializeToString()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError, match="fragment 7"):
            read_row_ids(ids, 5, "fragment 7")
        with pytest.raises(CorruptFileError, match="fragment 7"):
            read_row_versions(versions, 5, "fragment 7")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(
    gaps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=16, max_size=60),
    first=st.sampled_from([0, 5, 2**63 - 30, 2**64 - 500]),
    data=st.data(),
)
def test_many_ranges_are_read_together(gaps: Any, first: int, data: st.DataObject) -> None:
    """As pylance writes the ids of rows that an update picked: a range for each run."""
    ranges, end = [], first
    for gap, length in gaps:
        ranges.append(range(end + gap, end + gap + length))
        end = ranges[-1].stop
    data.draw(st.randoms()).shuffle(ranges)
    kind = pb.U64Segment
    segments = [kind(range=kind.Range(start=r.start, end=r.stop)) for r in ranges]
    more = [kind(array=pb.EncodedU64Array(u64_array={"values": (7).to_bytes(8, "little")}))]
    for tail in ([], more if first > 7 else []):
        encoded = pb.RowIdSequence(segments=[*segments, *tail]).SerializeToString()
        ids = [id_ for r in ranges for id_ in r] + [7] * len(tail)
        read = read_row_ids(encoded, len(ids), "f")
        assert read.values().tolist() == ids
        assert read.at(np.arange(len(ids))[::-1]).tolist() == ids[::-1]
        asked = sorted({*ids, *range(max(first - 2, 0), min(end + 2, 2**64))})
        expected = [ids.index(id_) if id_ in ids else -1 for id_ in asked]
        assert read.find(numbers(asked)).tolist() == expected


def test_many_damaged_ranges_are_refused() -> None:
    kind = pb.U64Segment
    good = [kind(range=kind.Range(start=9 * i, end=9 * i + 1)) for i in range(20)]
    for start, end in ((9, 4), (0, LAST)):
        bad = kind(range=kind.Range(start=start, end=end))
        encoded = pb.RowIdSequence(segments=[*good, bad]).SerializeToString()
        with pytest.raises(CorruptFileError, match="21 ranges of row ids of f"):
            read_row_ids(encoded, 20, "f")


def test_a_long_range_is_not_expanded() -> None:
    """A fragment that claims to have 2**40 rows can be asked for some of their ids."""
    ids = read_row_ids(encode_row_ids(range(7, 7 + 2**40)), 2**40, "f")
    assert ids.at(np.array([0, 2**39])).tolist() == [7, 7 + 2**39]
    assert ids.find(numbers([6, 7, 2**40])).tolist() == [-1, 0, 2**40 - 7]
