"""Opening of stores by path or URI, and the other stores that a dataset may access."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import unquote

from lancekit._checked import is_writable
from lancekit._legible import shown
from lancekit._storage.base import SCHEMES, Store, check_options, split
from lancekit._storage.local import LocalStore
from lancekit.errors import InvalidArgumentError, InvalidTypeError, StorageError, UntrustedBaseError
from lancekit.options import options

# A single letter before the colon is a Windows drive.
SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(?=/)", re.IGNORECASE)
ALIASES = {"s3a": "s3", "abfs": "az", "abfss": "az", "azure": "az", "adl": "az"}


def is_in_memory(store: Store) -> bool:
    """Return True if a store exists only in this process's memory."""
    if _scheme(store.uri) != "memory":
        return False
    from lancekit._storage.objects import ObstoreStore

    return isinstance(store, ObstoreStore)


def emptied(store: Store) -> Store:
    """Return an empty store at the same place in memory, which later calls open, too.

    Stores that are already open keep their objects.
    """
    from lancekit._storage.clients import empty_memory

    empty_memory(store.uri)
    return open_store(store.uri)


def open_store(
    uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> Store:
    """Open the folder at a path or URI; it need not exist yet.

    uri: a local path (``~`` is expanded), ``file:///path``, ``memory://name``, ``s3://bucket/path``
        or another object store's URI (``gs://``, ``az://``, ...).
    storage_options: credentials and settings of an object store.  Local paths need none.

    Raises InvalidTypeError: the URI is neither text nor a path, or an option is not text.
    Raises InvalidArgumentError: the URI or an option cannot be used.
    Raises StorageError: a local path, on a system such as Windows.

    Examples
    --------
    >>> open_store("/data/flights.lance").uri
    '/data/flights.lance'
    >>> open_store("file:///data/my%20flights.lance").uri
    '/data/my flights.lance'
    """
    if not isinstance(uri, str | os.PathLike):
        raise InvalidTypeError(
            f"A dataset's place must be a path or a URI, got a {type(uri).__name__}.",
            hint="Rows become a dataset by lk.write_dataset(rows, 'new.lance').",
            uri=uri,
        )
    check_options(storage_options)
    text = os.fspath(uri)
    # a disk can have names that are not Unicode, other stores cannot
    encode = os.fsencode if _scheme(str(text)) == "file" else str.encode
    if not isinstance(text, str) or not text or "\0" in text or not is_writable(text, encode):
        raise InvalidArgumentError(
            f"{shown(text)} is not a path or URI.", hint="For example 'flights.lance'."
        )
    scheme = _scheme(text)
    if scheme == "file":
        if not os.supports_dir_fd:
            raise StorageError(
                f"This system cannot open files relative to a folder, as {shown(text)} requires.",
                hint="On Windows, use the Windows Subsystem for Linux, or a table in a store.",
            )
        return LocalStore(_local_path(text))
    if scheme in SCHEMES:
        from lancekit._storage.objects import ObstoreStore

        return ObstoreStore(text, storage_options)
    raise InvalidArgumentError(
        f"There is no store for {scheme}:// URIs.",
        hint="Use a local path, file://, " + ", ".join(f"{name}://" for name in SCHEMES) + ".",
    )


def same_store(first: str, second: str) -> bool:
    """Return True if two places are in one store: the same disk, bucket or container.

    Examples
    --------
    >>> same_store("/data/a.lance", "file:///data/b.lance"), same_store("s3://one/a", "s3://two/a")
    (True, False)
    """
    return _store_of(first) == _store_of(second)


def is_trusted_base(path: str, own: Store) -> bool:
    """Return True if a manifest in ``own`` may refer a reader to ``path``.

    A manifest is untrusted data.  Without this check, its author could make readers send
    credentials to another server, or read files of their own disk into a result.
    """
    if same_store(path, own.uri):
        return True
    return any(is_below(path, prefix) for prefix in options.trusted_bases)


def open_base(path: str, own: Store, storage_options: Mapping[str, str] | None = None) -> Store:
    """Open a base path of a dataset in ``own``.

    path: the base path as in the manifest.  A relative path starts at the working directory.
    own: the store of the dataset.
    storage_options: the options that the dataset was opened with.  Only a store of the same kind
        receives them.

    Raises UntrustedBaseError: the path is in another store, which
        ``lancekit.options.trusted_bases`` does not list.
    """
    if not is_trusted_base(path, own):
        raise UntrustedBaseError(
            f"{own.uri} has files in another store: {path}.",
            hint=f"If you trust it, set lancekit.options.trusted_bases = [{path!r}].",
            path=path,
            dataset=own.uri,
        )
    same_kind = _store_of(path)[0] == _store_of(own.uri)[0]
    return open_store(path, storage_options if same_kind else None)


def check_trusted_file(path: str, own: Store) -> None:
    """Raise if a dataset in ``own`` may not return the bytes of a file.

    The format of a data file is checked, wherever a base path leads, but the bytes of a blob are
    not.  So, after links are resolved, a blob must be in the dataset's own folder or in a place
    that the user listed.

    Raises UntrustedBaseError: the file is elsewhere.
    """
    real = _real(path)
    if any(is_below(real, _real(place)) for place in (own.uri, *options.trusted_bases)):
        return
    folder = real.rpartition("/")[0]
    raise UntrustedBaseError(
        f"{own.uri} refers to {path}, which is outside of the dataset"
        + ("." if real == path else f": it points to {real}."),
        hint=f"If you trust it, set lancekit.options.trusted_bases = [{folder!r}].",
        path=path,
        dataset=own.uri,
    )


def _real(uri: str) -> str:
    if _scheme(uri) != "file":
        return uri
    return os.path.realpath(os.path.expanduser(_local_path(uri)))


def _scheme(uri: str) -> str:
    found = SCHEME.match(uri)
    return found[1].lower() if found else "file"


def _local_path(uri: str) -> str:
    if not SCHEME.match(uri):
        return uri
    parts = split(uri)
    if parts.netloc not in {"", "localhost"}:
        raise InvalidArgumentError(
            f"{uri} has the host {parts.netloc!r}, but a local file has no host.",
            hint="A local file URI has three slashes: file:///path.",
        )
    return unquote(parts.path)


def _store_of(uri: str) -> tuple[str, str]:
    """Return the kind of a store, and its bucket or container."""
    scheme = _scheme(uri)
    kind = ALIASES.get(scheme, scheme)
    # There is one disk and one memory: their paths are not separate stores.
    return kind, "" if kind in {"file", "memory"} else split(uri).netloc


def is_below(path: str, prefix: str) -> bool:
    """Return True if a place equals another or is inside it, by their names alone.

    Examples
    --------
    >>> is_below("/data/a.lance", "file:///data"), is_below("/data/../b", "/data")
    (True, False)
    """
    if _store_of(path) != _store_of(prefix):
        return False
    place = _path_of(path)
    return ".." not in place.parts and place.is_relative_to(_path_of(prefix))


def _path_of(uri: str) -> PurePosixPath:
    if _scheme(uri) == "file":
        return PurePosixPath(os.path.abspath(os.path.expanduser(_local_path(uri))))
    parts = split(uri)
    # memory has no buckets: the host is the first part of the path
    bucket = parts.netloc if _scheme(uri) == "memory" else ""
    return PurePosixPath("/" + unquote(bucket + parts.path).lstrip("/"))
