"""Operations made by hand: both libraries commit the same ones, and each reads the other's."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.file
import lance.fragment
import pyarrow as pa
import pytest

import lancekit as lk
import lancekit.file
import lancekit.fragment
from lancekit._format.schema import LanceSchema
from lancekit.errors import (
    ColumnNotFoundError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    NotOfferedError,
    RetryableConflictError,
    VersionNotFoundError,
)

FIRST = pa.table({"id": pa.array([1, 2, 3]), "name": ["a", "b", "c"]})
SECOND = pa.table({"id": pa.array([4, 5]), "name": ["d", "e"]})

Make = Callable[[ModuleType, str, Any], Any]


def start(side: ModuleType, path: str, **kwargs: Any) -> Any:
    side.write_dataset(FIRST, path, data_storage_version="2.1", **kwargs)
    return side.write_dataset(SECOND, path, mode="append")


def column_file(side: ModuleType, path: str, name: str, values: pa.Table, ids: list[int]) -> Any:
    """Write a data file by hand, and say which fields it stores."""
    place = Path(path) / "data" / name
    with side.file.LanceFileWriter(str(place), values.schema, version="2.1") as writer:
        writer.write_batch(values)
    return side.fragment.DataFile(
        name, ids, list(range(len(ids))), 2, 1, file_size_bytes=place.stat().st_size
    )


def new_rows(side: ModuleType, path: str, rows: pa.Table, **kwargs: Any) -> Any:
    # pylance writes its default format here, whatever that of the dataset is
    return side.LanceFragment.create(path, rows, data_storage_version="2.1", **kwargs)


def metadata(ds: Any) -> list[Any]:
    return [fragment.metadata for fragment in ds.get_fragments()]


def with_files(side: ModuleType, old: Any, files: list[Any]) -> Any:
    return side.FragmentMetadata(
        old.id, files, old.physical_rows, old.deletion_file, old.row_id_meta
    )


# ---- one maker per operation: the same code makes it with either library


def append(side: ModuleType, path: str, ds: Any) -> Any:
    return side.LanceOperation.Append([new_rows(side, path, SECOND)])


def overwrite(side: ModuleType, path: str, ds: Any) -> Any:
    table = pa.table({"other": [1.5, 2.5]})
    fragment = side.LanceFragment.create(path, table, mode="overwrite", data_storage_version="2.1")
    return side.LanceOperation.Overwrite(table.schema, [fragment])


def delete(side: ModuleType, path: str, ds: Any) -> Any:
    changed = ds.get_fragments()[0].delete("id = 2")
    return side.LanceOperation.Delete([changed], [1], "id = 2 or id > 3")


def update_rows(side: ModuleType, path: str, ds: Any) -> Any:
    changed = ds.get_fragments()[0].delete("id = 2")
    moved = new_rows(side, path, pa.table({"id": [2], "name": ["B"]}))
    return side.LanceOperation.Update([], [changed], [moved], [], [1], "rewrite_rows")


def update_columns(side: ModuleType, path: str, ds: Any) -> Any:
    old = metadata(ds)[0]
    file = old.files[0]
    left = side.fragment.DataFile(
        str(file.path), [0, -2], list(file.column_indices), 2, 1, file.file_size_bytes
    )
    new = column_file(side, path, "names.lance", pa.table({"name": ["A", "B", "C"]}), [1])
    changed = with_files(side, old, [left, new])
    return side.LanceOperation.Update([], [changed], [], [1], [], "rewrite_columns")


def merge(side: ModuleType, path: str, ds: Any) -> Any:
    fragments = []
    for old in metadata(ds):
        values = pa.table({"more": list(range(old.physical_rows))})
        file = column_file(side, path, f"more{old.id}.lance", values, [2])
        fragments.append(with_files(side, old, [*old.files, file]))
    schema = FIRST.schema.append(pa.field("more", pa.int64()))
    with warnings.catch_warnings():  # pylance wants its own class of schemas by now
        warnings.simplefilter("ignore", DeprecationWarning)
        return side.LanceOperation.Merge(fragments, schema)


def project(side: ModuleType, path: str, ds: Any) -> Any:
    schema = pa.schema([pa.field("number", pa.int64()), pa.field("name", pa.string())])
    if side is lk:
        return lk.LanceOperation.Project(schema, True)
    return lance.LanceOperation.Project(lance.schema.LanceSchema.from_pyarrow(schema), True)


def restore(side: ModuleType, path: str, ds: Any) -> Any:
    return side.LanceOperation.Restore(1)


def rewrite(side: ModuleType, path: str, ds: Any) -> Any:
    whole = new_rows(side, path, pa.concat_tables([FIRST, SECOND]), fragment_id=7)
    group = side.LanceOperation.RewriteGroup(metadata(ds), [whole])
    return side.LanceOperation.Rewrite([group], [])


def data_replacement(side: ModuleType, path: str, ds: Any) -> Any:
    file = column_file(side, path, "whole.lance", FIRST.slice(0, 3), [0, 1])
    group = side.LanceOperation.DataReplacementGroup(0, file)
    return side.LanceOperation.DataReplacement([group])


def update_config(side: ModuleType, path: str, ds: Any) -> Any:
    changed = side.LanceOperation.UpdateMap
    return side.LanceOperation.UpdateConfig(
        changed({"a": "1", "gone": None}),
        changed({"owner": "ada"}, True),
        changed({"s": "1"}),
        {1: changed({"unit": "letter"})},
    )


MAKERS: list[Make] = [
    *(append, overwrite, delete, update_rows, update_columns, merge, project, restore),
    *(rewrite, data_replacement, update_config),
]


def said(transaction: Any) -> Any:
    """What a transaction says, the same for both libraries."""
    operation = transaction.operation
    found: dict[str, Any] = {"kind": type(operation).__name__}
    for name in ("fragments", "updated_fragments", "new_fragments"):
        found[name] = [f.to_json() for f in getattr(operation, name, ())]
    for name in ("deleted_fragment_ids", "removed_fragment_ids", "fields_modified"):
        found[name] = list(getattr(operation, name, ()))
    for name in ("predicate", "update_mode", "version", "preserves_nullability"):
        found[name] = getattr(operation, name, None)
    for group in getattr(operation, "groups", ()):
        parts = (group.old_fragments, group.new_fragments)
        found["group"] = [[f.to_json() for f in part] for part in parts]
    for group in getattr(operation, "replacements", ()):
        found["replaced"] = (group.fragment_id, str(group.new_file.path))
    for name in ("config_updates", "table_metadata_updates", "schema_metadata_updates"):
        changed = getattr(operation, name, None)
        found[name] = changed and (dict(changed.updates), changed.replace)
    return found, dict(transaction.transaction_properties), transaction.uuid


@pytest.mark.cover
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_both_commit_the_same_operation(tmp_path: Path, make: Make, stable: bool) -> None:
    if stable and make is rewrite:
        stable = False  # a fragment made by hand has no row ids to hand on
    rows = []
    for writer, reader in ((lk, lance), (lance, lk)):
        path = str(tmp_path / writer.__name__)
        start(lance, path, enable_stable_row_ids=stable)
        ds = writer.dataset(path)
        ds = writer.LanceDataset.commit(path, make(writer, path, ds), 2, commit_message="by hand")
        other = reader.dataset(path)
        assert ds.version == other.version == 3
        assert ds.to_table().to_pydict() == other.to_table().to_pydict()
        assert said(ds.read_transaction(3)) == said(other.read_transaction(3))
        assert other.get_transactions(1)[0].transaction_properties == {
            "__lance_commit_message": "by hand"
        }
        assert ds.config() == other.config()
        assert ds.metadata == other.metadata
        reader.write_dataset(ds.to_table().slice(0, 1), path, mode="append")  # goes on from there
        rows.append(writer.dataset(path).to_table().to_pydict())
    assert rows[0] == rows[1]


def test_pylance_4_reads_what_was_committed_and_commits_in_turn(
    tmp_path: Path, pylance4: Callable[..., Any]
) -> None:
    path = str(tmp_path / "t")
    start(lk, path)
    expected = []
    for make in MAKERS:
        lk.LanceDataset.commit(path, lk.LanceOperation.Restore(2))
        read = lk.dataset(path)
        landed = lk.LanceDataset.commit(path, make(lk, path, read), read.version)
        expected.append([landed.version, landed.to_table().to_pydict(), make.__name__])
    program = """
result = []
for version, rows, name in arguments["expected"]:
    ds = lance.dataset(arguments["path"], version=version)
    kind = type(ds.read_transaction(version).operation).__name__
    result.append([ds.to_table().to_pydict() == rows, kind])
"""
    found = pylance4(program, path=path, expected=expected)
    assert [same for same, _ in found] == [True] * len(MAKERS)
    turn = """
ds = lance.dataset(arguments["path"], version=2)
f = lance.fragment.LanceFragment.create(
    arguments["path"], ds.to_table(), data_storage_version="2.1"
)
latest = lance.dataset(arguments["path"])
ds = lance.LanceDataset.commit(arguments["path"], lance.LanceOperation.Append([f]), latest.version)
ds.update_config({"turn": "4"})
result = [ds.count_rows(), ds.version]
"""
    lk.LanceDataset.commit(path, lk.LanceOperation.Restore(2))
    count, version = pylance4(turn, path=path)
    ds = lk.dataset(path)
    assert (ds.count_rows(), ds.version) == (count, version)
    changed = ds.read_transaction(version).operation
    assert isinstance(changed, lk.LanceOperation.UpdateConfig)
    assert changed.config_keys == {"turn"}


# ---- creating, cloning, branches, batches


def test_an_overwrite_creates_a_dataset(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    fragments = [lk.LanceFragment.create(path, t, data_storage_version="2.0") for t in (FIRST,) * 2]
    operation = lk.LanceOperation.Overwrite(FIRST.schema, fragments)
    ds = lk.LanceDataset.commit(path, operation, enable_stable_row_ids=True)
    assert (ds.version, ds.data_storage_version, ds.has_stable_row_ids) == (1, "2.0", True)
    assert lance.dataset(path).to_table() == pa.concat_tables([FIRST, FIRST])
    assert lance.dataset(path).to_table(with_row_id=True)["_rowid"].to_pylist() == [*range(6)]


def test_older_manifest_names_for_a_new_dataset(tmp_path: Path) -> None:
    empty = lk.LanceOperation.Overwrite(FIRST.schema, [])
    path = tmp_path / "new"
    lk.LanceDataset.commit(path, empty, enable_v2_manifest_paths=False)
    assert (path / "_versions" / "1.manifest").exists()
    assert lance.dataset(str(path)).count_rows() == 0


def test_a_clone_by_hand(tmp_path: Path) -> None:
    source, path = str(tmp_path / "t"), str(tmp_path / "clone")
    start(lk, source)
    operation = lk.LanceOperation.Clone(True, None, 1, source, None)
    ds = lk.LanceDataset.commit(path, operation, read_version=1)
    assert lance.dataset(path).to_table() == ds.to_table() == FIRST
    with pytest.raises(
        InvalidArgumentError, match=r"A clone creates a dataset, but .* already exists"
    ):
        lk.LanceDataset.commit(path, operation, read_version=1)


def test_operations_without_a_class_in_pylance(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    start(lk, path)
    lk.LanceDataset.commit(path, lk.LanceOperation.ReserveFragments(3), read_version=2)
    base = lk.DatasetBasePath(str(tmp_path / "more"), "more")
    ds = lk.LanceDataset.commit(path, lk.LanceOperation.UpdateBases([base]), read_version=3)
    assert [b.name for b in ds.base_paths().values()] == ["more"]
    theirs = lance.write_dataset(SECOND, path, mode="append")
    assert theirs.get_fragments()[-1].fragment_id == 5
    assert [b.name for b in theirs.base_paths().values()] == ["more"]


def test_an_index_is_taken_out_and_put_back(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    start(lance, path).create_scalar_index("id", "BTREE")
    made = lk.dataset(path).read_transaction(3).operation.new_indices
    gone = lk.LanceDataset.commit(path, lk.LanceOperation.CreateIndex([], made), read_version=3)
    assert not lance.dataset(path).describe_indices()
    back = lk.LanceOperation.CreateIndex(list(made), [])
    lk.LanceDataset.commit(gone, back, read_version=4)
    theirs = lance.dataset(path)
    assert "ScalarIndexQuery" in theirs.scanner(filter="id = 4").explain_plan()
    assert theirs.to_table(filter="id = 4")["name"].to_pylist() == ["d"]


def test_a_handle_on_a_branch_and_a_pinned_one(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    ds = start(lk, path)
    branch = ds.create_branch("b")
    change = lk.LanceOperation.UpdateConfig(lk.LanceOperation.UpdateMap({"on": "b"}))
    landed = lk.LanceDataset.commit(branch, change, read_version=branch.version)
    assert (landed.branch, landed.config()) == ("b", {"on": "b"})
    assert (branch.config(), lk.dataset(path).config()) == ({}, {})
    with pytest.raises(InvalidArgumentError, match="pinned"):
        lk.LanceDataset.commit(ds.at(1), change, read_version=1)


def test_a_batch_of_appends(tmp_path: Path) -> None:
    rows = []
    for side in (lk, lance):
        path = str(tmp_path / side.__name__)
        start(side, path)
        parts = [
            side.fragment.write_fragments(table, path, return_transaction=True)
            for table in (FIRST, SECOND)
        ]
        done = side.LanceDataset.commit_batch(path, parts)
        assert done["dataset"].version == 3
        assert len(done["merged"].operation.fragments) == 2
        rows.append(done["dataset"].to_table())
    assert rows[0] == rows[1]
    with pytest.raises(InvalidArgumentError, match="Only append transactions"):
        lk.LanceDataset.commit_batch(path, [lk.Transaction(1, lk.LanceOperation.Restore(1))])
    with pytest.raises(InvalidArgumentError, match="no transactions"):
        lk.LanceDataset.commit_batch(path, [])


def test_the_same_transaction_lands_once(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    start(lk, path)
    change = lk.fragment.write_fragments(SECOND, path, return_transaction=True)
    assert isinstance(change, lk.Transaction)
    first = lk.LanceDataset.commit(path, change)
    lk.write_dataset(FIRST, path, mode="append")
    assert lk.LanceDataset.commit(path, change).version == first.version == 3
    assert lk.dataset(path).version == 4


def test_conflicts_have_pylances_name(tmp_path: Path) -> None:
    from lancekit.commit import CommitConflictError

    path = str(tmp_path / "t")
    ds = start(lk, path)
    made = [delete(lk, path, ds) for _ in range(2)]
    late = append(lk, path, ds)
    lk.LanceDataset.commit(path, made[0], 2)
    with pytest.raises(RetryableConflictError) as caught:
        lk.LanceDataset.commit(path, made[1], 2)
    assert isinstance(caught.value, CommitConflictError)
    assert caught.value.retryable
    lk.LanceDataset.commit(path, overwrite(lk, path, ds), 3)
    with pytest.raises(IncompatibleConflictError) as caught:
        lk.LanceDataset.commit(path, late, 2)
    assert not caught.value.retryable


def test_a_detached_commit_is_not_the_newest(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    ds = start(lk, path)
    apart = lk.LanceDataset.commit(path, append(lk, path, ds), 2, detached=True)
    assert apart.count_rows() == 7
    assert lance.dataset(path, version=apart.version).count_rows() == 7
    assert lk.dataset(path).version == lance.dataset(path).version == 2


# ---- what is wrong is said before anything is written


def _bad_operations() -> dict[str, tuple[Make, str]]:
    ours = lk.LanceOperation

    def no_file(side: ModuleType, path: str, ds: Any) -> Any:
        file = lk.fragment.DataFile("nowhere.lance", [0, 1], [0, 1], 2, 1)
        return ours.Append([lk.FragmentMetadata(0, [file], 3)])

    def wrong_size(side: ModuleType, path: str, ds: Any) -> Any:
        file = column_file(lk, path, "x.lance", FIRST, [0, 1])
        bad = lk.fragment.DataFile(file.path, [0, 1], [0, 1], 2, 1, 17)
        return ours.Append([lk.FragmentMetadata(0, [bad], 3)])

    def unknown_field(side: ModuleType, path: str, ds: Any) -> Any:
        file = column_file(lk, path, "x.lance", FIRST, [0, 9])
        return ours.Append([lk.FragmentMetadata(0, [file], 3)])

    def no_columns(side: ModuleType, path: str, ds: Any) -> Any:
        file = lk.fragment.DataFile("x.lance", [0, 1], [], 2, 1)
        return ours.Append([lk.FragmentMetadata(0, [file], 3)])

    def twice(side: ModuleType, path: str, ds: Any) -> Any:
        return ours.Append([lk.LanceFragment.create(path, SECOND)] * 2)

    def same_id(side: ModuleType, path: str, ds: Any) -> Any:
        changed = ds.get_fragments()[0].delete("id = 1")
        return ours.Delete([changed], [0], "")

    def unknown_id(side: ModuleType, path: str, ds: Any) -> Any:
        return ours.Delete([], [9], "")

    def few_rows(side: ModuleType, path: str, ds: Any) -> Any:
        file = column_file(lk, path, "x.lance", SECOND, [0, 1])
        return ours.DataReplacement([ours.DataReplacementGroup(0, file)])

    def replaced_unknown(side: ModuleType, path: str, ds: Any) -> Any:
        file = column_file(lk, path, "x.lance", FIRST, [0, 1])
        return ours.DataReplacement([ours.DataReplacementGroup(5, file)])

    def other_format(side: ModuleType, path: str, ds: Any) -> Any:
        made = lk.fragment.write_fragments(
            FIRST, path, mode="overwrite", data_storage_version="2.2"
        )
        return ours.Append(made)

    def fewer(side: ModuleType, path: str, ds: Any) -> Any:
        return ours.Merge(metadata(ds)[:1], FIRST.schema)

    def no_such_field(side: ModuleType, path: str, ds: Any) -> Any:
        return ours.UpdateConfig(field_metadata_updates={9: ours.UpdateMap({"a": "1"})})

    return {
        "no_file": (no_file, r"nowhere\.lance does not exist"),
        "wrong_size": (wrong_size, "bytes, not 17"),
        "unknown_field": (unknown_field, "stores field 9, which is not in the schema"),
        "no_columns": (no_columns, "lists 2 fields and 0 column indices"),
        "twice": (twice, "is listed twice"),
        "same_id": (same_id, "Fragment 0 is listed twice"),
        "unknown_id": (unknown_id, "Version 2 has no fragment 9"),
        "few_rows": (few_rows, "has 2 rows, but its fragment has 3"),
        "replaced_unknown": (replaced_unknown, "Version 2 has no fragment 5"),
        "other_format": (other_format, "has format 2.2, but the dataset's files have 2.1"),
        "fewer": (fewer, "got 1 without fragment"),
        "no_such_field": (no_such_field, "Field with id 9 does not exist"),
    }


@pytest.mark.parametrize("case", _bad_operations())
def test_an_operation_that_does_not_fit_is_refused(tmp_path: Path, case: str) -> None:
    make, words = _bad_operations()[case]
    path = tmp_path / "t"
    ds = start(lk, str(path))
    operation = make(lk, str(path), ds)
    before = sorted(p for p in path.rglob("*") if p.is_file())
    with pytest.raises(InvalidArgumentError, match=words):
        lk.LanceDataset.commit(path, operation, read_version=2)
    assert sorted(p for p in path.rglob("*") if p.is_file()) == before


def test_a_column_without_nulls_needs_values(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lk.write_dataset(FIRST, path, primary_key="id", data_storage_version="2.1")
    file = column_file(lk, path, "x.lance", pa.table({"name": ["x"]}), [1])
    operation = lk.LanceOperation.Append([lk.FragmentMetadata(0, [file], 1)])
    with pytest.raises(InvalidArgumentError, match="no values for column 'id'"):
        lk.LanceDataset.commit(path, operation, read_version=1)


def test_arguments_that_are_wrong(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    start(lk, path)
    commit, ours = lk.LanceDataset.commit, lk.LanceOperation
    with pytest.raises(ValueError, match="read_version is required"):
        commit(path, ours.Append([]))
    with pytest.raises(TypeError, match="base_uri must be"):
        commit(3, ours.Restore(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="operation must be"):
        commit(path, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="commit_message is not supported"):
        commit(path, lk.Transaction(1, ours.Restore(1)), commit_message="x")
    with pytest.raises(VersionNotFoundError):
        commit(path, ours.Append([]), read_version=9)
    with pytest.raises(VersionNotFoundError):
        commit(path, ours.Restore(9))
    with pytest.raises(DatasetNotFoundError, match="Append needs a dataset"):
        commit(tmp_path / "none", ours.Append([]), read_version=0)
    with pytest.raises(InvalidArgumentError, match="positive"):
        commit(path, ours.Restore(1), commit_timeout=timedelta(0))
    with pytest.raises(NotOfferedError, match="namespace_client"):
        commit(path, ours.Restore(1), namespace_client=object())
    assert commit(path, ours.Restore(1), commit_timeout=None).count_rows() == 3


# ---- fragments


@pytest.mark.parametrize("stable", [False, True])
def test_fragments_as_json_both_ways(tmp_path: Path, stable: bool) -> None:
    path = str(tmp_path / "t")
    theirs = start(lance, path, enable_stable_row_ids=stable)
    theirs.delete("id = 2")
    for fragment in lance.dataset(path).get_fragments():
        text = json.dumps(fragment.metadata.to_json())
        ours = lk.FragmentMetadata.from_json(text)
        assert ours.to_json() == fragment.metadata.to_json()
        again = lance.FragmentMetadata.from_json(json.dumps(ours.to_json()))
        assert again.to_json() == fragment.metadata.to_json()
        assert ours == lk.dataset(path).get_fragment(ours.id).metadata
        assert ours.num_rows == fragment.metadata.num_rows
        if ours.row_id_meta:
            assert ours.row_id_meta.asdict() == fragment.metadata.row_id_meta.asdict()


def test_deleting_in_a_fragment(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    (first, second) = start(lk, path).get_fragments()
    assert first.delete("id > 0") is None
    assert first.delete("id > 9") == first.metadata
    changed = second.delete_rows([1])
    assert changed is not None
    assert (changed.num_rows, changed.deletion_file.file_type) == (1, "array")
    with pytest.raises(IndexError, match="Row offset 7 is out of range"):
        second.delete_rows([7])


def test_a_fragment_of_a_file_that_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    ds = start(lk, path)
    column_file(lk, path, "again.lance", FIRST, [0, 1])
    made = lk.LanceFragment.create_from_file("again.lance", ds, 0)
    assert made.files[0].fields == (0, 1)
    landed = lk.LanceDataset.commit(ds, lk.LanceOperation.Append([made]), read_version=2)
    assert lance.dataset(path).count_rows() == landed.count_rows() == 8
    column_file(lk, path, "other.lance", pa.table({"other": [1]}), [0])
    with pytest.raises(ColumnNotFoundError, match="other"):
        lk.LanceFragment.create_from_file("other.lance", ds, 0)


def test_no_rows_make_no_fragment(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="must make one fragment"):
        lk.LanceFragment.create(tmp_path, FIRST.slice(0, 0))


# ---- config and metadata


def test_settings_change_as_in_pylance(tmp_path: Path) -> None:
    for side in (lk, lance):
        path = str(tmp_path / side.__name__)
        ds = start(side, path)
        assert ds.update_config({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
        assert ds.update_config({"a": None, "c": "3"}) == {"b": "2", "c": "3"}
        assert ds.update_config({"z": "9", "x": None}, replace=True) == {"z": "9"}
        ds.update_config({"k": "1"})
        ds.delete_config_keys(["k", "missing"])
        assert ds.update_metadata({"owner": "ada"}) == {"owner": "ada"}
        assert ds.update_schema_metadata({"s": "1"}) == {"s": "1"}
        ds.update_field_metadata({"name": {"unit": "x", "gone": None}})
        assert ds.version == 10
    for side in (lk, lance):
        for writer in (lk, lance):
            ds = side.dataset(str(tmp_path / writer.__name__))
            assert ds.config() == {"z": "9"}
            assert ds.metadata == {"owner": "ada"}
            assert ds.schema.metadata == {b"s": b"1"}
            assert ds.schema.field("name").metadata == {b"unit": b"x"}


def test_fields_are_named_by_path_or_id(tmp_path: Path) -> None:
    table = pa.table({"s": [{"x": 1}], "n": [1]})
    ds = lk.write_dataset(table, str(tmp_path / "t"))
    ds.update_field_metadata({"s.x": {"k": "1"}, 2: {"k": "2"}})
    fields = ds.lance_schema.fields()
    assert [field.metadata for field in (fields[0].children()[0], fields[1])] == [
        {"k": "1"},
        {"k": "2"},
    ]
    with pytest.raises(ColumnNotFoundError, match=r"s\.y"):
        ds.update_field_metadata({"s.y": {"k": "1"}})
    with pytest.raises(ColumnNotFoundError, match="id 9"):
        ds.update_field_metadata({9: {"k": "1"}})


def test_the_deprecated_calls_warn(tmp_path: Path) -> None:
    ds = start(lk, str(tmp_path / "t"))
    with pytest.warns(DeprecationWarning, match="update_schema_metadata"):
        ds.replace_schema_metadata({"a": "1"})
    with pytest.warns(DeprecationWarning, match="update_field_metadata"):
        ds.replace_field_metadata("id", {"b": "1"})
    assert lance.dataset(str(tmp_path / "t")).schema.field("id").metadata == {b"b": b"1"}
    with pytest.raises(InvalidTypeError, match=r"UpdateMap\.updates"):
        ds.update_config({"a": 1})  # type: ignore[dict-item]


def test_two_that_set_the_same_key(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    ds = start(lk, path)
    late, other = lk.dataset(path), lk.dataset(path)
    ds.update_config({"a": "1"})
    other.update_config({"b": "1"})
    with pytest.raises(IncompatibleConflictError, match="'a'"):
        late.update_config({"a": "2"})
    assert lk.dataset(path).config() == {"a": "1", "b": "1"}


def test_bases_are_added(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    ds = start(lk, path)
    base = lk.DatasetBasePath(str(tmp_path / "more"), "more")
    assert ds.add_bases([base], {"why": "room"}) is ds
    assert [(b.id, b.name) for b in lance.dataset(path).base_paths().values()] == [(1, "more")]
    assert ds.read_transaction(3).transaction_properties == {"why": "room"}
    with pytest.raises(InvalidArgumentError, match="already"):
        ds.add_bases([base])


def test_pylances_schema_of_an_operation_is_ours(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(FIRST, path)
    made = lk.dataset(path).read_transaction(1).operation
    assert made.new_schema == LanceSchema.from_arrow(FIRST.schema)
