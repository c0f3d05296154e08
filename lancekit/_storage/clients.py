"""Clients of object stores: one obstore client for each URI and set of options.

obstore retries requests itself, according to the `RETRY_OPTIONS` among the user's options.  Their
defaults are obstore's: 10 retries, 180 s.  Other numbers would be passed in `_client`, as
``retry_config`` (docs/stores.md).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import unquote

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import MemoryStore, from_url

from lancekit._legible import without_secrets
from lancekit._storage.base import split
from lancekit.errors import InvalidArgumentError, LancekitError, StorageError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# Options of the HTTP client and of its retries, named as in pylance; all other options describe
# the store.  obstore takes the three kinds separately, and aborts the process if they are mixed.
CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_max_frame_size",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
RETRY_OPTIONS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "client_max_retries": ("max_retries", int),
    "client_retry_timeout": ("retry_timeout", lambda seconds: timedelta(seconds=float(seconds))),
}

_memory = MemoryStore()
_numbers = count(1)
#: places in memory that were emptied, and their new keys
_emptied: dict[str, str] = {}


def check_uri(uri: str) -> str:
    """Return an object-store URI without trailing slashes, after a check that it is plain."""
    parts = split(uri)
    problem = ""
    if parts.password is not None:
        problem = "it contains a password; pass credentials as storage_options"
    elif parts.query or parts.fragment:
        problem = "it contains a query or a fragment; pass settings as storage_options"
    elif ".." in unquote(parts.path).split("/"):
        problem = "it contains '..'; write the full path"
    elif parts.scheme != "memory" and not parts.netloc:
        problem = "it has no bucket"
    if problem:
        raise InvalidArgumentError(
            f"{parts.scheme}://{parts.hostname or ''}{parts.path} cannot be opened: {problem}."
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def memory_root(uri: str) -> str:
    """Return the key of a place within the one store in memory."""
    place = _place(uri)
    above = [place, *(place[:at] for at, sign in enumerate(place) if sign == "/")]
    return next((_emptied[one] + place[len(one) :] for one in above if one in _emptied), place)


def empty_memory(uri: str) -> None:
    """Make a place in memory empty from now on; open stores keep their objects."""
    _emptied[_place(uri)] = f".anew/{next(_numbers)}"


def _place(uri: str) -> str:
    return unquote(uri.removeprefix("memory://")).strip("/")


@lru_cache(maxsize=32)
def client_for(uri: str, options: tuple[tuple[str, str], ...]) -> tuple[ObjectStore, int]:
    """Return the obstore client whose root is ``uri``; equal arguments share its connections.

    Also return a number that no other client has.
    """
    if split(uri).scheme == "memory":
        return _memory, 0
    return _client(uri, options), next(_numbers)


def _client(uri: str, options: tuple[tuple[str, str], ...]) -> ObjectStore:
    config = {name: value for name, value in options if name not in RETRY_OPTIONS}
    client = {name: config.pop(name) for name in CLIENT_OPTIONS & config.keys()}
    try:
        retry = {
            RETRY_OPTIONS[name][0]: RETRY_OPTIONS[name][1](value)
            for name, value in options
            if name in RETRY_OPTIONS
        }
        # obstore decides which of the user's options a store has
        return from_url(  # type: ignore[call-overload, no-any-return]
            uri, config=config, client_options=client, retry_config=retry or None
        )
    except UnknownConfigurationKeyError as error:
        raise InvalidArgumentError(
            f"{uri} cannot be opened: {redacted(str(error))}",
            hint="Check the names in storage_options.",
        ) from None
    except (BaseError, ValueError) as error:
        raise InvalidArgumentError(
            f"{uri} cannot be opened: {redacted(str(error))}.",
            hint="Check the address and storage_options.",
        ) from None


# ---- messages of obstore and of servers, as the package's own errors without secrets

HINTS: tuple[tuple[type[Exception], str], ...] = (
    (FileNotFoundError, "Check the name of the bucket or container."),
    (PermissionDeniedError, "Check the permissions of these credentials in this bucket."),
    (UnauthenticatedError, "Check the credentials in storage_options or the environment."),
    (NotSupportedError, "This kind of store does not support that; use another."),
    (InvalidPathError, "Choose another name."),
)
RETRY_HINT = "Check the address, the network and storage_options, then try again."

# Servers repeat parts of a refused request: its key id, token and signature.
SECRETS = re.compile(
    r"<(AWSAccessKeyId|Token-\d+|StringToSign|SignatureProvided|CanonicalRequest)\b.*?</\1>",
    re.IGNORECASE | re.DOTALL,
)
DETAIL_CHARACTERS = 300
# obstore's wording; a request that was not repeated has it, too, with 0
_REPEATED = re.compile(r"after [1-9]\d* retries")


def redacted(text: str) -> str:
    """Return the first paragraph of a message, shortened, without credentials."""
    paragraph = SECRETS.sub("***", without_secrets(text.partition("\n\nDebug source:")[0]))
    return " ".join(paragraph.split())[:DETAIL_CHARACTERS]


def gave_up(error: StorageError) -> bool:
    """Return True if a request failed after retries, so that another one would take as long."""
    return _REPEATED.search(str(error)) is not None


@contextmanager
def translated(action: str, uri: str) -> Iterator[None]:
    """Convert obstore's errors to ``StorageError``."""
    # The original is not chained, because its text may contain what ``redacted`` removes.
    try:
        yield
    except LancekitError:
        raise
    except (BaseError, OSError, ValueError) as error:
        hint = next((hint for kind, hint in HINTS if isinstance(error, kind)), RETRY_HINT)
        raise StorageError(
            f"cannot {action} {uri}: {redacted(str(error))}.", hint=hint, path=uri
        ) from None


@contextmanager
def reading(action: str, uri: str) -> Iterator[None]:
    """Convert obstore's errors to ``StorageError``, or ``FileNotFoundError`` if one is missing."""
    missing = False
    with translated(action, uri):
        try:
            yield
        except FileNotFoundError:
            missing = True
    if missing:
        raise FileNotFoundError(errno.ENOENT, "No such object", uri)
