"""Where an operation does not do what pylance does, on purpose: `docs/differences.md`.

``python -m tests.support.listed_differences`` writes the page.  A test shows each difference with
both libraries, another compares the page.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterable
from datetime import timedelta
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

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"


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


DIFFERENCES = (
    Difference(
        "`merge_insert`: a key that is twice in the source, and not in the table",
        "an error that names the key, before anything is written",
        "both rows are inserted, even on a primary key",
        "the next merge could not tell the two rows apart, and a key that is in the table already "
        "is an error in pylance, too",
        _duplicates,
        REFUSED,
        [(1, "a"), (2, "b"), (2, "c")],
    ),
    Difference(
        "an overwrite of a table with a primary key by rows that have its columns",
        "keeps the key; rows that lack one of the columns drop the key, with a warning",
        "drops the key without a word",
        "merges after it would not guard their keys; `primary_key=[]` drops the key",
        _overwritten_key,
        True,
        False,
    ),
    Difference(
        '`update({"a": "b", "b": "a"})`',
        "swaps: all expressions see the old row",
        "one column ends up in both: assignments are made one after the other, in any order",
        "it is what SQL says, and the only reading that gives the same result each time",
        _identical_assignments,
        "swapped",
        "both the same",
    ),
    Difference(
        "`merge_insert`: a null key, when the key column has a scalar index",
        "equals nothing, so the row is inserted, as without an index",
        "the row is left out",
        "an index is there to make things faster, and changes no result",
        _null_key,
        [(1, "a"), (None, "b")],
        [(1, "a")],
    ),
    Difference(
        "`merge` of a table by a key: a null key",
        "matches nothing",
        "matches another null",
        "it is what `merge_insert` and SQL say",
        _null_in_join,
        [(1, "a"), (None, None)],
        [(1, "a"), (None, "b")],
    ),
    Difference(
        "`add_columns` with values: the rows, in a feed of changes",
        "are no changed rows",
        "all count as changed",
        "who follows a table's changes has not to read all of it because it has one column more",
        _marks,
        0,
        1,
    ),
    Difference(
        "`alter_columns` of a date of the year 9999 to `timestamp[ns]`",
        "an error, as for timestamps",
        "stores the year 1816",
        "no cast wraps around ([casts](casts.md))",
        _far_date,
        REFUSED,
        "stored",
    ),
    Difference(
        "`alter_columns` to an extension type",
        "the column is of that type",
        "the column is of the storage type",
        "no type is lost in silence",
        _extension_type,
        True,
        False,
    ),
    Difference(
        "`update` of a decimal column with a number of more than 17 digits",
        "stores its digits",
        "stores the double next to it",
        "numbers in the text keep their digits ([filters](filters.md))",
        _exact_literal,
        "the number",
        "another one",
    ),
    Difference(
        "`add_columns` of an expression that is never null",
        "the column takes nulls",
        "the column takes none",
        "rows that are written without it stay possible",
        _nullability,
        True,
        False,
    ),
    Difference(
        "`when_matched_delete` together with `when_not_matched_by_source_delete(condition)`",
        "deletes both kinds of rows",
        "an internal error",
        "the two clauses do not touch each other",
        _two_deletes,
        [(2, "b")],
        REFUSED,
    ),
    Difference(
        "`when_matched_update_all`: a function of a column, such as `length(source.v)`",
        "works",
        "the column is not found",
        "there is one filter language",
        _function_of_source,
        [(1, "long")],
        REFUSED,
    ),
    Difference(
        '`merge_insert` with `write_mode("rewrite_columns")`: a source without rows',
        "changes nothing",
        "an error, which says that the source has all columns",
        "a batch of changes may be empty",
        _no_rows_in_place,
        [(1, "a", 1)],
        REFUSED,
    ),
    Difference(
        "`merge_insert`: a source whose types are others, such as `int32` for `int64`",
        "cast, if no value changes; see [casts](casts.md)",
        "an error",
        "rows come from pandas, Spark and files, whose types are seldom exactly the table's",
        _other_type,
        [(1, "a"), (2, "b")],
        REFUSED,
    ),
    Difference(
        "`merge_insert`: a source whose struct lacks fields of the table's",
        "an error that names the fields",
        "the fields that are there are updated, the others stay",
        "a struct is one value, and a source that has lost a field of it is more often a mistake; "
        "whole columns may be left out",
        _part_of_a_struct,
        REFUSED,
        [(1, {"a": 1, "b": 3})],
    ),
    *OF_INPUTS,
    *OF_SEARCHES,
    Difference(
        "`delta` of a table without stable row ids",
        "an error",
        "no rows",
        "no rows would mean that nothing changed",
        _delta_without_ids,
        REFUSED,
        0,
    ),
    Difference(
        "a blob whose URI leads out of the dataset's folder, also by `..` or a link",
        "an error that names the place, until `options.trusted_bases` lists it",
        "is read",
        "who hands over a dataset should not choose which files its reader shows",
        _blob_outside,
        REFUSED,
        b"secret",
    ),
    Difference(
        "automatic cleanup by settings that the user's lancekit did not write",
        "a warning, until the user agrees once (`options.trusted_cleanup`)",
        "versions go",
        "who hands over a dataset should not choose what its writer loses",
        _cleanup_of_others,
        3,
        2,
    ),
    Difference(
        "`dataset(asof=)`: a time at which a version was the newest that was cleaned up",
        "an error, which names the versions before and after it",
        "the version before it",
        "rows that were not there at that time would be taken for those that were",
        _as_of_what_is_gone,
        REFUSED,
        1,
    ),
    Difference(
        "`delta` up to a version that is not the handle's",
        "rows as they were at its end version",
        "rows as they are at the handle's version: what changed again later is missing, or "
        "has later values",
        "who follows a table's changes step by step gets each step whole, whenever they ask",
        _delta_at_its_end,
        [2, 3],
        [20],
    ),
    Difference(
        "a map whose type says that its keys are sorted",
        "is written as any map; that they are sorted is not kept",
        "an error",
        "no value is lost",
        _sorted_map,
        False,
        REFUSED,
    ),
    Difference(
        "a detached commit to a table with the older names of manifests",
        "works",
        "an error",
        "such a version has a name of its own; pylance reads it",
        _detached_on_old_names,
        2,
        REFUSED,
    ),
    Difference(
        "a commit of an index whose files are not there",
        "an error that names the index, and nothing is committed",
        "is committed, and queries that use the index fail from then on",
        "a version that cannot be read is no version",
        _index_without_files,
        REFUSED,
        2,
    ),
    Difference(
        "`to_batches` with a filter",
        "batches are filled over the borders of files",
        "each file has batches of its own, however few rows are left of it",
        "a filter that leaves a row of each file would make as many batches as there are files; "
        "without one, batches end with files in both",
        _filtered_batches,
        [4],
        [1, 1, 1, 1],
    ),
    *OF_FILES,
    *OF_SHARDS,
)

_HEAD = """\
# Where operations differ from pylance

Every operation is compared with pylance 14.0.2 and with a plain model, alone and in random
histories, in this process and on Spark: rows, row ids, versions of rows, schemas and counts are
equal, except for these. What else pylance offers is in [its own list](pylance-coverage.md); how
concurrent changes meet is in [conflicts](conflicts.md).

This page is generated from `tests/support/listed_differences.py`; a test shows every line of it
with both libraries.

| what | lancekit | pylance | why |
|---|---|---|---|
"""


def _lines() -> Iterable[str]:
    for one in DIFFERENCES:
        yield f"| {one.what} | {one.here} | {one.there} | {one.why} |\n"


def document() -> str:
    """Return the page."""
    return _HEAD + "".join(_lines())


if __name__ == "__main__":
    PAGE.write_text(document())
