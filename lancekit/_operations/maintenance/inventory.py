"""Lists of a dataset's files, and sizes and encodings of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lancekit._display import Displayed
from lancekit._file.file_metadata import metadata_of
from lancekit._format import names
from lancekit._format.paths import paths_by_id
from lancekit._legible import clean, shown
from lancekit._pipeline.engine import choose_runner
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidTypeError, LancekitError

_PLACE = pa.field("base_uri", pa.dictionary(pa.int32(), pa.string()), nullable=False)
_PATH = pa.field("path", pa.string(), nullable=False)
ALL_FILES = pa.schema(
    [
        _PLACE,
        _PATH,
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
TRACKED_FILES = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        _PLACE,
        _PATH,
        pa.field("type", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """A field's id and path, and the bytes of its values in data files."""

    id: int
    bytes_on_disk: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class DataStatistics(Displayed):
    """Statistics of all fields, nested fields after their parents."""

    fields: list[FieldStatistics]


# ---- files


def all_files(location: BranchLocation) -> Iterator[pa.RecordBatch]:
    """Yield all files in a branch's own folder."""
    found = location.store.list_tree()
    modified = [round(file.modified * 1e6) for file in found]
    yield _batch(
        ALL_FILES,
        [
            [location.uri] * len(found),
            [file.name for file in found],
            [file.size for file in found],
            pa.array(modified, pa.int64()).cast(ALL_FILES.field("last_modified").type),
        ],
    )


def tracked_files(
    location: BranchLocation, min_version: int, progress: Callable[[int, int], object] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the files that each version of a branch refers to, the newest version first."""
    if progress is not None and not callable(progress):
        raise InvalidTypeError(f"progress must be a function, got {shown(progress)}.")
    versions = [v for v in reversed(list_versions(location).versions) if v >= min_version]
    for done, version in enumerate(versions, 1):
        found = list(_referred(load_snapshot(location, version)))
        columns = [list(column) for column in zip(*found, strict=True)]
        yield _batch(TRACKED_FILES, [[version] * len(found), *columns])
        if progress is not None:
            progress(done, len(versions))


def _referred(snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Yield base URI, path and kind of each file of a version."""
    manifest, own = snapshot.manifest, snapshot.location.uri
    yield own, f"{names.VERSIONS}/{snapshot.manifest_name}", "manifest"
    if manifest.transaction_file:
        yield own, f"{names.TRANSACTIONS}/{manifest.transaction_file}", "transaction file"
    for fragment in manifest.fragments:
        for file in fragment.files:
            location = snapshot.data_file(file)
            yield location.store.uri, location.name, "data file"
        deletion = snapshot.deletion_file(fragment)
        if deletion is not None:
            yield deletion.store.uri, deletion.name, "deletion file"
    for index in snapshot.indices:
        store, folder = snapshot.base_store(index.base_id), f"{names.INDICES}/{index.uuid}"
        # old releases do not list the files of a segment
        stated = [f"{folder}/{file.path}" for file in index.files]
        for name in stated or [file.name for file in store.list_tree(folder)]:
            yield store.uri, name, "index file"


def _batch(schema: pa.Schema, columns: list[object]) -> pa.RecordBatch:
    arrays = [
        pa.array(values, field.type.value_type).dictionary_encode().cast(field.type)
        if pa.types.is_dictionary(field.type)
        else pa.array(values, field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


# ---- bytes


def data_statistics(snapshot: Snapshot) -> DataStatistics:
    """Return the bytes of every field's pages, from the metadata of all data files."""
    runner = choose_runner(0)  # a few reads for each file
    sizes = Counter[int]()
    for found in runner.map(_field_sizes, list(fragment_sources(snapshot))):
        sizes.update(found)
    paths = paths_by_id(snapshot.manifest.schema)
    return DataStatistics([FieldStatistics(id_, sizes[id_], path) for id_, path in paths.items()])


def _field_sizes(source: FragmentSource) -> dict[int, int]:
    reader = FragmentReader(source)
    sizes = Counter[int]()
    for place, file in enumerate(source.fragment.files):
        columns = metadata_of(reader.file(place)).columns
        for field, column in file.columns.items():
            if column < len(columns):
                sizes[field] += columns[column].size_bytes
    return dict(sizes)


# ---- the storage of a column: bytes and encodings, from the metadata of data files

#: the maximal number of files to read, because each may take a request
_FILES = 8
_ENCODINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStorage:
    """Storage of a column in its first data files.

    bytes: the bytes of its pages in the files that were read.
    encodings: the encodings of these pages, at most four, by descending number of rows.
    files, files_read: the number of files with the column, and of files that were read.
    problem: the error of a file that could not be read; empty if there was none.
    """

    bytes: int
    encodings: tuple[str, ...]
    files: int
    files_read: int
    problem: str = ""


def column_storage(snapshot: Snapshot, ids: Collection[int]) -> ColumnStorage:
    """Return the storage of a column, given by its field ids; read the ends of a few files."""
    places = [
        (source, place)
        for source in fragment_sources(snapshot)
        for place, file in enumerate(source.fragment.files)
        if not file.columns.keys().isdisjoint(ids)
    ]
    encodings = Counter[str]()
    total = read = 0
    problem = ""
    for source, place in places[:_FILES]:
        columns = source.fragment.files[place].columns
        try:
            found = metadata_of(FragmentReader(source).file(place)).columns
        except (LancekitError, OSError) as error:
            problem = clean(str(error))
            continue
        read += 1
        for id_ in columns.keys() & set(ids):
            if columns[id_] < len(found):
                column = found[columns[id_]]
                total += column.size_bytes
                for page in column.pages:
                    encodings[page.encoding] += page.num_rows
    return ColumnStorage(
        bytes=total,
        encodings=tuple(name for name, _ in encodings.most_common(_ENCODINGS) if name),
        files=len(places),
        files_read=read,
        problem=problem,
    )
