"""Code that was written for pylance: what it makes, passes and asks for, with lancekit's name."""

from __future__ import annotations

import contextlib
import importlib
import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancekit as lk
import lancekit.commit
import lancekit.file
import lancekit.fragment
from lancekit.errors import DatasetExistsError, InvalidArgumentError, InvalidTypeError

ROWS = pa.table({"id": [0, 1, 2, 3], "name": ["a", "b", "c", "d"]})


# ---- parts of operations


def test_an_index_has_pylances_arguments_and_names() -> None:
    made = datetime(2026, 3, 4, 5, 6, 7, 890000, tzinfo=UTC)
    details = ("/lance.table.BTreeIndexDetails", b"")
    uuid = str(uuid4())
    given: Any = (uuid, "id_idx", [0], 1, {0, 2}, 0, made, None, [], details, [])
    operation: Any = lk.LanceOperation.CreateIndex
    (index,) = operation([lk.Index(*given)]).new_indices
    assert isinstance(index, lk.Index)
    assert str(index.uuid) == uuid
    assert index.fragment_ids == BitMap([0, 2])
    assert (index.index_version, index.created_at, index.base_id) == (0, made, None)
    assert index.index_details == details
    theirs = lance.Index(*given)
    assert {name for name in vars(theirs) if not hasattr(index, name)} == set()
    with pytest.raises(InvalidTypeError, match="time zone"):
        lk.Index(*given[:6], datetime(2026, 1, 1))


def test_the_time_of_an_index_is_kept(tmp_path: Path) -> None:
    theirs = lance.write_dataset(ROWS, tmp_path)
    theirs.create_scalar_index("id", "BTREE")
    (index,) = lk.dataset(tmp_path)._snapshot.indices
    (described,) = lance.dataset(tmp_path).describe_indices()
    assert index.created_at == described.segments[0].created_at
    lk.dataset(tmp_path).delete("id = 3")
    (described,) = lance.dataset(tmp_path).describe_indices()
    assert described.segments[0].created_at == index.created_at


def test_a_rewritten_index_has_pylances_arguments_and_names() -> None:
    old, new = str(uuid4()), str(uuid4())
    made = lk.LanceOperation.RewrittenIndex(old, new, "/lance.table.BTreeIndexDetails", b"\x01", 2)
    assert isinstance(made, lk.LanceOperation.RewrittenIndex)
    assert (str(made.old_id), str(made.new_id), made.new_index_version) == (old, new, 2)
    assert made.new_details_type_url == "/lance.table.BTreeIndexDetails"
    assert made.new_details_value == b"\x01"
    rewrite = lk.LanceOperation.Rewrite([], [made])
    assert rewrite.rewritten_indices == (made,)
    bare = lk.LanceOperation.RewrittenIndex(old, new)
    assert (bare.new_details_type_url, bare.new_details_value) == ("", b"")


def test_a_base_path_is_a_class(tmp_path: Path) -> None:
    ours = lk.DatasetBasePath(str(tmp_path / "more"), "more")
    theirs = lance.DatasetBasePath(str(tmp_path / "more"), "more")
    for name in ("id", "name", "path", "is_dataset_root"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert isinstance(ours, lk.DatasetBasePath)
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    ds.add_bases([ours])
    (added,) = ds.base_paths().values()
    assert isinstance(added, lk.DatasetBasePath)
    assert (added.id, added.name) == (1, "more")


# ---- schemas


KEY = "lance-schema:unenforced-primary-key"
CLUSTERING = "lance-schema:unenforced-clustering-key"
SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64(), False, {KEY: "true"}),
        pa.field("b", pa.int64(), False, {KEY + ":position": "2", CLUSTERING + ":position": "2"}),
        pa.field("c", pa.int64(), False, {KEY + ":position": "1", CLUSTERING + ":position": "1"}),
        pa.field("s", pa.struct([pa.field("X", pa.int32()), pa.field("y", pa.list_(pa.int8()))])),
    ],
    metadata={"m": "1"},
)


def _walk(fields: Any) -> Any:
    for field in fields:
        yield field
        yield from _walk(field.children())


def _names(fields: Any) -> list[str]:
    return [field.name() for field in fields]


def test_a_schema_has_pylances_methods() -> None:
    ours = lk.schema.LanceSchema.from_pyarrow(SCHEMA)
    theirs = lance.schema.LanceSchema.from_pyarrow(SCHEMA)
    for mine, other in zip(_walk(ours.fields()), _walk(theirs.fields()), strict=True):
        for name in (name for name in dir(other) if not name.startswith("_")):
            ask = [getattr(field, name) for field in (mine, other)]
            if name == "metadata":
                assert ask[0] == ask[1]
            elif name != "children":
                assert ask[0]() == ask[1](), name
    for name in ("unenforced_primary_key", "unenforced_clustering_key"):
        assert _names(getattr(ours, name)()) == _names(getattr(theirs, name)())
    assert ours.to_pyarrow().equals(theirs.to_pyarrow(), check_metadata=True)
    assert ours == lk.schema.LanceSchema.from_pyarrow(SCHEMA)


@pytest.mark.parametrize(
    "path", ["a", "s.X", "s.x", "S.X", "`s`.y", "s.y.item", "nope", "s.z", "a.b"]
)
def test_fields_are_found_by_path_as_in_pylance(path: str) -> None:
    ours = lk.schema.LanceSchema.from_pyarrow(SCHEMA)
    theirs = lance.schema.LanceSchema.from_pyarrow(SCHEMA)
    for method in ("field", "field_case_insensitive"):
        mine, other = getattr(ours, method)(path), getattr(theirs, method)(path)
        assert (mine and mine.id()) == (other and other.id()), method


def test_the_key_of_a_merge_may_be_named_in_another_case(tmp_path: Path) -> None:
    told = []
    for module in (lance, lk):
        ds = module.write_dataset(ROWS.rename_columns(["Id", "name"]), tmp_path / module.__name__)
        merge = ds.merge_insert("ID").when_matched_update_all().when_not_matched_insert_all()
        told.append(merge.execute(pa.table({"Id": [3, 4], "name": ["x", "y"]})))
    assert told[1] == told[0]


def test_a_schema_with_ids_is_what_operations_take(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path)
    ds.alter_columns({"path": "name", "name": "title"})
    schema = ds.lance_schema
    assert [(field.name(), field.id()) for field in schema.fields()] == [("id", 0), ("title", 1)]
    before = lk.schema.LanceSchema.from_pyarrow(ROWS.schema)
    project: Any = lk.LanceOperation.Project
    ds = lk.LanceDataset.commit(ds, project(before), read_version=ds.version)
    assert ds.lance_schema == before
    assert lance.dataset(tmp_path).to_table().equals(ROWS)


def test_metadata_that_is_no_text_is_refused(tmp_path: Path) -> None:
    binary = {b"k": b"\xff"}
    for rows in (
        ROWS.replace_schema_metadata(binary),
        ROWS.cast(pa.schema([ROWS.schema.field(0).with_metadata(binary), ROWS.schema.field(1)])),
    ):
        with pytest.raises(ValueError, match="text"):
            lk.write_dataset(rows, tmp_path)


# ---- metadata of fragments


def test_a_deletion_file_has_pylances_arguments_and_names() -> None:
    given: dict[str, Any] = {"read_version": 1, "id": 7, "num_deleted_rows": 3, "base_id": None}
    for kind in ("array", "bitmap"):
        ours = lk.fragment.DeletionFile(file_type=kind, **given)
        theirs = lance.fragment.DeletionFile(file_type=kind, **given)
        assert ours.file_type == theirs.file_type == kind
        assert json.loads(ours.json()) == json.loads(theirs.json())
        assert ours.asdict() == theirs.asdict()
        assert ours.path(4) == theirs.path(4)
        assert lk.fragment.DeletionFile.from_json(theirs.json()) == ours
        metadata = lk.FragmentMetadata(1, [], 10, ours)
        assert lk.FragmentMetadata.from_json(json.dumps(metadata.to_json())) == metadata
    with pytest.raises(InvalidArgumentError, match="'array' or 'bitmap', got 'arrow'"):
        lk.fragment.DeletionFile(file_type="arrow", **given)  # type: ignore[arg-type]


def test_names_that_pylance_gave_up(tmp_path: Path) -> None:
    fragment = lk.LanceFragment.create(tmp_path, ROWS)
    (file,) = fragment.data_files()
    assert [file] == list(fragment.files)
    assert file.field_ids() == [0, 1]


def test_what_adding_columns_to_a_fragment_gives_is_committed(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path)
    (fragment,) = ds.get_fragments()
    made, schema = fragment.merge_columns(lambda batch: {"twice": batch["id"]}, columns=["id"])
    joined, joined_schema = fragment.merge(pa.table({"id": [0], "twice": [1]}), "id")
    assert _names(schema.fields()) == _names(joined_schema.fields()) == ["id", "name", "twice"]
    merge: Any = lk.LanceOperation.Merge
    ds = lk.LanceDataset.commit(ds, merge([made], schema), read_version=1)
    assert ds.schema == schema.to_pyarrow()
    assert lance.dataset(tmp_path).to_table()["twice"].to_pylist() == [0, 1, 2, 3]
    assert joined.num_rows == 4


def test_a_batch_udf_says_what_it_makes(tmp_path: Path) -> None:
    calls = []

    def double(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch.num_rows)
        return pa.record_batch({"double": pa.array([2 * x for x in batch["id"].to_pylist()])})

    ds = lk.write_dataset(ROWS, tmp_path)
    ds.add_columns(lk.batch_udf(output_schema=pa.schema({"double": pa.int64()}))(double))
    assert calls == [4]
    assert lance.dataset(tmp_path).to_table()["double"].to_pylist() == [0, 2, 4, 6]
    assert lk.batch_udf(checkpoint_file=tmp_path / "cache")(double).checkpoint_file


# ---- rows, messages, locks


def test_rows_of_a_dataset_its_scanner_and_its_fragments_are_written(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "from")
    (fragment,) = ds.get_fragments()
    copy = lk.write_dataset(ds, tmp_path / "to")
    copy.insert(ds.scanner(filter="id < 2"))
    copy.insert(fragment)
    assert copy.to_table()["id"].to_pylist() == [0, 1, 2, 3, 0, 1, 0, 1, 2, 3]
    ds.delete("id > 0")
    done = ds.merge_insert("id").when_not_matched_insert_all().execute(ds.checkout_version(1))
    assert done["num_inserted_rows"] == 3
    ds = lk.write_dataset(ds, tmp_path / "from", mode="overwrite")
    assert lance.dataset(tmp_path / "from").to_table().sort_by("id").equals(ROWS)


def test_the_key_of_the_commit_message(tmp_path: Path) -> None:
    lk.write_dataset(ROWS, tmp_path, commit_message="first")
    transaction: Any = lance.dataset(tmp_path).read_transaction(1)
    key = importlib.import_module("lancekit.dataset").LANCE_COMMIT_MESSAGE_KEY
    assert transaction.transaction_properties[key] == "first"


def test_a_lock_raises_its_conflict_without_words(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def lock(version: int) -> Iterator[None]:
        if version > 1:
            raise lk.commit.CommitConflictError
        yield

    lk.write_dataset(ROWS, tmp_path, commit_lock=lock)
    with pytest.raises(lk.commit.CommitConflictError, match="Another writer"):
        lk.write_dataset(ROWS, tmp_path, mode="append", commit_lock=lock)


# ---- tables of several file versions


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    """A table of format 2.1 to which pylance's own way of appending added a file of 2.2."""
    uri = str(tmp_path / "mixed")
    lance.write_dataset(ROWS, uri, data_storage_version="2.1")
    fragment = lance.fragment.LanceFragment.create(uri, ROWS, data_storage_version="2.2")
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append([fragment]), read_version=1)
    return uri


def _formats(uri: str) -> list[set[str]]:
    fragments = lance.dataset(uri).get_fragments()
    return [
        {f"{f.file_major_version}.{f.file_minor_version}" for f in fragment.data_files()}
        for fragment in fragments
    ]


def test_mixed_file_versions_are_written_on(mixed: str) -> None:
    ds = lk.dataset(mixed)
    assert _formats(mixed) == [{"2.1"}, {"2.2"}]
    ds.insert(ROWS)
    assert _formats(mixed) == [{"2.1"}, {"2.2"}, {"2.1"}]
    ds.delete("id = 0")
    ds.update({"name": "'x'"}, where="id = 1")
    ds.merge_insert("id").when_matched_update_all().execute(pa.table({"id": [100], "name": ["e"]}))
    ds.add_columns({"twice": "id * 2"})
    assert _formats(mixed)[1] == {"2.1", "2.2"}
    theirs = lance.dataset(mixed)
    assert theirs.to_table().equals(ds.to_table())
    assert theirs.count_rows() == 9
    ds.optimize.compact_files()
    assert _formats(mixed) == [{"2.1"}]
    assert lance.dataset(mixed).to_table().sort_by("id").equals(ds.to_table().sort_by("id"))


def test_mixed_file_versions_are_for_good(mixed: str) -> None:
    def words() -> tuple[int, int]:
        manifest = lk.dataset(mixed)._snapshot.manifest
        return manifest.reader_flags & 256, manifest.writer_flags & 256

    ds = lk.dataset(mixed, version=1)
    ds.restore()
    assert words() == (256, 256)
    ds = lk.write_dataset(ROWS, mixed, mode="overwrite")
    assert words() == (256, 256)
    fragment = lance.fragment.LanceFragment.create(mixed, ROWS, data_storage_version="2.2")
    given = lk.FragmentMetadata.from_json(json.dumps(fragment.to_json()))
    lk.LanceDataset.commit(mixed, lk.LanceOperation.Append([given]), read_version=ds.version)
    assert _formats(mixed) == [{"2.1"}, {"2.2"}]
    assert lance.dataset(mixed).count_rows() == 8


def test_a_data_file_that_is_there_is_described_as_pylance_does(tmp_path: Path) -> None:
    path = tmp_path / "d"
    lk.write_dataset(pa.table({"a": [1, 2], "s": [{"x": 3}, {"x": 4}]}), path)
    with lancekit.file.LanceFileWriter(str(path / "data/new.lance")) as writer:
        writer.write_batch(pa.table({"s": [{"x": 7}, {"x": 8}]}))
    ours = lancekit.fragment.DataFile.create(lk.dataset(path), "new.lance")
    assert lk.LanceFragment.create_from_file("new.lance", lk.dataset(path), 0).files == (ours,)
    theirs = lance.fragment.DataFile.create(lance.dataset(path), "new.lance")
    for name in ("fields", "column_indices", "file_major_version", "file_minor_version"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert (
        ours.file_size_bytes == theirs.file_size_bytes == (path / "data/new.lance").stat().st_size
    )
    operation = lk.LanceOperation
    change = operation.DataReplacement([operation.DataReplacementGroup(0, ours)])
    changed = lk.LanceDataset.commit(path, change, read_version=1)
    assert changed.to_table()["s"].to_pylist() == [{"x": 7}, {"x": 8}]


def test_a_data_file_in_a_base_path_is_described_as_by_pylance(tmp_path: Path) -> None:
    base = lance.DatasetBasePath(str(tmp_path / "b"), name="b", is_dataset_root=False)
    path = tmp_path / "d"
    theirs = lance.write_dataset(
        pa.table({"a": [1]}), path, initial_bases=[base], target_bases=["b"], mode="create"
    )
    ds, create = lk.dataset(path), lancekit.fragment.DataFile.create
    there = ds.get_fragments()[0].data_files()[0]
    assert there.base_id is not None
    assert create(ds, there.path, base_id=there.base_id) == there
    for wrong in ({"path": "none.lance"}, {"path": there.path}, {"path": there.path, "base_id": 9}):
        with pytest.raises(ValueError, match=r"[Nn]ot found"):
            lance.fragment.DataFile.create(theirs, **wrong)
        with pytest.raises(InvalidArgumentError, match=r"does not exist|no base path 9"):
            create(ds, **wrong)
    for faulty in ((str(path), there.path), (ds, 5)):
        with pytest.raises(InvalidTypeError):
            create(*faulty)


# ---- results


def _changes(library: Any, path: Path) -> Iterator[dict[str, Any]]:
    ds = library.write_dataset(ROWS, path)
    yield ds.update({"name": "'x'"}, where="id = 1")
    yield ds.delete("id = 2")
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    yield merge.execute(pa.table({"id": [3, 9], "name": ["z", "y"]}))


def _as_keywords(**counts: int) -> dict[str, int]:
    return counts


def test_results_are_the_dictionaries_that_pylance_returns(tmp_path: Path) -> None:
    both = zip(_changes(lk, tmp_path / "ours"), _changes(lance, tmp_path / "theirs"), strict=True)
    for ours, theirs in both:
        assert isinstance(ours, dict)
        assert type(theirs) is dict
        assert ours == theirs == _as_keywords(**ours)
        assert json.dumps(ours) == json.dumps(theirs)
        assert "missing" not in ours
        again = pickle.loads(pickle.dumps(ours))
        assert again == ours
        assert again.version == ours.version


def _same_version(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Compare; the reference makes nanoseconds a float, which has but every 256th of them."""
    apart = abs(ours["timestamp"] - theirs["timestamp"])
    same_time = {"timestamp": theirs["timestamp"]}
    return apart <= timedelta(microseconds=1) and ours | same_time == theirs


def test_a_version_is_pylances_dictionary(tmp_path: Path) -> None:
    lance.write_dataset(ROWS, tmp_path)
    lance.dataset(tmp_path).delete("id = 1")
    ours, theirs = lk.dataset(tmp_path), lance.dataset(tmp_path)
    assert all(isinstance(version, dict) for version in ours.versions())
    for here, there in zip(ours.versions(), theirs.versions(), strict=True):
        assert _same_version(here, there)
    assert _same_version(ours.get_version(), theirs.get_version())
    # local time without a zone, as there; the attribute has one
    assert ours.versions()[0]["timestamp"] < datetime.now()
    local = ours.get_version().timestamp.astimezone().replace(tzinfo=None)
    assert _same_version({"timestamp": local}, {"timestamp": theirs.get_version()["timestamp"]})


# ---- indices


def _indexed(path: Path) -> lance.LanceDataset:
    values = pa.array([0.25, 0.5] * 512, pa.float32())
    vectors = pa.FixedSizeListArray.from_arrays(values, 4)
    rows = {"k": range(256), "t": ["a"] * 256, "s": [{"a.b": 1}] * 256}
    rows |= dict.fromkeys(("pq", "hnsw", "rq"), vectors)
    ds = lance.write_dataset(pa.table(rows), path, max_rows_per_file=128)
    for column, kind in {"k": "BTREE", "t": "INVERTED", "s.`a.b`": "BITMAP"}.items():
        ds.create_scalar_index(column, kind)
    for column, kind in {"pq": "IVF_PQ", "hnsw": "IVF_HNSW_SQ", "rq": "IVF_FLAT"}.items():
        settings = {"num_sub_vectors": 2, "num_bits": 4} if kind == "IVF_PQ" else {}
        ds.create_index(column, kind, num_partitions=1, **settings)
    return ds


def test_indices_are_listed_as_pylance_lists_them(tmp_path: Path) -> None:
    assert lk.write_dataset(ROWS, tmp_path / "none").list_indices() == []
    theirs = _indexed(tmp_path / "some")
    theirs.insert(theirs.take([0]))
    theirs.optimize.optimize_indices(index_names=["k_idx"], num_indices_to_merge=0)
    theirs.delete("k < 128")  # the first fragment goes
    listed = lk.dataset(tmp_path / "some").list_indices()
    with pytest.warns(DeprecationWarning, match="list_indices"):
        expected = theirs.list_indices()
    assert [{**one, "fragment_ids": set(one["fragment_ids"])} for one in listed] == [
        {**one, "fragment_ids": set(one["fragment_ids"])} for one in expected
    ]
    for one in (listed[0], lk.dataset(tmp_path / "some").describe_indices()[0].segments[0]):
        numbers = one["fragment_ids"] if isinstance(one, dict) else one.fragment_ids
        assert numbers == set(numbers) == numbers != {99}
    kinds = {one["type"] for one in listed}
    assert kinds >= {"BTree", "Inverted", "Bitmap", "IVF_PQ", "IVF_HNSW_SQ", "IVF_FLAT"}
    assert lk.dataset(tmp_path / "some").index_columns["s.`a.b`_idx"] == ("s.`a.b`",)


def test_vectors_are_indexed_with_tuning_that_changes_nothing(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(512), pa.float32()), 2)
    ds = lk.write_dataset(pa.table({"v": vectors}), tmp_path)
    ds.create_index("v", "IVF_FLAT", num_partitions=2, max_iters=5, sample_rate=8)
    assert ds.list_indices()[0]["type"] == "IVF_FLAT"
    with pytest.raises(InvalidTypeError, match="max_iters"):
        ds.create_index("v", "IVF_FLAT", num_partitions=2, max_iters="x", replace=True)


@pytest.mark.parametrize("library", [lance, lk], ids=lambda library: library.__name__)
@pytest.mark.parametrize("name", ["", "begun-anew/table"])
def test_a_place_in_memory_is_begun_anew(library: Any, name: str) -> None:
    place = f"memory://{name}"
    first = library.write_dataset(pa.table({"x": [1, 2]}), place)
    first.delete("x = 2")
    second = library.write_dataset(pa.table({"y": ["a", "b"]}), place)
    first.insert(pa.table({"x": [3]}))
    assert (second.version, second.to_table().to_pydict()) == (1, {"y": ["a", "b"]})
    assert (first.version, first.to_table().to_pydict()) == (3, {"x": [1, 3]})
    if library is lk:  # there, a branch or another version is looked for in an empty store
        assert first.checkout_version(1).count_rows() == 2
        second.create_branch("side").delete("y = 'a'")
        assert second.checkout_version(("side", None)).count_rows() == 1
        assert lk.dataset(place).to_table() == second.to_table()
        with pytest.raises(DatasetExistsError):
            lk.write_dataset(ROWS, lk.dataset(place))
