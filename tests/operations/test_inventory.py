"""Files and sizes of datasets: as pylance tells."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    CorruptFileError,
    IndexNotFoundError,
)


def table(rows: int = 1000) -> pa.Table:
    return pa.table(
        {
            "x": pa.array(range(rows)),
            "s": [{"a": i, "b": [str(i), None]} for i in range(rows)],
            "v": pa.array([[1.0, 2.0]] * rows, pa.list_(pa.float32(), 2)),
            "n": pa.nulls(rows, pa.int32()),
        }
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Write a table with deletions, an index, columns in two files, and a branch."""
    uri = str(tmp_path / "t")
    ds = cast(Any, lance).write_dataset(table(), uri, max_rows_per_file=400)
    ds.delete("x < 250")
    ds.create_scalar_index("x", "BTREE")
    ds.add_columns({"y": "x + 1"})
    ds.create_branch("side", 3)
    branch = ds.checkout_version(("side", None))
    cast(Any, lance).write_dataset(table(10), branch, mode="append")
    return uri


def both(uri: str, version: Any = None) -> list[Any]:
    found = [cast(Any, module).dataset(uri) for module in (lance, lk)]
    return found if version is None else [ds.checkout_version(version) for ds in found]


def listed(reader: pa.RecordBatchReader) -> Counter[tuple[Any, ...]]:
    rows = reader.read_all().to_pylist()
    # times are rounded here, and cut off there
    return Counter(tuple(v for k, v in row.items() if k != "last_modified") for row in rows)


@pytest.mark.parametrize("version", [None, 1, ("side", None)])
def test_files_are_those_of_pylance(uri: str, version: Any) -> None:
    theirs, ours = both(uri, version)
    assert ours.version_refs() == theirs.version_refs()
    for method in ("all_files", "tracked_files"):
        mine, other = getattr(ours, method)(), getattr(theirs, method)()
        assert mine.schema == other.schema
        # pylance forgets index files that lie outside of the branch
        found = listed(mine)
        missed = Counter(
            row for row in found if isinstance(version, tuple) and row[-1] == "index file"
        )
        assert found - missed == listed(other)
    times = [
        dict(zip(found["path"].to_pylist(), found["last_modified"].to_pylist(), strict=True))
        for found in (ours.all_files().read_all(), theirs.all_files().read_all())
    ]
    assert all(
        abs(times[0][path] - times[1][path]) <= timedelta(microseconds=1) for path in times[0]
    )


def test_files_of_some_versions(uri: str) -> None:
    theirs, ours = both(uri)
    calls: list[tuple[int, int]] = []

    def note(done: int, of: int) -> None:
        calls.append((done, of))

    found = ours.tracked_files(min_version=3, progress=note)
    assert listed(found) == listed(theirs.tracked_files(min_version=3))
    assert calls == [(1, 2), (2, 2)]
    assert ours.tracked_files(min_version=99).read_all().num_rows == 0


def test_every_file_that_is_there_is_tracked_or_a_ref(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(10)}, str(tmp_path / "t"), max_rows_per_file=3)
    ds.delete("x = 4")
    ds.tags.create("one", 1)
    paths = [set(r.read_all()["path"].to_pylist()) for r in (ds.all_files(), ds.tracked_files())]
    assert paths[0] - paths[1] == {"_refs/tags/one.json", "_versions/latest_version_hint.json"}
    assert paths[1] < paths[0]


@pytest.mark.parametrize("storage", ["2.0", "2.1", "2.2"])
def test_statistics(tmp_path: Path, storage: str) -> None:
    uri = str(tmp_path / "t")
    options: dict[str, Any] = {"max_rows_per_file": 400, "data_storage_version": storage}
    ds = cast(Any, lance).write_dataset(table(), uri, **options)
    ds.delete("x < 250")
    ds.add_columns({"y": "x + 1"})
    ds.drop_columns(["x"])
    theirs, ours = (found.stats for found in both(uri))
    for rows in (1024, 300, 201, 200):
        assert ours.dataset_stats(rows) == theirs.dataset_stats(rows)
    sizes = [(f.id, f.bytes_on_disk) for f in ours.data_stats().fields]
    assert sizes == [(f.id, f.bytes_on_disk) for f in theirs.data_stats().fields]
    assert [f.name for f in ours.data_stats().fields if "." not in f.name] == ds.schema.names
    with pytest.raises(IndexNotFoundError):
        ours.index_stats("i")


def test_a_fragment_is_validated_alone(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(10)}, str(tmp_path / "t"), max_rows_per_file=5)
    first, second = ds.get_fragments()
    (tmp_path / "t" / "data" / second.data_files()[0].path).unlink()
    first.validate()
    first.validate(deep=True)
    with pytest.raises(CorruptFileError):
        second.validate()
