"""Rows to new fragments: immutable data files, and the metadata that a commit needs of them."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import chain, cycle, repeat

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancekit._file.kernels.arrow_buffers import Encoded
from lancekit._file.writer import PAGE_BYTES, FileSummary, FileWriter
from lancekit._format.data_file import check_written
from lancekit._format.field_marks import is_blob_v2, texts
from lancekit._format.fragment import DataFile, Fragment
from lancekit._format.names import DATA, data_file_name
from lancekit._format.schema import LanceSchema
from lancekit._storage.base import Sink, Store
from lancekit.errors import InvalidArgumentError
from lancekit.options import DEFAULT_GOAL
from lancekit.progress import FragmentWriteProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiles:
    """Which base paths new fragments are written to, and in which format.

    bases: their names or paths; the dataset's own means its own folder.
    every, primary: all of them instead, and whether the dataset's own folder is one of those.
    storage_version: the format, ``None`` for the dataset's.
    """

    bases: tuple[str, ...] = ()
    every: bool = False
    primary: bool = True
    storage_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """Where and how to write rows.  Can be sent to a worker.

    `schema` is the dataset's; batches have exactly its Arrow form.  Files go to `places` in turn,
    and to `store` if there are none.
    """

    store: Store
    schema: LanceSchema
    storage_version: str
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    max_page_bytes: int | None = None
    checksums: bool = False
    optimize_for: str = DEFAULT_GOAL
    external_blobs: bool = True
    places: tuple[WriteTarget, ...] = ()

    def __post_init__(self) -> None:
        check_written(self.storage_version)

    @property
    def targets(self) -> tuple[WriteTarget, ...]:
        """Where files go."""
        return self.places or (WriteTarget(self.store),)

    def turned(self, number: int) -> WriteTask:
        """Return how one of several tasks writes: each starts with another of the places."""
        first = number % max(len(self.places), 1)
        return replace(self, places=(*self.places[first:], *self.places[:first]))


def write_fragments(
    batches: Iterable[pa.RecordBatch],
    task: WriteTask,
    sizes: Iterable[int] = (),
    progress: FragmentWriteProgress | None = None,
) -> list[Fragment]:
    """Write batches to new files, one fragment each; nothing refers to them yet.

    ``sizes`` are the rows of the first files, if not the most that the task allows.  Files are
    durable when this returns.  If it raises, it removes what it wrote.
    """
    limits = chain(sizes, repeat(task.max_rows_per_file))
    places = cycle(task.targets)
    fragments: list[Fragment] = []
    rest = _NonEmpty(batches)
    try:
        while rest:
            name, place = new_data_file(), next(places)
            if progress is not None:
                progress.begin(_begun(DataFile(name, (), base_id=place.base_id)))
            fragments.append(_write_file(rest, task, next(limits), place, name))
            if progress is not None:
                progress.complete(fragments[-1])
    except BaseException:
        delete_fragments(task.store, fragments, task.places)
        raise
    return fragments


def write_with_pages(
    batches: Iterable[pa.RecordBatch],
    pages: Mapping[str, Iterable[Iterable[Encoded]]],
    rows: int,
    task: WriteTask,
) -> Fragment:
    """Write one file, some of whose columns are pages that are encoded already.

    batches: the rows, without those columns; nothing if there are no others.
    pages: of each such column the pages of its physical columns.
    rows: how many there are, either way.
    task: where and how to write.
    """
    name, place = new_data_file(), task.targets[0]
    with opened(task, place, name, pages.keys()) as (_, writer):
        for column, stored in pages.items():
            writer.add_pages(column, stored, rows)
        for batch in batches:
            writer.write(batch)
        return _fragment(name, writer.finish(), place)


def tell_all(
    progress: FragmentWriteProgress | None, fragments: Iterable[Fragment], task: WriteTask
) -> None:
    """Tell of fragments that were written elsewhere; if that raises, their files are removed."""
    if progress is None:
        return
    written = list(fragments)
    try:
        for fragment in written:
            (file,) = fragment.files
            progress.begin(_begun(DataFile(file.path, (), base_id=file.base_id)))
            progress.complete(fragment)
    except BaseException:
        delete_fragments(task.store, written, task.places)
        raise


def _begun(file: DataFile) -> Fragment:
    return Fragment(id=0, files=(file,), physical_rows=0)


def delete_fragments(
    store: Store, fragments: Iterable[Fragment], places: Iterable[WriteTarget] = ()
) -> None:
    """Remove the files of fragments that nothing refers to; best effort, never raises.

    Only for files whose commit is known not to have landed.
    """
    known = {place.base_id: place for place in (WriteTarget(store), *places)}
    for fragment in fragments:
        for file in fragment.files:
            place = known.get(file.base_id)
            if place is None:
                continue
            try:
                place.store.delete(place.name(file.path))
            except OSError:  # an orphan that cleanup removes later
                continue


class _NonEmpty:
    """Batches with a look ahead: true while rows are left; splits at a row limit."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches: Iterator[pa.RecordBatch] = iter(batches)
        self._next: pa.RecordBatch | None = None

    def __bool__(self) -> bool:
        while self._next is None or self._next.num_rows == 0:
            self._next = next(self._batches, None)
            if self._next is None:
                return False
        return True

    def take(self, most: int) -> pa.RecordBatch:
        """Return the next rows, at most ``most``."""
        batch = self._next
        if batch is None:
            raise StopIteration
        self._next = batch.slice(most) if batch.num_rows > most else None
        return batch.slice(0, min(most, batch.num_rows))

    def give_back(self, batch: pa.RecordBatch) -> None:
        """Put rows in front again that were taken last."""
        behind = () if self._next is None else (self._next,)
        self._batches = chain(behind, self._batches)
        self._next = batch


@contextmanager
def opened(
    task: WriteTask, place: WriteTarget, name: str, encoded: Collection[str] = ()
) -> Iterator[tuple[Sink, FileWriter]]:
    """Open a file; it is gone if the block raises."""
    sink = place.store.create(place.name(name))
    try:
        writer = FileWriter(
            sink,
            task.schema,
            version=task.storage_version,
            max_page_bytes=PAGE_BYTES if task.max_page_bytes is None else task.max_page_bytes,
            checksums=task.checksums,
            optimize_for=task.optimize_for,
            encoded=encoded,
        )
        yield sink, writer
    except BaseException:
        sink.abort()
        raise


def _write_file(
    rest: _NonEmpty, task: WriteTask, most: int, place: WriteTarget, name: str
) -> Fragment:
    with opened(task, place, name) as (sink, writer):
        left = most
        while left > 0 and rest and sink.tell() < task.max_bytes_per_file:
            batch = rest.take(left)
            if left < most and not writer.has_room(batch):
                rest.give_back(batch)
                break
            if not task.external_blobs:
                _refuse_external(batch)
            writer.write(batch)
            left -= batch.num_rows
        return _fragment(name, writer.finish(), place)


def _fragment(name: str, summary: FileSummary, place: WriteTarget) -> Fragment:
    file = replace(data_file(name, summary), base_id=place.base_id)
    return Fragment(id=0, files=(file,), physical_rows=summary.num_rows)


def _refuse_external(batch: pa.RecordBatch) -> None:
    """Raise if blobs are to stay outside of the dataset, where nothing keeps them."""
    for field, values in zip(batch.schema, batch.columns, strict=True):
        if not is_blob_v2(texts(field.metadata)) or not isinstance(values, pa.StructArray):
            continue
        uris = ak.drop_null(values.field("uri"))
        if len(uris):
            raise InvalidArgumentError(
                f"Column {field.name!r} refers to {uris[0].as_py()}, outside of the dataset.",
                hint="Pass allow_external_blob_outside_bases=True if it will stay there.",
                column=field.name,
                uri=uris[0].as_py(),
            )


def data_file(name: str, summary: FileSummary) -> DataFile:
    """Return what a manifest says of a data file that was written."""
    return DataFile(
        path=name,
        fields=summary.field_ids,
        column_indices=summary.column_indices,
        file_major_version=summary.version[0],
        file_minor_version=summary.version[1],
        file_size_bytes=summary.size_bytes,
    )


# ---- where new data files go, and what they are called
#
# When a job on several machines fails, what its tasks answered is lost, and with it the names of
# the files that they had written.  So these end with the job's own digits, by which they are
# found.

_DIGITS = 16

_job: ContextVar[str] = ContextVar("lancekit_job", default="")


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A folder for new data files: the dataset's own, or that of a base path."""

    store: Store
    folder: str = DATA
    base_id: int | None = None

    def name(self, file: str) -> str:
        """Return where in the store a data file lies."""
        return f"{self.folder}/{file}" if self.folder else file


def new_job() -> str:
    """Return what the names of a job's data files end with."""
    return secrets.token_hex(_DIGITS // 2)


def begin_job(job: str) -> None:
    """Say which job the files belong to that this process writes from now on."""
    _job.set(job)


def new_data_file() -> str:
    """Return the name of a new data file."""
    job = _job.get()
    return data_file_name(uuid.UUID(hex=uuid.uuid4().hex[: 32 - len(job)] + job))


def remove_job_files(job: str, places: Iterable[WriteTarget]) -> None:
    """Remove the files that a job has written to some places; nothing may refer to them.

    Raises OSError: a place cannot be listed, or a file not be removed.
    """
    for place in places:
        for name in place.store.list_names(place.folder):
            if name.endswith(f"{job}.lance"):
                place.store.delete(place.name(name))
        for name in place.store.list_folders(place.folder):
            if name.endswith(job):
                place.store.delete_tree(place.name(name))
