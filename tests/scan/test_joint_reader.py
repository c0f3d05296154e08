"""Small fragments read together: the same as one by one, and as pylance reads them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

import lancekit as lk
from lancekit._file.concatenated import join_files
from lancekit._file.reader import FileReader
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.joint_reader import JointReader, together
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._storage.places import open_store
from lancekit.errors import CorruptFileError

HIDDEN = ("_rowid", "_rowaddr", "_rowoffset")


SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "class": pa.dictionary(pa.int32(), pa.string()),
        "amount": pa.float64(),
        "tags": pa.list_(pa.string()),
        "place": pa.struct({"x": pa.int64(), "y": pa.list_(pa.int64())}),
        "vector": pa.list_(pa.float32(), 4),
    }
)


def plain(table: pa.Table) -> pa.Table:
    """Take dictionaries apart: equal values may have other indices."""
    kinds = [getattr(kind, "value_type", kind) for kind in table.schema.types]
    fields = [
        field.with_type(kind) if pa.types.is_dictionary(field.type) else field
        for field, kind in zip(table.schema, kinds, strict=True)
    ]
    return table.cast(pa.schema(fields)).combine_chunks()


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": list(ids),
            # another symbol table in each fragment
            "name": [f"customer {chr(97 + first % 23) * 5}-{i * 7919 % 100_003}" for i in ids],
            "class": [f"class {i % 7}" for i in ids],
            "amount": [None if i % 11 == 0 else i / 7 for i in ids],
            "tags": [[f"t{i % 5}"] * (i % 4) if i % 13 else None for i in ids],
            "place": [{"x": i, "y": [i] * 2} if i % 9 else None for i in ids],
            "vector": [[float(i)] * 4 for i in ids],
        },
        SCHEMA,
    )


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("together") / "d"
    module: Any = lance if request.param == "2.1" else lk
    for number in range(30):
        module.write_dataset(
            rows(number * 1000, 1 if number == 9 else 700 + number),
            path,
            mode="append" if number else "create",
            data_storage_version=request.param,
            enable_stable_row_ids=request.param == "2.1",
        )
    ds = lk.dataset(path)
    ds.delete("id >= 4000 AND id < 5000 OR id % 10 = 3")
    ds.add_columns({"twice": "id * 2"})
    lk.write_dataset(
        rows(90_000, 500).append_column("twice", pa.array(range(500))), path, mode="append"
    )
    return path


def one_by_one(sources: tuple[FragmentSource, ...], request: ScanRequest) -> pa.Table:
    return pa.concat_tables(Scan(read=Read((s,)), request=request).to_table() for s in sources)


def test_all_rows(path: Path) -> None:
    ds = lk.dataset(path)
    sources = tuple(fragment_sources(ds._snapshot))
    groups = list(together(sources, 1 << 20))
    assert [len(group) for group in groups] == [29, 1]  # the last has the new column in its file
    request = ScanRequest(outputs=plan_columns(sources[0].schema, None, HIDDEN))
    expected = one_by_one(sources, request)
    found = Scan(read=Read(sources), request=request).to_table()
    assert plain(found) == plain(expected)
    theirs = lance.dataset(path)
    assert plain(ds.to_table()) == plain(theirs.to_table())
    assert ds.count_rows() == theirs.count_rows()


@pytest.mark.parametrize(
    "where", ["id % 100 = 7", "amount > 100 AND class = 'class 3'", "id < 0", "place.x > 20000"]
)
def test_a_filter(path: Path, where: str) -> None:
    ds, theirs = lk.dataset(path), lance.dataset(path)
    columns = ["name", "id"]
    found = ds.to_table(columns, where, with_row_id=True)
    assert found == theirs.to_table(columns, where, with_row_id=True)
    assert ds.count_rows(where) == theirs.count_rows(where)
    assert ds.to_table(columns, where, limit=5, offset=3) == found.select(columns).slice(3, 5)


def test_versions_of_rows(path: Path) -> None:
    sources = tuple(fragment_sources(lk.dataset(path)._snapshot))
    names = ["_row_last_updated_at_version", "_row_created_at_version"]
    request = ScanRequest(outputs=plan_columns(sources[0].schema, ["id"], names))
    found = Scan(read=Read(sources), request=request).to_table()
    assert found.equals(one_by_one(sources, request))


@pytest.mark.parametrize("count", [0, 1, 40, 3000])
def test_rows_by_position(path: Path, count: int) -> None:
    ds, theirs = lk.dataset(path), lance.dataset(path)
    everything = ds.to_table()
    some = np.random.default_rng(count).integers(0, everything.num_rows, count)
    found = ds.take(some)
    assert plain(found) == plain(everything.take(pa.array(some)))
    if count:
        assert plain(found) == plain(theirs.take(some))


@pytest.mark.cover
@pytest.mark.parametrize("where", ["id % 50 = 7", "name LIKE '%1'", "id < 3000", "id < 0"])
def test_rows_are_deleted(path: Path, tmp_path: Path, where: str) -> None:
    ours, theirs = (shutil.copytree(path, tmp_path / side) for side in ("ours", "theirs"))
    found = lk.dataset(ours).delete(where)
    assert found == lance.dataset(theirs).delete(where)
    for module in (lk, lance):
        assert plain(module.dataset(ours).to_table()) == plain(module.dataset(theirs).to_table())


def test_a_large_fragment_is_read_in_blocks(path: Path) -> None:
    sources = tuple(fragment_sources(lk.dataset(path)._snapshot))
    outputs = plan_columns(sources[0].schema, ["id", "vector"], HIDDEN)
    whole = Scan(read=Read(sources), request=ScanRequest(outputs=outputs))
    small = Scan(
        read=Read(sources),
        request=ScanRequest(outputs=outputs, block_bytes=1 << 12, batch_rows=100),
    )
    tables = list(small.tables())
    assert max(table.num_rows for table in tables) == 100
    assert pa.concat_tables(tables).equals(whole.to_table())


def test_pages_with_symbol_tables_of_their_own(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    readers = []
    for number in range(6):
        words = [f"{chr(97 + number) * 9} {n * 7919 % 100_003} of many" for n in range(12_000)]
        with LanceFileWriter(tmp_path / f"{number}.lance") as writer:
            writer.write_batch(pa.table({"name": words}))
        readers.append(FileReader.open(store.open(f"{number}.lance")))
    joined = join_files(readers)
    tables = {
        page.encoding.mini_block.value_compression.fsst.symbol_table
        for page in joined.container.pages(0)
    }
    assert len(tables) == 6
    assert len(joined._field(readers[0].columns[0])._reader.columns[0].runs) == 1
    expected = pa.concat_tables(reader.read(reader.columns) for reader in readers)
    columns = readers[0].columns
    assert joined.read(columns).equals(expected)
    for some in (range(11_990, 12_010), range(24_000, 24_001), range(71_990, 72_000)):
        assert joined.read(columns, some).equals(expected.slice(some.start, some.stop - some.start))
    few = np.array([0, 1, 11_999, 12_000, 35_999, 48_000, 71_999])
    assert joined.read(columns, few).equals(expected.take(pa.array(few)))


def test_an_error_names_the_file(tmp_path: Path) -> None:
    for number in range(5):
        lk.write_dataset(rows(number, 300), tmp_path / "d", mode="append" if number else "create")
    ds = lk.dataset(tmp_path / "d")
    name = ds._snapshot.manifest.fragments[3].files[0].path
    file = tmp_path / "d" / "data" / name
    data = bytearray(file.read_bytes())
    (buffer, *_) = lk.file.LanceFileReader(str(file)).metadata().columns[0].pages[0].buffers
    data[buffer.position : buffer.position + 2] = b"\xff\xff"
    file.write_bytes(data)
    for read in (
        ds.to_table,
        lambda: ds.take([0, 500, 1000, 1100]),
        lambda: ds.to_table(filter="id > 3"),
    ):
        with pytest.raises(CorruptFileError, match=name):
            read()


def test_readers_share_nothing_with_blobs_or_objects() -> None:
    ds = lk.write_dataset({"x": [1]}, "memory://apart")
    ds = lk.write_dataset({"x": [2]}, "memory://apart", mode="append")
    sources = list(fragment_sources(ds._snapshot))
    assert [len(group) for group in together(sources, 100)] == [1, 1]
    assert isinstance(JointReader(sources[:1]).physical_rows, int)
