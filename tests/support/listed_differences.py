"""Where an operation does not do what pylance does, on purpose: `docs/reference/differences.md`.

``python -m tests.support.listed_differences`` writes the page.  A test shows each difference with
both libraries, another compares the page.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa

import lancekit as lk
from tests.support.difference import REFUSED, Difference, tried
from tests.support.file_differences import OF_FILES
from tests.support.input_differences import OF_INPUTS
from tests.support.search_differences import OF_SEARCHES
from tests.support.shard_differences import OF_SHARDS

__all__ = ["DIFFERENCES", "PAGE", "Difference", "document"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "differences.md"


def _table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def _rows(library: ModuleType, uri: str) -> list[tuple[Any, ...]]:
    rows = library.dataset(uri).to_table().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def _merged(
    library: ModuleType, uri: str, source: pa.Table, build: Callable[[Any], Any]
) -> list[tuple[Any, ...]] | str:
    builder = build(library.dataset(uri).merge_insert("k"))
    if tried(lambda: builder.execute(source)) == REFUSED:
        return REFUSED
    return _rows(library, uri)


def _upsert(builder: Any) -> Any:
    return builder.when_matched_update_all().when_not_matched_insert_all()


def _duplicates(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1], v=["a"]), uri)
    return _merged(library, uri, _table(k=[2, 2], v=["b", "c"]), _upsert)


def _overwritten_key(library: ModuleType, uri: str) -> Any:
    lk.write_dataset(_table(k=[1]), uri, primary_key="k")
    library.write_dataset(_table(k=[2]), uri, mode="overwrite")
    return b"lance-schema:unenforced-primary-key" in (
        library.dataset(uri).schema.field("k").metadata or {}
    )


def _dropped_with_all_rows(library: ModuleType, uri: str) -> Any:
    lance.write_dataset(_table(k=[1], v=["a"]), uri)
    lance.write_dataset(_table(v=["b"]), uri, mode="append")
    library.dataset(uri).drop_columns(["v"])
    return tried(lambda: lance.dataset(uri).count_rows())


def _copied_json(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(j=pa.array(['{"a": 1}'], pa.json_())), uri)
    library.dataset(uri).add_columns({"x": "j"})
    return isinstance(library.dataset(uri).schema.field("x").type, pa.JsonType)


def _text_for_json(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(j=pa.array(["1"], pa.json_())), uri)
    text = _table(j=['{"a": 2}'])
    return tried(lambda: library.write_dataset(text, uri, mode="append").count_rows())


def _no_rows_without_a_column(library: ModuleType, uri: str) -> Any:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string(), False)])
    library.write_dataset(pa.table({"k": [1], "v": ["a"]}, schema), uri)
    return _merged(library, uri, _table(k=pa.array([], pa.int64())), _upsert)


def _identical_assignments(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(a=[1], b=[2]), uri)
    library.dataset(uri).update({"a": "b", "b": "a"})
    (row,) = _rows(library, uri)
    return "swapped" if row == (2, 1) else "both the same" if len({*row}) == 1 else row


def _null_key(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1], v=["a"]), uri)
    lance.dataset(uri).create_scalar_index("k", "BTREE")
    source = _table(k=pa.array([None], pa.int64()), v=["b"])
    return _merged(library, uri, source, _upsert)


def _null_in_join(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1, None]), uri)
    library.dataset(uri).merge(_table(k=[1, None], v=["a", "b"]), "k")
    return _rows(library, uri)


def _marks(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1]), uri, enable_stable_row_ids=True)
    library.dataset(uri).add_columns({"v": "k + 1"})
    return library.dataset(uri).delta(compared_against=1).get_updated_rows().read_all().num_rows


def _far_date(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(day=pa.array([2932896], pa.date32())), uri)
    column = {"path": "day", "data_type": pa.timestamp("ns")}
    return tried(lambda: library.dataset(uri).alter_columns(column) or "stored")


def _extension_type(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(n=[1]), uri)
    library.dataset(uri).alter_columns({"path": "n", "data_type": pa.opaque(pa.int64(), "a", "b")})
    return isinstance(library.dataset(uri).schema.field("n").type, pa.BaseExtensionType)


def _exact_literal(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(d=pa.array([None], pa.decimal128(38, 0))), uri)
    library.dataset(uri).update({"d": "9" * 38})
    ((number,),) = _rows(library, uri)
    return "the number" if number == 10**38 - 1 else "another one"


def _nullability(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1]), uri)
    library.dataset(uri).add_columns({"v": "k IS NULL"})
    return library.dataset(uri).schema.field("v").nullable


def _two_deletes(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1, 2, 3], v=["a", "b", "c"]), uri)

    def build(builder: Any) -> Any:
        return builder.when_matched_delete().when_not_matched_by_source_delete("v = 'c'")

    return _merged(library, uri, _table(k=[1], v=["x"]), build)


def _nullability_of_a_scan(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1]), uri)
    return library.dataset(uri).to_table(columns={"n": "k IS NULL"}).schema.field("n").nullable


def _function_of_source(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1], v=["a"]), uri)

    def build(builder: Any) -> Any:
        return builder.when_matched_update_all("length(source.v) > 1")

    return _merged(library, uri, _table(k=[1], v=["long"]), build)


def _no_rows_in_place(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1], v=["a"], w=[1]), uri)

    def build(builder: Any) -> Any:
        return builder.when_matched_update_all().write_mode("rewrite_columns")

    return _merged(library, uri, _table(k=[1], v=["b"]).slice(0, 0), build)


def _other_type(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1], v=["a"]), uri)
    return _merged(library, uri, _table(k=pa.array([2], pa.int32()), v=["b"]), _upsert)


def _part_of_a_struct(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1], s=[{"a": 1, "b": 2}]), uri)
    source = _table(k=[1], s=[{"b": 3}])
    return _merged(library, uri, source, lambda builder: builder.when_matched_update_all())


def _delta_without_ids(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1]), uri)
    library.write_dataset(_table(k=[2]), uri, mode="append")
    delta = library.dataset(uri).delta(compared_against=1)
    return tried(lambda: delta.get_inserted_rows().read_all().num_rows)


def _delta_at_its_end(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1]), uri, enable_stable_row_ids=True)
    library.write_dataset(_table(k=[2, 3]), uri, mode="append")
    library.dataset(uri).update({"k": "k * 10"}, where="k = 2")
    library.dataset(uri).delete("k = 3")
    feed = library.dataset(uri).delta(begin_version=1, end_version=2)
    return sorted(feed.get_inserted_rows().read_all()["k"].to_pylist())


def _as_of_what_is_gone(library: ModuleType, uri: str) -> Any:
    for value in (1, 2, 3):
        library.write_dataset(_table(k=[value]), uri, mode="overwrite")
    moment = lance.dataset(uri).versions()[1]["timestamp"] + timedelta(microseconds=1)
    lance.dataset(uri).tags.create("first", 1)
    lance.dataset(uri).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a time without a zone, which pylance asks for
        return tried(lambda: library.dataset(uri, asof=moment).version)


def _index_without_files(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=[1]), uri)
    made: dict[str, Any] = {"name": "k_idx", "fields": [0], "dataset_version": 1}
    index = library.Index(str(uuid.uuid4()), fragment_ids={0}, index_version=0, **made)
    operation = library.LanceOperation.CreateIndex([index], [])
    return tried(lambda: library.LanceDataset.commit(uri, operation, read_version=1).version)


def _filtered_batches(library: ModuleType, uri: str) -> Any:
    library.write_dataset(_table(k=range(8)), uri, max_rows_per_file=2)
    return [rows.num_rows for rows in library.dataset(uri).to_batches(filter="k % 2 = 0")]


def _blob_outside(library: ModuleType, uri: str) -> Any:
    outside = Path(uri).with_suffix(".bin")
    outside.write_bytes(b"secret")
    rows = pa.table([library.blob_array([outside.as_uri()])], schema=_blobs(library))
    settings = {"data_storage_version": "2.2", "allow_external_blob_outside_bases": True}
    library.write_dataset(rows, uri, **settings)
    ds = library.dataset(uri)
    return tried(lambda: ds.read_blobs("b", indices=[0])[0][1])


def _blobs(library: ModuleType) -> pa.Schema:
    return pa.schema([library.blob_field("b")])


def _cleanup_of_others(library: ModuleType, uri: str) -> Any:
    settings: Any = {"interval": 1, "older_than_seconds": 0}
    made = lance.write_dataset(_table(k=[1]), uri, auto_cleanup_options=settings)
    made.insert(_table(k=[2]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.dataset(uri).insert(_table(k=[3]))
    return len(library.dataset(uri).versions())


def _sorted_map(library: ModuleType, uri: str) -> Any:
    kind = pa.map_(pa.string(), pa.int8(), keys_sorted=True)
    rows = pa.table({"m": pa.array([[("a", 1)]], kind)})
    written = tried(lambda: library.write_dataset(rows, uri, data_storage_version="2.2"))
    return written if written == REFUSED else written.schema.field("m").type.keys_sorted


def _detached_on_old_names(library: ModuleType, uri: str) -> Any:
    ds = library.write_dataset(_table(k=[1]), uri, enable_v2_manifest_paths=False)
    made = library.LanceFragment.create(uri, _table(k=[2]))

    def commit() -> int:
        append = library.LanceOperation.Append([made])
        at = library.LanceDataset.commit(uri, append, read_version=ds.version, detached=True)
        return int(lance.dataset(uri, version=at.version).count_rows())

    return tried(commit)


_OF_CHANGES = (
    Difference(
        "`merge_insert`: a key that repeats in the source and is not in the table",
        "raises an error that names the key, before anything is written",
        "inserts both rows, even on a primary key",
        "The next merge could not tell the two rows apart. If the table has the key already, "
        "pylance raises an error, too.",
        _duplicates,
        REFUSED,
        [(1, "a"), (2, "b"), (2, "c")],
    ),
    Difference(
        "`merge_insert` that inserts: a source without rows lacks a column that takes no nulls",
        "raises an error, as for a source with rows",
        "changes nothing; a source with rows raises an error",
        "Whether a load fails does not depend on its rows.",
        _no_rows_without_a_column,
        REFUSED,
        [(1, "a")],
    ),
    Difference(
        "an overwrite of a table with a primary key by rows that have its columns",
        "keeps the key; rows without one of the columns drop the key, with a warning",
        "drops the key without a warning",
        "Later merges would not guard their keys. `primary_key=[]` drops the key.",
        _overwritten_key,
        True,
        False,
    ),
    Difference(
        "`drop_columns` of all columns in the data files of a fragment",
        "keeps one file of the fragment, and both libraries read its rows as nulls",
        "keeps no file, and cannot read the fragment",
        "An append with some columns, by pylance, makes such a fragment.",
        _dropped_with_all_rows,
        2,
        REFUSED,
    ),
    Difference(
        "an append or a merge of text into a JSON column",
        "stores the text as JSON; text that is not JSON raises an error",
        "raises an error: the column must have the type JSON",
        "Frames of pandas, Polars and Spark have JSON as text.",
        _text_for_json,
        2,
        REFUSED,
    ),
    Difference(
        '`add_columns({"x": "j"})` with a JSON column `j`',
        "`x` has the type JSON",
        "`x` has the type `large_binary`, with the bytes that JSON is stored as",
        "A projection of `j` has the type JSON in both libraries.",
        _copied_json,
        True,
        False,
    ),
    Difference(
        '`update({"a": "b", "b": "a"})`',
        "swaps the columns: all expressions see the old row",
        "gives both columns one value: it assigns one after the other, in any order",
        "SQL defines it so, and only this reading gives the same result each time.",
        _identical_assignments,
        "swapped",
        "both the same",
    ),
    Difference(
        "`merge_insert`: a null key, when the key column has a scalar index",
        "inserts the row, as without an index: null equals nothing",
        "leaves the row out",
        "An index makes calls faster, and changes no result.",
        _null_key,
        [(1, "a"), (None, "b")],
        [(1, "a")],
    ),
    Difference(
        "`merge` of a table by a key: a null key",
        "matches nothing",
        "matches another null",
        "`merge_insert` and SQL have the same rule.",
        _null_in_join,
        [(1, "a"), (None, None)],
        [(1, "a"), (None, "b")],
    ),
    Difference(
        "`add_columns` with values: the rows in a feed of changes",
        "count as unchanged",
        "all count as changed",
        "A reader of a table's changes must not read all rows because the table has a new column.",
        _marks,
        0,
        1,
    ),
    Difference(
        "`alter_columns` of a date of the year 9999 to `timestamp[ns]`",
        "raises an error, as for timestamps",
        "stores the year 1816",
        "No cast wraps around ([casts](casts.md)).",
        _far_date,
        REFUSED,
        "stored",
    ),
    Difference(
        "`alter_columns` to an extension type",
        "gives the column that type",
        "gives the column the storage type",
        "No type is lost silently.",
        _extension_type,
        True,
        False,
    ),
    Difference(
        "`update` of a decimal column with a number of more than 17 digits",
        "stores its digits",
        "stores the nearest double",
        "Numbers in the text keep their digits ([filters](../filters.md)).",
        _exact_literal,
        "the number",
        "another one",
    ),
    Difference(
        "`add_columns` of an expression that is never null",
        "makes a nullable column",
        "makes a column that is not nullable",
        "Later rows can still be written without the column.",
        _nullability,
        True,
        False,
    ),
    Difference(
        "a scan with `columns=` of an expression that is never null, such as `s IS NULL`",
        "returns a nullable column",
        "returns a column that is not nullable",
        "A scan gives the column the type that `add_columns` gives it.",
        _nullability_of_a_scan,
        True,
        False,
    ),
    Difference(
        "`when_matched_delete` together with `when_not_matched_by_source_delete(condition)`",
        "deletes both kinds of rows",
        "raises an internal error",
        "The two clauses apply to different rows.",
        _two_deletes,
        [(2, "b")],
        REFUSED,
    ),
    Difference(
        "`when_matched_update_all`: a function of a column, such as `length(source.v)`",
        "works",
        "does not find the column",
        "All conditions have the same filter language.",
        _function_of_source,
        [(1, "long")],
        REFUSED,
    ),
    Difference(
        '`merge_insert` with `write_mode("rewrite_columns")`: a source without rows',
        "changes nothing",
        "raises an error, which says that the source has all columns",
        "A batch of changes may be empty.",
        _no_rows_in_place,
        [(1, "a", 1)],
        REFUSED,
    ),
    Difference(
        "`merge_insert`: a source with other types, such as `int32` for `int64`",
        "casts, if no value changes ([casts](casts.md))",
        "raises an error",
        "Rows come from pandas, Spark and files, whose types are seldom exactly the table's.",
        _other_type,
        [(1, "a"), (2, "b")],
        REFUSED,
    ),
    Difference(
        "`merge_insert`: a source whose struct lacks fields of the table's struct",
        "raises an error that names the fields",
        "updates the fields of the source, and keeps the others",
        "A struct is one value, and a missing field is more often a mistake. Whole columns may be "
        "left out.",
        _part_of_a_struct,
        REFUSED,
        [(1, {"a": 1, "b": 3})],
    ),
)
_OF_VERSIONS = (
    Difference(
        "`delta` of a table without stable row ids",
        "raises an error",
        "returns no rows",
        "No rows would mean that nothing changed.",
        _delta_without_ids,
        REFUSED,
        0,
    ),
    Difference(
        "a blob whose URI leads out of the dataset's folder, also by `..` or a link",
        "raises an error that names the location, until `options.trusted_bases` lists it",
        "reads it",
        "The author of a dataset must not choose which files its reader shows.",
        _blob_outside,
        REFUSED,
        b"secret",
    ),
    Difference(
        "automatic cleanup by settings that the user's lancekit did not write",
        "warns, until the user agrees once (`options.trusted_cleanup`)",
        "removes versions",
        "The author of a dataset must not choose which versions its writer loses.",
        _cleanup_of_others,
        3,
        2,
    ),
    Difference(
        "`dataset(asof=)`: a time whose newest version was cleaned up",
        "raises an error, which names the versions before and after it",
        "opens the version before it",
        "The rows of that version are not the rows of that time.",
        _as_of_what_is_gone,
        REFUSED,
        1,
    ),
    Difference(
        "`delta` up to a version other than the handle's",
        "returns rows as of its end version",
        "returns rows as of the handle's version: rows that changed again later are missing, or "
        "have later values",
        "Readers of a table's changes get each step whole, at any time.",
        _delta_at_its_end,
        [2, 3],
        [20],
    ),
    Difference(
        "a map whose type says that its keys are sorted",
        "is written as any map, without that mark",
        "raises an error",
        "No value is lost.",
        _sorted_map,
        False,
        REFUSED,
    ),
    Difference(
        "a detached commit to a table with the older names of manifests",
        "works",
        "raises an error",
        "A detached version has its own kind of name. pylance reads it.",
        _detached_on_old_names,
        2,
        REFUSED,
    ),
    Difference(
        "a commit of an index whose files do not exist",
        "raises an error that names the index, and commits nothing",
        "commits, and queries that use the index fail from then on",
        "A version must be readable.",
        _index_without_files,
        REFUSED,
        2,
    ),
    Difference(
        "`to_batches` with a filter",
        "fills batches across the borders of files",
        "makes separate batches for each file, even if few of its rows match",
        "A filter that leaves one row of each file would make as many batches as files. Without a "
        "filter, batches end with files in both libraries.",
        _filtered_batches,
        [4],
        [1, 1, 1, 1],
    ),
)
#: by the heading of their table
_SECTIONS: dict[str, tuple[Difference, ...]] = {
    "Merges, updates and columns": _OF_CHANGES,
    "Rows to write": OF_INPUTS,
    "Filters, searches and indices": OF_SEARCHES,
    "Versions, commits and trust": _OF_VERSIONS,
    "Types, blobs and data files": OF_FILES,
    "Write-ahead logs": OF_SHARDS,
}
DIFFERENCES = tuple(chain.from_iterable(_SECTIONS.values()))

_HEAD = """\
# Where operations differ from pylance

The tables list the cases in which lancekit and pylance 14.0.2 give different results on purpose,
with the reason. Otherwise rows, row ids, versions of rows, schemas and counts are equal. Tests
compare every operation with pylance and with a plain model, alone and in random histories, in this
process and on Spark.

See also: [pylance's names that lancekit supports](../pylance-coverage.md), and [conflicts between
concurrent changes](../conflicts.md).

This page is generated from `tests/support/listed_differences.py`. A test shows every line with both
libraries.
"""


def _lines() -> Iterable[str]:
    for heading, differences in _SECTIONS.items():
        yield f"\n## {heading}\n\n| case | lancekit | pylance | reason |\n|---|---|---|---|\n"
        for one in differences:
            yield f"| {one.what} | {one.here} | {one.there} | {one.why} |\n"


def document() -> str:
    """Return the page."""
    return _HEAD + "".join(_lines())


if __name__ == "__main__":
    PAGE.write_text(document())
