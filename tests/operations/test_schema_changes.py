"""Columns added, altered, dropped and merged: pylance's rows and schemas for the same calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
    PredicateError,
    RetryableConflictError,
)

Run = Callable[..., Any]
Change = Callable[[Any], Any]

SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64(), False),
        pa.field("b", pa.string()),
        pa.field("s", pa.struct({"p": pa.int32(), "q": pa.struct({"r": pa.string()})})),
        pa.field("l", pa.list_(pa.int32())),
    ]
)
ROWS = pa.Table.from_pylist(
    [
        {"a": 1, "b": "x", "s": {"p": 1, "q": {"r": "z"}}, "l": [1]},
        {"a": 2, "b": "y", "s": {"p": 2, "q": {"r": "w"}}, "l": []},
        {"a": 3, "b": None, "s": None, "l": [2, 3]},
        {"a": 4, "b": "v", "s": {"p": None, "q": None}, "l": None},
    ],
    SCHEMA,
)


def make(side: Any, path: Path, stable: bool = False) -> Any:
    ds = side.write_dataset(ROWS, str(path), max_rows_per_file=2, enable_stable_row_ids=stable)
    ds.delete("a = 2")
    return ds


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([pa.array([2 * v for v in batch["a"].to_pylist()])], ["twice"])


def joined(**columns: Any) -> pa.Table:
    return pa.table(columns)


CHANGES: dict[str, Change] = {
    "drop": lambda ds: ds.drop_columns(["a"]),
    "drop twice": lambda ds: ds.drop_columns(["a", "a", "b"]),
    "drop part": lambda ds: ds.drop_columns(["s.p"]),
    "drop last part": lambda ds: ds.drop_columns(["s.q.r"]),
    "drop all parts": lambda ds: ds.drop_columns(["s.p", "s.q"]),
    "drop nothing": lambda ds: ds.drop_columns([]),
    "rename": lambda ds: ds.alter_columns({"path": "b", "name": "c"}),
    "rename part": lambda ds: ds.alter_columns({"path": "s.q.r", "name": "t"}),
    "swap": lambda ds: ds.alter_columns({"path": "a", "name": "b"}, {"path": "b", "name": "a"}),
    "nullable": lambda ds: ds.alter_columns({"path": "a", "nullable": True}),
    "not nullable": lambda ds: (
        ds.update({"b": "'n'"}, where="b IS NULL"),
        ds.alter_columns({"path": "b", "nullable": False}),
    ),
    "same twice": lambda ds: ds.alter_columns(
        {"path": "a", "name": "n"}, {"path": "a", "nullable": True}
    ),
    "nothing": lambda ds: ds.alter_columns(),
    "cast": lambda ds: ds.alter_columns({"path": "a", "data_type": pa.int8()}),
    "cast list": lambda ds: ds.alter_columns({"path": "l", "data_type": pa.large_list(pa.int64())}),
    "cast part": lambda ds: ds.alter_columns({"path": "s.p", "data_type": pa.int64()}),
    "cast deep part": lambda ds: ds.alter_columns(
        {"path": "s.q.r", "data_type": pa.large_string()}
    ),
    "cast and more": lambda ds: ds.alter_columns(
        {"path": "a", "data_type": pa.int32(), "name": "n", "nullable": True},
        {"path": "b", "name": "c"},
    ),
    "nulls": lambda ds: ds.add_columns(pa.field("n", pa.int32())),
    "more nulls": lambda ds: ds.add_columns(
        [pa.field("n", pa.int32()), pa.field("m", pa.struct({"k": pa.string()}))]
    ),
    "schema of nulls": lambda ds: ds.add_columns(pa.schema({"n": pa.list_(pa.int8())})),
    "part of nulls": lambda ds: ds.add_columns(pa.field("s", pa.struct({"new": pa.int32()}))),
    "sql": lambda ds: ds.add_columns({"m": "upper(b)", "n": "s.p"}),
    "function": lambda ds: ds.add_columns(double, read_columns=["a"]),
    "table": lambda ds: ds.add_columns(joined(n=[7, 8, 9], t=["p", "q", None])),
    "reader": lambda ds: ds.add_columns(joined(n=[7, 8, 9]).to_reader(max_chunksize=1)),
    "merge": lambda ds: ds.merge(joined(a=[1, 1, 9], z=["p", "q", "r"]), "a"),
    "merge by another": lambda ds: ds.merge(joined(k=[3], z=["p"]), "a", "k"),
    "merge by text": lambda ds: ds.merge(joined(b=["v", "x"], z=[1, 2]), "b"),
    "merge by row": lambda ds: ds.merge(
        joined(_rowid=pa.array([0], pa.uint64()), z=["p"]), "_rowid"
    ),
    "drop and add": lambda ds: (
        ds.drop_columns(["b"]),
        ds.add_columns(pa.table({"b": [5, 6, 7]})),
    ),
    "add and compact": lambda ds: (
        ds.add_columns(double, read_columns=["a"]),
        ds.drop_columns(["s.q"]),
        ds.optimize.compact_files(),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_those_of_pylance(tmp_path: Path, change: str) -> None:
    ours, theirs = make(lk, tmp_path / "ours"), make(lance, tmp_path / "theirs")
    for ds in (ours, theirs):
        CHANGES[change](ds)
    opened = cast(Any, lance.dataset(str(tmp_path / "ours")))
    opened.validate()
    ours.validate(deep=True)
    assert ours.to_table() == opened.to_table() == theirs.to_table()
    assert ours.schema == opened.schema == theirs.schema
    assert lk.dataset(str(tmp_path / "theirs")).to_table() == theirs.to_table()
    assert ours.version == theirs.version
    layouts = [
        [[(f.fields, f.column_indices) for f in fragment.data_files()] for fragment in fragments]
        for fragments in (opened.get_fragments(), theirs.get_fragments())
    ]
    assert layouts[0] == layouts[1]
    lance.write_dataset(theirs.to_table(), opened, mode="append")
    assert lk.dataset(str(tmp_path / "ours")).count_rows() == 6


@pytest.mark.parametrize("change", ["rename", "nullable", "cast", "nulls", "function", "merge"])
def test_an_old_release_reads_on(tmp_path: Path, pylance4: Run, change: str) -> None:
    rows = ROWS.select(["a", "b"])
    ds = lk.write_dataset(rows, tmp_path / "d", data_storage_version="2.0", max_rows_per_file=2)
    ds.delete("a = 2")
    CHANGES[change](ds)
    program = "result = lance.dataset(arguments['path']).to_table().to_pylist()"
    assert pylance4(program, path=str(tmp_path / "d")) == ds.to_table().to_pylist()


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        (
            lambda ds: ds.drop_columns(["a", "b", "s", "l"]),
            InvalidArgumentError,
            "Cannot drop all columns",
        ),
        (lambda ds: ds.drop_columns(5), InvalidTypeError, "list"),
        (lambda ds: ds.drop_columns(["zz"]), ColumnNotFoundError, "zz"),
        (lambda ds: ds.drop_columns(["s.zz"]), ColumnNotFoundError, "zz"),
        (lambda ds: ds.alter_columns({"path": "b", "name": "a"}), InvalidArgumentError, "Two"),
        (
            lambda ds: ds.alter_columns({"path": "b", "name": "x.y"}),
            InvalidArgumentError,
            "contains",
        ),
        (lambda ds: ds.alter_columns({"path": "zz", "name": "x"}), ColumnNotFoundError, "zz"),
        (lambda ds: ds.alter_columns({"path": "a"}), InvalidArgumentError, "nothing"),
        (lambda ds: ds.alter_columns({"name": "q"}), InvalidArgumentError, "path"),
        (lambda ds: ds.alter_columns({"path": "a", "bogus": 1}), InvalidArgumentError, "bogus"),
        (lambda ds: ds.alter_columns({"path": "a", "name": 1}), InvalidTypeError, "str"),
        (
            lambda ds: ds.alter_columns({"path": "b", "nullable": False}),
            InvalidArgumentError,
            "1 null, so",
        ),
        (
            lambda ds: ds.alter_columns({"path": "s.p", "nullable": False}),
            InvalidArgumentError,
            "2 nulls",
        ),
        (
            lambda ds: ds.alter_columns({"path": "a", "data_type": pa.string()}),
            InvalidArgumentError,
            "cannot be cast",
        ),
        (lambda ds: ds.add_columns(pa.field("n", pa.int8(), False)), InvalidArgumentError, "null"),
        (lambda ds: ds.add_columns(pa.field("a", pa.int8())), InvalidArgumentError, "already"),
        (lambda ds: ds.add_columns({"a": "1"}), InvalidArgumentError, "already"),
        (lambda ds: ds.add_columns({}), InvalidArgumentError, "No columns"),
        (lambda ds: ds.add_columns({"n": [1, 2]}), InvalidTypeError, "one value a row, pass rows"),
        (lambda ds: ds.add_columns({"n": (1,)}), InvalidTypeError, "SQL"),
        (lambda ds: ds.add_columns({"n": "nope"}), PredicateError, "nope"),
        (lambda ds: ds.add_columns(7), InvalidTypeError, "rows"),
        (lambda ds: ds.add_columns(joined(n=[7])), InvalidArgumentError, "fewer"),
        (
            lambda ds: ds.add_columns(joined(n=[7] * 9)),
            InvalidArgumentError,
            "more values than expected",
        ),
        (lambda ds: ds.add_columns(lambda _: pa.table({"n": [1, 2, 3, 4]})), ValueError, "rows"),
        (lambda ds: ds.add_columns(double, read_columns=["zz"]), ColumnNotFoundError, "zz"),
        (lambda ds: ds.merge(joined(a=[3], b=["p"]), "a"), InvalidArgumentError, "already"),
        (
            lambda ds: ds.merge(joined(a=pa.array([3], pa.float32()), z=["p"]), "a"),
            InvalidArgumentError,
            "float",
        ),
        (lambda ds: ds.merge(joined(q=[3], z=["p"]), "a"), ColumnNotFoundError, "a"),
        (lambda ds: ds.merge(joined(a=[3]), "a"), InvalidArgumentError, "No columns"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, change: Change, error: type[Exception], reason: str
) -> None:
    ds = make(lk, tmp_path / "d")
    files = sorted(path.name for path in (tmp_path / "d" / "data").iterdir())
    with pytest.raises(error, match=reason):
        change(ds)
    assert lk.dataset(str(tmp_path / "d")).version == ds.version == 2
    assert sorted(path.name for path in (tmp_path / "d" / "data").iterdir()) == files


def test_a_key_of_another_width_is_cast(tmp_path: Path) -> None:
    ds = make(lk, tmp_path / "d")
    rows = joined(a=pa.array([3], pa.int32()), z=["p"])
    assert ds.explain.merge(rows, "a").commits == ("Merge",)
    ds.merge(rows, "a")
    assert ds.to_table(filter="a = 3")["z"].to_pylist() == ["p"]


def test_halves_that_are_copied_stay_halves(tmp_path: Path) -> None:
    ds = lk.write_dataset({"h": pa.array([1.5, None], pa.float16())}, tmp_path / "d")
    ds.add_columns({"copy": "h"})
    assert ds.schema.field("copy").type == pa.float16()
    assert ds.to_table()["copy"].to_pylist() == [1.5, None]


def test_values_that_do_not_fit(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1, 2, 300]}, tmp_path / "d", max_rows_per_file=1)
    files = sorted(path.name for path in (tmp_path / "d" / "data").iterdir())
    with pytest.raises(InvalidArgumentError, match="300"):
        ds.alter_columns({"path": "x", "data_type": pa.int8()})
    # a deleted row is not looked at, and nothing of the attempt is left
    assert sorted(path.name for path in (tmp_path / "d" / "data").iterdir()) == files
    ds.delete("x = 300")
    ds.alter_columns({"path": "x", "data_type": pa.int8()})
    assert ds.to_table().to_pylist() == [{"x": 1}, {"x": 2}]
    assert lance.dataset(str(tmp_path / "d")).to_table() == ds.to_table()


def test_functions_see_live_rows(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(batch: pa.RecordBatch) -> Any:
        seen.append(batch.to_pydict())
        return {"n": batch["a"]}

    ds = make(lk, tmp_path / "d")
    ds.add_columns(look, read_columns=["a", "_rowaddr"], batch_size=1)
    second = 1 << 32
    batches = [
        {"a": [1], "_rowaddr": [0]},
        {"a": [3], "_rowaddr": [second]},
        {"a": [4], "_rowaddr": [second + 1]},
    ]
    assert seen[0] == batches[0]  # to see what it returns
    assert sorted(seen[1:], key=str) == sorted(batches, key=str)
    assert ds.to_table(columns=["n"])["n"].to_pylist() == [1, 3, 4]
    empty = lk.write_dataset({"a": [1]}, tmp_path / "e")
    empty.delete("true")
    with pytest.raises(InvalidArgumentError, match="no rows"):
        empty.add_columns(look)
    empty.add_columns(look, reader_schema=pa.schema({"n": pa.int64()}))
    assert empty.schema.names == ["a", "n"]


def test_a_column_of_a_not_nullable_type(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.struct([pa.field("t", pa.string(), False)]), False)])

    def made(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"n": {"t": "v"}}] * batch.num_rows, schema)

    ds = make(lk, tmp_path / "d")
    ds.delete("a = 1")  # no live row is left in the first fragment
    ds.add_columns(made)
    assert not ds.schema.field("n").nullable
    opened = lance.dataset(str(tmp_path / "d")).to_table()
    assert opened == ds.to_table()
    assert opened["n"].to_pylist() == [{"t": "v"}] * 2


def test_concurrent_writers(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    make(lk, tmp_path / "d")
    ours, other, stale = lk.dataset(uri), lance.dataset(uri), lance.dataset(uri)
    lance.write_dataset(ROWS.slice(0, 1), uri, mode="append")
    ours.alter_columns({"path": "b", "name": "c"})  # does not mind
    lance.write_dataset(ROWS.slice(0, 1).drop_columns(["b"]), stale, mode="append")  # nor does it
    assert ours.count_rows() == 4
    ours.checkout_latest()
    assert ours.count_rows() == 5
    del other
    handle = lk.dataset(uri)
    lance.write_dataset(ours.to_table().slice(0, 1), uri, mode="append")
    handle.add_columns({"n": "a * 2"})  # is worked out again, with the new row
    assert handle.to_table(columns=["n"])["n"].to_pylist() == [2, 6, 8, 2, 2, 2]
    handle = lk.dataset(uri)
    lance.write_dataset(ours.to_table().slice(0, 1), uri, mode="append")
    with pytest.raises((RetryableConflictError, OSError)):
        handle.add_columns(pa.table({"o": range(6)}).to_reader())  # can be read only once


def test_indices_follow(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    make(lance, tmp_path / "d")
    cast(Any, lance.dataset(uri)).create_scalar_index("a", "BTREE")
    ds = lk.dataset(uri)
    with pytest.raises(InvalidArgumentError, match="index 'a_idx'"):
        ds.alter_columns({"path": "a", "data_type": pa.int32()})
    ds.alter_columns({"path": "a", "name": "key"})
    ds.add_columns({"n": "key + 1"})
    theirs = cast(Any, lance.dataset(uri))
    assert theirs.to_table(filter="key = 3")["n"].to_pylist() == [4]
    assert [index.name for index in theirs.describe_indices()] == ["a_idx"]
    ds.drop_columns(["key"])
    assert list(cast(Any, lance.dataset(uri)).describe_indices()) == []


def test_stable_row_ids_stay(tmp_path: Path) -> None:
    found = []
    for side in (lk, lance):
        ds = make(side, tmp_path / side.__name__, stable=True)
        ds.alter_columns({"path": "a", "data_type": pa.int32()})
        ds.add_columns(double, read_columns=["a"])
        opened = lance.dataset(str(tmp_path / side.__name__))
        found.append(opened.to_table(columns=["_rowid", "_row_created_at_version"]))
    assert found[0] == found[1]
    # a difference: a cast changes every row, but a new column does not
    updated = lk.dataset(str(tmp_path / "lancekit")).to_table(
        columns=["_row_last_updated_at_version"]
    )
    assert updated.column(0).to_pylist() == [3, 3, 3]


def test_a_null_key_matches_nothing(tmp_path: Path) -> None:
    ds = make(lk, tmp_path / "d")
    ds.merge(pa.table({"b": pa.array([None], pa.string()), "z": [1]}), "b")
    assert ds.to_table(columns=["z"])["z"].to_pylist() == [None, None, None]


@pytest.mark.parametrize("stable", [False, True])
def test_a_cast_of_a_column_alone_in_its_file_leaves_no_dead_file(
    tmp_path: Path, stable: bool
) -> None:
    ids = pa.table({"id": pa.array([1, 2], pa.int32())})
    for side in (lk, lance):
        uri = str(tmp_path / side.__name__)
        ds: Any = side.write_dataset(ids, uri, enable_stable_row_ids=stable)
        ds.add_columns({"n": "id + 1"})
        ds.alter_columns({"path": "id", "data_type": pa.int64()})
        theirs = cast(Any, lance.dataset(uri))
        assert [len(f.data_files()) for f in theirs.get_fragments()] == [2]
        theirs.validate()
        assert lk.dataset(uri).to_table().to_pylist() == [{"id": 1, "n": 2}, {"id": 2, "n": 3}]


def test_a_type_that_cannot_be_stored_is_told_of_the_column_itself(tmp_path: Path) -> None:
    when = pa.array([1, 2], pa.timestamp("us"))
    ds = lk.write_dataset(pa.table({"when": when}), tmp_path / "d")
    bad = pa.dictionary(pa.int8(), pa.timestamp("us"))
    with pytest.raises(lk.errors.UnsupportedTypeError, match="Column 'when'") as refused:
        ds.alter_columns({"path": "when", "data_type": bad})
    assert "'cast'" not in str(refused.value)


@pytest.mark.parametrize(
    ("expressions", "files"),
    [
        ({"b": "CAST(NULL AS int)"}, 1),
        ({"b": "(cast(null as string))", "c": "CAST(NULL AS double)"}, 1),
        ({"b": "CAST(NULL AS int)", "c": "a + 1"}, 2),
        ({"b": "nullif(1, 1)"}, 2),
    ],
)
def test_expressions_that_are_null_write_no_file(
    tmp_path: Path, expressions: dict[str, str], files: int
) -> None:
    found = []
    for library in (lk, lance):
        uri = str(tmp_path / library.__name__)
        ds = cast(Any, library).write_dataset(pa.table({"a": range(10)}), uri, max_rows_per_file=5)
        ds.add_columns(expressions)
        assert [len(f.data_files()) for f in ds.get_fragments()] == [files] * 2
        found += [each.dataset(uri).to_table() for each in (lk, lance)]
    assert all(table.equals(found[0]) for table in found)
    assert found[0]["b"].null_count == 10


@pytest.mark.parametrize("library", [lk, lance], ids=["lancekit", "pylance"])
def test_indices_follow_columns_whose_names_are_swapped(tmp_path: Path, library: Any) -> None:
    rows = {"a": [*range(50)], "b": [n * 7 % 50 for n in range(50)]}
    lk.write_dataset(rows, tmp_path).create_scalar_index("a", "BTREE")
    lance.dataset(str(tmp_path)).create_scalar_index("b", "ZONEMAP")
    names = {"path": "a", "name": "b"}, {"path": "b", "name": "a"}
    library.dataset(str(tmp_path)).alter_columns(*names)
    for reader in (lk, lance):
        ds = reader.dataset(str(tmp_path))
        assert [[*index.field_names] for index in ds.describe_indices()] == [["b"], ["a"]]
        found = ds.to_table(filter="b = 3 OR a = 1").to_pylist()
        assert found == [{"b": 3, "a": 21}, {"b": 43, "a": 1}]
        assert ds.to_table(filter="b = 3 OR a = 1", use_scalar_index=False).to_pylist() == found


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_a_struct_of_which_no_file_has_a_part(tmp_path: Path, version: str) -> None:
    rows = pa.table({"id": [1, 2, 3], "s": [{"a": 1}, {"a": 2}, {"a": 3}]})
    ds = lk.write_dataset(rows, tmp_path / "d", data_storage_version=version)
    new = pa.struct([("c", pa.string()), ("d", pa.list_(pa.int32()))])
    ds.add_columns(pa.schema([pa.field("s", new)]))
    ds.drop_columns(["s.a"])
    # files of 2.1 have nulls of structs with the parts
    struct = {"c": None, "d": None} if version == "2.0" else None
    for found in (ds, lance.dataset(ds.uri)):
        assert found.to_table()["s"].to_pylist() == [struct] * 3
        assert found.take([2])["s"].to_pylist() == [struct]
        assert found.count_rows("s.c IS NULL") == 3
    ds.delete("id = 2")
    ds.optimize.compact_files()
    assert ds.to_table()["s"].to_pylist() == [struct] * 2


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_fragment_whose_columns_are_all_dropped_is_read(tmp_path: Path, version: str) -> None:
    """pylance cannot read a fragment without data files, as its own drop leaves it."""
    path = str(tmp_path / "d")
    lance.write_dataset(
        pa.table({"k": [1, 2], "f": [0.5, 1.5]}), path, data_storage_version=version
    )
    lance.write_dataset(pa.table({"f": [2.5, 3.5]}), path, mode="append")
    lk.dataset(path).drop_columns(["f"])
    for library in (lk, lance):
        ds = library.dataset(path)
        assert ds.count_rows() == 4
        assert ds.to_table().to_pydict() == {"k": [1, 2, None, None]}
        assert ds.count_rows("k IS NULL") == 2
    lance.dataset(path).update({"k": "3"}, where="k IS NULL")
    lk.dataset(path).optimize.compact_files()
    for library in (lk, lance):
        assert library.dataset(path).to_table().to_pydict() == {"k": [1, 2, 3, 3]}
