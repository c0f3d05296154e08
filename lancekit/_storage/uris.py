"""What is known of a store's URI and options before one is opened, without loading obstore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from lancekit.errors import InvalidArgumentError, InvalidTypeError, type_name

__all__ = ["SCHEMES", "check_options", "split"]

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
