"""Operations made by hand that would damage a table: refused, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancekit as lk
import lancekit.fragment
import lancekit.schema
from lancekit._commit.protocol import commit
from lancekit._commit.rules.pending import Pending
from lancekit._format.data_file import DeletionKind
from lancekit._format.fragment_columns import places_with_files
from lancekit._format.row_ids_encode import encode_row_ids
from lancekit._format.schema import LanceSchema
from lancekit.errors import CorruptFileError, DatasetNotFoundError, InvalidArgumentError

ROWS = pa.table({"a": [1, 2], "b": [10, 20]})
OURS: Any = lk.LanceOperation

Make = Callable[[Any, str], Any]


def files(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file())


def schema_of(ds: Any) -> LanceSchema:
    found: LanceSchema = ds._snapshot.manifest.schema
    return found


def repeated(schema: LanceSchema) -> LanceSchema:
    """Return a schema in which two fields have one id."""
    return replace(schema, fields=(*schema.fields, replace(schema.fields[0], name="again")))


def test_what_could_not_be_opened_is_not_put(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path)
    before = files(tmp_path)
    project = OURS.Project(repeated(schema_of(ds)))
    with pytest.raises(CorruptFileError, match="has id 0, which another field has"):
        commit(
            ds._snapshot, Pending(operation=project, uuid=str(uuid4()))
        )  # without the checks of what is made by hand
    assert files(tmp_path) == before
    assert lance.dataset(tmp_path).to_table() == ROWS


# ---- hand-made operations


def start(path: Path, *, stable: bool = False) -> Any:
    lk.write_dataset(ROWS, path, enable_stable_row_ids=stable, data_storage_version="2.1")
    return lk.write_dataset(
        pa.table({"a": [3, 4], "b": [30, 40]}), path, mode="append", data_storage_version="2.1"
    )


def metadata(ds: Any) -> list[Any]:
    return [fragment.metadata for fragment in ds.get_fragments()]


def changed(fragment: Any, **changes: Any) -> Any:
    """Return a fragment with other attributes."""
    names = ["id", "files", "physical_rows", "deletion_file", "row_ids", "created_at"]
    names.append("last_updated_at")
    return lk.FragmentMetadata(**{name: getattr(fragment, name) for name in names} | changes)


def marks(version: int) -> Any:
    """Return a deletion file that is not there."""
    return lk.fragment.DeletionFile(version, 7, DeletionKind.ARROW, 1)


def file_changed(fragment: Any, **changes: Any) -> Any:
    return changed(fragment, files=(replace(fragment.files[0], **changes),))


def fresh(path: str, rows: pa.Table = ROWS) -> Any:
    return lk.LanceFragment.create(path, rows, data_storage_version="2.1", mode="overwrite")


def refused(ds: Any, path: Path, operation: Any, words: str) -> None:
    before = files(path)
    with pytest.raises(InvalidArgumentError, match=words):
        lk.LanceDataset.commit(str(path), operation, read_version=ds.version)
    assert files(path) == before


def _arrow(*fields: Any) -> pa.Schema:
    return pa.schema([(name, kind) for name, kind in fields])


def _with_field(ds: Any, place: int, **changes: Any) -> LanceSchema:
    fields = list(schema_of(ds).fields)
    fields[place] = replace(fields[place], **changes)
    return replace(schema_of(ds), fields=tuple(fields))


INT = pa.int64()

SCHEMAS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "swapped among others": (
        lambda ds: _arrow(("b", INT), ("a", INT), ("c", INT)),
        "renamed from 'a' to 'b'",
    ),
    "swapped": (lambda ds: _arrow(("b", INT), ("a", INT)), "renamed from 'a' to 'b'"),
    "one left": (lambda ds: _arrow(("b", INT)), "renamed from 'a' to 'b'"),
    "id twice": (lambda ds: repeated(schema_of(ds)), "both have id 0"),
    "name twice": (lambda ds: _with_field(ds, 1, name="a"), "two fields 'a' in the same place"),
    "hidden name": (lambda ds: _with_field(ds, 1, name="_rowid"), "a hidden column"),
    "dot": (lambda ds: _with_field(ds, 1, name="x.y"), "it contains '\\.'"),
    "no name": (lambda ds: _with_field(ds, 1, name=""), "it is empty"),
    "no type": (lambda ds: _with_field(ds, 1, logical_type="quux"), "type 'quux'"),
    "no id": (lambda ds: _with_field(ds, 1, id=-7), "has id -7"),
    "no parent": (lambda ds: _with_field(ds, 1, parent_id=5), "declares parent 5"),
    "other type": (lambda ds: _with_field(ds, 0, logical_type="string"), "int64 to string"),
    "empty": (lambda ds: pa.schema([]), "no columns"),
    "new column": (
        lambda ds: ds.schema.append(pa.field("c", INT, nullable=False)),
        "cannot be null|has no values",
    ),
}


@pytest.mark.parametrize("kind", ["Project", "Merge"])
@pytest.mark.parametrize("case", SCHEMAS)
def test_a_schema_that_rows_could_not_be_read_by(tmp_path: Path, case: str, kind: str) -> None:
    make, words = SCHEMAS[case]
    ds = start(tmp_path)
    if kind == "Project":
        refused(ds, tmp_path, OURS.Project(make(ds)), words)
    else:
        refused(ds, tmp_path, OURS.Merge(metadata(ds), make(ds)), words)


def test_a_merge_does_not_say_that_there_are_no_nulls(tmp_path: Path) -> None:
    ds = start(tmp_path)
    schema = _with_field(ds, 0, nullable=False)
    refused(ds, tmp_path, OURS.Merge(metadata(ds), schema), "from nullable to not nullable")
    landed = lk.LanceDataset.commit(ds, OURS.Project(schema), read_version=2)
    assert lance.dataset(tmp_path).to_table()["a"].to_pylist() == [1, 2, 3, 4]
    assert not landed.schema.field("a").nullable


@pytest.mark.parametrize("kind", ["Project", "Merge"])
def test_schemas_that_pylance_lands_are_landed(tmp_path: Path, kind: str) -> None:
    schemas = [
        _arrow(("a", INT), ("b", INT), ("c", INT)),
        _arrow(("z", INT), ("b", INT)),
        _arrow(("a", INT)),
    ]
    if kind == "Project":
        schemas.append(_arrow(("c", INT), ("a", INT)))  # the name moves on to another column
    for number, schema in enumerate(schemas):
        found = []
        for side in (lk, lance):
            path = tmp_path / f"{number}{side.__name__}"
            start(path)
            ours = side.schema.LanceSchema.from_pyarrow(schema)
            fragments = [f.metadata for f in side.dataset(path).get_fragments()]
            made = {"Project": [ours], "Merge": [fragments, ours]}[kind]
            operation = getattr(side.LanceOperation, kind)(*made)
            side.LanceDataset.commit(str(path), operation, read_version=2)
            found += [library.dataset(path).to_table() for library in (lk, lance)]
        assert all(table.equals(found[0]) for table in found)


def test_the_schema_of_a_new_table_is_looked_at(tmp_path: Path) -> None:
    schema = repeated(LanceSchema.from_arrow(ROWS.schema))
    with pytest.raises(InvalidArgumentError, match="both have id 0"):
        lk.LanceDataset.commit(tmp_path / "new", OURS.Overwrite(schema, []))
    assert not (tmp_path / "new").exists()


def _new_fragments(path: str) -> dict[str, tuple[Any, str]]:
    made = fresh(path)
    other = fresh(path, pa.table({"a": ["x", "y"], "b": [1, 2]}))
    junk, nothing = Path(path) / "data" / "junk.lance", Path(path) / "data" / "none.lance"
    junk.write_bytes(b"no data file, but long enough for a footer" * 3)
    nothing.write_bytes(b"")
    longer = fresh(path, pa.table({"a": [1, 2, 3], "b": [1, 2, 3]}))
    return {
        "rows": (changed(made, physical_rows=9), "has 2 rows, but its fragment has"),
        "columns": (file_changed(made, column_indices=(0, 9)), "has 2 columns and no column 9"),
        "mixed up": (file_changed(made, column_indices=(1, 0)), "has the wrong order"),
        "type": (other, "stores string in column 0, but field 'a' has type int64"),
        "junk": (file_changed(made, path=junk.name, file_size_bytes=None), "not a Lance data file"),
        "empty": (file_changed(made, path=nothing.name, file_size_bytes=None), "cannot be read"),
        "format": (file_changed(made, file_minor_version=2), "has format 2.1, not 2.2"),
        "unequal": (
            changed(
                made,
                files=(
                    replace(made.files[0], fields=(0, -2)),
                    replace(longer.files[0], fields=(-2, 1)),
                ),
            ),
            "has 3 rows, but its fragment",
        ),
        "twice": (file_changed(made, fields=(0, 0)), "lists field 0 twice"),
        "elsewhere": (file_changed(made, path="../../x"), "only bare file names"),
        "base": (file_changed(made, base_id=7), "refers to base path 7"),
        "deletions": (
            changed(made, deletion_file=marks(1)),
            "cannot have a deletion file",
        ),
        "deletions of a given id": (
            changed(made, id=9, deletion_file=marks(1)),
            "an unusable deletion file",
        ),
        "a known id": (changed(made, id=1), "Fragment id 1 is already in use"),
        "the last id": (changed(made, id=2**32 - 1), "would leave no ids"),
        "too large an id": (changed(made, id=2**33), "would leave no ids"),
    }


def test_new_fragments_are_what_is_said_of_them(tmp_path: Path) -> None:
    ds = start(tmp_path)
    for fragment, words in _new_fragments(str(tmp_path)).values():
        refused(ds, tmp_path, OURS.Append([fragment]), words)
        refused(ds, tmp_path, OURS.Update([], [], [fragment], [], []), words)
    for name in ("rows", "type", "junk", "mixed up"):
        fragment, words = _new_fragments(str(tmp_path))[name]
        refused(ds, tmp_path, OURS.Overwrite(ds.schema, [fragment]), words)


def test_a_replacing_file_is_looked_at(tmp_path: Path) -> None:
    ds = start(tmp_path)
    (file,) = fresh(str(tmp_path), pa.table({"a": ["x", "y"], "b": [1, 2]})).files
    group = OURS.DataReplacementGroup(0, file)
    refused(ds, tmp_path, OURS.DataReplacement([group]), "stores string in column 0")


def test_changed_fragments_keep_their_rows(tmp_path: Path) -> None:
    ds = start(tmp_path)
    first, second = metadata(ds)
    stolen = changed(first, files=second.files)
    cases: list[tuple[Any, str]] = [
        (changed(first, physical_rows=3), "was passed with 3 rows instead of 2"),
        (changed(first, files=()), "other data files|lacks the values of column 'a'"),
        (stolen, "other data files|already belongs to fragment 1 of version 2"),
        (changed(first, row_ids=b""), "other row ids"),
        (
            changed(first, deletion_file=marks(2)),
            "an unusable deletion file",
        ),
    ]
    deleted = ds.get_fragments()[0].delete("a = 1")
    lying = replace(deleted.deletion_file, num_deleted_rows=2)
    cases.append((changed(deleted, deletion_file=lying), "the manifest says that 2 are deleted"))
    for fragment, words in cases:
        refused(ds, tmp_path, OURS.Delete([fragment], [], "a"), words)
        refused(ds, tmp_path, OURS.Update([], [fragment], [], [], []), words)
        merge = "changes the number of rows|listed twice|already belongs to fragment|" + words
        if fragment is not stolen:
            refused(ds, tmp_path, OURS.Merge([fragment, second], ds.schema), merge)
    lk.LanceDataset.commit(ds, OURS.Delete([deleted], [], "a = 1"), read_version=2)
    assert lance.dataset(tmp_path).to_table()["a"].to_pylist() == [2, 3, 4]


# ---- stable row ids


def test_a_row_id_is_of_one_row(tmp_path: Path) -> None:
    ds = start(tmp_path, stable=True)
    path = str(tmp_path)
    first, second = metadata(ds)
    taken = changed(fresh(path), row_ids=first.row_ids)
    refused(ds, tmp_path, OURS.Append([taken]), "Two rows would have row id 0")
    refused(ds, tmp_path, OURS.Update([], [], [taken], [], []), "Two rows would have")
    group = OURS.RewriteGroup([second], [taken])
    refused(
        ds, tmp_path, OURS.Rewrite([group], []), "Two rows would have|do not have the row ids of"
    )
    swapped = changed(first, row_ids=second.row_ids)
    refused(ds, tmp_path, OURS.Delete([swapped], [], "a"), "was passed with other row ids")
    twice = [taken, changed(fresh(path), row_ids=first.row_ids)]
    refused(ds, tmp_path, OURS.Overwrite(ds.schema, twice), "Two rows would have")
    later = changed(fresh(path), row_ids=encode_row_ids(range(50, 52)))
    refused(ds, tmp_path, OURS.Append([later]), "is not assigned yet: the next one is 4")
    junk = changed(fresh(path), row_ids=b"\xff\xff")
    refused(ds, tmp_path, OURS.Append([junk]), "row ids of a fragment cannot be read")


def test_rows_move_with_their_ids(tmp_path: Path) -> None:
    ds = start(tmp_path, stable=True)
    left = ds.get_fragments()[0].delete("a = 2")
    moved = changed(
        fresh(str(tmp_path), pa.table({"a": [2], "b": [21]})), row_ids=encode_row_ids(range(1, 2))
    )
    update = OURS.Update([], [left], [moved], [], [0, 1], "rewrite_rows")
    ds = lk.LanceDataset.commit(ds, update, read_version=2)
    whole = changed(
        fresh(str(tmp_path), ds.to_table()),
        row_ids=encode_row_ids(np.array([0, 2, 3, 1], np.uint64)),
    )
    ds = lk.LanceDataset.commit(
        ds, OURS.Rewrite([OURS.RewriteGroup(metadata(ds), [whole])], []), read_version=3
    )
    for library in (lk, lance):
        found = library.dataset(tmp_path).to_table(with_row_id=True)
        assert found["a"].to_pylist() == [1, 3, 4, 2]
        assert found["_rowid"].to_pylist() == [0, 2, 3, 1]


def test_row_ids_in_a_table_without_stable_ones(tmp_path: Path) -> None:
    ds = start(tmp_path)
    given = changed(fresh(str(tmp_path)), row_ids=encode_row_ids(range(2)))
    refused(ds, tmp_path, OURS.Append([given]), "has no stable row ids for it")
    refused(ds, tmp_path, OURS.Overwrite(ds.schema, [given]), "has no stable row ids for it")


# ---- twice, indices, ids, detached


def test_a_transaction_lands_once_wherever_it_is_read(tmp_path: Path) -> None:
    ds = start(tmp_path)
    change = lk.Transaction(2, OURS.Append([fresh(str(tmp_path))]))
    landed = lk.LanceDataset.commit(ds, change)
    again = lk.LanceDataset.commit(str(tmp_path), replace(change, read_version=3))
    assert again.version == landed.version == 3
    lk.write_dataset(ROWS, tmp_path, mode="append")
    with pytest.raises(InvalidArgumentError, match="to fragment 2 of version 4"):
        lk.LanceDataset.commit(str(tmp_path), replace(change, read_version=4))
    assert lk.dataset(tmp_path).version == 4
    same_files = lk.LanceDataset.commit(str(tmp_path), change.operation, read_version=4)
    assert same_files.count_rows() == lance.dataset(tmp_path).count_rows() == 10
    lk.dataset(tmp_path).checkout_version(4).restore()
    emptied = OURS.Overwrite(ds.schema, metadata(lk.dataset(tmp_path))[2:])  # some that are there
    assert lk.LanceDataset.commit(str(tmp_path), emptied).count_rows() == 4


def test_an_index_is_there(tmp_path: Path) -> None:
    start(tmp_path)
    lance.dataset(tmp_path).create_scalar_index("a", "BTREE")
    ds = lk.dataset(tmp_path)
    (index,) = ds._snapshot.indices
    absent = replace(index, uuid=uuid4())
    refused(ds, tmp_path, OURS.CreateIndex([absent], []), "has no files in")
    rewritten = OURS.RewrittenIndex(str(index.uuid), str(uuid4()))
    fragments = metadata(ds)
    whole = fresh(str(tmp_path), ds.to_table())
    rewrite = OURS.Rewrite([OURS.RewriteGroup(fragments, [whole])], [rewritten])
    refused(ds, tmp_path, rewrite, "has no files in")
    kept = replace(index, name="__lance_frag_reuse")
    refused(ds, tmp_path, OURS.CreateIndex([kept], []), "is reserved for the table format")
    lost = replace(index, fields=(9,))
    refused(ds, tmp_path, OURS.CreateIndex([lost], []), "field 9, which is not in the schema")
    named = OURS.CreateIndex([replace(index, name="other")], [index])
    lk.LanceDataset.commit(ds, named, read_version=3)
    assert [x.name for x in lance.dataset(tmp_path).describe_indices()] == ["other"]


def test_ids_are_left_for_later_fragments(tmp_path: Path) -> None:
    ds = start(tmp_path)
    refused(ds, tmp_path, OURS.ReserveFragments(2**32 - 1), "would leave no ids")
    lk.LanceDataset.commit(ds, OURS.ReserveFragments(1000), read_version=2)
    assert lance.write_dataset(ROWS, tmp_path, mode="append").count_rows() == 6


def test_offsets_that_are_damaged_or_outside(tmp_path: Path) -> None:
    ds = start(tmp_path)
    (first, _) = metadata(ds)
    for offsets, words in ((b"junk", "cannot be read"), (bytes(BitMap([9]).serialize()), "row 9")):
        update = OURS.Update([], [first], [], [], [], updated_fragment_offsets={0: offsets})
        refused(ds, tmp_path, update, words)


def test_a_detached_version_needs_a_dataset(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="A detached version needs a dataset"):
        lk.LanceDataset.commit(
            tmp_path / "new", OURS.Overwrite(ROWS.schema, [fresh(str(tmp_path))]), detached=True
        )
    assert not (tmp_path / "new" / "_versions").exists()


def test_a_name_among_many_files() -> None:
    named = [f"{n:04d}.lance" for n in range(300)]
    encoded = [
        lk.FragmentMetadata(n, [lk.fragment.DataFile(name, (0,), (0,), 2, 1)], 1).to_bytes()
        for n, name in enumerate(named)
    ]
    wanted = [named[7], named[250], "longer-name.lance", "", "nope.lance"]
    assert places_with_files(encoded, wanted).tolist() == [7, 250]
    assert places_with_files([], wanted).tolist() == []
