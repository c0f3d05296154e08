"""What obstore and the servers behind it say, as the package's own errors without secrets."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from lancekit.errors import LancekitError, StorageError
from lancekit.legible import without_secrets

__all__ = ["gave_up", "reading", "redacted", "translated"]

HINTS: tuple[tuple[type[Exception], str], ...] = (
    (FileNotFoundError, "Check the name of the bucket or container."),
    (PermissionDeniedError, "Check what these credentials may do in this bucket."),
    (UnauthenticatedError, "Check the credentials in storage_options or the environment."),
    (NotSupportedError, "This kind of store cannot do that; use another."),
    (InvalidPathError, "Choose another name."),
)
RETRY_HINT = "Check the address, the network and storage_options, then try again."

# Servers echo parts of a refused request: its key id, token and signature.
SECRETS = re.compile(
    r"<(AWSAccessKeyId|Token-\d+|StringToSign|SignatureProvided|CanonicalRequest)\b.*?</\1>",
    re.IGNORECASE | re.DOTALL,
)
DETAIL_CHARACTERS = 300
# in obstore's words, which it also says of a request that it did not repeat
_REPEATED = re.compile(r"after [1-9]\d* retries")


def redacted(text: str) -> str:
    """Return the first paragraph of a message, cut to a sentence or two, without credentials."""
    paragraph = SECRETS.sub("***", without_secrets(text.partition("\n\nDebug source:")[0]))
    return " ".join(paragraph.split())[:DETAIL_CHARACTERS]


def gave_up(error: StorageError) -> bool:
    """Tell whether a request was repeated in vain: another one would take as long."""
    return _REPEATED.search(str(error)) is not None


@contextmanager
def translated(action: str, uri: str) -> Iterator[None]:
    """Turn obstore's errors into ``StorageError``."""
    # The original is not chained: its text may hold what ``redacted`` takes out.
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
    """Turn obstore's errors into ``StorageError``, or ``FileNotFoundError`` if nothing is there."""
    missing = False
    with translated(action, uri):
        try:
            yield
        except FileNotFoundError:
            missing = True
    if missing:
        raise FileNotFoundError(errno.ENOENT, "No such object", uri)
