"""Writing of rows to new fragments: immutable data files, and the metadata for a commit."""

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
    """The base paths and the format of new fragments.

    bases: the names or paths of base paths.  The dataset's own path means its own folder.
    every: True to write to all base paths instead, with `primary` also to the dataset's folder.
    storage_version: the format, or ``None`` for the dataset's.
    """

    bases: tuple[str, ...] = ()
    every: bool = False
    primary: bool = True
    storage_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """The target and the settings of a write.  Can be sent to a worker.

    `schema` is the dataset's schema, and batches must have exactly its Arrow form.  Files go to
    `places` in turn, or to `store` without places.
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
        """The folders for new files, used in turn."""
        return self.places or (WriteTarget(self.store),)

    def rotated(self, number: int) -> WriteTask:
        """Return the task with its places rotated, so that tasks start at different ones."""
        first = number % max(len(self.places), 1)
        return replace(self, places=(*self.places[first:], *self.places[:first]))


def write_fragments(
    batches: Iterable[pa.RecordBatch],
    task: WriteTask,
    sizes: Iterable[int] = (),
    progress: FragmentWriteProgress | None = None,
) -> list[Fragment]:
    """Write batches to new files, one fragment each, and return the fragments uncommitted.

    ``sizes`` are the rows of the first files, in place of the task's limit.  Files are durable
    when this returns.  If it raises, it removes the files.
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
    """Write one file in which some columns are copied as encoded pages.

    batches: the rows without these columns, empty without other columns.
    pages: for each of these columns, the pages of its physical columns.
    rows: the number of rows.
    task: where and how to write.
    """
    name, place = new_data_file(), task.targets[0]
    with opened(task, place, name, pages.keys()) as (_, writer):
        for column, stored in pages.items():
            writer.add_pages(column, stored, rows)
        for batch in batches:
            writer.write(batch)
        return _fragment(name, writer.finish(), place)


def report_fragments(
    progress: FragmentWriteProgress | None, fragments: Iterable[Fragment], task: WriteTask
) -> None:
    """Report fragments that were written elsewhere; if a report raises, remove their files."""
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
    """Remove the files of fragments that no version refers to, if possible; never raise.

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
            except OSError:  # cleanup removes the orphan later
                continue


class _NonEmpty:
    """A stream of batches that is true while rows remain, and splits batches at a row limit."""

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
        """Put the rows that were taken last back at the front."""
        behind = () if self._next is None else (self._next,)
        self._batches = chain(behind, self._batches)
        self._next = batch


@contextmanager
def opened(
    task: WriteTask, place: WriteTarget, name: str, encoded: Collection[str] = ()
) -> Iterator[tuple[Sink, FileWriter]]:
    """Create a data file, and remove it if the block raises."""
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
    """Write rows to one file, up to ``most`` rows and the limit of bytes."""
    with opened(task, place, name) as (sink, writer):
        left = most
        while left > 0 and rest and sink.tell() < task.max_bytes_per_file:
            batch = rest.take(left)
            while (left < most or batch.num_rows > 1) and not writer.has_room(batch):
                rest.give_back(batch)
                if left < most:
                    return _fragment(name, writer.finish(), place)
                batch = rest.take(batch.num_rows // 2)
            if not task.external_blobs:
                _refuse_external(batch)
            writer.write(batch)
            left -= batch.num_rows
        return _fragment(name, writer.finish(), place)


def _fragment(name: str, summary: FileSummary, place: WriteTarget) -> Fragment:
    file = replace(data_file(name, summary), base_id=place.base_id)
    return Fragment(id=0, files=(file,), physical_rows=summary.num_rows)


def _refuse_external(batch: pa.RecordBatch) -> None:
    """Raise if blobs are external, in a place that the dataset does not preserve."""
    for field, values in zip(batch.schema, batch.columns, strict=True):
        if not is_blob_v2(texts(field.metadata)) or not isinstance(values, pa.StructArray):
            continue
        uris = ak.drop_null(values.field("uri"))
        if len(uris):
            raise InvalidArgumentError(
                f"Column {field.name!r} refers to {uris[0].as_py()}, outside of the dataset.",
                hint="If the file will stay there, pass allow_external_blob_outside_bases=True.",
                column=field.name,
                uri=uris[0].as_py(),
            )


def data_file(name: str, summary: FileSummary) -> DataFile:
    """Return the manifest's entry for a data file that was written."""
    return DataFile(
        path=name,
        fields=summary.field_ids,
        column_indices=summary.column_indices,
        file_major_version=summary.version[0],
        file_minor_version=summary.version[1],
        file_size_bytes=summary.size_bytes,
    )


# ---- places and names of new data files
#
# When a job on several machines fails, the results of its tasks are lost, and with them the names
# of their files.  So these names end with the job's own digits, which identify them.

_DIGITS = 16

_job: ContextVar[str] = ContextVar("lancekit_job", default="")


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A folder for new data files: the dataset's own, or one at a base path."""

    store: Store
    folder: str = DATA
    base_id: int | None = None

    def name(self, file: str) -> str:
        """Return the path of a data file in the store."""
        return f"{self.folder}/{file}" if self.folder else file


def new_job() -> str:
    """Return random digits for the ends of a job's file names."""
    return secrets.token_hex(_DIGITS // 2)


def begin_job(job: str) -> None:
    """Assign all files that this process writes from now on to a job."""
    _job.set(job)


def new_data_file() -> str:
    """Return the name of a new data file."""
    job = _job.get()
    return data_file_name(uuid.UUID(hex=uuid.uuid4().hex[: 32 - len(job)] + job))


def remove_job_files(job: str, places: Iterable[WriteTarget]) -> None:
    """Remove the files of a job from some places; no version may refer to them.

    Raises OSError: a place cannot be listed, or a file cannot be removed.
    """
    for place in places:
        for name in place.store.list_names(place.folder):
            if name.endswith(f"{job}.lance"):
                place.store.delete(place.name(name))
        for name in place.store.list_folders(place.folder):
            if name.endswith(job):
                place.store.delete_tree(place.name(name))
