"""Tables with blobs of both kinds: an append of pylance 14 in 2.2 to a table of 2.0 or 2.1.

The schema has blobs of the second kind from then on; older files still store the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import UnsupportedTypeError
from tests.support.interplay import NOW

MARK = {"lance-encoding:blob": "true"}
BLOB = pa.field("b", pa.large_binary(), metadata=MARK)
SCHEMA = pa.schema(
    [("id", pa.int64()), BLOB, pa.field("s", pa.struct([BLOB, pa.field("n", pa.int32())]))]
)
LARGE = b"x" * 70_000
STORED = {0: b"zero", 1: None, 2: b"", 3: LARGE}
Blobs = Mapping[int, bytes | None]


def v1_rows(blobs: Blobs) -> pa.Table:
    return pa.table(
        [
            list(blobs),
            list(blobs.values()),
            [None if id_ == 1 else {"b": data, "n": id_} for id_, data in blobs.items()],
        ],
        schema=SCHEMA,
    )


def v2_rows(blobs: Blobs) -> pa.Table:
    return pa.table({"id": list(blobs), "b": lk.blob_array(blobs.values())})


@pytest.fixture(params=["2.0", "2.1"])
def mixed(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Make a table with four rows of v1 files, and two of a file of 2.2."""
    uri = str(tmp_path / "t")
    rows = v1_rows(STORED)
    if request.param == "2.0":  # nulls of structs have no place there
        rows = rows.set_column(2, SCHEMA.field("s"), rows["s"].fill_null({"b": None, "n": None}))
    lance.write_dataset(rows, uri, data_storage_version=request.param, enable_stable_row_ids=True)
    lance.write_dataset(
        v1_rows({4: b"four", 5: LARGE}), uri, mode="append", data_storage_version="2.2"
    )
    return uri


def both(uri: str, **at: Any) -> dict[int, bytes | None]:
    """Read everything by both libraries, in every form; return the blobs by id."""
    found: list[Any] = []
    for module in (lance, lk):
        ds: Any = module.dataset(uri, **at)
        binary = ds.to_table(blob_handling="all_binary")
        shown = ds.to_table().to_pylist()
        blobs = ds.read_blobs("b", indices=list(range(ds.count_rows())))
        found.append((binary.to_pylist(), shown, blobs))
    theirs, ours = found
    assert ours == theirs
    lk.dataset(uri, **at).validate(deep=True)
    binary, _, blobs = ours
    assert [row["b"] for row in binary] == [data for _, data in blobs]
    return {row["id"]: row["b"] for row in binary}


EXPECTED = {**STORED, 4: b"four", 5: LARGE}


def test_every_way_to_read(mixed: str) -> None:
    assert both(mixed) == EXPECTED
    ds, theirs = lk.dataset(mixed), lance.dataset(mixed)
    assert ds.take([3, 0, 5]).to_pylist() == theirs.take([3, 0, 5]).to_pylist()
    assert ds.to_table(["s"]).to_pylist() == theirs.to_table(["s"]).to_pylist()
    nested = ds.take_blobs("s.b", indices=[0, 3, 5])
    assert [blob and blob.readall() for blob in nested] == [b"zero", LARGE, LARGE]
    for condition in ("b IS NULL", "b.size > 10", "s.b IS NULL AND id > 0", "_rowid = 3"):
        want = theirs.to_table(["id"], filter=condition)["id"].to_pylist()
        assert ds.to_table(["id", "b"], filter=condition)["id"].to_pylist() == want
    (blob,) = ds.take_blobs("b", ids=[3])
    assert blob is not None
    assert blob.read_range(10, 5) == b"xxxxx"
    assert ds.checkout_version(1).read_blobs("b", indices=[0])[0][1] == b"zero"


def test_each_library_changes_what_the_other_wrote(mixed: str) -> None:
    expected = dict(EXPECTED)
    ds = lk.dataset(mixed)
    lk.write_dataset(v2_rows({6: b"v2"}), ds, mode="append")
    lk.write_dataset(v1_rows({7: b"v1"}), mixed, mode="append")
    lance.write_dataset(v1_rows({8: b"old"}), mixed, mode="append", data_storage_version="2.1")
    expected |= {6: b"v2", 7: b"v1", 8: b"old"}
    assert both(mixed) == expected
    lance.dataset(mixed).delete("id = 2")
    ds = lk.dataset(mixed)
    ds.update({"id": "id + 100"}, where="id IN (0, 5)")  # pylance: "requires file version >= 2.2"
    del expected[2]
    expected |= {100: expected.pop(0), 105: expected.pop(5)}
    assert both(mixed) == expected
    upsert = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(v2_rows({3: b"merged", 9: b"new"}))
    expected |= {3: b"merged", 9: b"new"}
    ds.merge_insert("id").when_matched_update_all().execute(pa.table({"id": [4]}))
    assert both(mixed) == expected
    ds.add_columns({"twice": "id * 2", "bytes": "b.size"})
    ds.alter_columns({"path": "twice", "data_type": pa.int32()})
    ds.drop_columns(["twice"])
    assert both(mixed) == expected
    ds.optimize.compact_files()
    assert both(mixed) == expected
    assert {file.version for f in ds.get_fragments() for file in f.metadata.files} == {(2, 2)}
    ds.cleanup_old_versions(older_than=NOW, delete_unverified=True)
    assert both(mixed) == expected
    # all files are of 2.2 now, and so is the table: pylance changes it again
    assert lance.dataset(mixed).data_storage_version == "2.2"
    lance.dataset(mixed).update({"id": "id + 1000"}, where="id = 100")
    lance.dataset(mixed).optimize.compact_files()
    expected[1100] = expected.pop(100)
    assert both(mixed) == expected


def test_clones_and_branches(mixed: str, tmp_path: Path) -> None:
    ds = lk.dataset(mixed)
    shallow, deep, theirs = (str(tmp_path / name) for name in ("shallow", "deep", "theirs"))
    ds.shallow_clone(shallow, ds.version)
    ds.deep_clone(deep, ds.version)
    lance.dataset(mixed).shallow_clone(theirs, ds.version)
    for clone in (shallow, deep, theirs):
        lk.dataset(clone).delete("id = 4")
        lk.dataset(clone).optimize.compact_files()
        assert both(clone) == {k: v for k, v in EXPECTED.items() if k != 4}
    branch = ds.create_branch("x")
    branch.update({"id": "id + 1000"}, where="id = 3")
    lk.write_dataset(v2_rows({6: b"main"}), ds, mode="append")
    ds.branches.merge("x", on="id")
    expected = {**EXPECTED, 6: b"main", 1003: EXPECTED[3]}
    del expected[3]
    assert both(mixed) == expected


def test_differences_over_the_append(mixed: str) -> None:
    ds = lk.dataset(mixed)
    ds.update({"id": "id + 100"}, where="id = 0")
    counts = ds.diff(1).counts
    assert (counts.inserted, counts.updated, counts.deleted) == (2, 1, 0)


def test_a_restore_brings_the_first_kind_back(mixed: str) -> None:
    ds = lk.dataset(mixed)
    ds.checkout_version(1).restore()
    if ds.data_storage_version == "2.1":  # pylance shows null blobs of 2.0 as (1, 0)
        assert both(mixed) == STORED
    lk.write_dataset(v1_rows({9: b"nine"}), mixed, mode="append")
    for module in (lance, lk):
        got = module.dataset(mixed).read_blobs("b", indices=[0, 3, 4])
        assert [data for _, data in got] == [b"zero", LARGE, b"nine"]


def test_an_overwrite_keeps_the_second_kind(mixed: str) -> None:
    lk.write_dataset(v2_rows({1: b"one"}), mixed, mode="overwrite")
    assert both(mixed) == {1: b"one"}
    with pytest.raises(UnsupportedTypeError, match=r"2\.1"):
        lk.write_dataset(v2_rows({1: b"one"}), mixed, mode="overwrite", data_storage_version="2.1")


def test_an_older_release_refuses(mixed: str, pylance4: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match="Flags: 258"):
        pylance4('result = lance.dataset(arguments["uri"]).count_rows()', uri=mixed)


@pytest.mark.spark
def test_on_spark(mixed: str) -> None:
    session = lk.spark_session()
    rows = session.read.format("lance").load(mixed).select("id", "b.size").collect()
    assert dict(map(tuple, rows)) == {
        id_: None if data is None else len(data) for id_, data in EXPECTED.items()
    }
    with lk.options(engine="spark"):
        ds = lk.dataset(mixed)
        ds.update({"id": "id + 100"}, where="id = 0")
        ds.optimize.compact_files()
    expected = {**EXPECTED, 100: b"zero"}
    del expected[0]
    assert both(mixed) == expected
