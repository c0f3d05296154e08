"""Pages that a compaction copies: the same rows for all readers, and small pages are joined."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._file.container.footer import StoredPage
from lancekit._pipeline.compact_rows import LARGE_PAGE, columns_to_copy
from lancekit._pipeline.write_rows import WriteTask
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import fragment_sources
from lancekit.errors import CorruptFileError
from lancekit.options import options

ROWS, FRAGMENTS = 400, 5
WIDE = LARGE_PAGE // ROWS // 4 + 8


def table(rows: int = ROWS * FRAGMENTS, dimension: int = 16) -> pa.Table:
    """Columns of many kinds, some with nulls, of which some are empty in the first fragment."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 1000, rows)
    late = [None if i < ROWS else i for i in range(rows)]
    items = pa.array(rng.standard_normal(rows * dimension).astype(np.float32))
    return pa.table(
        {
            "id": np.arange(rows),
            "code": pa.array(numbers, mask=numbers % 7 == 0),
            "late": pa.array(late, pa.int64()),
            "word": [None if n % 11 == 0 else f"word {n}" * (n % 5) for n in numbers.tolist()],
            "text": ["".join(map(chr, rng.integers(97, 122, 60))) for _ in range(rows)],
            "tags": [None if n % 13 == 0 else [f"t{n % 3}"] * (n % 4) for n in numbers.tolist()],
            "place": pa.StructArray.from_arrays(
                [pa.array(numbers), pa.array([[n] for n in numbers.tolist()])], ["x", "y"]
            ),
            "same": ["constant"] * rows,
            "vector": pa.FixedSizeListArray.from_arrays(items, dimension),
        }
    )


def pages(ds: Any) -> dict[str, int]:
    """Return how many pages each top-level column of each fragment has, by its first column."""
    found: dict[str, int] = {}
    for source in fragment_sources(ds._snapshot):
        reader = FragmentReader(source).file(0)
        for column in reader.columns:
            name = column.field.name
            found[name] = found.get(name, 0) + len(reader.container.pages(column.columns[0]))
    return found


def check(path: Path, expected: pa.Table) -> None:
    """Compare all rows, some and those of a filter, here and in pylance, and the cache with it."""
    ours, theirs = lk.dataset(path), lance.dataset(path)
    assert ours.to_table().equals(expected)
    assert theirs.to_table().equals(expected)
    places = np.sort(np.random.default_rng(3).choice(expected.num_rows, 60, replace=False))
    assert ours.take(places.tolist()).equals(expected.take(places))
    assert theirs.take(places.tolist()).equals(expected.take(places))
    some = ours.to_table(filter="code > 500 AND id < 900")
    assert some.equals(theirs.to_table(filter="code > 500 AND id < 900"))
    assert some.num_rows > 0
    ours.validate(deep=True)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("module", [lk, lance], ids=["lancekit", "pylance"])
def test_all_pages_are_copied_if_that_is_asked_for(
    tmp_path: Path, module: Any, version: str
) -> None:
    path, rows = tmp_path / "d.lance", table()
    module.write_dataset(rows, path, max_rows_per_file=ROWS, data_storage_version=version)
    before = pages(ds := lk.dataset(path))
    ds.optimize.compact_files(compaction_mode="try_binary_copy")
    assert len(ds.get_fragments()) == 1
    assert pages(ds) == before
    check(path, rows)


def test_only_large_pages_are_copied_by_themselves(tmp_path: Path) -> None:
    path, rows = tmp_path / "d.lance", table(dimension=WIDE)
    ds = lk.write_dataset(rows, path, max_rows_per_file=ROWS)
    assert set(pages(ds).values()) == {FRAGMENTS}
    ds.optimize.compact_files()
    assert pages(ds) == {name: FRAGMENTS if name == "vector" else 1 for name in rows.column_names}
    check(path, rows)


def test_a_dataset_of_nothing_else(tmp_path: Path) -> None:
    """No row is read: how many there are, the pages say."""
    path, rows = tmp_path / "d.lance", table(dimension=WIDE).select(["vector"])
    ds = lk.write_dataset(rows, path, max_rows_per_file=ROWS)
    ds.optimize.compact_files()
    assert pages(ds) == {"vector": FRAGMENTS}
    assert lk.dataset(path).to_table().equals(rows)
    assert lance.dataset(path).to_table().equals(rows)


def test_all_is_written_anew_if_that_is_asked_for(tmp_path: Path) -> None:
    path, rows = tmp_path / "d.lance", table(dimension=WIDE)
    ds = lk.write_dataset(rows, path, max_rows_per_file=ROWS)
    ds.optimize.compact_files(compaction_mode="reencode")
    assert set(pages(ds).values()) == {1}
    check(path, rows)


def test_rows_keep_their_ids(tmp_path: Path) -> None:
    path, rows = tmp_path / "d.lance", table(dimension=WIDE)
    ds = lk.write_dataset(rows, path, max_rows_per_file=ROWS, enable_stable_row_ids=True)
    before = ds.to_table(["id"], with_row_id=True)
    ds.optimize.compact_files()
    assert pages(ds)["vector"] == FRAGMENTS
    assert ds.to_table(["id"], with_row_id=True).equals(before)
    assert lance.dataset(path).to_table(["id"], with_row_id=True).equals(before)


def _deleted(path: Path) -> None:
    lk.dataset(path).delete("id = 777")


def _with_another_column(path: Path) -> None:
    lk.dataset(path).add_columns({"twice": "id * 2"})


def _appended_without_a_column(path: Path) -> None:
    rows = lk.dataset(path).to_table()
    lk.dataset(path).drop_columns(["late"])
    lk.write_dataset(rows.drop_columns(["late"]), path, mode="append")


@pytest.mark.parametrize("change", [_deleted, _with_another_column, _appended_without_a_column])
def test_fragments_that_are_not_alike_are_read(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "d.lance"
    lk.write_dataset(table(dimension=WIDE), path, max_rows_per_file=ROWS)
    change(path)
    expected = lk.dataset(path).to_table()
    ds = lk.dataset(path)
    ds.optimize.compact_files(compaction_mode="try_binary_copy")
    assert pages(ds)["id"] == 1
    check(path, expected)


@pytest.mark.parametrize(
    "alteration",
    [
        {"path": "vector", "name": "other"},
        {"path": "code", "data_type": pa.int32()},
        {"path": "id", "nullable": True},
    ],
    ids=["renamed", "cast", "nullable"],
)
def test_a_column_that_is_another_now_is_read(tmp_path: Path, alteration: Any) -> None:
    path, rows = tmp_path / "d.lance", table()
    schema = rows.schema.set(0, rows.schema.field("id").with_nullable(False))
    ds = lk.write_dataset(rows.cast(schema), path, max_rows_per_file=ROWS)
    ds.alter_columns(alteration)
    expected = ds.to_table()
    ds.optimize.compact_files(compaction_mode="try_binary_copy")
    assert pages(ds)[alteration.get("name", alteration["path"])] == 1
    check(path, expected)


def test_what_has_values_elsewhere_is_read(tmp_path: Path) -> None:
    """Blobs, and dictionaries, whose values go together or not."""
    path = tmp_path / "d.lance"
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    kind = pa.field("kind", pa.dictionary(pa.int8(), pa.string()))
    pairs = pa.field("pairs", pa.list_(pa.struct({"a": pa.int64()}), 2))
    schema = pa.schema([pa.field("id", pa.int64()), blob, kind, pairs])
    rows = pa.table(
        {
            "id": range(60),
            "blob": [bytes([i]) * 9 for i in range(60)],
            "kind": pa.array([f"k{i // 20}" for i in range(60)]).dictionary_encode(),
            "pairs": [[{"a": i}, {"a": -i}] for i in range(60)],
        },
        schema=pa.schema([f if f.name != "kind" else f.with_type(kind.type) for f in schema]),
    )
    ds = lk.write_dataset(rows, path, max_rows_per_file=20, data_storage_version="2.2")
    wanted = ds.to_table(["id", "kind", "pairs"]).to_pylist()
    ds.optimize.compact_files(compaction_mode="try_binary_copy")
    found = pages(ds)
    assert (found["id"], found["blob"], found["kind"]) == (3, 1, 1)
    assert ds.to_table(["id", "kind", "pairs"]).to_pylist() == wanted
    assert [b.readall() for b in ds.take_blobs("blob", indices=[3, 59])] == [b"\3" * 9, b";" * 9]
    theirs = lance.dataset(path).to_table(columns=["id", "kind"]).to_pylist()
    assert theirs == [{name: row[name] for name in ("id", "kind")} for row in wanted]


def test_files_that_are_to_have_checksums_are_read(tmp_path: Path) -> None:
    """Those of damaged bytes would say that they are right."""
    path, rows = tmp_path / "d.lance", table()
    ds = lk.write_dataset(rows, path, max_rows_per_file=ROWS)
    with options(checksums=True):
        ds.optimize.compact_files(compaction_mode="try_binary_copy")
    assert pages(ds)["id"] == 1
    with options(verify_checksums=True):
        assert lk.dataset(path).to_table().equals(rows)


def test_what_is_written_decides(tmp_path: Path) -> None:
    path, rows = tmp_path / "d.lance", table()
    ds = lk.write_dataset(rows, path, max_rows_per_file=ROWS)
    sources = tuple(fragment_sources(ds._snapshot))
    version = ds._snapshot.manifest.storage_version
    task = WriteTask(
        store=sources[0].location.store,
        schema=ds._snapshot.manifest.schema,
        storage_version=version,
    )
    copied = columns_to_copy(sources, task, 0)
    assert set(copied) == set(rows.column_names)
    page = copied["place"][1][0]
    assert isinstance(page, StoredPage)
    assert len(copied["place"]) == 2
    assert [len(column) for column in copied["place"]] == [FRAGMENTS, FRAGMENTS]
    assert columns_to_copy(sources, task, LARGE_PAGE) == {}
    other = "2.1" if version == "2.2" else "2.2"
    for changed in (
        {"storage_version": other},
        {"optimize_for": "size"},
        {"max_page_bytes": 1000},
        {"max_bytes_per_file": 1000},
        {"checksums": True},
    ):
        assert columns_to_copy(sources, dataclasses.replace(task, **changed), 0) == {}


def test_a_file_that_is_cut_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(table(), path, max_rows_per_file=ROWS)
    name = ds.get_fragments()[2].metadata.files[0].path
    file = path / "data" / name
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(CorruptFileError, match=name.removesuffix(".lance")):
        lk.dataset(path).optimize.compact_files(compaction_mode="try_binary_copy")
    assert len(list((path / "data").iterdir())) == FRAGMENTS
