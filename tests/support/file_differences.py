"""Where files, blobs and commits by hand differ from pylance, on purpose."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID
from warnings import catch_warnings

import lance
import pyarrow as pa

from tests.support.difference import REFUSED, Difference, tried

__all__ = ["OF_FILES"]


def _blobs(library: ModuleType, values: list[Any], **thresholds: int) -> pa.Table:
    schema = pa.schema([library.blob_field("b", **thresholds)])
    return pa.table([library.blob_array(values)], schema=schema)


def _blobs_in_lists(library: ModuleType, uri: str) -> Any:
    lists = pa.ListArray.from_arrays([0, 2], library.blob_array([b"x", b"y"]))
    table = pa.table({"m": lists})
    made = tried(lambda: library.write_dataset(table, uri, data_storage_version="2.2"))
    return REFUSED if made == REFUSED else made.count_rows()


def _files_of_blobs(library: ModuleType, uri: str) -> Any:
    table = _blobs(library, [b"x"], inline_size_threshold=0)
    library.write_dataset(table, uri, data_storage_version="2.2")
    return sum(1 for _ in Path(uri).rglob("*.blob"))


def _other_thresholds(library: ModuleType, uri: str) -> Any:
    first = _blobs(library, [b"x"], inline_size_threshold=10)
    library.write_dataset(first, uri, data_storage_version="2.2")
    more = _blobs(library, [b"y"], inline_size_threshold=20)
    made = tried(lambda: library.write_dataset(more, uri, mode="append"))
    return REFUSED if made == REFUSED else made.count_rows()


def _second_version_to_the_first(library: ModuleType, uri: str) -> Any:
    marked = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    first = pa.table([pa.array([b"x"], pa.large_binary())], schema=pa.schema([marked]))
    lance.write_dataset(first, uri, data_storage_version="2.1")
    more = _blobs(library, [b"y"])
    settings = {"mode": "append", "data_storage_version": "2.2"}
    made = tried(lambda: library.write_dataset(more, uri, **settings))
    return REFUSED if made == REFUSED else made.count_rows()


def _compacted_managed_blobs(library: ModuleType, uri: str) -> Any:
    rows = _blobs(lance, [b"x" * 70_000] * 2)
    rows = rows.replace_schema_metadata({"lance.blob.managed": "true"})
    lance.write_dataset(rows, uri, data_storage_version="2.2", max_rows_per_file=1)
    library.dataset(uri).optimize.compact_files()
    return {blob["kind"] for blob in lance.dataset(uri).to_table()["b"].to_pylist()}


def _blob_below_a_base(library: ModuleType, uri: str) -> Any:
    base = Path(uri).with_suffix(".base")
    base.mkdir()
    (base / "outside").write_bytes(b"there")
    bases = [library.DatasetBasePath(str(base), "base")]
    table = _blobs(library, [(base / "outside").as_uri()])
    settings = {"data_storage_version": "2.2", "initial_bases": bases}
    made = tried(lambda: library.write_dataset(table, uri, **settings))
    return REFUSED if made == REFUSED else made.read_blobs("b", indices=[0])[0][1]


def _swapped_ids(library: ModuleType, uri: str) -> Any:
    library.write_dataset(pa.table({"a": [1], "b": [2]}), uri)
    kind = importlib.import_module(f"{library.__name__}.schema").LanceSchema
    swapped = kind.from_pyarrow(pa.schema({"b": pa.int64(), "a": pa.int64()}))
    change = library.LanceOperation.Project(swapped)
    made = tried(lambda: library.LanceDataset.commit(uri, change, read_version=1))
    return REFUSED if made == REFUSED else made.to_table().to_pylist()


def _files_of_no_bytes(library: ModuleType, uri: str) -> Any:
    library.write_dataset(pa.table({"x": range(9)}), uri, max_rows_per_file=3)
    optimize = library.dataset(uri).optimize
    done = tried(lambda: optimize.compact_files(max_bytes_per_file=0))
    return REFUSED if done == REFUSED else (done.fragments_removed, done.fragments_added)


def _conditions_of_paths(library: ModuleType, uri: str) -> Any:
    table = pa.table({"j": pa.array(["[1, 2, 3]"], pa.json_())})
    ds = library.write_dataset(table, uri, data_storage_version="2.2")
    return tried(lambda: ds.count_rows("json_extract(j, '$[*]?(@ > 1)') = '[2,3]'"))


def _long_numbers(library: ModuleType, uri: str) -> Any:
    table = pa.table({"j": pa.array(["123456789012345678901234567890"], pa.json_())})
    with catch_warnings(record=True, action="always") as said:
        ds = library.write_dataset(table, uri, data_storage_version="2.2")
    return ds.to_table()["j"].to_pylist(), len(said)


def _hundred_words(first: int) -> pa.Table:
    words = pa.array([f"word {first + number}" for number in range(100)])
    keys = pa.array(range(100), pa.int8())
    return pa.table({"c": pa.DictionaryArray.from_arrays(keys, words)})


def _put_categories(library: ModuleType, uri: str) -> Any:
    ds = lance.write_dataset(_hundred_words(0).slice(0, 0), uri)
    ds.initialize_mem_wal()
    with library.dataset(uri).mem_wal_writer(str(UUID(int=7))) as writer:
        writer.put(_hundred_words(0))
        writer.put(_hundred_words(100))
    return tried(lambda: sum(map(_rows_of_table, Path(uri).glob("_mem_wal/*/*_gen_*"))))


def _rows_of_table(folder: Path) -> int:
    return sum(batch.num_rows for batch in lance.dataset(folder).to_batches())


def _crowded_categories(library: ModuleType, uri: str) -> Any:
    for first in (0, 100):
        table = _hundred_words(first)
        library.write_dataset(table, uri, mode="append" if first else "create")
    ds = library.dataset(uri)
    ds.optimize.compact_files()
    return tried(lambda: sum(batch.num_rows for batch in library.dataset(uri).to_batches()))


def _dictionary_of_views(library: ModuleType, uri: str) -> Any:
    views = pa.array(["x"], pa.string_view())
    table = pa.table({"c": pa.DictionaryArray.from_arrays(pa.array([0, 0]), views)})
    made = tried(lambda: library.write_dataset(table, uri))
    return REFUSED if made == REFUSED else str(made.schema.field("c").type.value_type)


def _added_to_a_legacy_table(library: ModuleType, uri: str) -> Any:
    lance.write_dataset(pa.table({"a": [1]}), uri, data_storage_version="legacy")
    more = pa.table({"a": [2]})
    made = tried(lambda: library.write_dataset(more, uri, mode="append"))
    return REFUSED if made == REFUSED else made.count_rows()


OF_FILES = (
    Difference(
        "any write of data files to a table of format 0.1, also an overwrite without a version",
        "raises an error, because these files are read-only; an overwrite in a newer version works",
        "writes files of 0.1",
        "Such files have no place for nulls. No release since at least 0.19.2 makes such a table "
        "by default. [Changes that write no data "
        "files](../data-files.md#tables-of-version-01-legacy) work.",
        _added_to_a_legacy_table,
        REFUSED,
        2,
    ),
    Difference(
        "puts into a write-ahead log of dictionaries whose 8-bit or 16-bit keys are too few for "
        "all values",
        "become several generations, or one of several files",
        "become one file, which cannot be read",
        "Acknowledged rows are not lost. As long as the log has them, `repair_mem_wal` rewrites a "
        "generation of pylance.",
        _put_categories,
        200,
        REFUSED,
    ),
    Difference(
        "`compact_files` of dictionaries whose 8-bit or 16-bit keys are too few for all values",
        "leaves such fragments separate",
        "makes one file, which cannot be read any more",
        "Rows are not lost. Both libraries refuse dictionaries of values without a plain name, "
        "such as timestamps ([casts](casts.md)).",
        _crowded_categories,
        200,
        REFUSED,
    ),
    Difference(
        "a dictionary of `string_view` or `binary_view`",
        "becomes one of `string` or `binary`, as columns of views do",
        "raises an error",
        "The conversion loses nothing.",
        _dictionary_of_views,
        "string",
        REFUSED,
    ),
    Difference(
        "blobs inside of lists",
        "are read; writing them raises an error, also by an update or a compaction",
        "are written",
        "A later release will write them.",
        _blobs_in_lists,
        REFUSED,
        1,
    ),
    Difference(
        "thresholds of `blob_field`",
        "are kept; all bytes go to the data file",
        "decide which blobs get their own files, or share one",
        "A fragment stays one file. Blobs that pylance wrote beside data files are read.",
        _files_of_blobs,
        0,
        1,
    ),
    Difference(
        "a compaction of a table with managed blobs (`lance.blob.managed`)",
        "copies the blobs into the new data files",
        "leaves the blobs in place, and moves only their descriptors",
        "No data file needs an object that another fragment names. A later release will move no "
        "blob.",
        _compacted_managed_blobs,
        {0},
        {4},
    ),
    Difference(
        "blobs of version 2 (`blob_array`) appended to a column of version 1",
        "raise an error that names both types; bytes can be appended",
        'are written with `data_storage_version="2.2"`, and the column becomes version 2',
        "An append does not change a schema.",
        _second_version_to_the_first,
        REFUSED,
        2,
    ),
    Difference(
        "blobs appended with other thresholds than the table's",
        "are written, and the table's thresholds stay",
        "raise an error",
        "Thresholds change nothing in lancekit.",
        _other_thresholds,
        2,
        REFUSED,
    ),
    Difference(
        "a blob's URI below a base path of the table",
        "raises an error, unless `allow_external_blob_outside_bases=True`, which keeps the whole "
        "URI",
        "is kept as a path below the base",
        "The writer must state that the bytes stay in a place that no cleanup and no copy follows.",
        _blob_below_a_base,
        REFUSED,
        b"there",
    ),
    Difference(
        "`LanceOperation.Project` with a schema in which two columns have each other's ids, or "
        "one takes the name of a column that is left out",
        "raises an error that names them",
        "changes the names of the columns",
        "A schema from Arrow gets new ids, and nobody means to swap values. In both libraries, "
        "`alter_columns` with both new names swaps names, and indices follow.",
        _swapped_ids,
        REFUSED,
        [{"b": 1, "a": 2}],
    ),
    Difference(
        "`max_bytes_per_file=0`",
        "raises an error",
        "makes a compaction replace each fragment by an equal one, every time",
        "No file has 0 bytes. 1 gives the smallest files.",
        _files_of_no_bytes,
        REFUSED,
        (3, 3),
    ),
    Difference(
        "JSON with whole numbers beyond 64 bits, or fractions that no double has",
        "stores the nearest double, with a warning that shows the number",
        "stores the nearest double",
        "Digits are not lost silently. A text keeps them.",
        _long_numbers,
        (["1.2345678901234568e+29"], 1),
        (["1.2345678901234568e+29"], 0),
    ),
    Difference(
        "conditions in the paths of JSON functions, such as `$[*]?(@ > 1)`",
        "raise an error that shows the steps of a path",
        "select items by them",
        "A later release will have them.",
        _conditions_of_paths,
        REFUSED,
        1,
    ),
)
