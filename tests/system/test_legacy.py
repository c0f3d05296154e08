"""Tables of 0.1 files: what writes no data file is done to them, and what would is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import NotOfferedError

ROWS = 300


def _table(first: int = 0) -> pa.Table:
    k = range(first, first + ROWS)
    keys = pa.array([i % 2 for i in k], pa.int8())
    return pa.table(
        {
            "id": k,
            "t": [f"t{i}" if i % 7 else None for i in k],
            "s": [{"x": i, "y": [i] * (i % 3)} for i in k],
            "d": pa.DictionaryArray.from_arrays(keys, pa.array(["aa", "bb"])),
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    uri = str(tmp_path / "d.lance")
    options = {"data_storage_version": "legacy", "max_rows_per_group": 64}
    lance.write_dataset(_table(), uri, enable_stable_row_ids=True, **options)
    lance.write_dataset(_table(ROWS), uri, mode="append", max_rows_per_group=64)
    return uri


def _same(path: str) -> pa.Table:
    """Return all rows, of which both libraries say the same."""
    ours, theirs = lk.dataset(path), lance.dataset(path)
    hidden = {"with_row_id": True, "with_row_address": True}
    found, expected = (ds.to_table(**hidden) for ds in (ours, theirs))
    assert found.equals(expected)
    assert ours.count_rows() == theirs.count_rows() == len(found)
    assert ours.data_storage_version == theirs.data_storage_version
    ours.validate(deep=True)
    return found


def _refusals() -> dict[str, Callable[[lk.LanceDataset], Any]]:
    def uri(ds: lk.LanceDataset) -> str:
        return ds.uri

    return {
        "append": lambda ds: lk.write_dataset(_table(), uri(ds), mode="append"),
        "insert": lambda ds: ds.insert(_table()),
        "overwrite": lambda ds: lk.write_dataset(_table(), uri(ds), mode="overwrite"),
        "update": lambda ds: ds.update({"t": "'x'"}, where="id = 3"),
        "merge": lambda ds: ds.merge(pa.table({"id": [1], "more": [2]}), "id"),
        "merge_insert": lambda ds: (
            ds.merge_insert("id").when_matched_update_all().execute(_table())
        ),
        "add": lambda ds: ds.add_columns({"more": "id + 1"}),
        "nulls": lambda ds: ds.add_columns(pa.field("more", pa.int32())),
        "cast": lambda ds: ds.alter_columns({"path": "id", "data_type": pa.int32()}),
        "compact": lambda ds: ds.optimize.compact_files(),
        "newer": lambda ds: lk.write_dataset(
            _table(), uri(ds), mode="append", data_storage_version="2.2"
        ),
        "fragment": lambda ds: lk.LanceFragment.create(uri(ds), _table(), mode="append"),
    }


@pytest.mark.parametrize("name", _refusals())
def test_what_would_write_legacy_files_is_refused(path: str, name: str) -> None:
    ds = lk.dataset(path)
    files = sorted(Path(path).rglob("*"))
    hint = re.escape('write_dataset(rows, uri, mode="overwrite", data_storage_version="2.2")')
    with pytest.raises(NotOfferedError, match=f"0\\.1 can be read, but not written.*{hint}"):
        _refusals()[name](ds)
    assert sorted(Path(path).rglob("*")) == files
    assert _same(path).num_rows == 2 * ROWS


def test_what_writes_no_data_file(path: str) -> None:
    ds = lk.dataset(path)
    ds.delete("id % 5 = 0")
    assert _same(path).num_rows == 480
    ds.tags.create("here", 2)
    ds.update_config({"lance.a": "b"})
    ds.alter_columns({"path": "t", "name": "text"})
    ds.drop_columns(["s.x"])
    found = _same(path)
    assert found.column_names[:4] == ["id", "text", "s", "d"]
    ds.create_scalar_index("id", "BTREE")
    assert "id_idx" in str(lk.dataset(path).explain.to_table(filter="id = 77"))
    for library in (lk, lance):
        rows = library.dataset(path).to_table(filter="id in (77, 78, 80, 511)", columns=["text"])
        assert rows["text"].to_pylist() == [None, "t78", None]
    lk.dataset(path, version="here").restore()
    assert _same(path).drop_columns(["_rowid", "_rowaddr"]).num_rows == 2 * ROWS
    ds = lk.dataset(path)
    ds.delete("id < 300")  # all of a fragment
    ds.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert _same(path)["id"].to_pylist() == list(range(ROWS, 2 * ROWS))
    ds.truncate_table()
    assert _same(path).num_rows == 0


def test_several_files_of_a_fragment(path: str) -> None:
    theirs = lance.dataset(path)
    theirs.delete("id between 10 and 20")
    theirs.add_columns({"more": "cast(id as string)", "less": "-id"})
    theirs.update({"t": "'new'"}, where="id < 50")
    ds = lk.dataset(path)
    assert max(len(fragment.files) for fragment in map(_metadata, ds.get_fragments())) == 2
    _same(path)
    ds.delete("less = -599")
    assert len(_same(path)) == 2 * ROWS - 12
    found = ds.to_table(columns=["more"], filter="less > -25 and t is not null")
    assert found.equals(
        lance.dataset(path).to_table(columns=["more"], filter="less > -25 and t is not null")
    )
    lance.dataset(path).optimize.compact_files()
    _same(path)


def _metadata(fragment: Any) -> Any:
    return fragment.metadata


def test_rows_come_to_a_newer_format(path: str) -> None:
    rows = lk.dataset(path).to_table()
    lk.write_dataset(rows, path, mode="overwrite", data_storage_version="2.2")
    assert _same(path).select(rows.column_names).to_pylist() == rows.to_pylist()
    lk.dataset(path).update({"t": "'x'"}, where="id = 3")
    lk.dataset(path, version=2).restore()  # and back: what is there stays
    assert _same(path).select(rows.column_names).equals(rows)
    assert lk.dataset(path).data_storage_version == "0.1"


def test_clones_of_legacy_tables(path: str, tmp_path: Path) -> None:
    ds = lk.dataset(path)
    ds.delete("id < 3")
    for make in (ds.shallow_clone, ds.deep_clone):
        place = str(tmp_path / make.__name__)
        make(place, reference=3)
        assert _same(place).equals(_same(path))


def test_sizes_that_an_older_release_gets_wrong(
    tmp_path: Path, pylance4: Callable[..., Any]
) -> None:
    program = """\
table = pa.table({"a": range(9), "t": list("abcdefghi")})
lance.write_dataset(table, arguments["uri"], data_storage_version="legacy")
result = None
"""
    uri = str(tmp_path / "d.lance")
    pylance4(program, uri=uri)
    (fragment,) = lk.dataset(uri).get_fragments()
    (file,) = fragment.metadata.files
    assert file.file_size_bytes != (Path(uri) / "data" / file.path).stat().st_size
    assert _same(uri)["t"].to_pylist() == list("abcdefghi")
