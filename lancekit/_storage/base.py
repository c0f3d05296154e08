"""The contract of a store: a folder of immutable objects, on a disk or in an object store.

A ``Store`` is rooted at a folder.  Names are ``/``-separated and relative to that root; empty
and absolute names, ``..`` and backslashes are an ``InvalidArgumentError``.  A store can be pickled
and used in a Spark worker, except for ``memory://``, which lives in one process.

Two kinds of new objects are told apart, because a reader can meet only one of them half written:

- ``put`` and ``put_if_absent`` write small objects that are looked up by name (manifests, tags,
  transactions): they appear whole or not at all.
- ``create`` streams an object under a fresh unique name that nothing refers to yet (a data file);
  it must be closed before a manifest that names it is put.
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
"""How the bare name of a file that is still being written aside begins."""

TEMPORARY = r"(?:\.tmp-[^/]*|\.tmp[0-9A-Za-z]{6}|[^/]+#\d+)"
"""The bare names of such files by lancekit, and by the reference and its store on local disks."""

METADATA_BYTES = 1 << 30
"""What a manifest, a transaction or another file that is read as a whole has at most.

Protocol buffers end at twice as much.  A file says its size for nothing: one that is made of holes
takes no space on its way here, and as much memory as it says once it is read.
"""

# Cleanups look for unreferenced files by these endings, and in the manifests' folder by the prefix.
# A manifest or a reference must not end like one before it is whole.
_ENDINGS_KEPT = (".txn", ".arrow", ".bin")


def is_temporary(name: str) -> bool:
    """Return True for the name of a file that a writer, lancekit or pylance, had not finished.

    >>> is_temporary("data/.tmpAXFF3u"), is_temporary("data/1011.lance")
    (True, False)
    """
    return re.fullmatch(TEMPORARY, name.rpartition("/")[2]) is not None


def temporary_name(name: str) -> str:
    """Return a fresh name beside ``name``, under which a crash leaves what cleanups find."""
    folder, slash, bare = name.rpartition("/")
    ending = next((ending for ending in _ENDINGS_KEPT if bare.endswith(ending)), "")
    return f"{folder}{slash}{TEMPORARY_PREFIX}{uuid.uuid4().hex}{ending}"


def too_large(path: str, size: int, most: int) -> CorruptFileError:
    """Return the error for a file that is larger than one of its kind can be."""
    return CorruptFileError(
        f"{path} has {size:,} bytes; a file of this kind has {most:,} at most.",
        hint="It is damaged, or was made to use up memory. It was not read.",
        path=path,
        size=size,
        most=most,
    )


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object: name relative to the store's root, bytes, seconds since the epoch.

    `regular` is false for a link and for a special file of a disk (a FIFO, a device, a socket),
    which are neither followed nor removed.
    """

    name: str
    size: int
    modified: float
    regular: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """The first names of a folder; `whole` tells whether these are all.

    `marks` has those of the names (see `Store.mark`), where they came along; a store may have none.
    """

    names: Collection[str]
    whole: bool
    marks: Mapping[str, str | None] = field(default_factory=dict)


@runtime_checkable
class RandomAccess(Protocol):
    """One object opened for ranged reads.  Thread-safe."""

    @property
    def name(self) -> str:
        """The full path or URI, for messages."""

    @property
    def gap(self) -> int:
        """Bytes between two wanted ranges that cost no more than reading the ranges apart."""

    @property
    def identity(self) -> Hashable | None:
        """What tells this object from all others, ever; ``None`` if nothing does."""

    def size(self) -> int:
        """Return the object's size in bytes."""

    def read(self, start: int, length: int) -> pa.Buffer:
        """Return exactly ``length`` bytes at ``start``; ``CorruptFileError`` if there are fewer."""

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Return one buffer per ``(start, length)``; ranges near each other share a request."""


class Sink(Protocol):
    """One new object being written; it may be read only after ``close``."""

    def write(self, data: Bytes) -> None:
        """Append ``data``."""

    def tell(self) -> int:
        """Return the number of bytes written so far."""

    def close(self) -> None:
        """Make the object visible and (local, unless turned off) durable; once is enough."""

    def abort(self) -> None:
        """Give up and remove what was written; does nothing after ``close``."""


class Store(Protocol):
    """A rooted folder.

    Every failure is a ``StorageError``, or ``FileNotFoundError`` for a name that is not there
    (callers turn that into their own error).
    """

    @property
    def uri(self) -> str:
        """The root as an absolute path or URI, without a trailing slash or credentials."""

    def child(self, folder: str) -> Store:
        """Return a store rooted at a sub-folder (which need not exist)."""

    def open(self, name: str, size: int | None = None) -> RandomAccess:
        """Open an object for ranged reads; a known ``size`` saves a request."""

    def read(self, name: str, most: int = METADATA_BYTES) -> pa.Buffer:
        """Return a whole object; one of more than ``most`` bytes is a ``CorruptFileError``."""

    def tail(self, name: str, length: int) -> tuple[pa.Buffer, int]:
        """Return the last ``length`` bytes (fewer if the object is shorter) and the whole size."""

    def identified_tail(self, name: str, length: int) -> tuple[pa.Buffer, int, Hashable | None]:
        """Do the same as `tail`, and tell the `identity` of the object that was read."""

    def identity(self, name: str, mark: str | None = None) -> Hashable | None:
        """Return what tells the object that a name has now from all others, ever.

        ``None`` if nothing does, if finding it out would cost a request, or if there is no object.
        `mark` is that of the object, if a listing brought it.
        """

    def put(self, name: str, data: Bytes) -> None:
        """Write a whole object atomically and durably, replacing one of that name."""

    def put_if_absent(self, name: str, data: Bytes) -> bool:
        """Write a whole object only if the name is free; ``False`` if it is taken.

        Atomic and durable: of any number of racing writers at most one gets ``True``.  On an
        object store a request whose first answer was lost may be repeated and then find its own
        object: after ``False`` read the object and compare an identifier before reporting a loss.
        After a ``StorageError`` too the object may be there.
        """

    def flush(self, name: str) -> None:
        """Make an object durable that others wrote, who may not see to it (local, unless off)."""

    def put_hint(self, name: str, data: Bytes) -> None:
        """Write what nobody relies on: not durable, not atomic, a failure is no error.

        A store that lists names in order does nothing: there no reader needs a hint.
        """

    def create(self, name: str) -> Sink:
        """Start streaming a new object; the name must be fresh (it holds a UUID)."""

    def create_over(self, name: str) -> Sink:
        """Start streaming an object that takes its name, or another's place, when it is closed."""

    def adopt(self, name: str, source: Store, source_name: str) -> bool:
        """Give an object of another store a fresh name here, without its bytes passing through.

        A hard link on a disk, a copy by the server in an object store; as new as one just written.
        ``False`` if the two stores cannot do that: then nothing happened.
        """

    def list_names(self, folder: str) -> list[str]:
        """Return the bare names of the objects directly in ``folder``; empty if there is none.

        Unordered, no sizes: this is the fast listing that finds versions.  Files that are being
        written aside are left out.  A local disk also names sub-folders, which it cannot tell
        from files without asking about each.
        """

    def list_folders(self, folder: str) -> list[str]:
        """Return the bare names of the folders directly in ``folder``, links left out."""

    def first_names(self, folder: str) -> Listing:
        """Return the names directly in ``folder`` that come first in order, by one request.

        At least the first one; all of them where the store does not list in order.
        """

    def stamp(self, folder: str) -> Hashable | None:
        """Return what changes whenever a name in ``folder`` is added or removed, without listing.

        ``None`` where there is no such thing, or where it cannot be relied on yet: two changes
        within one tick of a disk's clock leave one modification time.
        """

    def mark(self, name: str) -> str | None:
        """Return what tells this object from another one put under its name later.

        ``None`` if that would cost a request, or if there is no such object.
        """

    def look(self, name: str) -> str | None:
        """Return the mark of an object, by a request if need be; ``None`` if it is not there."""

    def mark_of_put(self, name: str) -> str | None:
        """Return the mark that the object had when this store put it, just now.

        ``None`` if nobody said.  Somebody else may have put another one since.
        """

    def list_tree(self, folder: str = "") -> list[ObjectInfo]:
        """Return every object at or below ``folder``, files left aside by a crash included.

        Links are listed and not followed, ``folder`` too if the way to it leads over one.
        """

    def exists(self, name: str) -> bool:
        """Return whether the object is there."""

    def delete(self, name: str) -> None:
        """Remove an object; a missing one is not an error."""

    def delete_tree(self, folder: str) -> None:
        """Remove a folder and all below it; a missing one is not an error.

        As all that writes or removes: a link on the way below the root is a ``StorageError``.
        """

    def prune(self) -> None:
        """Remove folders without any file in them, the root too; object stores have none."""


# ---- the names of objects within a store, checked before they reach a disk or a server


def check_name(name: str) -> str:
    """Return the name of an object, if it is relative, non-empty and stays below the root."""
    if not is_name(name):
        raise InvalidArgumentError(
            f"{name!r} is not a name within a store.",
            hint="Names are relative, '/'-separated, without empty, '.' or '..' parts, "
            "backslashes or NUL.",
            name=name,
        )
    return name


def is_name(name: str) -> bool:
    """Tell whether something is the name of an object; a listing may bring others."""
    parts = name.split("/")
    return not ("" in parts or "." in parts or ".." in parts or "\\" in name or "\0" in name)


def check_folder(folder: str) -> str:
    """Return the name of a folder; the empty name is the store's root."""
    return folder if folder == "" else check_name(folder)


# ---- what tells an object from all others that were or will be under its name
#
# On a local disk: device, inode, size, and the times of the last change of its content and of its
# inode, in nanoseconds, of the file *as it is opened* (of its descriptor, not of its name).  Who
# writes a file anew changes its inode or its times; ``os.utime`` sets the first time, but the
# second cannot be set.  What is left is a clock that stands still: a disk stamps files by ticks of
# some milliseconds, the coarsest of two seconds (FAT), and within one tick two contents, of one
# size, may lie under one inode with equal times.  So a file whose times are younger than
# `SETTLED_SECONDS` has no identity: by when it has one, any later change is stamped later.  The
# same goes for times that lie in the future, of which nothing can be said.  (Who changes a data
# file through a mapping of his own memory, at once and behind the back of the disk's clock, is not
# seen; nothing does that.)
#
# On an object store: the client, which stands for place and credentials, so that nothing is shared
# between two of them and no secret is kept; the key, and the entity tag, where a request or a
# listing that was made anyhow brought it.  Where none did, only objects with a random id in their
# names have an identity, with their sizes, or what a manifest says of a deletion file: no such name
# is given twice.  No request is made for it.

SETTLED_SECONDS = 2.0
"""How old the times of a file or a folder must be to tell one state of it from the next.

The coarsest clock of a disk in use ticks every two seconds (FAT), others every few milliseconds.
"""

#: 128 random bits, written as a UUID, as hexadecimal digits, or as the reference writes them: the
#: first 24 bits in binary
_RANDOM = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[01]{24}[0-9a-f]{26}"
)


def file_identity(status: os.stat_result) -> Hashable | None:
    """Return what a file on a local disk is known by, ``None`` if it cannot be relied on (yet)."""
    if not is_wanted():
        return None
    newest = max(status.st_mtime, status.st_ctime)
    if time.time() - newest < SETTLED_SECONDS:
        return None
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def object_identity(
    client: int, key: str, size: int | None, tag: str | None = None
) -> Hashable | None:
    """Return what an object of a store is known by, ``None`` if there is nothing to know it by.

    client: the number of the client that reads it: another one may have other credentials.
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


# ---- what is known of a store's URI and options before one is opened, without loading obstore

SCHEMES = ("memory", "s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "azure")
"""The URI schemes of object stores; ``memory`` is one store for the whole process."""


def split(uri: str) -> SplitResult:
    """Return the parts of a URI; ``InvalidArgumentError`` for one that has none."""
    try:
        return urlsplit(uri)
    except ValueError as error:  # such as brackets that hold no address
        raise InvalidArgumentError(f"{uri} is not a URI: {error}.") from None


def check_options(options: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return storage options as sorted pairs with lower-case names; values must be strings."""
    # what is wrong is not shown: it may be a credential in the wrong place
    if options is not None and not isinstance(options, Mapping):
        raise InvalidTypeError(
            f"storage_options is a {type_name(options)}.", hint="Pass a dictionary of strings."
        )
    pairs: dict[Any, Any] = dict(options or {})
    for name, value in pairs.items():
        if not isinstance(name, str) or not isinstance(value, str):
            what = repr(name) if isinstance(name, str) else f"with a {type_name(name)} for a name"
            raise InvalidTypeError(
                f"storage option {what} is a {type_name(value)}.",
                hint="Names and values of storage options are strings.",
            )
    return tuple(sorted((name.lower(), value) for name, value in pairs.items()))
