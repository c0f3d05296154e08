"""A store in an object store (S3, Google, Azure) or in this process's memory, through obstore."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
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
"""Bytes that a sink collects before it sends a part; S3 refuses parts under 5 MiB."""

PAGE_NAMES = 1000
"""The most names in one response of a server, which is also its default."""

MERGED_GAP_BYTES = 1 << 20
"""Ranges this close share a request: reading the gap costs less than a round trip."""

MERGED_BYTES = 8 << 20
"""Size from which ranges no longer share a request: two requests are faster then."""

Span: TypeAlias = tuple[int, int]


def merged(ranges: Sequence[tuple[int, int]]) -> list[Span]:
    """Merge ranges; return ascending ``(start, stop)`` spans, far apart, that cover the ranges.

    obstore can merge, too, but aborts the process if a merged response is short.
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
    """Return a view as unsigned bytes, which obstore requires; Arrow's bytes are signed."""
    return memoryview(data).cast("B")


class ObjectReader:
    """An object opened for ranged reads."""

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
        """The gap up to which ranges share a request."""
        return MERGED_GAP_BYTES

    @property
    def identity(self) -> Hashable | None:
        """The object's identity, where known without a request."""
        return object_identity(self._number, self._key, self._size)

    def size(self) -> int:
        """Return the object's size in bytes, requested once."""
        if self._size is None:
            self._size = self._request_size()
        return self._size

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return exactly ``length`` bytes at ``start``."""
        return self.read_many([(start, length)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return one buffer per ``(start, length)``; nearby ranges share a request."""
        if any(start < 0 or length < 0 for start, length in ranges):
            raise self._too_short(ranges)
        spans = merged(ranges)
        try:
            parts = self._get(spans)
        except StorageError as error:
            # A server has its own error for a range that starts after the end.
            if not gave_up(error) and self._request_size() < max(stop for _, stop in spans):
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

    def _request_size(self) -> int:
        with reading("read", self._uri):
            return int(obstore.head(self._client, self._key)["size"])

    def _too_short(self, ranges: Sequence[tuple[int, int]]) -> CorruptFileError:
        size = self._request_size()
        start, length = max(ranges, key=sum)
        return CorruptFileError(
            f"{self._uri} is truncated: it has {size} bytes, but bytes {start} to "
            f"{start + length} were requested.",
            path=self._uri,
            start=start,
            length=length,
            size=size,
        )


class ObjectSink:
    """A new object that is sent in parts, and exists after ``close``."""

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
        """Send the remaining bytes, and make the object visible."""
        if not self._writer.closed():
            with translated("write", self._uri):
                self._writer.close()

    def abort(self) -> None:
        """Discard the unfinished object and its parts."""
        if not self._writer.closed():
            with translated("abort the write of", self._uri):
                self._writer.__exit__(InterruptedError, InterruptedError(), None)


class ObstoreStore:
    """A folder in an object store, or in memory.

    uri: the root: ``s3://bucket/folder``, ``memory://name``, ...
    storage_options: credentials and settings, named as in obstore and pylance; never displayed.

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
        # The one store in memory has all names; every other client is rooted at its URI.
        root = memory_root(self._base) if self._base.startswith("memory:") else ""
        self._prefix = "".join(f"{part}/" for part in (root, folder) if part)
        #: the key that was written last, and the tag from the server
        self._written: tuple[str, str | None] = ("", None)

    @property
    def uri(self) -> str:
        """The root as a URI."""
        return f"{self._base}/{self._folder}" if self._folder else self._base

    @property
    def storage_options(self) -> dict[str, str]:
        """The options of the store, credentials included."""
        return dict(self._options)

    def child(self, folder: str) -> ObstoreStore:
        """Return a store rooted at a sub-folder."""
        below = "/".join(part for part in (self._folder, check_folder(folder)) if part)
        store = ObstoreStore(self._base, dict(self._options), folder=below)
        store._prefix = f"{self._prefix}{folder}/" if folder else self._prefix
        return store

    def open(self, name: str, size: int | None = None) -> ObjectReader:
        """Open an object for ranged reads; no request is made if the size is known."""
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
        """Return the last ``length`` bytes and the whole size, with one request if possible."""
        data, size, _ = self.identified_tail(name, length)
        return data, size

    def identified_tail(self, name: str, length: int) -> tuple[pa.Buffer, int, Hashable | None]:
        """Return the result of `tail`, and the object's identity, by the tag in the response."""
        key = self._key(name)
        try:
            with reading("read", self._uri_of(name)):
                found = obstore.get(self._client, key, options={"range": {"suffix": length}})
                identity = object_identity(self._number, key, None, found.meta["e_tag"])
                return pa.py_buffer(found.bytes()), int(found.meta["size"]), identity
        except StorageError:
            # Azure does not support such requests, and S3 refuses them for an empty object.
            reader = self.open(name)
            size = reader.size()
            kept = min(length, size)
            return reader.read(size - kept, kept), size, None

    def identity(self, name: str, mark: str | None = None) -> Hashable | None:
        """Return the identity of an object, if a listing has returned its tag."""
        return object_identity(self._number, self._key(name), None, mark)

    def put(self, name: str, data: Bytes) -> None:
        """Write a whole object, and replace an existing one."""
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
        """Do nothing, because existing objects are durable."""

    def put_hint(self, name: str, data: Bytes) -> None:
        """Do nothing, because object stores list names in order."""

    def create(self, name: str) -> ObjectSink:
        """Start streaming a new object."""
        return ObjectSink(self._client, self._key(name), self._uri_of(name))

    def create_over(self, name: str) -> ObjectSink:
        """Start streaming an object; an existing one remains until this one is closed."""
        return self.create(name)

    def adopt(self, name: str, source: Store, source_name: str) -> bool:
        """Let the server copy an object of the same bucket."""
        key = self._key(name)
        if not isinstance(source, ObstoreStore) or source._options != self._options:
            return False
        client, own, other = self._client, "", ""
        here, there = urlsplit(self._base), urlsplit(source._base)
        if source._client is not self._client:
            spelled = unquote(here.path + there.path) != here.path + there.path
            if (here.scheme, here.netloc) != (there.scheme, there.netloc) or spelled:
                return False
            # neither client can access keys above its URI
            client, _ = client_for(f"{here.scheme}://{here.netloc}", self._options)
            own, other = (f"{parts.path.strip('/')}/".lstrip("/") for parts in (here, there))
        try:
            with reading("copy", source._uri_of(source_name)):
                obstore.copy(client, other + source._key(source_name), own + key)
        except StorageError:  # some servers cannot copy large objects
            return False
        return True

    def list_names(self, folder: str) -> list[str]:
        """Return the bare names of the objects directly in ``folder``."""
        prefix = self._prefix_of(folder)
        with translated("list", self._uri_of(folder)):
            found = obstore.list_with_delimiter(self._client, prefix)["objects"]
        return [entry["path"][len(prefix) :] for entry in found]

    def list_folders(self, folder: str) -> list[str]:
        """Return the bare prefixes of further names, up to a slash."""
        prefix = self._prefix_of(folder)
        with translated("list", self._uri_of(folder)):
            found = obstore.list_with_delimiter(self._client, prefix)["common_prefixes"]
        return [name[len(prefix) :].strip("/") for name in found]

    def first_names(self, folder: str) -> Listing:
        """Return the first names in ``folder``: object stores list in order, a page per request."""
        prefix = self._prefix_of(folder)
        with translated("list", self._uri_of(folder)):
            chunk = next(obstore.list(self._client, prefix, chunk_size=PAGE_NAMES), ())
        below = ((entry["path"][len(prefix) :], entry["e_tag"]) for entry in chunk)
        marks = {name: mark for name, mark in below if "/" not in name}
        return Listing(list(marks), len(chunk) < PAGE_NAMES, marks)

    def stamp(self, folder: str) -> None:
        """Return ``None``: an object store has no state of its folders."""

    def mark(self, name: str) -> None:
        """Return ``None``: reading an object's tag costs a request."""

    def look(self, name: str) -> str | None:
        """Return the object's tag, or its size and time if it has no tag."""
        try:
            with reading("look for", self._uri_of(name)):
                found = obstore.head(self._client, self._key(name))
        except FileNotFoundError:
            return None
        return found["e_tag"] or f"{found['size']}-{found['last_modified'].timestamp()}"

    def mark_of_put(self, name: str) -> str | None:
        """Return the object's tag, if this store has written it last."""
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
        """Return True if the object exists."""
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
        """Do nothing, because there are no folders."""

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
                f"{self.uri} is in the memory of one process and cannot be sent to another.",
                hint="For work on Spark, use a dataset on a disk or in an object store.",
                path=self.uri,
            )
        return partial(ObstoreStore, folder=self._folder), (self._base, dict(self._options))

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
