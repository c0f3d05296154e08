"""Tables whose blobs pylance 14 keeps in objects that no data file owns (flag 16384)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._file.reader import FileReader
from lancekit._scan.fragments.blobs import _place
from lancekit._scan.fragments.source import fragment_sources
from lancekit.errors import CorruptFileError, InvalidArgumentError, NotOfferedError
from tests.support.interplay import NOW

MANAGED = {"lance.blob.managed": "true"}
PACKED, DEDICATED = b"p" * 70_000, b"d" * ((4 << 20) + 1)
FIRST = {0: b"inline", 1: None, 2: b"", 3: PACKED, 4: PACKED[:-1], 5: DEDICATED}
Blobs = dict[int, bytes | None]


def rows(blobs: Blobs, metadata: dict[str, str] | None = None) -> pa.Table:
    table = pa.table({"id": list(blobs), "b": lk.blob_array(blobs.values())})
    return table.replace_schema_metadata(metadata)


def create(path: Path, blobs: Blobs = FIRST, **options: Any) -> str:
    lance.write_dataset(rows(blobs, MANAGED), str(path), data_storage_version="2.2", **options)
    return str(path)


def append(uri: str, blobs: Blobs, at: str | None = None) -> None:
    ds: Any = lance.dataset(uri)
    lance.write_dataset(rows(blobs), ds if at is None else ds.checkout_version(at), mode="append")


def both(uri: str, branch: str | None = None) -> Blobs:
    """Read blobs by both libraries, in every form; both words have the flag."""
    found: list[Any] = []
    for module in (lance, lk):
        ds: Any = module.dataset(uri)
        ds = ds if branch is None else ds.checkout_version((branch, None))
        taken = ds.read_blobs("b", indices=list(range(ds.count_rows())))
        found.append((ds.to_table().to_pylist(), taken))
    assert found[1] == found[0]
    binary = ds.to_table(blob_handling="all_binary")
    ds.validate(deep=True)
    manifest = ds._snapshot.manifest
    assert manifest.reader_flags & manifest.writer_flags & 16384
    blobs = dict(zip(*(binary[name].to_pylist() for name in ("id", "b")), strict=True))
    assert list(blobs.values()) == [data for _, data in taken]
    return blobs


def kinds(uri: str) -> set[int]:
    table = lance.dataset(uri).to_table(["b"])
    return {row["kind"] for row in table["b"].to_pylist() if row is not None}


def objects(uri: str | Path) -> list[str]:
    return sorted(str(file.relative_to(uri)) for file in Path(uri).rglob("*.blob"))


def test_each_library_changes_what_the_other_wrote(tmp_path: Path) -> None:
    uri = create(tmp_path / "t")
    expected = dict(FIRST)
    assert both(uri) == expected
    lk.dataset(uri).update({"id": "id + 100"}, where="id = 3")
    expected[103] = expected.pop(3)
    assert both(uri) == expected
    append(uri, {6: PACKED})
    lk.write_dataset(rows({7: PACKED}), uri, mode="append")
    expected |= {6: PACKED, 7: PACKED}
    assert both(uri) == expected
    merge = lk.dataset(uri).merge_insert("id").when_matched_update_all()
    merge.when_not_matched_insert_all().execute(rows({6: b"merged", 8: b"new"}))
    expected |= {6: b"merged", 8: b"new"}
    lance.dataset(uri).optimize.compact_files()
    assert both(uri) == expected
    lk.dataset(uri).add_columns({"bytes": "b.size"})
    lk.dataset(uri).delete("id = 4")
    lk.dataset(uri).optimize.compact_files()
    del expected[4]
    assert both(uri) == expected
    lk.dataset(uri).cleanup_old_versions(older_than=NOW, delete_unverified=True)
    assert both(uri) == expected


def test_a_cleanup_leaves_adopted_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(FIRST), uri, data_storage_version="2.2", max_rows_per_file=4)
    assert kinds(uri) == {0, 1, 2}
    lk.dataset(uri).update_schema_metadata(MANAGED)
    lance.dataset(uri).optimize.compact_files()  # files beside data files that are gone soon
    assert kinds(uri) == {0, 4}
    before = objects(uri)
    stats = lk.dataset(uri).cleanup_old_versions(older_than=NOW, delete_unverified=True)
    assert stats.data_files_removed == 2
    assert objects(uri) == before
    assert both(uri) == FIRST
    lk.dataset(uri).delete("id >= 0")
    ds = lk.dataset(uri)
    ds.checkout_version(ds.version - 1).restore()
    assert both(uri) == FIRST
    lk.LanceDataset.drop(uri)
    assert not Path(uri).exists()


@pytest.mark.parametrize("module", [lance, lk], ids=["pylance", "lancekit"])
def test_a_cleanup_removes_blobs_that_no_version_names(tmp_path: Path, module: Any) -> None:
    """Objects, and files that a compaction adopted: those that pylance removes."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(FIRST), uri, data_storage_version="2.2", max_rows_per_file=4)
    lk.dataset(uri).update_schema_metadata(MANAGED)
    append(uri, {6: PACKED, 7: DEDICATED})
    append(uri, {8: PACKED})
    lance.dataset(uri).optimize.compact_files()
    tagged = lance.dataset(uri).version
    lance.dataset(uri).delete("id IN (3, 7, 8)")
    lance.dataset(uri).optimize.compact_files()
    assert len(objects(uri)) == 6
    lance.dataset(uri).tags.create("kept", tagged)
    options = {"older_than": NOW, "error_if_tagged_old_versions": False}
    module.dataset(uri).cleanup_old_versions(**options)
    assert len(objects(uri)) == 6
    lance.dataset(uri).tags.delete("kept")
    module.dataset(uri).cleanup_old_versions(**options)
    assert len(objects(uri)) == 3
    assert both(uri) == {k: v for k, v in {**FIRST, 6: PACKED}.items() if k != 3}


def test_a_cleanup_keeps_all_blobs_if_it_cannot_tell(tmp_path: Path) -> None:
    uri = create(tmp_path / "t")
    lk.write_dataset(rows({1: b"one"}), uri, mode="overwrite")
    (file,) = lk.dataset(uri, version=1).get_fragments()[0].metadata.files
    data = Path(uri) / "data" / file.path
    content = data.read_bytes()
    data.write_bytes(content[:-1] + b"?")
    lk.dataset(uri).cleanup_old_versions(older_than=NOW)
    assert len(objects(uri)) == 2
    assert both(uri) == {1: b"one"}


def test_files_that_a_branch_adopted_stay(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(FIRST), uri, data_storage_version="2.2")
    branch: Any = lance.dataset(uri).create_branch("x")
    branch.update_schema_metadata(MANAGED)
    append(uri, {6: PACKED}, at=("x", None))
    lance.dataset(uri).checkout_version(("x", None)).optimize.compact_files()
    assert lk.dataset(uri)._snapshot.manifest.reader_flags & 16384 == 0
    expected = {**FIRST, 6: PACKED}
    assert both(uri, "x") == expected
    lk.dataset(uri).checkout_version(("x", None)).cleanup_old_versions(older_than=NOW)
    lk.dataset(uri).update({"id": "id"})
    lk.dataset(uri).cleanup_old_versions(older_than=NOW, delete_unverified=True)
    assert both(uri, "x") == expected


def test_clones(tmp_path: Path) -> None:
    uri = create(tmp_path / "t")
    ds = lk.dataset(uri)
    shallow, deep, theirs, last = (str(tmp_path / name) for name in ("a", "b", "c", "d"))
    ds.shallow_clone(shallow, ds.version)
    ds.deep_clone(deep, ds.version)
    lance.dataset(uri).shallow_clone(theirs, ds.version)
    for clone in (shallow, deep, theirs):
        append(clone, {7: PACKED})
        assert both(clone) == {**FIRST, 7: PACKED}
    assert [name for name in objects(uri) if name in objects(deep)] == objects(uri)
    lance.dataset(theirs).optimize.compact_files()
    assert kinds(theirs) == {0, 4, 5}  # in the clone's folder, and in base path 0
    assert both(theirs) == {**FIRST, 7: PACKED}
    clone = lk.dataset(theirs)
    clone.deep_clone(last, clone.version)
    assert both(last) == {**FIRST, 7: PACKED}
    with pytest.raises(NotOfferedError, match="refer to a blob outside of the dataset: _blobs/"):
        clone.deepen()
    clone.update({"id": "id"})
    for where in (theirs, shallow):
        lk.dataset(where).deepen()
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    for where in (theirs, shallow, deep):
        assert both(where) == {**FIRST, 7: PACKED}


@pytest.mark.parametrize("compacted", [False, True])
def test_branches(tmp_path: Path, compacted: bool) -> None:
    uri = create(tmp_path / "t")
    lk.dataset(uri).create_branch("x")
    append(uri, {7: PACKED}, at=("x", None))
    if compacted:
        lance.dataset(uri).checkout_version(("x", None)).optimize.compact_files()
    assert both(uri, "x") == {**FIRST, 7: PACKED}
    lk.dataset(uri).branches.merge("x")
    assert both(uri) == {**FIRST, 7: PACKED}
    lk.dataset(uri).branches.delete("x")
    lk.dataset(uri).cleanup_old_versions(older_than=NOW, delete_unverified=True)
    assert both(uri) == {**FIRST, 7: PACKED}
    assert not [name for name in objects(uri) if name.startswith("tree/")]


def test_the_flag_follows_the_metadata_and_stays(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = lk.write_dataset(rows(FIRST, MANAGED), uri)
    assert both(uri) == FIRST
    append(uri, {7: PACKED})
    assert kinds(uri) == {0, 4}
    ds = lk.dataset(uri)
    ds.update_schema_metadata({"lance.blob.managed": "false"})
    ds.checkout_version(1).restore()
    ds = lk.dataset(uri)
    assert both(uri) == FIRST
    with pytest.raises(InvalidArgumentError, match=r"must be 'true' or 'false', got 'yes'"):
        ds.update_schema_metadata({"lance.blob.managed": "yes"})
    lk.write_dataset(rows({1: b"one"}), uri, mode="overwrite")
    assert both(uri) == {1: b"one"}


@pytest.mark.spark
def test_on_spark(tmp_path: Path) -> None:
    uri = create(tmp_path / "t")
    session = lk.spark_session()
    found = session.read.format("lance").load(uri).select("id", "b.size").collect()
    assert dict(map(tuple, found)) == {
        id_: None if data is None else len(data) for id_, data in FIRST.items()
    }
    with lk.options(engine="spark"):
        lk.dataset(uri).update({"id": "id + 100"}, where="id = 3")
        lk.dataset(uri).optimize.compact_files()
    expected = {**FIRST, 103: FIRST[3]}
    del expected[3]
    assert both(uri) == expected


def test_an_older_release_refuses(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    uri = create(tmp_path / "t")
    with pytest.raises(AssertionError, match="Flags: 16384"):
        pylance4('result = lance.dataset(arguments["uri"]).count_rows()', uri=uri)


def test_a_base_path(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    base = lance.DatasetBasePath(str(tmp_path / "base"), "base", id=9)
    uri = create(tmp_path / "t", initial_bases=[base], target_bases=["base"])
    assert both(uri) == FIRST
    append(uri, {7: PACKED})
    lance.dataset(uri).optimize.compact_files()
    assert both(uri) == {**FIRST, 7: PACKED}


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ({"blob_uri": "../t/_blobs/x.blob"}, "not a path below"),
        ({"blob_uri": "/etc/passwd"}, "not a path below"),
        ({"blob_id": 3}, "kind 4 with id 3"),
        ({"kind": 5, "blob_id": 3}, "base path 3"),
        ({"kind": 6}, "kind 6"),
    ],
)
def test_descriptors_that_lead_elsewhere(tmp_path: Path, damage: dict[str, Any], text: str) -> None:
    source = fragment_sources(lk.dataset(create(tmp_path / "t"))._snapshot)[0]
    good = {"kind": 4, "position": 0, "size": 1, "blob_id": 0, "blob_uri": "_blobs/x.blob"}
    assert _place(good, source, source.files[0]).location.name == "_blobs/x.blob"
    with pytest.raises(CorruptFileError, match=text):
        _place({**good, **damage}, source, source.files[0])
    assert FileReader.open(source.files[0].store.open(source.files[0].name)).num_rows == len(FIRST)
