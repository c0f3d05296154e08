"""A store in an object store (S3, Google, Azure) or in this process's memory, through obstore."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, PreconditionError

from lancekit._storage.base import (
    METADATA_BYTES,
    Bytes,
    Listing,
    ObjectInfo,
    Store,
    check_folder,
    check_name,
    check_options,
    object_identity,
    too_large,
)
from lancekit._storage.clients import (
    check_uri,
    client_for,
    gave_up,
    memory_root,
    reading,
    translated,
)
from lancekit.errors import CorruptFileError, StorageError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PART_BYTES = 8 << 20
"""How much a sink collects before it sends a part; S3 refuses parts under 5 MiB."""


PAGE_NAMES = 1000
"""How many names a server lists in one answer, at most and by default."""

MERGED_GAP_BYTES = 1 << 20
"""Ranges this close are fetched in one request: reading the gap costs less than a round trip."""

MERGED_BYTES = 8 << 20
"""How much ranges have together, once they share a request: two requests are answered sooner."""

Span: TypeAlias = tuple[int, int]


def merged(ranges: Sequence[tuple[int, int]]) -> list[Span]:
    """Return the ``(start, stop)`` spans, ascending and far apart, that cover all ranges.

    obstore can merge too, but stops the process when a merged answer turns out short.
    """
    spans: list[Span] = []
    for start, length in sorted(ranges):
        if not length:
            continue
        begin, end = spans[-1] if spans else (0, -1)
        near = start - end <= MERGED_GAP_BYTES and end - begin < MERGED_BYTES
        if spans and (near or start + length <= end):
            spans[-1] = (begin, max(end, start + length))
        else:
            spans.append((start, start + length))
    return spans


def octets(data: Bytes) -> memoryview:
    """Return the bytes as unsigned ones, which is all that obstore takes; Arrow's are signed."""
    return memoryview(data).cast("B")


class ObjectReader:
    """One object opened for ranged reads."""

    def __init__(
        self, client: ObjectStore, number: int, key: str, uri: str, size: int | None
    ) -> None:
        self._client = client
        self._number = number
        self._key = key
        self._uri = uri
        self._size = size

    @property
    def name(self) -> str:
        """The full URI."""
        return self._uri

    @property
    def gap(self) -> int:
        """The gap over which ranges share a request anyhow."""
        return MERGED_GAP_BYTES

    @property
    def identity(self) -> Hashable | None:
        """What tells this object from all others, as far as it is known without a request."""
        return object_identity(self._number, self._key, self._size)

    def size(self) -> int:
        """Return the object's size in bytes, asked for once."""
        if self._size is None:
            self._size = self._ask_size()
        return self._size

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return exactly ``length`` bytes at ``start``."""
        return self.read_many([(start, length)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return one buffer per ``(start, length)``; ranges near each other share a request."""
        if any(start < 0 or length < 0 for start, length in ranges):
            raise self._too_short(ranges)
        spans = merged(ranges)
        try:
            parts = self._get(spans)
        except StorageError as error:
            # A server refuses a range that starts behind the end in words of its own.
            if not gave_up(error) and self._ask_size() < max(stop for _, stop in spans):
                raise self._too_short(ranges) from error
            raise
        if any(part.size != stop - start for part, (start, stop) in zip(parts, spans, strict=True)):
            raise self._too_short(ranges)
        starts = [start for start, _ in spans]

        def cut(start: int, length: int) -> pa.Buffer:
            if not length:
                return pa.py_buffer(b"")
            at = bisect_right(starts, start) - 1
            return parts[at].slice(start - starts[at], length)

        return [cut(start, length) for start, length in ranges]

    def _get(self, spans: Sequence[Span]) -> list[pa.Buffer]:
        if not spans:
            return []
        starts, stops = zip(*spans, strict=True)
        with reading("read", self._uri):
            found = obstore.get_ranges(
                self._client, self._key, starts=starts, ends=stops, coalesce=0
            )
        return [pa.py_buffer(part) for part in found]

    def _ask_size(self) -> int:
        with reading("read", self._uri):
            return int(obstore.head(self._client, self._key)["size"])

    def _too_short(self, ranges: Sequence[tuple[int, int]]) -> CorruptFileError:
        size = self._ask_size()
        start, length = max(ranges, key=sum)
        return CorruptFileError(
            f"{self._uri} is too short: bytes {start} to {start + length} were asked for, "
            f"it has {size}.",
            path=self._uri,
            start=start,
            length=length,
            size=size,
        )


class ObjectSink:
    """A new object, sent in parts; it exists from ``close`` on."""

    def __init__(self, client: ObjectStore, key: str, uri: str) -> None:
        self._uri = uri
        self._written = 0
        with translated("create", uri):
            self._writer = obstore.open_writer(client, key, buffer_size=PART_BYTES)

    def write(self, data: Bytes) -> None:
        """Append ``data``."""
        try:
            with translated("write", self._uri):
                self._written += self._writer.write(octets(data))
        except StorageError:
            self.abort()
            raise

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._written

    def close(self) -> None:
        """Send what is left and make the object visible."""
        if not self._writer.closed():
            with translated("write", self._uri):
                self._writer.close()

    def abort(self) -> None:
        """Give up; the parts that were sent are dropped."""
        if not self._writer.closed():
            with translated("abort the write of", self._uri):
                self._writer.__exit__(InterruptedError, InterruptedError(), None)


class ObstoreStore:
    """A folder in an object store, or in memory.

    uri: where it is rooted: ``s3://bucket/folder``, ``memory://name``, ...
    storage_options: credentials and settings, named as obstore and pylance name them; never
        displayed.

    Examples
    --------
    >>> store = ObstoreStore("memory://example")
    >>> store.put_if_absent("a/b", b"first"), store.put_if_absent("a/b", b"second")
    (True, False)
    """

    def __init__(
        self, uri: str, storage_options: Mapping[str, str] | None = None, *, folder: str = ""
    ) -> None:
        self._base = check_uri(uri)
        self._folder = folder
        self._options = check_options(storage_options)
        self._client, self._number = client_for(self._base, self._options)
        # The one store in memory holds all names; every other client is rooted at its URI.
        root = memory_root(self._base) if self._base.startswith("memory:") else ""
        self._prefix = "".join(f"{part}/" for part in (root, folder) if part)
        #: what was written last, and the tag that the server gave it
        self._written: tuple[str, str | None] = ("", None)

    @property
    def uri(self) -> str:
        """The root as a URI."""
        return f"{self._base}/{self._folder}" if self._folder else self._base

    @property
    def storage_options(self) -> dict[str, str]:
        """The options that it was opened with, credentials included."""
        return dict(self._options)

    def child(self, folder: str) -> ObstoreStore:
        """Return a store rooted at a sub-folder."""
        below = "/".join(part for part in (self._folder, check_folder(folder)) if part)
        store = ObstoreStore(self._base, dict(self._options), folder=below)
        store._prefix = f"{self._prefix}{folder}/" if folder else self._prefix
        return store

    def open(self, name: str, size: int | None = None) -> ObjectReader:
        """Open an object for ranged reads; nothing is asked of the server yet if size is known."""
        reader = ObjectReader(self._client, self._number, self._key(name), self._uri_of(name), size)
        reader.size()
        return reader

    def read(self, name: str, most: int = METADATA_BYTES) -> pa.Buffer:
        """Return a whole object."""
        uri = self._uri_of(name)
        with reading("read", uri):
            found = obstore.get(self._client, self._key(name))
            size = int(found.meta["size"])
            if size > most:
                raise too_large(uri, size, most)
            return pa.py_buffer(found.bytes())

    def tail(self, name: str, length: int) -> tuple[pa.Buffer, int]:
        """Return the last ``length`` bytes and the whole size, in one request where possible."""
        data, size, _ = self.identified_tail(name, length)
        return data, size

    def identified_tail(self, name: str, length: int) -> tuple[pa.Buffer, int, Hashable | None]:
        """Do the same, and tell what tells the object from all others: the tag of the answer."""
        key = self._key(name)
        try:
            with reading("read", self._uri_of(name)):
                found = obstore.get(self._client, key, options={"range": {"suffix": length}})
                identity = object_identity(self._number, key, None, found.meta["e_tag"])
                return pa.py_buffer(found.bytes()), int(found.meta["size"]), identity
        except StorageError:
            # Azure has no such requests, and S3 refuses them for an empty object.
            reader = self.open(name)
            size = reader.size()
            kept = min(length, size)
            return reader.read(size - kept, kept), size, None

    def identity(self, name: str, mark: str | None = None) -> Hashable | None:
        """Return what tells an object from all others, if a listing brought its tag."""
        return object_identity(self._number, self._key(name), None, mark)

    def put(self, name: str, data: Bytes) -> None:
        """Write a whole object, replacing one of that name."""
        key = self._key(name)
        with translated("write", self._uri_of(name)):
            answer = obstore.put(self._client, key, octets(data), use_multipart=False)
        self._written = key, answer["e_tag"]

    def put_if_absent(self, name: str, data: Bytes) -> bool:
        """Write a whole object only if the name is free, by a conditional request."""
        key = self._key(name)
        with translated("write", self._uri_of(name)):
            try:
                answer = obstore.put(self._client, key, octets(data), mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        self._written = key, answer["e_tag"]
        return True

    def flush(self, name: str) -> None:
        """Do nothing: an object that is there is durable."""

    def put_hint(self, name: str, data: Bytes) -> None:
        """Do nothing: object stores list names in order."""

    def create(self, name: str) -> ObjectSink:
        """Start streaming a new object."""
        return ObjectSink(self._client, self._key(name), self._uri_of(name))

    def create_over(self, name: str) -> ObjectSink:
        """Start streaming an object; one of its name is there until this one is closed."""
        return self.create(name)

    def adopt(self, name: str, source: Store, source_name: str) -> bool:
        """Have the server copy an object of the same bucket."""
        key = self._key(name)
        if not isinstance(source, ObstoreStore) or source._options != self._options:
            return False
        client, mine, theirs = self._client, "", ""
        here, there = urlsplit(self._base), urlsplit(source._base)
        if source._client is not self._client:
            spelled = unquote(here.path + there.path) != here.path + there.path
            if (here.scheme, here.netloc) != (there.scheme, there.netloc) or spelled:
                return False
            # either client reaches nothing above its URI
            client, _ = client_for(f"{here.scheme}://{here.netloc}", self._options)
            mine, theirs = (f"{parts.path.strip('/')}/".lstrip("/") for parts in (here, there))
        try:
            with reading("copy", source._uri_of(source_name)):
                obstore.copy(client, theirs + source._key(source_name), mine + key)
        except StorageError:  # some servers copy no large objects
            return False
        return True

    def list_names(self, folder: str) -> list[str]:
        """Return the bare names of the objects directly in ``folder``."""
        prefix = self._prefix_of(folder)
        with translated("list", self._uri_of(folder)):
            found = obstore.list_with_delimiter(self._client, prefix)["objects"]
        return [entry["path"][len(prefix) :] for entry in found]

    def list_folders(self, folder: str) -> list[str]:
        """Return the bare names of what further names begin with, up to a slash."""
        prefix = self._prefix_of(folder)
        with translated("list", self._uri_of(folder)):
            found = obstore.list_with_delimiter(self._client, prefix)["common_prefixes"]
        return [name[len(prefix) :].strip("/") for name in found]

    def first_names(self, folder: str) -> Listing:
        """Return the first names in ``folder``: object stores list in order, a page a request."""
        prefix = self._prefix_of(folder)
        with translated("list", self._uri_of(folder)):
            listing = obstore.list(self._client, prefix, chunk_size=PAGE_NAMES)
            chunk = next(listing, ())
        below = ((entry["path"][len(prefix) :], entry["e_tag"]) for entry in chunk)
        marks = {name: mark for name, mark in below if "/" not in name}
        return Listing(list(marks), len(chunk) < PAGE_NAMES, marks)

    def stamp(self, folder: str) -> None:
        """Return ``None``: an object store does not keep account of its folders."""

    def mark(self, name: str) -> None:
        """Return ``None``: asking for an object's tag is a request."""

    def look(self, name: str) -> str | None:
        """Return the tag that the server gave the object, or its size and time if it has no tag."""
        try:
            with reading("look for", self._uri_of(name)):
                found = obstore.head(self._client, self._key(name))
        except FileNotFoundError:
            return None
        return found["e_tag"] or f"{found['size']}-{found['last_modified'].timestamp()}"

    def mark_of_put(self, name: str) -> str | None:
        """Return the tag that the server gave the object, if this store wrote it last."""
        key, tag = self._written
        return tag if key == self._key(name) else None

    def list_tree(self, folder: str = "") -> list[ObjectInfo]:
        """Return every object at or below ``folder``."""
        prefix = self._prefix_of(folder)
        with translated("list", self._uri_of(folder)):
            found = [
                entry
                for chunk in obstore.list(self._client, prefix, chunk_size=1000)
                for entry in chunk
            ]
        return [
            ObjectInfo(
                entry["path"][len(self._prefix) :],
                entry["size"],
                entry["last_modified"].timestamp(),
            )
            for entry in found
        ]

    def exists(self, name: str) -> bool:
        """Return whether the object is there."""
        return self.look(name) is not None

    def delete(self, name: str) -> None:
        """Remove an object."""
        self._delete([self._key(name)], self._uri_of(name))

    def delete_tree(self, folder: str) -> None:
        """Remove every object below a folder."""
        keys = [self._prefix + entry.name for entry in self.list_tree(folder)]
        if keys:
            self._delete(keys, self._uri_of(folder))

    def prune(self) -> None:
        """Do nothing: there are no folders."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ObstoreStore)
            and (other.uri, other._prefix) == (self.uri, self._prefix)
            and other._options == self._options
        )

    def __hash__(self) -> int:
        return hash(self.uri)

    def __repr__(self) -> str:
        return f"ObstoreStore({self.uri!r})"

    def __reduce__(self) -> tuple[object, ...]:
        if self._base.startswith("memory:"):
            raise StorageError(
                f"{self.uri} lives in the memory of one process and cannot be sent to another.",
                hint="For work on Spark, keep the dataset on a disk or in an object store.",
                path=self.uri,
            )
        return _restore, (self._base, self._folder, dict(self._options))

    def _key(self, name: str) -> str:
        return self._prefix + check_name(name)

    def _prefix_of(self, folder: str) -> str:
        return f"{self._prefix}{folder}/" if check_folder(folder) else self._prefix

    def _uri_of(self, name: str) -> str:
        return f"{self.uri}/{name}" if name else self.uri

    def _delete(self, keys: list[str], uri: str) -> None:
        try:
            with reading("delete", uri):
                obstore.delete(self._client, keys)
        except FileNotFoundError:
            return


def _restore(base: str, folder: str, storage_options: dict[str, str]) -> ObstoreStore:
    return ObstoreStore(base, storage_options, folder=folder)
