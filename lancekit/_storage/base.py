"""The contract of a store: a folder of immutable objects, on a disk or in an object store.

A ``Store`` is rooted at a folder.  Names are ``/``-separated and relative to that root.  Empty
and absolute names, ``..`` and backslashes raise ``InvalidArgumentError``.  A store can be pickled
and used in a Spark worker, except for ``memory://``, which exists in one process.

New objects are written in two ways:

- ``put`` and ``put_if_absent`` write small objects that readers look up by name (manifests, tags,
  transactions).  They appear whole or not at all.
- ``create`` streams an object under a fresh unique name (a data file), and may show it half
  written.  No reader knows the name before a manifest names it, which is put after ``close``.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable
from urllib.parse import SplitResult, urlsplit

import pyarrow as pa

from lancekit._cache import is_wanted
from lancekit.errors import CorruptFileError, InvalidArgumentError, InvalidTypeError, type_name

Bytes: TypeAlias = bytes | bytearray | memoryview | pa.Buffer

TEMPORARY_PREFIX = ".tmp-"
"""The prefix of the bare name of a temporary file that is still being written."""

TEMPORARY = r"(?:\.tmp-[^/]*|\.tmp[0-9A-Za-z]{6}|[^/]+#\d+)"
"""The bare names of temporary files, of lancekit, of the reference and of its store on disks."""

METADATA_BYTES = 1 << 30
"""The most bytes of a manifest, a transaction or another file that is read as a whole.

The limit of protocol buffers is twice as much.  A sparse file takes hardly any space on a disk,
but its full size in memory once it is read: without a limit, a crafted file could exhaust memory.
"""

# Cleanups find unreferenced files by these endings, and in the manifests' folder by the prefix.
# An unfinished manifest or reference must not have the ending of a finished one.
_ENDINGS_KEPT = (".txn", ".arrow", ".bin")


def is_temporary(name: str) -> bool:
    """Return True for the name of a temporary file of lancekit or pylance.

    >>> is_temporary("data/.tmpAXFF3u"), is_temporary("data/1011.lance")
    (True, False)
    """
    return re.fullmatch(TEMPORARY, name.rpartition("/")[2]) is not None


def temporary_name(name: str) -> str:
    """Return a fresh name beside ``name`` that cleanups recognise if a crash leaves the file."""
    folder, slash, bare = name.rpartition("/")
    ending = next((ending for ending in _ENDINGS_KEPT if bare.endswith(ending)), "")
    return f"{folder}{slash}{TEMPORARY_PREFIX}{uuid.uuid4().hex}{ending}"


def too_large(path: str, size: int, most: int) -> CorruptFileError:
    """Return the error for a file that exceeds the limit of its kind."""
    return CorruptFileError(
        f"{path} has {size:,} bytes; a file of this kind can have at most {most:,}.",
        hint="It was not read, because it is damaged, or was crafted to exhaust memory.",
        path=path,
        size=size,
        most=most,
    )


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """A listed object: its name below the store's root, its bytes, and its seconds since the epoch.

    `regular` is False for a link and for a special file of a disk (a FIFO, a device, a socket).
    Neither is followed or removed.
    """

    name: str
    size: int
    modified: float
    regular: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """The first names of a folder; `whole` is True if these are all names.

    `marks` has the marks of the names (see `Store.mark`) that the listing contains, perhaps none.
    """

    names: Collection[str]
    whole: bool
    marks: Mapping[str, str | None] = field(default_factory=dict)


@runtime_checkable
class RandomAccess(Protocol):
    """An object opened for ranged reads.  Thread-safe."""

    @property
    def name(self) -> str:
        """The full path or URI, for messages."""

    @property
    def gap(self) -> int:
        """The most bytes between two ranges at which one read is as cheap as two."""

    @property
    def identity(self) -> Hashable | None:
        """A value that no other object ever has; ``None`` if the store has no such value."""

    def size(self) -> int:
        """Return the object's size in bytes."""

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return exactly ``length`` bytes at ``start``; ``CorruptFileError`` if there are fewer."""

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return one buffer per ``(start, length)``; nearby ranges share a request."""


class Sink(Protocol):
    """A new object that is being written; it can be read only after ``close``."""

    def write(self, data: Bytes) -> None:
        """Append ``data``."""

    def tell(self) -> int:
        """Return the number of bytes written so far."""

    def close(self) -> None:
        """Make the object visible and (local, unless disabled) durable; later calls do nothing."""

    def abort(self) -> None:
        """Remove the unfinished object; does nothing after ``close``."""


class Store(Protocol):
    """A rooted folder.

    Every failure is a ``StorageError``, or ``FileNotFoundError`` for a name that does not exist
    (callers convert it to their own error).
    """

    @property
    def uri(self) -> str:
        """The root as an absolute path or URI, without a trailing slash or credentials."""

    def child(self, folder: str) -> Store:
        """Return a store rooted at a sub-folder (which need not exist)."""

    def open(self, name: str, size: int | None = None) -> RandomAccess:
        """Open an object for ranged reads; a known ``size`` saves a request."""

    def read(self, name: str, most: int = METADATA_BYTES) -> pa.Buffer:
        """Return a whole object; ``CorruptFileError`` if it has more than ``most`` bytes."""

    def tail(self, name: str, length: int) -> tuple[pa.Buffer, int]:
        """Return the last ``length`` bytes (fewer if the object is shorter) and the whole size."""

    def identified_tail(self, name: str, length: int) -> tuple[pa.Buffer, int, Hashable | None]:
        """Return the result of `tail`, and the `identity` of the object that was read."""

    def identity(self, name: str, mark: str | None = None) -> Hashable | None:
        """Return a value for a name's current object that no other object ever has.

        ``None`` if the store has no such value, if it would cost a request, or if there is no
        object.  `mark` is the mark of the object, if a listing has returned it.
        """

    def put(self, name: str, data: Bytes) -> None:
        """Write a whole object atomically and durably; replace an existing one."""

    def put_if_absent(self, name: str, data: Bytes) -> bool:
        """Write a whole object only if the name is free; ``False`` if it is taken.

        Atomic and durable: of any number of racing writers, at most one gets ``True``.  On an
        object store, a request whose first response was lost may be repeated, and then find its
        own object.  So after ``False``, read the object and compare an identifier before reporting
        a loss.  After a ``StorageError``, the object may also exist.
        """

    def flush(self, name: str) -> None:
        """Make an object durable that another writer wrote (local, unless disabled)."""

    def put_hint(self, name: str, data: Bytes) -> None:
        """Write an optional object: not durable, not atomic, and failures are ignored.

        Does nothing in a store that lists names in order, because no reader needs a hint there.
        """

    def create(self, name: str) -> Sink:
        """Start streaming a new object; the name must be fresh (it contains a UUID)."""

    def create_over(self, name: str) -> Sink:
        """Start streaming an object that appears, or replaces another, when it is closed."""

    def adopt(self, name: str, source: Store, source_name: str) -> bool:
        """Give an object of another store a fresh name here, without transferring its bytes.

        This is a hard link on a disk, and a server-side copy in an object store; the time of the
        object becomes the current time.  ``False`` if the two stores cannot do that; then nothing
        happened.
        """

    def list_names(self, folder: str) -> list[str]:
        """Return the bare names of the objects directly in ``folder``; empty if it does not exist.

        The names are unordered and without sizes: this is the fast listing that finds versions.
        Temporary files are omitted.  A local disk also returns sub-folders, which it could only
        distinguish from files by a call for each.
        """

    def list_folders(self, folder: str) -> list[str]:
        """Return the bare names of the folders directly in ``folder``, without links."""

    def first_names(self, folder: str) -> Listing:
        """Return the first names directly in ``folder`` in order, with a single request.

        At least the first one; all names if the store does not list in order.
        """

    def stamp(self, folder: str) -> Hashable | None:
        """Return a value that changes whenever a name in ``folder`` is added or removed.

        Nothing is listed.  ``None`` if the store has no such value, or if it is not reliable yet:
        two changes within one tick of a disk's clock have the same modification time.
        """

    def mark(self, name: str) -> str | None:
        """Return a mark of the object that a later object of the same name does not have.

        ``None`` if that would cost a request, or if there is no such object.
        """

    def look(self, name: str) -> str | None:
        """Return the mark of an object, by a request if need be; ``None`` if it does not exist."""

    def mark_of_put(self, name: str) -> str | None:
        """Return the mark of an object that this store has just put.

        ``None`` if the mark is not known.  Another writer may have replaced the object since.
        """

    def list_tree(self, folder: str = "") -> list[ObjectInfo]:
        """Return every object at or below ``folder``, including temporary files of a crash.

        Links are listed but not followed, even if a link is on the path to ``folder``.
        """

    def exists(self, name: str) -> bool:
        """Return True if the object exists."""

    def delete(self, name: str) -> None:
        """Remove an object; a missing one is not an error."""

    def delete_tree(self, folder: str) -> None:
        """Remove a folder and all its contents; a missing one is not an error.

        As in all writes and removals, a link on the path below the root raises ``StorageError``.
        """

    def prune(self) -> None:
        """Remove folders without any file, including the root; object stores have no folders."""


# ---- checks of object names, before they reach a disk or a server


def check_name(name: str) -> str:
    """Return the name of an object, after a check that it stays below the root."""
    if not is_name(name):
        raise InvalidArgumentError(
            f"{name!r} is not a valid name in a store.",
            hint="Names are relative, '/'-separated, without empty, '.' or '..' parts, "
            "backslashes or NUL.",
            name=name,
        )
    return name


def is_name(name: str) -> bool:
    """Return True for a valid object name; a listing may contain other names."""
    parts = name.split("/")
    return not ("" in parts or "." in parts or ".." in parts or "\\" in name or "\0" in name)


def check_folder(folder: str) -> str:
    """Return the name of a folder, after a check; the empty name is the store's root."""
    return folder if folder == "" else check_name(folder)


# ---- identities: values that distinguish an object from all earlier and later ones of its name
#
# On a local disk, an identity has the device, the inode, the size, and the times of the last change
# of the content and of the inode, in nanoseconds.  They are of the *opened* file (by its
# descriptor, not by its name).  Rewriting a file changes its inode or its times.  ``os.utime`` sets
# the first time, but nothing sets the second.  The clock remains a problem.  A disk stamps files in
# ticks of some milliseconds, at most two seconds (FAT).  Within one tick, two contents of one size
# can have the same inode and times.  So a file whose times are younger than `SETTLED_SECONDS` has
# no identity; after that, any later change has a later time.  Files with times in the future have
# none, either.  (A process that changes a data file through its own memory mapping, before the
# disk's clock advances, is not detected; nothing does that.)
#
# On an object store, an identity has the client, the key and the entity tag.  The client stands for
# place and credentials, so that two clients share nothing and no secret is stored.  The tag comes
# from a request or a listing that was necessary anyway.  Without a tag, only objects with a random
# id in their names have an identity, with their size, or the manifest's data about a deletion file:
# no such name is used twice.  No request is made for an identity.

SETTLED_SECONDS = 2.0
"""The age at which the times of a file or a folder distinguish its states.

The coarsest clock of a disk in use ticks every 2 s (FAT), others every few milliseconds.
"""

#: 128 random bits as a UUID, as hexadecimal digits, or in the reference's form, whose first 24 bits
#: are binary
_RANDOM = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[01]{24}[0-9a-f]{26}"
)


def file_identity(status: os.stat_result) -> Hashable | None:
    """Return the identity of a file on a local disk, ``None`` if it is not reliable (yet)."""
    if not is_wanted():
        return None
    newest = max(status.st_mtime, status.st_ctime)
    if time.time() - newest < SETTLED_SECONDS:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def object_identity(
    client: int, key: str, size: int | None, tag: str | None = None
) -> Hashable | None:
    """Return the identity of an object in an object store, or ``None`` if it has none.

    client: the number of the client that reads it; another client may have other credentials.
    size: its bytes, if they are known.
    tag: the entity tag that came with the bytes, or in a listing.
    """
    if not is_wanted():
        return None
    if tag is not None:
        return client, key, tag
    if size is not None and _RANDOM.search(key.rpartition("/")[2]):
        return client, key, size
    return None


# ---- checks of a store's URI and options before it is opened, without loading obstore

SCHEMES = ("memory", "s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "azure")
"""The URI schemes of object stores; the whole process shares one ``memory`` store."""


def split(uri: str) -> SplitResult:
    """Split a URI; ``InvalidArgumentError`` if it cannot be split."""
    try:
        return urlsplit(uri)
    except ValueError as error:  # such as brackets without an address
        raise InvalidArgumentError(f"{uri} is not a URI: {error}.") from None


def check_options(options: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return storage options as sorted pairs with lower-case names; values must be strings."""
    # a wrong value is not shown, because it may be a misplaced credential
    if options is not None and not isinstance(options, Mapping):
        raise InvalidTypeError(
            f"storage_options must be a dict of strings, got a {type_name(options)}."
        )
    pairs: dict[Any, Any] = dict(options or {})
    for name, value in pairs.items():
        if not isinstance(name, str) or not isinstance(value, str):
            what = repr(name) if isinstance(name, str) else f"with a {type_name(name)} for a name"
            raise InvalidTypeError(
                f"storage option {what} must be a string, got a {type_name(value)}."
            )
    return tuple(sorted((name.lower(), value) for name, value in pairs.items()))
