"""What changes a table on disk: for each a table of lancekit's, for other releases to try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lancekit as lk

__all__ = ["FEATURES", "ROWS", "Feature"]

ROWS = 3000

#: what a release does to a table: three more rows, and one less
_CHANGE = """
rows = pa.ipc.open_file(arguments["rows"]).read_all()
ds.insert(rows.take(pa.array(range(len(rows)))), mode="append")
ds = OPENED
ds.delete("k = 1")
"""

Make = Callable[[Path], "lk.LanceDataset"]
There = Callable[["lk.LanceDataset"], bool]


@dataclass(frozen=True)
class Feature:
    """One thing that is on disk, and how the reference is asked for it."""

    group: str
    name: str
    #: writes a table into a folder; its column ``k`` counts from 0
    make: Make
    #: whether the feature is there: before and after another release wrote
    there: There
    #: how a release opens what `make` returned; ``uri`` and ``version`` are known
    opened: str = "lance.dataset(uri)"
    #: the columns that a release reads; ``None`` for all
    columns: tuple[str, ...] | None = None
    #: whether ``v`` holds blobs, which are read as files
    blobs: bool = False
    #: makes rows as they were read to rows that can be written
    writable: Callable[[pa.Table], pa.Table] = lambda rows: rows

    @property
    def change(self) -> str:
        """The program that writes."""
        return _CHANGE.replace("OPENED", self.opened)


def _words(ds: lk.LanceDataset) -> str:
    """Return how the column ``v`` is stored, in all files."""
    root = Path(ds.uri)
    said = []
    for fragment in ds.get_fragments():
        for file in fragment.data_files():
            columns = lk.file.LanceFileReader(str(root / "data" / file.path)).metadata().columns
            said += [p.encoding for c in columns if c.name.startswith("v") for p in c.pages]
    return "\n".join(said)


def _stored(
    version: str, name: str, values: Callable[[], Any], words: str = "", **metadata: str
) -> Feature:
    """Return a feature of data files: values whose encoding is told by some words."""
    marks = {f"lance-encoding:{key.replace('_', '-')}": value for key, value in metadata.items()}

    def make(folder: Path) -> lk.LanceDataset:
        array = values()
        field = pa.field("v", array.type, metadata=marks or None)
        schema = pa.schema([pa.field("k", pa.int64()), field])
        table = pa.table([pa.array(np.arange(len(array))), array], schema=schema)
        return lk.write_dataset(table, folder / "t", data_storage_version=version)

    return Feature(
        f"Data files {version}", name, make, lambda ds: words in _words(ds) if words else True
    )


def _rng() -> np.random.Generator:
    return np.random.default_rng(5)


def _some_null(array: pa.Array) -> pa.Array:
    return array.take(pa.array(np.arange(len(array)), mask=_rng().random(len(array)) < 0.2))


def _numbers() -> pa.Array:
    return pa.array(_rng().integers(-(2**62), 2**62, ROWS))


def _small() -> pa.Array:
    return pa.array(_rng().integers(0, 900, ROWS))


def _repeated() -> pa.Array:
    return pa.array(np.repeat(_rng().standard_normal(ROWS // 100), 100))


def _few() -> pa.Array:
    return pa.array([f"category number {n}" for n in _rng().integers(0, 30, ROWS)])


def _decimals() -> pa.Array:
    return pa.array(_rng().integers(0, 40, ROWS)).cast(pa.decimal128(30, 0))


def _few_numbers() -> pa.Array:
    return pa.array(_rng().standard_normal(30)).take(pa.array(_rng().integers(0, 30, ROWS)))


def _text() -> pa.Array:
    words = [f"word{n}" for n in range(300)]
    return pa.array([" ".join(_rng().choice(words, 12)) + str(n) for n in range(ROWS)])


def _long_text() -> pa.Array:
    return pa.array([f"{n} " + "long text " * 20_000 for n in range(30)])


def _vectors(width: int) -> pa.Array:
    items = pa.array(_rng().standard_normal(1000 * width).astype(np.float32))
    return pa.FixedSizeListArray.from_arrays(items, width)


def _lists() -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(_rng().integers(0, 5, ROWS))))
    return _some_null(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _count(offsets[-1])))


def _count(rows: int = ROWS) -> pa.Array:
    return pa.array(np.arange(rows), pa.int32())


def _structs() -> pa.Array:
    return pa.StructArray.from_arrays([_count(), _few()], ["a", "b"])


def _number_structs() -> pa.Array:
    return pa.StructArray.from_arrays([_count(), _repeated()], ["a", "b"])


def _maps() -> pa.Array:
    offsets = pa.array(np.arange(ROWS + 1), pa.int32())
    return pa.MapArray.from_arrays(offsets, _few(), _count())


def _struct_vectors() -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(_structs(), 2)


def _both(name: str, values: Callable[[], Any], words: str = "", **marks: str) -> list[Feature]:
    return [_stored(version, name, values, words, **marks) for version in ("2.1", "2.2")]


def _plain(folder: Path, **options: Any) -> lk.LanceDataset:
    """Write a plain table of storage version 2.0, which all releases know."""
    rows = pa.table({"k": np.arange(40), "v": [f"row {n}" for n in range(40)]})
    options = {"data_storage_version": "2.0", **options}
    return lk.write_dataset(rows, folder / "t", **options)


def _deleted(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder)
    ds.delete("k % 7 = 5")
    return ds


def _many_deleted(folder: Path) -> lk.LanceDataset:
    rows = pa.table({"k": np.arange(20_000), "v": np.arange(20_000)})
    ds = lk.write_dataset(rows, folder / "t", data_storage_version="2.0")
    ds.delete("k % 3 = 2")
    return ds


def _stable(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder, enable_stable_row_ids=True)
    ds.update({"v": "'new'"}, where="k = 7")
    return ds


def _bases(folder: Path) -> lk.LanceDataset:
    (folder / "p").mkdir()
    base = lk.DatasetBasePath(str(folder / "p"), "p")
    return _plain(folder, initial_bases=[base], target_bases=["p"])


def _merged(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder, primary_key="k")
    source = pa.table({"k": [3, 40], "v": ["changed", "inserted"]})
    ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(source)
    return ds


def _has_key_filter(ds: lk.LanceDataset) -> bool:
    operations = [ds.read_transaction(version).operation for version in ds.versions().numbers]
    return any(getattr(one, "inserted_rows", None) is not None for one in operations)


def _tagged(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder)
    ds.tags.create("old", 1)
    return ds


def _branched(folder: Path) -> lk.LanceDataset:
    branch = _plain(folder).create_branch("side/one")
    branch.delete("k = 39")
    return branch


def _cloned(folder: Path) -> lk.LanceDataset:
    return _plain(folder).shallow_clone(folder / "clone", 1)


def _columns(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder)
    ds.add_columns({"w": "k * 2"})
    return ds


def _renamed(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder)
    ds.alter_columns({"path": "v", "name": "renamed"})
    ds.drop_columns(["renamed"])
    ds.add_columns({"v": "cast(k as string)"})
    return ds


def _rewritten(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder)
    ds.add_columns({"w": "k * 2"})
    source = pa.table({"k": [3, 4], "v": ["x", "y"]})
    clauses = ds.merge_insert("k").when_matched_update_all().write_mode("rewrite_columns")
    clauses.execute(source)
    return ds


def _configured(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder)
    ds.update_config({"some.setting": "1"})
    return ds


def _with_metadata(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder)
    ds.update_metadata({"owner": "me"})
    return ds


def _with_schema_metadata(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder)
    ds.update_schema_metadata({"note": "of the schema"})
    ds.update_field_metadata({"v": {"unit": "m"}})
    return ds


def _detached(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder)
    fragments = lk.fragment.write_fragments(ds.head(3), ds.uri)
    operation = lk.LanceOperation.Append(fragments)
    return lk.LanceDataset.commit(ds.uri, operation, ds.version, detached=True)


def _compacted(folder: Path) -> lk.LanceDataset:
    ds = _plain(folder, max_rows_per_file=10)
    ds.delete("k < 5 AND k > 2")
    ds.optimize.compact_files()
    return ds


def _json(version: str) -> Feature:
    def make(folder: Path) -> lk.LanceDataset:
        values = pa.array([f'{{"a":{n}}}' for n in range(40)], pa.json_(pa.string()))
        rows = pa.table({"k": np.arange(40), "v": values})
        return lk.write_dataset(rows, folder / "t", data_storage_version=version)

    return Feature("Types", f"JSON, in files {version}", make, lambda ds: "json" in str(ds.schema))


def _extension(folder: Path) -> lk.LanceDataset:
    values = pa.array([bytes([n] * 16) for n in range(40)], pa.uuid())
    rows = pa.table({"k": np.arange(40), "v": values})
    return lk.write_dataset(rows, folder / "t", data_storage_version="2.0")


def _blobs(version: str, field: Callable[[], pa.Field], values: Callable[[Any], Any]) -> Make:
    def make(folder: Path) -> lk.LanceDataset:
        schema = pa.schema([pa.field("k", pa.int64()), field()])
        data = values([bytes([n]) * 100 * n for n in range(40)])
        rows = pa.table([pa.array(np.arange(40)), data], schema=schema)
        return lk.write_dataset(rows, folder / "t", data_storage_version=version)

    return make


def _old_blob() -> pa.Field:
    return pa.field("v", pa.large_binary(), metadata={"lance-encoding:blob": "true"})


def _blob() -> pa.Field:
    return lk.blob_field("v")


def _with(
    field: Callable[[], pa.Field], values: Callable[[Any], Any]
) -> Callable[[pa.Table], pa.Table]:
    """Return what gives the bytes that were read their field again."""

    def change(rows: pa.Table) -> pa.Table:
        return rows.set_column(1, field(), values(rows["v"].combine_chunks().to_pylist()))

    return change


def _large_binary(values: Any) -> pa.Array:
    return pa.array(values, pa.large_binary())


def _always(ds: lk.LanceDataset) -> bool:
    return True


def _v2_names(ds: lk.LanceDataset) -> bool:
    return all(len(p.stem) == 20 for p in (Path(ds.uri) / "_versions").glob("*.manifest"))


def _sections() -> list[Feature]:
    """The features of the table around the data files."""
    of = "The table"
    return [
        Feature(of, "manifests named so that the newest is found first", _plain, _v2_names),
        Feature(
            of,
            "manifests named by their numbers (`enable_v2_manifest_paths=False`)",
            lambda folder: _plain(folder, enable_v2_manifest_paths=False),
            lambda ds: not _v2_names(ds),
        ),
        Feature(of, "deleted rows, few", _deleted, _always),
        Feature(of, "deleted rows, many (a bitmap)", _many_deleted, _always),
        Feature(of, "several data files in a fragment (`add_columns`)", _columns, _always),
        Feature(of, "columns renamed, dropped, added again", _renamed, _always),
        Feature(of, "`rewrite_columns` of a merge", _rewritten, _always),
        Feature(of, "compacted fragments", _compacted, _always),
        Feature(of, "stable row ids", _stable, lambda ds: bool(ds.has_stable_row_ids)),
        Feature(of, "files in other base paths", _bases, lambda ds: bool(ds.base_paths())),
        Feature(
            of,
            "a primary key",
            lambda folder: _plain(folder, primary_key="k"),
            lambda ds: b"lance-schema:unenforced-primary-key" in str(
                ds.schema.field("k").metadata
            ).encode(),
        ),
        Feature(of, "key filters in transactions, of merges", _merged, _has_key_filter),
        Feature(
            of,
            "checksums",
            lambda folder: _plain(folder, checksums=True),
            lambda ds: any(
                b"lancekit:checksums" in file.read_bytes()
                for file in (Path(ds.uri) / "data").glob("*.lance")
            ),
        ),
        Feature(of, "config", _configured, lambda ds: "some.setting" in ds.config()),
        Feature(of, "the table's own metadata", _with_metadata, lambda ds: "owner" in ds.metadata),
        Feature(
            of,
            "metadata of the schema and of fields",
            _with_schema_metadata,
            lambda ds: b"note" in (ds.schema.metadata or {})
            and b"unit" in (ds.schema.field("v").metadata or {}),
        ),
        Feature(
            of, "tags", _tagged, lambda ds: "old" in ds.tags.list(),
            'lance.dataset(uri, version="old") if reading else lance.dataset(uri)',
        ),
        Feature(
            of, "branches", _branched, lambda ds: ds.branch == "side/one",
            'lance.dataset(main).checkout_version(("side/one", None))',
        ),
        Feature(of, "shallow clones", _cloned, _always),
        Feature(
            of, "detached versions", _detached, _always,
            "lance.dataset(main, version=version) if reading else lance.dataset(main)",
        ),
    ]  # fmt: skip


def _types() -> list[Feature]:
    return [
        _json("2.0"),
        _json("2.1"),
        _json("2.2"),
        Feature("Types", "extension types (UUID)", _extension, _always),
        *(
            Feature(
                "Types",
                f"blobs, in files {version}",
                _blobs(version, _old_blob, _large_binary),
                _always,
                blobs=True,
                writable=_with(_old_blob, _large_binary),
            )
            for version in ("2.0", "2.1")
        ),
        Feature(
            "Types",
            "blobs of version 2, in files 2.2",
            _blobs("2.2", _blob, lk.blob_array),
            _always,
            blobs=True,
            writable=_with(_blob, lk.blob_array),
        ),
    ]


_ALL: list[Feature] = [
    *_sections(),
    *_types(),
    _stored("2.0", "numbers", _numbers),
    _stored("2.0", "dictionaries of strings", _few, "dictionary"),
    _stored("2.0", "strings", _text),
    _stored("2.0", "lists with nulls", _lists),
    _stored("2.0", "structs", _structs),
    _stored("2.0", "vectors", lambda: _vectors(64)),
    _stored("2.0", "nothing but nulls", lambda: pa.nulls(ROWS, pa.int32())),
    _stored("2.0", "packed structs", _number_structs, "packed", packed="true"),
    *_both("plain numbers", _numbers, "plain values"),
    *_both("numbers with nulls", lambda: _some_null(_numbers()), "plain values"),
    *_both("bit-packed integers", _small, "bit-packed"),
    *_both("runs", _repeated, "runs"),
    *_both("dictionaries of strings", _few, "dictionary"),
    *_both("dictionaries of decimals", _decimals, "dictionary"),
    _stored("2.2", "dictionaries of 8-byte values", _few_numbers, "dictionary"),
    *_both("FSST", _text, "fsst", compression="fsst"),
    *_both("LZ4", _text, "lz4", compression="lz4"),
    *_both("Zstd", _text, "zstd", compression="zstd"),
    *_both("byte streams", _few_numbers, "byte streams", compression="lz4", bss="on"),
    *_both("long strings, one by one", _long_text, "full-zip"),
    *_both("small vectors", lambda: _vectors(8), "mini-block"),
    *_both("vectors, one by one", lambda: _vectors(128), "full-zip"),
    *_both("lists with nulls", _lists),
    *_both("structs with nulls", lambda: _some_null(_structs())),
    *_both("nothing but nulls", lambda: pa.nulls(ROWS, pa.int32()), "nulls only"),
    *_both("packed structs of numbers", _number_structs, "packed", packed="true"),
    _stored("2.2", "one value", lambda: pa.array(["the same"] * ROWS), "one value"),
    _stored("2.2", "maps", _maps),
    replace(
        _stored("2.2", "fixed-size lists of structs, read without other columns", _struct_vectors),
        columns=("v",),
    ),
    _stored("2.2", "packed structs with strings", _structs, "packed", packed="true"),
]

#: by group, in the order in which groups begin
FEATURES = sorted(_ALL, key=lambda one: [each.group for each in _ALL].index(one.group))
