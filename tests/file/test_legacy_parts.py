"""Legacy files of every type, as the reference writes them, read as the reference reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import NotOfferedError, UnsupportedFeatureError
from lancekit.file import LanceFileReader
from tests.file.columns import columns, with_nulls
from tests.file.nested import SHARES, assert_same_nested, nested_columns

ROWS, GROUP = 300, 64
PATTERNS = ("none", "some", "all")

#: types with values that Arrow does not take for values of theirs, and columns that are large
_SKIPPED = ("date64", "time32", "time64", "binary huge", "fixed_size_binary[300]")


def _arrays() -> Iterator[tuple[str, pa.Array]]:
    for name, array in columns(ROWS):
        if not name.startswith(_SKIPPED) and "128]" not in name:
            yield name, array
    yield from nested_columns(ROWS, "2.1")
    yield "date64", pa.array(np.arange(ROWS) * 86_400_000).cast(pa.timestamp("ms")).cast("date64")
    for unit in ("s", "ms"):
        yield f"time32 {unit}", pa.array(np.arange(ROWS, dtype=np.int32)).cast(pa.time32(unit))
    for unit in ("us", "ns"):
        yield f"time64 {unit}", pa.array(np.arange(ROWS)).cast(pa.time64(unit))
    words = pa.array(["", "b", "c"])
    for kind in (pa.int8(), pa.uint16(), pa.int64()):
        keys = pa.array(np.arange(ROWS) % 3).cast(kind)
        yield f"dictionary {kind}", pa.DictionaryArray.from_arrays(keys, words)
        numbers = pa.array([7, 8, 9], pa.int32())
        yield f"dictionary {kind} of numbers", pa.DictionaryArray.from_arrays(keys, numbers)


def _write(table: pa.Table, path: Path) -> bool:
    """Write with the reference, whose 0.1 does not have every type; its panics fill the screen."""
    try:
        lance.write_dataset(table, path, data_storage_version="legacy", max_rows_per_group=GROUP)
        lance.dataset(path).to_table()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return False
    return True


def _written(table: pa.Table, path: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield datasets of the columns that can be written, some together."""
    rest = [table.column_names[at : at + 24] for at in range(1, table.num_columns, 24)]
    for number in count():
        if not rest:
            return
        names = rest.pop()
        place = path / str(number)
        if _write(table.select(["id", *names]), place):
            yield place, names
        elif len(names) > 1:
            rest += [names[: len(names) // 2], names[len(names) // 2 :]]


@pytest.mark.cover
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("share", SHARES)
def test_reads_what_the_reference_reads(
    tmp_path: Path, pattern: str, share: int, capfd: pytest.CaptureFixture[str]
) -> None:
    arrays = list(_arrays())[share :: len(SHARES)]
    named = {name: with_nulls(array, pattern) for name, array in arrays}
    fields = [pa.field(name, array.type) for name, array in named.items()]
    table = pa.table(
        [pa.array(np.arange(ROWS)), *(named[field.name] for field in fields)],
        schema=pa.schema([pa.field("id", pa.int64()), *fields]),
    )
    seen = 0
    here = np.array([0, 1, 2, 63, 64, 129, 200, ROWS - 1])
    for path, names in _written(table, tmp_path):
        expected, ours = lance.dataset(path).to_table(), lk.dataset(path)
        assert ours.data_storage_version == "0.1"
        found = ours.to_table()
        assert found.schema == expected.schema
        some = ours.to_table(filter="id % 7 = 3 or id > 250", offset=2)
        kept = expected.filter((np.arange(ROWS) % 7 == 3) | (np.arange(ROWS) > 250)).slice(2)
        taken = ours.take(here)
        middle = pa.Table.from_batches(ours.to_batches(offset=60, limit=130, batch_size=50))
        for name in names:
            whole = expected[name].combine_chunks()
            assert_same_nested(found[name], whole, name)
            assert_same_nested(some[name], kept[name].combine_chunks(), name)
            assert_same_nested(taken[name], whole.take(pa.array(here)), name)
            assert_same_nested(middle[name], whole.slice(60, 130), name)
            seen += 1
        for name in names[:3]:
            alone = ours.to_table(columns=[name])[name]
            assert_same_nested(alone, expected[name].combine_chunks(), name)
        ours.validate(deep=True)
    capfd.readouterr()
    assert seen > 45


def test_parts_of_structs_and_lists(tmp_path: Path) -> None:
    inner = [{"x": k, "y": f"t{k}" * (k % 3)} for k in range(ROWS)]
    rows = [{"a": k, "l": inner[k : k + k % 4], "n": inner[k]} for k in range(ROWS)]
    table = pa.table({"id": np.arange(ROWS), "s": pa.array(rows)})
    assert _write(table, tmp_path / "d.lance")
    theirs, ours = lance.dataset(tmp_path / "d.lance"), lk.dataset(tmp_path / "d.lance")
    for columns_ in (["s.a"], ["s.n.y", "id"], ["s.l"], ["id"], ["s"]):
        assert ours.to_table(columns=columns_).equals(theirs.to_table(columns=columns_))
        where = {"filter": "s.n.x > 200", "with_row_id": True, "with_row_address": True}
        found = ours.to_table(columns=columns_, **where)
        assert found.equals(theirs.to_table(columns=columns_, **where))


def test_strings_that_cannot_be_null_may_be_empty(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("s", pa.string(), nullable=False), pa.field("t", pa.string())])
    table = pa.table([pa.array(["a", "", "c"]), pa.array(["a", "", None])], schema=schema)
    assert _write(table, tmp_path / "d.lance")
    found = lk.dataset(tmp_path / "d.lance").to_table()
    assert found.equals(lance.dataset(tmp_path / "d.lance").to_table())
    assert found.to_pydict() == {"s": ["a", "", "c"], "t": ["a", None, None]}


def test_blobs_as_what_they_are_and_where(tmp_path: Path) -> None:
    """The reference cannot show them: its descriptors are not what is stored."""
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = [b"one", None, b"three" * 50]
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    table = pa.table([pa.array([0, 1, 2]), pa.array(values, pa.large_binary())], schema=schema)
    lance.write_dataset(table, tmp_path / "d.lance", data_storage_version="legacy")
    ours = lk.dataset(tmp_path / "d.lance")
    assert ours.to_table(blob_handling="all_binary")["b"].to_pylist() == values
    places = ours.to_table()["b"].to_pylist()
    assert [place and place["size"] for place in places] == [3, None, 250]
    assert [blob and blob.read() for blob in ours.take_blobs("b", indices=[0, 2])] == values[::2]


def test_a_file_by_itself(tmp_path: Path) -> None:
    table = pa.table(
        {"n": range(500), "s": [{"x": str(k), "l": [k] * (k % 3)} for k in range(500)]}
    )
    assert _write(table, tmp_path / "d.lance")
    (file,) = (tmp_path / "d.lance/data").iterdir()
    reader = LanceFileReader(str(file))
    told = reader.metadata()
    assert (told.major_version, told.minor_version, told.num_rows) == (0, 2, 500)
    assert "n: 8 pages, 4,000 bytes, plain values" in str(told)
    assert "s.x: 8 pages" in str(told)
    assert told.num_data_bytes < sum(told.columns[at].size_bytes for at in range(5)) + 1
    assert reader.read_all().to_table().equals(table)
    assert reader.take_rows([3, 70, 499]).to_table().equals(table.take([3, 70, 499]))
    assert pa.Table.from_batches(reader.read_range(9, 300).to_batches()).equals(table.slice(9, 300))


def test_versions_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotOfferedError, match="format 0\\.1 can be read, but not written"):
        lk.write_dataset(pa.table({"a": [1]}), tmp_path / "d", data_storage_version="legacy")
    empty = pa.table({"a": pa.array([b""] * 3, pa.binary(0))})
    lance.write_dataset(empty, tmp_path / "e", data_storage_version="legacy")
    with pytest.raises(UnsupportedFeatureError, match=r"fixed_size_binary\[0\] in a file of 0\.1"):
        lk.dataset(tmp_path / "e").to_table()
