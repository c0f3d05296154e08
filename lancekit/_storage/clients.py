"""Clients of object stores: one obstore client for each URI and set of options.

obstore retries requests itself, according to the `RETRY_OPTIONS` among the user's options.  Their
defaults are obstore's: 10 retries, 180 s.  Other numbers would be passed in `_client`, as
``retry_config`` (docs/stores.md).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from configparser import ParsingError, RawConfigParser
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
    """Return an object-store URI without trailing slashes; refuse passwords, queries and ``..``."""
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
    more: dict[str, object] = {}
    if split(uri).scheme in _S3:
        given = config
        config, more = _with_profile(given)
        if "endpoint" not in given and config.get("endpoint", "").startswith("http:"):
            client.setdefault("allow_http", "true")
    try:
        retry = {
            RETRY_OPTIONS[name][0]: RETRY_OPTIONS[name][1](value)
            for name, value in options
            if name in RETRY_OPTIONS
        }
        # obstore decides which of the user's options a store has
        return from_url(  # type: ignore[call-overload, no-any-return]
            uri, config=config, client_options=client, retry_config=retry or None, **more
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


# ---- profiles of AWS, which obstore does not read
#
# As in AWS's own libraries, keys in storage_options or the environment come before a profile.

_S3 = frozenset({"s3", "s3a"})
#: settings of a profile whose credentials are not keys in a file
_NOT_KEYS = ("role_arn", "sso_session", "sso_start_url", "web_identity_token_file")
#: for each setting of a profile: the option of obstore, and all names of it in the environment
_OF_PROFILE = {
    "region": ("region", ("AWS_REGION", "AWS_DEFAULT_REGION")),
    "endpoint_url": ("endpoint", ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")),
}


def _with_profile(config: Mapping[str, str]) -> tuple[dict[str, str], dict[str, object]]:
    """Return options with the settings of an AWS profile, and further arguments for obstore.

    The profile is the option ``aws_profile`` or ``profile``, ``AWS_PROFILE``, or ``default``.

    Raises InvalidArgumentError: there is no profile of this name, or it needs boto3.
    """
    rest = dict(config)
    chosen = rest.pop("aws_profile", "") or rest.pop("profile", "")
    named = chosen or os.environ.get("AWS_PROFILE", "")
    given = {name.lower().removeprefix("aws_") for name in rest}
    has_keys = not given.isdisjoint(("access_key_id", "skip_signature")) or (
        not chosen and not os.environ.keys().isdisjoint(("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"))
    )
    settings = _settings_of(named or "default")
    if settings is None:
        if chosen or (named and not has_keys):
            raise InvalidArgumentError(
                f"There is no AWS profile {named!r} in {' or '.join(_files())}.",
                hint="Check aws_profile in storage_options, or AWS_PROFILE in the environment.",
                profile=named,
            )
        return rest, {}
    for name, (option, variables) in _OF_PROFILE.items():
        names = {option, *(one.lower().removeprefix("aws_") for one in variables)}
        known = names & given or (not chosen and any(one in os.environ for one in variables))
        if name in settings and not known:
            rest[option] = settings[name]
    if has_keys:
        return rest, {}
    if "aws_access_key_id" not in settings or any(one in settings for one in _NOT_KEYS):
        return rest, _of_boto3(named, settings)
    keys = {
        "access_key_id": settings["aws_access_key_id"],
        "secret_access_key": settings.get("aws_secret_access_key", ""),
        "token": settings.get("aws_session_token"),
        "expires_at": None,
    }
    # no options: obstore would take the token of other keys from the environment
    return rest, {"credential_provider": lambda: keys}


def _of_boto3(named: str, settings: Mapping[str, str]) -> dict[str, object]:
    """Return obstore's argument for credentials that boto3 fetches and renews."""
    if not any(one in settings for one in (*_NOT_KEYS, "credential_process")):
        return {}  # only a region or an endpoint
    try:
        from boto3 import Session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        if not named:
            return {}
        raise InvalidArgumentError(
            f"AWS profile {named!r} has no keys, but a role, single sign-on or a program.",
            hint="Install boto3, which fetches its credentials, or pass keys in storage_options.",
            profile=named,
        ) from None
    session = Session(profile_name=named or None)
    return {"credential_provider": Boto3CredentialProvider(session)}


def _files() -> tuple[str, str]:
    """Return the paths of AWS's files of settings and of credentials."""
    return (
        os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    )


def _settings_of(profile: str) -> dict[str, str] | None:
    """Return the settings of a profile from both files; ``None`` if no file has it."""
    found: dict[str, str] | None = None
    for file, prefix in zip(_files(), ("profile ", ""), strict=True):
        parser = RawConfigParser(default_section="", strict=False)
        try:
            parser.read(os.path.expanduser(file), encoding="utf-8")
        except (OSError, ParsingError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(
                f"The AWS file {file} cannot be read: {type(error).__name__}.",
                hint="Correct the file, or name another one by AWS_CONFIG_FILE or "
                "AWS_SHARED_CREDENTIALS_FILE.",
                file=file,
            ) from None
        for section in (f"{prefix}{profile}", profile if profile == "default" else ""):
            if section and parser.has_section(section):
                found = (found or {}) | dict(parser.items(section))
    return found


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
# obstore's wording; the message of a request that was not repeated says "after 0 retries"
_REPEATED = re.compile(r"after [1-9]\d* retries")


def redacted(text: str) -> str:
    """Return the first paragraph of a message, shortened, without credentials."""
    paragraph = SECRETS.sub("***", without_secrets(text.partition("\n\nDebug source:")[0]))
    return " ".join(paragraph.split())[:DETAIL_CHARACTERS]


def gave_up(error: StorageError) -> bool:
    """Return True if a request failed after retries: another request would take as long."""
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
