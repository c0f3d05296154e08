"""Dictionaries: what is written the reference reads, and what it could not read is not written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._format import logical_types
from lancekit._operations.maintenance import compact_plan
from lancekit._scan.fragment_rows import scan_fragment
from tests.file.columns import VERSIONS
from tests.file.lance_io import write_ours

SMALL = pa.dictionary(pa.int8(), pa.string())
A, B, C = ([f"{letter}{number}" for number in range(100)] for letter in "abc")
#: with those of `A` as many as a key of 8 bits can distinguish, and one more
FITTING, CROWDED = A[:9] + B[:28], A[:9] + B[:29]

PLAIN: list[Any] = [
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.duration("ns"),
]  # fmt: skip


def category(values: Sequence[str], kind: pa.DataType = SMALL) -> pa.Array:
    items = pa.array(sorted(set(values)))
    keys = pa.array([items.to_pylist().index(value) for value in values], kind.index_type)
    return pa.DictionaryArray.from_arrays(keys, items)


def in_lists(array: pa.Array) -> pa.Array:
    structs = pa.StructArray.from_arrays([array], ["d"])
    return pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), structs)


WAYS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda array: array,
    "in structs": lambda array: pa.StructArray.from_arrays([array], ["d"]),
    "in lists of structs": in_lists,
}


def appended(uri: str, parts: Sequence[pa.Array], version: Any) -> None:
    for part in parts:
        mode = "append" if Path(uri).exists() else "create"
        lk.write_dataset(pa.table({"c": part}), uri, mode=mode, data_storage_version=version)


def same(uri: str, parts: Sequence[pa.Array], fragments: int) -> None:
    wanted = [value for part in parts for value in part.to_pylist()]
    ours, theirs = lk.dataset(uri), lance.dataset(uri)
    assert ours.to_table()["c"].to_pylist() == wanted
    assert theirs.to_table()["c"].to_pylist() == wanted
    assert len(theirs.get_fragments()) == fragments


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", WAYS)
def test_rows_with_more_values_than_keys_go_to_another_file(
    tmp_path: Path, version: Any, way: str
) -> None:
    for number, (lists, files) in enumerate(
        [([A, FITTING], 1), ([A, CROWDED], 2), ([A, B, C], 3), ([A, B, A], 3)]
    ):
        parts = [WAYS[way](category(values)) for values in lists]
        uri = str(tmp_path / str(number))
        table = pa.table({"c": pa.chunked_array(parts)})
        lk.write_dataset(table, uri, data_storage_version=version)
        same(uri, parts, files)


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", WAYS)
def test_compaction_leaves_apart_what_no_key_can_tell(
    tmp_path: Path, version: Any, way: str
) -> None:
    uri = str(tmp_path / "d")
    parts = [WAYS[way](category(values)) for values in (A, FITTING, CROWDED, B, C[:90], C)]
    appended(uri, parts, version)
    ds = lk.dataset(uri)
    ds.optimize.compact_files()
    same(uri, parts, 3)
    ds.checkout_latest()
    version_then = ds.version
    ds.optimize.compact_files()  # nothing is left to do
    ds.checkout_latest()
    assert ds.version == version_then


def test_a_deletion_is_made_good_in_a_fragment_on_its_own(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    appended(uri, [category(A), category(B)], "2.2")
    ds = lk.dataset(uri)
    ds.delete("c >= 'a5' AND c < 'b'")
    left = [value for value in A if value < "a5"]
    same(uri, [category(left), category(B)], 2)
    ds.optimize.compact_files()
    same(uri, [category(B), category(left)], 2)
    assert sum(f.num_deletions for f in lk.dataset(uri).get_fragments()) == 0


def test_no_fragment_is_read_twice_to_plan_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where a run is cut, and not because an index makes two plans of it."""
    uri = str(tmp_path / "d")
    for number in range(5):
        words = category([f"{number} {word}" for word in range(50)])
        rows = pa.table({"c": words, "n": pa.array(range(50))})
        lance.write_dataset(rows, uri, mode="append" if number else "create")
    lance.dataset(uri).create_scalar_index("n", "BTREE")
    lance.write_dataset(rows, uri, mode="append")
    read: list[int] = []

    def noted(source: Any, request: Any) -> Any:
        read.append(source.fragment.id)
        return scan_fragment(source, request)

    monkeypatch.setattr(compact_plan, "scan_fragment", noted)
    ds = lk.dataset(uri)
    lk.optimize.Compaction.plan(ds)
    assert sorted(read) == sorted(set(read))
    assert len(read) >= 5


def test_rows_that_no_array_holds_together_come_in_several(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    appended(uri, [category(A), category(B), category(C)], "2.2")
    ds, rows = lk.dataset(uri), A + B + C
    places = [250, 3, 150, 151, 3, 99, 100, *range(300)]
    assert ds.take(places)["c"].to_pylist() == [rows[place] for place in places]
    assert set(ds.sample(250)["c"].to_pylist()) <= set(rows)
    batches = list(ds.to_batches(batch_size=1000))
    assert [value for batch in batches for value in batch["c"].to_pylist()] == rows


def test_keys_of_16_bits_count_too(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.uint16(), pa.int64())
    parts = [
        pa.DictionaryArray.from_arrays(
            pa.array(range(40_000), pa.uint16()), pa.array(range(start, start + 40_000))
        )
        for start in (0, 20_000, 50_000)
    ]
    uri = str(tmp_path / "d")
    appended(uri, parts, "2.2")
    assert lk.dataset(uri).schema.field("c").type == kind
    lk.dataset(uri).optimize.compact_files()
    same(uri, [parts[2], parts[0], parts[1]], 2)


def test_a_file_of_its_own_is_refused(tmp_path: Path) -> None:
    table = pa.table({"c": pa.chunked_array([category(A), category(CROWDED)])})
    with pytest.raises(errors.UnsupportedTypeError, match=r"'c'.*distinguish.*int32"):
        write_ours(table)
    with (
        pytest.raises(errors.UnsupportedTypeError, match="distinguish"),
        lk.file.LanceFileWriter(tmp_path / "a.lance", table.schema) as writer,
    ):
        writer.write_batch(table)


@pytest.mark.parametrize("kind", PLAIN, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_dictionaries_of_times_are_refused_with_the_cast_that_helps(
    tmp_path: Path, kind: Any, way: str
) -> None:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    items = pa.array([0, 86_400_000 if pa.types.is_date64(kind) else 1], width).cast(kind)
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), items)
    table = pa.table({"c": WAYS[way](values)})
    uri = str(tmp_path / "d")
    with pytest.raises(Exception, match="dictionary type"):
        lance.write_dataset(table, str(tmp_path / "theirs"))
    with pytest.raises(errors.UnsupportedTypeError, match=r"'c.*Cast the column to") as found:
        lk.write_dataset(table, uri)
    assert str(kind) in str(found.value)
    ds = lk.write_dataset({"k": [1, 2, 3]}, uri)
    with pytest.raises(errors.UnsupportedTypeError, match="Cast the column to"):
        ds.add_columns(table)
    plain = pa.table({"c": WAYS[way](values.dictionary_decode())})
    lk.write_dataset(plain, uri, mode="overwrite")
    assert lance.dataset(uri).to_table()["c"].to_pylist() == plain["c"].to_pylist()


def test_what_is_there_already_is_read_and_can_be_cast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a release before wrote it."""
    uri = tmp_path / "d"
    items = pa.array([0, 1], pa.int32()).cast(pa.date32())
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), items)
    with monkeypatch.context() as before:
        before.setattr(logical_types, "may_be_category", lambda kind: True)
        before.setattr("lancekit._file.columns.limits.may_be_category", lambda kind: True)
        lk.write_dataset(pa.table({"c": values}), uri)
    ds = lk.dataset(uri)
    assert ds.to_table()["c"].to_pylist() == values.to_pylist()
    with pytest.raises(errors.UnsupportedTypeError, match=r"Cast the column to date32"):
        ds.insert(pa.table({"c": values.dictionary_decode()}))
    ds.alter_columns({"path": "c", "data_type": pa.date32()})
    ds.insert(pa.table({"c": values.dictionary_decode()}))
    assert lance.dataset(str(uri)).to_table()["c"].to_pylist() == values.to_pylist() * 2
